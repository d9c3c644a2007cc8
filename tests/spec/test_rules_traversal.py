"""Rules of section 6 about order: what is asked first, what ends a search, and what rounding may not change."""

from __future__ import annotations

import ast
import itertools
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtviewer.dxr.flags import BuildFlag, GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import Opacity, effective_opacity, is_facing_culled
from rtviewer.dxr.verdicts import EventKind, Verdict
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.properties.strategies import SEEDS, RandomWorld, random_rays, random_settings, random_world
from tests.properties.test_tracing import FLAGS, dispatcher_of
from tests.worlds import FRONT, TRIANGLE, UP, Placement, boxes, triangles, world

F32 = np.float32


# --- TRAV-1, word for word ----------------------------------------------------------------------------------------


class Interpreter:
    """One ray of TRAV-1: told each hit in the order met, it says what must become of it."""

    def __init__(self, scene: RandomWorld, t_min: float, t_max: float, flags: RayFlag, any_hit: int) -> None:
        self.scene, self.t_min, self.end, self.flags, self.any_hit = scene, t_min, t_max, flags, any_hit
        self.hit: tuple[int, int, int, int] | None = None
        self.hit_was_opaque = False
        self.ended = False

    def verdict(self, key: tuple[int, int, int, int], t: float) -> Verdict:
        """Of a triangle hit or a report with ``key`` (instance, geometry, primitive, hit kind)."""
        instance, geometry, _, kind = key
        triangle = kind >= HitKind.TRIANGLE_FRONT_FACE
        instance_flags = InstanceFlag(int(self.scene.instances.flags[instance]))
        if triangle and is_facing_culled(HitKind(kind), instance_flags, self.flags):
            return Verdict.BACK_FACE_CULLED if kind == HitKind.TRIANGLE_BACK_FACE else Verdict.FRONT_FACE_CULLED
        bottom_level = self.scene.blases[int(self.scene.blas_of[instance])]
        opacity = effective_opacity(bottom_level.geometries[geometry].flags, instance_flags, self.flags)
        assert opacity in (Opacity.OPAQUE, Opacity.NON_OPAQUE)
        outside = self._outside(triangle, t, key, opacity is Opacity.OPAQUE)
        if outside is not None:
            return outside
        verdict = Verdict.COMMITTED if opacity is Opacity.OPAQUE else self._run_any_hit(key)
        if verdict is Verdict.ANY_HIT_IGNORED:
            return verdict
        self.hit, self.end, self.hit_was_opaque = key, t, opacity is Opacity.OPAQUE
        if verdict is Verdict.ANY_HIT_ENDED_SEARCH:
            self.ended = True
        elif self.flags & RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH:
            self.ended = True
            by_flag = {
                Verdict.COMMITTED: Verdict.FIRST_HIT_ENDED_SEARCH,
                Verdict.ANY_HIT_ACCEPTED: Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH,
            }
            return by_flag[verdict]
        return verdict

    def _outside(self, triangle: bool, t: float, key: tuple[int, int, int, int], opaque: bool) -> Verdict | None:
        if not (t > self.t_min if triangle else t >= self.t_min):
            return Verdict.AT_OR_BEFORE_T_MIN
        if t == self.end and opaque and self.hit is not None and self.hit_was_opaque:  # DET-5
            return None if self._wins(triangle, key) else Verdict.TIE_LOST
        return None if (t < self.end if triangle else t <= self.end) else Verdict.AT_OR_BEYOND_CURRENT_END

    def _wins(self, triangle: bool, key: tuple[int, int, int, int]) -> bool:
        assert self.hit is not None
        if (self.hit[3] >= HitKind.TRIANGLE_FRONT_FACE) != triangle:
            return not triangle
        return key[:3] > self.hit[:3] if triangle else key[:3] <= self.hit[:3]

    def _run_any_hit(self, key: tuple[int, int, int, int]) -> Verdict:
        _, geometry, primitive, _ = key
        odd = {
            AnyHitProgram.IGNORE: True,
            AnyHitProgram.IGNORE_ODD_PRIMITIVES: primitive % 2 == 1,
            AnyHitProgram.IGNORE_ODD_GEOMETRIES: geometry % 2 == 1,
            AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN: primitive % 2 == 1,
        }
        if odd.get(AnyHitProgram(self.any_hit), False):
            return Verdict.ANY_HIT_IGNORED
        ends = (AnyHitProgram.ACCEPT_AND_END_SEARCH, AnyHitProgram.IGNORE_ODD_PRIMITIVES_END_AT_EVEN)
        return Verdict.ANY_HIT_ENDED_SEARCH if self.any_hit in ends else Verdict.ANY_HIT_ACCEPTED


