"""Measuring how fast a model runs, eager and compiled, and what compiling it costs."""
