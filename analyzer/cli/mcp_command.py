"""`tcready mcp`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from tcready.cli.arguments import settings_of, with_options
from tcready.portable.options import RunOptions
from tcready.schema.enums import TcreadyError


@click.command()
@click.option(
    "--root",
    metavar="DIR",
    default=".",
    show_default="the working folder",
    help="The folder that contains the targets, and the pyproject.toml to use.",
)
@click.option("--no-run", is_flag=True, help="Execute no code: offer the tools that read, and refuse runs.")
@with_options(RunOptions, only=frozenset({"python", "memory_gb", "allow_downloads"}))
@click.pass_context
def mcp(context: click.Context, /, root: str, no_run: bool, **_options: Any) -> int:
    """Serve an assistant over the Model Context Protocol, on stdin and stdout.

    The tools are check, rule, plan, fix, prove and bench. None of them writes to your files. plan, prove and bench
    execute your code. check and fix execute it if the assistant asks for it. Requires the extra `mcp`.
    """
    folder = Path(os.path.realpath(root))
    if not folder.is_dir():
        raise TcreadyError(f"--root {root}: there is no such folder")
    os.chdir(folder)
    settings_of(context, isolated=False)  # a mistake in pyproject.toml is reported before the first request
    try:
        from tcready.integrations.mcp.protocol_server import serve
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("mcp", "mcp_types", "anyio", "pydantic"):
            raise
        raise TcreadyError("tcready mcp needs the package mcp: pip install 'tcready[mcp]'") from None
    from tcready.integrations.mcp.tools import ListedPlace

    serve(ListedPlace(folder, lambda: settings_of(context, isolated=False), executes=not no_run))
    return 0