@pytest.mark.rule(
    "TRAV-1", "TRAV-7", "RAY-6", "RAY-7", "CULL-3", "CULL-4", "OPQ-6", "AH-1", "AH-2", "AH-5", "AH-6", "ACC-1", "ACC-2",
    "ACC-3", "PROC-2", "PROC-4", "PROC-6",
)  # fmt: skip
@settings(max_examples=80, deadline=None)
@given(seed=SEEDS, lattice=st.booleans(), flags=FLAGS)
def test_every_hit_met_becomes_what_a_literal_reading_of_the_flow_says(
    seed: int, lattice: bool, flags: BuildFlag
) -> None:
    scene, rays = random_world(seed, lattice), random_rays(seed, 48, lattice)
    arguments = random_settings(seed, len(rays), any_hit=list(range(6)), accept_first=True)
    log = dispatcher_of(scene, flags).walk(rays, arguments)
    assert not log.truncated.any()
    for ray, (first, last) in enumerate(pairwise(log.offsets)):
        check_ray(scene, rays, arguments, ray, log.events[first:last], log.result.hits)


def check_ray(
    scene: RandomWorld, rays: RayBatch, arguments: TraceSettings, ray: int, events: np.ndarray, hits: object
) -> None:
    word = RayFlag(int(np.asarray(arguments.ray_flags)[ray]))
    any_hit = int(np.asarray(arguments.any_hit)[ray])
    reader = Interpreter(scene, float(rays.t_min[ray]), float(rays.t_max[ray]), word, any_hit)
    triangle = (events["kind"] == EventKind.CANDIDATE) & (events["hit_kind"] >= HitKind.TRIANGLE_FRONT_FACE)
    for event in events[triangle | (events["kind"] == EventKind.REPORT)]:
        assert not reader.ended
        key = tuple(int(event[name]) for name in ("instance", "geometry", "primitive", "hit_kind"))
        assert F32(reader.end) == event["t_current"]
        assert reader.verdict(key, float(event["t"])) == event["verdict"]  # type: ignore[arg-type]
    names = ("instance_index", "geometry_index", "primitive_index", "hit_kind")
    found = tuple(int(getattr(hits, name)[ray]) for name in names)
    assert found == (reader.hit or (-1, -1, -1, -1))
    assert hits.t[ray] == F32(reader.end)  # type: ignore[attr-defined]


# --- CULL-5 -------------------------------------------------------------------------------------------------------

FAULTS = {
    "mask": Verdict.MASK_EXCLUDED,
    "type": Verdict.TRIANGLES_SKIPPED,
    "opacity": Verdict.CULLED_OPAQUE,
    "edges": Verdict.MISSED,
    "facing": Verdict.FRONT_FACE_CULLED,
    "interval": Verdict.AT_OR_BEYOND_CURRENT_END,
}
"""Steps 2 to 8 of CULL-5 that can reject a live triangle, in order."""


