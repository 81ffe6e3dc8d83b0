"""The registration of a fake kernel, as a run suggests it by the calls of the operator that it observed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tcready.refactor.suggest import Proposal, imported
from tcready.schema import CustomOp, Edit
from tcready.static.concrete import first_line, name_of_torch
from tcready.static.rule import Declined
from tcready.static.source import Source

LACKS = "fake kernel"
HOW = "The operator is told of: what it gives has the size and type of what it was given"
UNSAFE = "what it gives was seen in calls alone, and is not written anywhere"


def registered(path: str, source: Source, line: int, operator: CustomOp) -> Iterator[Proposal | Declined]:
    """The registration above the top-level statement around a line (1-based) that calls the operator.

    `path` is how the file is named in every output.
    """
    made = _kernel(operator)
    if made is None:
        yield Declined(
            f"what `{operator.name}` gives does not have the size of anything that it is given: write that in terms of "
            "its arguments"
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
    for node in ast.walk(made):
        if isinstance(node, ast.Name) and node.id == "torch":
            node.id = torch
    imports = tuple(imported(path, source, () if found else ("import torch",)))
    arguments = ast.unparse(made.args)
    last = made.body[-1]
    value = ast.unparse(last.value) if isinstance(last, ast.Return) and last.value is not None else "None"
    end = source.line_end(at)
    values = [value]
    if (
        value.startswith(f"{torch}.empty_like(") and "," not in value
    ):  # what one call of one type does not tell
        alike = value.removesuffix(")")
        values.append(f"{alike}, memory_format={torch}.contiguous_format)")
        values.append(f"{alike}, dtype={torch}.float32)")
    for each in values:
        code = f'{torch}.library.register_fake("{operator.name}", lambda {arguments}: {each})'
        yield Proposal("TCR404", HOW, (*imports, Edit(path, at, 1, at, 1, f"{code}{end * 3}")), UNSAFE)


def _kernel(operator: CustomOp) -> ast.FunctionDef | None:
    """The fake kernel that the run wrote, if nothing of it is left to be filled in."""
    head, _, rest = operator.skeleton.partition("@torch.library.register_fake(")
    code = rest.partition("\ndef setup_context(")[0]
    if not code or "TODO" in code:
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
