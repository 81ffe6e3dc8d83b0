"""Verify a change: make the same calls before and after it, and compare what a caller can see.

`overlay` puts changed sources over files, `variations` varies inputs, `sides` records which way each branch test
goes, `behaviour` collects what a call shows, and `trials` runs before and after, each in a copy of one process
(`children`). `later_calls` and `compiling` compare eager with compiled code.
"""
