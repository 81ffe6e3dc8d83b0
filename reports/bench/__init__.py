"""What a bench shows."""
