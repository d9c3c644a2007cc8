"""Numbers of the whole program, limits on them, and the README's section made from a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from rtviewer.errors import RtviewerError
from tests.bench import memory, start
from tests.bench.__main__ import IN_BRIEF, IN_FULL, WHOLE, command
from tests.bench.cracks import PLACES, measure_cracks, miss_name, owner_name
from tests.bench.debugging import PICK, PICK_WORST, RECORDER, measure_log, without_recorder
from tests.bench.facts import ROOT, Fact, run_child
from tests.bench.markdown import section_of
from tests.bench.memory import measure_memory, peak_name
from tests.bench.peers import Peers
from tests.bench.report import fact_table
from tests.bench.rows import FAST_BUILD, PRODUCT_BUILDS, RTVIEWER, Plan
from tests.bench.scenes import TINY
from tests.bench.start import COLD, IMPORT, WARM, measure_start
from tests.bench.targets import FACT_LIMITS, judge_facts

NOBODY = Peers(None, "not here", None, "not here")
PLAN = Plan(1, TINY.pixels, 1, brief=True)


def by_name(facts: list[Fact]) -> dict[str, Fact]:
    return {fact.name: fact for fact in facts}


# --- measuring ----------------------------------------------------------------------------------------------------


def test_a_peak_holds_at_least_the_result() -> None:
    if not memory.CLEAR.exists():
        pytest.skip("only Linux tells a process's peak")
    facts = by_name(measure_memory(TINY, ["torus", "hall"]))
    assert set(facts) == {peak_name(builder) for builder in PRODUCT_BUILDS}
    for fact in facts.values():
        assert fact.value is not None
        assert 1.0 < fact.value < 50.0
        assert fact.note.startswith("hall: ")


def test_small_results_give_no_ratio() -> None:
    if not memory.CLEAR.exists():
        pytest.skip("only Linux tells a process's peak")
    facts = measure_memory(TINY, ["torus"])
    assert [fact.value for fact in facts] == [None] * len(PRODUCT_BUILDS)
    assert "8 MB" in facts[0].note


def test_loading_kernels_takes_time_and_importing_them_less() -> None:
    facts = by_name(measure_start(PLAN, cold=False))
    assert set(facts) == {WARM, IMPORT}
    assert 0 < (facts[IMPORT].value or 0) < (facts[WARM].value or 0)


def test_compiling_is_measured_with_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def child(arguments: list[str], cache: dict[str, str]) -> dict[str, object]:
        asked.append(cache)
        assert not list(Path(cache["XDG_CACHE_HOME"]).iterdir())
        return {"cpu": 9.0, "wall": 5.0, "imported": 0.2, "steps": {"compiling the builder": 9.0}}

    monkeypatch.setattr(start, "run_child", child)
    facts = by_name(measure_start(PLAN, cold=True))
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert (facts[COLD].value, facts[COLD].note) == (9.0, "builder 9.0")
    assert facts[WARM].value == 5.0


def test_a_failing_child_says_why() -> None:
    with pytest.raises(RtviewerError, match="ValueError: no"):
        run_child(["-c", "raise ValueError('no')"])


def test_logs_of_a_grid_of_pixels_are_timed() -> None:
    facts = by_name(measure_log(TINY))
    assert 0 < (facts[PICK].value or 0) <= (facts[PICK_WORST].value or 0)
    assert facts[PICK].note.startswith("48 pixels")


def test_cracks_are_counted_without_peers_too() -> None:
    facts = by_name(measure_cracks(TINY, NOBODY))
    for place in PLACES:
        assert facts[miss_name(RTVIEWER, place)].value == 0
        assert facts[owner_name(place)].value == 0
        assert facts[miss_name("Embree", place)] == Fact(miss_name("Embree", place), None, "rays", "not here")


# --- the recorder -------------------------------------------------------------------------------------------------


def test_the_kernels_have_a_recorder_to_take_out() -> None:
    sources = {path.name: path.read_text("utf-8") for path in (ROOT / "rtviewer/kernels").glob("*.py")}
    stripped = {name: without_recorder(text) for name, text in sources.items()}
    removed = {name for name, (_, count) in stripped.items() if count}
    assert {"traverse.py", "candidates.py", "events.py"} <= removed
    left = "\n".join(text for text, _ in stripped.values())
    assert left.count("add_event(") == 1  # its definition, which now does nothing
    compile(left.replace("from __future__ import annotations", ""), "kernels", "exec")


def test_what_runs_without_a_log_stays() -> None:
    text, removed = without_recorder(
        "def f(log):\n    if log is not None:\n        a()\n    else:\n        b()\n    c()\n"
    )
    assert removed == 1
    assert text == "def f(log):\n    b()\n    c()"


def test_counts_are_shown_in_full() -> None:
    lines = fact_table([Fact("a", 189_700, "rays"), Fact("b", 0.12345, "s"), Fact("c", None, "x", "why")]).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["189,700", "0.1235", "not measured"]


# --- limits -------------------------------------------------------------------------------------------------------


def test_facts_are_judged_by_their_limits() -> None:
    judged = {item.name: item for item in judge_facts([Fact(COLD, 10.0, "CPU s"), Fact(RECORDER, 1.01, "x time")])}
    assert len(judged) == len(FACT_LIMITS)
    cold = judged[f"{COLD}, CPU s"]
    assert (cold.met, cold.value, cold.high, cold.share) == (False, 10.0, 8.0, 1.25)
    assert judged[f"{RECORDER}, x time"].met is True
    assert judged[peak_name(FAST_BUILD)].met is None


def test_brief_runs_wait_for_no_compiler() -> None:
    assert not {"start", "recorder"} & set(IN_BRIEF)
    assert {*IN_BRIEF, *IN_FULL} == set(WHOLE)


# --- the README's section -----------------------------------------------------------------------------------------


def test_a_run_becomes_a_section(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    done = CliRunner().invoke(command, ["torus", "spheres", "cracks", "--size", "tiny", "--json", str(file)])
    assert done.exit_code == 0, done.output
    assert "## Whole program" in done.output
    shown = CliRunner().invoke(command, ["--markdown", str(file)])
    assert shown.exit_code == 0, shown.output
    assert shown.output == section_of(file)
    about = json.loads(file.read_text("utf-8"))["machine"]
    lines = shown.output.splitlines()
    assert about["date"] in lines[0]
    assert about["processor"] in lines[0]
    assert "tinybvh: not measured" in shown.output
    heads = [line for line in lines if line.startswith("| rays ")]
    assert [cell.strip() for cell in heads[0].split("|")[3:-1]] == ["torus", "spheres"]
    speeds = [line.split("|") for line in lines if line.startswith("| primary | rtviewer ")]
    assert float(speeds[0][3].split()[0]) > 0
    targets = {cells[1].strip(): cells[4].strip() for line in lines if len(cells := line.split("|")) == 6}
    assert targets["rays at vertices of the closed sphere that miss, rtviewer, rays"] == "met"


def test_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    for text in ("{}", "[]", "no"):
        file.write_text(text, "utf-8")
        with pytest.raises(RtviewerError, match=r"not what .* --json writes"):
            section_of(file)
