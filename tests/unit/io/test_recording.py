"""Recordings are read whole or refused with the place that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rtviewer.dxr.descs import AabbsGeometry, TrianglesGeometry
from rtviewer.dxr.formats import IndexFormat, VertexFormat
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, PROCEDURAL, TRIANGLES, HitGroupTable, HitGroupType
from rtviewer.errors import FileFormatError
from rtviewer.io.recording import address_of, read_recorded_result, read_recording, recorded_prefixes

DRIVER = Path(__file__).parents[2] / "golden" / "driver"
Arrays = dict[str, np.ndarray]


def load(kind: str, name: str) -> Arrays:
    with np.load(DRIVER / kind / f"{name}.npz") as arrays:
        return {key: arrays[key] for key in arrays.files}


def written(tmp_path: Path, arrays: Arrays) -> Path:
    path = tmp_path / "scene.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def test_a_scene() -> None:
    recording = read_recording(DRIVER / "scenes" / "fuzz_a.npz")
    arrays = load("scenes", "fuzz_a")
    assert recording.name == "fuzz_a"
    assert len(recording) == 4000
    assert [len(blas.geometries) for blas in recording.first.blases] == [3, 2, 1, 2, 2]
    first, procedural = recording.first.blases[0].geometries[1], recording.first.blases[3].geometries[0]
    assert isinstance(first, TrianglesGeometry)
    np.testing.assert_array_equal(first.transform, arrays["b0g1_transform"])  # type: ignore[arg-type]
    np.testing.assert_array_equal(first.indices, arrays["b0g1_indices"])  # type: ignore[arg-type]
    assert recording.first.blases[1].geometries[1].indices is None  # type: ignore[union-attr]
    assert isinstance(procedural, AabbsGeometry)
    assert int(procedural.flags) == 3
    np.testing.assert_array_equal(recording.settings.ray_flags, arrays["ray_flags"])
    expected = [address_of(b) for b in arrays["instance_blas"]]
    assert recording.first.instances.blas_address.tolist() == expected
    assert recording.second is None
    assert recording.records == (TRIANGLES, PROCEDURAL)
    assert recording.settings.hit_groups == HitGroupTable.of([TRIANGLES, PROCEDURAL])


def test_hit_groups_and_vertex_formats() -> None:
    recording, arrays = read_recording(DRIVER / "scenes" / "fuzz_f.npz"), load("scenes", "fuzz_f")
    assert len(recording.records) == len(arrays["sbt_group_type"]) == 64
    for group, record in zip(arrays["sbt_group_type"], recording.records, strict=True):
        procedural, null = group in (1, 5, 7, 8), group == 6
        expected = HitGroupType.PROCEDURAL_PRIMITIVE if procedural else HitGroupType.TRIANGLES
        assert record.type == (HitGroupType.NULL if null else expected)
        assert (record.any_hit == AS_GIVEN) == (group in (0, 1, 3, 8))
        assert record.closest_hit == (group in (0, 1, 2, 7))
        assert record.intersection == (AS_GIVEN if procedural else ABSENT)
    np.testing.assert_array_equal(recording.record_user, arrays["sbt_user"])
    formats = {(g.vertex_format, g.index_format) for g in recording.first.blases[1].geometries}  # type: ignore[union-attr]
    assert {f for f, _ in formats} >= {VertexFormat.R16G16_FLOAT, VertexFormat.R16G16B16A16_SNORM}
    assert {i for _, i in formats} <= set(IndexFormat)


def test_the_second_state() -> None:
    recording, arrays = read_recording(DRIVER / "scenes" / "fuzz_f.npz"), load("scenes", "fuzz_f")
    after = recording.in_second_state
    assert (after.second, after.rays) == (None, recording.rays)
    first, second = recording.first.blases, after.first.blases
    np.testing.assert_array_equal(second[0].geometries[1].vertices, arrays["b0g1_vertices_update"])  # type: ignore[union-attr]
    assert first[0].geometries[1].vertex_format == second[0].geometries[1].vertex_format  # type: ignore[union-attr]
    np.testing.assert_array_equal(second[0].geometries[0].vertices, first[0].geometries[0].vertices)  # type: ignore[union-attr]
    np.testing.assert_array_equal(second[4].geometries[0].aabbs, arrays["b4g0_aabbs_update"])  # type: ignore[union-attr]
    np.testing.assert_array_equal(after.first.blas_of, arrays["instance_blas_update"])
    np.testing.assert_array_equal(after.first.instances.contribution, arrays["instance_sbt_offset_update"])
    with pytest.raises(ValueError, match="no second state"):
        after.in_second_state  # noqa: B018


def test_prefixes_of_answers() -> None:
    assert recorded_prefixes(DRIVER / "results" / "fuzz_a.npz") == []
    assert recorded_prefixes(DRIVER / "results" / "fuzz_f.npz") == ["state2__"]
    expected = ["pipe_skip_aabbs__", "pipe_skip_triangles__"]
    assert recorded_prefixes(DRIVER / "results" / "mixed_triangles_procedural.npz") == expected


def other_bytes(arrays: Arrays) -> None:
    raw = arrays["b1g2_vertices_raw"].copy()
    raw[5, 0] ^= 1
    arrays["b1g2_vertices_raw"] = raw


def short_rows(arrays: Arrays) -> None:
    arrays["b1g2_vertices_raw"] = arrays["b1g2_vertices_raw"][:, :4]


def fewer_updated_vertices(arrays: Arrays) -> None:
    arrays["b0g1_vertices_update"] = np.delete(arrays["b0g1_vertices_update"], -1, 0)


def fewer_updated_boxes(arrays: Arrays) -> None:
    arrays["b4g0_aabbs_update"] = arrays["b4g0_aabbs_update"][:-1]


def no_such_group(arrays: Arrays) -> None:
    arrays["sbt_group_type"] = np.full_like(arrays["sbt_group_type"], 9)


def no_such_second_blas(arrays: Arrays) -> None:
    arrays["instance_blas_update"] = arrays["instance_blas_update"] + 99


@pytest.mark.rule("VF-1", "VF-2", "UPD-8")
@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (other_bytes, "b1g2_vertices_raw", "vertex 5"),
        (short_rows, "b1g2_vertices_raw", "GEO-6"),
        (fewer_updated_vertices, "b0g1_vertices_update", "UPD-8"),
        (fewer_updated_boxes, "b4g0_aabbs_update", "UPD-8"),
        (no_such_group, "sbt_group_type", "0 to 8"),
        (no_such_second_blas, "instance_blas_update", "no such BLAS"),
    ],
)
def test_damaged_formats_states_and_records_are_named(
    tmp_path: Path, change: Callable[[Arrays], None], field: str, text: str
) -> None:
    arrays = load("scenes", "fuzz_f")
    change(arrays)
    with pytest.raises(FileFormatError, match=text) as caught:
        read_recording(written(tmp_path, arrays))
    assert caught.value.field == field


def test_a_result() -> None:
    recorded = read_recorded_result(DRIVER / "results" / "fuzz_a.npz", 4000)
    assert recorded.any_hit_rows.shape == (757, 4)
    assert not (recorded.missed & recorded.closest_hit_ran).any()
    other = read_recorded_result(DRIVER / "results" / "mixed_triangles_procedural.npz", 3360, "pipe_skip_triangles__")
    assert not (other.hit_kind >= 254).any()


def drop(arrays: Arrays) -> None:
    del arrays["ray_mask"]


def wrong_shape(arrays: Arrays) -> None:
    arrays["ray_mask"] = arrays["ray_mask"][:-1]


def wrong_type(arrays: Arrays) -> None:
    arrays["ray_mask"] = arrays["ray_mask"].astype(np.float32)


def too_large(arrays: Arrays) -> None:
    arrays["instance_mask"] = arrays["instance_mask"] + np.uint32(256)


def no_such_blas(arrays: Arrays) -> None:
    arrays["instance_blas"] = arrays["instance_blas"] + 99


def index_beyond(arrays: Arrays) -> None:
    arrays["b0g0_indices"] = arrays["b0g0_indices"] + np.uint32(9999)


def no_geometry_type(arrays: Arrays) -> None:
    meta = json.loads(str(arrays["meta_json"]))
    meta["blas"][0]["geometries"][0]["type"] = "spheres"
    arrays["meta_json"] = np.array(json.dumps(meta))


def not_json(arrays: Arrays) -> None:
    arrays["meta_json"] = np.array("{")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (drop, "ray_mask"),
        (wrong_shape, "ray_mask"),
        (wrong_type, "ray_mask"),
        (too_large, "instance_mask"),
        (no_such_blas, "instance_blas"),
        (index_beyond, "b0g0_indices"),
        (no_geometry_type, "meta_json"),
        (not_json, "meta_json"),
    ],
)
def test_a_damaged_scene_names_the_array(tmp_path: Path, change: Callable[[Arrays], None], field: str) -> None:
    arrays = load("scenes", "fuzz_a")
    change(arrays)
    with pytest.raises(FileFormatError) as caught:
        read_recording(written(tmp_path, arrays))
    assert caught.value.field == field


def test_rows_and_offsets_must_agree(tmp_path: Path) -> None:
    arrays = load("results", "fuzz_a")
    arrays["anyhit_log_offset"] = arrays["anyhit_log_offset"][::-1].copy()
    with pytest.raises(FileFormatError, match="disagree"):
        read_recorded_result(written(tmp_path, arrays), 4000)
    with pytest.raises(FileFormatError, match="shape"):
        read_recorded_result(DRIVER / "results" / "fuzz_a.npz", 3999)


def test_pickles_and_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "scene.npz"
    path.write_bytes(b"not an archive")
    with pytest.raises(FileFormatError, match="numpy archive"):
        read_recording(path)
    with pytest.raises(FileFormatError, match="numpy archive"):
        read_recording(written(tmp_path, {"meta_json": np.array([{}], object)}))
    with pytest.raises(FileFormatError, match="no such file"):
        read_recording(tmp_path / "absent.npz")


def test_truncated_archives_never_crash(tmp_path: Path) -> None:
    data = (DRIVER / "scenes" / "single_triangle.npz").read_bytes()
    path = tmp_path / "scene.npz"
    for size in range(0, len(data), 97):
        path.write_bytes(data[:size])
        with pytest.raises(FileFormatError):
            read_recording(path)


def test_flipped_bytes_never_crash(tmp_path: Path) -> None:
    data = bytearray((DRIVER / "scenes" / "single_triangle.npz").read_bytes())
    rng = np.random.default_rng(12)
    path = tmp_path / "scene.npz"
    for _ in range(200):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            read_recording(path)
        except FileFormatError:
            continue
