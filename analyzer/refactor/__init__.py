"""Changes to source, made with libcst: a rule says what to replace, `suggest` makes the edits."""
