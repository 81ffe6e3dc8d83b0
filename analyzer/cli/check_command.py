"""`tcready check`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click
from tcready import api
from tcready.cli.arguments import CHECK_OPTIONS, ByPurpose, CommandOptions, complete_files, settings_of, with_options
from tcready.cli.output import say_what_failed, show, show_comparison, validate_output_files, write_out
from tcready.cli.progress_display import show_progress
from tcready.config.resolution import Settings, shown
from tcready.schema.enums import TcreadyError
from tcready.schema.notebook_cells import path_in, place_in
from tcready.schema.report import Report

SHOWN = 40
"""Maximum number of unresolved constructs in a table."""


@click.command(cls=ByPurpose)
@click.argument("targets", nargs=-1, shell_complete=complete_files)
@click.option("--isolated", is_flag=True, help="Ignore pyproject.toml.")
@click.option("--show-settings", is_flag=True, help="Show each option, its value and its source; do not run a check.")
@with_options(*CHECK_OPTIONS)
@click.pass_context
def check(
    context: click.Context, /, targets: tuple[str, ...], isolated: bool, show_settings: bool, **_options: Any
) -> int:
    """Check TARGETS: read the source, run targets that provide inputs, and report.

    A TARGET is path.py, a folder, path.py::Name, pkg.mod::Name, or a library model: hf:bert, timm:resnet18,
    torchvision:resnet18, diffusers:UNet2DConditionModel. The default is the working folder.
    """
    settings = settings_of(context, isolated=isolated)
    command, options = settings.of(CommandOptions), settings.report
    validate_output_files(
        {
            "--output": command.output,
            "--html": command.html,
            "--timeline": command.timeline,
            "--write-baseline": options.write_baseline,
            "--trace-out": settings.run.trace_out,
        },
        (*targets, *command.observations, *filter(None, (settings.run.inputs,))),
    )
    api.editor_address(command.editor)  # raise for an invalid one before anything runs
    if show_settings:
        write_out(shown(api.settings_for(targets, settings), CHECK_OPTIONS))
        return 0
    if command.against_version is not None:
        return _compare_versions(targets or (".",), command, settings)
    if command.timeline is not None and (command.run is False or command.observations):
        raise TcreadyError("--timeline shows the compilations of a run: remove --no-run and --observation")
    without_timeline: TcreadyError | None = None
    with (
        contextlib.nullcontext(settings) if command.timeline is None else api.traced(settings) as run_settings,
        show_progress(command.quiet) as (announce, progress),
    ):
        report = api.check(
            targets or (() if settings.run.model else (".",)),
            run=command.run,
            observations=command.observations,
            settings=run_settings,
            announce=announce,
            progress=progress,
            checkout=command.html is not None or command.output_format in ("html", "json"),
        )
        if command.timeline is not None:
            try:
                api.save_timeline_of_run(report, run_settings, command.timeline)
            except TcreadyError as error:  # the report comes first
                without_timeline = error
    say_what_failed(report, command.output_format, command.output)
    if settings.work.cache:
        api.keep_last(report, settings.root, targets)
    counts = _statistics(report) if command.statistics and command.output_format == "text" else None
    show(
        report,
        command.output_format,
        command.output,
        command.html,
        third_party=options.third_party,
        quiet=command.quiet,
        verbose=command.verbose,
        text=counts,
        editor=command.editor,
    )
    if without_timeline is not None:
        raise without_timeline
    code = api.exit_code(report, fail_on=options.fail_on, third_party=options.third_party)
    return 0 if code == 1 and (command.exit_zero or options.write_baseline) else code


def _compare_versions(targets: tuple[str, ...], command: CommandOptions, settings: Settings) -> int:
    """Show which findings come and which go between two versions of torch; return the exit code.

    Only the static pass is compared: a run has the one torch that is installed.
    """
    if command.run is not False or command.observations:
        raise TcreadyError("--against-version compares predictions for two versions: add --no-run")
    assert command.against_version is not None
    versions = api.versions_to_compare(settings, command.against_version)
    with show_progress(command.quiet) as (announce, progress):
        compared, after = api.compare_versions(targets, versions, settings, announce=announce, progress=progress)
    show_comparison(
        compared, command.output_format, command.output, command.html, editor=command.editor, quiet=command.quiet
    )
    if api.exit_code(after) == 2:
        return 2
    options = settings.report
    code = api.exit_code(compared, fail_on=options.fail_on, third_party=options.third_party)
    return 0 if code == 1 and command.exit_zero else code


def _statistics(report: Report) -> str:
    counted = Counter((finding.rule or "-", finding.name) for finding in report.findings)
    rows = sorted(counted.items(), key=lambda row: (-row[1], row[0]))
    table = "".join(f"{count:>5}  {code:<6}  {name}\n" for (code, name), count in rows)
    table += "".join(f"skipped {item.path}: {item.reason}\n" for item in report.skipped)
    seen = report.statistics
    if "calls" not in seen:
        return table
    table += (
        f"{seen['functions']} functions reached; {seen['calls_resolved']} of {seen['calls']} calls in them resolved, "
        f"{seen['calls_cut']} cut by a limit\n"
    )
    kinds = {"source": "source that is read", "library": "known names", "value": "known values"}
    counts = [f"{seen[f'calls_to_{kind}']} to {words}" for kind, words in kinds.items() if f"calls_to_{kind}" in seen]
    if counts:
        table += f"of these {', '.join(counts)}\n"
    unresolved = seen.get("unresolved", ())
    cells = {source.path: source.cells for source in report.sources if source.cells}

    def where(row: Mapping[str, Any]) -> str:
        place = place_in(cells.get(row["path"], ()), row["line"])
        return f"{path_in(row['path'], place)}:{place.line}" if place else f"{row['path']}:{row['line']}"

    if unresolved:
        table += "not resolved, most frequent first, each with its first place:\n"
    table += "".join(f"{row['count']:>5}  {row['construct']}  {where(row)}\n" for row in unresolved[:SHOWN])
    if len(unresolved) > SHOWN:
        table += f"and {len(unresolved) - SHOWN} more kinds: `statistics` in the JSON lists all of them\n"
    return table
