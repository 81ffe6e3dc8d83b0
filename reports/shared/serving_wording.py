"""The effect of a serving engine on the findings, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from tcready.reports.shared.phrases import number
from tcready.reports.shared.wording import code_of
from tcready.schema.report import Report
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from tcready.schema.serving import ServedClass, ServedFinding, ServedOperator, ServedReason, ServedState, Serving

STATE: Mapping[ServedState, str] = MappingProxyType(
    {"handled": "handled", "hit": "hit", "not_read": "not read", "not_compiled": "not compiled"}
)
REASON: Mapping[ServedReason, str] = MappingProxyType(
    {
        "custom_operator": "it stands in the code of the operator {by}, into which Dynamo does not trace",
        "splitting_operator": "it stands in the code of the operator {by}, which runs between the pieces of a graph",
        "calls_registered": "{by} is registered there with an implementation for fake tensors",
        "calls_splitting": "{by} is registered there, and graphs are split at it on purpose",
        "other_forward": "{by} is a kernel for one device: forward_native is compiled in its place unless it is enabled",
        "sizes_marked": "{by} marks sizes of its inputs as dynamic: Dynamo refuses code that makes a constant of one",
        "guards_dropped": "{by} is compiled once and its guards are dropped: what the first call found holds for all",
        "whole_graph": "{by} is compiled with fullgraph=True: the break is an error when the engine starts",
        "as_elsewhere": "{by} is compiled, and it does there what it does under torch.compile",
        "not_decorated": "no class on the way to it is decorated with support_torch_compile: it runs eagerly there",
        "not_enabled": "ignore_torch_compile keeps {by} from being compiled: it runs eagerly there",
        "decoration_unread": "whether {by} is compiled is decided as it runs",
    }
)


def engine_sentence(found: Serving) -> str:
    """Format `vllm 0.12.0: 100 classes are compiled, ...`, or that it is not installed."""
    name = f"{found.engine} {found.version}" if found.version else found.engine
    if not found.installed:
        return (
            f"{found.engine} is not installed here: what it compiles, where it splits and its operators were not read"
        )
    whole = ", with fullgraph=True" if found.whole_graph else ""
    guards = ", guards dropped" if found.drops_guards else ""
    return (
        f"{name}: {number(found.decorated, 'decorated class', 'decorated classes')}{whole}{guards}; "
        f"{number(len(found.splitting), 'splitting operator')}; {number(found.registered, 'registered operator')}"
    )


def counts_sentence(found: Serving) -> str:
    """Format `of 5 findings 2 are handled, 1 is hit, 2 are not compiled`."""
    counts = Counter(each.state for each in found.findings)
    parts = [f"{counts[state]} {word}" for state, word in STATE.items() if counts[state]]
    return f"of {number(len(found.findings), 'finding')}: {', '.join(parts)}" if parts else "no findings"


def class_sentence(found: ServedClass) -> str:
    """Format `LlamaModel (vllm/...:3): dynamic are input_ids 0, positions -1; compiled if ...`."""
    if found.unread:
        return f"{found.name} ({found.path}:{found.line}): not read is {found.unread}"
    dims = ", ".join(f"{name} {dimension}" for name, dimension in found.dynamic) or found.dynamic_unread
    condition = f"; compiled if {found.enable_if}" if found.enable_if else ""
    taken = "; taken back by ignore_torch_compile" if found.ignored else ""
    above = f", as {found.inherits} is" if found.inherits else ""
    dynamic = dims or "none known"
    return f"{found.name} ({found.path}:{found.line}){above}: dynamic are {dynamic}{condition}{taken}"


def operator_sentence(found: ServedOperator) -> str:
    """Format `vllm::attention (vllm/...:3): graphs are split at it`."""
    place = f" ({found.code.path}:{found.code.line})" if found.code is not None else ""
    facts = [
        *(["graphs are split at it"] if found.splits else []),
        *([] if found.fake else ["it has no implementation for fake tensors, so Dynamo cannot trace past it"]),
    ]
    return f"{found.name}{place}: {'; '.join(facts) or 'findings meet it'}"


def finding_sentence(found: ServedFinding) -> str:
    """Format `hit: LlamaModel is compiled with fullgraph=True: ...`."""
    return f"{STATE[found.state]}: {REASON[found.reason].format(by=found.by)}"


def rows(report: Report, found: Serving, most: int | None, more: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their labels, `most` of a kind if given; `more` says how to see the rest."""
    yield "engine", engine_sentence(found)
    if not found.installed:
        return
    pairs = by_finding(report)
    places = [f"{finding.path}:{finding.line} {code_of(finding)}: {finding_sentence(each)}" for finding, each in pairs]
    for label, texts in (
        ("compiled", [class_sentence(each) for each in found.classes]),
        ("operators", [operator_sentence(each) for each in found.operators]),
        ("not read", list(found.unread)),
        ("findings", [counts_sentence(found), *places]),
    ):
        shown = texts if most is None else texts[:most]
        for index, text in enumerate(shown):
            yield "" if index else label, text
        if len(shown) < len(texts):
            yield "", f"... and {len(texts) - len(shown)} more ({more})"


def by_finding(report: Report) -> tuple[tuple[Finding, ServedFinding], ...]:
    """Return the shown findings, with the effect on each; those that are hit first."""
    known = {each.fingerprint: each for each in (report.serving.findings if report.serving else ())}
    pairs = [(each, known[each.fingerprint]) for each in report.findings if each.fingerprint in known]
    order: tuple[ServedState, ...] = ("hit", "not_read", "handled", "not_compiled")
    return tuple(sorted(pairs, key=lambda pair: order.index(pair[1].state)))
