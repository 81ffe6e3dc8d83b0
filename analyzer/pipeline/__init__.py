"""The pipeline of a check as named steps, from the choice of runs to the finished report."""
