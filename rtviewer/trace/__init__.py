"""Structures, rays and flags to hits, counters and logs; and the brute-force oracle they are compared with."""
