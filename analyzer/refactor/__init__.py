"""Changes to source, made with libcst."""
