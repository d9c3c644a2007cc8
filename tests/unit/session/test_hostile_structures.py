"""Files whose checksums fit but whose structures were changed by hand: refused, or a world that can be used."""

from __future__ import annotations

import time

import numpy as np
import pytest

from rtviewer.copymode.serialize import PAYLOAD_HEADER, payload_checksum, serialize
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import RtviewerError
from rtviewer.session.opening import load_document
from tests.unit.io.structure_sets import small_world

HEADER_SIZE = 56
VALUES = (0, 1, 2, 0x7F, 0x80, 0xFF)


def resealed(blob: np.ndarray, pointer_count: int) -> np.ndarray:
    """The blob with the checksum of what it holds now."""
    begin = HEADER_SIZE + 8 * pointer_count
    payload = blob[begin : begin + PAYLOAD_HEADER.itemsize].view(PAYLOAD_HEADER)
    payload["checksum"] = payload_checksum(blob)
    return blob


def use_all_of(world) -> None:
    """What a window does with a world: trees, statistics, sizes, picture with normals, log."""
    for index in world.structure_indices:
        assert len(world.tree(index)) >= 0
        assert world.statistics(index).depth >= 0
    image = world.trace(world.scene.camera, (16, 12))
    assert image.picture().normals.shape == (12, 16, 3)
    assert list(world.explain(pixel=(8, 6)))


@pytest.mark.rule("SER-12")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY | BuildFlag.ALLOW_UPDATE])
@pytest.mark.parametrize("which", [-1, 0, 1])
def test_changed_structures_with_true_checksums(tmp_path, flags, which):
    world = small_world(flags)
    folder = tmp_path / "world"
    files = world.save(folder)
    pointers = len(world.tlas.instance_descs) if which < 0 else 0
    blob, path = serialize(world.structure(which)), files[which + 1]
    first = HEADER_SIZE + 8 * pointers + PAYLOAD_HEADER.itemsize
    random = np.random.default_rng(which + 17)
    start, refused, used = time.monotonic(), 0, 0
    for _ in range(150):
        changed = blob.copy()
        is_header = random.random() < 0.3
        for place in random.integers(first, first + 512 if is_header else len(blob), int(random.integers(1, 3))):
            changed[place] = (
                random.choice(VALUES) if random.random() < 0.7 else changed[place] ^ (1 << random.integers(8))
            )
        path.write_bytes(resealed(changed, pointers).tobytes())
        try:
            document = load_document(folder)
            use_all_of(document.world)
            used += 1
        except RtviewerError:
            refused += 1
    assert refused
    assert used
    assert time.monotonic() - start < 60
