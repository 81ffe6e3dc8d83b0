"""The abstract interpreter: it executes functions on values that are known in part, and emits facts.

Every reachable function is interpreted under the arguments that its callers pass. Values are a lattice with the
default "unknown" (`domain.values`; `tests/static/test_lattice.py` has its laws). The files from `names` to
`entries` are components that do not import each other: `interfaces` has what they may ask of one another, and
`interpreter` puts them together. `summaries.incremental_replay` reuses compiled calls after an edit.
"""
