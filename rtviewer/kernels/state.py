"""Where things stand in the memory that kernels walk on: byte offsets from an address.

Blocks instead of arrays, because inner kernels take addresses (see ``memory``). ``trace.dispatch`` allocates them.
"""

from __future__ import annotations

# The world: 192 bytes.
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
WORLD_ONLY_LEAF = 80
"""Address of the leaf of the only instance, when its box in the top level cannot keep a ray out that could hit it; else
0."""
WORLD_MATERIALS = 88
"""Address of one int64 per BLAS row: address of its material rows (``materials``), 0 for none. 0: there are none."""
WORLD_PROGRAMS = 96
"""Address of (programs,) int64: addresses of a user's programs."""
WORLD_PROGRAM_COUNT = 104
WORLD_REPORT = 112
"""Address of the function that a user's intersection programs report hits to."""
WORLD_REPEAT = 120
"""1: any-hit and intersection calls are repeated where the rules allow it (AH-7, PROC-8)."""
# Addresses of parts (``parts``), 0 where none can be needed:
WORLD_WALK_SLOTS = 128
WORLD_TEST_BOXES = 136
WORLD_WALK_LEAVES = 144
WORLD_OFFER = 152
WORLD_ENTER_GROUP = 160
"""Of packets (``packet``), likewise the next three."""
WORLD_WALK_GROUP = 168
WORLD_ASK_GROUP = 176
WORLD_WALK_ALONE = 184
WORLD_SIZE = 192

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
OPACITY_KEY = 180
"""int32: the flags of ray and instance that the two opacities were made from, -1 at first."""
# Derived from the ray.
OBJECT_ORIGIN = 184
OBJECT_DIRECTION = 196
SLAB_TOP = 208
SLAB_BOTTOM = 272
SHEAR = 336
INTERVAL = 368
"""16 float32: entries and exits of the eight children being tested."""
EDGES = 432
"""Of the four triangles being tested: U, V, W and the area, (4, 4) float64; t, (4,) float32."""
SPHERE_RAY = 432
"""In the same place where a structure has spheres (``spheres``): origin and direction in object space, six float64."""
SPHERE_ROOTS = 480
"""Of the four spheres being tested: near and far roots, (2, 4) float32."""
PACK = 576
"""A triangle pack, filled from indices and vertices where the structure's packs hold ids only."""
WORLD = 736
"""Address of the world."""
RAY_CONTRIBUTION = 744
MULTIPLIER = 752
INSTANCE_CONTRIBUTION = 760
FAULT = 768
"""int64: 0, or what stopped the ray: FAULT_* with the record's index above it."""
QUERY_DECISIONS = 776
"""Address of float32, one per candidate that an inline query returned before: the t to commit, NaN for none."""
QUERY_DECIDED = 784
"""How many there are; the next candidate ends the walk and is returned."""
QUERY_NEXT = 792
# The walk of a bottom level:
BLAS = 800
"""Address of its row."""
OCTANT = 808
KZ = 816
PACK_FOUND = 824
"""Address of the pack whose lanes were returned."""
TIED = 832
"""int64: 1 once a candidate met the end that an earlier one set, so that their order decided. Only set here."""
# The stack, as arrays: a walk in a bottom level stands above the top level's entries. Addresses of:
STACK_REFERENCES = 864
"""int32: node or leaf."""
STACK_ENTRIES = 872
"""float32: where the ray enters the box."""
STACK_EXITS = 880
"""float32; this and the next only where something is counted or logged."""
STACK_PLACES = 888
"""int64: parent node * 8 + lane, -1 for a root."""
REPORTS = 896
"""What a built-in intersection program reports (``intersections``): 64 bytes."""
CANDIDATE_BLOCK = 960
"""The block of the candidate that a user's program is called for (``candidate_block``): 296 bytes."""
# Of a walk that is one of many side by side (``stream``): where it stands. The reference it takes next:
SLOT_NEXT = 1256
SLOT_SIZE = 1264
"""Entries on its stack."""
SLOT_RAY = 1272
"""Number of its ray in the batch, -1 for none."""
# What level it is in: addresses of nodes, leaves and slab, bytes of a leaf's unit, what leaves hold, order of children.
LEVEL_NODES = 1280
LEVEL_LEAVES = 1288
LEVEL_LEAF_SIZE = 1296
LEVEL_LEAF_KIND = 1304
LEVEL_SLAB = 1312
LEVEL_OCTANT = 1320
WALK_SIZE = 1328
STACK_SLACK = 8
"""Entries past the end that a step may overwrite."""

