"""Every triangle file of ``../shared/assets`` against the counts and bounds that its README states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rtviewer.errors import FileFormatError
from rtviewer.io.registry import load_scene
from rtviewer.scene.inputs import scene_statistics

ASSETS = Path(__file__).parents[4] / "shared" / "assets"
ROW = re.compile(r"^\| (★ )?`(?P<file>[^`]+)`[^|]*\| (?P<counts>\d[^|]*?) \| (?P<bounds>[^|]*?) ?\|")
NUMBER = r"-?\d[\d.]*(?:e[-+]\d+)?"

# Read only with an extension that is not supported, or damaged on purpose: the message must say which.
REFUSED = {
    "gltf-compressed/Box_Draco.glb": "KHR_draco_mesh_compression",
    "gltf-compressed/2CylinderEngine.gltf": "KHR_draco_mesh_compression",
    "gltf-compressed/DenseSphere.glb": "KHR_draco_mesh_compression",
    "gltf-compressed/BoxMeshopt.glb": "EXT_meshopt_compression",
    "gltf-compressed/pirate.glb": "EXT_meshopt_compression",
    "gltf-compressed/japanese-temple/scene.gltf": "EXT_meshopt_compression",
    "gltf-broken/truncated_chunk_data.glb": "cut short",
}

# Where the README's simple reader counted triangles whose index is out of range; ours drops them.
DROPPED = {"gltf-broken/IndexOutOfRange.gltf": 11, "gltf-broken/index_buffer_oob.gltf": 1}

# Files whose bounds the README leaves out although positions are there (binary STL behind the word "solid").
BOUNDS_NOT_STATED = {"stl/HalfDonut.stl"}


@dataclass(frozen=True)
class Row:
    file: str
    stored: int
    drawn: int | None
    instances: int | None
    mirrored: int | None
    bounds: tuple[list[float], list[float]] | None


def _rows() -> list[Row]:
    readme = ASSETS / "README.md"
    if not readme.exists():
        return []
    rows, folder = [], ""
    for line in readme.read_text("utf-8").splitlines():
        if line.startswith("## "):
            named = re.search(r"\(`([^`]+)/`\)", line)
            folder = named[1] if named else {"## Interiors and levels": "interiors"}.get(line, folder)
        match = ROW.match(line)
        if not match:
            continue
        counts, bounds = match["counts"], match["bounds"]
        vectors = re.findall(rf"(?:min|max) \(({NUMBER}), ({NUMBER}), ({NUMBER})\)", bounds)
        mirrored = re.search(r"(\d+) mirrored", bounds)
        instances = re.search(r"(\d+) instances", counts)
        drawn = re.search(r"(\d+) drawn", counts)
        stored = re.match(r"\d+", counts)
        assert stored is not None
        rows.append(
            Row(
                f"{folder}/{match['file']}",
                int(stored[0]),
                int(drawn[1]) if drawn else None,
                int(instances[1]) if instances else None,
                int(mirrored[1]) if mirrored else None,
                ([float(v) for v in vectors[0]], [float(v) for v in vectors[1]]) if len(vectors) == 2 else None,
            )
        )
    return rows


ROWS = _rows()
pytestmark = pytest.mark.skipif(not ROWS, reason="../shared/assets is not there")


def test_the_table_was_understood() -> None:
    assert len(ROWS) == 103
    assert sum(row.bounds is not None for row in ROWS) > 70


@pytest.mark.parametrize("row", [row for row in ROWS if row.file not in REFUSED], ids=lambda row: row.file)
def test_counts_and_bounds(row: Row) -> None:
    found = scene_statistics(load_scene(ASSETS / row.file))
    stored = DROPPED.get(row.file, row.stored)
    assert found.triangles_stored == stored
    if row.drawn is not None:
        assert found.triangles_drawn == row.drawn
    elif row.bounds is not None:
        assert found.triangles_drawn == stored
    if row.instances is not None:
        assert found.instances == row.instances
    if row.file.endswith((".gltf", ".glb")):
        assert found.instances_mirrored == (row.mirrored or 0)
    if row.bounds is None:
        assert found.bounds is None or row.file in BOUNDS_NOT_STATED
    else:
        assert found.bounds is not None
        scale = np.abs(row.bounds).max()
        np.testing.assert_allclose(found.bounds, row.bounds, rtol=1e-5, atol=1e-6 * min(scale, 1.0))


@pytest.mark.parametrize("file", REFUSED)
def test_what_is_not_read_is_refused_in_one_line(file: str) -> None:
    with pytest.raises(FileFormatError, match=REFUSED[file]) as caught:
        load_scene(ASSETS / file)
    assert "\n" not in str(caught.value)
    assert Path(file).name in str(caught.value)
