"""The engine: values, objects, expressions, statements, calls, and what is known of libraries."""
