"""The content of text and Markdown on a sweep: cells of its table, and its sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tcready.reports.shared.phrases import duration, number, percent
from tcready.reports.shared.wording import VERDICT_WORD

if TYPE_CHECKING:
    from tcready.schema.sweep import Cause, ChangeKind, Outcome, Sweep, SweptFix, SweptModel, SweptSite, SweptState

STATE_WORD: dict[SweptState, str] = {
    "run": "",
    "read": "",
    "inputs_unknown": "inputs unknown",
    "unread": "cannot be read",
    "failed": "failed",
}
"""The text in place of the verdict; empty: the verdict itself."""
ORDER = ("cannot be read", "failed", "inputs unknown", "unknown", "not ready", "ready by region", "ready")
"""The worst first."""
CAUSE_WORD: dict[ChangeKind, str] = {
    "own": "own code",
    "dependency": "dependency",
    "torch": "torch",
    "python": "Python",
    "tcready": "tcready itself",
    "options": "options",
    "new": "new",
}
SHOWN_CAUSES = 4
NONE = "-"


def word(found: Outcome) -> str:
    """Format `ready`, `not ready`, `inputs unknown`."""
    return STATE_WORD[found.state] or VERDICT_WORD[found.verdict]


def by_urgency(models: Sequence[SweptModel]) -> list[SweptModel]:
    """Sort the worst first, then by name."""
    return sorted(models, key=lambda each: ORDER.index(word(each.outcome)))


def why(model: SweptModel) -> str:
    """Return why a model has its result, if no site counted in its row shows it; else empty."""
    found = model.outcome
    judged = found.state in ("run", "read")
    if judged and (found.verdict == "ready" or found.own_sites or found.third_party_sites):
        return ""
    if found.state == "inputs_unknown":
        return f"{model.reason}; list it in a .toml file, with its inputs or a function that returns the model"
    return model.reason


def headline(sweep: Sweep) -> str:
    """Return the number of models by result."""
    counts = Counter(word(each.outcome) for each in sweep.models)
    parts = [f"{counts[name]} {name}" for name in reversed(ORDER) if counts[name]]
    models = number(len({each.target for each in sweep.models}), "model")
    settings = len(_settings(sweep))
    over = f" in {settings} settings, {len(sweep.models)} rows" if settings > 1 else ""
    came_to = f": {', '.join(parts)}" if parts else ""
    return f"{models}{over}{came_to}"


def effort(sweep: Sweep) -> str:
    """Return how much was computed, and how long that took."""
    return f"{number(sweep.made, 'result')} computed in {duration(sweep.seconds)}, {sweep.taken} taken from the store"


@dataclass(frozen=True)
class SweepTable:
    """The layout of the rows of a sweep."""

    differs: tuple[bool, ...]
    """Those of mode, device, torch and Python in which its settings differ; empty if there is one setting."""
    gains: bool
    """The speed of some model was measured."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the headings of the table."""
        setting = ("setting",) if self.differs else ()
        gain = ("gain",) if self.gains else ()
        return ("model", *setting, "verdict", "of ops", "of time", "own sites", "third-party", "compile", *gain)

    def cells(self, each: SweptModel) -> tuple[str, ...]:
        """Return one row of the table."""
        found = each.outcome
        known = found.state in ("run", "read")
        setting = (self._setting(each),) if self.differs else ()
        gain = (NONE if each.gain is None else f"{each.gain:.2f}x",) if self.gains else ()
        return (
            f"{each.target} ({each.table})" if each.table else each.target,
            *setting,
            word(found) + (f" ({each.word})" if each.word and found.state == "failed" else ""),
            NONE if found.share is None else percent(found.share),
            NONE if each.time_share is None else percent(each.time_share),
            str(found.own_sites) if known else NONE,
            str(found.third_party_sites) if known else NONE,
            NONE if each.compile_seconds is None else duration(each.compile_seconds),
            *gain,
        )

    def named(self, each: SweptModel) -> str:
        """Return the target, with its setting if there are several and it could be read."""
        return f"{each.target} ({self._setting(each)})" if self.differs and each.device else each.target

    def _setting(self, each: SweptModel) -> str:
        mine = (
            each.mode,
            each.device,
            each.torch and f"torch {each.torch}",
            each.python and f"Python {each.python}",
            each.interpreter,
        )
        return " ".join(text for text, differs in zip(mine, self.differs, strict=True) if differs and text) or NONE


