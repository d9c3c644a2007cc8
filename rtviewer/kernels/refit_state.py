"""Where what an update works on stands in memory: offsets in blocks that Python fills and kernels read."""

SOURCE_NODES, TARGET_NODES, SOURCE_PACKS, TARGET_PACKS = 0, 8, 16, 24
ROWS, ROW_COUNT, INDEX_ROWS, VERTEX_ROWS, NODE_COUNT, BOXES = 32, 40, 48, 56, 64, 72
GRAIN, NEXT_PART, DOUBTFUL, DOUBTFUL_COUNT = 80, 88, 96, 104
"""int64 in the block that all threads of an update share: addresses, the number of geometry rows, for indexed packs the
sections of corners (INDEX_ROWS is 0 when corners stand in the packs), the number of nodes, the address of a box for
each, the nodes of a part, the next part that nobody has taken; the address of room for
four int32 a pack, which receives the lanes that may be degenerate or not finite in any order, four times the pack's
index plus the lane, and how many there are."""

ROW_FIRST, ROW_END, ROW_VERTICES, ROW_INDICES, ROW_FLAGS = 0, 8, 16, 24, 32
ROW_SIZE = 40
"""int64 in a geometry row: its primitives' numbers, the addresses of vertices (three float32) and of indices (three
uint32), the flag bits of its pack lanes."""

LANE_POINTS, LANE_VERTICES, LANE_INDICES, LANE_IDENTITIES, LANE_ROW, LANE_ROWS = 0, 144, 288, 336, 352, 392
PART_PACKS = 448
"""In the room that one thread works in: the corners of a pack as in a TRIANGLE_PACK; vertices, indices, ids and a
geometry row for a pack whose triangles are of several geometries; the addresses of the rows of its lanes; then the
packs of a part (int32), their boxes, and the references of its nodes with leaves numbered by that list."""
