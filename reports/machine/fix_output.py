"""Render proposed changes: as text for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tcready.reports.shared.wording import proof_words, share_words, visible
from tcready.schema.codec import as_json
from tcready.schema.enums import SCHEMA_VERSION
from tcready.schema.proof import CaseValue, Counterexample, FixChange, FixResult, setting_line, setting_of

FLAGS_BY_ENVIRONMENT = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
"""Settings of Dynamo that an environment variable can set too (torch/_dynamo/config.py, 2.11 to 2.14)."""
SET = "set before the model is compiled"
CALL = "call the model once before it is compiled (that is not in the patch)"


def text(result: FixResult) -> str:
    """Return what is changed, its proof, and what is left, for people; the patch itself is separate."""
    several = len(result.targets) > 1
    # several operators of one test may be several changes that read alike
    lines = [line for each in dict.fromkeys(_change_lines(result, several)) for line in each]
    for run in result.targets:
        if run.breaks_before is not None:
            share = f", captured {share_words(run.share_before)} -> {share_words(run.share_after)}"
            named = f"{run.target}: " if several else ""
            lines.append(f"{named}breaks {run.breaks_before} -> {run.breaks_after}{share}")
    lines += _beside_the_files(result)
    if result.breaks_before is None and any(change.state == "not_run" for change in result.refused):
        lines.append(
            "--verify runs the model to prove changes that are not safe by construction; --unsafe includes them unproved"
        )
    if not (result.changes or result.refused or result.no_fix or result.failure):
        lines.append("nothing to change")
    return "".join(f"{visible(line)}\n" for line in lines)


def _change_lines(result: FixResult, several: bool) -> Iterator[tuple[str, ...]]:
    """Yield the lines on each change, and on each break without one; with the targets of a change, if there are
    `several`."""
    for change in result.changes:
        yield (*_change(change), *([f"    for {', '.join(change.targets)}"] if several else []))
    for change in result.refused:
        yield f"{_place(change)} left out: {change.how}", f"    {_why_left_out(change)}"
    for item in result.no_fix:
        place = f"{item.path}:{item.line} {_named(item.rule, item.gb_ids)}"
        yield f"{place}: no change", f"    {item.reason}"


def _why_left_out(change: FixChange) -> str | None:
    if change.reason is None and change.condition is not None:
        return f"it holds, except {change.condition}; --unsafe includes it"
    return change.reason or change.unsafe


def _beside_the_files(result: FixResult) -> Iterator[str]:
    """Return what is needed in addition to the patch."""
    settings = settings_code(result)
    if settings:
        yield f"{SET} (these lines are in no file, and not in the patch):"
        yield from (f"    {line}" for line in settings)
    if any(change.called_before for change in result.changes):
        yield CALL


def settings_code(result: FixResult) -> list[str]:
    """Return the lines of code for the settings of all changes."""
    values: dict[tuple[object, ...], str] = {}
    for name in (name for change in result.changes for name in change.settings):
        of, value = setting_of(name)
        values[(of, value) if isinstance(value, str) else (of,)] = name
    return [setting_line(name) for name in values.values()]


def _change(change: FixChange) -> Iterator[str]:
    yield f"{_place(change)}: {change.how}"
    if change.state == "not_run":
        yield (
            "    safe by construction; not run" if change.unsafe is None else f"    not safe: {change.unsafe}; not run"
        )
        return
    assert change.proof is not None
    yield f"    {'proved: ' if change.state == 'proved' else ''}{proof_words(change.proof)}"
    if change.reason:
        yield f"    not fully covered by the calls: {change.reason}"
    if change.condition:
        yield f"    it holds, except {change.condition}"
    if change.unsafe:
        yield f"    not safe by construction: {change.unsafe}"


def _place(change: FixChange) -> str:
    place = f"{change.path}:{change.line}" if change.line else change.path
    named = _named(change.rule, change.gb_ids)
    return f"{place} {named}" if named else place


def _named(rule: str | None, gb_ids: tuple[str, ...]) -> str:
    return rule or " ".join(gb_ids)


def as_data(result: FixResult) -> str:
    """Return the result as JSON: `edits` and `settings` separately, each with the line or the variable that makes
    it."""
    data = {"schema_version": SCHEMA_VERSION, **as_json(result)}
    settings = dict.fromkeys(name for change in result.changes for name in change.settings)
    data["settings"] = {f"TORCHDYNAMO_{name.upper()}": "1" for name in settings if name in FLAGS_BY_ENVIRONMENT}
    data["settings_code"] = settings_code(result)
    data["called_before"] = any(change.called_before for change in result.changes)
    return json.dumps(data, indent=2) + "\n"


def proof_text(change: FixChange) -> str:
    """Return the result of verifying one patch, for people."""
    words = {
        "proved": "holds",
        "one_side": "is not fully covered by the calls",
        "refuted": "does not hold",
        "not_run": "was not run",
    }
    reason = f": {change.reason}" if change.reason else ""
    condition = f", except {change.condition}" if change.condition and change.state == "proved" else ""
    lines = [f"{change.how} {words[change.state]}{condition}{reason}"]
    lines += [f"    {SET}: {setting_line(name)}" for name in change.settings]
    if change.unsafe:
        lines.append(f"    {change.unsafe}")
    if change.counterexample is not None:
        lines += [f"    {line}" for line in counterexample_lines(change.counterexample)]
    if change.proof is not None and change.state in ("proved", "one_side"):
        lines.append(f"    {proof_words(change.proof)}")
    return "\n".join(lines) + "\n"


def counterexample_lines(case: Counterexample) -> Iterator[str]:
    """Return a call that differs, for people: its arguments, and its results before and after the change."""
    what = f"{case.function} alone" if case.function else "the model"
    yield f"smallest call of {what} that differs, of {case.tried} tried ({case.mode}, seed {case.seed}):"
    yield from (f"    {_value(each)}" for each in case.arguments)
    for when, result in (("before", case.before), ("after", case.after)):
        yield from (f"    {when}: {_value(each)}" for each in result.outputs)
        if result.raises is not None:
            yield f"    {when}: raises {result.raises}"


def _value(item: CaseValue) -> str:
    """`x = [[1.0]], float32[1, 1]`."""
    if item.shape is None:
        return f"{item.name} = {item.value if item.value is not None else item.type}"
    kind = f"{(item.dtype or '').removeprefix('torch.')}{list(item.shape)}"
    return f"{item.name} = {kind}" if item.value is None else f"{item.name} = {item.value}, {kind}"


def proof_data(change: FixChange) -> str:
    """Return the same as JSON."""
    return json.dumps({"schema_version": SCHEMA_VERSION, "holds": change.holds, **as_json(change)}, indent=2) + "\n"
