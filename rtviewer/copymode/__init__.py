"""The copy modes on bytes: one file each. Addresses, states and overlaps are the device's; nothing here changes its
source (CP-4), and every refusal comes before a byte is written (ERR-1)."""
