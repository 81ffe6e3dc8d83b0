"""Programs that use tcready as a library: editors, assistants, pytest, IPython and serving engines."""
