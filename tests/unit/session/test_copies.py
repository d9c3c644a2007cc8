"""The copy verbs and the update experiments of a session, with the records they leave."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.copymode.serialize import serialize
from rtviewer.dxr.flags import BuildFlag, CopyMode
from rtviewer.errors import FileFormatError, InvalidInputError, RtviewerError, StructureError
from rtviewer.scene.deform import deformed
from rtviewer.session.commands import Session
from rtviewer.session.copies import (
    copied_world,
    copy_to_bytes,
    copy_to_new,
    free_address,
    made_copy,
    read_copy,
    sizes_of,
    structure_named,
)
from rtviewer.session.document import TOP_LEVEL, Document, build_world
from rtviewer.session.events import BlobChanged, CopyMade, DocumentChanged, Refusal, Refused
from rtviewer.session.opening import load_document
from rtviewer.session.records import UpdateKind
from rtviewer.session.state import BuildSettings
from rtviewer.session.updates import updated_document
from tests.unit.io.structure_sets import small_world
from tests.unit.session.test_structures import same_picture

BOTH = BuildFlag.ALLOW_UPDATE | BuildFlag.ALLOW_COMPACTION
STRUCTURE_MODES = (CopyMode.CLONE, CopyMode.COMPACT, CopyMode.DESERIALIZE)


@pytest.fixture(scope="module")
def small():
    return small_world(BOTH)


@pytest.fixture
def session(small):
    session = Session()
    session.show_document(Document(None, small.scene, small))
    session.heard = []
    session.listen(session.heard.append)
    yield session
    session.close()


def done(session, job):
    """Wait for a verb; its errors are the test's."""
    assert not isinstance(job, Refusal), job
    assert session.wait()
    for event in session.heard:
        if getattr(event, "error", None) is not None:
            raise event.error
    return session.document


# --- pure copies --------------------------------------------------------------------------------------------------


@pytest.mark.rule("CP-10", "CP-13", "PRE-6", "POST-5", "POST-9")
def test_sizes_are_those_of_the_copies(small):
    for index in small.structure_indices:
        sizes, structure = sizes_of(small, index), small.structure(index)
        assert sizes.current == structure.size == sizes.result_max
        assert sizes.compacted == copy_to_new(structure, CopyMode.COMPACT, 0).size <= sizes.current
        assert sizes.serialized == len(copy_to_bytes(structure, CopyMode.SERIALIZE))
        assert sizes.decoded == len(copy_to_bytes(structure, CopyMode.VISUALIZATION_DECODE_FOR_TOOLS))
        assert sizes.update_scratch > 0
        assert set(sizes.to_json()) >= {"name", "current", "compacted"}
    assert sizes_of(small_world(), 0).compacted is None


@pytest.mark.parametrize("mode", STRUCTURE_MODES)
def test_a_world_of_copies_traces_the_same(small, mode):
    world = copied_world(small, mode, list(small.structure_indices))
    assert same_picture(small, world)
    old = {structure.address for structure in (small.tlas, *small.blases)}
    places = sorted((s.address, s.address + s.size) for s in (world.tlas, *world.blases))
    assert not old & {address for address, _ in places}
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    for index in world.structure_indices:
        assert check(world.structure(index)) == []
        if mode is CopyMode.COMPACT:
            assert world.structure(index).size == sizes_of(small, index).compacted


def test_modes_are_not_mixed_up(small):
    with pytest.raises(StructureError, match="SERIALIZE"):
        copy_to_new(small.tlas, CopyMode.SERIALIZE, 0)
    with pytest.raises(StructureError, match="CLONE"):
        copy_to_bytes(small.tlas, CopyMode.CLONE)
    with pytest.raises(RtviewerError, match="save the document"):
        made_copy(small, 0, CopyMode.CLONE, 256, "file.rtblob")


@pytest.mark.rule("CP-12")
def test_a_compacting_copy_needs_its_flag():
    with pytest.raises(InvalidInputError, match="CP-12"):
        copied_world(small_world(), CopyMode.COMPACT, [0])


def test_structures_are_named(small):
    assert structure_named(small, "TLAS") == structure_named(small, "tlas") == TOP_LEVEL
    with pytest.raises(RtviewerError, match="there is no structure '-1'"):
        structure_named(small, "-1")
    assert structure_named(small, "balls") == structure_named(small, "1") == 1
    with pytest.raises(RtviewerError, match="'balls'"):
        structure_named(small, "9")
    twins = replace(small, blases=(small.blases[0], replace(small.blases[1], name=small.blases[0].name)))
    with pytest.raises(RtviewerError, match="0, 1"):
        structure_named(twins, small.blases[0].name)


