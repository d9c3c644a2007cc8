"""Sound structures pass, damaged ones are named, and nothing that claims to be a structure raises or crashes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rtviewer.accel import layout
from rtviewer.accel.invariants import MOST_REPORTED, check
from rtviewer.accel.navigate import tree_of
from rtviewer.accel.stats import statistics
from rtviewer.accel.structure import Structure, aligned_bytes
from rtviewer.build.builder import build_blas
from rtviewer.dxr.flags import BuildFlag, GeometryFlag, RayFlag
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.errors import InvalidInputError
from rtviewer.scene.generators import box, icosphere, random_boxes, soup
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceSettings
from tests.worlds import FIRST_ADDRESS, Placement, boxes, chain_blas, mesh, translate, triangles, world, writable_copy

NAN, INF = np.float32(np.nan), np.float32(np.inf)
TRIANGLE = [[0, 0, 9], [1, 0, 9], [0, 1, 9]]
WORLD = world(
    [mesh(icosphere(2), GeometryFlag.OPAQUE), triangles(), triangles(TRIANGLE, TRIANGLE)],
    boxes(random_boxes(40), boxes().aabbs, [0, 0, 0, 1, 1, 1]),
    placements=[Placement(blas=i % 3 - 1, transform=translate(3 * i, i % 5, 0)) for i in range(13)],
)
SMALL = build_blas(WORLD.inputs[0], BuildFlag.MINIMIZE_MEMORY, address=FIRST_ADDRESS)
UPDATABLE = build_blas(WORLD.inputs[0], BuildFlag.ALLOW_UPDATE, address=FIRST_ADDRESS)
SOUND = {
    "triangles": WORLD.blas(0), "boxes": WORLD.blas(1), "instances": WORLD.tlas, "small": SMALL, "updatable": UPDATABLE
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", SOUND)


def damaged(kind: str, damage: Callable[[Structure], None]) -> list[str]:
    """What the check says about a copy to which something was done."""
    copy = writable_copy(SOUND[kind])
    damage(copy)
    return check(Structure(copy.data))


# --- sound structures ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "structure",
    [
        *SOUND.values(),
        *(world(*parts).tlas for parts in ((), (mesh(box()),))),
        *(world(part).blas() for part in ([], triangles(), boxes(), triangles(TRIANGLE), mesh(soup(3000)))),
        world(triangles([[np.nan, 0, 0]] * 3, [[1, 1, 1]] * 3, TRIANGLE)).blas(),
        world(triangles([[-np.inf, 0, 0], [np.inf, 0, 0], [0, 1, 0]], TRIANGLE)).blas(),
        world(mesh(box()), placements=[Placement(transform=np.zeros((3, 4), np.float32)), Placement()]).tlas,
        chain_blas(np.float32([TRIANGLE, TRIANGLE, TRIANGLE])),
    ],
    ids=lambda s: f"{s.size}",
)
def test_sound_structures_pass(structure: Structure) -> None:
    assert check(structure) == []


# --- one damage at a time -----------------------------------------------------------------------------------------


def set_header(field: str, value: object) -> Callable[[Structure], None]:
    def damage(s: Structure) -> None:
        s.data[: layout.HEADER.itemsize].view(layout.HEADER)[field] = value

    return damage


def add_header(field: str, amount: int) -> Callable[[Structure], None]:
    def damage(s: Structure) -> None:
        s.data[: layout.HEADER.itemsize].view(layout.HEADER)[field] += amount

    return damage


def set_section(row: int, field: str, value: Callable[[np.void], int] | int) -> Callable[[Structure], None]:
    def damage(s: Structure) -> None:
        entry = s.data[: layout.HEADER.itemsize].view(layout.HEADER)["sections"][0, row]
        entry[field] = value(entry) if callable(value) else value

    return damage


HEADER_DAMAGES = {
    "magic": (set_header("magic", b"NOTACCEL"), r"header\.magic"),
    "version": (add_header("layout_version", 1), r"header\.layout_version"),
    "type": (set_header("type", 2), r"header\.type"),
    "type huge": (set_header("type", 0xFFFFFFFF), r"header\.type"),
    "size": (add_header("size_in_bytes", 256), r"header\.size_in_bytes"),
    "too many sections": (set_header("section_count", 0xFFFFFFFF), r"header\.section_count"),
    "more inputs": (add_header("input_count", 1), r"input_count"),
    "no inputs": (set_header("input_count", 0), r"input_count"),
    "nothing active": (set_header("active_count", 0), r"active_count"),
    "more active than inputs": (set_header("active_count", 0x7FFFFFFF), r"header\.active_count"),
    "deeper": (add_header("depth", 1), r"header\.depth"),
    "depth 0": (set_header("depth", 0), r"header\.depth"),
    "bounds too small": (set_header("bounds", [[0, 0, 0], [0.5, 0.5, 0.5]]), r"header\.bounds"),
    "bounds inside out": (set_header("bounds", [[9, 9, 9], [-9, -9, -9]]), r"header\.bounds"),
    "max_abs NaN": (set_header("max_abs", NAN), r"header\.max_abs"),
    "max_abs infinite": (set_header("max_abs", INF), r"header\.max_abs"),
    "max_abs negative": (set_header("max_abs", -1), r"header\.max_abs"),
    "max_abs too small": (set_header("max_abs", 0), r"header\.max_abs"),
    "condition NaN": (set_header("condition", NAN), r"header\.condition"),
    "condition infinite": (set_header("condition", INF), r"header\.condition"),
    "section kind 0": (set_section(0, "kind", 0), r"section"),
    "section kind unknown": (set_section(1, "kind", 99), r"section table: .*99"),
    "section twice": (set_section(1, "kind", 1), r"section table: .* 1\b"),
    "element size": (set_section(0, "element_size", 255), r"NODES: .*255"),
    "element size 0": (set_section(1, "element_size", 0), r"expected elements of \d+ bytes, found 0"),
    "count huge": (set_section(0, "count", 2**62), r"NODES: .*do not fit"),
    "count overflows": (set_section(0, "count", 2**64 - 1), r"NODES: .*do not fit"),
    "offset beyond": (set_section(0, "offset", 2**40), r"NODES: .*do not fit"),
    "offset overflows": (set_section(0, "offset", 2**64 - 64), r"NODES: .*do not fit"),
    "offset not aligned": (set_section(0, "offset", lambda e: e["offset"] + 1), r"NODES: "),
    "offset in the header": (set_section(0, "offset", 64), r"overlap"),
    "offset in another section": (set_section(1, "offset", lambda e: e["offset"] - 64), r"overlap"),
    "no node": (set_section(0, "count", 0), r"nodes"),
}


@kinds
@pytest.mark.parametrize("name", HEADER_DAMAGES)
def test_damages_of_header_and_section_table(name: str, kind: str) -> None:
    damage, expected = HEADER_DAMAGES[name]
    problems = damaged(kind, damage)
    assert any(re.search(expected, p) for p in problems), problems


@kinds
def test_a_missing_section_is_named(kind: str) -> None:
    count = int(SOUND[kind].header["section_count"])
    problems = damaged(kind, set_header("section_count", count - 1))
    assert problems
    assert "section" in problems[0]


@kinds
@pytest.mark.parametrize("other", SOUND)
def test_sections_of_another_type_are_refused(kind: str, other: str) -> None:
    if (kind == "instances") == (other == "instances"):
        return
    problems = damaged(kind, set_header("type", int(SOUND[other].type)))
    assert "section" in problems[0]


def inner_lane(s: Structure) -> tuple[int, int]:
    found = np.argwhere((s.nodes["child"] > 0) & (s.nodes["min_x"] <= s.nodes["max_x"]))
    return int(found[0, 0]), int(found[0, 1])


def leaf_lane(s: Structure, last: bool = False) -> tuple[int, int]:
    found = np.argwhere(s.nodes["child"] < 0)
    return int(found[-1 if last else 0, 0]), int(found[-1 if last else 0, 1])


def set_child(
    where: Callable[[Structure], tuple[int, int]], value: Callable[[Structure], int]
) -> Callable[[Structure], None]:
    return lambda s: s.nodes["child"].__setitem__(where(s), value(s))


def an_empty_lane(s: Structure) -> tuple[int, int]:
    found = np.argwhere(~(s.nodes["min_x"] <= s.nodes["max_x"]))
    return int(found[0, 0]), int(found[0, 1])


def other_leaf(s: Structure) -> int:
    return int(s.nodes["child"][leaf_lane(s, last=True)])


NODE_DAMAGES = {
    "child beyond": (
        set_child(leaf_lane, lambda s: len(s.nodes)),
        r"NODES\[\d+\]\.child\[\d+\]: reference \d+ out of range",
    ),
    "child far beyond": (set_child(leaf_lane, lambda s: 0x7FFFFFFF), r"out of range"),
    "leaf far beyond": (set_child(leaf_lane, lambda s: -0x80000000), r"out of range"),
    "leaf one too long": (
        set_child(lambda s: leaf_lane(s), lambda s: ~(4 * 0 + 3)),
        r"leaf element \d+: reached|out of range",
    ),
    "root as child": (set_child(leaf_lane, lambda s: 0), r"NODES\[\d+\]\.child\[\d+\]: reference 0 out of range"),
    "leaf twice": (set_child(lambda s: leaf_lane(s), other_leaf), r"leaf element \d+: reached [02] times"),
    "order": (lambda s: s.nodes["order"].__setitem__((0, 0), 0), r"NODES\[0\]\.order"),
}


@kinds
@pytest.mark.parametrize("name", NODE_DAMAGES)
def test_damages_of_nodes(name: str, kind: str) -> None:
    damage, expected = NODE_DAMAGES[name]
    problems = damaged(kind, damage)
    assert any(re.search(expected, p) for p in problems), problems


@kinds
def test_a_leaf_must_end_with_the_section(kind: str) -> None:
    sound = SOUND[kind]
    references = np.where(sound.nodes["child"] < 0, ~sound.nodes["child"], -1)
    node, lane = np.unravel_index(int(np.argmax(references)), references.shape)
    last, length = divmod(int(references[node, lane]), 4)
    assert length < 3
    problems = damaged(kind, lambda s: s.nodes["child"].__setitem__((node, lane), ~(4 * last + length + 1)))
    assert f"NODES[{node}].child[{lane}]: reference" in problems[0]


def test_an_empty_lane_must_not_refer_to_anything() -> None:
    for value in (-1, 1, 0x7FFFFFFF):
        problems = damaged("triangles", set_child(an_empty_lane, lambda s, value=value: value))  # type: ignore[misc]
        assert "an empty lane must be 0" in problems[0]


def test_damages_of_references_between_nodes() -> None:
    itself = damaged("triangles", set_child(inner_lane, lambda s: inner_lane(s)[0]))
    assert "out of range" in itself[0]
    inner = np.argwhere(SOUND["triangles"].nodes["child"] > 0)
    (a, b), (c, d) = inner[0], inner[1]

    def twice(s: Structure) -> None:
        s.nodes["child"][a, b] = s.nodes["child"][c, d]

    problems = damaged("triangles", twice)
    assert any(re.search(r"NODES\[\d+\]: reached 2 times", p) for p in problems)
    assert any(re.search(r"NODES\[\d+\]: reached 0 times", p) for p in problems)


@pytest.mark.parametrize("kind", ["triangles", "boxes", "small", "updatable"])
@pytest.mark.parametrize("side", [f"{end}_{axis}" for end in ("min", "max") for axis in "xyz"])
def test_every_side_of_every_box_is_checked(side: str, kind: str) -> None:
    nodes = SOUND[kind].nodes
    for node, lane in np.argwhere(nodes["min_x"] <= nodes["max_x"]):
        axis = side[-1]
        low, high = nodes[f"min_{axis}"][node, lane], nodes[f"max_{axis}"][node, lane]
        inward = low + (high - low) / 2 if high > low else (low + 1 if side[:3] == "min" else high - 1)
        if side == f"min_{axis}" and axis == "x" and inward > high:
            continue  # an empty lane; its child would be named

        def damage(s: Structure, node: int = node, lane: int = lane, value: float = inward) -> None:
            s.nodes[side][node, lane] = value

        problems = damaged(kind, damage)
        assert any(f"NODES[{node}] lane {lane}" in p or f"NODES[{node}].child[{lane}]" in p for p in problems), problems


def test_boxes_of_instances_are_checked_down_to_the_leaves_above_them() -> None:
    """A top level with inner nodes: every inner lane must enclose the node below."""
    top = world(mesh(box()), placements=[Placement(transform=translate(3 * i, 0, 0)) for i in range(100)]).tlas
    copy = writable_copy(top)
    node, lane = inner_lane(copy)
    copy.nodes["max_x"][node, lane] -= 2
    assert any(f"NODES[{node}] lane {lane}" in p for p in check(copy))


def set_in(section: str, field: str, where: object, value: object) -> Callable[[Structure], None]:
    return lambda s: getattr(s, section)[field].__setitem__(where, value)


def unused_first(s: Structure) -> None:
    packs = s.packs
    partly = int(np.flatnonzero((packs["id"] == layout.UNUSED_LANE).any(1))[0])
    packs["id"][partly] = packs["id"][partly][::-1].copy()


def copy_id(section: str, field: str = "id") -> Callable[[Structure], None]:
    """Give the first element's (first lane's) number to the second."""

    def damage(s: Structure) -> None:
        column = getattr(s, section)[field]
        column[(1, 0)[: column.ndim]] = column[(0, 0)[: column.ndim]]

    return damage


def flip_id(section: str, bits: int) -> Callable[[Structure], None]:
    return lambda s: getattr(s, section)["id"].__setitem__((0, 0), int(getattr(s, section)["id"][0, 0]) ^ bits)


def drop_last_lane(s: Structure) -> None:
    packs = s.triangle_packs
    full = int(np.flatnonzero((packs["id"] != layout.UNUSED_LANE).all(1))[0])
    packs["id"][full, 3] = layout.UNUSED_LANE


TWICE = r"in the leaves 2 times"
CONTENT_DAMAGES = {
    "triangle id twice": ("triangles", copy_id("triangle_packs"), rf"primitive \d+: {TWICE}"),
    "triangle id beyond": ("triangles", set_in("triangle_packs", "id", (0, 0), 0x1FFFFFFF), r"primitive number beyond"),
    "triangle dropped": ("triangles", drop_last_lane, r"leaves: \d+ primitives"),
    "box id twice": ("boxes", copy_id("box_packs"), rf"primitive \d+: {TWICE}"),
    "opaque bit": ("triangles", flip_id("triangle_packs", layout.ID_OPAQUE), r"flag bits"),
    "no-duplicate bit": ("boxes", flip_id("box_packs", layout.ID_NO_DUPLICATE), r"flag bits"),
    "unused lane first": ("triangles", unused_first, r"unused"),
    "vertex outside": ("triangles", set_in("triangle_packs", "vertices", (0, 0, 0, 0), 1e6), r"does not enclose"),
    "box outside": ("boxes", set_in("box_packs", "high", (0, 0, 0), 1e6), r"does not enclose"),
    "geometry flags": ("triangles", set_in("geometries", "flags", 0, 0), r"flag bits"),
    "geometry count": ("triangles", set_in("geometries", "primitive_count", 0, 1), r"GEOMETRIES: .*add up"),
    "geometry first": ("triangles", set_in("geometries", "first_primitive", 1, 1), r"GEOMETRIES\.first_primitive"),
    "geometry active": ("triangles", set_in("geometries", "active_count", 2, 3), r"GEOMETRIES\.active_count"),
    "geometry active sum": ("triangles", set_in("geometries", "active_count", 2, 1), r"GEOMETRIES\.active_count"),
    "geometry types mixed": ("triangles", set_in("geometries", "type", 0, 1), r"GEOMETRIES\.type: .*BLD-2"),
    "geometry types wrong": ("triangles", set_in("geometries", "type", slice(None), 1), r"GEOMETRIES\.type"),
    "box geometry type": ("boxes", set_in("geometries", "type", slice(None), 0), r"GEOMETRIES\.type"),
    "instance twice": ("instances", copy_id("instance_leaves", "instance"), rf"instance \d+: {TWICE}"),
    "instance beyond": ("instances", set_in("instance_leaves", "instance", 0, 13), r"INSTANCE_LEAVES\.instance"),
    "instance negative": ("instances", set_in("instance_leaves", "instance", 0, -1), r"INSTANCE_LEAVES\.instance"),
    "instance deactivated": (
        "instances",
        set_in("instance_descs", "AccelerationStructure", 1, 0),
        r"instance 1: inactive but in the leaves",
    ),
    "instance activated": (
        "instances",
        set_in("instance_descs", "AccelerationStructure", 0, FIRST_ADDRESS),
        r"instance 0: active but not in the leaves",
    ),
}


@pytest.mark.parametrize("name", CONTENT_DAMAGES)
def test_damages_of_leaves_and_tables(name: str) -> None:
    kind, damage, expected = CONTENT_DAMAGES[name]
    problems = damaged(kind, damage)
    assert any(re.search(expected, p) for p in problems), problems


# Damages of single values that no bounds or reference would show.
VALUE_DAMAGES = {
    "NaN in header.bounds": ("triangles", set_header("bounds", [[NAN] * 3, [NAN] * 3])),
    "NaN in a box": ("triangles", lambda s: s.nodes["max_y"].__setitem__(inner_lane(s), NAN)),
    "NaN in a vertex": ("triangles", set_in("triangle_packs", "vertices", (0, 0, 1, 0), NAN)),
    "NaN in a leaf box": ("boxes", set_in("box_packs", "low", (0, 0, 0), NAN)),
    "geometry type 65": ("boxes", set_in("geometries", "type", slice(None), 65)),
    "condition below 1": ("triangles", set_header("condition", 0)),
    "degenerate_count": ("triangles", set_header("degenerate_count", 0xFFFFFFFF)),
    "geometry degenerate_count": ("triangles", set_in("geometries", "degenerate_count", 0, 0xFFFFFFFF)),
    "active_count of a top level": ("instances", add_header("active_count", 1)),
    "degenerate bit on a good triangle": ("triangles", flip_id("triangle_packs", layout.ID_DEGENERATE)),
    "unknown build flag": ("triangles", set_header("build_flags", 0x80000000)),
    "PERFORM_UPDATE kept": ("triangles", set_header("build_flags", 0x20)),
    "instance flag that is illegal": (
        "instances",
        set_in("instance_descs", "InstanceContributionAndFlags", 1, 0xC0000000),
    ),
    "leaf transform NaN": ("instances", set_in("instance_leaves", "world_to_object", (0, 0, 0), NAN)),
    "leaf state unknown": ("instances", set_in("instance_leaves", "state", 0, 0x80)),
    "dehydrated without DEHYDRATE": ("triangles", set_header("state", layout.STATE_DEHYDRATED)),
    "a dehydrated top level": ("instances", set_header("state", layout.STATE_DEHYDRATED)),
}


@pytest.mark.parametrize("name", VALUE_DAMAGES)
def test_damages_of_single_values(name: str) -> None:
    kind, damage = VALUE_DAMAGES[name]
    assert damaged(kind, damage)


def test_a_signalling_nan_is_judged_without_a_warning() -> None:
    """Such a NaN, which only foreign bytes can hold, makes numpy warn when it is widened."""

    def damage(s: Structure) -> None:
        s.nodes["min_y"].view(np.uint32)[1:] = 0x7F800001

    damaged("triangles", damage)


@pytest.mark.rule("LIM-2")
def test_memory_is_that_of_the_bytes_and_not_of_the_numbers_in_them() -> None:
    """A small file that claims four thousand million primitives must not make the check ask for their memory."""
    code = """
