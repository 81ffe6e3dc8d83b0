"""Side effects and Python state: TCR3xx."""
