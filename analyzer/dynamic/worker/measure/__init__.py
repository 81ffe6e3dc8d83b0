"""Compare and count what calls do."""
