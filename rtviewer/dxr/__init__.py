"""The specification's words: flags, rules, descs, byte layouts, formats, limits.

Everything else in the product derives from here: checkboxes, command-line options, validation, kernel constants and
tests. Knows nothing of how structures are built or traced.
"""
