"""Measure how fast a model runs, eager and compiled, and what compiling costs.

`bench_process` decides what a process measures. `measurement_loop` calls every arm in every case until its times
settle; `state` restores what calls change on the model.
"""
