"""The structure: one contiguous, relocatable, 256-aligned buffer, and read-only views on it. No algorithms change it."""
