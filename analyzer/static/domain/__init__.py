"""Values that the interpreter computes with."""
