"""Histograms and legends in files."""

import numpy as np
import pytest
from PIL import Image

from rtviewer.shade.histogram import MOST_BINS, histogram
from rtviewer.shade.legend import Legend, scale_legend
from rtviewer.shade.legend_image import LEAST_WIDTH, with_legend
from rtviewer.shade.palettes import palette


def test_whole_numbers_have_a_bin_each():
    found = histogram(np.array([[3.0, 3.0, 5.0], [7.0, 7.0, 7.0]]), whole=True)
    assert found.edges.tolist() == [2.5, 3.5, 4.5, 5.5, 6.5, 7.5]
    assert found.counts.tolist() == [2, 0, 1, 0, 3]
    assert (found.low, found.high, found.count, found.left_out) == (3.0, 7.0, 6, 0)
    assert found.mean == pytest.approx(32 / 6)
    assert found.p50 == 6.0


def test_many_whole_numbers_share_bins_of_equal_width():
    values = np.arange(1000.0)
    found = histogram(values, whole=True)
    assert len(found.counts) <= MOST_BINS
    assert set(np.diff(found.edges)) == {8.0}
    assert found.counts.sum() == 1000
    assert set(found.counts[:-1]) == {8}


def test_what_is_no_number_is_left_out():
    found = histogram(np.array([np.nan, np.inf, 1.0, 2.0], np.float32))
    assert (found.count, found.left_out, found.low, found.high) == (2, 2, 1.0, 2.0)
    assert found.counts.sum() == 2
    nothing = histogram(np.full((2, 2), np.nan))
    assert (nothing.count, nothing.left_out, nothing.counts.sum()) == (0, 4, 0)


def test_one_value_alone_has_a_bin_around_it():
    found = histogram(np.full(5, 4.25))
    assert found.counts.tolist() == [5]
    assert found.edges[0] < 4.25 < found.edges[1]


def test_a_legend_stands_below_the_untouched_picture():
    rgba = np.random.default_rng(1).integers(0, 256, (40, 500, 4)).astype(np.uint8)
    rgba[..., 3] = 255
    sheet = with_legend(rgba, scale_legend("Box tests", "boxes per ray", "plasma", 0, 90, whole=True), "a scene")
    assert np.array_equal(sheet[:40], rgba)
    assert sheet.shape[1] == 500
    below = sheet[40:]
    rows = [row for row in below if np.array_equal(row[10, :3], palette("plasma")[0])]
    assert rows
    assert all(np.array_equal(row[489, :3], palette("plasma")[255]) for row in rows)
    assert (below[..., 3] == 255).all()


def test_a_narrow_picture_gets_margins_and_named_colours_get_rows():
    rgba = np.full((8, 16, 4), 255, np.uint8)
    few = with_legend(rgba, Legend("Facing", entries=(("front", (1, 2, 3)),)))
    many = with_legend(
        rgba, Legend("Facing", entries=tuple((f"a long name {i}", (i, 2, 3)) for i in range(9)), note="x")
    )
    assert few.shape[1] == many.shape[1] == LEAST_WIDTH
    assert many.shape[0] > few.shape[0]
    assert [i for i in range(9) if not (many[..., :3] == (i, 2, 3)).all(-1).any()] == []
    assert Image.fromarray(many).mode == "RGBA"