import resource
import numpy as np
from rtviewer.accel import layout
from rtviewer.accel.invariants import check
from rtviewer.accel.structure import Structure
from tests.worlds import one_blas, triangles, writable_copy

copy = writable_copy(one_blas(triangles([[0, 0, 0], [1, 0, 0], [0, 1, 0]])))
copy.geometries["primitive_count"] = 4_000_000_000
copy.data[: layout.HEADER.itemsize].view(layout.HEADER)["input_count"] = 4_000_000_000
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
check(Structure(copy.data))
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_more_messages_than_fit_on_a_screen() -> None:
    problems = damaged("triangles", lambda s: s.nodes["child"].__setitem__(s.nodes["child"] < 0, 0x7FFFFFFF))
    assert len(problems) == MOST_REPORTED


# --- bytes that were never a structure ----------------------------------------------------------------------------


def of_bytes(raw: bytes) -> Structure:
    data = aligned_bytes(len(raw))
    data[:] = np.frombuffer(raw, np.uint8)
    return Structure(data)


@given(raw=st.binary(max_size=2000))
@example(raw=b"")
@example(raw=b"RTVACCEL")
@example(raw=b"\0" * (layout.HEADER.itemsize - 1))
@example(raw=b"\0" * layout.HEADER.itemsize)
@example(raw=b"\xff" * 4096)
@example(raw=b"\x7f\xc0\0\0" * 1024)
def test_bytes_that_are_no_structure(raw: bytes) -> None:
    problems = check(of_bytes(raw))
    assert problems
    assert all(p.startswith("header") for p in problems)


