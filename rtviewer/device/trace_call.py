"""Tracing against addresses: is everything still what the top level was built over?"""

from __future__ import annotations

import numpy as np

from rtviewer.accel.structure import Structure
from rtviewer.build.builder import build_tlas
from rtviewer.device.contents import Record
from rtviewer.device.device_memory import DeviceMemory
from rtviewer.device.read_inputs import instance_table
from rtviewer.dxr.layouts import INSTANCE_DESC
from rtviewer.dxr.programs import IntersectionProgram
from rtviewer.dxr.rules import require
from rtviewer.errors import Violation, violation
from rtviewer.trace.dispatch import Dispatcher
from rtviewer.trace.request import RayBatch, TraceResult, TraceSettings

CALL = "TraceRay"
SECTION = "Acceleration structure memory restrictions"


def trace(
    memory: DeviceMemory, tlas_address: int, rays: RayBatch, settings: TraceSettings, counters: bool
) -> TraceResult:
    """Hits of every ray; address 0 misses [RAY-9].

    Raises InvalidInputError: ALIGN-1, BLD-6, BLD-10, CP-7, ST-1, XB-5, RF-*.
    """
    tlas, blases, found = world_at(memory, tlas_address)
    require(found, CALL)
    result = Dispatcher(tlas, blases, memory.profile).trace(rays, settings, counters=counters)
    memory.warn(found + _ray_warnings(rays) + _report_warnings(settings))
    return result


def world_at(memory: DeviceMemory, tlas_address: int) -> tuple[Structure, dict[int, Structure], list[Violation]]:
    """The top level at an address with the bottom levels it refers to, and what forbids tracing it."""
    if not tlas_address:
        return build_tlas(instance_table(np.empty(0, INSTANCE_DESC)), blases={}), {}, []
    record, found = memory.live(tlas_address, "AccelerationStructure", "BLD-10", SECTION)
    if record is None:
        return build_tlas(instance_table(np.empty(0, INSTANCE_DESC)), blases={}), {}, found
    if not record.structure.is_top_level:
        text = "rays are traced against a top-level structure; this is a bottom level"
        field, value = "AccelerationStructure", f"{tlas_address:#x}"
        rule = "XB-5" if record.is_dehydrated else "BLD-10"
        return record.structure, {}, [*found, violation(rule, text, field=field, value=value, section=SECTION)]
    blases, more = _blases_of(memory, record)
    return record.structure, blases, found + more


def _blases_of(memory: DeviceMemory, tlas: Record) -> tuple[dict[int, Structure], list[Violation]]:
    """BLD-10 for every bottom level that the top level names, and BLD-6."""
    found: list[Violation] = []
    blases: dict[int, Structure] = {}
    seen: dict[int, int] = {}
    addresses = tlas.structure.instance_descs["AccelerationStructure"]
    for address in map(int, np.unique(addresses[addresses != 0])):
        instance = int(np.flatnonzero(addresses == address)[0])
        field, value = f"InstanceDescs[{instance}].AccelerationStructure", f"{address:#x}"
        record, violations = memory.live(address, field, "BLD-10", SECTION)
        found += violations
        if record is None:
            continue
        if record.structure.is_top_level:
            text = "an instance refers to a top-level structure"
            found.append(violation("BLD-10", text, field=field, value=value, section=SECTION))
            continue
        if record.is_dehydrated:
            text = "an instance refers to a dehydrated structure: rehydrate it first"
            found += [violation(r, text, field=field, value=value, section=SECTION) for r in ("BLD-10", "XB-5")]
            continue
        built_over = tlas.blas_generations.get(address)
        if built_over is not None and built_over != record.generation:
            text = (
                f"the top level was built over generation {built_over} of this bottom level, which is now generation "
                f"{record.generation}: rebuild or update the top level"
            )
            found.append(violation("BLD-6", text, field=field, value=value, section=SECTION))
        blases[address], seen[address] = record.structure, record.generation
    if not any(not v.warning for v in found):
        # After a deserialization nothing is known until the first trace [SER-5].
        tlas.blas_generations.update(seen)
    return blases, found


def _report_warnings(settings: TraceSettings) -> list[Violation]:
    """PROC-7: a program that reports NaN is refused its hit, and somebody should know."""
    t, program = np.atleast_1d(settings.report_t), np.atleast_1d(settings.intersection)
    bad = np.isnan(np.asarray(t, np.float32)) & (program == int(IntersectionProgram.REPORT_T))
    if not bad.any():
        return []
    text = "an intersection program reports NaN, which is never inside the interval"
    return [violation("PROC-7", text, field="ReportHit.THit", value="NaN", section="ReportHit", warning=True)]


def _ray_warnings(rays: RayBatch) -> list[Violation]:
    """RAY-5."""
    zero = np.flatnonzero((rays.direction == 0).all(1))
    infinite = np.flatnonzero(np.isinf(rays.origin).any(1) | np.isinf(rays.direction).any(1))
    cases = (
        (zero, "a zero direction hits no triangle", "Direction", "0"),
        (infinite, "an infinite ray misses", "Origin or Direction", "infinity"),
    )
    return [
        violation(
            "RAY-5", f"ray {int(which[0])} ({len(which)} in all): {text}", field=field, value=value,
            section="Ray description structure", warning=True,
        )
        for which, text, field, value in cases
        if len(which)
    ]  # fmt: skip
