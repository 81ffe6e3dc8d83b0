"""The registration of a fake kernel, as a run suggests it by the calls of the operator that it observed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tcready.refactor.suggest import Proposal, imported
from tcready.schema import CustomOp, Edit
from tcready.static.concrete import first_line, name_of_torch
from tcready.static.rule import Declined
from tcready.static.source import Source

LACKS = "fake kernel"
SEEN = re.compile(r"TODO: observed \(([\d, ]*)\) for (.*): write the shape")
ARGUMENT = re.compile(r"(\w+) \(([\d, ]*)\)")
NEW_EMPTY = re.compile(r"(\w+)\.new_empty\(\([\d, ]*\)(|, dtype=[\w.]+)\)")
"""As a run writes what it saw (`dynamic/worker/registration.py`)."""
HOW = "The operator is told of: what it gives has sizes and types of what it is given"
UNSAFE = "what it gives was seen in calls alone, and is not written anywhere"


def registered(path: str, source: Source, line: int, operator: CustomOp) -> Iterator[Proposal | Declined]:
    """The registration above the top-level statement around a line (1-based) that calls the operator.

    `path` is how the file is named in every output.
    """
    made = _kernel(operator)
    values = _values(operator, made) if made is not None else []
    if made is None or not values:
        yield Declined(
            f"what `{operator.name}` gives does not have sizes of what it is given: write them in terms of its arguments"
        )
        return
    found = name_of_torch(source.tree)
    torch = found or "torch"
    if torch in _bound(source.tree) and not found:
        yield Declined("`torch` means something else here")
        return
    statement = next(
        (s for s in source.tree.body if first_line(s) <= line <= (s.end_lineno or s.lineno)), None
    )
    if statement is None:
        yield Declined("no function stands around it")
        return
    at = first_line(statement)
    while at > 1 and source.lines[at - 2].startswith("#"):  # a comment belongs to what it stands above
        at -= 1
    imports = tuple(imported(path, source, () if found else ("import torch",)))
    arguments = ast.unparse(made.args)
    end = source.line_end(at)
    for each in values:
        value = ast.unparse(_Renamed(torch).visit(ast.parse(each, mode="eval")))
        code = f'{torch}.library.register_fake("{operator.name}", lambda {arguments}: {value})'
        yield Proposal("TCR404", HOW, (*imports, Edit(path, at, 1, at, 1, f"{code}{end * 3}")), UNSAFE)


class _Renamed(ast.NodeTransformer):
    """Torch by the name that a file has for it."""

    def __init__(self, torch: str) -> None:
        self.torch = torch

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.torch, node.ctx) if node.id == "torch" else node


def _values(operator: CustomOp, kernel: ast.FunctionDef) -> list[str]:
    """What the fake kernel may give back, the likeliest first."""
    last = kernel.body[-1]
    if not isinstance(last, ast.Return):
        return []
    value = "None" if last.value is None else ast.unparse(last.value)
    if "TODO" in operator.skeleton.partition("\ndef setup_context(")[0]:
        return _sized(operator.skeleton, value)
    if not value.startswith("torch.empty_like(") or "," in value:
        return [value]
    alike = value.removesuffix(")")  # what one call of one type does not tell
    return [value, f"{alike}, memory_format=torch.contiguous_format)", f"{alike}, dtype=torch.float32)"]


def _sized(skeleton: str, value: str) -> list[str]:
    """An empty tensor whose sizes are looked for among those of the arguments: at the same place, seen from the front,
    then seen from the back."""
    seen, made = SEEN.search(skeleton), NEW_EMPTY.fullmatch(value)
    if seen is None or made is None or skeleton.count("TODO: observed") != 1:
        return []
    wanted = _numbers(seen[1])
    given = {name: _numbers(sizes) for name, sizes in ARGUMENT.findall(seen[2])}
    found: list[str] = []
    for from_the_back in (False, True):
        sizes: list[str] = []
        for place, size in enumerate(wanted):
            position = place - len(wanted) if from_the_back else place
            at_it = [
                f"{name}.shape[{position}]"
                for name, own in given.items()
                if -len(own) <= position < len(own) and own[position] == size
            ]
            anywhere = [
                f"{name}.shape[{number}]"
                for name, own in given.items()
                for number, each in enumerate(own)
                if each == size
            ]
            sizes.append(next(iter([*at_it, *(anywhere if size != 1 else ()), str(size)])))
        if wanted and all(each.isdecimal() for each in sizes):
            return []
        found.append(f"{made[1]}.new_empty(({''.join(f'{each}, ' for each in sizes)}){made[2]})")
    return list(dict.fromkeys(found))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.replace(",", " ").split())


def _kernel(operator: CustomOp) -> ast.FunctionDef | None:
    """The fake kernel that the run wrote, be it that something is left to be filled in."""
    head, _, rest = operator.skeleton.partition("@torch.library.register_fake(")
    code = rest.partition("\ndef setup_context(")[0]
    if not code:
        return None
    found = ast.parse(f"{head}@torch.library.register_fake({code}").body[-1]
    return found if isinstance(found, ast.FunctionDef) else None


def _bound(tree: ast.Module) -> set[str]:
    """The names that a file gives a value anywhere."""
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
