"""Verify a change: make the same calls before and after it, and compare everything that a caller can see.

`overlay` replaces files by changed sources, `variations` varies inputs, `sides` records which branches are taken,
`behaviour` collects the observable effects of a call, and `trials` runs before and after, each in a copy of one
process (`children`). `later_calls` and `compiling` compare eager with compiled code.
"""
