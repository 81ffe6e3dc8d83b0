"""The dynamic half: a target to an Observation, in a process of its own."""
