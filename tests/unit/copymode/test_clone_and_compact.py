"""CLONE and COMPACT as bytes: what stays, what goes, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.accel.layout import ID_DEGENERATE, SectionKind
from rtviewer.build.builder import build_blas
from rtviewer.build.refit import update_blas
from rtviewer.copymode.clone import clone
from rtviewer.copymode.compact import compact, compacted_size
from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import InvalidInputError
from tests.unit.copymode.samples import BOXES, COMPACTABLE, MIXED, NAMES, UPDATABLE, samples


@pytest.mark.rule("CP-4", "CP-11", "BF-9")
@pytest.mark.parametrize("name", NAMES)
def test_a_clone_has_the_bytes_flags_and_size_of_its_source(name: str) -> None:
    source = samples()[name].structure
    before = source.data.tobytes()
    copy = clone(clone(source, address=512), address=0x4000)
    assert copy.data.tobytes() == before == source.data.tobytes()
    assert copy.address == 0x4000
    assert copy.build_flags == source.build_flags
    assert not np.shares_memory(copy.data, source.data)
    assert not copy.data.flags.writeable
    assert copy.data.ctypes.data % 64 == 0


@pytest.mark.rule("CP-4", "CP-13", "CP-14", "POST-5", "POST-6", "POST-8", "BF-9")
@pytest.mark.parametrize("name", NAMES)
def test_a_compacted_copy_has_the_size_told_and_the_flags_kept(name: str) -> None:
    source = samples()[name].structure
    before = source.data.tobytes()
    copy = compact(source, address=512)
    assert 0 < copy.size == compacted_size(source) <= source.size
    assert copy.used_size == copy.size == int(copy.header["size_in_bytes"])
    assert copy.build_flags == source.build_flags
    assert check(copy) == []
    assert source.data.tobytes() == before
    again = compact(copy)
    assert again.data.tobytes() == copy.data.tobytes()


def test_compaction_removes_the_room_that_a_build_did_not_need() -> None:
    for name in ("triangles", "boxes", "instances"):
        source = samples()[name].structure
        assert compact(source).size == source.used_size < source.size


@pytest.mark.rule("CP-14", "CP-15", "POST-5")
@pytest.mark.parametrize("inputs", [MIXED, BOXES], ids=["triangles", "boxes"])
@pytest.mark.parametrize("small", [BuildFlag.NONE, BuildFlag.MINIMIZE_MEMORY])
def test_the_chain_of_sizes_through_updates(inputs, small: BuildFlag) -> None:
    """Build, compact, update, last update, compact again."""
    built = build_blas(inputs, UPDATABLE | small)
    first = compact(built)
    updated = update_blas(first, inputs, UPDATABLE | small)
    final = update_blas(updated, inputs, COMPACTABLE | small)
    assert built.size >= first.size == updated.size == final.size
    assert final.section_offset(SectionKind.UPDATE)
    second = compact(final)
    assert second.size == compacted_size(final) <= final.size
    assert check(second) == []
    for kind in (SectionKind.UPDATE, SectionKind.INACTIVE):
        assert second.section_offset(kind) == 0
    for kind in (SectionKind.NODES, SectionKind.GEOMETRIES, SectionKind.INDICES, SectionKind.VERTICES):
        assert second.section(kind).tobytes() == final.section(kind).tobytes()
    assert second.packs.tobytes() == final.packs.tobytes()
    if inputs is MIXED:
        assert (second.packs["id"] & np.int32(ID_DEGENERATE) != 0).any()


@pytest.mark.rule("CP-15")
def test_a_second_compaction_is_smaller_where_update_data_took_room() -> None:
    final = samples()["triangles after the last update"].structure
    keeping = samples()["triangles updatable"].structure
    assert compacted_size(final) < compacted_size(keeping)


@pytest.mark.rule("CP-16", "CP-5")
def test_copies_of_a_top_level_keep_its_pointers() -> None:
    source = samples()["instances"].structure
    for copy in (clone(source), compact(source)):
        assert copy.instance_descs.tobytes() == source.instance_descs.tobytes()


@pytest.mark.rule("CP-12", "POST-4")
def test_without_allow_compaction_neither_copy_nor_size() -> None:
    source = build_blas(MIXED, BuildFlag.ALLOW_UPDATE)
    with pytest.raises(InvalidInputError) as copied:
        compact(source)
    with pytest.raises(InvalidInputError) as asked:
        compacted_size(source)
    assert copied.value.rules == ("CP-12",)
    assert asked.value.rules == ("POST-4",)
    assert "ALLOW_COMPACTION" in str(copied.value)
