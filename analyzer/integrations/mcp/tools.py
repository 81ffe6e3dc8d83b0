"""The tools: each turns its arguments into a call of `tcready.api`, and the result into an answer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tcready import api
from tcready.config.resolution import Settings
from tcready.integrations.mcp import rendering
from tcready.integrations.mcp.answer import AnswerPiece, Section, ToolAnswer
from tcready.integrations.mcp.arguments import (
    Arguments,
    BenchArguments,
    Check,
    FixArguments,
    PlanArguments,
    ProveArguments,
    RuleArguments,
    RunArguments,
)
from tcready.portable.options import BenchOptions
from tcready.portable.target import LIGHTNING as OF_THE_USER
from tcready.portable.target import LibraryModel, Target
from tcready.schema.enums import TcreadyError
from tcready.schema.progress import Progress, Progressing
from tcready.schema.proof import FixResult
from tcready.schema.report import Report

RULE_OR_BREAK = re.compile(r"(?i)(GB|TCR)\d+")
FINGERPRINT = re.compile(r"[0-9a-f]+(-[0-9]+)?")


@dataclass(frozen=True)
class ListedPlace:
    """The options that the server was started with."""

    root: Path
    """Paths are relative to this folder; paths outside of it are refused."""
    settings: Callable[[], Settings]
    """Settings from pyproject.toml at the time of the call and from the options of the server."""
    executes: bool
    """Executing code is allowed."""


@dataclass(frozen=True)
class McpTool:
    """One tool, as clients see it."""

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    answer: Callable[[Any, ListedPlace, Progressing], ToolAnswer]
    """Called with the arguments, the place and a function for progress. Raises TcreadyError, in one line."""
    executes: bool
    """The tool needs to execute the user's code."""


def available_tools(place: ListedPlace) -> tuple[McpTool, ...]:
    """Return the tools of a server."""
    return tuple(tool for tool in TOOLS if place.executes or not tool.executes)


def _check(arguments: Check, place: ListedPlace, progress: Progressing) -> ToolAnswer:
    _reject_outside(arguments.target, place.root)
    if arguments.run:
        _reject_execution(place, "run=true")
        report = _ran(arguments.target, place, progress, _how(arguments, place), select=arguments.select)
        rendering.require_results(report)
    else:
        named = next((name for name in ("inputs", "device", "timeout") if getattr(arguments, name)), None)
        if named:
            raise TcreadyError(f"{named} belongs to a run: add run=true, or leave it out")
        report = api.check_targets(
            arguments.target, run=False, settings=place.settings(), progress=progress, mode=arguments.mode,
            select=arguments.select, checkout=False,
        )  # fmt: skip
    return rendering.render_check(report, third_party=arguments.third_party, skip=arguments.skip)


def _rule(arguments: RuleArguments, place: ListedPlace, _progress: Progressing) -> ToolAnswer:
    if arguments.code is None:
        rules = api.load_rules()
        pieces = tuple(
            AnswerPiece(f"{rule.code} {rule.level}: {rule.summary}", {"code": rule.code, "name": rule.name})
            for rule in rules
        )
        return ToolAnswer(f"{len(rules)} rules.", {}, (Section("rules", "rule", pieces),))
    code = arguments.code.strip()
    if api.is_of_a_run(code):
        return rendering.render_text(api.page_of_break(code))
    if not FINGERPRINT.fullmatch(code.lower()):
        return rendering.render_text(api.page_of(api.rule_named(code)))
    if arguments.target is not None:
        _reject_outside(arguments.target, place.root)
    notes: list[str] = []
    settings = place.settings()
    report, finding = api.explain(
        code, (arguments.target,) if arguments.target else (), settings=settings, announce=notes.append
    )
    words = rendering.describe_run(report, None if arguments.target else api.when_run(settings.root))
    head = "\n".join([f"id {finding.fingerprint}", *([words] if words else []), *notes])
    return rendering.render_text(f"{head}\n{api.render_finding(report, finding, width=100)}")


def _plan(arguments: PlanArguments, place: ListedPlace, progress: Progressing) -> ToolAnswer:
    _reject_outside(arguments.target, place.root)
    return rendering.render_plan(
        _ran(arguments.target, place, progress, _how(arguments, place), plan=True, budget=arguments.budget)
    )


def _fix(arguments: FixArguments, place: ListedPlace, progress: Progressing) -> ToolAnswer:
    _reject_outside(arguments.target, place.root)
    if arguments.prove:
        _reject_execution(place, "prove=true")
    how = _how(arguments, place)
    if not arguments.prove and (how.keys() - {"mode"}):
        raise TcreadyError(f"{min(how.keys() - {'mode'})} belongs to a run: add prove=true, or leave it out")
    settings = place.settings()
    result = api.fix(
        arguments.target, verify=arguments.prove, unsafe=arguments.unsafe, settings=settings,
        announce=_announcing(progress), progress=progress, select=arguments.select, **how,
    ).result  # fmt: skip
    if result.failure and not (result.changes or result.refused or result.no_fix):
        raise TcreadyError(result.failure)
    _reject_bytes(result)
    read = api.check_targets(arguments.target, run=False, settings=settings, mode=arguments.mode, checkout=False)
    return rendering.render_fix(result, {(f.path, f.line, f.rule): f.fingerprint for f in read.findings})


def _reject_bytes(result: FixResult) -> None:
    """Raise TcreadyError if the patch contains bytes that are not UTF-8: the protocol cannot represent them."""
    try:
        result.patch.encode("utf-8")
    except UnicodeEncodeError:
        raise TcreadyError(
            "a file that changes, or its name, is not in UTF-8, so that its patch is no text: `tcready fix` on a "
            "command line writes it"
        ) from None


