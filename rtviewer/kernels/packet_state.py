"""Where things stand in the block of a packet: byte offsets, as ``state`` for one ray.

A packet is PARTS parts of 16 rays, each with a block of its own (PART_SIZE); what follows them is common to all.
Everything that is said of rays is a vector of 16 lanes of 32 bits (64 bytes) unless said otherwise.
"""

from __future__ import annotations

LANES = 16
PARTS = 4
"""Parts share the boxes of nodes and the way through the tree: that hides the time from a box test to what it
decides, which is most of the time of 16 rays."""
VECTOR = 64

# A space: the rays as seen by one level, and what box and triangle tests make of them.
SPACE_ORIGIN = 0
SPACE_DIRECTION = 192
SPACE_LOW = 384
"""Origins for low planes, moved outward (``ray_box``); likewise the next for high planes."""
SPACE_HIGH = 576
SPACE_RECIPROCAL = 768
SPACE_CLASS = 960
"""int32, see CLASS_*: rays walk together when theirs is the same."""
SPACE_NEAR = 1024
"""Of the rays that walk together: origins for the planes met first, for the others, the shear."""
SPACE_FAR = 1216
SPACE_SHEAR = 1408
"""Origin along kx, ky, kz; Sx, Sy, Sz."""
SPACE_BOUNDS = 1792
"""16 float32, of which 14 are used: what bounds all rays of the part (BOUND_*)."""
SPACE_SIZE = 1856

BOUND_LEAST_RECIPROCAL = 0
"""Per axis; likewise the next three. The near and far origins are those that bound the distances of all."""
BOUND_GREATEST_RECIPROCAL = 12
BOUND_NEAR = 24
BOUND_FAR = 36
BOUND_T_MIN = 48
BOUND_END = 52
"""Widened."""

CLASS_KZ = 3
"""Bits 0 to 2: components that are positive or zero, as octants are numbered; from this bit on kz."""
CLASS_HUGE = 32
"""The origin is so far out that the shear has to be scaled."""
CLASS_TOP = 7
CLASS_BOTTOM = 63

PACKET_WORLD = 0
PACKET_OBJECT = SPACE_SIZE
PACKET_T_MIN = 2 * SPACE_SIZE
PACKET_T_MAX = PACKET_T_MIN + VECTOR
PACKET_END = PACKET_T_MAX + VECTOR
"""The current end of each ray, -inf of a ray that is done."""
PACKET_WIDE_END = PACKET_END + VECTOR
"""The same, widened for box tests."""
PACKET_INSTANCE = PACKET_WIDE_END + VECTOR
"""What was hit, -1 where nothing yet; the next three are only meant where something was."""
PACKET_NUMBER = PACKET_INSTANCE + VECTOR
PACKET_KIND = PACKET_NUMBER + VECTOR
PACKET_V = PACKET_KIND + VECTOR
"""16 float64: with the next two, attributes are V / DET and W / DET."""
PACKET_W = PACKET_V + 2 * VECTOR
PACKET_DET = PACKET_W + 2 * VECTOR
PACKET_RAYS = PACKET_DET + 2 * VECTOR
"""Rays of a last part that is not full: 16 x 3 float32 origins, as many directions, 16 t_min, 16 t_max."""
PART_SIZE = PACKET_RAYS + 8 * VECTOR
# Common to all parts from here; words are of 32 bits:
BOUNDS_WORLD = PARTS * PART_SIZE
"""Bounds of all parts, as SPACE_BOUNDS."""
BOUNDS_OBJECT = BOUNDS_WORLD + VECTOR
RANKS = BOUNDS_OBJECT + VECTOR
"""Eight int32: children in octant order, times 4."""
ENTERED = RANKS + 32
"""Index of the instance being walked."""
KIND_POSITIVE = ENTERED + 4
"""Hit kind where the determinant is positive; likewise the next."""
KIND_NEGATIVE = ENTERED + 8
CULLED_POSITIVE = ENTERED + 12
"""1 where a hit of that kind is culled by facing; likewise the next."""
CULLED_NEGATIVE = ENTERED + 16
CULLED_OPAQUE = ENTERED + 20
"""1 where opaque geometry is culled; likewise the next."""
CULLED_NON_OPAQUE = ENTERED + 24
HIT_ONLY = ENTERED + 28
"""1 where only hit or miss is asked."""
ACTIVE = RANKS + VECTOR
"""uint64, a bit for each ray: those that enter an instance. Likewise the next: those that walk its bottom level."""
GROUP = ACTIVE + 8
GROUP_CLASS = ACTIVE + 16
"""int64, what SPACE_CLASS is for them."""
WALK = ACTIVE + 24
"""int64: address of the walk of one ray."""
STREAM = ACTIVE + 32
"""int64: address of the slots of rays that walk alone."""
ASK = ACTIVE + 40
"""int64: address of the part that asks any-hit programs, 0 where every hit is opaque."""
IN_DOUBT = ACTIVE + 48
"""uint64: rays that met candidates of the same t where DET-5 is not what decides: their order does, so they are traced
again alone."""
ASKED_OPAQUE = ACTIVE + 56
"""int32: 1 where opaque geometry of the instance counts as non-opaque; likewise the next of what is not opaque."""
ASKED_NON_OPAQUE = ACTIVE + 60
OFFERED = ACTIVE + VECTOR
"""Of eight rays whose hits an any-hit program is asked about: V, W and DET, (3, 8) float64."""
CANDIDATES = OFFERED + 3 * VECTOR
"""What is left to be decided of a leaf, at most two for each triangle and part, and one to spare: int64 address of a
triangle, int32 bits of rays, int32 half of a part."""
ASIDE = CANDIDATES + 16 * (16 * PARTS + 4)
"""What rays have put aside to walk alone later: for each ray how many, int32, then its items of 8 bytes: reference,
float32 where the ray enters."""
ASIDE_ROOM = 12
ASIDE_ITEMS = ASIDE + 4 * LANES * PARTS
PACKET_REFS = ASIDE_ITEMS + 8 * ASIDE_ROOM * LANES * PARTS
"""The stack's references, int32; its entries, a vector for each part, follow after a multiple of 64 bytes."""
ENTRY_BITS = PARTS * VECTOR
"""uint64, behind the vectors: which rays enter."""
ENTRY_VECTORS = ENTRY_BITS + VECTOR

# A request: int64 addresses of the rays' and results' columns, and what is uniform.
REQUEST_ORIGIN = 0
REQUEST_DIRECTION = 8
REQUEST_T_MIN = 16
REQUEST_T_MAX = 24
REQUEST_COUNT = 32
REQUEST_HIT_ONLY = 40
REQUEST_HIT = 48
REQUEST_T = 56
REQUEST_INSTANCE = 64
REQUEST_GEOMETRY = 72
REQUEST_PRIMITIVE = 80
REQUEST_KIND = 88
REQUEST_INSTANCE_ID = 96
REQUEST_ATTRIBUTES = 104
REQUEST_HIT_GROUP = 112
REQUEST_INVALID = 120
REQUEST_IDS = 128
"""Address of (instances,) int64 instance ids; likewise contributions."""
REQUEST_CONTRIBUTIONS = 136
REQUEST_PACKET = 144
REQUEST_WALK = 152
REQUEST_WORLD = 160
REQUEST_STACK = 168
"""Entries that the packet's stack has room for."""
REQUEST_STREAM = 176
"""Address of the stream for rays that walk alone; its slots hold the flags, mask and programs of REQUEST_WALK."""
REQUEST_SIZE = 184
