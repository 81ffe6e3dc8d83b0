"""Results of functions without source: built-in functions and libraries, by name."""
