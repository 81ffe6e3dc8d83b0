"""The command line: click over `tcready.api`.

Findings go to stdout, what is about to be executed and how it goes to stderr; exits as the README tells them.
"""

from tcready.cli.asked import ASKED, CommandOptions
from tcready.cli.commands import app, main

__all__ = ["ASKED", "CommandOptions", "app", "main"]
