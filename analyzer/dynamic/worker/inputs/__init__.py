"""Load the target and create its inputs."""
