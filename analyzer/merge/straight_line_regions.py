"""Straight-line regions of a function between the lines that break.

These were not run: a region contains no line that was seen to break, and none with a finding that predicts a break.
Pure: syntax trees and places in, regions out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tcready.merge.extraction import extraction
from tcready.merge.findings import harmless_in
from tcready.merge.observed_run import Run
from tcready.merge.run_messages import first_line
from tcready.merge.source_lines import Code, SourceFunction
from tcready.schema.code_line import Frame
from tcready.schema.enums import BREAKING
from tcready.schema.report import Region
from tcready.schema.static import Finding
from tcready.source.edits import patch

_MOST = 5
"""Maximum number of regions of a target."""
_LEAST = 2
"""Minimum number of statements of a region."""
_WORK = (ast.Call, ast.BinOp, ast.AugAssign, ast.Compare)
"""Nodes that could be an operation on a tensor."""
_PACKAGES = ("site-packages", "dist-packages")


def stretches(run: Run, findings: Mapping[str, Sequence[Finding]], code: Code) -> tuple[Region, ...]:
    """Return the longest break-free statement sequences of the user's own functions in or above which `run` has a
    break.

    `findings` are by path.
    """
    functions = [each for each in _functions(run, code) if not _is_proved(run, *each, code)]
    breaks = _breaks(run, [finding for path in dict(functions) for finding in findings.get(path, ())])
    found = [
        region
        for path, function in functions
        for region in _in_function(run, path, function, breaks.get(path, {}), code)
    ]
    return tuple(sorted(found, key=_length, reverse=True)[:_MOST])


def _length(region: Region) -> int:
    return (region.end_line or 0) - (region.line or 0)


def _breaks(run: Run, findings: Iterable[Finding]) -> dict[str, dict[int, str]]:
    """Return by path and line the kind of the break there, or below a call there."""
    found: dict[str, dict[int, str]] = {}
    for site in run.observation.break_sites:
        kind = first_line(site.reason).partition(":")[0]
        for frame in (Frame(site.path, site.line, site.symbol), *site.stack):
            found.setdefault(frame.path, {}).setdefault(frame.line, kind)
    for finding in findings:
        if finding.effect in BREAKING and not harmless_in(finding, run.target, run.observation.mode):
            for line in range(finding.line, finding.end_line + 1):
                found.setdefault(finding.path, {}).setdefault(line, f"predicted: {finding.name}")
    return found


def _functions(run: Run, code: Code) -> Iterator[tuple[str, SourceFunction]]:
    """Return each own function with a break in it, and each own forward on the path to one, except for deliberate
    breaks."""
    sites = run.observation.break_sites
    foreign = {site.path for site in sites if site.origin == "third_party"}
    places = [(site.path, site.line) for site in sites if site.origin == "own"]
    places += [
        (frame.path, frame.line)
        for site in sites
        for frame in site.stack
        if "forward" in frame.symbol.split(".")[-1]
        and frame.path not in foreign
        and not any(folder in frame.path for folder in _PACKAGES)
    ]
    found = {
        (path, function.first): function for path, line in places if (function := code.around(path, line)) is not None
    }
    decided = [(intent.path, intent.line) for intent in run.observation.intents]
    for (path, _), function in found.items():
        if not any(path == other and function.first <= line <= function.last for other, line in decided):
            yield path, function


def _is_proved(run: Run, path: str, function: SourceFunction, code: Code) -> bool:
    """Return True if a plan proved this function, or every module that has it as its forward."""
    trials = run.observation.plan.regions if run.observation.plan else ()
    proved = [trial for trial in trials if trial.state == "proved"]
    if any(trial.kind == "function" and trial.name == function.name for trial in proved):
        return True
    tops = {name for trial in proved for name in trial.modules}
    names = _modules(run, path, function, code)
    return bool(names) and all(
        any(not top or name == top or name.startswith(f"{top}.") for top in tops) for name in names
    )


def _modules(run: Run, path: str, function: SourceFunction, code: Code) -> list[str]:
    """Return the modules that have this function as their forward."""
    here = (path, function.first)
    return [module.name for module in run.modules if code.place(module.path, module.line) == here]


def _in_function(
    run: Run, path: str, function: SourceFunction, breaks: Mapping[int, str], code: Code
) -> Iterator[Region]:
    body = function.node.body
    for begin, end in _runs(body, breaks):
        first, last = body[begin].lineno, _last(body[end - 1])
        ran = not run.executed or run.executed.meets(path, first, last)
        if not ran or not any(isinstance(node, _WORK) for s in body[begin:end] for node in ast.walk(s)):
            continue
        edits = extraction(path, function, begin, end, code)
        yield Region(
            name=f"{function.name}:{first}-{last}",
            instances=max(len(_modules(run, path, function, code)), 1),
            state="predicted",
            reason=_reason(function, first, last, breaks),
            code="",
            kind="lines",
            path=path,
            line=first,
            end_line=last,
            edits=edits,
            diff=patch({path: code.text(path)}, edits),
        )


def _runs(body: list[ast.stmt], breaks: Mapping[int, str]) -> Iterator[tuple[int, int]]:
    """Yield the first position, and one past the last, of consecutive statements without a break; docstrings are
    excluded."""
    begin = 1 if ast.get_docstring(ast.Module(body, []), clean=False) is not None else 0
    for position in range(begin, len(body) + 1):
        if position == len(body) or any(
            line in breaks for line in range(body[position].lineno, _last(body[position]) + 1)
        ):
            if position - begin >= _LEAST:
                yield begin, position
            begin = position + 1


def _last(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno


def _reason(function: SourceFunction, first: int, last: int, breaks: Mapping[int, str]) -> str:
    inside = [line for line in sorted(breaks) if function.first <= line <= function.last]
    before = [line for line in inside if line < first]
    after = [line for line in inside if line > last]
    lines = f"lines {first} to {last} of {function.name}"
    if not after:
        return f"{lines} stand after the last break, at line {before[-1]} ({breaks[before[-1]]})"
    where = "between breaks" if before else "before the first break"
    return f"{lines} stand {where}; from line {after[0]} it stays eager ({breaks[after[0]]})"
