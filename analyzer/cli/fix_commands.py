"""`tcready fix` and `tcready prove`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
from tcready import api
from tcready.cli.arguments import HOW_TO_RUN, complete_files, settings_of, with_options
from tcready.cli.output import complain, say, write_out
from tcready.cli.progress_display import show_progress
from tcready.portable.option_fields import option
from tcready.portable.options import ReadOptions, ReportOptions, RunOptions
from tcready.portable.target import Target
from tcready.schema.enums import TcreadyError
from tcready.source.files import refuse, write


@dataclass(frozen=True)
class FixFlags:
    """Options of `tcready fix`, without those on how to run a target."""

    diff: bool = option("flag", "Print the changes as one patch and write no files. This is the default.", paired=False)
    apply: bool = option("flag", "Write the changes to your files.", paired=False)
    verify: bool = option(
        "flag", "Run the model before and after each change to verify it, in every target.", paired=False
    )
    unsafe: bool = option(
        "flag",
        "Include changes that are not known to be safe. With --verify, include changes for which only "
        "one side of a branch was exercised.",
        paired=False,
    )
    installed: bool = option(
        "flag",
        "Also propose changes in installed packages. They are never written there.",
        name="third-party",
        paired=False,
    )
    keep_output: bool = option(
        "flag", "Keep prints, logs and warnings in compiled code: propose no change that leaves them out.", paired=False
    )
    allow_dirty: bool = option("flag", "Also write to files that have uncommitted changes.", paired=False)
    patch_dir: str | None = option(
        "text", "Write own.patch, site-packages.patch and fixes.json to this folder.", metavar="DIR"
    )
    as_: str = option("choice", "Format of the output.", default="text", name="output-format", choices=("text", "json"))
    silent: bool = option("flag", "Print only errors to stderr.", name="quiet", short="-q", paired=False)


@click.command()
@click.argument("targets", nargs=-1, shell_complete=complete_files)
@with_options(FixFlags)
@with_options(RunOptions, only=HOW_TO_RUN)
@with_options(ReadOptions, ReportOptions, only=frozenset({"mode", "select", "exclude"}))
@click.pass_context
def fix(context: click.Context, /, targets: tuple[str, ...], **options: Any) -> int:
    """Propose changes that let Dynamo compile the code of TARGETS.

    --verify runs the model before and after each change. The patch goes to stdout, and messages about it to stderr.
    """
    wanted = FixFlags(**{name: options[name] for name in (each.name for each in fields(FixFlags))})
    if wanted.apply and wanted.diff:
        raise TcreadyError("--apply writes and --diff does not: use only one of them")
    settings = settings_of(context, isolated=False)
    folder = _folder(wanted.patch_dir) if wanted.patch_dir else None
    if wanted.apply and not wanted.allow_dirty:
        api.reject_uncommitted(map(Target.place_in, targets))
    with show_progress(wanted.silent) as (announce, progress):
        found = api.fix(
            targets or (".",),
            verify=wanted.verify,
            unsafe=wanted.unsafe,
            third_party=wanted.installed,
            keep_output=wanted.keep_output,
            settings=settings,
            announce=announce,
            progress=progress,
        )
    result = found.result
    refusal = None
    if wanted.apply:
        try:
            written = api.apply(found, dirty=wanted.allow_dirty)
        except TcreadyError as error:  # what was found is shown all the same
            refusal = str(error)
        else:
            say(f"wrote {', '.join(written)}" if written else "nothing was written")
    writes = wanted.apply and refusal is None
    if folder is not None:
        write(str(folder / "own.patch"), result.patch, "surrogateescape")
        write(str(folder / "site-packages.patch"), result.third_party_patch, "surrogateescape")
        write(str(folder / "fixes.json"), api.render(result, "json"))
    if wanted.as_ == "json":
        write_out(api.render(result, "json"))
    else:
        if not wanted.silent:
            click.echo(api.render(result, "text"), err=True, nl=False)
        write_out(result.patch + result.third_party_patch if not writes else "", as_it_is=True)
    if refusal or result.failure:
        return complain("; ".join(filter(None, (refusal, result.failure))))
    left = bool(result.no_fix or result.refused) if result.breaks_after is None else result.breaks_after > 0
    by_hand = any(change.settings or change.called_before for change in result.changes)
    is_unwritten = wanted.apply and bool(result.third_party_patch or by_hand)
    return 1 if left or is_unwritten else 0


def _folder(named: str) -> Path:
    """Create the folder if it does not exist. Raises TcreadyError if that fails."""
    folder = Path(named)
    refuse(named, "--patch-dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TcreadyError(f"--patch-dir {named}: {error.strerror}") from None
    return folder


@click.command()
@click.argument("patch", type=click.Path(dir_okay=False), shell_complete=complete_files)
@click.argument("target", shell_complete=complete_files)
@click.option("--output-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "--set",
    "beside",
    multiple=True,
    metavar="NAME[=N]",
    help="A setting of torch._dynamo.config that belongs to the patch. NAME sets it to True, NAME=N to "
    "a number, and NAME=print adds a function. May be repeated.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors to stderr.")
@with_options(RunOptions, only=HOW_TO_RUN)
@with_options(ReadOptions, only=frozenset({"mode"}))
@click.pass_context
def prove(
    context: click.Context,
    /,
    patch: str,
    target: str,
    output_format: str,
    beside: tuple[str, ...],
    quiet: bool,
    **_options: Any,
) -> int:
    """Verify PATCH, a unified diff, on TARGET: make the same calls before and after it.

    Exits with 0 if the patch removes at least one break (if there were any), adds none, and all calls agree, including
    calls on both sides of every branch that it removes. Exits with 1 otherwise, and with 2 if the patch could not be
    tried.
    """
    try:
        data = sys.stdin.buffer.read() if patch == "-" else Path(patch).read_bytes()
    except OSError as error:
        raise TcreadyError(f"{patch}: {error.strerror}") from None
    with show_progress(quiet) as (announce, progress):
        change = api.prove(
            data.decode("utf-8", "surrogateescape"),  # line ends are part of it
            target,
            named=patch,
            beside=beside,
            settings=settings_of(context, isolated=False),
            announce=announce,
            progress=progress,
        )
    if isinstance(change, str):
        return complain(change)
    write_out(api.render(change, output_format))
    return 0 if api.holds(change) else 1
