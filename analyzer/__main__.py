"""`python -m tcready`."""

from tcready.cli import script

if __name__ == "__main__":
    script()