def laid_out(sweep: Sweep) -> SweepTable:
    """Create the layout once for all rows, because it looks at each of them."""
    every = _settings(sweep)
    differs: tuple[bool, ...] = ()
    if len(every) > 1:
        *plain, interpreters = zip(*every, strict=True)
        # A path is long: it is shown only if versions do not distinguish the interpreters.
        versions = {each[2:4] for each in every}
        differs = (*(len({*values} - {""}) > 1 for values in plain), len({*interpreters}) > len(versions))
    return SweepTable(differs, any(each.gain is not None for each in sweep.models))


def _settings(sweep: Sweep) -> set[tuple[str, str, str, str, str]]:
    """Return mode, device, torch, Python and interpreter of the runs. For one that ended before it reported them,
    use a known setting."""
    every = {
        (each.mode, each.device, each.torch, each.python, each.interpreter) for each in sweep.models if each.device
    }
    known = {(mode, device) for mode, device, _, python, _ in every if python}
    return {each for each in every if each[3] or each[:2] not in known}


def site_words(site: SweptSite) -> str:
    """Return how many models break there, the cost, and the fix."""
    parts = [number(len(site.models), "model")]
    if site.operations:
        parts.append(f"{number(site.operations, 'operation')} out of graphs")
    if site.seconds:
        parts.append(duration(site.seconds))
    text = ", ".join(parts) + ("" if site.observed else ", predicted")
    return f"{text}; {site.fix}" if site.fix else text


def fix_words(fix: SweptFix) -> str:
    """Return what a change should remove."""
    cost = f", {duration(fix.seconds)} out of graphs" if fix.seconds else ""
    return f"{fix.what}: for {number(fix.sites, 'site')} of {number(len(fix.models), 'model')}{cost}"


def changes(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Yield each model with a different result than in the last sweep: the difference, and its reason."""
    shown = laid_out(sweep)
    for each in sweep.models:
        if not sweep.has_last or each.outcome.state == "unread":
            continue
        if each.before is None:
            yield shown.named(each), f"new: {word(each.outcome)}"
        elif each.before != each.outcome:
            yield shown.named(each), f"{_difference(each.before, each.outcome)}; {_why(each.causes)}"
    unread = {each.target for each in sweep.models if each.outcome.state == "unread"}
    for target in sweep.gone:
        yield (
            target,
            "its file cannot be read"
            if any(target.startswith(f"{path}::") for path in unread)
            else "not there any more",
        )


def unmoved(sweep: Sweep) -> str:
    """Return how many models were computed again because of changes, and have the same result; empty if none were."""
    same = [each for each in sweep.models if each.before == each.outcome and each.causes]
    if not same:
        return ""
    kinds = Counter(kind for each in same for kind in {cause.kind for cause in each.causes})
    why = ", ".join(CAUSE_WORD[kind] for kind, _ in sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
    return f"{number(len(same), 'model')} with a change ({why}) of which the same is found as before"


def _difference(before: Outcome, after: Outcome) -> str:
    then, now = word(before), word(after)
    parts = [f"{then} -> {now}" if then != now else now]
    if before.share != after.share:
        shares = [NONE if share is None else percent(share) for share in (before.share, after.share)]
        parts.append(f"of ops {shares[0]} -> {shares[1]}")
    for name, was, is_now in (
        ("own sites", before.own_sites, after.own_sites),
        ("third-party sites", before.third_party_sites, after.third_party_sites),
    ):
        if was != is_now:
            parts.append(f"{name} {was} -> {is_now}")
    return ", ".join(parts)


def _why(causes: Sequence[Cause]) -> str:
    if not causes:
        return "nothing that it rests on is known to have changed"
    shown = [_cause(cause) for cause in causes[:SHOWN_CAUSES]]
    more = f" and {len(causes) - SHOWN_CAUSES} more" if len(causes) > SHOWN_CAUSES else ""
    return "changed: " + ", ".join(shown) + more


def _cause(cause: Cause) -> str:
    what = f"{CAUSE_WORD[cause.kind]} {cause.what}".rstrip()
    if cause.kind == "own":
        return f"{what} ({'new' if cause.was else 'gone'})" if cause.was or cause.now else what
    return f"{what} {cause.was} -> {cause.now}" if cause.was or cause.now else what
