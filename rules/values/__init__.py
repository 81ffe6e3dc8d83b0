"""Data-dependent values and shapes: TCR2xx."""
