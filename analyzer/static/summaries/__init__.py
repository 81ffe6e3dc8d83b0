"""Results that are reused: of modules made alike, and after an edit."""
