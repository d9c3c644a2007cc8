"""The table of ray sources, and directions drawn for them."""

from dataclasses import fields, replace

import numpy as np
import pytest

from rtviewer.scene.ray_sources import (
    IMAGE_SOURCES,
    MAX_SAMPLES,
    MAX_SEED,
    SOURCES,
    CameraRays,
    DiffuseRays,
    OcclusionRays,
    ParameterKind,
    ShadowRays,
    SourceKind,
    check_source,
    default_light,
    default_radius,
    parameters_of,
    resolved,
    spec_of,
)
from rtviewer.scene.sampling import cosine_directions, hashed
from rtviewer.session.state import SourceSettings

BOUNDS = np.array([[-1.0, 0.0, -2.0], [3.0, 4.0, 2.0]])


def test_every_kind_has_a_row_and_every_field_a_parameter():
    assert list(SOURCES) == list(SourceKind)
    for kind, spec in SOURCES.items():
        assert spec.kind is kind
        assert spec_of(spec.settings()).kind is kind
        assert [p.name for p in spec.parameters] == [f.name for f in fields(spec.settings)]
        for parameter in spec.parameters:
            assert parameter.label
            assert parameter.tip
            assert parameter.default is not None or parameter.automatic
    assert [spec.kind for spec in IMAGE_SOURCES] == ["camera", "shadow", "diffuse", "occlusion"]


def test_the_state_has_settings_for_every_source_of_pictures():
    for spec in IMAGE_SOURCES:
        assert isinstance(SourceSettings(kind=spec.kind).active, spec.settings)
        assert check_source(spec.settings()) == ""


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (ShadowRays((0.0, float("nan"), 0.0)), "light: three finite"),
        (ShadowRays((0.0, 1e39, 0.0)), "light: three finite"),
        (ShadowRays((0.0, 1.0)), "light: three finite"),  # type: ignore[arg-type]
        (OcclusionRays(radius=0.0), "radius: a number above 0"),
        (OcclusionRays(radius=float("nan")), "radius: a number above 0"),
        (OcclusionRays(samples=0), f"samples: a whole number from 1 to {MAX_SAMPLES}"),
        (OcclusionRays(samples=MAX_SAMPLES + 1), "samples: a whole number"),
        (OcclusionRays(samples=4, shown=4), "shown: the samples are 0 to 3, found 4"),
        (DiffuseRays(seed=-1), f"seed: a whole number from 0 to {MAX_SEED}"),
        (DiffuseRays(seed=1.5), "seed: a whole number"),  # type: ignore[arg-type]
        (DiffuseRays(seed=True), "seed: a whole number"),
    ],
)
def test_settings_that_cannot_be_are_said(source, said):
    assert said in check_source(source)


def test_legal_settings_pass():
    for source in (CameraRays(), ShadowRays((1, 2, 3)), OcclusionRays(float("inf"), 64, 63, 0), DiffuseRays(MAX_SEED)):
        assert check_source(source) == ""


def test_automatic_parameters_come_from_the_bounds():
    assert resolved(ShadowRays(), BOUNDS) == ShadowRays(default_light(BOUNDS))
    x, y, z = default_light(BOUNDS)
    assert np.all(BOUNDS[0] < (x, y, z))
    assert np.all(BOUNDS[1] > (x, y, z)), "inside a room as high as wide"
    flat = np.array([[-5.0, 0.0, -5.0], [5.0, 0.1, 5.0]])
    assert default_light(flat)[1] > 1, "well above a flat scene"
    assert resolved(OcclusionRays(), BOUNDS) == replace(OcclusionRays(), radius=default_radius(BOUNDS))
    assert default_radius(BOUNDS) == np.float32(0.2 * np.sqrt(16 + 16 + 16))
    assert check_source(resolved(OcclusionRays(), None)) == check_source(resolved(ShadowRays(), None)) == ""
    point = np.zeros((2, 3))
    assert check_source(resolved(OcclusionRays(), point)) == ""
    assert resolved(ShadowRays((1.0, 2.0, 3.0)), BOUNDS) == ShadowRays((1.0, 2.0, 3.0))
    assert resolved(CameraRays(), BOUNDS) == CameraRays()


