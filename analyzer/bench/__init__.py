"""Compute figures with intervals, verdicts and a recommendation from the raw times of a bench. Pure; needs scipy."""
