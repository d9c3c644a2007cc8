"""Worlds of finished structures: what their bytes give back is what was built."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.accel import layout
from rtviewer.accel.structure import Structure
from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import FileFormatError, StructureError
from rtviewer.scene.primitives import degenerate_triangles, inactive_triangles, normalised_boxes, triangle_corners
from rtviewer.session.document import World, build_world
from rtviewer.session.opening import load_document, open_document
from rtviewer.session.structures import (
    instances_of,
    next_address,
    recovered_inputs,
    set_of,
    with_structure,
    world_of,
)
from tests.unit.io.structure_sets import small_world

HITS = ("hit", "t", "instance_index", "instance_id", "geometry_index", "primitive_index", "hit_kind", "attributes")


def same_picture(first: World, second: World) -> bool:
    camera = first.scene.camera
    before, after = first.trace(camera, (80, 60)), second.trace(camera, (80, 60))
    assert before.hit.any()
    same = all(np.array_equal(getattr(before, name), getattr(after, name), equal_nan=name == "t") for name in HITS)
    return same and np.array_equal(before.picture().normals, after.picture().normals, equal_nan=True)


@pytest.fixture(scope="module", params=[BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY, BuildFlag.ALLOW_UPDATE])
def small(request):
    return small_world(request.param)


@pytest.mark.rule("VIS-5", "VIS-11", "VIS-12", "GEO-7")
def test_inputs_come_back_from_the_leaves(small):
    for blas, given in zip(small.blases, small.scene.blases, strict=True):
        found = recovered_inputs(blas)
        assert len(found.geometries) == len(given.geometries)
        for geometry, source in zip(found.geometries, given.geometries, strict=True):
            assert geometry.flags == source.flags
            assert geometry.primitive_count == source.primitive_count
            if isinstance(source, AabbsGeometry):
                assert np.array_equal(geometry.aabbs, normalised_boxes(source.aabbs))
                continue
            assert isinstance(geometry, TrianglesGeometry)
            corners, expected = triangle_corners(geometry), triangle_corners(source)
            shown = ~np.isnan(corners[:, 0, 0])
            assert np.array_equal(corners[shown], expected[shown])
            assert np.isnan(corners[~shown]).all()
            assert (shown | inactive_triangles(expected) | degenerate_triangles(expected)).all()
            assert not (shown & inactive_triangles(expected)).any()


def test_instances_come_back_from_the_descs(small):
    position = {blas.address: index for index, blas in enumerate(small.blases)}
    names = tuple(instance.name for instance in small.scene.instances)
    found = instances_of(small.tlas, position, names)
    for instance, given in zip(found, small.scene.instances, strict=True):
        assert np.array_equal(instance.transform, given.transform)
        assert replace(instance, transform=given.transform) == given


def test_a_world_of_structures_traces_and_shows_the_same(small):
    world = world_of(set_of(small))
    assert same_picture(small, world)
    assert world.scene.cameras == small.scene.cameras
    assert [blas.name for blas in world.scene.blases] == [blas.name for blas in small.scene.blases]
    assert len(world.tree(0)) == len(small.tree(0))
    ray = {"origin": (0.1, 0.2, 5), "direction": (0, 0, -1)}
    assert [row.text for row in world.explain(**ray)] == [row.text for row in small.explain(**ray)]


@pytest.mark.parametrize("name", ["cornell", "culling_lab", "sphereflake", "wave"])
def test_the_shipped_scenes_survive_a_capture(name, tmp_path):
    document = load_document(f"scenes/{name}")
    document.world.save(tmp_path / "world.rtcap")
    assert same_picture(document.world, load_document(tmp_path / "world.rtcap").world)


def test_what_was_recovered_can_be_built_again(small):
    world = world_of(set_of(small))
    assert same_picture(small, build_world(world.scene, world.settings))


def test_a_bottom_level_alone_gets_one_instance(small):
    lone = replace(set_of(small), tlas=None, blases=(replace(small.blases[0], address=0),), geometry_names=())
    world = world_of(lone)
    assert len(world.scene.instances) == 1
    assert world.blas_of_instance(0) == 0
    assert world.tlas.address >= world.blases[0].address + world.blases[0].size
    assert world.trace(size=(32, 24)).hit.any()


@pytest.mark.rule("CP-16", "BLD-10")
def test_a_moved_bottom_level_is_seen_through_a_new_top_level(small):
    moved = replace(small.blases[0], address=next_address([small.tlas, *small.blases]))
    world = with_structure(small, 0, moved)
    assert moved.address in world.tlas.instance_descs["AccelerationStructure"]
    assert small.blases[0].address not in world.tlas.instance_descs["AccelerationStructure"]
    assert world.instance_blas.tolist() == small.instance_blas.tolist()
    assert same_picture(small, world)


def test_a_count_that_the_bytes_cannot_account_for_is_not_believed(small):
    data = small.blases[0].data.copy()
    data[: layout.HEADER.itemsize].view(layout.HEADER)["input_count"] = (1 << 29) - 1
    with pytest.raises(StructureError, match="536,870,911 primitives"):
        recovered_inputs(Structure(data, "liar"))


def test_captures_open_as_documents_without_inputs(small, tmp_path):
    for path in (tmp_path / "world.rtcap", tmp_path / "folder"):
        small.save(path)
        document = load_document(path)
        assert not document.has_inputs
        assert document.world.scene is document.scene
        assert document.title == "small"
        assert same_picture(small, document.world)


@pytest.mark.rule("SER-8")
def test_a_foreign_blob_is_a_blob_document_and_no_world(small, tmp_path):
    from rtviewer.copymode.serialize import serialize

    path = tmp_path / "foreign.rtblob"
    path.write_bytes(bytes(16) + serialize(small.tlas).tobytes()[16:])
    document = open_document(path)
    assert document.title == "foreign.rtblob"
    assert document.description.pointer_count == 5
    with pytest.raises(FileFormatError, match="SER-8"):
        load_document(path)


def test_other_names_are_not_saved_as(small, tmp_path):
    with pytest.raises(FileFormatError, match=r"\.rtcap"):
        small.save(tmp_path / "world.zip")
    (tmp_path / "there.rtcap").mkdir()
    with pytest.raises(FileFormatError, match="folder of that name"):
        small.save(tmp_path / "there.rtcap")