# --- verbs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", STRUCTURE_MODES)
def test_a_copy_lies_beside_the_world_until_it_is_used(session, small, mode):
    document = done(session, session.copy_structure(mode, 0))
    (record,) = document.copies
    assert (record.mode, record.structure, record.source_size) == (mode, 0, small.blases[0].size)
    assert record.data_size == record.copy.size
    assert record.saved == small.blases[0].size - record.copy.size
    assert document.world is small
    assert [event.record for event in session.heard if isinstance(event, CopyMade)] == [record]
    used = done(session, session.use_copy(0))
    assert used.world.blases[0] is record.copy
    assert same_picture(small, used.world)
    assert any(isinstance(event, DocumentChanged) and event.is_rebuild for event in session.heard)


def test_several_copies_have_addresses_of_their_own(session, small):
    for structure in (TOP_LEVEL, 0, 0):
        document = done(session, session.copy_structure(CopyMode.CLONE, structure))
    everything = [small.tlas, *small.blases, *(record.copy for record in document.copies)]
    places = sorted((s.address, s.address + s.size) for s in everything)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert free_address(small, document.copies) >= places[-1][1]
    assert session.forget_copy(1) is None
    assert [record.structure for record in session.document.copies] == [TOP_LEVEL, 0]
    assert isinstance(session.forget_copy(5), Refusal)
    assert isinstance(session.use_copy(5), Refusal)


def test_bytes_go_to_files_and_come_back(session, small, tmp_path):
    blob, dump = tmp_path / "a.rtblob", tmp_path / "a.rtdump"
    done(session, session.copy_structure(CopyMode.SERIALIZE, 0, blob))
    document = done(session, session.copy_structure(CopyMode.VISUALIZATION_DECODE_FOR_TOOLS, 0, dump))
    assert blob.read_bytes() == serialize(small.blases[0]).tobytes()
    assert [record.data_size for record in document.copies] == [blob.stat().st_size, dump.stat().st_size]
    assert isinstance(session.use_copy(0), Refusal)  # bytes are no structure
    document = done(session, session.deserialize_file(blob, 0))
    used = done(session, session.use_copy(2))
    assert used.world.blases[0].size == small.blases[0].used_size
    assert same_picture(small, used.world)
    assert load_document(dump).world.blases[0].header["active_count"] > 0


def test_a_blob_may_take_another_structures_place(session, small, tmp_path):
    blob = tmp_path / "empty.rtblob"
    blob.write_bytes(serialize(small.blases[2]).tobytes())
    done(session, session.deserialize_file(blob, 0))
    used = done(session, session.use_copy(0))
    assert used.world.scene.blases[0].geometries == ()
    assert used.scene is used.world.scene
    assert not used.world.trace(small.scene.camera, (40, 30)).hit[:, :10].any()


@pytest.mark.rule("BLD-10")
def test_a_blob_of_the_other_level_or_of_another_world_is_refused(small, tmp_path):
    blob = tmp_path / "a.rtblob"
    blob.write_bytes(serialize(small.tlas).tobytes())
    with pytest.raises(FileFormatError, match="top level"):
        read_copy(small, 0, blob, 0x9000_0000_0000)
    assert read_copy(small, TOP_LEVEL, blob, 0x9000_0000_0000).copy.is_top_level
    with pytest.raises(FileFormatError, match="BLD-10"):
        read_copy(copied_world(small, CopyMode.CLONE, [0]), TOP_LEVEL, blob, 0x9000_0000_0000)


def test_verbs_are_refused_without_what_they_need(session, small):
    assert isinstance(session.copy_structure(CopyMode.CLONE, 7), Refusal)
    assert isinstance(session.deform(TOP_LEVEL, 0.1), Refusal)
    assert isinstance(session.save("world.zip"), Refusal)
    plain = build_world(small.scene)
    session.show_document(Document(None, plain.scene, plain))
    assert session.copy_structure(CopyMode.COMPACT, 0).rules == ("CP-12",)
    assert "UPD-1" in session.deform(0, 0.1).rules
    session.close_document()
    assert isinstance(session.copy_structure(CopyMode.CLONE), Refusal)
    assert isinstance(session.save("x.rtcap"), Refusal)
    assert session.sizes() == ()
    assert sum(isinstance(event, Refused) for event in session.heard) == 7


def test_a_copy_of_structures_that_are_gone_is_dropped(session, small):
    session.copy_structure(CopyMode.CLONE, 0)
    other = build_world(small.scene)
    session.show_document(Document(None, other.scene, other))
    assert session.wait()
    assert session.document.copies == ()


def test_saving_and_opening(session, small, tmp_path):
    done(session, session.save(tmp_path / "world.rtcap"))
    session.open(tmp_path / "world.rtcap")
    assert session.wait()
    assert not session.document.has_inputs
    assert same_picture(small, session.world)
    assert session.state.rays.any_hit is small.scene.any_hit
    assert [row.name for row in session.sizes()] == ["TLAS", "mesh / with a slash", "balls", "nothing"]
    session.rebuild()
    assert session.wait()
    assert same_picture(small, session.world)


