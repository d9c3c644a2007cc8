import sys

import numpy as np
import pytest
from PIL import Image

from rtviewer.errors import RtviewerError
from rtviewer.io.image_file import replaced, write_exr, write_hits, write_png

RGBA = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def test_png_is_what_was_given(tmp_path):
    write_png(tmp_path / "a.png", RGBA)
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.asarray(image), RGBA)


def test_a_view_of_a_larger_array_is_written_as_it_looks(tmp_path):
    write_png(tmp_path / "a.png", np.repeat(RGBA, 2, axis=1)[:, ::2])
    with Image.open(tmp_path / "a.png") as image:
        assert np.array_equal(np.asarray(image), RGBA)


def test_exr_keeps_nan_and_infinity(tmp_path):
    exr = pytest.importorskip("OpenEXR")
    plane = np.array([[1.5, np.nan], [np.inf, -2.25]], np.float32)
    write_exr(tmp_path / "a.exr", {"Y": plane})
    with exr.File(str(tmp_path / "a.exr")) as file:
        assert np.array_equal(file.channels()["Y"].pixels, plane, equal_nan=True)


def test_exr_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    with pytest.raises(RtviewerError, match="rtviewer\\[exr\\]"):
        write_exr(tmp_path / "a.exr", {"Y": np.zeros((1, 1), np.float32)})
    assert list(tmp_path.iterdir()) == []


def test_hits_keep_names_and_the_exact_file_name(tmp_path):
    write_hits(tmp_path / "hits", {"t": np.float32([1, 2])})
    assert [path.name for path in tmp_path.iterdir()] == ["hits"]
    with np.load(tmp_path / "hits") as arrays:
        assert arrays["t"].tolist() == [1, 2]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"old")

    def fail():
        with replaced(path) as temporary:
            temporary.write_bytes(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    for path in (tmp_path / "none" / "a.png", tmp_path):
        with pytest.raises(RtviewerError, match="cannot write"):
            write_png(path, RGBA)
    assert list(tmp_path.iterdir()) == []
