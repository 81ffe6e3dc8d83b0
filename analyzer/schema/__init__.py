"""Every value that crosses a boundary: static half, worker, merge, reports, JSON.

Standard library only: the worker carries this folder into the target interpreter. Every value is frozen; sequences
are tuples; lines and columns are 1-based; columns count characters, the end column is one past the last.

Names come from the file that defines them, so that a check that runs nothing does not load what describes runs:
making two hundred dataclasses takes longer than such a check of a file that has not changed.
"""
