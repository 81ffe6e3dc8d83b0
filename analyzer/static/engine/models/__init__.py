"""What functions return whose source is not read: built-in functions and libraries, by name."""
