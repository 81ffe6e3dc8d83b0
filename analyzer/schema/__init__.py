"""Every value that crosses a boundary: static pass, worker, merge, reports, JSON.

The worker carries this folder into the target interpreter, so it imports only the standard library. Every value is
frozen; sequences are tuples; lines and columns count from 1, columns in characters, and an end column is one past the
last. A new field has a default; a changed field is a new version of the report. `codec` reads and writes JSON,
`migrations` completes what older JSON leaves out.

Import each name from the file that defines it, so that a check that runs nothing does not load what describes runs:
creating two hundred dataclasses takes longer than such a check of a file that has not changed. `value_class`
defines the classes that each check loads, in about half the time of `dataclasses`.
"""
