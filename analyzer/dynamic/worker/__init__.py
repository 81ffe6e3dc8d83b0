"""Runs in the target interpreter: stdlib, torch and `tcready.schema` only."""