@kinds
@given(data=st.data())
def test_a_structure_cut_short_or_with_a_tail(kind: str, data: st.DataObject) -> None:
    raw = SOUND[kind].data.tobytes()
    length = data.draw(st.integers(0, len(raw) + 512).filter(lambda n: n != len(raw)))
    problems = check(of_bytes(raw[:length] + b"\0" * max(0, length - len(raw))))
    assert problems
    assert problems[0].startswith("header")


@kinds
@settings(max_examples=60)
@given(data=st.data())
def test_a_valid_header_before_noise(kind: str, data: st.DataObject) -> None:
    raw = bytearray(SOUND[kind].data.tobytes())
    start = layout.HEADER.itemsize
    noise = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).integers(0, 256, len(raw) - start, np.uint8)
    raw[start:] = noise.tobytes()
    assert check(of_bytes(bytes(raw)))


# --- random damage ------------------------------------------------------------------------------------------------

RAYS = RayBatch.make(
    np.random.default_rng(1).normal(0, 8, (48, 3)), np.random.default_rng(2).normal(size=(48, 3)), 0.0, np.inf
)


def refusal(structure: Structure, tlas: Structure, blases: dict[int, Structure]) -> str:
    """The rule by which sound bytes may still not be traced; empty when they may."""
    if not set(tlas.instance_descs["AccelerationStructure"].tolist()) <= {0, *blases}:
        return "BLD-10"
    return "XB-5" if int(structure.header["state"]) == layout.STATE_DEHYDRATED else ""


