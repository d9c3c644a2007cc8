"""Blob files: told by their GUID, opened alone or with their bottom levels; foreign ones are only looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtviewer.copymode.identify import GUID
from rtviewer.copymode.serialize import serialize
from rtviewer.dxr.flags import DriverMatchingIdentifierStatus
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.blob_file import is_own_blob, read_blob, write_blob
from rtviewer.io.bottom_level_files import BottomLevelFile, matched_files
from rtviewer.io.registry import ForeignBlob, load_scene, load_source
from rtviewer.io.structure_set import StructureSet
from tests.unit.io.structure_sets import small_set


@pytest.fixture(scope="module")
def content() -> StructureSet:
    return small_set()


@pytest.fixture
def files(content: StructureSet, tmp_path: Path) -> list[Path]:
    """The top level's blob, then those of the bottom levels, in address order."""
    assert content.tlas is not None
    paths = [tmp_path / f"{index}.rtblob" for index in range(4)]
    for path, structure in zip(paths, content.structures, strict=True):
        write_blob(path, serialize(structure))
    return paths


def opened(path: Path, *bottom_levels: str | Path) -> StructureSet:
    found = load_source(path, bottom_levels=[BottomLevelFile.parse(str(text)) for text in bottom_levels])
    assert isinstance(found, StructureSet)
    return found


def test_what_is_written_is_read(files: list[Path], content: StructureSet) -> None:
    for path, structure in zip(files, content.structures, strict=True):
        assert read_blob(path) == serialize(structure).tobytes()


def test_a_bottom_level_opens_alone(files: list[Path], content: StructureSet) -> None:
    found = opened(files[1])
    assert found.tlas is None
    (blas,) = found.blases
    assert blas.size == content.blases[0].used_size
    assert blas.address % 256 == 0 < blas.address
    with pytest.raises(FileFormatError, match="none below"):
        opened(files[1], files[2])


@pytest.mark.rule("SER-5", "SER-7")
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
def test_a_top_level_takes_its_bottom_levels_by_order_or_by_address(
    files: list[Path], content: StructureSet, order: tuple[int, ...]
) -> None:
    addresses = [structure.address for structure in content.structures]
    by_address = [f"{addresses[number]:#x}={files[number]}" for number in order]
    in_order = [str(files[number]) for number in sorted(order)]
    mixed = [in_order[0], by_address[order.index(3)], in_order[1]]
    for given in (by_address, in_order, mixed):
        found = opened(files[0], *given)
        assert found.tlas is not None
        pointers = found.tlas.instance_descs["AccelerationStructure"]
        position = {blas.address: index for index, blas in enumerate(found.blases)}
        assert [position.get(int(p), -1) for p in pointers] == [0, 1, 0, -1, 2]
        assert [blas.name for blas in found.blases] == ["1", "2", "3"]


def test_a_top_level_says_what_it_needs(files: list[Path], content: StructureSet) -> None:
    first = f"{content.blases[0].address:#x}"
    for given in ([], [files[1]], [*files[1:], files[1]], [f"{first}={files[1]}", f"{first}={files[1]}", files[2]]):
        with pytest.raises(FileFormatError, match="one bottom level for each address") as caught:
            opened(files[0], *given)
        assert first in str(caught.value)
    with pytest.raises(FileFormatError, match="no instance names this address"):
        opened(files[0], f"0x100={files[1]}")
    with pytest.raises(FileFormatError, match="a top level where a bottom level is needed"):
        opened(files[0], files[0], files[2], files[3])


def test_names_of_files_may_hold_an_equals_sign() -> None:
    assert BottomLevelFile.parse("a=b.rtblob") == BottomLevelFile(Path("a=b.rtblob"))
    assert BottomLevelFile.parse("0x100=a=b.rtblob") == BottomLevelFile(Path("a=b.rtblob"), 256)
    assert BottomLevelFile.parse("512=b") == BottomLevelFile(Path("b"), 512)


def test_files_are_matched_in_the_order_of_addresses() -> None:
    pointers = np.array([768, 0, 256, 768, 512], np.uint64)
    names = [BottomLevelFile(Path(name)) for name in "abc"]
    assert matched_files(Path("t"), pointers, names) == {256: Path("a"), 512: Path("b"), 768: Path("c")}


def test_another_suffix_is_told_by_the_guid(files: list[Path], tmp_path: Path) -> None:
    assert is_own_blob(files[1].read_bytes())
    assert not is_own_blob(files[1].read_bytes()[:55])
    other = tmp_path / "structure.bin"
    other.write_bytes(files[1].read_bytes())
    assert opened(other).tlas is None
    other.write_bytes(bytes(16) + files[1].read_bytes()[16:])
    with pytest.raises(FileFormatError, match="unknown kind"):
        load_source(other)


@pytest.mark.rule("SER-8", "SER-9")
@pytest.mark.parametrize(
    ("place", "status"),
    [
        (0, DriverMatchingIdentifierStatus.UNRECOGNIZED),
        (16, DriverMatchingIdentifierStatus.INCOMPATIBLE_VERSION),
    ],
)
def test_a_foreign_blob_is_only_looked_at(
    files: list[Path], place: int, status: DriverMatchingIdentifierStatus
) -> None:
    data = bytearray(files[0].read_bytes())
    data[place] ^= 0xFF
    files[0].write_bytes(bytes(data))
    if status is DriverMatchingIdentifierStatus.INCOMPATIBLE_VERSION:
        with pytest.raises(FileFormatError, match="SER-8"):
            opened(files[0], *files[1:])
        return
    found = load_source(files[0])
    assert isinstance(found, ForeignBlob)
    assert found.data == bytes(data)
    assert found.description.status is status
    assert found.description.guid != GUID
    assert found.description.pointer_count == 5
    with pytest.raises(FileFormatError, match="takes no --blas"):
        load_source(files[0], bottom_levels=[BottomLevelFile(files[1])])


def test_every_truncation_and_many_changes_are_refused(files: list[Path], tmp_path: Path) -> None:
    data = files[1].read_bytes()
    path = tmp_path / "hostile.rtblob"
    random = np.random.default_rng(8)
    for length in [*range(0, len(data), 61), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(FileFormatError, match=r"hostile\.rtblob"):
            load_source(path)
    for place in random.integers(32, len(data), 300):
        changed = bytearray(data)
        changed[place] ^= 1 << int(random.integers(8))
        path.write_bytes(bytes(changed))
        with pytest.raises(FileFormatError, match=r"hostile\.rtblob"):
            load_source(path)
    path.write_bytes(data + b"what follows")
    opened(path)  # a buffer may be larger than what is in it


def test_structures_are_no_scenes_and_need_no_bottom_levels_elsewhere(files: list[Path], tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="structures, not a scene"):
        load_scene(files[0])
    with pytest.raises(FileFormatError, match="--blas goes with"):
        load_source("scenes/cornell", bottom_levels=[BottomLevelFile(files[1])])
    with pytest.raises(FileFormatError, match=r"scene\.toml or manifest\.json"):
        load_source(tmp_path)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, content: StructureSet) -> None:
    with pytest.raises(RtviewerError, match="cannot write"):
        write_blob(tmp_path / "nowhere" / "a.rtblob", serialize(content.structures[1]))
