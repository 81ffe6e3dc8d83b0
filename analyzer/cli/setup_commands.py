"""Commands around a check: the standalone worker, the set-up of a project, shell completion, and rules."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from tcready import api
from tcready.cli.arguments import complete_codes, writable
from tcready.cli.output import say, write_out
from tcready.schema.enums import TcreadyError


@click.command()
@click.option(
    "-o", "--output", metavar="FILE", default="worker.pyz", show_default=True, callback=writable, help="File to write."
)
def worker(output: str) -> None:
    """Write the standalone worker: one file that runs a model on a machine that has only Python and torch.

    On that machine: python worker.pyz --target model.py::Net --device cuda -o observation.json. Then, on this machine:
    tcready check model.py --observation observation.json.
    """
    api.write_worker(output)
    say(f"wrote {output}; for its options, run: python {output} --help")


@click.command()
@click.option("--yes", is_flag=True, help="Write without asking.")
@click.option("--diff", "only_show", is_flag=True, help="Show what would be added, and write no files.")
def init(yes: bool, only_show: bool) -> None:
    """Add a [tool.tcready] table to pyproject.toml and the hooks to .pre-commit-config.yaml.

    Reads the project and lists its models as targets. Shows the additions first, and does not change existing content.
    Without a terminal to ask on, use --yes to write.
    """
    from tcready.config import init as adding

    if yes and only_show:
        raise TcreadyError("--diff writes nothing and --yes writes: use only one of them")
    root = Path.cwd().resolve()
    plan = adding.plan(root)
    if any(addition.path.name == adding.PROJECT for addition in plan.additions):
        plan = adding.plan(root, api.project_targets(root))
    for addition in plan.additions:
        write_out(addition.diff())
    for note in plan.notes:
        click.echo(note, err=True)
    names = " and ".join(addition.path.name for addition in plan.additions)
    if not names or only_show:
        return
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        click.echo("nothing was written: there is no terminal to ask on (use --yes)", err=True)
    elif yes or click.confirm(f"Write {names}?", default=True, err=True):
        adding.write(plan.additions)
        click.echo(f"written: {names}", err=True)
    else:
        click.echo("nothing was written", err=True)


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the shell script that completes commands, options, rule codes and files.

    bash: add eval "$(tcready completion bash)" to ~/.bashrc. zsh: add eval "$(tcready completion zsh)" to ~/.zshrc.
    fish: tcready completion fish > ~/.config/fish/completions/tcready.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    found = get_completion_class(shell)
    if found is None:
        raise TcreadyError(f"the installed click does not support completion in {shell}")
    # bash's own `source` starts bash to ask for its version; the script is the same
    write_out(
        ShellComplete.source(found(click.get_current_context().find_root().command, {}, "tcready", "_TCREADY_COMPLETE"))
        + "\n"
    )


@click.command()
@click.argument("code", shell_complete=complete_codes)
def rule(code: str) -> None:
    """Show the page of a rule, of a type of graph break (GB0170), or of `recompile`: why it hurts, and what to write
    instead."""
    write_out(api.page_of_break(code) if api.is_of_a_run(code) else api.page_of(api.rule_named(code)))


@click.command()
def rules() -> None:
    """List the rules."""
    lines = [f"{rule.code}  {rule.level:<7}  {rule.effect:<13}  {rule.summary}" for rule in api.load_rules()]
    write_out("\n".join(lines) + "\n")