@pytest.mark.rule("XB-5")
def test_damage_that_makes_a_dehydrated_structure_is_refused_by_the_trace() -> None:
    """Two flipped bits, state and DEHYDRATE, are what a dehydrated structure has: sound, and not to be traced."""
    copy = writable_copy(SOUND["triangles"])
    header = copy.data[: layout.HEADER.itemsize].view(layout.HEADER)
    header["state"] = layout.STATE_DEHYDRATED
    header["build_flags"] |= np.uint32(BuildFlag.DEHYDRATE)
    structure = Structure(copy.data, "damaged", SOUND["triangles"].address)
    assert check(structure) == []
    blases = WORLD.blases | {structure.address: structure}
    assert refusal(structure, WORLD.tlas, blases) == "XB-5"
    with pytest.raises(InvalidInputError, match="XB-5"):
        Dispatcher(WORLD.tlas, blases)


@kinds
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")  # has its own test above
@settings(max_examples=400)
@given(data=st.data())
def test_what_passes_after_random_damage_can_be_walked(kind: str, data: st.DataObject) -> None:
    """Flipped bits are named, or do no harm: the structure is numbered, measured, traced and logged without a crash."""
    copy = writable_copy(SOUND[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        copy.data[data.draw(st.integers(0, copy.size - 1))] ^= np.uint8(1 << data.draw(st.integers(0, 7)))
    structure = Structure(copy.data, "damaged", SOUND[kind].address)
    problems = check(structure)
    assert all(isinstance(p, str) and p for p in problems)
    if problems:
        return
    with np.errstate(all="ignore"):
        statistics(structure)
    assert len(tree_of(structure)) >= len(structure.nodes)
    tlas = structure if kind == "instances" else WORLD.tlas
    blases = WORLD.blases if kind == "instances" else WORLD.blases | {structure.address: structure}
    refused = refusal(structure, tlas, blases)
    if refused:
        with pytest.raises(InvalidInputError, match=refused):
            Dispatcher(tlas, blases)
        return
    dispatcher = Dispatcher(tlas, blases)
    for program in (IntersectionProgram.SPHERE, IntersectionProgram.BOX):
        hits = dispatcher.trace(RAYS, TraceSettings(intersection=program), counters=True).hits
        assert (hits.instance_index < len(tlas.instance_descs)).all()
    ignoring = TraceSettings(RayFlag.FORCE_NON_OPAQUE, any_hit=AnyHitProgram.IGNORE)
    dispatcher.walk(RAYS, ignoring, limit=20_000)
