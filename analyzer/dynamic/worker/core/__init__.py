"""What every stage of the worker uses."""
