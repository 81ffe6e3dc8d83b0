"""Compare two behaviours: before and after a change, or eager and compiled."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from tcready.dynamic.worker.measure.output_comparison import compare
from tcready.dynamic.worker.proof.behaviour import LONG, NOT_SAVED, REPLACED, Behaviour
from tcready.dynamic.worker.proof.sharing import described
from tcready.schema.proof import Differs

_LINE_OF_TRACE = re.compile(r"(?<=\"), line \d+(?=, in )")
"""In a printed traceback: a change moves lines."""
PRINTED = "what is printed"
FILE = "file "
"""Prefix of the names of files; the name is ignored if every call writes to another file."""
CONTENTS = "contents of files"
"""Ignored too if every call writes something else to its other file."""


def restless(one: Behaviour, other: Behaviour) -> frozenset[str]:
    """Return the state that differs between two equal calls, such as the time of day. In printed text only numbers may
    differ."""
    names = one.state.keys() & other.state.keys()
    found = {name for name in names if _moves(one.state[name], other.state[name])}
    # of a list of times each call makes another item
    found |= {_each_item(name) for name in found if name.endswith("]") and isinstance(one.state[name], float)}
    found |= {name for name in one.names.keys() & other.names.keys() if _is_clock(one.names[name], other.names[name])}
    found |= {
        f"{name}, as it is left"
        for name in one.left.keys() & other.left.keys()
        if _moves(one.left[name], other.left[name])
    }
    found |= {
        name for name in one.process.keys() & other.process.keys() if _moves(one.process[name], other.process[name])
    }
    files = [{name for name in each.process if name.startswith(FILE)} for each in (one, other)]
    if all(files) and files[0] != files[1]:
        found.add(FILE)
        if _contents(one) != _contents(other):
            found.add(CONTENTS)
    if without_numbers(one.printed) == without_numbers(other.printed):
        lines = zip(one.printed.splitlines(), other.printed.splitlines(), strict=True)
        found |= lines_that_move([first for first, second in lines if first != second])
    return frozenset(found)


def _contents(seen: Behaviour) -> list[str]:
    """Return what a call wrote to files, in an order that does not depend on their names."""
    return sorted(str(each) for name, each in seen.process.items() if name.startswith(FILE))


def changes_between_calls(
    last: Mapping[str, Any] | None, seen: Behaviour, names: Iterable[str], known: Counter[str]
) -> dict[str, Any]:
    """Count in `known` which of the named values differ from those of the call before (`last`), and return them."""
    values = {name: seen.state[name] for name in names if name in seen.state}
    known.update(name for name, value in values.items() if last and name in last and _moves(last[name], value))
    return values


def lines_that_move(lines: Sequence[str]) -> frozenset[str]:
    """Return the names of printed lines, among the differences between two calls, in which numbers differ."""
    return frozenset(f"{PRINTED}: {without_numbers(line)}" for line in lines)


def _each_item(name: str) -> str:
    """Return the name for all items of a list or dict, given the name of one: `times[*]` for `times[0]`."""
    return f"{name.rpartition('[')[0]}[*]"


def _is_clock(one: Any, other: Any) -> bool:
    """Return whether numbers changed by amounts that are neither whole nor equal, except for the rounding of a sum."""
    moved = [isinstance(each, list) and all(isinstance(x, float) for x in each) for each in (one, other)]
    if not all(moved) or len(one) != len(other):
        return all(moved)
    if not all(map(math.isfinite, (*one, *other))):
        return False
    return not all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-9) for x, y in zip(one, other, strict=True))


def is_as_before(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the state of a module is unchanged."""
    return one.keys() == other.keys() and not any(_moves(one[name], other[name]) for name in one)


def _moves(one: Any, other: Any) -> bool:
    """Return whether two calls leave other values. Numbers must be equal to the last digit: a clock changes by little."""
    numbers = isinstance(one, float) and isinstance(other, float)
    return one != other if numbers else bool(compare(one, other).difference)


def without_numbers(text: str) -> str:
    return re.sub(r"[\d.:]+(e[+-]?\d+)?|\b(inf|nan)\b", "0", text)


def _without_moving_numbers(text: str, ignored: frozenset[str]) -> str:
    """Return the text without the numbers of lines in which two calls print different numbers."""
    lines = text.splitlines(keepends=True)
    return "".join(without_numbers(line) if lines_that_move([line.rstrip("\n")]) <= ignored else line for line in lines)


def same_digits(one: Behaviour, other: Behaviour) -> bool:
    """Return whether outputs and gradients are equal to the last digit; other values are not compared."""
    pairs = [*zip(one.outputs, other.outputs, strict=False)]
    pairs += [(value, other.gradients.get(name)) for name, value in one.gradients.items()]
    return all(
        isinstance(y, torch.Tensor)
        and x.shape == y.shape
        and bool(torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)))
        for x, y in pairs
        if isinstance(x, torch.Tensor) and x.layout == torch.strided
    )


