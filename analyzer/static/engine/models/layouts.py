"""The layout and the number of dimensions of what an operation gives: by its name, for no table tells of them."""

from __future__ import annotations

from collections.abc import Mapping as Table
from collections.abc import Sequence as Row
from dataclasses import replace
from types import MappingProxyType

from tcready.static.engine.values import (
    NONE,
    Const,
    Plain,
    Sequence,
    Tensor,
    Value,
    is_sparse,
    options,
    tensor_of,
)

KEEPING = frozenset(
    "abs bfloat16 ceil clone coalesce contiguous copy cpu cuda detach detach_ double expm1 float floor half int log1p "
    "long mT neg negative pow relu requires_grad_ round sign sin sqrt square t tanh to transpose trunc T type "
    "zero_".split()
)
"""Methods and functions that give a sparse tensor of a sparse one."""
OF_BOTH = frozenset("Add Sub MatMul add sub mm matmul".split())
"""Operators and functions that give a sparse tensor of two."""
OF_EITHER = frozenset("Mult Div mul multiply div".split())
"""Those that give one if one of the two is sparse."""


def makes_sparse(operation: str) -> bool:
    """Whether an operation makes a sparse tensor of what is given it."""
    last = operation.rpartition(".")[2]
    return last.startswith("to_sparse") or (
        (operation.startswith("torch.sparse_") and last.endswith("_tensor"))
        or operation == "torch.sparse.spdiags"
    )


MOST = 2
"""Of more dimensions nothing is kept."""
REDUCING = frozenset(
    "all amax amin any argmax argmin count_nonzero max mean median min nanmean nansum prod std sum var".split()
)
"""Operations that leave no dimension, or all but one."""
SAME = frozenset(
    "abs argsort bool ceil clamp clip clone contiguous cpu cuda cummax cummin cumprod cumsum detach double exp "
    "expm1 fill_ flip float floor half int log log1p log2 log_softmax long neg relu round sigmoid sign softmax sort sqrt "
    "square tanh to topk tril triu trunc type zeros_like ones_like empty_like full_like rand_like randn_like".split()
)
"""Operations that keep the dimensions of their first operand, in all that they give."""
ROWS = frozenset(
    "arange bartlett_window bincount blackman_window hamming_window hann_window linspace logspace nonzero_static "
    "randperm range ravel".split()
)
"""Operations that give a row."""
OF_SIZES = frozenset("empty new_empty new_ones new_zeros ones rand randn reshape resize view zeros".split())
"""Operations that are given the sizes of what they give."""
OF_ONE_ROW = frozenset("full new_full randint".split())
"""Those that are given them in one row, beside other numbers."""
OPERATORS = frozenset(
    "Add Sub Mult Div FloorDiv Mod Pow BitAnd BitOr BitXor add sub mul div maximum minimum remainder fmod "
    "floor_divide logical_and logical_or pow".split()
)
"""What is worked out element by element."""
NO_KEYWORDS: Table[str, Value] = MappingProxyType({})


def laid_out(
    operation: str,
    operands: tuple[Value, ...],
    result: Value | None,
    keywords: Table[str, Value] = NO_KEYWORDS,
) -> Value | None:
    """What an operation gives, with its layout and its number of dimensions; operators by their names in `ast`."""
    if isinstance(result, Sequence) and result.kind == "tuple" and result.items:
        items = tuple(laid_out(operation, operands, item, keywords) or item for item in result.items)
        return result if items == result.items else replace(result, items=items)
    if not isinstance(result, Tensor):
        return result
    sparse, rank = _is_sparse(operation, operands), _rank(operation, operands, keywords)
    rank = rank if rank is not None and 0 <= rank <= MOST else None
    return (
        result
        if (result.sparse, result.rank) == (sparse, rank)
        else replace(result, sparse=sparse, rank=rank)
    )


