"""Where settings come from: the command line, pyproject.toml and the defaults."""