def difference(
    before: Behaviour, after: Behaviour, ignored: frozenset[str] = frozenset()
) -> tuple[Differs, str] | None:
    """The first difference in one line; None if a caller sees no difference. `ignored` is the result of `restless`."""
    if before.error != after.error:
        return "exception", _other_exception(before, after)
    if before.structure != after.structure:
        return "value", "the structure of the output differs"
    if found := _of(before.outputs, after.outputs) or _of_small(before.outputs, after.outputs):
        return "value", found
    if before.strides != after.strides:
        return "value", "the strides of an output differ"
    if before.differentiable != after.differentiable:
        return "gradient", "an output requires grad, or can take part in autograd, in one of the two calls only"
    if found := _named(before.gradients, after.gradients, "gradient of "):
        return "gradient", found
    if found := _of(before.inputs, after.inputs):
        return "state", f"an argument differs after the call: {found}"
    if found := _state(before, after, ignored) or _moved_names(before, after, ignored):
        return "state", found
    if found := _named(_left(before, ignored), _left(after, ignored), "changed by the call: "):
        return "state", found
    if found := _named(_process(before, ignored), _process(after, ignored), "changed by the call: "):
        return "state", found
    if less := Counter(before.modules) - Counter(after.modules):
        return "state", f"the module {next(iter(less))} is called less often, and so are its hooks"
    if before.modules == after.modules and (fewer := Counter(before.by_position) - Counter(after.by_position)):
        return "state", f"the module {next(iter(fewer))} gets fewer positional arguments, and so do its hooks"
    if more_written := Counter(after.written) - Counter(before.written):
        return (
            "state",
            f"the output of the module {next(iter(more_written))} is written to later, which its hooks see",
        )
    if joined := sorted(after.shared - before.shared):
        return "state", f"{described(joined[0])} share memory or are one object, and did not before"
    if text := printed_otherwise(before.printed, after.printed, ignored):
        return "state", text
    if before.random != after.random:
        return "state", "other random numbers are drawn"
    return None


def printed_otherwise(before: str, after: str, ignored: frozenset[str]) -> str | None:
    """Return a line that is printed, logged or warned of only before or only after a change; None if there is none."""
    before, after = (re.sub(_LINE_OF_TRACE, "", text) for text in (before, after))
    before, after = (_without_moving_numbers(text, ignored) for text in (before, after))
    if before == after:
        return None
    lines = Counter(before.splitlines()), Counter(after.splitlines())
    for (one, other), when in (((lines[0], lines[1]), "before"), ((lines[1], lines[0]), "after")):
        if line := next(iter(one - other), None):
            return f"other text is printed: {line[:LONG]!r} only {when} the change"
    return "the same text is printed in another order"


def _left(seen: Behaviour, ignored: frozenset[str]) -> dict[str, Any]:
    return {name: each for name, each in seen.left.items() if f"{name}, as it is left" not in ignored}


def _process(seen: Behaviour, ignored: frozenset[str]) -> dict[str, Any]:
    found = {
        name: each
        for name, each in seen.process.items()
        if name not in ignored and not (FILE in ignored and name.startswith(FILE))
    }
    if FILE in ignored and (contents := _contents(seen)):
        found["files with other names in each call"] = f"{len(contents)} of them" if CONTENTS in ignored else contents
    return found


def noticed(before: Behaviour, after: Behaviour) -> str | None:
    """Return what a caller may notice although nothing differs: a module (with its hooks) that is called more often, or
    a tensor in place of a stored number."""
    if more := Counter(after.modules) - Counter(before.modules):
        return f"the module {next(iter(more))} is called more often, and so are its hooks"
    if [*before.modules] != [*after.modules]:
        return "modules are called in another order, and so are their hooks"
    for name, outputs in before.given.items():
        pairs = [*zip(outputs, after.given.get(name, outputs), strict=False)]
        if any(shape != other for (_, shape), (_, other) in pairs):
            return f"the module {name} returns another shape, which its hooks see"
        if not all(_are_near(mean, other) for (mean, _), (other, _) in pairs):
            return f"the module {name} returns other values, which its hooks see"
    names = [
        name
        for name, value in before.state.items()
        if type(value) in (bool, int, float) and isinstance(after.state.get(name), torch.Tensor)
    ]
    if len(names) == 1:
        return f"after the call, {names[0]} is a tensor instead of a number"
    return f"after the call, {', '.join(names)} are tensors instead of numbers" if names else None


def _are_near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.01, abs_tol=1e-6) or not math.isfinite(one)


def another_message(before: Behaviour, after: Behaviour) -> str | None:
    """Return a different message of a user exception; messages of torch's own may differ."""
    if before.error is None or before.error != after.error or not before.raised:
        return None
    return None if before.message == after.message else _other_exception(before, after)


def compiled_difference(eager: Behaviour, compiled: Behaviour, ignored: frozenset[str] = frozenset()) -> str | None:
    """Return the first difference of compiled code, which may raise another exception, print other text and draw other
    random numbers."""
    if found := ends_otherwise(eager, compiled):
        return found
    if eager.error is not None:
        return None
    if eager.structure != compiled.structure:
        return "the structure of the output differs"
    return (
        _of(eager.outputs, compiled.outputs)
        or _named(eager.gradients, compiled.gradients, "gradient of ")
        or _of(eager.inputs, compiled.inputs)
        or _left_behind(eager, compiled, ignored)
    )


