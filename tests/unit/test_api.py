import subprocess
import sys

import numpy as np
import pytest

import rtviewer as rt


def test_exactly_what_is_listed_is_there():
    assert sorted(rt.__all__) == rt.__all__
    assert set(rt.__all__) == set(rt._PLACES)
    for name in rt.__all__:
        assert getattr(rt, name) is not None
    assert dir(rt) == sorted([*rt.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = rt.nothing


def test_names_come_from_where_they_are_defined():
    for name, module in rt._PLACES.items():
        if name == "build":  # also a sub-package
            continue
        assert getattr(rt, name).__module__ == module, name


def test_importing_loads_neither_numpy_nor_numba_nor_qt():
    code = """
import sys
import rtviewer
heavy = [n for n in ("numpy", "numba", "PySide6", "pyqtgraph", "OpenGL", "trimesh") if n in sys.modules]
assert not heavy, heavy
rtviewer.build, rtviewer.World, rtviewer.load_scene
heavy = [n for n in ("numba", "PySide6", "pyqtgraph", "OpenGL") if n in sys.modules]
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_version_is_the_packages():
    from importlib.metadata import version

    assert rt.__version__ == version("rtviewer")


def test_the_documented_example(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    scene = rt.load_scene(path)
    world = rt.build(scene, blas_flags=rt.BuildFlag.NONE)
    camera = rt.Camera((0, 0, 4), (0, 0, 0))
    image = world.trace(camera, size=(64, 36), ray_flags=rt.RayFlag.CULL_BACK_FACING_TRIANGLES)
    assert image.hit[18, 32]
    log = world.explain(pixel=(32, 18), camera=camera, size=(64, 36))
    assert log.result.hit
    assert np.float32(log.result.t) == image.t[18, 32]
    assert world.tlas.is_top_level
    behind = rt.Camera((0, 0, -4), (0, 0, 0))
    assert not world.trace(behind, size=(64, 36), ray_flags=rt.RayFlag.CULL_BACK_FACING_TRIANGLES).hit.any()
    typed = world.explain(origin=(0.5, 0.25, 3), direction=(0, 0, -2))
    assert typed.result.t == 1.5
    world.trace(camera, size=(64, 36))
    same = world.explain(pixel=(32, 18), camera=camera)  # of the last picture
    assert (same.size, same.result.t) == ((64, 36), log.result.t)


def test_structures_are_copied_saved_and_opened(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    world = rt.open_world(path, rt.BuildFlag.ALLOW_COMPACTION)
    blas = world.blases[0]
    assert rt.compact(blas).size == rt.compacted_size(blas) < blas.size
    blob = rt.serialize(world.tlas)
    assert len(blob) == rt.serialized_size(world.tlas)
    assert rt.describe_blob(blob).pointer_count == 1
    assert rt.deserialize(blob, address=256).address == 256
    assert len(rt.decode(blas)) == rt.decoded_size(blas)
    assert isinstance(rt.read_decode(rt.decode(blas)), rt.DecodedBlas)
    assert np.array_equal(rt.clone(blas).data, blas.data)
    world.save(tmp_path / "pane.rtcap")
    again = rt.open_world(tmp_path / "pane.rtcap")
    assert np.array_equal(again.trace(size=(32, 18)).t, world.trace(size=(32, 18)).t)
    with pytest.raises(rt.RtviewerError, match="not built again"):
        rt.open_world(tmp_path / "pane.rtcap", rt.BuildFlag.ALLOW_UPDATE)
    (tmp_path / "tlas.rtblob").write_bytes(blob.tobytes())
    (tmp_path / "blas.rtblob").write_bytes(rt.serialize(blas).tobytes())
    alone = rt.open_world(tmp_path / "tlas.rtblob", bottom_levels=[tmp_path / "blas.rtblob"])
    assert alone.trace(world.scene.camera, size=(32, 18)).hit.any()


@pytest.mark.rule("BLD-6", "POST-7", "CP-16")
def test_a_d3d12_program_is_transcribed_call_by_call():
    """Two triangles, a sphere's box, three instances: as an application would build and trace them, by public names."""
    device = rt.Device()
    states, layouts = rt.ResourceState, rt.GpuVirtualAddressAndStride

    def upload(data, name):
        buffer = device.create_buffer(len(data), states.NON_PIXEL_SHADER_RESOURCE, name)
        buffer.write(data)
        return buffer.address

    def build(inputs, name):
        info = device.get_prebuild_info(inputs)
        structure = states.RAYTRACING_ACCELERATION_STRUCTURE
        dest = device.create_buffer(info.result_data_max_size_in_bytes, structure, name)
        scratch = device.create_buffer(info.scratch_data_size_in_bytes, states.UNORDERED_ACCESS, "scratch")
        device.build(rt.BuildDesc(dest.address, inputs, 0, scratch.address))
        device.uav_barrier(dest)
        return dest

    vertices = upload(np.float32([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]).tobytes(), "vertices")
    indices = upload(np.uint16([0, 1, 2, 2, 1, 3]).tobytes(), "indices")
    triangles = rt.GeometryDesc(
        rt.GeometryType.TRIANGLES,
        rt.GeometryFlag.NONE,
        rt.TrianglesDesc(
            index_format=rt.IndexFormat.R16_UINT,
            vertex_format=rt.VertexFormat.R32G32B32_FLOAT,
            index_count=6,
            vertex_count=4,
            index_buffer=indices,
            vertex_buffer=layouts(vertices, 12),
        ),
    )
    box = upload(np.float32([-1, -1, -1, 1, 1, 1]).tobytes(), "aabb")
    procedural = rt.GeometryDesc(
        rt.GeometryType.PROCEDURAL_PRIMITIVE_AABBS, rt.GeometryFlag.OPAQUE, aabbs=rt.AabbsDesc(1, layouts(box, 24))
    )
    quad = build(rt.BuildInputs.bottom_level([triangles], rt.BuildFlag.ALLOW_COMPACTION), "quad")
    ball = build(rt.BuildInputs.bottom_level([procedural]), "ball")

    # Compaction: ask for the size, read it back, copy.
    size = device.create_buffer(8, states.UNORDERED_ACCESS, "compacted size")
    device.emit_postbuild_info(rt.PostbuildInfoDesc(size.address, rt.PostbuildInfoType.COMPACTED_SIZE), [quad.address])
    compacted_size = int(size.view(np.uint64)[0])
    assert 0 < compacted_size < quad.size
    small = device.create_buffer(compacted_size, states.RAYTRACING_ACCELERATION_STRUCTURE, "compacted quad")
    device.copy(small.address, quad.address, rt.CopyMode.COMPACT)
    device.uav_barrier(small)
    device.free(quad)

    def placed(x, contribution, address):
        matrix = [[1, 0, 0, x], [0, 1, 0, 0], [0, 0, 1, 0]]
        return rt.InstanceDesc(
            matrix, instance_id=40 + x, instance_contribution_to_hit_group_index=contribution,
            acceleration_structure=address,
        )  # fmt: skip

    descs = [placed(0, 0, small.address), placed(5, 1, ball.address), placed(10, 2, small.address)]
    instances = upload(rt.instance_desc_array(descs).tobytes(), "instances")
    tlas = build(rt.BuildInputs.top_level(3, instances), "TLAS")

    rays = rt.RayBatch.make(
        [[0.2, 0.2, -5], [5, 0, -5], [10.8, 0.8, -5], [10.2, 0.2, -5], [20, 0, -5]], [[0, 0, 1]] * 5
    )
    table = rt.HitGroupTable.of(
        [
            rt.HitGroup(rt.HitGroupType.TRIANGLES),
            rt.HitGroup(rt.HitGroupType.PROCEDURAL_PRIMITIVE, intersection=rt.IntersectionProgram.SPHERE),
            rt.HitGroup(rt.HitGroupType.TRIANGLES, any_hit=rt.AnyHitProgram.IGNORE_ODD_PRIMITIVES),
        ]
    )
    result = device.trace(tlas.address, rays, rt.TraceSettings(hit_groups=table))
    assert result.hits.hit.tolist() == [True, True, False, True, False]
    assert result.hits.t[[0, 1, 3]].tolist() == [5, 4, 5]
    assert result.hits.instance_id[[0, 1, 3]].tolist() == [40, 45, 50]
    assert result.hits.hit_group_index.tolist() == [0, 1, -1, 2, -1]

    # Inline: the same ray asks its caller, who takes what the any-hit program above ignored.
    structures = {address: device.structure_at(address) for address in (small.address, ball.address)}
    dispatcher = rt.Dispatcher(device.structure_at(tlas.address), structures)
    query = rt.RayQuery()
    query.trace_ray_inline(dispatcher, rt.RayFlag.NONE, 0xFF, (10.8, 0.8, -5.0), (0.0, 0.0, 1.0))
    assert query.proceed()
    assert query.candidate_type() is rt.CandidateType.NON_OPAQUE_TRIANGLE
    query.commit_non_opaque_triangle_hit()
    assert not query.proceed()
    assert query.committed_status() is rt.CommittedStatus.TRIANGLE_HIT
    assert device.warnings == []

    # Building a bottom level again makes the top level stale.
    inputs = rt.BuildInputs.bottom_level([procedural])
    scratch_size = device.get_prebuild_info(inputs).scratch_data_size_in_bytes
    scratch = device.create_buffer(scratch_size, states.UNORDERED_ACCESS, "scratch")
    device.build(rt.BuildDesc(ball.address, inputs, 0, scratch.address))
    with pytest.raises(rt.InvalidInputError, match="BLD-6"):
        device.trace(tlas.address, rays)


def test_without_a_camera_the_scenes_own_or_the_fitting_one_is_used(tmp_path):
    path = tmp_path / "pane.obj"
    path.write_text("v -1 -1 0\nv 1 -1 0\nv 1 1 0\nv -1 1 0\nf 1 2 3 4\n")
    world = rt.build(rt.load_scene(path))
    image = world.trace(size=(32, 18))
    assert image.camera == world.scene.camera
    assert image.hit.any()


def test_build_is_both_the_function_and_the_sub_package():
    for first in (
        "import rtviewer.build.plan",
        "import rtviewer as rt; rt.build",
        "from rtviewer.build import builder",
    ):
        code = f"""
{first}
import rtviewer as rt
import rtviewer.build.builder as builder
from rtviewer.build import plan
assert rt.build.builder is builder
assert rt.build.plan is plan
assert isinstance(rt.build(rt.Scene("empty")), rt.World)
"""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_stub_lists_the_same_names_from_the_same_places():
    import ast
    from pathlib import Path

    stub = ast.parse(Path(rt.__file__).with_suffix(".pyi").read_text())
    places = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert places == rt._PLACES