# A stream: slots for many walks, each with its references and entries behind it.
STREAM_SLOTS = 0
"""Address of the first."""
STREAM_SLOT_SIZE = 8
"""Bytes from one to the next."""
STREAM_COUNT = 16
STREAM_ROOM = 24
"""Entries that each stack has room for."""
STREAM_LISTS = 32
"""Address of four lists of as many int64 as there are slots."""
STREAM_FIRST = 40
"""The rays that slots are given: from this one on, up to that before the next."""
STREAM_LAST = 48
STREAM_SIZE = 56

# A batch of rays: addresses of its arrays.
BATCH_ORIGIN = 0
"""(n, 3) float32; likewise the next."""
BATCH_DIRECTION = 8
BATCH_T_MIN = 16
"""(n,) float32; likewise the next."""
BATCH_T_MAX = 24
# Address and stride in bytes (0: one value for all rays) of uint32, the last float32:
BATCH_FLAGS = 32
BATCH_MASK = 48
BATCH_ANY_HIT = 64
BATCH_INTERSECTION = 80
BATCH_CONTRIBUTION = 96
BATCH_MULTIPLIER = 112
BATCH_REPORT_T = 128
# Results, (n,) unless said otherwise:
BATCH_HIT = 144
"""uint8; likewise BATCH_INVALID."""
BATCH_INVALID = 152
BATCH_FOUND_T = 160
BATCH_INSTANCE_INDEX = 168
"""int32; likewise the next three."""
BATCH_GEOMETRY_INDEX = 176
BATCH_PRIMITIVE_INDEX = 184
BATCH_HIT_KIND = 192
BATCH_ATTRIBUTES = 200
"""(n, 2) float32."""
BATCH_INSTANCE_ID = 208
"""int64; likewise the next."""
BATCH_HIT_GROUP = 216
BATCH_LOG_END = 224
"""int64: events logged when the ray was done, where there is a log."""
BATCH_FAULT = 232
"""int64: 0, or the first fault among the rays (FAULT_*); BATCH_FAULT_RAY: that ray."""
BATCH_FAULT_RAY = 240
BATCH_SIZE = 248

X_RAY = 1 << 31
"""A bit above the flags of RAY_FLAGS: hits are counted and logged, none is committed, nothing ends the search."""

FAULT_OUTSIDE_TABLE = 1
FAULT_WRONG_TYPE = 2
FAULT_UNKNOWN_ACTION = 3
"""A user's any-hit program returned something else than an action; likewise the next three."""
FAULT_HIT_KIND = 4
FAULT_RAISED = 5
FAULT_NO_PROGRAM = 6
FAULT_BITS = 8
"""The record's index is shifted by this; of a program's fault, its place in the table of programs."""
FAULT_VALUE_BITS = 24
"""The value that a program returned or reported is shifted by this."""

# A slab (``ray_box``): rows of 12 bytes with a value for each axis: float32 origin and reciprocal for the planes met
# first, for those met last; int32 offset in a node of the planes met first.
SLAB_RECIPROCAL = 12
SLAB_FAR = 24
SLAB_FAR_RECIPROCAL = 36
SLAB_PLANES = 48

# A shear (``ray_triangle.set_shear``): 32 bytes of float32: origin along kx, ky, kz; Sx, Sy, Sz; scale.
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