def _is_sparse(operation: str, operands: tuple[Value, ...]) -> bool:
    last = operation.rpartition(".")[2]
    sparse = [is_sparse(value) for value in operands if tensor_of(value)]
    return makes_sparse(operation) or (
        any(sparse)
        and (
            (last in KEEPING and sparse[0])
            or (last in OF_BOTH and len(sparse) > 1 and all(sparse))
            or last in OF_EITHER
            or operation in ("torch.sparse.softmax", "torch.sparse.log_softmax")
        )
    )


def _rank(operation: str, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """The number of dimensions of what an operation gives."""
    last = operation.rpartition(".")[2]
    first = tensor_of(operands[0]) if operands else None
    if last in OPERATORS:
        return _of_elements(operands)
    if last in REDUCING:
        return _left(first, operands[1:], keywords) if first else None
    if last in SAME:
        return first.rank if first else None
    if last in ROWS or (last == "flatten" and len(operands) == 1 and not keywords):
        return 1
    if last in OF_SIZES and not keywords.keys() - {"dtype", "device", "requires_grad"}:
        return _sized(operands[1:] if first else operands)
    if last in OF_ONE_ROW:
        rows = [v for v in (*operands, keywords.get("size")) if isinstance(v, Sequence)]
        return _sized(rows) if len(rows) == 1 else None
    if last == "tensor" and operands:
        return _of_python(operands[0])
    if last == "cartesian_prod":
        return 2
    if last == "unsqueeze":
        return first.rank + 1 if first and first.rank is not None else None
    return None


def _of_elements(operands: tuple[Value, ...]) -> int | None:
    ranks = [tensor.rank for value in operands if (tensor := tensor_of(value)) is not None]
    if len(operands) > len(ranks) and not all(
        isinstance(v, (Const, Plain)) for value in operands if not tensor_of(value) for v in options(value)
    ):
        return None
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)


def _left(first: Tensor, rest: Row[Value], keywords: Table[str, Value]) -> int | None:
    """What a reduction leaves."""
    where = [*rest[:1], *(keywords[name] for name in ("dim", "axis") if name in keywords)]
    if not where or where == [NONE]:
        return 0 if not keywords.keys() & {"dim", "axis", "keepdim", "other"} or where == [NONE] else None
    kept = rest[1] if len(rest) > 1 else keywords.get("keepdim", keywords.get("keepdims", Const(False)))
    one = (
        isinstance(where[0], Const)
        and isinstance(where[0].value, int)
        and not isinstance(where[0].value, bool)
    )
    return first.rank - 1 if one and kept == Const(False) and first.rank is not None else None


def _sized(sizes: Row[Value]) -> int | None:
    """The number of dimensions that sizes give, one by one or in a row."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        return len(sizes[0].items) if sizes[0].items is not None else None
    whole = all(isinstance(size, Const) or (isinstance(size, Plain) and size.kind == "int") for size in sizes)
    return len(sizes) if sizes and whole else None


def _of_python(value: Value) -> int | None:
    """The number of dimensions of what `torch.tensor` makes of a number, or of a row of them."""
    if isinstance(value, (Const, Plain)):
        return 0 if isinstance(value, Const) or value.kind in ("int", "float", "bool") else None
    if isinstance(value, Sequence) and value.items and all(isinstance(v, Const) for v in value.items):
        return 1
    return None


def indexed(base: Tensor, parts: Row[Value]) -> int | None:
    """The number of dimensions of what an index gives, part by part."""
    rank, rows = base.rank, 0
    if rank is None:
        return None
    for part in parts:
        tensor = part if isinstance(part, Tensor) else None
        if part == NONE:
            rank += 1
        elif tensor is not None and tensor.rank is not None and tensor.dtype == "int" and not rows:
            rank, rows = rank - 1 + tensor.rank, 1
        elif (isinstance(part, Plain) and part.kind == "int") or (
            isinstance(part, Const) and type(part.value) is int
        ):
            rank -= 1
        elif part not in (Plain("slice"), Const(...)):
            return None
    return rank if 0 <= rank <= MOST else None