@pytest.mark.rule("CULL-5", "CULL-4")
@pytest.mark.parametrize("faults", [f for n in range(1, 7) for f in itertools.combinations(FAULTS, n)])
def test_a_candidate_that_fails_several_tests_gets_the_first(faults: tuple[str, ...]) -> None:
    if {"type", "facing"} <= set(faults):
        faults = tuple(f for f in faults if f != "facing")  # RF-3: not legal together
    flags = RayFlag.NONE
    flags |= RayFlag.SKIP_TRIANGLES if "type" in faults else RayFlag.NONE
    flags |= RayFlag.CULL_OPAQUE if "opacity" in faults else RayFlag.NONE
    flags |= RayFlag.CULL_FRONT_FACING_TRIANGLES if "facing" in faults else RayFlag.NONE
    # The second geometry is not opaque, so that the instance as a whole is not culled by opacity.
    geometries = [triangles(TRIANGLE, flags=GeometryFlag.OPAQUE), triangles(np.float32(TRIANGLE) + [0, 0, -9])]
    built = world(geometries, placements=[Placement(mask=0 if "mask" in faults else 0xFF)])
    origin = (0.75, 0.75, 5) if "edges" in faults else (0.25, 0.25, 5)
    log = built.walk(origin, (0, 0, -1), ray_flags=flags, t_max=5 if "interval" in faults else math.inf)
    events = log.events
    about_it = (events["geometry"] == 0) & (events["kind"] == EventKind.CANDIDATE)
    rejected = events[about_it | (events["kind"] == EventKind.INSTANCE_SKIPPED)]["verdict"]
    assert rejected.tolist() == [FAULTS[faults[0]]]


@pytest.mark.rule("CULL-1", "CULL-2", "CULL-5")
@pytest.mark.parametrize(
    ("flags", "verdict"),
    [
        (RayFlag.SKIP_PROCEDURAL_PRIMITIVES, Verdict.PROCEDURALS_SKIPPED),
        (RayFlag.CULL_OPAQUE, Verdict.CULLED_OPAQUE),
        (RayFlag.SKIP_PROCEDURAL_PRIMITIVES | RayFlag.CULL_OPAQUE, Verdict.PROCEDURALS_SKIPPED),
    ],
)
def test_a_culled_box_runs_no_program(flags: RayFlag, verdict: Verdict) -> None:
    opaque, other = boxes((0, 0, 0, 1, 1, 1), flags=GeometryFlag.OPAQUE), boxes((0, 0, 8, 1, 1, 9))
    for geometries in ([opaque], [opaque, other]):
        log = world(geometries).walk((0.5, 0.5, -5), (0, 0, 1), ray_flags=flags)
        events = log.events[log.events["geometry"] < 1]
        assert verdict in events["verdict"]
        assert EventKind.REPORT not in events["kind"]


# --- rounding -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("RAY-10", "RAY-6", "RAY-8")
def test_the_interval_is_judged_by_the_t_that_is_reported() -> None:
    """The exact t lies beside its float32 for nearly every ray. With that float32 as an end, triangles miss and boxes
    hit, on whichever side the exact t lies."""
    random = np.random.default_rng(4)
    tilted = world(triangles(np.float32([[-9, -9, 3.1], [9, -8, 2.3], [0.3, 9, 1.7]])))
    origins = random.uniform(-1, 1, (400, 3)).astype(F32) - F32([0, 0, 7])
    directions = (random.normal(size=(400, 3)) * 0.1 + [0, 0, 1]).astype(F32)
    hits = tilted.trace_checked(origins, directions)
    rows = np.flatnonzero(hits.hit)
    assert len(rows) > 300
    start, along, t = origins[rows], directions[rows], hits.t[rows]
    inside = {"t_min": 0.0, "t_max": np.nextafter(t, F32(np.inf))}
    for ends, hit in ((inside, True), ({"t_max": t}, False), ({"t_min": t}, False)):
        assert (tilted.trace_checked(start, along, **ends).hit == hit).all()
    assert tilted.trace_checked(start, along, t_min=np.nextafter(t, F32(0))).hit.all()
    box = world(boxes((-50, -50, -7, 50, 50, 50)))
    program = {"intersection": IntersectionProgram.REPORT_T, "report_t": t}
    for ends in ({"t_min": t}, {"t_max": t}, {"t_min": t, "t_max": t}):
        assert box.trace_checked(start, along, **program, **ends).hit.all()


