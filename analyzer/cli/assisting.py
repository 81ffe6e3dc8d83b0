"""`tcready mcp`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from tcready.cli.asked import asked, settings_of
from tcready.options import RunOptions
from tcready.schema.words import TcreadyError


@click.command()
@click.option(
    "--root",
    metavar="DIR",
    default=".",
    show_default="the working folder",
    help="The folder that targets are below, and whose pyproject.toml holds.",
)
@click.option("--no-run", is_flag=True, help="Execute nothing: offer the tools that read, and refuse runs.")
@asked(RunOptions, only=frozenset({"python", "memory_gb", "allow_downloads"}))
@click.pass_context
def mcp(context: click.Context, /, root: str, no_run: bool, **_options: Any) -> int:
    """Answer an assistant over the Model Context Protocol, on stdin and stdout.

    Its tools are check, rule, plan, fix, prove and bench; none writes into your files. plan, prove and bench execute your
    code, check and fix do if the assistant asks for it. Needs the extra `mcp`.
    """
    folder = Path(os.path.realpath(root))
    if not folder.is_dir():
        raise TcreadyError(f"--root {root}: there is no such folder")
    os.chdir(folder)
    settings_of(context, isolated=False)  # a mistake in pyproject.toml is told before anybody asks
    try:
        from tcready.assistants.server import serve
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in (
            "mcp",
            "mcp_types",
            "anyio",
            "pydantic",
        ):
            raise
        raise TcreadyError("tcready mcp needs the package mcp: pip install 'tcready[mcp]'") from None
    from tcready.assistants.tools import Place

    serve(Place(folder, lambda: settings_of(context, isolated=False), executes=not no_run))
    return 0
