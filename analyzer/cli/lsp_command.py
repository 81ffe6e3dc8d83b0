"""`tcready lsp`."""

from __future__ import annotations

import click
from tcready.cli.arguments import settings_at


@click.command()
def lsp() -> None:
    """Run the language server on stdin and stdout: findings and their changes while you type (requires the extra `lsp`).

    An editor starts this command. The documentation has configurations for some editors. The options of a project come
    from its pyproject.toml. The code is not executed.
    """
    from tcready.integrations import lsp as editor

    editor.serve(settings_at)
