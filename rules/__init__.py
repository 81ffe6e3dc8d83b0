"""One hazard a file; found by walking this folder."""
