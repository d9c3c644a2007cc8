"""Where things stand in the memory that kernels walk on: byte offsets from an address.

Blocks instead of arrays, because inner kernels take addresses (see ``memory``). ``trace.dispatch`` allocates them.
"""

from __future__ import annotations

# The world: 120 bytes.
WORLD_NODES = 0
WORLD_LEAVES = 8
WORLD_DESCS = 16
WORLD_NODE_COUNT = 24
WORLD_BLASES = 32
"""Address of the BLAS rows."""
WORLD_INSTANCE_BLAS = 40
"""Address of (instances,) int32: row of the instance's BLAS, -1 for none."""
WORLD_RECORDS = 48
"""Address of (records, 4) int32 hit-group records (``dxr.shader_table``)."""
WORLD_RECORD_COUNT = 56
"""-1: there is no table, and every geometry has all shaders."""
WORLD_RECORD_STEP = 64
"""1, or 0 for a table of stride 0."""
WORLD_REACH = 72
"""float32: largest coordinate of the top level."""
WORLD_CONDITION = 76
"""float32: worst product of the norms of an instance's transform and its inverse."""
WORLD_MATERIALS = 80
"""Address of one int64 per BLAS row: address of its material rows (``materials``), 0 for none. 0: there are none."""
WORLD_PROGRAMS = 88
"""Address of (programs,) int64: addresses of a user's programs."""
WORLD_PROGRAM_COUNT = 96
WORLD_REPORT = 104
"""Address of the function that a user's intersection programs report hits to."""
WORLD_REPEAT = 112
"""1: any-hit and intersection calls are repeated where the rules allow it (AH-7, PROC-8)."""
WORLD_SIZE = 120

# A BLAS row: 88 bytes.
BLAS_NODES = 0
BLAS_LEAVES = 8
BLAS_GEOMETRIES = 16
BLAS_GEOMETRY_COUNT = 24
BLAS_NODE_COUNT = 32
BLAS_IS_TRIANGLES = 40
BLAS_HAS_OPAQUE = 48
BLAS_HAS_NON_OPAQUE = 56
BLAS_REACH = 64
"""float32: largest coordinate."""
BLAS_INDICES = 72
"""Address of the corner indices of every triangle where packs hold ids only, else 0; likewise the next."""
BLAS_VERTICES = 80
BLAS_ROW_SIZE = 88

# The walk of one ray. What it is traced with:
ORIGIN = 0
DIRECTION = 12
T_MIN = 24
T_MAX = 28
REPORT_T = 32
RAY_FLAGS = 40
RAY_MASK = 48
ANY_HIT = 56
INTERSECTION = 64
OPACITY_OF_OPAQUE = 72
"""What ``culling.effective_opacity`` makes of opaque geometry in the instance being walked; likewise the next."""
OPACITY_OF_NON_OPAQUE = 80
INSTANCE = 88
INSTANCE_FLAGS = 96
# What it found: int64, -1 where there is no hit yet.
HIT_INSTANCE = 104
HIT_GEOMETRY = 112
HIT_PRIMITIVE = 120
HIT_KIND = 128
HIT_NUMBER = 136
"""Number of the primitive in its structure: geometry and primitive in one, ordered alike."""
HIT_IS_TRIANGLE = 144
HIT_WAS_OPAQUE = 152
ENDED = 160
T_CURRENT = 168
ATTRIBUTE_0 = 172
ATTRIBUTE_1 = 176
# Derived from the ray.
OBJECT_ORIGIN = 184
OBJECT_DIRECTION = 196
SLAB_TOP = 208
SLAB_BOTTOM = 256
SHEAR = 304
INTERVAL = 336
"""16 float32: entries and exits of the eight children being tested."""
PACK = 400
"""A triangle pack, filled from indices and vertices where the structure's packs hold ids only."""
WORLD = 560
"""Address of the world."""
RAY_CONTRIBUTION = 568
MULTIPLIER = 576
INSTANCE_CONTRIBUTION = 584
FAULT = 592
"""int64: 0, or what stopped the ray: FAULT_* with the record's index above it."""
QUERY_DECISIONS = 600
"""Address of float32, one per candidate that an inline query returned before: the t to commit, NaN for none."""
QUERY_DECIDED = 608
"""How many there are; the next candidate ends the walk and is returned."""
QUERY_NEXT = 616
REPORTS = 624
"""What a built-in intersection program reports (``intersections``): 64 bytes."""
CANDIDATE_BLOCK = 688
"""The block of the candidate that a user's program is called for (``candidate_block``): 296 bytes."""
STACK = 984

# A stack entry: 24 bytes.
ENTRY_REF = 0
ENTRY_T = 4
ENTRY_EXIT = 8
ENTRY_PLACE = 16
"""int64: parent node * 8 + lane, -1 for a root."""
ENTRY_SIZE = 24

FAULT_OUTSIDE_TABLE = 1
FAULT_WRONG_TYPE = 2
FAULT_UNKNOWN_ACTION = 3
"""A user's any-hit program returned something else than an action; likewise the next two."""
FAULT_HIT_KIND = 4
FAULT_RAISED = 5
FAULT_NO_PROGRAM = 6
FAULT_BITS = 8
"""The record's index is shifted by this; of a program's fault, its place in the table of programs."""
FAULT_VALUE_BITS = 24
"""The value that a program returned or reported is shifted by this."""

# A slab (``ray_box.set_slab``): per axis, 16 bytes of float32: origin for low planes, for high planes, reciprocal,
# sign. A shear (``ray_triangle.set_shear``): 32 bytes of float32: origin along kx, ky, kz; Sx, Sy, Sz; scale.
SHEAR_SCALE = 24

# A log: 40 bytes of int64.
LOG_ROWS = 0
"""Address of the EVENT rows."""
LOG_LIMIT = 8
LOG_COUNT = 16
LOG_LOST = 24
LOG_KINDS = 32
"""Bit k set where events of kind k are wanted."""
LOG_SIZE = 40
