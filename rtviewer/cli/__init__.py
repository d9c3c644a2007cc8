"""The command line: one command a file, each a thin face of ``session``. Needs no display; only ``view`` loads Qt."""
