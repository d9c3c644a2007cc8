"""Captures and folders: what is written comes back, the same bytes every time, and nothing hostile comes in."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtviewer.dxr.flags import BuildFlag
from rtviewer.errors import FileFormatError, RtviewerError
from rtviewer.io.capture import MAX_GROWTH, SMALL_BYTES, read_capture, write_capture
from rtviewer.io.structure_folder import read_folder, write_folder
from rtviewer.io.structure_set import MANIFEST, StructureSet
from rtviewer.scene.camera import Camera
from tests.unit.io.structure_sets import assert_same_sets, small_set


@pytest.fixture(scope="module")
def content() -> StructureSet:
    return small_set()


@pytest.fixture(scope="module")
def capture(content: StructureSet, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("capture") / "world.rtcap"
    write_capture(path, content)
    return path.read_bytes()


def members(capture: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(capture)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return data.getvalue()


def refused(data: bytes, match: str | None = None) -> FileFormatError:
    with pytest.raises(FileFormatError, match=match) as caught:
        read_capture(Path("hostile.rtcap"), data)
    assert "hostile.rtcap" in str(caught.value)
    return caught.value


def with_manifest(capture: bytes, change: Any) -> bytes:
    entries = members(capture)
    manifest = json.loads(entries[MANIFEST])
    change(manifest)
    return packed(entries | {MANIFEST: json.dumps(manifest).encode()})


# --- round trips --------------------------------------------------------------------------------------------------


@pytest.mark.rule("SER-13", "SER-14")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.ALLOW_UPDATE | BuildFlag.MINIMIZE_MEMORY])
def test_a_capture_and_a_folder_give_back_the_whole_set(tmp_path: Path, flags: BuildFlag) -> None:
    content = small_set(flags)
    write_capture(tmp_path / "world.rtcap", content)
    assert_same_sets(content, read_capture(tmp_path / "world.rtcap"))
    files = write_folder(tmp_path / "folder" / "deep", content)
    assert [file.name for file in files][-1] == MANIFEST
    assert_same_sets(content, read_folder(files[-1]))


def test_the_same_set_gives_the_same_bytes(content: StructureSet, capture: bytes, tmp_path: Path) -> None:
    time.sleep(0.01)
    write_capture(tmp_path / "again.rtcap", small_set())
    assert (tmp_path / "again.rtcap").read_bytes() == capture
    write_capture(tmp_path / "twice.rtcap", read_capture(tmp_path / "again.rtcap"))
    assert (tmp_path / "twice.rtcap").read_bytes() == capture


def test_a_capture_packed_by_another_tool_opens(content: StructureSet, capture: bytes) -> None:
    squeezed = packed(members(capture), zipfile.ZIP_DEFLATED)
    assert len(squeezed) < len(capture)
    assert_same_sets(content, read_capture(Path("x.rtcap"), squeezed))


def test_a_failed_write_leaves_the_old_capture(content: StructureSet, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "world.rtcap"
    path.write_bytes(b"old")
    monkeypatch.setattr("rtviewer.io.capture.manifest_of", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(RtviewerError, match="cannot write"):
        write_capture(path, content)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_a_scene_is_not_written_into(content: StructureSet, tmp_path: Path) -> None:
    (tmp_path / "scene.toml").write_text("name = 'mine'")
    with pytest.raises(RtviewerError, match="holds a scene"):
        write_folder(tmp_path, content)
    assert [file.name for file in tmp_path.iterdir()] == ["scene.toml"]


def test_a_folder_that_was_left_half_written_has_no_manifest(
    content: StructureSet, tmp_path: Path, monkeypatch: Any
) -> None:
    write_folder(tmp_path, content)

    def fail(path: Path, blob: Any) -> None:
        raise RtviewerError("cannot write")

    monkeypatch.setattr("rtviewer.io.structure_folder.write_blob", fail)
    with pytest.raises(RtviewerError):
        write_folder(tmp_path, content)
    assert not (tmp_path / MANIFEST).exists()


def test_what_no_reader_would_take_is_not_written(content: StructureSet, tmp_path: Path) -> None:
    flat = replace(content, cameras=(Camera((0, 0, 1), (0, 0, 0), vertical_fov=0.0),))
    with pytest.raises(RtviewerError, match="vertical_fov"):
        write_capture(tmp_path / "flat.rtcap", flat)
    many = replace(content, blases=content.blases * 30_000)
    with pytest.raises(RtviewerError, match="at most 65,536"):
        write_capture(tmp_path / "many.rtcap", many)
    assert list(tmp_path.iterdir()) == []
    long = replace(content, name="n" * 5000, blases=tuple(replace(b, name="ä b" * 900) for b in content.blases))
    write_capture(tmp_path / "long.rtcap", long)
    assert_same_sets(long, read_capture(tmp_path / "long.rtcap"))


# --- hostile captures ---------------------------------------------------------------------------------------------


def test_truncation_at_any_length_is_refused(capture: bytes) -> None:
    lengths = sorted({*range(200), *range(0, len(capture), 397), len(capture) - 1})
    for length in lengths:
        refused(capture[:length])


def test_changed_bytes_are_refused_or_harmless(content: StructureSet, capture: bytes) -> None:
    """A zip has fields that nobody reads; whatever still opens is the set that was written."""
    random = np.random.default_rng(5)
    start, opened = time.monotonic(), 0
    places = [*random.integers(0, len(capture), 700), *range(len(capture) - 300, len(capture))]
    for place in places:
        data = bytearray(capture)
        data[place] ^= 1 << int(random.integers(8))
        try:
            found = read_capture(Path("hostile.rtcap"), bytes(data))
        except FileFormatError:
            continue
        opened += 1
        assert_same_sets(content, found)
    assert opened < len(places) // 2
    assert time.monotonic() - start < 60


def test_a_bomb_is_refused_before_it_unpacks() -> None:
    bomb = packed({MANIFEST: b"{}", "a.rtblob": bytes(200 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) * MAX_GROWTH < 200 << 20
    tracemalloc.start()
    refused(bomb, "unpacks to too much")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < SMALL_BYTES + 4 * len(bomb)


def test_an_entry_that_understates_its_size_is_refused(capture: bytes) -> None:
    """A declared size that lies cannot make more come out."""
    entries = members(capture)
    name = next(n for n in entries if n != MANIFEST)
    squeezed = packed({MANIFEST: entries[MANIFEST], **entries}, zipfile.ZIP_DEFLATED)
    size = len(entries[name]).to_bytes(4, "little")
    assert squeezed.count(size) >= 2
    refused(squeezed.replace(size, (64).to_bytes(4, "little")))


@pytest.mark.parametrize(
    "name",
    ["../out.rtblob", "/etc/x.rtblob", "a/b.rtblob", "a\\b.rtblob", "C:x.rtblob", ".rtblob", "a.txt", "a..rtblob"],
)
def test_names_that_are_paths_are_refused(capture: bytes, name: str) -> None:
    refused(packed(members(capture) | {name: b"x"}), "entry|not a name")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_occur_twice_are_refused(capture: bytes) -> None:
    data = io.BytesIO(capture)
    with zipfile.ZipFile(data, "a") as archive:
        archive.writestr(MANIFEST, b"{}")
    refused(data.getvalue(), "two entries of one name")


def test_entries_beyond_the_manifest_and_missing_ones_are_refused(capture: bytes) -> None:
    entries = members(capture)
    refused(packed(entries | {"more.rtblob": b"x"}), "does not name")
    name = next(n for n in entries if n != MANIFEST)
    refused(packed({n: d for n, d in entries.items() if n != name}), "is missing")
    refused(packed({n: d for n, d in entries.items() if n != MANIFEST}), "manifest is missing")
    refused(packed({}), "manifest is missing")
    refused(b"no zip at all" * 20, "damaged or not a capture")


def test_an_encrypted_entry_is_refused(capture: bytes) -> None:
    data = bytearray(capture)
    place = data.index(b"PK\x01\x02")
    data[place + 8] |= 1
    refused(bytes(data), "encrypted")


def _move_onto_another(manifest: Any) -> None:
    manifest["structures"][2]["address"] = manifest["structures"][1]["address"]


def _rename(manifest: Any) -> None:
    manifest["structures"][2]["file"] = manifest["structures"][1]["file"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(format="other"), "not a manifest"),
        (lambda m: m.update(version=99), "another version"),
        (lambda m: m.update(surprise=1), "surprise"),
        (lambda m: m.pop("name"), "name"),
        (lambda m: m.update(any_hit="SHINY"), "IGNORE_ODD_PRIMITIVES"),
        (lambda m: m.update(structures=[]), "no structures"),
        (lambda m: m.update(instances=["one"]), "one name per instance"),
        (lambda m: m["structures"][1].update(geometries=["one"]), "one name per geometry"),
        (lambda m: m["structures"][1].update(level="top"), "top level"),
        (lambda m: m["structures"][0].update(level="bottom"), "need a top level"),
        (lambda m: m["structures"][1].update(size=1), "another size"),
        (lambda m: m["structures"][1].update(address=100), "256"),
        (lambda m: m["structures"][1].update(address=256), "BLD-10"),
        (lambda m: m["structures"][1].update(address=0), "cannot live at 0"),
        (lambda m: m["structures"][1].update(address=1 << 70), "address"),
        (lambda m: m["structures"][1].update(address=-256), "address"),
        (lambda m: m["structures"][1].update(file="../x.rtblob"), "plain file name"),
        (lambda m: m["cameras"][0].update(vertical_fov=0), "vertical_fov"),
        (lambda m: m["cameras"][0].update(position=[1, 2]), "position"),
        (_move_onto_another, "overlap"),
        (_rename, "two structures in one file"),
    ],
)
def test_a_manifest_that_lies_is_refused(capture: bytes, change: Any, text: str) -> None:
    refused(with_manifest(capture, change), text)


@pytest.mark.parametrize(
    "manifest", [b"", b"\xff", b"[]", b"[" * 100_000, b"null", b'{"format": "rtviewer structures"}']
)
def test_what_is_no_manifest_is_refused(capture: bytes, manifest: bytes) -> None:
    refused(packed(members(capture) | {MANIFEST: manifest}))


@pytest.mark.rule("SER-12")
def test_a_damaged_blob_in_a_capture_names_its_entry(capture: bytes) -> None:
    entries = members(capture)
    name = next(n for n in entries if "balls" in n)
    damaged = bytearray(entries[name])
    damaged[-20] ^= 0xFF
    assert name in str(refused(packed(entries | {name: bytes(damaged)}), "SER-12"))


def test_a_link_in_a_folder_is_not_followed(content: StructureSet, tmp_path: Path) -> None:
    files = write_folder(tmp_path / "folder", content)
    outside = tmp_path / "outside.rtblob"
    files[0].rename(outside)
    try:
        files[0].symlink_to(outside)
    except OSError:
        pytest.skip("links cannot be made here")
    with pytest.raises(FileFormatError, match="a link"):
        read_folder(files[-1])
