"""Numbers, durations and names in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcready.schema.enums import STAGES, counted, lines_of
from tcready.schema.enums import visible as visible
from tcready.schema.observation import Stage
from tcready.schema.report import TargetReport
from tcready.schema.static import FindingTarget

number = counted
_MANY_NAMES = 4
_MANY_CHARACTERS = 200


def percent(share: float) -> str:
    """Format `61 %`; only a share that is exactly whole is 100 %, only one that is exactly nothing 0 %."""
    value = share * 100
    if 99 < value < 100 or 0 < value < 1:
        return f"{min(max(value, 0.1), 99.9):.1f} %"
    return f"{value:.0f} %"


def duration(seconds: float) -> str:
    """Format `4 ms`, `1.3 s`, `600 s`."""
    if seconds < 0.1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:.0f} s"


def reflow(text: str) -> str:
    """Return prose without the line ends of its docstring: paragraphs and list items keep theirs."""
    lines: list[str] = []
    for line in map(str.rstrip, lines_of(text.strip())):
        starts = not line or not lines or not lines[-1] or line.lstrip().startswith(("- ", "* "))
        if starts or line.startswith("    "):
            lines.append(line)
        else:
            lines[-1] += f" {line.strip()}"
    return "\n".join(lines)


def named_target(target: TargetReport, targets: Iterable[TargetReport]) -> str:
    """Return the target, with its mode if the report has it in several."""
    modes = {other.mode for other in targets if other.target == target.target}
    return f"{target.target} ({target.mode})" if len(modes) > 1 else target.target


def named_entry(entry: FindingTarget) -> str:
    """Return the case or the target of a status, with the mode if it was run in several."""
    return (entry.case or entry.target) + (f" ({entry.mode})" if entry.mode else "")


def shorten(text: str) -> str:
    """Return the beginning of a long text; the page and the JSON have all of it."""
    return text if len(text) <= _MANY_CHARACTERS else f"{text[:_MANY_CHARACTERS].rstrip()} ..."


def sentence(text: str) -> str:
    """Return `text` with a capital, unless it begins with a name of code."""
    word = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text


def first_line(text: str) -> str:
    """Return the first nonempty line."""
    return next((line.strip() for line in lines_of(text) if line.strip()), "no reason recorded")


def ladder(target: TargetReport) -> tuple[Stage, ...]:
    """Return every stage once, in order; one that is missing in the report did not run."""
    known = {stage.stage: stage for stage in target.stages}
    return tuple(known.get(name, Stage(name, "not_run", "")) for name in STAGES)


def list_some(names: Sequence[str]) -> str:
    more = len(names) - _MANY_NAMES
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_MANY_NAMES])} and {more} more"
