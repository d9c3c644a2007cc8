"""Tables to read and JSON to keep."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tests.bench.facts import Fact
from tests.bench.measure import Samples
from tests.bench.peers import Peers
from tests.bench.rows import (
    BUILD_CONTENDERS,
    EMBREE,
    EMBREE_HIGH,
    EMBREE_OTHER_TREES,
    RAY_CONTENDERS,
    RAY_KINDS,
    REFIT_CONTENDERS,
    RTVIEWER,
    Plan,
    SceneResult,
)
from tests.bench.scenes import MESHES, Size
from tests.bench.targets import Judgement

NOT_MEASURED = "not measured"
BUSY = 0.5
"""Load average above which wall clock times say more about the other work than about the contenders."""


def machine(size: Size, plan: Plan, peers: Peers) -> dict[str, Any]:
    """Where, when and what of a run."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": _processor_name(),
        "threads": plan.threads,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "versions": {name: _version(name) for name in ("rtviewer", "numpy", "numba", "embreex")}
        | {"python": platform.python_version()},
        "size": size.name,
        "rounds": plan.rounds,
        "rays": size.pixels**2,
        "not_measured": {
            name: reason
            for name, reason in (("Embree", peers.embree_missing), ("tinybvh", peers.tinybvh_missing))
            if reason
        },
    }


def _processor_name() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def heading(about: dict[str, Any]) -> str:
    """The lines above the tables."""
    versions = ", ".join(f"{name} {found}" for name, found in about["versions"].items() if found)
    lines = [
        f"{about['date']}, {about['processor']}, {about['threads']} threads, {versions}",
        f"{about['size']} size, {about['rays']:,} primary rays, medians of {about['rounds']} interleaved rounds; "
        "± is slowest minus fastest, as a part of the median",
    ]
    if about["size"] != "full":
        lines.append(
            "For a quick look, not for comparing: meshes and pictures are smaller than in a full run, and Embree HIGH, "
            "rays on trees of other flags and, unless named, `start` and `recorder` are left out."
        )
    lines += [f"{name}: {NOT_MEASURED}: {reason}" for name, reason in about["not_measured"].items()]
    load = about["load_average"]
    if load is not None and load > BUSY:
        lines.append(f"The machine was busy at the start (load {load:.1f}): do not trust wall times.")
    return "\n".join(lines)


def scene_tables(result: SceneResult, threads: int, *, brief: bool) -> str:
    """The tables of one scene as Markdown."""
    many = result.units != result.primitives
    title = f"## {result.name}: {result.primitives:,} {'triangle' if many else result.kind}s"
    if many:
        title += f", {result.units:,} {result.kind}s"
    blocks = [title, _build_table(result, threads, brief=brief)]
    if result.name in MESHES:
        blocks.append(_refit_table(result, threads))
    return "\n\n".join([*blocks, _ray_table(result, threads, brief=brief)]) + "\n"


def _build_table(result: SceneResult, threads: int, *, brief: bool) -> str:
    head = [
        "build", "1T CPU s", "±", f"{threads}T wall s", "±", f"used B/{result.kind}", "nodes and leaves",
        "promised or peak",
    ]  # fmt: skip
    rows = []
    for name in _shown(BUILD_CONTENDERS, result.builds, brief):
        row = result.builds.get(name)
        if row is None:
            rows.append([name, NOT_MEASURED, *[""] * 6])
            continue
        tree = "" if row.tree is None else f"{row.tree:.1f}"
        rows.append([name, *_time(row.one), *_time(row.all), f"{row.used:.1f}", tree, f"{row.bound:.1f}"])
    return table(head, rows)


def _refit_table(result: SceneResult, threads: int) -> str:
    rows = []
    for name in REFIT_CONTENDERS:
        samples = result.refits.get(name)
        rows.append([name, NOT_MEASURED, ""] if samples is None else [name, *_time(samples)])
    return table(["refit", f"{threads}T wall s", "±"], rows)


def _ray_table(result: SceneResult, threads: int, *, brief: bool) -> str:
    head = [
        "rays", "tracer", "1T Mrays/s", "±", "x Embree single", f"{threads}T Mrays/s", "±", "x Embree single",
        "in kernels", "other hit",
    ]  # fmt: skip
    rows = []
    for kind in RAY_KINDS:
        measured, count = result.rays.get(kind, {}), result.ray_counts.get(kind, 0)
        peer = measured.get(EMBREE)
        for name in _shown(RAY_CONTENDERS, measured, brief):
            row = measured.get(name)
            if row is None:
                rows.append([kind, name, NOT_MEASURED, *[""] * 7])
                continue
            rows.append(
                [
                    kind,
                    name,
                    *_speed(row.one, count),
                    "" if peer is None else f"{peer.one.median / row.one.median:.2f}",
                    *_speed(row.all, count),
                    "" if peer is None else f"{peer.all.median / row.all.median:.2f}",
                    "" if row.kernel_share is None else f"{row.kernel_share:.0%}",
                    "" if row.mismatch is None else f"{row.mismatch:.1e}",
                ]
            )
    return table(head, rows)


def _shown(names: Sequence[str], measured: dict[str, Any], brief: bool) -> list[str]:
    """All contenders; in a brief run without those that it leaves out on purpose."""
    left_out = (EMBREE_HIGH, *EMBREE_OTHER_TREES, f"{RTVIEWER} ") if brief else ()
    return [name for name in names if name in measured or not name.startswith(left_out)]


def _time(samples: Samples) -> list[str]:
    return [f"{samples.median:.4f}", _spread(samples)]


def _speed(samples: Samples, count: int) -> list[str]:
    return [f"{count / samples.median / 1e6:.2f}", _spread(samples)]


def _spread(samples: Samples) -> str:
    return f"{samples.spread:.0%}" if len(samples.seconds) > 1 else ""


def fact_table(facts: Sequence[Fact]) -> str:
    """Single numbers with their units."""
    rows = [[f.name, _number(f.value), f.unit, f.note] for f in facts]
    return table(["whole program", "measured", "unit", ""], rows)


def _number(value: float | None) -> str:
    """Counts in full, other numbers with four digits."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.4g}"


def target_table(judgements: Sequence[Judgement]) -> str:
    """Every target, what it is, what was reached and where."""
    rows = []
    for item in judgements:
        value = NOT_MEASURED if item.value is None else f"{item.value:.3g}"
        share = "" if item.share is None else f"{item.share:.2f}"
        verdict = "" if item.met is None else ("met" if item.met else "missed")
        bounds = bounds_text(item.low, item.high)
        rows.append([item.name, bounds, value, verdict, share, ", ".join(item.scenes)])
    head = ["target (ratios of speeds are geometric means over scenes)", "", "measured", "", "/ target", "scenes"]
    return table(head, rows)


def bounds_text(low: float | None, high: float | None) -> str:
    """``at least 2 and at most 3``."""
    words = ("at least", low), ("at most", high)
    return " and ".join(f"{word} {bound:.3g}" for word, bound in words if bound is not None)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines)


def as_json(
    about: dict[str, Any], results: Sequence[SceneResult], facts: Sequence[Fact], judgements: Sequence[Judgement]
) -> dict[str, Any]:
    """Everything, with the seconds of every round."""
    return {
        "machine": about,
        "facts": [asdict(fact) for fact in facts],
        "scenes": {result.name: asdict(result) for result in results},
        "targets": [asdict(item) for item in judgements],
    }
