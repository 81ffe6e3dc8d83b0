"""One format a file; each is `render(Report) -> str` over the schema alone."""