@pytest.mark.rule("DET-6")
def test_compiled_arithmetic_neither_contracts_nor_reassociates() -> None:
    """With the options of the kernels, (a*b) + c rounds twice and sums keep their order; both show in the last bit."""
    import numba

    from rtviewer.kernels import jit

    options = {**jit.keywords, "cache": False}
    assert "fastmath" not in options

    @numba.njit(**options)
    def compute(a, b, c, out):  # type: ignore[no-untyped-def]
        for i in range(len(a)):
            out[i, 0] = a[i] * b[i] + c[i]
            out[i, 1] = c[i] - a[i] * b[i]
            out[i, 2] = (a[i] + b[i]) + c[i]
            out[i, 3] = a[i] + (b[i] + c[i])
            out[i, 4] = a[i] / b[i]

    random = np.random.default_rng(2)
    for dtype, wide in ((F32, np.float64), (np.float64, np.longdouble)):
        a, b = random.normal(size=(2, 4000)).astype(dtype)
        c = (-(a * b) * (1 + random.integers(-2, 3, 4000) * np.finfo(dtype).eps)).astype(dtype)
        found = np.empty((4000, 5), dtype)
        compute(a, b, c, found)
        expected = np.stack([a * b + c, c - a * b, (a + b) + c, a + (b + c), a / b], 1)
        np.testing.assert_array_equal(found, expected)
        fused = (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(dtype)
        assert (fused != expected[:, 0]).mean() > 0.5  # contraction would have shown


@pytest.mark.rule("DET-6")
def test_no_kernel_asks_for_fast_math_or_fused_operations(root: Path) -> None:
    """No jit option, LLVM flag or intrinsic that allows other rounding than as written."""
    fast_math_flags = {"fast", "contract", "reassoc", "arcp", "afn", "nnan", "ninf", "nsz"}
    for path in sorted((root / "rtviewer" / "kernels").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.keyword):
                assert node.arg != "fastmath", path.name
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert node.value not in fast_math_flags, path.name
                assert not node.value.startswith(("llvm.fma", "llvm.fmuladd")), path.name
            elif isinstance(node, ast.Attribute):
                assert node.attr not in {"fma", "fmuladd"}, path.name


# --- triangles ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("TRI-4", "TRI-5")
@pytest.mark.parametrize("flags", [BuildFlag.NONE, BuildFlag.PREFER_FAST_TRACE, BuildFlag.PREFER_FAST_BUILD])
@pytest.mark.parametrize("axes", [[0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1]])
@pytest.mark.parametrize("depths", list(itertools.product((0, 1), repeat=2)))
def test_a_fan_on_one_edge_is_hit_by_all_of_one_side(
    flags: BuildFlag, axes: list[int], depths: tuple[int, int]
) -> None:
    """Two triangles on each side of an edge along y, at different slopes; a ray exactly through the edge. Also with
    the axes exchanged, as the owner of an edge depends on its direction."""
    edge = [[0, -4, 0], [0, 4, 0]]
    right = [[*edge, [4, 0, z + depths[0]]] for z in (0, 1)]
    left = [[*edge, [-4, 0, z + depths[1]]] for z in (0, 2)]
    built = world(triangles(np.array([*right, *left])[:, :, axes]), flags=flags)
    for y in (-3, -0.5, 0, 1, 2.75):
        for z in (-5, 9):
            origin, direction = np.float32([0, y, z]), np.float32([0, 0, 1 if z < 0 else -1])
            (rows,) = built.all_hits_checked(origin[axes], direction[axes])
            assert rows[:, 2].tolist() in ([0, 1], [2, 3])


@pytest.mark.rule("PRES-1", "PRES-2", "RAY-11", "TRI-1", "DET-4", "FACE-1")
@pytest.mark.parametrize("flags", [BuildFlag(word) for word in (0, 4, 8, 0x10, 0x14, 0x18, 3)])
def test_long_thin_triangles_are_hit_once_each_with_their_own_corners(flags: BuildFlag) -> None:
    """Triangles that builders like to split and reorder. Corners turned by one, per triangle: the same hits with
    barycentrics turned likewise; corners exchanged: the other face."""
    random = np.random.default_rng(11)
    start, end = random.uniform(-5, 5, (2, 150, 3))
    corners = np.stack([start, end, start + random.normal(size=(150, 3)) * 0.3], 1).astype(F32)
    origins = random.uniform(-8, 8, (300, 3)).astype(F32)
    targets = corners[random.integers(0, 150, 300)].mean(1) + random.normal(size=(300, 3)).astype(F32) * F32(0.05)
    directions = (targets - origins).astype(F32)
    built = world(triangles(corners), flags=flags)
    assert sum(len(rows) for rows in built.all_hits_checked(origins, directions)) > 300
    hits = built.trace_checked(origins, directions)
    rows = np.flatnonzero(hits.hit)
    assert len(rows) > 200
    x, y = hits.attributes[rows, :1], hits.attributes[rows, 1:]
    a0, a1, a2 = (corners[hits.primitive_index[rows], i] for i in range(3))
    on_triangle = a0 + x * (a1 - a0) + y * (a2 - a0)
    on_ray = origins[rows] + hits.t[rows, None] * directions[rows]
    np.testing.assert_allclose(on_triangle, on_ray, atol=2e-4)
    turned = world(triangles(np.roll(corners, -1, 1)), flags=flags).trace_checked(origins, directions)
    np.testing.assert_array_equal(turned.primitive_index, hits.primitive_index)
    np.testing.assert_array_equal(turned.hit_kind, hits.hit_kind)
    np.testing.assert_allclose(turned.attributes[rows], np.concatenate([y, 1 - x - y], 1), atol=1e-4)
    mirrored = world(triangles(corners[:, [0, 2, 1]]), flags=flags).trace_checked(origins, directions)
    np.testing.assert_array_equal(mirrored.hit_kind[rows] == FRONT, hits.hit_kind[rows] != FRONT)
    np.testing.assert_allclose(mirrored.attributes[rows], hits.attributes[rows][:, ::-1], atol=1e-4)


@pytest.mark.rule("TRI-6", "DEG-3")
@pytest.mark.parametrize("axis", range(3))
def test_triangles_seen_edge_on_are_not_hit(axis: int) -> None:
    """A square in a plane through the ray, in every plane and along both remaining axes and their diagonals."""
    square = np.float32([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    points = np.insert(square, axis, 0, axis=1)
    built = world(triangles(points[[0, 1, 2]], points[[0, 2, 3]]))
    inside = [np.insert(np.float32(d), axis, 0) for d in ((1, 0), (0, 1), (1, 1), (-1, 1), (3, -2))]
    for direction in inside:
        assert not built.trace_checked(-4 * direction, direction).hit.any()
    across = np.insert(np.float32([0.25, 0.5]), axis, 1)
    assert built.trace_checked(across, -np.insert(np.zeros(2, F32), axis, 1)).hit.all()


@pytest.mark.rule("MASK-1", "MASK-2")
def test_nothing_is_found_with_an_empty_mask_and_all_with_a_full_one() -> None:
    built = world(triangles(TRIANGLE), boxes((0, 0, 1, 1, 1, 2)))
    for mask, hit in ((0, False), (0x100, False), (0xFFFFFF00, False), (0xFF, True), (0xFFFFFFFF, True)):
        assert built.trace_checked((0.25, 0.25, -3), UP, mask=mask).hit.tolist() == [hit]