def left_by_exception(eager: Behaviour, compiled: Behaviour, ignored: frozenset[str]) -> str | None:
    """Return the effects that differ in compiled code if both raise: effects of earlier Python code may be delayed
    until the graph ends."""
    if eager.error is None or compiled.error is None:
        return None
    return _left_behind(eager, compiled, ignored)


def _left_behind(eager: Behaviour, compiled: Behaviour, ignored: frozenset[str]) -> str | None:
    return _state(eager, compiled, ignored) or _moved_names(_counters(eager), _counters(compiled), ignored)


def spoken_otherwise(eager: Behaviour, compiled: Behaviour, ignored: frozenset[str]) -> str | None:
    """Return a line that compiled code prints, logs or warns of and eager code does not.

    It may print less, because compiled code may leave out other messages.
    """
    texts = [_without_moving_numbers(each.printed, ignored) for each in (compiled, eager)]
    lines = [Counter(text.splitlines()) for text in texts]
    more = next(iter(lines[0] - lines[1]), None)
    return None if more is None else f"only compiled code prints {more[:LONG]!r}"


def ends_otherwise(eager: Behaviour, compiled: Behaviour) -> str | None:
    """Return the exception of one of them, if the other raises nothing."""
    if (eager.error is None) == (compiled.error is None):
        return None
    if eager.error is None:
        return f"only compiled code raises {_exception(compiled)}"
    return f"only eager code raises {_exception(eager)}"


def _counters(seen: Behaviour) -> Behaviour:
    """Return only the numbers that a call changed: values stored at a first call exist when the compiled one is made."""
    return replace(seen, names={name: value for name, value in seen.names.items() if isinstance(value, list)})


def _moved_names(before: Behaviour, after: Behaviour, ignored: frozenset[str]) -> str | None:
    one, other = ({k: v for k, v in each.names.items() if k not in ignored} for each in (before, after))
    return _named(one, other, "changed by the call: ")


def _state(before: Behaviour, after: Behaviour, ignored: frozenset[str]) -> str | None:
    def is_restless(name: str, value: Any) -> bool:
        return name in ignored or (isinstance(value, float) and _each_item(name) in ignored)

    one, other = ({k: v for k, v in each.state.items() if not is_restless(k, v)} for each in (before, after))
    new = {name for name in other if name not in one and name + NOT_SAVED in other and name + NOT_SAVED not in one}
    for name in new:  # a new buffer that is not saved is no more than a constant of the module
        other.pop(name)
        other.pop(name + NOT_SAVED)
    for name, value in one.items():  # a number is saved no more than such a buffer
        if type(value) in (bool, int, float) and name + NOT_SAVED not in one:
            other.pop(name + NOT_SAVED, None)
    # if there was no container, nothing referred to one
    one, other = (
        {k: v for k, v in mine.items() if not k.endswith(REPLACED) or k in theirs}
        for mine, theirs in ((one, other), (other, one))
    )
    return _named(one, other, "after the call, ")


def _other_exception(before: Behaviour, after: Behaviour) -> str:
    """Describe the exceptions of two calls, of which at least one raises."""
    if after.error is None:
        return f"it no longer raises {_exception(before)}"
    if before.error is None:
        return f"it raises {_exception(after)}, and did not before"
    return f"it raises {_exception(after)} instead of {_exception(before)}"


def _exception(seen: Behaviour) -> str:
    return f"{seen.error}: {seen.message}"[: LONG // 2]


def _of(before: list[Any], after: list[Any]) -> str | None:
    return compare(before, after).difference


TINY = 1e-2
"""Tensors with no number above this are compared by their own scale: the tolerance for values near zero would accept
them."""


def _of_small(before: list[Any], after: list[Any]) -> str | None:
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if not isinstance(one, torch.Tensor) or not one.is_floating_point() or one.layout != torch.strided:
            continue
        finite = one[torch.isfinite(one)].double()
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        if not 0 < scale < TINY:
            continue
        apart = float((torch.nan_to_num(other.double()) - torch.nan_to_num(one.double())).abs().max())
        if apart > SMALL_APART * scale:
            return f"output {number}: numbers of up to {scale:.3g} differ by {apart:.3g}"
    return None


SMALL_APART = 0.05
"""The largest difference between such numbers, relative to the largest."""


def _named(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> str | None:
    for name in dict.fromkeys([*before, *after]):
        if name not in before or name not in after:
            return f"{what}{name} exists in one of the two calls only"
        one, other = _as_tensor(before[name], after[name])
        if found := compare(one, other).difference:
            return f"{what}{name}: {found.removeprefix('output 0: ')}"
    return None


def _as_tensor(one: Any, other: Any) -> tuple[Any, Any]:
    """Convert a number that is compared with a zero-dimensional tensor to a tensor: a counter may be stored in a
    buffer."""
    if isinstance(one, (int, float)) and isinstance(other, torch.Tensor) and other.dim() == 0:
        return torch.as_tensor(one, dtype=other.dtype, device=other.device), other
    return one, other
