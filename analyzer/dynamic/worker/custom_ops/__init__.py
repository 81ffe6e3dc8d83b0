"""Operators and functions that are not torch's own."""
