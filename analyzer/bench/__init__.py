"""Compute the figures of a bench from the raw times of its processes: intervals, verdicts and a recommendation.

No I/O. Only `figures` needs scipy. `repeat_comparison` compares two measurements of one arm, and is the one place
that says slower or faster.
"""
