"""The results of built-in functions and of libraries, by name, if their source is not read."""
