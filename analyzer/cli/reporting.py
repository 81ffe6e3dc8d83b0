"""`tcready report`."""

from __future__ import annotations

from pathlib import Path

import click
from tcready import api
from tcready.cli.asked import writable
from tcready.cli.output import refuse_lost_files, show, show_comparison
from tcready.cli.telling import telling
from tcready.schema.report import Report
from tcready.schema.words import LEVELS, Level, TcreadyError


@click.command()
@click.argument("files", nargs=-1, metavar="FILES...")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="DIR",
    help="What a job left under TORCH_TRACE, in place of a run; may be repeated. FILES are then what to read, as of "
    "check: by default the sources that the trace speaks of.",
)
@click.option(
    "--trace-root",
    "moved",
    multiple=True,
    metavar="OLD=NEW",
    help="A folder of the job's machine, and what it is here; may be repeated. Without, files are found by the ends of "
    "their paths.",
)
@click.option("--compare", is_flag=True, help="Tell what changed from the first of two files to the second.")
@click.option("--output-format", type=click.Choice(tuple(api.FORMATS)), default="text", show_default=True)
@click.option(
    "-o", "--output", metavar="FILE", callback=writable, help="Write the report there instead of stdout."
)
@click.option("--html", metavar="FILE", callback=writable, help="Write the HTML page there as well.")
@click.option(
    "--editor",
    metavar="NAME",
    default="none",
    help="Let lines of the page open in an editor: vscode, pycharm, or an address with {path}, {line} and {column}. "
    "The page then names this folder.",
)
@click.option(
    "--fail-on",
    type=click.Choice(LEVELS[::-1]),
    help="Exit 1 at this level and above; by default `warning` with --compare, never without.",
)
@click.option(
    "--third-party", is_flag=True, help="Count findings in installed packages, and show them one by one."
)
@click.option("-v", "--verbose", is_flag=True, help="Text in full, findings and runs.")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
def report(
    files: tuple[str, ...],
    traces: tuple[str, ...],
    moved: tuple[str, ...],
    compare: bool,
    output_format: str,
    output: str | None,
    html: str | None,
    editor: str,
    fail_on: Level | None,
    third_party: bool,
    verbose: bool,
    quiet: bool,
) -> int:
    """Render FILES again, put several together, compare two, or read the trace of a job.

    A file is a JSON report, an HTML page, or what the travelling worker wrote. A report made here and a run made on
    another machine give the report that `check --observation` would. `report --trace DIR` makes one of what torch wrote
    of a job that nobody can run again.
    """
    refuse_lost_files({"--output": output, "--html": html})
    if output_format not in (
        "json",
        "html",
    ):  # what can be read back may take the place of what it was made of
        refuse_lost_files({"--output": output}, files)
    api.editor_address(editor)
    if moved and not traces:
        raise TcreadyError("--trace-root says where the files of a trace are: name that with --trace")
    if not files and not traces:
        raise click.MissingParameter(param_type="argument", param_hint="FILES...")
    if not compare:
        together = _traced(traces, files, moved, quiet=quiet) if traces else api.combine(files)
        if traces:
            api.keep_last(together, Path.cwd())
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
        raise TcreadyError("--trace makes a report and --compare takes two: store it as JSON, then compare")
    if len(files) != 2:
        raise TcreadyError("--compare takes two files, BEFORE and AFTER")
    before, after = (api.combine([file]) for file in files)
    compared = api.compare(before, after, (files[0], files[1]))
    show_comparison(compared, output_format, output, html, editor=editor, quiet=quiet)
    if api.exit_code(after) == 2:
        return 2
    return api.exit_code(compared, fail_on=fail_on or "warning", third_party=third_party)


def _traced(
    traces: tuple[str, ...], targets: tuple[str, ...], moved: tuple[str, ...], *, quiet: bool
) -> Report:
    """The report of a job's trace and the sources of `targets`. Raises TcreadyError if one of these is a report."""
    stored = next((name for name in targets if name.lower().endswith((".json", ".html", ".htm"))), None)
    if stored is not None:
        raise TcreadyError(
            f"{stored} is a report, and with --trace sources are read: store what comes of the trace as JSON, then put "
            "the two together with `tcready report`"
        )
    with telling(quiet) as (announce, progress):
        return api.check_trace(traces, targets, moved=moved, announce=announce, progress=progress)
