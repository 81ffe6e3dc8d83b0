"""Which operations give a tensor of a sparse layout: by their names, for no table tells of layouts."""

from __future__ import annotations

from dataclasses import replace

from tcready.static.engine.values import Tensor, Value, is_sparse, tensor_of

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


def laid_out(operation: str, operands: tuple[Value, ...], result: Value | None) -> Value | None:
    """What an operation gives, its layout with it; operators by their names in `ast`."""
    if not isinstance(result, Tensor):
        return result
    last = operation.rpartition(".")[2]
    sparse = [is_sparse(value) for value in operands if tensor_of(value)]
    made = makes_sparse(operation) or (
        any(sparse)
        and (
            (last in KEEPING and sparse[0])
            or (last in OF_BOTH and len(sparse) > 1 and all(sparse))
            or last in OF_EITHER
            or operation in ("torch.sparse.softmax", "torch.sparse.log_softmax")
        )
    )
    return result if result.sparse == made else replace(result, sparse=made)
