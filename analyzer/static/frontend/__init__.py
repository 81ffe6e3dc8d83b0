"""From files to trees: sources, notebooks and the index of names. No interpretation."""
