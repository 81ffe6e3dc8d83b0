"""Decide what an engine's pipeline does about each finding: handled there, reached there, or not compiled there at
all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tcready.integrations.vllm.pipeline_source import Pipeline, engine_in, read_engine
from tcready.portable.target import Target
from tcready.schema.display_paths import is_installed
from tcready.schema.enums import BREAKING, Engine
from tcready.schema.report import Report
from tcready.schema.serving import ServedClass, ServedFinding, ServedOperator, ServedReason, ServedState, Serving
from tcready.schema.static import Finding

ENGINE: Engine = "vllm"
CONSTANT_SIZE = "TCR501"
"""The rule for code that makes a constant of a size: Dynamo refuses that for a size that is marked as dynamic."""
FAKE = "TCR404"
"""The rule for a missing implementation for fake tensors."""
CALLS = ("forward", "__call__")
"""The methods through which an object is compiled."""
CALLED = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")
LIBRARY, BACKEND = "transformers/", "/transformers"
"""Models of transformers without a class in the engine are compiled by a decorated class of the engine, in a file of
that name."""


NOT_INSTALLED = "vllm is not installed here: what it compiles, where it splits and its operators were not read"


def by_the_installed(report: Report, root: Path) -> Serving:
    """Return the effect of the engine that is installed, or is below `root`, on a report. Its sources are read, and
    so are the user's sources in the report."""
    folder = engine_in(root)
    if folder is None:
        return judge_report(report, None)
    own = {source.path: source.text for source in report.sources if not is_installed(source.path)}
    return judge_report(report, read_engine(folder, own, root))


def judge_report(report: Report, pipeline: Pipeline | None) -> Serving:
    """Return the effect of the pipeline on the findings of a report; None: the engine is not installed, and nothing
    was read."""
    if pipeline is None:
        return Serving(ENGINE, None, False)
    classes = _by_name(pipeline.classes, [Target.parse(target.target) for target in report.targets])
    lines = {source.path: source.text.splitlines() for source in report.sources}
    types = frozenset(
        {
            *(_class_name(Target.parse(target.target).name or "") for target in report.targets),
            *(module.type for target in report.targets for module in target.observation.modules),
        }
    )
    judged = tuple(_judged(finding, pipeline, classes, types, lines) for finding in report.findings)
    by = {each.by for each in judged} | types
    by |= {_class_name(step.rpartition(".")[0]) for each in report.findings for step in each.reached_by}
    return Serving(
        ENGINE,
        pipeline.version,
        True,
        pipeline.whole_graph,
        pipeline.drops_guards,
        pipeline.splitting,
        tuple(each for name, each in classes.items() if name in by),
        sum(not each.inherits and not each.unread for each in pipeline.classes),
        tuple(each for each in pipeline.operators if each.splits or not each.fake or each.name in by),
        len(pipeline.operators),
        pipeline.unread,
        judged,
    )


def _by_name(classes: Sequence[ServedClass], targets: Sequence[Target]) -> dict[str, ServedClass]:
    """Return the decorated classes by name; of several with one name, that of a target's own file."""
    homes = [target.place if target.is_file else f"{target.place.replace('.', '/')}.py" for target in targets]
    found: dict[str, ServedClass] = {}
    for each in sorted(classes, key=lambda each: not any(each.path.endswith(home) for home in homes)):
        found.setdefault(each.name, each)
    return found


