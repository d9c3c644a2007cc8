"""Bytes beside their meaning: fields of decodes and blobs, the hex view, and the panes of both."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from rtviewer.copymode.decode import decode
from rtviewer.copymode.serialize import serialize
from rtviewer.dxr.layouts import INSTANCE_DESC, SERIALIZED_HEADER1
from rtviewer.gui.models.byte_blocks import blob_blocks, decode_blocks, structure_blocks
from rtviewer.gui.models.byte_fields import Block, ByteFields, Span, leaves_of
from rtviewer.gui.panes.decode import difference_text
from rtviewer.gui.widgets.hex_view import HexView
from rtviewer.io.registry import load_scene
from rtviewer.session.document import build_world
from tests.gui.conftest import SCENES
from tests.gui.gestures import LEFT


@pytest.fixture(scope="module")
def lab(kernels_ready):
    return build_world(load_scene(SCENES / "culling_lab"))


def test_fields_of_a_top_level_decode_are_the_descs(lab):
    data = decode(lab.tlas)
    fields = ByteFields(data, decode_blocks(data, 0))
    count = len(lab.tlas.instance_descs)
    assert len(fields) == 2 + count * len(INSTANCE_DESC.names)
    assert fields[1].name == "Header.NumDescs"
    assert fields[1].value == str(count)
    desc = lab.tlas.instance_descs[3]
    row = next(r for r in fields if r.name == "InstanceDesc[3].InstanceIDAndMask")
    assert row.offset == 8 + 3 * 64 + 48
    word = int(desc["InstanceIDAndMask"])
    assert row.meaning == f"InstanceID {word & 0xFFFFFF}, mask 0x{word >> 24:02X}"
    address = next(r for r in fields if r.name == "InstanceDesc[3].AccelerationStructure")
    assert address.value == f"0x{int(desc['AccelerationStructure']):X}"


def test_fields_of_a_bottom_level_decode_cover_all_bytes_but_padding(lab):
    base = 0x5_0000_0000
    for blas in lab.blases:
        data = decode(blas, base)
        fields = ByteFields(data, decode_blocks(data, base))
        covered = np.zeros(len(data), np.bool_)
        for row in fields:
            assert not covered[row.offset : row.offset + row.size].any()
            covered[row.offset : row.offset + row.size] = True
        assert not data[~covered].any()
        assert any("boxes" in r.name or "AABBs" in r.name for r in fields) == blas.is_procedural


def test_fields_of_a_blob_name_pointers_and_sections(lab):
    data = serialize(lab.tlas)
    fields = ByteFields(data, blob_blocks(data, lab.tlas))
    pointers = [r for r in fields if r.name.startswith("Pointer[")]
    assert [int(r.meaning, 16) for r in pointers] == lab.tlas.instance_descs["AccelerationStructure"].tolist()
    assert pointers[0].offset == SERIALIZED_HEADER1.itemsize
    sections = {r.name: r for r in fields if r.meaning.startswith("section")}
    assert {"nodes", "instance descs", "instance leaves"} <= set(sections)
    assert all(r.offset + r.size <= len(data) for r in sections.values())
    foreign = ByteFields(data, blob_blocks(data, None))
    assert [r.name for r in foreign if "SER-8" in r.meaning] == ["Payload"]


def test_every_byte_finds_its_row_again(lab):
    data = lab.blases[0].data
    fields = ByteFields(data, structure_blocks(lab.blases[0]))
    for number in range(len(fields)):
        row = fields[number]
        assert fields.row_at(row.offset) == number
        assert fields.row_at(row.offset + row.size - 1) == number
    assert fields.row_at(len(data) + 5) == -1
    with pytest.raises(IndexError):
        fields[len(fields)]


def test_leaves_are_flat_and_in_order():
    names = [leaf.name for leaf in leaves_of(SERIALIZED_HEADER1)]
    assert names[0] == "DriverMatchingIdentifier.DriverOpaqueGUID.Data1"
    assert names[-1] == "HeaderPostambleType"
    offsets = [leaf.offset for leaf in leaves_of(SERIALIZED_HEADER1)]
    assert offsets == sorted(offsets)


def test_a_field_beyond_the_end_is_told_and_not_read():
    data = np.arange(6, dtype=np.uint8)
    fields = ByteFields(data, [Block("A", 0, np.dtype("<u4"), 2), Span("rest", 100, 5)])
    assert fields[0].value == str(0x03020100)
    assert "beyond the end" in fields[1].value
    assert fields.row_at(50) == -1


def test_hex_rows_and_places(qtbot, window):
    view = HexView()
    qtbot.addWidget(view)
    view.set_theme(window.appearance.theme)
    view.resize(900, 200)
    view.show()
    view.set_bytes(np.frombuffer(b"rtviewer" + bytes(range(100)), np.uint8))
    assert view.per_row == 16
    assert view.row_text(0).startswith("00000000  72 74 76 69 65 77 65 72 00 01")
    assert view.row_text(0).endswith("rtviewer········")
    clicked: list[int] = []
    view.clicked.connect(clicked.append)
    for offset in (0, 7, 21):
        row, column = divmod(offset, 16)
        place = QPoint(view._left + (10 + 3 * column) * view._char + 2, row * view._line + 3)
        QTest.mouseClick(view.viewport(), LEFT, pos=place)
        in_text = QPoint(view._left + (11 + 48 + column) * view._char + 2, row * view._line + 3)
        QTest.mouseClick(view.viewport(), LEFT, pos=in_text)
    assert clicked == [0, 0, 7, 7, 21, 21]
    view.resize(420, 200)
    assert view.per_row == 8
    assert view.row_text(1).startswith("00000008  00 01 02")


def test_the_hex_view_scrolls_to_what_is_marked_and_by_keys(qtbot, window):
    view = HexView()
    qtbot.addWidget(view)
    view.set_theme(window.appearance.theme)
    view.resize(900, 120)
    view.show()
    view.set_bytes(np.zeros(100_000, np.uint8))
    view.mark(50_000, 4)
    first = view.verticalScrollBar().value()
    assert first <= 50_000 // 16 < first + view._rows_shown()
    before = view.grab().toImage()
    view.mark(50_004, 4)
    assert view.grab().toImage() != before
    QTest.keyClick(view, Qt.Key.Key_End)
    assert view.verticalScrollBar().value() == view.verticalScrollBar().maximum()
    QTest.keyClick(view, Qt.Key.Key_Home)
    assert view.verticalScrollBar().value() == 0


def test_the_decode_pane_links_fields_and_bytes_and_compares(cornell, qtbot):
    window, pane = cornell, cornell.decode
    window.session.select(structure=0, box=0)
    window.show_panes(["decode"])
    qtbot.waitUntil(lambda: pane.decoded is not None and pane.decoded.name == "room", timeout=20_000)
    assert "Equal to the build inputs" in pane.difference.text()
    model = pane.inspector.model
    row = next(r for r in range(model.rowCount()) if "VertexFormat" in model.index(r, 2).data())
    assert model.index(row, 4).data() == "R32G32B32_FLOAT"
    pane.inspector.table.setCurrentIndex(model.index(row, 0))
    field = pane.decoded.fields[row]
    assert pane.inspector.hex.marked == (field.offset, field.offset + field.size)
    pane.inspector.hex.clicked.emit(4)
    assert pane.inspector.table.currentIndex().row() == 1
    window.session.select(structure=-1, box=0)
    qtbot.waitUntil(lambda: pane.decoded.name == "TLAS", timeout=20_000)
    assert any("InstanceDesc[2]" in row.name for row in pane.decoded.fields)


def test_differences_are_counted_and_the_first_are_written_out():
    text = difference_text([f"geometry {i}: flags are 0, were 1 [VIS-8]" for i in range(7)])
    assert "geometry 3" in text
    assert "geometry 4" not in text
    assert "3 more" in text


def test_a_hidden_pane_computes_nothing(cornell, qtbot):
    cornell.session.select(structure=0, box=0)
    qtbot.waitUntil(lambda: cornell.is_settled, timeout=20_000)
    assert cornell.decode.decoded is None
    assert cornell.blob.shown is None
    assert cornell.sizes.rows == []


def test_the_blob_pane_shows_the_selected_structure(cornell, qtbot):
    pane = cornell.blob
    cornell.session.select(structure=-1, box=0)
    cornell.show_panes(["blob"])
    qtbot.waitUntil(lambda: pane.shown is not None, timeout=20_000)
    assert pane.status.text().startswith("COMPATIBLE_WITH_DEVICE")
    assert "56 + 8 × 3 pointers" in pane.size.text()
    assert not pane.close_foreign.isVisible()
    assert not pane.problems.isVisible()


def test_a_foreign_blob_is_looked_at_beside_the_open_scene(cornell, qtbot, tmp_path):
    window, pane, world = cornell, cornell.blob, cornell.session.world
    data = serialize(world.blases[0]).copy()
    data[:16] = 7  # another GUID
    path = tmp_path / "driver.rtblob"
    path.write_bytes(data.tobytes())
    window.open_file(path)
    qtbot.waitUntil(lambda: pane.shown is not None and pane.shown.name == "driver.rtblob", timeout=20_000)
    assert window.session.world is world
    assert pane.isVisible()
    assert pane.status.text().startswith("UNRECOGNIZED")
    assert any("SER-8" in row.meaning for row in pane.shown.fields)
    assert not any(row.name == "nodes" for row in pane.shown.fields)
    QTest.mouseClick(pane.close_foreign, LEFT)
    qtbot.waitUntil(lambda: pane.shown.name != "driver.rtblob", timeout=20_000)
    assert pane.status.text().startswith("COMPATIBLE_WITH_DEVICE")
