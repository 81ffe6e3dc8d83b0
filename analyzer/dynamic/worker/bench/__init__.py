"""Measure how fast a model runs, eager and compiled, and what compiling costs.

`process` decides what a process measures. `lanes` calls every arm in every case until its times settle; `state`
restores what calls change on the model.
"""
