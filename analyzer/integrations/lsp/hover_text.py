"""Texts that an editor shows about a finding and a model."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tcready.integrations.lsp.last_run import LastRun
from tcready.reports.markdown.comment import plain
from tcready.reports.shared import wording
from tcready.reports.shared.phrases import named_target, number, percent, reflow, shorten
from tcready.schema.report import TargetReport
from tcready.schema.static import Finding, RuleText, StaticModule, StaticTarget

CHANGED = "the code changed since"
NAMED = 3
"""Number of changed files that are named."""
_MARKED = re.compile(r"`([^`]+)`|\\([!-/:-@\[-`{-~])|(&\w+;)|\*\*")


@dataclass(frozen=True)
class HoverLine:
    """A text above a line of the source."""

    line: int
    """1-based."""
    text: str


def about(found: Finding, rules: Mapping[str, RuleText], last: LastRun | None, texts: Mapping[str, str]) -> str:
    """Return everything about a finding in short, as Markdown: the problem, why it hurts, what to write instead,
    results of the last run.

    `rules`: the texts by code; `texts`: the content of open files, by the paths of the findings.
    """
    effect = wording.EFFECT_WORD[found.effect]
    title = f"**{wording.code_of(found)}** {found.name} ({found.level}, {effect}, {found.confidence} confidence)"
    parts = [title, _spoken(found.message)]
    evidence = wording.static_evidence(found)
    if evidence:
        parts.append("\n".join(f"- {_spoken(line)}" for line in evidence))
    parts += _in_the_run(found, last, texts)
    rule = wording.advice_on(found, rules)
    if rule is not None:
        parts.append(f"**Why it hurts:** {reflow(rule.why)}")
        parts.append(f"**Use instead:** {reflow(rule.instead)}")
    if found.rule:
        parts.append(f"`tcready rule {found.rule}` shows the rule's page, with an example.")
    return "\n\n".join(parts)


def as_text(markdown: str) -> str:
    """Convert our Markdown to plain text, for a client that does not render it."""
    return _MARKED.sub(lambda found: html.unescape(found[3] or "") or found[1] or found[2] or "", markdown)


def _in_the_run(found: Finding, last: LastRun | None, texts: Mapping[str, str]) -> Iterator[str]:
    """Return what the last run showed about the finding, or a note that the code has changed since."""
    if last is None:
        return
    seen = last.finding(found)
    if seen is None or not last.has_fresh_result(seen, texts):
        yield from _out_of_date(found.path, last, texts)
        return
    names = ", ".join(f"`{wording.visible(named_target(run, last.report.targets))}`" for run in last.runs_of(seen))
    lines = [f"**In the last run** of {names}: {_spoken(wording.status_phrase(seen, ran=True))}"]
    lines += [f"- {_spoken(shorten(text))}" for text in wording.run_evidence(seen)]
    cost = wording.cost_sentence(seen)
    yield "\n".join([*lines, *([f"- {plain(cost)}"] if cost else [])])


def _out_of_date(path: str, last: LastRun, texts: Mapping[str, str]) -> Iterator[str]:
    """Return a note that the code has changed since the last run, for the runs that include a file."""
    for run, changed in last.out_of_date(path, texts):
        named = wording.visible(named_target(run, last.report.targets))
        files = ", ".join(f"`{wording.visible(each)}`" for each in changed[:NAMED])
        more = f" and {number(len(changed) - NAMED, 'other file')}" if len(changed) > NAMED else ""
        yield (
            f"**The last run** of `{named}` was of other code: {files}{more} changed since. "
            "What it showed is left out here; run `tcready check` again."
        )


def above(
    targets: Sequence[StaticTarget], path: str, last: LastRun | None, texts: Mapping[str, str]
) -> Iterator[HoverLine]:
    """Return a line above each `forward` in a file: the last verdict and how much ran in graphs, or what the source
    predicts.

    `targets` are those of the current source, `texts` the content of open files, by the paths of the targets. The
    `forward` of a class that is only part of a target shows how much of it ran in graphs.
    """
    whole: dict[int, list[str]] = {}
    parts: dict[int, list[StaticModule]] = {}
    for target in targets:
        for module in target.modules:
            if module.path != path or module.line is None:
                continue
            if module.name:
                parts.setdefault(module.line, []).append(module)
            else:
                given = _of_runs(target, module, last, texts) if last is not None else []
                whole.setdefault(module.line, []).extend(given or [_predicted(target.modules)])
    for line, modules in parts.items():
        given = _of_part(modules[0], last, texts) if last is not None else []
        whole.setdefault(line, given or [_predicted(modules)])
    for line in sorted(whole):
        yield from (HoverLine(line, f"tcready: {text}") for text in dict.fromkeys(whole[line]))


def _of_runs(target: StaticTarget, root: StaticModule, last: LastRun, texts: Mapping[str, str]) -> list[str]:
    runs = last.runs_from(target.target, root)
    mode = " ({})" if len(runs) > 1 else ""
    return [
        f"{wording.VERDICT_WORD[run.verdict]}{mode.format(run.mode)}{_captured(run)}{_age(run, last, texts)}"
        for run in runs
    ]


def _of_part(module: StaticModule, last: LastRun, texts: Mapping[str, str]) -> list[str]:
    found = []
    for share in last.shares_of(module):
        part = percent(share.captured / share.operations)
        named = wording.visible(named_target(share.target, last.report.targets))
        found.append(f"{part} of its operations in graphs, in {named}{_age(share.target, last, texts)}")
    return found


def _captured(run: TargetReport) -> str:
    """`; in graphs: 97 % of the operations, 99.6 % of their time`."""
    if run.coverage is None:
        return ""
    time = "" if run.coverage.time_share is None else f", {percent(run.coverage.time_share)} of their time"
    return f"; in graphs: {percent(run.coverage.share)} of the operations{time}"


def _age(run: TargetReport, last: LastRun, texts: Mapping[str, str]) -> str:
    return "" if last.is_fresh(run, texts) else f" ({CHANGED})"


def _predicted(modules: Iterable[StaticModule]) -> str:
    breaks = {print_ for module in modules for print_ in module.breaks}
    predicted = number(len(breaks), "break") if breaks else "no break"
    return f"not run; {predicted} predicted"


def _spoken(text: str) -> str:
    """Escape one of our sentences for Markdown: text in backticks stays code, everything else is literal."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # the code that is quoted holds one
        return plain(text)
    return "".join(f"`{wording.visible(p)}`" if n % 2 else plain(p) for n, p in enumerate(pieces))
