"""The command line: click over `tcready.api`.

Findings go to stdout; what is about to be executed, and its progress, to stderr. `docs/pages/exits.md` has the exit
codes.
"""

from tcready.cli.arguments import CHECK_OPTIONS, CommandOptions
from tcready.cli.commands import app, main

__all__ = ["CHECK_OPTIONS", "CommandOptions", "app", "main"]
