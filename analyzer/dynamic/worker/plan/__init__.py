"""Choose which parts to compile, and try them."""
