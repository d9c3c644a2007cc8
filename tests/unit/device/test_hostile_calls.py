"""Good calls with numbers changed: they are done or refused, and a refused call has changed nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from rtviewer.accel.invariants import check
from rtviewer.device.buffers import AS, UAV
from rtviewer.dxr.flags import BuildFlag, CopyMode, ElementsLayout, PostbuildInfoType
from rtviewer.dxr.raw_descs import BuildDesc, BuildInputs, GeometryDesc, InstanceDesc, PostbuildInfoDesc
from rtviewer.errors import InvalidInputError
from tests.unit.device.scenes import BOX, NOWHERE, TRIANGLE, XBOX, Lab, bottom, sphere

UPDATE, COMPACTION = BuildFlag.ALLOW_UPDATE, BuildFlag.ALLOW_COMPACTION
SMALL_NUMBERS = (0, 1, 2, 3, 4, 6, 7, 8, 10, 12, 24, 32, 42, 57, 255, 256, 1 << 31, (1 << 32) - 1)
LARGE_NUMBERS = (1 << 32, (1 << 32) + 12, (1 << 63), (1 << 64) - 256, (1 << 64) - 1, NOWHERE)
WIDE_FIELDS = ("address", "buffer", "data", "stride", "transform3x4", "aabb_count", "instance_descs")


class Dice:
    def __init__(self, seed: int, lab: Lab) -> None:
        self.random = np.random.default_rng(seed)
        self.addresses = [
            b.address + o for b in lab.device.buffers for o in (0, 4, 16, 256, b.size - 1, b.size)
        ]  # fmt: skip

    def pick(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def address(self) -> int:
        return int(self.pick(*self.addresses, *LARGE_NUMBERS, 0, 1))

    def value(self, field: str) -> int:
        """A number for a field, which its C type can hold."""
        if any(word in field for word in WIDE_FIELDS):
            return int(self.pick(self.address(), self.pick(*SMALL_NUMBERS, *LARGE_NUMBERS)))
        return int(self.pick(*SMALL_NUMBERS, 1 << int(self.random.integers(32))))

    def changed(self, desc: Any) -> Any:
        """The desc with one number changed, somewhere in it."""
        field = self.pick(*fields(desc))
        value = getattr(desc, field.name)
        if is_dataclass(value):
            return replace(desc, **{field.name: self.changed(value)})
        if isinstance(value, tuple):
            if not value:
                return desc
            at = int(self.random.integers(len(value)))
            return replace(desc, **{field.name: (*value[:at], self.changed(value[at]), *value[at + 1 :])})
        return replace(desc, **{field.name: self.value(field.name)})


def _builds(lab: Lab) -> list[BuildDesc]:
    """Calls that are right, of every kind."""
    vertices, indices = sphere(1)
    matrix = np.eye(3, 4, dtype=np.float32)
    geometries = (lab.triangles(vertices, indices, matrix), lab.triangles(TRIANGLE, [0, 1, 2], index_dtype=np.uint16))
    flags = UPDATE | COMPACTION
    triangles, boxes = bottom(*geometries, flags=flags), bottom(lab.boxes(np.tile(BOX, (3, 1))))
    blas = lab.build(triangles)
    instances = [InstanceDesc(acceleration_structure=blas), InstanceDesc()]
    top = lab.instances(*instances, flags=flags)
    pointers = lab.instances(*instances, layout=ElementsLayout.ARRAY_OF_POINTERS)
    tlas = lab.build(top)
    updates = [(replace(i, flags=flags | BuildFlag.PERFORM_UPDATE), s) for i, s in ((triangles, blas), (top, tlas))]
    return [
        *(
            lab.build_desc(inputs)
            for inputs in (triangles, boxes, top, pointers, bottom(), BuildInputs.top_level(0, 0))
        ),
        *(lab.build_desc(inputs, source=source) for inputs, source in updates),
        lab.build_desc(updates[0][0], source=blas, dest=blas),
    ]


@pytest.mark.rule("ERR-1", "ERR-3")
@pytest.mark.timeout(200)
@pytest.mark.parametrize("xbox", [False, True])
def test_any_call_is_done_or_refused_and_never_both(xbox: bool) -> None:
    lab = Lab(XBOX) if xbox else Lab()
    builds = _builds(lab)
    live = [b.dest_acceleration_structure_data for b in builds]
    for build in builds:
        lab.device.build(build)
    blobs = [lab.serialized(address).address for address in live]
    rooms = {state: lab.buffer(1 << 16, state).address for state in (AS, UAV)}
    dice = Dice(7, lab)
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()

    def build() -> None:
        desc = dice.pick(*builds)
        for _ in range(dice.pick(0, 1, 1, 2)):
            desc = dice.changed(desc)
        infos = [PostbuildInfoDesc(dice.pick(rooms[UAV], dice.address()), dice.pick(*PostbuildInfoType, 4))]
        lab.device.build(desc, infos if dice.pick(True, False) else [])

    def prebuild() -> None:
        lab.device.get_prebuild_info(dice.changed(dice.pick(*builds).inputs))

    def copy() -> None:
        mode = dice.pick(*CopyMode, 7)
        room = rooms[UAV if mode in (2, 3) else AS]
        source = dice.pick(*(blobs if mode == CopyMode.DESERIALIZE else live))
        lab.device.copy(dice.pick(room, room, dice.address()), dice.pick(source, source, dice.address()), mode)

    def emit() -> None:
        info = PostbuildInfoDesc(dice.pick(rooms[UAV], dice.address()), dice.pick(*PostbuildInfoType, 4))
        lab.device.emit_postbuild_info(info, [dice.pick(*live, dice.address()) for _ in range(dice.pick(0, 1, 2))])

    for _ in range(3000):
        call = dice.pick(build, build, prebuild, copy, emit)
        before = [b.read() for b in lab.device.buffers]
        refusal: InvalidInputError | None = None
        try:
            call()
        except InvalidInputError as error:
            refusal = error
        if refusal is None:
            done[call.__name__] += 1
            continue
        refused[call.__name__] += 1
        assert refusal.violations
        assert list(refusal.violations) == sorted(refusal.violations)
        assert before == [b.read() for b in lab.device.buffers]
    for counts in (done, refused):
        assert all(counts[name] >= 20 for name in ("build", "prebuild", "copy", "emit")), (done, refused)
    for buffer in lab.device.buffers:
        record = lab.device.record_at(buffer.address)
        if record is not None:
            assert record.is_intact
            assert check(record.structure) == []


def test_changing_a_desc_changes_one_number() -> None:
    lab = Lab()
    dice = Dice(1, lab)
    desc = GeometryDesc()
    texts = {repr(dice.changed(desc)) for _ in range(200)}
    assert len(texts) > 50
