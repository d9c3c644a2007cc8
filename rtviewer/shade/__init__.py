"""Hits and counters become colours: modes, palettes, heat maps, legends. Arrays in, RGBA out; knows no window."""
