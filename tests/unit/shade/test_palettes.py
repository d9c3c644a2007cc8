import numpy as np
import pytest

from rtviewer.shade.heatmap import NO_VALUE, heatmap, value_range
from rtviewer.shade.legend import nice_ticks, scale_image, scale_legend
from rtviewer.shade.palettes import PALETTES, SURFACE_COLOURS, encode_srgb, index_colours, palette, surface_colours


def lightness(colours):
    """Relative luminance of sRGB."""
    share = colours / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("name", PALETTES)
def test_palettes_are_256_frozen_colours(name):
    table = palette(name)
    assert table.shape == (256, 3)
    assert table.dtype == np.uint8
    with pytest.raises(ValueError):
        table[0] = 0


@pytest.mark.parametrize("name", ["viridis", "plasma", "magma", "inferno", "grey"])
def test_lightness_rises_with_the_value(name):
    rise = np.diff(lightness(palette(name).astype(float)))
    assert (rise > -0.004).all()
    assert lightness(palette(name)[-1].astype(float)) > lightness(palette(name)[0].astype(float)) + 0.3


def test_known_ends():
    assert tuple(palette("viridis")[0]) == (68, 1, 84)
    assert tuple(palette("viridis")[255]) == (253, 231, 37)
    assert np.array_equal(palette("grey")[:, 0], np.arange(256))
    assert set(PALETTES) == {"viridis", "plasma", "magma", "inferno", "turbo", "grey"}


def test_index_colours_are_stable_and_neighbours_differ_in_lightness():
    colours = index_colours(np.arange(4096)).astype(float)
    assert np.array_equal(index_colours(np.array([5, 4101])), index_colours(np.array([5, 5])))
    assert np.abs(np.diff(colours, axis=0)).max(1).min() > 30
    assert np.abs(np.diff(lightness(colours[:64]))).min() > 0.02
    assert len(np.unique(colours[:64], axis=0)) == 64


def test_srgb_encoding():
    assert encode_srgb(np.array([0.0, 1.0, 2.0, -1.0, np.nan])).tolist() == [0, 255, 255, 0, 0]
    assert encode_srgb(np.array([0.2140])).tolist() == [127]


def test_ranges():
    values = np.array([[1.0, np.nan, 5.0], [3.0, np.inf, 101.0]])
    assert value_range(values) == (1.0, 101.0)
    assert value_range(values, "fixed", 2, 4) == (2.0, 4.0)
    assert value_range(values, "fixed", 4, 2) == (4.0, 4.0)
    low, high = value_range(np.arange(101.0), "percentile", 5, 95)
    assert (low, high) == (5.0, 95.0)
    assert value_range(np.full((2, 2), np.nan)) == (0.0, 1.0)
    assert value_range(np.array([3, 9], np.int32)) == (3.0, 9.0)


def test_heatmap_maps_ends_clips_and_leaves_nan_out():
    values = np.array([0.0, 10.0, 5.0, -7.0, 99.0, np.nan, np.inf])
    rgba = heatmap(values, "grey", 0.0, 10.0)
    assert rgba[:5, 0].tolist() == [0, 255, 128, 0, 255]
    assert tuple(rgba[5]) == NO_VALUE
    assert rgba[6, 0] == 255
    assert (rgba[:, 3] == 255).all()


def test_heatmap_of_one_value_only():
    assert heatmap(np.array([3.0, 3.0]), "grey", 3.0, 3.0)[:, 0].tolist() == [0, 0]
    assert heatmap(np.array([2, 4], np.int32), "grey", 3.0, 3.0)[:, 0].tolist() == [0, 255]


@pytest.mark.parametrize("ends", [(0, 1), (0, 97), (3.2, 3.7), (0, 1e-4), (-5, 12345678), (1e9, 3e9)])
def test_ticks_are_round_inside_and_both_ends_are_there(ends):
    ticks = nice_ticks(*ends)
    positions = [tick.position for tick in ticks]
    assert positions == sorted(positions)
    assert (positions[0], positions[-1]) == (0.0, 1.0)
    assert 2 <= len(ticks) <= 8
    assert len({tick.text for tick in ticks}) == len(ticks)


def test_ticks_of_whole_numbers_are_whole():
    assert [tick.text for tick in nice_ticks(0, 2, whole=True)] == ["0", "1", "2"]
    assert [tick.text for tick in nice_ticks(4, 4)] == ["4"]


def test_legend_and_its_strip():
    legend = scale_legend("Nodes visited", "per ray", "magma", 0, 40)
    assert (legend.low, legend.high, legend.palette, legend.unit) == (0, 40, "magma", "per ray")
    across, up = scale_image("grey", 256, 3), scale_image("grey", 256, 3, vertical=True)
    assert across.shape == (3, 256, 4)
    assert across[0, :, 0].tolist() == list(range(256))
    assert up.shape == (256, 3, 4)
    assert (up[0, 0, 0], up[-1, 0, 0]) == (255, 0)


def test_surface_colours_are_soft_bright_distinct_and_repeat():
    colours = surface_colours(np.arange(SURFACE_COLOURS))
    assert colours.dtype == np.float32
    assert colours.min() > 0.2
    assert colours.max() <= 0.95
    shown = encode_srgb(colours).astype(int)
    assert len({tuple(colour) for colour in shown}) == SURFACE_COLOURS
    assert (shown.max(1) - shown.min(1)).max() < 100
    assert np.abs(np.diff(shown[:8], axis=0)).max(1).min() > 20
    np.testing.assert_array_equal(surface_colours(np.array([3 + SURFACE_COLOURS])), colours[3:4])
