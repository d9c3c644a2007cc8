"""The README's performance section, made from what ``./run bench --json`` wrote."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtviewer.errors import RtviewerError
from tests.bench.report import NOT_MEASURED, bounds_text, table
from tests.bench.rows import (
    BUILD_CONTENDERS,
    EMBREE,
    EMBREE_16_ROBUST,
    EMBREE_REFIT,
    EMBREE_ROBUST,
    RAY_KINDS,
    RTVIEWER,
    TINYBVH,
)

RAY_ROWS = (RTVIEWER, EMBREE, EMBREE_ROBUST, EMBREE_16_ROBUST, TINYBVH)


def section_of(file: Path) -> str:
    """The section for a file of results. Raises RtviewerError when it is not one."""
    try:
        data = json.loads(file.read_text("utf-8"))
        return readme_section(data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RtviewerError(f"{file}: not what ./run bench --json writes: {error!r}") from error


def readme_section(data: Mapping[str, Any]) -> str:
    """Machine and date, rays, builds, targets and single numbers as Markdown."""
    about, scenes = data["machine"], data["scenes"]
    versions = ", ".join(f"{name} {found}" for name, found in about["versions"].items() if found)
    parts = [
        f"Measured on {about['date']} with {about['processor']}, {about['threads']} threads ({about['system']}); "
        f"{versions}; {about['size']} size, medians of {about['rounds']} interleaved rounds."
    ]
    if about["size"] != "full":
        parts.append("A quick look at smaller meshes and pictures, not for comparing.")
    if about["not_measured"]:
        parts.append(" ".join(f"{name}: {NOT_MEASURED}: {why}." for name, why in about["not_measured"].items()))
    if scenes:
        parts += ["Mrays per CPU second of one thread (times Embree single):", _rays(scenes)]
        parts += [f"Builds and refits, wall milliseconds on {about['threads']} threads:", _builds(scenes)]
    parts.append(_targets(data["targets"]))
    return "\n\n".join(parts) + "\n"


def _median(samples: Mapping[str, Any]) -> float:
    return statistics.median(samples["seconds"])


def _rays(scenes: Mapping[str, Any]) -> str:
    rows = []
    for kind in RAY_KINDS:
        for name in RAY_ROWS:
            cells = [_speed(scene, kind, name) for scene in scenes.values()]
            if any(cells):
                rows.append([kind, name, *cells])
    return table(["rays", "tracer", *scenes], rows)


def _speed(scene: Mapping[str, Any], kind: str, name: str) -> str:
    rows = scene["rays"].get(kind, {})
    if name not in rows:
        return ""
    seconds = _median(rows[name]["one"])
    text = f"{scene['ray_counts'][kind] / seconds / 1e6:.2f}"
    if name != EMBREE and EMBREE in rows:
        text += f" ({_median(rows[EMBREE]['one']) / seconds:.2f})"
    return text


def _builds(scenes: Mapping[str, Any]) -> str:
    rows = []
    for name in BUILD_CONTENDERS:
        found = [scene["builds"].get(name) for scene in scenes.values()]
        if any(found):
            rows.append([name, *("" if row is None else f"{_median(row['all']) * 1e3:.1f}" for row in found)])
    for name in (RTVIEWER, EMBREE_REFIT):
        samples = [scene["refits"].get(name) for scene in scenes.values()]
        if any(samples):
            label = "rtviewer update (not in place)" if name == RTVIEWER else name
            rows.append([label, *("" if s is None else f"{_median(s) * 1e3:.1f}" for s in samples)])
    return table(["build", *scenes], rows)


def _targets(targets: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for item in targets:
        value = NOT_MEASURED if item["value"] is None else f"{item['value']:.3g}"
        verdict = {None: "", True: "met", False: "missed"}[item["met"]]
        rows.append([item["name"], bounds_text(item["low"], item["high"]), value, verdict])
    return table(["target", "", "measured", ""], rows)
