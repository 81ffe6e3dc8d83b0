"""Run a model in the target interpreter, and observe it.

The worker imports the standard library, torch, and those parts of tcready that `bundle` packs: an interpreter that
has only torch can run it. A run consists of a `Context` (its data: the request, the journal, the results of its
stages) and steps, each a `Step` (name, requirements, `run(context)`), in the order of `pipeline.ORDER`. A run in this
process, for the pytest plugin, uses the steps in `pipeline.OF_AN_OBJECT`.

`core.main`, `core.context`, `core.step`, `core.journal` and `stages.parse` do not load torch, so an interpreter
without it gets an answer too. The journal is written after each step, so a crash preserves earlier results. What
`torch._dynamo.explain` reports comes from its own backend around ours: one cold run serves both. Only
`measure.agreement` decides whether values agree up to rounding.
"""