def _judged(
    finding: Finding,
    pipeline: Pipeline,
    classes: Mapping[str, ServedClass],
    types: frozenset[str],
    lines: Mapping[str, Sequence[str]],
) -> ServedFinding:
    chain = (*finding.reached_by, finding.symbol)
    called = _called(finding, pipeline.operators, lines)
    if called is not None:
        reason_of_call: ServedReason = "calls_splitting" if called.splits else "calls_registered"
        return ServedFinding(finding.fingerprint, "handled", reason_of_call, called.name)
    operator = _operator(finding, chain, pipeline.operators)
    if operator is not None:
        reason: ServedReason = "splitting_operator" if operator.splits else "custom_operator"
        return ServedFinding(finding.fingerprint, "handled", reason, operator.name)
    for each in pipeline.operator_classes:
        for method, first, last in each.methods:
            inside = each.path == finding.path and first <= finding.line <= last
            if inside or f"{each.name}.{method}" in chain:
                return ServedFinding(finding.fingerprint, "handled", "other_forward", f"{each.name}.{method}")
    compiled = _compiled(finding, chain, classes, types)
    if compiled is None:
        return ServedFinding(finding.fingerprint, "not_compiled", "not_decorated")
    if compiled.unread and not compiled.ignored:
        return ServedFinding(finding.fingerprint, "not_read", "decoration_unread", compiled.name)
    if compiled.ignored:
        return ServedFinding(finding.fingerprint, "not_compiled", "not_enabled", compiled.name)
    state, reason = _met(finding, pipeline, compiled)
    return ServedFinding(finding.fingerprint, state, reason, compiled.name)


def _met(finding: Finding, pipeline: Pipeline, compiled: ServedClass) -> tuple[ServedState, ServedReason]:
    """Return the result for a finding in compiled code."""
    if finding.effect == "recompile":
        if finding.rule == CONSTANT_SIZE and (compiled.dynamic or compiled.dynamic_unread):
            return "hit", "sizes_marked"
        return ("hit", "guards_dropped") if pipeline.drops_guards else ("hit", "as_elsewhere")
    if finding.effect in BREAKING or finding.effect == "intent":
        return ("hit", "whole_graph") if pipeline.whole_graph else ("hit", "as_elsewhere")
    return "hit", "as_elsewhere"


def _operator(finding: Finding, chain: Sequence[str], operators: Iterable[ServedOperator]) -> ServedOperator | None:
    """Return the operator with code that contains the finding, or leads to it."""
    for each in operators:
        if each.code is None:
            continue
        last = each.end_line or each.code.line
        if each.code.path == finding.path and each.code.line <= finding.line <= last:
            return each
        if each.code.symbol in chain[:-1]:
            return each
    return None


def _called(
    finding: Finding, operators: Iterable[ServedOperator], lines: Mapping[str, Sequence[str]]
) -> ServedOperator | None:
    """Return the registered operator for which a finding reports a missing fake implementation: the registration may
    be outside of the source that was read."""
    if finding.rule != FAKE:
        return None
    code = " ".join(lines.get(finding.path, ())[finding.line - 1 : finding.end_line])
    names = {f"{space}::{name}" for space, name in CALLED.findall(code)}
    return next((each for each in operators if each.fake and each.name in names), None)


def _compiled(
    finding: Finding, chain: Sequence[str], classes: Mapping[str, ServedClass], types: frozenset[str]
) -> ServedClass | None:
    """Return the class that compiles a finding: the first compiled one on the path to it with a forward that is
    called; else one that would be compiled if it were not undone or could be read."""
    found: list[ServedClass] = []
    for symbol in chain:
        called = _called_as(symbol, finding, classes, types)
        # The forward of a class above one that is kept from being compiled runs as a part of that one's.
        found += [each for each in called if not any(each.name in above.bases for above in found if above.ignored)]
    if finding.path.startswith(LIBRARY):
        found += [each for each in classes.values() if BACKEND in each.path]
    return min(found, key=lambda each: (each.ignored, bool(each.unread)), default=None)


def _called_as(
    symbol: str, finding: Finding, classes: Mapping[str, ServedClass], types: frozenset[str]
) -> list[ServedClass]:
    """Return the classes with objects that a step on the path to a finding calls: only calls of the object itself
    are compiled, and the forward may be inherited by the object's class."""
    inside, _, _ = symbol.partition(".<locals>.")
    owner, _, method = inside.rpartition(".")
    name = _class_name(owner)
    if not name or method not in CALLS:
        return []
    known = [each for each in classes.values() if each.name in types and name in (each.name, *each.bases)]
    own = classes.get(name)
    # The file of the surrounding code is known: a class of the same name elsewhere is another one.
    if own is None or known or (symbol == finding.symbol and own.path != finding.path):
        return known
    return [own]


def _class_name(owner: str) -> str:
    """Return `Inner` for `Outer.Inner`, and for `build.<locals>.Inner`."""
    return owner.rpartition(".")[2]
