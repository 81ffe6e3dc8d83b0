"""Run a model in the target interpreter, and observe it.

The worker imports the standard library, torch, and those parts of tcready that `bundle` packs: an interpreter that
has nothing but torch can run it. A run is a `Context` (what it knows: the request, the journal, what its stages made)
and steps, each a `Step` (name, what it requires, `run(context)`), in the order of `pipeline.ORDER`. A run in this
process, for the pytest plugin, takes the steps in `pipeline.OF_AN_OBJECT`.

`main`, `context`, `step`, `journal` and `stages.parse` load no torch, so an interpreter without it gets an answer
too. The journal is written after each step, so a crash leaves what was established before. What
`torch._dynamo.explain` reports comes from its own backend around ours: one cold run is both explain's and the
recorded one. `agreement` is the only judge of whether values agree up to rounding.
"""
