"""`tcready report`."""

from __future__ import annotations

from pathlib import Path

import click
from tcready import api
from tcready.cli.arguments import writable
from tcready.cli.output import show, show_comparison, validate_output_files
from tcready.cli.progress_display import show_progress
from tcready.schema.enums import LEVELS, Level, TcreadyError
from tcready.schema.report import Report


@click.command()
@click.argument("files", nargs=-1, metavar="FILES...")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="DIR",
    help="What a job wrote under TORCH_TRACE, used instead of a run. May be repeated. FILES are then "
    "the targets to read, as in `tcready check`. Default: the sources that the trace names.",
)
@click.option(
    "--trace-root",
    "moved",
    multiple=True,
    metavar="OLD=NEW",
    help="A folder on the job's machine, and the same folder on this machine. May be repeated. Without "
    "this option, files are found by the end of their paths.",
)
@click.option("--compare", is_flag=True, help="Report what changed from the first file to the second.")
@click.option("--output-format", type=click.Choice(tuple(api.FORMATS)), default="text", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", callback=writable, help="Write the report to this file instead of stdout."
)
@click.option("--html", metavar="FILE", callback=writable, help="Also write the HTML page to this file.")
@click.option(
    "--timeline",
    metavar="FILE.json",
    callback=writable,
    help="Also write a timeline of the compilations in the trace to this file, for https://ui.perfetto.dev. "
    "Needs --trace.",
)
@click.option(
    "--editor",
    metavar="NAME",
    default="none",
    help="Link the lines of the page to an editor: vscode, pycharm, or a URL with {path}, {line} and "
    "{column}. The page then contains the path of this folder.",
)
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    help="Exit 1 if there is a finding at this level or above. Default: `warning` with --compare, otherwise never.",
)
@click.option(
    "--third-party",
    is_flag=True,
    help="Show findings in installed packages one by one, and count them for the exit code.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print findings and runs in full.")
@click.option("-q", "--quiet", is_flag=True, help="Print only errors to stderr.")
def report(
    files: tuple[str, ...],
    traces: tuple[str, ...],
    moved: tuple[str, ...],
    compare: bool,
    output_format: str,
    output: str | None,
    html: str | None,
    timeline: str | None,
    editor: str,
    fail_on: Level | None,
    third_party: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Render FILES again, merge several, compare two, or read the trace of a job.

    A file is a JSON report, an HTML page, or a result of the standalone worker. A report made here and a run made on
    another machine give the same report as `check --observation`. `report --trace DIR` makes a report from torch's trace
    of a job that nobody can run again.
    """
    validate_output_files({"--output": output, "--html": html, "--timeline": timeline}, traces)
    if output_format not in ("json", "html"):  # what can be read back may take the place of what it was made of
        validate_output_files({"--output": output}, files)
    api.editor_address(editor)
    if moved and not traces:
        raise TcreadyError("--trace-root says where the files of a trace are: add --trace")
    if timeline and not traces:
        raise TcreadyError("--timeline shows the compilations in a trace: add --trace")
    if not files and not traces:
        raise click.MissingParameter(param_type="argument", param_hint="FILES...")
    if not compare:
        together = _report_from_trace(traces, files, moved, quiet=quiet) if traces else api.combine(files)
        if traces:
            api.keep_last(together, Path.cwd())
        if timeline:
            api.save_timeline(traces, timeline)
        show(
            together,
            output_format,
            output,
            html,
            third_party=third_party,
            quiet=quiet,
            verbose=verbose,
            editor=editor,
            stored=files[0] if len(files) == 1 and not traces else None,
        )
        return api.exit_code(together, fail_on=fail_on, third_party=third_party) if fail_on else 0
    if traces:
        raise TcreadyError("--trace makes one report and --compare takes two: store the report as JSON, then compare")
    if len(files) != 2:
        raise TcreadyError("--compare takes two files, BEFORE and AFTER")
    before, after = (api.combine([file]) for file in files)
    compared = api.compare(before, after, (files[0], files[1]))
    show_comparison(compared, output_format, output, html, editor=editor, quiet=quiet)
    if api.exit_code(after) == 2:
        return 2
    return api.exit_code(compared, fail_on=fail_on or "warning", third_party=third_party)


def _report_from_trace(
    traces: tuple[str, ...], targets: tuple[str, ...], moved: tuple[str, ...], *, quiet: bool
) -> Report:
    """Return the report from the trace of a job and the sources of `targets`. Raises TcreadyError if one of these is
    a report."""
    stored = next((name for name in targets if name.lower().endswith((".json", ".html", ".htm"))), None)
    if stored is not None:
        raise TcreadyError(
            f"{stored} is a report, and --trace takes sources: store the report of the trace as JSON, then merge "
            "the two with `tcready report`"
        )
    with show_progress(quiet) as (announce, progress):
        return api.check_trace(traces, targets, moved=moved, announce=announce, progress=progress)
