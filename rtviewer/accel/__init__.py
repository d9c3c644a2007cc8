"""The structure: one contiguous, relocatable buffer and read-only views on it. No algorithm here changes it."""
