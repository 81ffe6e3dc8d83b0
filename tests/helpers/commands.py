"""Runs a command in this process."""

from __future__ import annotations

import pytest
from tcready.cli import main


def run(*arguments: str) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code
