"""A list of rays: results are those of the rays alone, in any order, with any threads; invalid ones say their rule."""

from dataclasses import replace

import numpy as np
import pytest

from rtviewer.dxr.flags import RayFlag
from rtviewer.dxr.shader_table import ABSENT, AS_GIVEN, HitGroup, HitGroupTable, HitGroupType
from rtviewer.dxr.verdicts import Counter
from rtviewer.errors import CancelledError, InvalidInputError, RtviewerError
from rtviewer.io.ray_file import RAY_SUFFIXES, RayTable, read_rays, write_ray_columns
from rtviewer.session import ray_list
from rtviewer.session.document import build_world
from rtviewer.session.primary_rays import trace_settings
from rtviewer.session.ray_list import COLUMNS, RayStatus, problems_of_rays, trace_list, walk_listed
from rtviewer.session.state import RaySettings
from rtviewer.trace.request import HIT_FIELDS, RayBatch

COUNT = 500


def make_table(count=COUNT, seed=0, **changes):
    random = np.random.default_rng(seed)
    target = np.concatenate([random.uniform(-1, 4, (count, 2)), random.uniform(-4, 0, (count, 1))], 1)
    origin = np.tile([0.0, 0.0, 10.0], (count, 1))
    made = RayTable(
        "made", origin.astype(np.float32), (target - origin).astype(np.float32), np.zeros(count, np.float32),
        np.where(np.arange(count) % 5 == 0, 0.5, np.inf).astype(np.float32),
        np.array([0, 0x10, 0x80, 0x1], np.uint32)[np.arange(count) % 4],
        np.array([0xFF, 0x01, 0x02], np.uint32)[np.arange(count) % 3],
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture(scope="module")
def bad():
    """Eight rays of which some break rules."""
    table = make_table(8, flags=np.array([0, 0, 0, 0, 0, 0x300, 0x1000, 0], np.uint32), mask=None)
    table.t_max[:] = np.inf
    table.origin[1, 2] = np.nan
    table.t_min[2] = 3
    table.t_max[2] = 2
    table.t_min[3] = -1
    table.direction[4] = 0
    table.direction[7, 0] = np.inf
    return table


def test_every_ray_is_traced_with_its_own_flags_mask_and_interval(world):
    table = make_table()
    rays = trace_list(world, table, RaySettings())
    assert 20 < rays.count(RayStatus.HIT) < COUNT - 20
    dispatcher = world.dispatcher()
    for index in range(COUNT):
        own = replace(
            RaySettings(), ray_flags=RayFlag(int(table.flags[index])), mask=int(table.mask[index]),
            t_min=float(table.t_min[index]), t_max=float(table.t_max[index]),
        )  # fmt: skip
        assert rays.settings_of(index) == own
        batch = RayBatch.make(table.origin[index], table.direction[index], own.t_min, own.t_max)
        alone = dispatcher.trace(batch, trace_settings(own, world.scene), counters=True)
        for name, _, _, _ in HIT_FIELDS:
            assert np.array_equal(getattr(rays.hits, name)[index], getattr(alone.hits, name)[0]), name
        assert np.array_equal(rays.counters[index], alone.counters[0])


def test_what_the_file_does_not_say_comes_from_the_settings(world):
    table = make_table(flags=None, mask=None)
    asked = RaySettings(ray_flags=RayFlag.CULL_BACK_FACING_TRIANGLES, mask=0x01, t_min=5, t_max=6)
    rays = trace_list(world, table, asked)
    settings = rays.settings_of(3)
    assert (settings.ray_flags, settings.mask) == (asked.ray_flags, 0x01)
    assert (settings.t_min, settings.t_max) == (0.0, np.inf), "the interval is always the file's"
    same = trace_list(
        world,
        replace(table, flags=np.full(COUNT, int(asked.ray_flags), np.uint32), mask=np.full(COUNT, 1, np.uint32)),
        RaySettings(),
    )
    assert np.array_equal(rays.hits.t, same.hits.t)
    assert COLUMNS["flags"].values(rays).tolist() == [0x10] * COUNT


def test_threads_and_chunks_change_nothing(world, monkeypatch):
    table = make_table()
    whole = trace_list(world, table, RaySettings(), threads=1)
    monkeypatch.setattr(ray_list, "CHUNK", 7)
    for threads in (1, 3):
        parts = trace_list(world, table, RaySettings(), threads=threads)
        for name, _, _, _ in HIT_FIELDS:
            assert np.array_equal(getattr(parts.hits, name), getattr(whole.hits, name)), name
        assert np.array_equal(parts.counters, whole.counters)


@pytest.mark.rule("RAY-2", "RAY-3", "RAY-4", "RAY-5", "RF-1", "RF-4")
def test_invalid_rays_are_kept_and_say_their_rule(world, bad):
    rays = trace_list(world, bad, RaySettings())
    texts = [rays.problems[code] for code in rays.problem]
    assert texts[0] == ""
    for index, rule in ((1, "RAY-3"), (2, "RAY-2"), (3, "RAY-2"), (4, "RAY-5"), (5, "RF-4"), (6, "RF-1"), (7, "RAY-5")):
        assert f"[{rule}]" in texts[index], texts[index]
    assert rays.hits.invalid.tolist() == [False, True, True, True, False, True, True, False]
    assert rays.count(RayStatus.INVALID) == 5
    assert texts[4].startswith("warning")
    for index in (1, 2, 3, 5, 6):
        with pytest.raises(InvalidInputError):
            walk_listed(world, bad, index, RaySettings())
        assert not rays.counters[index].any()
    assert walk_listed(world, bad, 7, RaySettings()).result.hit is False


def test_many_different_illegal_words_are_judged_at_once():
    count = 100_000
    table = make_table(count, flags=np.arange(1 << 20, (1 << 20) + count, dtype=np.uint32), mask=None)
    code, texts = problems_of_rays(table)
    assert len(texts) == 2
    assert (code == 1).all()
    every = make_table(4096, flags=np.arange(4096, dtype=np.uint32), mask=None)
    code, texts = problems_of_rays(every)
    assert len(texts) < 255
    legal = code == 0
    assert legal[[0, 1, 0x10, 0x20, 0x80]].all()
    assert not legal[[0x3, 0x30, 0x300]].any()


def test_a_listed_rays_log_is_the_lists(world):
    table = make_table(60)
    rays = trace_list(world, table, RaySettings())
    for index in range(60):
        log = walk_listed(world, table, index, RaySettings())
        assert log.list_index == index
        assert log.result.hit == rays.hits.hit[index]
        assert [log.counters[c] for c in Counter] == rays.counters[index].tolist()
    for index in (-1, 60):
        with pytest.raises(RtviewerError, match="has 60 rays"):
            walk_listed(world, table, index, RaySettings())


def test_sorting_by_every_column_both_ways(world, bad):
    for table in (make_table(), bad, make_table(0)):
        rays = trace_list(world, table, RaySettings())
        for name, column in COLUMNS.items():
            values = np.asarray(column.values(rays))
            values = values.astype(np.float64)
            up, down = rays.order(name), rays.order(name, descending=True)
            for order, sign in ((up, 1), (down, -1)):
                assert sorted(order.tolist()) == list(range(len(rays)))
                shown = sign * values[order]
                numbers = shown[~np.isnan(shown)]
                assert np.all(numbers[1:] >= numbers[:-1]), name
                assert np.isnan(shown[len(numbers) :]).all(), "what is no number comes last"
                same = np.flatnonzero(numbers[1:] == numbers[:-1])
                if name != "index":
                    assert np.all(np.diff(order)[same] > 0), "equal ones stay in the file's order"


def test_filters(world, bad):
    rays = trace_list(world, bad, RaySettings())
    assert rays.order(only=[RayStatus.INVALID]).tolist() == [1, 2, 3, 5, 6]
    assert len(rays.order(only=[])) == 0
    both = rays.order("t", only=[RayStatus.HIT, RayStatus.MISS])
    assert sorted(both.tolist()) == [0, 4, 7]
    with pytest.raises(RtviewerError, match="there is no column 'colour': use one of index"):
        rays.order("colour")


def test_rows_are_plain_values(world, bad):
    rays = trace_list(world, bad, RaySettings())
    row = rays.row_json(1)
    assert list(row) == list(COLUMNS)
    assert (row["index"], row["status"], row["instance_index"]) == (1, "invalid", None)
    assert "RAY-3" in row["problem"]
    assert rays.row_json(0)["problem"] == ""


@pytest.mark.parametrize("suffix", RAY_SUFFIXES)
def test_exported_results_are_a_file_of_the_same_rays(world, bad, tmp_path, suffix):
    for table in (make_table(), bad, make_table(flags=None, mask=None)):
        rays = trace_list(world, table, RaySettings())
        path = tmp_path / f"results{suffix}"
        write_ray_columns(path, rays.arrays())
        again = read_rays(path)
        for name in ("origin", "direction", "t_min", "t_max", "flags", "mask"):
            before, after = getattr(table, name), getattr(again, name)
            assert (before is None) == (after is None)
            if before is not None:
                assert np.array_equal(before, after, equal_nan=before.dtype.kind == "f")
        assert {"hit", "invalid", "problem", "box_tests"} <= set(again.ignored)
    if suffix == ".npz":
        with np.load(path) as arrays:
            assert np.array_equal(arrays["hit"], rays.hits.hit)
            assert np.array_equal(arrays["barycentrics"], rays.hits.attributes)
            assert np.array_equal(arrays["tlas_nodes_visited"], rays.counters[:, Counter.TLAS_NODES_VISITED])


def test_a_fault_names_the_ray_of_the_list(scene, monkeypatch):
    table = HitGroupTable.of([HitGroup(HitGroupType.TRIANGLES, AS_GIVEN, ABSENT, True)])
    world = build_world(replace(scene, hit_groups=table))
    rays = make_table(40, flags=None, mask=np.zeros(40, np.uint32))
    rays.mask[33] = 0xFF  # type: ignore[index]
    rays.direction[33] = [0, 0, -1]
    rays.direction[33] = np.array([3, 0, 0]) - rays.origin[33]
    monkeypatch.setattr(ray_list, "CHUNK", 16)
    with pytest.raises(InvalidInputError, match="ray 33: "):
        trace_list(world, rays, RaySettings())


def test_illegal_settings_and_a_change_of_mind(world):
    with pytest.raises(InvalidInputError, match="RF-4"):
        trace_list(world, make_table(3), RaySettings(ray_flags=RayFlag(0x300)))
    with pytest.raises(CancelledError):
        trace_list(world, make_table(), RaySettings(), cancelled=lambda: True)


def test_progress_ends_at_one(world, monkeypatch):
    monkeypatch.setattr(ray_list, "CHUNK", 100)
    told = []
    trace_list(world, make_table(), RaySettings(), progress=lambda fraction, _: told.append(fraction))
    assert told == sorted(told)
    assert told[-1] == 1.0
