"""`python -m tcready`."""

from tcready.cli import main

if __name__ == "__main__":
    main()