def test_a_foreign_blob_is_shown_beside_the_document(session, small, tmp_path):
    path = tmp_path / "foreign.rtblob"
    path.write_bytes(bytes(16) + serialize(small.tlas).tobytes()[16:])
    session.open(path)
    assert session.wait()
    assert session.document.world is small
    assert session.blob.title == "foreign.rtblob"
    assert [event.blob for event in session.heard if isinstance(event, BlobChanged)] == [session.blob]
    session.show_blob(None)
    assert session.blob is None


# --- updates ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wave_document():
    document = load_document("scenes/wave", BuildSettings(BuildFlag.ALLOW_UPDATE, BuildFlag.NONE))
    assert document.world.blases[0].name == "sheet"
    return document


@pytest.mark.rule("UPD-5", "UPD-6", "UPD-13")
@pytest.mark.parametrize("kind", [UpdateKind.UPDATE_IN_PLACE, UpdateKind.UPDATE_TO_NEW, UpdateKind.REBUILD])
@pytest.mark.parametrize("structure", [0, 2])
def test_every_way_shows_the_deformed_mesh(wave_document, kind, structure):
    before = wave_document.world.blases[structure]
    after = updated_document(wave_document, structure, 0.2, kind)
    assert after.scene is wave_document.scene
    inputs = deformed(wave_document.scene.blases[structure], 0.2)
    blases = list(wave_document.scene.blases)
    blases[structure] = inputs
    assert same_picture(build_world(replace(wave_document.scene, blases=tuple(blases))), after.world)
    new = after.world.blases[structure]
    assert (new.address == before.address) == (kind is not UpdateKind.UPDATE_TO_NEW)
    assert new.size == before.size
    first, record = after.updates
    assert (first.kind, first.amount, first.box_growth) == (UpdateKind.AS_BUILT, 0.0, 1.0)
    assert (record.kind, record.amount, record.address, record.size) == (kind, 0.2, new.address, new.size)
    assert record.sah == after.world.statistics(structure).sah
    assert record.to_json()["kind"] == str(kind)


def test_updates_let_boxes_grow_and_a_rebuild_mends_them(wave_document):
    document = wave_document
    for amount in (0.1, 0.3):
        document = updated_document(document, 0, amount, UpdateKind.UPDATE_IN_PLACE)
    document = updated_document(document, 0, 0.3, UpdateKind.REBUILD)
    growth = [record.box_growth for record in document.updates]
    assert 1.0 == growth[0] < growth[1] < growth[2]
    assert growth[3] < growth[2]
    assert document.updates[3].sah < document.updates[2].sah
    back = updated_document(document, 0, 0.0, UpdateKind.UPDATE_IN_PLACE)
    assert same_picture(wave_document.world, back.world)


def test_deform_is_a_verb_and_steps_follow_each_other(session, wave_document):
    session.show_document(wave_document)
    for amount in (0.1, 0.2):
        done(session, session.deform(0, amount, UpdateKind.UPDATE_TO_NEW))
    assert [record.amount for record in session.document.updates] == [0.0, 0.1, 0.2]
    session.deform(0, 0.3)
    session.deform(0, 0.4)  # the newest wins, whatever became of the other
    assert session.wait()
    assert session.document.updates[-1].amount == 0.4
    session.rebuild()
    assert session.wait()
    assert session.document.updates == ()


@pytest.mark.rule("UPD-8")
def test_a_capture_of_indexed_meshes_is_rebuilt_before_it_is_updated(session, wave_document, tmp_path):
    wave_document.world.save(tmp_path / "wave.rtcap")
    document = load_document(tmp_path / "wave.rtcap")
    with pytest.raises(InvalidInputError, match="UPD-8"):
        updated_document(document, 0, 0.1, UpdateKind.UPDATE_IN_PLACE)
    rebuilt = updated_document(document, 0, 0.1, UpdateKind.REBUILD)
    assert updated_document(rebuilt, 0, 0.2, UpdateKind.UPDATE_IN_PLACE).updates[-1].amount == 0.2


def test_a_compacted_structure_moves_when_it_is_rebuilt(small):
    world = copied_world(small, CopyMode.COMPACT, list(small.structure_indices))
    document = Document(None, small.scene, world)
    after = updated_document(document, 0, 0.1, UpdateKind.REBUILD).world
    places = sorted((s.address, s.address + s.size) for s in (after.tlas, *after.blases))
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    assert np.isin(after.blases[0].address, after.tlas.instance_descs["AccelerationStructure"])
