"""`tcready explain`."""

from __future__ import annotations

from typing import Any

import click
from tcready import api
from tcready.cli.asked import asked, complete_files, settings_of
from tcready.cli.output import on_terminal, write_out
from tcready.cli.telling import telling
from tcready.options import ReadOptions


@click.command()
@click.argument("fingerprint")
@click.argument("named", nargs=-1, metavar="[REPORT | TARGET]...", shell_complete=complete_files)
@asked(ReadOptions, only=frozenset({"mode", "torch", "exclude", "low", "plain_call"}))
@click.pass_context
def explain(context: click.Context, /, fingerprint: str, named: tuple[str, ...], **_options: Any) -> int:
    """Tell all of one finding: why it hurts, what to write instead, how it is known, what it costs.

    FINGERPRINT is what stands at the end of the finding's line, or as much of it as no other finding has. It is looked
    for in a REPORT (JSON or HTML), or in TARGETs, which are read and not run. With neither it is one of the last run
    here, or of the source in this folder.
    """
    with telling(quiet=False) as (announce, _):
        report, finding = api.explain(
            fingerprint, named, settings=settings_of(context, isolated=False), announce=announce
        )
    write_out(api.render_finding(report, finding, **on_terminal()))
    if finding.rule:
        write_out(f"`tcready rule {finding.rule}` is the page of its rule.\n")
    elif finding.advice:
        write_out(f"`tcready rule {finding.advice}` is the page on it.\n")
    return 0