def _prove(arguments: ProveArguments, place: ListedPlace, progress: Progressing) -> ToolAnswer:
    _reject_outside(arguments.target, place.root)
    patch = arguments.patch if arguments.patch.endswith("\n") else f"{arguments.patch}\n"
    for named in api.changed_by(patch):  # a link may lead out of the folder
        _reject_outside(named, place.root)
    change = api.prove(
        patch,
        arguments.target,
        beside=arguments.settings or (),
        settings=place.settings(),
        announce=_announcing(progress),
        progress=progress,
        **_how(arguments, place),
    )
    if isinstance(change, str):
        raise TcreadyError(change)
    return rendering.render_proof(change, api.render(change, "text"), holds=api.holds(change))


def _bench(arguments: BenchArguments, place: ListedPlace, progress: Progressing) -> ToolAnswer:
    _reject_outside(arguments.target, place.root)
    wanted = BenchOptions(quick=arguments.quick, bench_budget=arguments.budget)
    settings = place.settings()
    report = api.bench(
        arguments.target, wanted=wanted, settings=settings, announce=_announcing(progress), progress=progress,
        checkout=False, **_how(arguments, place),
    )  # fmt: skip
    _keep(report, settings)
    return rendering.render_bench(report)


def _ran(target: str, place: ListedPlace, progress: Progressing, how: dict[str, Any], **more: Any) -> Report:
    """Run a target and return the report, in which `rule` finds it again."""
    settings = place.settings()
    report = api.check_targets(
        target, run=True, settings=settings, announce=_announcing(progress), progress=progress, checkout=False,
        **how, **more,
    )  # fmt: skip
    _keep(report, settings)
    return report


def _keep(report: Report, settings: Settings) -> None:
    if settings.work.cache:
        api.keep_last(report, settings.root)


def _how(arguments: RunArguments | Check, place: ListedPlace) -> dict[str, Any]:
    """Return how to run the model, as far as the caller specifies it. pyproject.toml decides the rest."""
    if arguments.inputs is not None:
        _reject_outside(arguments.inputs, place.root)
    given = {name: getattr(arguments, name) for name in ("inputs", "mode", "device", "timeout")}
    return {name: value for name, value in given.items() if value is not None}


def _announcing(progress: Progressing) -> Callable[[str], None]:
    """Report what is about to be executed as the beginning of the progress."""
    return lambda text: progress(Progress("announced", text))


def _reject_execution(place: ListedPlace, what: str) -> None:
    if not place.executes:
        raise TcreadyError(f"{what}: this server executes nothing: it was started with --no-run")


def _reject_outside(named: str, root: Path) -> None:
    """Raise TcreadyError if a target, inputs or a file has a path outside of `root`, or an invalid path."""
    if "\0" in named:
        raise TcreadyError(f"{named!r} names nothing: a path holds no NUL")
    model = LibraryModel.parse(named)
    if model is not None and model.library == OF_THE_USER:
        named = model.name
    elif model is not None:
        return
    target = Target.parse(named)
    if target.kind == "path":
        place = Path(os.path.realpath(root / target.place))
        if not place.is_relative_to(root):
            raise TcreadyError(
                f"{named} is outside of {root}: this server looks at nothing else (`tcready mcp --root` "
                "names the folder)"
            )


_EXECUTES = "Executes the user's code, in a separate process with a time limit. Writes nothing to the user's files."
_READS = "Reads only source text and executes nothing, unless"

TOOLS = (
    McpTool(
        "check",
        "Find what torch.compile cannot compile",
        "Find where a PyTorch model does not compile under torch.compile: graph breaks, recompilations and "
        "other costs, each with a stable id, a rule and a place. The answer has a verdict and what to do first. "
        f"{_READS} run=true. Then the model also runs under Dynamo, and each prediction is confirmed or not.",
        Check,
        _check,
        executes=False,
    ),
    McpTool(
        "rule",
        "Explain a rule, a type of break, or a finding",
        "Explain why something hurts torch.compile and what to write instead: the page of a rule "
        "(TCR101) or of a type of graph break (GB0170), or everything about one finding, by its id. "
        "Executes nothing.",
        RuleArguments,
        _rule,
        executes=False,
    ),
    McpTool(
        "plan",
        "Find out which parts to compile",
        "Find which parts of a model to compile: placements of torch.compile are executed and measured. The "
        f"answer has the code of the best one to paste, and how to undo it. {_EXECUTES} Takes seconds to minutes.",
        PlanArguments,
        _plan,
        executes=True,
    ),
    McpTool(
        "fix",
        "Propose changes as a patch",
        "Propose changes that let Dynamo compile the code, as one unified diff against the current files. "
        f"Never writes files: apply the patch yourself. {_READS} prove=true. Then each change is verified by "
        "running the model before and after it.",
        FixArguments,
        _fix,
        executes=False,
    ),
    McpTool(
        "prove",
        "Verify a patch",
        "Verify a patch of yours: a graph break is gone, none is new, and the same calls with the same seeds, "
        "inputs and varied inputs give the same results before and after it, on both sides of every branch "
        f"that it removes. The patch is applied to copies. {_EXECUTES}",
        ProveArguments,
        _prove,
        executes=True,
    ),
    McpTool(
        "bench",
        "Compare eager and compiled speed",
        "Measure whether compiling pays off: times of eager and compiled calls, measured in turn, with "
        f"intervals, cold start and a verdict that may be `no gain`. {_EXECUTES} Takes up to `budget` seconds. "
        "The machine should be idle otherwise.",
        BenchArguments,
        _bench,
        executes=True,
    ),
)
