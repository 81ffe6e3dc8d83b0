"""What functions give whose source is not read."""
