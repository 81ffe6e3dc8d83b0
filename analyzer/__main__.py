"""The console script, and `python -m tcready`."""

from __future__ import annotations

import gc


def script() -> None:
    """Entry point of the console script. The process exits inside it, so that no time is spent on freeing loaded
    objects."""
    gc.disable()
    from tcready.cli import main

    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    script()
