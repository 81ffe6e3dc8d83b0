"""`tcready bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import click
from tcready import api
from tcready.cli.arguments import HOW_TO_RUN, CommandOptions, complete_files, settings_of, with_options, writable
from tcready.cli.output import say, show, validate_output_files
from tcready.cli.progress_display import show_progress
from tcready.portable.options import BenchOptions, ReadOptions, RunOptions
from tcready.portable.target import quote
from tcready.schema.bench import Bench
from tcready.schema.enums import TcreadyError


@click.command()
@click.argument("target", shell_complete=complete_files)
@with_options(BenchOptions)
@with_options(RunOptions, only=HOW_TO_RUN | {"tiny", "config"})
@with_options(ReadOptions, only=frozenset({"mode"}))
@with_options(CommandOptions, only=frozenset({"editor"}))
@click.option("--output-format", type=click.Choice(tuple(api.FORMATS)), default="text", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", callback=writable, help="Write the report to this file instead of stdout."
)
@click.option("--html", metavar="FILE", callback=writable, help="Also write the HTML page to this file.")
@click.option("-v", "--verbose", is_flag=True, help="Print findings and runs in full.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors to stderr.")
@click.pass_context
def bench(
    context: click.Context,
    /,
    target: str,
    output_format: str,
    output: str | None,
    html: str | None,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Measure whether compiling TARGET pays off on this machine, with these inputs.

    Exits with 0 if the target was measured, whatever the verdict. Exits with 1 if an arm is slower than
    --fail-on-regression allows, or fails now. Exits with 2 if nothing could be measured, or if the result cannot be
    compared with --against.
    """
    wanted = BenchOptions(**{each.name: options[each.name] for each in fields(BenchOptions)})
    if (wanted.fail_on_regression is None) != (wanted.against is None):
        raise TcreadyError("--fail-on-regression and --against require each other: use both or neither")
    validate_output_files({"--output": output, "--html": html}, (target,))
    api.editor_address(options["editor"])  # raise for an invalid one before anything runs
    with show_progress(quiet) as (announce, progress):
        report = api.bench(
            target,
            wanted=wanted,
            command=" ".join(["tcready", *map(quote, sys.argv[1:])]),
            settings=settings_of(context, isolated=False),
            announce=announce,
            progress=progress,
        )
    slower: tuple[str, ...] = ()
    unknown: TcreadyError | None = None
    if wanted.against is not None and wanted.fail_on_regression is not None:
        try:
            slower = api.regressions(wanted.against, report, wanted.fail_on_regression)
        except TcreadyError as error:
            unknown = error
    # Only now: the output may be the file that was compared with.
    show(report, output_format, output, html, third_party=False, quiet=quiet, verbose=verbose, editor=options["editor"])
    if unknown is not None:
        raise unknown
    for line in slower:
        say(f"tcready: slower than in {wanted.against}: {line}")
    benches = [each.observation.bench for each in report.targets if each.was_run]
    return exit_of(benches, slower, guards=wanted.fail_on_regression is not None)


def exit_of(benches: Sequence[Bench | None], slower: Sequence[str], *, guards: bool) -> int:
    """Return the exit code. `guards`: --fail-on-regression was given, so a bench in which every arm failed fails."""
    measured = [found for found in benches if found is not None and found.verdict != "not_run"]
    if not benches or len(measured) < len(benches):
        return 2
    return 1 if slower or (guards and any(found.failed for found in measured)) else 0
