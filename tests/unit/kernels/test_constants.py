"""Every integer of ``kernels.constants`` names a member of ``dxr`` or a fact of the layout."""

from __future__ import annotations

import numpy as np
import pytest

from rtviewer.accel import layout
from rtviewer.dxr import programs, shader_table
from rtviewer.dxr.flags import GeometryFlag, HitKind, InstanceFlag, RayFlag
from rtviewer.dxr.layouts import INSTANCE_DESC
from rtviewer.dxr.programs import AnyHitProgram, IntersectionProgram
from rtviewer.dxr.rules import Opacity
from rtviewer.dxr.verdicts import Counter, EventKind, Verdict
from rtviewer.kernels import constants

PREFIXES = {
    "ANY_HIT_": AnyHitProgram,
    "PROGRAM_": IntersectionProgram,
    "EVENT_": EventKind,
    "COUNT_": Counter,
    "OPACITY_": Opacity,
    "VERDICT_": Verdict,
}
SHORTENED = {
    "VERDICT_ANY_HIT_FIRST_ENDED": Verdict.ANY_HIT_ACCEPTED_FIRST_HIT_ENDED_SEARCH,
    "RAY_FORCE_OPAQUE": RayFlag.FORCE_OPAQUE,
    "RAY_FORCE_NON_OPAQUE": RayFlag.FORCE_NON_OPAQUE,
    "RAY_ACCEPT_FIRST_HIT": RayFlag.ACCEPT_FIRST_HIT_AND_END_SEARCH,
    "RAY_CULL_BACK_FACING": RayFlag.CULL_BACK_FACING_TRIANGLES,
    "RAY_CULL_FRONT_FACING": RayFlag.CULL_FRONT_FACING_TRIANGLES,
    "RAY_CULL_OPAQUE": RayFlag.CULL_OPAQUE,
    "RAY_CULL_NON_OPAQUE": RayFlag.CULL_NON_OPAQUE,
    "RAY_SKIP_TRIANGLES": RayFlag.SKIP_TRIANGLES,
    "RAY_SKIP_PROCEDURALS": RayFlag.SKIP_PROCEDURAL_PRIMITIVES,
    "INSTANCE_CULL_DISABLE": InstanceFlag.TRIANGLE_CULL_DISABLE,
    "INSTANCE_FRONT_COUNTERCLOCKWISE": InstanceFlag.TRIANGLE_FRONT_COUNTERCLOCKWISE,
    "INSTANCE_FORCE_OPAQUE": InstanceFlag.FORCE_OPAQUE,
    "INSTANCE_FORCE_NON_OPAQUE": InstanceFlag.FORCE_NON_OPAQUE,
    "PROGRAM_QUERY": programs.QUERY,
    "PROGRAM_AS_GIVEN": shader_table.AS_GIVEN,
    "PROGRAM_ABSENT": shader_table.ABSENT,
    "RECORD_TRIANGLES": shader_table.HitGroupType.TRIANGLES,
    "RECORD_PROCEDURAL": shader_table.HitGroupType.PROCEDURAL_PRIMITIVE,
    "RECORD_NULL": shader_table.HitGroupType.NULL,
    "INSTANCE_SINGULAR": layout.INSTANCE_SINGULAR,
    "GEOMETRY_OPAQUE": GeometryFlag.OPAQUE,
    "GEOMETRY_NO_DUPLICATE": GeometryFlag.NO_DUPLICATE_ANYHIT_INVOCATION,
    "GEOMETRY_FLAGS": layout.GEOMETRY.fields["flags"][1],
    "FIRST_USER_PROGRAM": programs.FIRST_USER_PROGRAM,
    "FRONT_FACE": HitKind.TRIANGLE_FRONT_FACE,
    "BACK_FACE": HitKind.TRIANGLE_BACK_FACE,
    "PRIMITIVE_BITS": layout.PRIMITIVE_BITS,
    "ID_OPAQUE": layout.ID_OPAQUE,
    "UNUSED_LANE": layout.UNUSED_LANE,
    "COUNTERS": len(Counter),
    "NODE_SIZE": layout.NODE.itemsize,
    "NODE_CHILD": layout.NODE.fields["child"][1],
    "NODE_ORDER": layout.NODE.fields["order"][1],
    "PACK_IDS": layout.TRIANGLE_PACK.fields["id"][1],
    "TRIANGLE_PACK_SIZE": layout.TRIANGLE_PACK.itemsize,
    "INDEXED_PACK_SIZE": layout.INDEXED_PACK.itemsize,
    "BOX_PACK_HIGH": layout.BOX_PACK.fields["high"][1],
    "BOX_PACK_IDS": layout.BOX_PACK.fields["id"][1],
    "BOX_PACK_SIZE": layout.BOX_PACK.itemsize,
    "INSTANCE_LEAF_SIZE": layout.INSTANCE_LEAF.itemsize,
    "INSTANCE_DESC_SIZE": INSTANCE_DESC.itemsize,
    "GEOMETRY_SIZE": layout.GEOMETRY.itemsize,
    "GEOMETRY_FIRST_PRIMITIVE": layout.GEOMETRY.fields["first_primitive"][1],
}

NAMES = [name for name in vars(constants) if name.isupper()]


@pytest.mark.parametrize("name", NAMES)
def test_constant_equals_its_definition(name: str) -> None:
    value = getattr(constants, name)
    assert type(value) is np.int64
    if name in SHORTENED:
        assert value == SHORTENED[name]
        return
    prefix = next(p for p in PREFIXES if name.startswith(p))
    assert value == PREFIXES[prefix][name.removeprefix(prefix)]


def test_every_counter_and_event_kind_has_a_constant() -> None:
    for prefix, kind in (("COUNT_", Counter), ("EVENT_", EventKind)):
        assert {f"{prefix}{m.name}" for m in kind} <= set(NAMES)
