"""The command line: click over `tcready.api`.

Findings go to stdout; what is about to be executed, and its progress, to stderr. `docs/pages/exits.md` has the exit
codes.
"""

from tcready.cli.asked import ASKED, CommandOptions
from tcready.cli.commands import app, main

__all__ = ["ASKED", "CommandOptions", "app", "main"]
