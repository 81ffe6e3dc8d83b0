"""Verify a change: make the same calls before and after it, and compare everything that a caller can see.

`source_overlay` replaces files by changed sources, `variations` varies inputs, `branch_coverage` records which
branches are taken, `effects_of_call` collects the observable effects of a call, and `trials` runs before and after,
each in a copy of one process (`fork_pool`). `repeated_calls` and `compiling` compare eager with compiled code.
"""
