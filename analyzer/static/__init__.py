"""Rooms of the static half: source text to findings, without torch and without running anything."""
