"""Recompilation and specialization: TCR5xx."""
