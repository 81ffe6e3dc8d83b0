"""The registration of a fake kernel, derived from calls of the operator in a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcready.fixes.rewriting.suggestions import Proposal, add_imports
from tcready.schema.edit import Edit
from tcready.schema.run import CustomOp, ObservedCall
from tcready.static.diagnostics.cst_view import first_line, names_in, torch_in
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend.source import Source

LACKS = "fake kernel"
HOW = "Registers a fake kernel for the operator: results have sizes and types of its arguments"
UNSAFE = "the sizes of the results are derived from observed calls only"


def register_fake_kernel(path: str, source: Source, line: int, operator: CustomOp) -> Iterator[Proposal | Declined]:
    """Return the registration above the top-level statement around a line (1-based) that calls the operator.

    `path` is the name of the file in every output.
    """
    found = source.derive(torch_in)
    torch = found or "torch"
    call = operator.observed
    values = _values(call, torch) if call is not None else []
    if call is None or not values:
        yield Declined(
            f"The results of `{operator.name}` have sizes that its arguments do not have. Write its fake kernel "
            "in terms of its arguments."
        )
        return
    if torch in source.derive(names_in) and not found:
        yield Declined("The name `torch` is assigned to something else here. Rename that, or import torch.")
        return
    statement = next((s for s in source.tree.body if first_line(s) <= line <= (s.end_lineno or s.lineno)), None)
    if statement is None:
        yield Declined("The call of the operator is in no statement of the file.")
        return
    at = first_line(statement)
    while at > 1 and source.lines[at - 2].startswith("#"):  # a comment belongs to the code below it
        at -= 1
    imports = tuple(add_imports(path, source, () if found else ("import torch",)))
    end = source.line_end(at)
    for value in values:
        code = f'{torch}.library.register_fake("{operator.name}", lambda {call.signature}: {value})'
        yield Proposal("TCR404", HOW, (*imports, Edit(path, at, 1, at, 1, f"{code}{end * 3}")), UNSAFE)


def _values(call: ObservedCall, torch: str) -> list[str]:
    """Return the possible results of the fake kernel, most likely first."""
    if not call.results:
        return [] if call.several else ["None"]
    first = call.results[0]
    if call.several or first.like is None:
        if all(each.like is not None for each in call.results):
            return [f"({', '.join(each.empty(torch) for each in call.results)},)"]
        return _sized(call, torch) if not call.several else []
    if first.dtype or first.other_strides:
        return [first.empty(torch)]
    # What one call of one type does not show.
    others = (replace(first, other_strides=True), replace(first, dtype="float32"))
    return [each.empty(torch) for each in (first, *others)]


def _sized(call: ObservedCall, torch: str) -> list[str]:
    """Return an empty tensor with sizes taken from those of the arguments: all of one except the first or last ones,
    whatever its rank; then at the same position from the front; then from the back."""
    result = call.results[0]
    if not call.arguments:
        return []
    found = [_cut(call), *(_placed(call, from_the_back) for from_the_back in (False, True))]
    dtype = f", dtype={torch}.{result.dtype}" if result.dtype else ""
    owner = call.arguments[0].name
    return [f"{owner}.new_empty({sizes}{dtype})" for sizes in dict.fromkeys(found) if sizes]


def _cut(call: ObservedCall) -> str:
    """Return all sizes of an argument except some at one end, or all with another last one; empty if no argument
    matches."""
    wanted = call.results[0].sizes
    for each in call.arguments if wanted else ():
        rest = len(each.sizes) - len(wanted)
        if rest > 0 and each.sizes[: len(wanted)] == wanted:
            return f"{each.name}.shape[:{-rest}]"
        if rest > 0 and each.sizes[rest:] == wanted:
            return f"{each.name}.shape[{rest}:]"
        if rest == 0 and len(wanted) > 1 and each.sizes[:-1] == wanted[:-1]:
            return f"(*{each.name}.shape[:-1], {_size(call, len(wanted) - 1, -1)})"
    return ""


def _placed(call: ObservedCall, from_the_back: bool) -> str:
    wanted = call.results[0].sizes
    sizes = [_size(call, n, n - len(wanted) if from_the_back else n) for n in range(len(wanted))]
    if sizes and all(each.isdecimal() for each in sizes):
        return ""
    inner = f"{sizes[0]}," if len(sizes) == 1 else ", ".join(sizes)
    return f"({inner})"


def _size(call: ObservedCall, place: int, position: int) -> str:
    """Return the size of a result's dimension: that of an argument at a position, a given number, or any size."""
    size = call.results[0].sizes[place]
    for each in call.arguments:
        if -len(each.sizes) <= position < len(each.sizes) and each.sizes[position] == size:
            return f"{each.name}.shape[{position}]"
    if size != 1:
        for number in call.numbers:
            if number.value == size:
                return number.name
        for each in call.arguments:
            if size in each.sizes:
                return f"{each.name}.shape[{each.sizes.index(size)}]"
    return str(size)
