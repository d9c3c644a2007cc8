"""Bytes on disk: one file per format, a registry, bounded readers and atomic writers."""
