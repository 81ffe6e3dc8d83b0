"""`tcready lsp`."""

from __future__ import annotations

import click
from tcready.cli.asked import settings_at


@click.command()
def lsp() -> None:
    """Serve an editor over stdin and stdout: findings while you type, with their changes (the extra `lsp`).

    An editor starts it; the documentation has the configuration of some. What a project asks for is in its
    pyproject.toml. Nothing of the code is executed.
    """
    from tcready import editor

    editor.serve(settings_at)
