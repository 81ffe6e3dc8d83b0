"""The console script, and `python -m tcready`."""

from __future__ import annotations

import gc


def script() -> None:
    """What a console runs: the process ends with it, so nobody walks what is loaded and built to see what can go."""
    gc.disable()
    from tcready.cli import main

    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    script()
