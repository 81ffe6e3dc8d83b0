"""Source text: edits, fingerprints and files that are written whole."""
