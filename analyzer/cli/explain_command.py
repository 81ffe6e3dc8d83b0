"""`tcready explain`."""

from __future__ import annotations

from typing import Any

import click
from tcready import api
from tcready.cli.arguments import complete_files, settings_of, with_options
from tcready.cli.output import on_terminal, write_out
from tcready.cli.progress_display import show_progress
from tcready.portable.options import ReadOptions


@click.command()
@click.argument("fingerprint")
@click.argument("named", nargs=-1, metavar="[REPORT | TARGET]...", shell_complete=complete_files)
@with_options(ReadOptions, only=frozenset({"mode", "torch", "exclude", "low", "plain_call"}))
@click.pass_context
def explain(context: click.Context, /, fingerprint: str, named: tuple[str, ...], **_options: Any) -> int:
    """Explain one finding: why it hurts, what to write instead, how it is known, and what it costs.

    FINGERPRINT is the ID at the end of the finding's line, or a unique beginning of it. The finding is looked up in a
    REPORT (JSON or HTML), or in TARGETs, which are read but not run. Without either, it is looked up in the last run in
    this folder, or in the source in this folder.
    """
    with show_progress(quiet=False) as (announce, _):
        report, finding = api.explain(
            fingerprint, named, settings=settings_of(context, isolated=False), announce=announce
        )
    write_out(api.render_finding(report, finding, **on_terminal()))
    if finding.rule:
        write_out(f"For the page of its rule, run `tcready rule {finding.rule}`.\n")
    elif finding.advice:
        write_out(f"For the page on it, run `tcready rule {finding.advice}`.\n")
    return 0