def test_counts_know_their_ends():
    for spec in SOURCES.values():
        for parameter in parameters_of(spec.settings):
            if parameter.kind is ParameterKind.COUNT:
                assert parameter.low <= parameter.default <= parameter.high


# --- directions ---------------------------------------------------------------------------------------------------


def grid(size=64):
    rows, columns = (a.ravel().astype(np.int64) for a in np.indices((size, size)))
    return columns, rows


def some_normals(count, seed=0):
    normals = np.random.default_rng(seed).normal(size=(count, 3))
    normals[:4] = [[0, 0, 1], [0, 0, -1], [1, 0, 0], [0, -1, 0]]
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def test_directions_are_unit_above_the_surface_and_cosine_distributed():
    columns, rows = grid()
    normals = some_normals(len(columns))
    directions = cosine_directions(normals, columns, rows, 1)
    assert np.abs(np.linalg.norm(directions, axis=1) - 1).max() < 1e-9
    cosines = (directions * normals).sum(1)
    assert cosines.min() > 0
    assert abs(cosines.mean() - 2 / 3) < 0.01, "the mean of cos under a density of cos/pi"
    assert abs((cosines**2).mean() - 1 / 2) < 0.01


def test_directions_turn_evenly_about_the_normal():
    columns, rows = grid()
    up = np.tile([0.0, 0.0, 1.0], (len(columns), 1))
    directions = cosine_directions(up, columns, rows, 7)
    angles = np.arctan2(directions[:, 1], directions[:, 0])
    counts, _ = np.histogram(angles, 16, (-np.pi, np.pi))
    assert counts.min() > 0.75 * counts.mean()
    assert counts.max() < 1.25 * counts.mean()


def test_a_direction_depends_on_its_pixel_sample_and_seed_alone():
    columns, rows = grid(16)
    normals = some_normals(len(columns))
    whole = cosine_directions(normals, columns, rows, 3, 5)
    backwards = cosine_directions(normals[::-1], columns[::-1], rows[::-1], 3, 5)[::-1]
    assert np.array_equal(whole, backwards)
    for i in (0, 1, 77, 255):
        alone = cosine_directions(normals[i : i + 1], columns[i : i + 1], rows[i : i + 1], 3, 5)
        assert np.array_equal(alone[0], whole[i])
    assert not np.array_equal(whole, cosine_directions(normals, columns, rows, 4, 5))
    assert not np.array_equal(whole, cosine_directions(normals, columns, rows, 3, 6))


def test_hashes_are_those_of_the_published_function():
    """pcg3d, computed here with plain integers."""

    def pcg3d(x, y, z):
        x, y, z = ((v * 1664525 + 1013904223) & 0xFFFFFFFF for v in (x, y, z))
        for last in (False, True):
            x = (x + y * z) & 0xFFFFFFFF
            y = (y + z * x) & 0xFFFFFFFF
            z = (z + x * y) & 0xFFFFFFFF
            if not last:
                x, y, z = x ^ x >> 16, y ^ y >> 16, z ^ z >> 16
        return x, y

    columns, rows = np.array([0, 1, 4095, 17]), np.array([0, 2, 8191, 5])
    first, second = hashed(columns, rows, 99)
    expected = [pcg3d(int(x), int(y), 99) for x, y in zip(columns, rows, strict=True)]
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == expected


def test_samples_of_a_pixel_spread_over_the_half_space():
    up = np.array([[0.0, 0.0, 1.0]])
    pixel = np.array([5]), np.array([9])
    directions = np.concatenate([cosine_directions(up, *pixel, 1, sample) for sample in range(64)])
    quadrant = (directions[:, 0] > 0) * 2 + (directions[:, 1] > 0)
    assert np.bincount(quadrant, minlength=4).min() >= 12
