"""Rewriters: how each kind of hazard is rewritten, on libcst's tree. Imported only when a rewrite is requested."""
