"""How `benchmarks/torch_tables.py` learns what the torch of an interpreter does: one file a table."""
