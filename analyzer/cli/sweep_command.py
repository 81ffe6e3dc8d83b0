"""`tcready sweep`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import click
from tcready import api
from tcready.cli.arguments import HOW_TO_RUN, CommandOptions, complete_files, settings_of, with_options
from tcready.cli.output import say_what_failed, show, validate_output_files, validate_page_folder
from tcready.cli.progress_display import show_progress
from tcready.portable.options import MATRIX_AXES, ReadOptions, ReportOptions, RunOptions, SweepOptions, WorkOptions
from tcready.schema.enums import TcreadyError

HOW = (HOW_TO_RUN - {"inputs"}) | {"fullgraph", "shapes", "plan", "backend", "budget", "tiny", "config"}
"""Fields of RunOptions that apply to many models."""
READ = frozenset("mode torch exclude low plain_call".split())
REPORTED = frozenset("select ignore per_file_ignores fail_on third_party".split())
SHOWN = frozenset("run output_format output html editor exit_zero verbose quiet".split())


@click.command()
@click.argument("targets", nargs=-1, shell_complete=complete_files)
@with_options(SweepOptions)
@with_options(RunOptions, only=HOW)
@with_options(ReadOptions, only=READ)
@with_options(WorkOptions, only=frozenset({"cache"}))
@with_options(ReportOptions, only=REPORTED)
@with_options(CommandOptions, only=SHOWN)
@click.pass_context
def sweep(context: click.Context, /, targets: tuple[str, ...], **options: Any) -> int:
    """Check many models, store the results, and report on all models.

    A TARGET is a target of `check`, a glob of files or of a library's models (hf:*), the name of a package, or a .toml
    file that lists targets. Every model is run unless --no-run is given. If no inputs are given, they are generated.
    Results of an earlier sweep are reused for what has not changed. An interrupted sweep resumes where it stopped.
    """
    wanted = SweepOptions(**{each.name: options[each.name] for each in fields(SweepOptions)})
    if wanted.matrix:  # what follows its first axis goes with it: --matrix device=cpu,cuda mode=infer,train
        axes = tuple(text for text in targets if text.partition("=")[0] in MATRIX_AXES and "=" in text)
        wanted = replace(wanted, matrix=(*wanted.matrix, *axes))
        targets = tuple(text for text in targets if text not in axes)
    written = {"--export": wanted.export, "--store": wanted.store}
    if not targets and wanted.export is not None:
        validate_output_files(written)
        api.export_sweeps(wanted.store, wanted.export)
        return 0
    if not targets:
        raise TcreadyError("name what to sweep: a folder, a file, a glob, a package or a .toml file")
    settings = settings_of(context, isolated=False)
    command, report_options = settings.of(CommandOptions), settings.report
    validate_output_files({"--output": command.output, "--html": command.html, **written}, targets)
    if command.html is not None:
        validate_page_folder(command.html)
    api.editor_address(command.editor)  # raise for an invalid one before anything runs
    with show_progress(command.quiet) as (announce, progress):
        report = api.sweep(
            targets,
            run=command.run is not False,
            wanted=wanted,
            settings=settings,
            announce=announce,
            progress=progress,
            checkout=command.html is not None or command.output_format in ("html", "json"),
        )
    say_what_failed(report, command.output_format, command.output)
    show(
        report,
        command.output_format,
        command.output,
        command.html,
        third_party=report_options.third_party,
        quiet=command.quiet,
        verbose=command.verbose,
        editor=command.editor,
    )
    code = api.exit_code(report, fail_on=report_options.fail_on, third_party=report_options.third_party)
    return 0 if code == 1 and command.exit_zero else code
