"""The layout and the number of dimensions of an operation's result, and whether Dynamo keeps its value: by its name, as
no table has them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from collections.abc import Mapping as Table
from collections.abc import Sequence as Row
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from tcready.static.domain.values import (
    NONE,
    Const,
    Layout,
    Plain,
    Sequence,
    Tensor,
    Value,
    is_sparse,
    likely,
    members_of,
    options,
    tensor_of,
)

KEEPING = frozenset(
    "abs bfloat16 ceil clone coalesce contiguous copy cpu cuda detach detach_ double expm1 float floor half int log1p "
    "long mT neg negative pow relu requires_grad_ round sign sin sqrt square t tanh to transpose trunc T type "
    "zero_".split()
)
"""Methods and functions that give a sparse tensor of a sparse one."""
OF_BOTH = frozenset("Add Sub MatMult add sub mm matmul".split())
"""Operators and functions that give a sparse tensor of two."""
OF_EITHER = frozenset("Mult Div mul multiply div".split())
"""Those that give one if one of the two is sparse."""


def makes_sparse(operation: str) -> bool:
    """Return whether an operation makes a sparse tensor of its input."""
    last = operation.rpartition(".")[2]
    return last.startswith("to_sparse") or (
        (operation.startswith("torch.sparse_") and last.endswith("_tensor")) or operation == "torch.sparse.spdiags"
    )


MOST = 5
"""The largest number of dimensions that is recorded."""
REDUCING = frozenset(
    "all amax amin any argmax argmin count_nonzero logsumexp max mean median min nanmean nansum prod std sum var".split()
)
"""Operations that leave no dimension, or all but one."""
SAME = frozenset(
    "Buffer Parameter abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
    "adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d addcdiv addcmul alpha_dropout angle arccos arccosh arcsin arcsinh "
    "arctan arctanh argsort asin asinh atan atanh avg_pool1d avg_pool2d avg_pool3d batch_norm bernoulli bfloat16 "
    "bitwise_not bool bucketize byte cdist cdouble ceil celu cfloat char chunk clamp clip clone conj conj_physical "
    "contiguous conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cos cosh cpu cuda cummax "
    "cummin cumprod cumsum detach diff digamma double dropout dropout1d dropout2d dropout3d elu empty_like erf erfc "
    "erfinv exp exp2 expm1 feature_alpha_dropout fix flip fliplr flipud float floor frac full_like gelu glu "
    "group_norm gumbel_softmax half hardshrink hardsigmoid hardswish hardtanh i0 index_add index_copy index_fill "
    "index_select instance_norm int interpolate inverse isfinite isin isinf isnan isneginf isposinf isreal "
    "layer_norm leaky_relu lerp lgamma linear local_response_norm log log10 log1p log2 log_softmax logical_not logit "
    "logsigmoid long lp_pool1d lp_pool2d masked_fill max_pool1d max_pool2d max_pool3d mish msort multinomial "
    "nan_to_num narrow neg negative normalize ones_like pad pinverse pixel_shuffle pixel_unshuffle poisson positive "
    "prelu rad2deg rand_like randn_like real reciprocal relu relu6 renorm rms_norm roll rot90 round rrelu rsqrt "
    "scaled_dot_product_attention scatter scatter_add selu sgn short sigmoid sign signbit silu sin sinc sinh softmax "
    "softmin softplus softshrink softsign sort split sqrt square tan tanh tanhshrink tensor_split threshold to topk "
    "transpose tril triu trunc type type_as upsample zeros_like".split()
)
"""Operations that keep the dimensions of their first operand, in all that they give."""
RESHAPING = frozenset("resize_ set_ squeeze_ unsqueeze_".split())
"""In-place operations that change the dimensions of their first operand."""
ROWS = frozenset(
    "arange bartlett_window bincount blackman_window hamming_window hann_window histc linspace logspace masked_select mv "
    "randperm range ravel".split()
)
"""Operations that give a row."""
TABLES = frozenset(
    "addmm argwhere cartesian_prod combinations eye ger mm nonzero_static outer tril_indices triu_indices".split()
)
"""Operations that give rows and columns."""
NUMBERS = frozenset("dot trace vdot".split())
"""Operations that give one number."""
OF_SIZES = frozenset(
    "broadcast_to empty expand new_empty new_ones new_zeros ones permute rand randn repeat reshape resize tile view "
    "zeros".split()
)
"""Operations that are given a number for each dimension of what they give."""
OF_ONE_ROW = frozenset("full new_full randint".split())
"""Those that are given them in one row, beside other numbers."""
OF_MODULES = MappingProxyType(
    {
        **dict.fromkeys(("CosineSimilarity", "PairwiseDistance"), -1),
        "Embedding": 1,
        **dict.fromkeys(
            "AdaptiveLogSoftmaxWithLoss EmbeddingBag Flatten Fold FractionalMaxPool2d FractionalMaxPool3d GRU GRUCell "
            "LSTM LSTMCell MultiheadAttention ParameterDict ParameterList RNN RNNCell Sequential Unflatten Unfold".split()
        ),
    }
)
"""The torch.nn modules that return more or fewer dimensions than their first operand has, and how many; None for unknown
ones. Losses are not listed, and all others return as many."""
OPERATORS = frozenset(
    "Add Sub Mult Div FloorDiv Mod Pow BitAnd BitOr BitXor add sub mul div maximum minimum remainder fmod "
    "floor_divide logical_and logical_or pow eq ne lt le gt ge isclose".split()
)
"""Operators that work element by element."""
LOSSES = frozenset("huber_loss kl_div l1_loss mse_loss smooth_l1_loss".split())
"""Losses of elements, each by itself."""
OF_FUNCTIONS = "torch.nn.functional."
OF_PYTHON = frozenset("tensor as_tensor new_tensor LongTensor IntTensor FloatTensor BoolTensor".split())
"""Operations that make a tensor of numbers of Python."""
DRAWING = frozenset(
    "alpha_dropout bernoulli dropout dropout1d dropout2d dropout3d feature_alpha_dropout gumbel_softmax multinomial "
    "poisson rand_like randn_like rrelu".split()
)
"""Operations of SAME that draw random numbers."""
OF_ONE_ELEMENT = (
    OPERATORS
    | KEEPING
    | REDUCING
    | NUMBERS
    | LOSSES
    | (SAME - DRAWING - {"Buffer", "Parameter", "empty_like", "pad"})
    | frozenset(
        "MatMult atan2 fill flatten hypot logical_xor matmul norm reshape squeeze true_divide unsqueeze vector_norm view "
        "where zero".split()
    )
)
"""Operations that give one element of operands of one element. FakeTensor keeps what is worked out of nothing but such
and has one element itself (`torch._subclasses.fake_tensor.CONSTANT_NUMEL_LIMIT`), unless it is drawn."""
RECAST = frozenset(
    "bool char clone cpu cuda detach double float half int long requires_grad_ short to type type_as".split()
)
"""Operations that leave the elements where they are, or put copies in the same order."""
FLIPPING = frozenset("adjoint movedim moveaxis permute swapaxes swapdims t transpose".split())
PARTING = frozenset("chunk hsplit split tensor_split".split())
"""Operations that give parts along one dimension."""
MADE_BY_SIZES = frozenset("empty full new_empty new_full new_ones new_zeros ones rand randn zeros".split())
NO_KEYWORDS: Table[str, Value] = MappingProxyType({})


def laid_out(
    operation: str, operands: tuple[Value, ...], result: Value | None, keywords: Table[str, Value] = NO_KEYWORDS
) -> Value | None:
    """Return the result of an operation with its layout and its number of dimensions; operators by their names in
    `ast`."""
    if isinstance(result, Sequence) and result.kind == "tuple" and result.items:
        items = tuple(laid_out(operation, operands, item, keywords) or item for item in result.items)
        return result if items == result.items else replace(result, items=items)
    if isinstance(result, Sequence) and result.items is None:
        element = laid_out(operation, operands, result.element, keywords)
        return result if element in (None, result.element) else replace(result, element=element)
    if not isinstance(result, Tensor):
        return result
    sparse, written = _is_sparse(operation, operands), _is_written(operation, operands)
    rank = _rank(operation, operands, keywords, written=written)
    rank = rank if rank is not None and 0 <= rank <= MOST else None
    layout = _layout(operation, operands, keywords)
    if (result.sparse, result.rank, result.from_python_scalar, result.layout) == (sparse, rank, written, layout):
        return result
    return replace(result, sparse=sparse, rank=rank, from_python_scalar=written, layout=layout)


def _layout(operation: str, operands: tuple[Value, ...], keywords: Table[str, Value]) -> Layout:
    """Return the memory layout of the result."""
    last = operation.rpartition(".")[2]
    first = tensor_of(operands[0]) if operands else None
    given = operands[1:] if first is not None else operands
    if last in RECAST:
        return first.layout if first is not None and "memory_format" not in keywords else ""
    if last in FLIPPING or last in PARTING:
        known = first is not None and not first.layout and (first.rank is None or first.rank > 1)
        return "non-contiguous" if known and _parts_rows(last, given, keywords) else ""
    if last == "new" or last.endswith("Tensor"):
        return "empty" if not keywords and (not given or _is_nothing(given[0])) else ""
    if last in MADE_BY_SIZES:
        return "empty" if any(isinstance(v, Const) and v.value == 0 for v in _one_by_one(given)) else ""
    if last in ("tensor", "as_tensor", "new_tensor"):
        return "empty" if given and _is_nothing(given[0]) else ""
    return ""


def _parts_rows(last: str, given: Row[Value], keywords: Table[str, Value]) -> bool:
    """Return whether an operation that reorders dimensions, or splits one, leaves elements of a row apart."""
    if last in PARTING:
        dim = keywords.get("dim", given[1] if len(given) > 1 else None)
        return isinstance(dim, Const) and dim.value not in (0, None)
    if last == "t":
        return True
    places = [v.value for v in _one_by_one(given) if isinstance(v, Const)]
    if last == "permute":
        return places != sorted(set(places), key=str)
    return len(set(places)) != 1  # (0, 0) leaves all as it is


def _one_by_one(given: Row[Value]) -> Row[Value]:
    """Numbers that are given one by one, or in one row."""
    return given[0].items or () if given and isinstance(given[0], Sequence) else given


def _is_nothing(value: Value) -> bool:
    return value == Const(0) or (isinstance(value, Sequence) and value.items == ())


def sliced(base: Tensor, index: ast.expr) -> Layout:
    """Return the memory layout of a part of a tensor: after a slice, any index but a whole dimension leaves elements
    out."""
    if base.layout or base.rank == 1:
        return ""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    if any(isinstance(part, (ast.List, ast.Name, ast.Attribute, ast.Call)) for part in parts):
        return ""  # what a tensor or a list picks is a copy
    parts = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is None)]
    behind = list(itertools.dropwhile(lambda part: not isinstance(part, ast.Slice) and not _is_rest(part), parts))
    stepping = behind and isinstance(behind[0], ast.Slice) and _is_step(behind[0].step)
    apart = any(not _is_whole(part) and not _is_rest(part) for part in behind[1:])
    return "non-contiguous" if stepping or apart else ""


def _is_step(step: ast.expr | None) -> bool:
    return isinstance(step, ast.Constant) and step.value not in (None, 1)


def _is_whole(part: ast.expr) -> bool:
    """`:` or `0:`."""
    if not isinstance(part, ast.Slice) or part.upper is not None or part.step is not None:
        return False
    return part.lower is None or (isinstance(part.lower, ast.Constant) and part.lower.value == 0)


def _is_rest(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def _is_written(operation: str, operands: tuple[Value, ...]) -> bool:
    """Return whether an operation returns one element with a value that Dynamo keeps.

    Measured: a number that is made a tensor, and all results computed element by element from such; not two that are put
    in one row, nor a result that a factory fills.
    """
    last = operation.rpartition(".")[2]
    if last in OF_PYTHON and operands:
        given = _made_of(last, operands)
        return given is not None and _is_one_number(given)
    tensors = [tensor for value in operands if (tensor := tensor_of(value))]
    if not tensors:  # torch.div(2, 3) is a tensor
        return last in OPERATORS and len(operands) > 1 and all(map(_is_one_number, operands[:2]))
    keepdim = last.removesuffix("_") in OF_ONE_ELEMENT and last not in RESHAPING
    if last == "where" and len(tensors) < len(operands):
        return False  # it makes a tensor of a number first
    return keepdim and all(t.from_python_scalar for t in tensors)


def _made_of(last: str, operands: tuple[Value, ...]) -> Value | None:
    """Return the value from which a function of OF_PYTHON makes a tensor; None if it takes the number of elements."""
    receives = last == "new_tensor" and len(operands) > 1 and tensor_of(operands[0]) is not None
    given = operands[1] if receives else operands[0]
    return None if last.endswith("Tensor") and not isinstance(given, Sequence) else given


def _is_one_number(value: Value) -> bool:
    value = likely(value)
    if isinstance(value, Sequence) and value.items is not None:
        return len(value.items) == 1 and _is_one_number(value.items[0])
    if isinstance(value, Const):
        return isinstance(value.value, (bool, int, float))
    if isinstance(value, Plain):
        return value.kind in ("bool", "int", "float")
    return isinstance(value, Tensor) and value.from_python_scalar


def module_result(name: str, operands: tuple[Value, ...], result: Value | None) -> Value | None:
    """Return the result of a torch.nn module call, with its number of dimensions."""
    last = name.rpartition(".")[2].removeprefix("Lazy")
    first = tensor_of(operands[0]) if operands else None
    more = OF_MODULES.get(last, 0)
    if not isinstance(result, Tensor) or first is None or first.rank is None or more is None or last.endswith("Loss"):
        return result
    rank = first.rank + more
    return replace(result, rank=rank) if 0 <= rank <= MOST else result


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


def _rank(operation: str, operands: tuple[Value, ...], keywords: Table[str, Value], *, written: bool) -> int | None:
    """Return the number of dimensions of an operation's result."""
    last = operation.rpartition(".")[2]
    first = tensor_of(operands[0]) if operands else None
    if last in LOSSES:
        return _lost(operands, keywords) if operation.startswith(OF_FUNCTIONS) else None
    if last in OPERATORS:
        return 0 if written else elementwise_rank(operands)
    if last in REDUCING:
        return _left(first, operands[1:], keywords) if first else None
    if last in SAME or (last.endswith("_") and not last.startswith("_") and last not in RESHAPING):
        return first.rank if first else None
    if last in ROWS:
        return 1
    if last == "flatten":
        return _flatten_rank(operands[1:], keywords)
    if last in TABLES:
        return 2
    if last in NUMBERS:
        return 0
    if last in OF_SIZES and not keywords.keys() - {"dtype", "device", "requires_grad"}:
        return _rank_from_sizes(operands[1:] if first else operands)
    if last in OF_ONE_ROW:
        rows = [v for v in (*operands, keywords.get("size")) if isinstance(v, Sequence)]
        return _rank_from_sizes(rows) if len(rows) == 1 else None
    if last in OF_PYTHON and operands:
        given = _made_of(last, operands)
        known = None if given is None else tensor_of(given)
        return None if given is None else known.rank if known else _rank_of_python(given)
    found = OTHERS.get(last)
    return found(first, operands, keywords) if found is not None else None


_Rank: TypeAlias = "Callable[[Tensor | None, tuple[Value, ...], Table[str, Value]], int | None]"


def _one_more(first: Tensor | None, _operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    return first.rank + 1 if first and first.rank is not None else None


def _one_less(first: Tensor | None, _operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    return first.rank - 1 if first and first.rank else None


def _matrix_rank(first: Tensor | None, _operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    return first.rank - 2 if first and first.rank is not None else None


def _squeeze_rank(first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """Whoever names a dimension means one of one element."""
    along = operands[1] if len(operands) > 1 else keywords.get("dim")
    return first.rank - 1 if first and first.rank and isinstance(along, Const) else None


def _flip_rank(first: Tensor | None, _operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    """Return the rank of `t()`, which takes at most rows and columns."""
    return 2 if first and first.rank is None else first.rank if first else None


def _matmul_rank(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    ranks = [tensor.rank for value in operands[:2] if (tensor := tensor_of(value))]
    if len(ranks) != 2 or ranks[0] is None or ranks[1] is None:
        return None
    return max(ranks[0] + ranks[1] - 2, 0) if min(ranks[0], ranks[1]) < 2 else max(ranks[0], ranks[1])


def _cat_rank(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    ranks = {tensor.rank if (tensor := tensor_of(v)) else None for v in _members(operands)}
    return ranks.pop() if len(ranks) == 1 else None


def _stack_rank(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    rank = _cat_rank(None, operands, NO_KEYWORDS)
    return None if rank is None else rank + 1


def _members(operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the tensors that an operation takes as one sequence."""
    return members_of(operands[0]) if operands and isinstance(operands[0], Sequence) else ()


def _repeat_rank(first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    along = operands[2:3] or tuple(keywords[name] for name in ("dim",) if name in keywords)
    return 1 if not along or along[0] == NONE else first.rank if first else None


def _gather_rank(_first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """`gather(input, dim, index)` is as its index."""
    index = tensor_of(operands[2] if len(operands) > 2 else keywords.get("index", NONE))
    return index.rank if index else None


def _like_second(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    other = tensor_of(operands[1]) if len(operands) > 1 else None
    return other.rank if other else None


def _distance_rank(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    """One dimension of two that are compared along it is gone."""
    rank = elementwise_rank(operands[:2])
    return rank - 1 if rank else None


def _lost(operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """Return the rank of a loss: it is one number, unless it is not reduced."""
    if {"reduce", "size_average"} & keywords.keys() or len(operands) > 2:
        return None
    reduction = keywords.get("reduction", Const("mean"))
    if reduction == Const("none"):
        return elementwise_rank(operands)
    return 0 if reduction in (Const("mean"), Const("sum")) else None


def _length(first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """`norm(input, p, dim)`."""
    if not first or len(operands) > 2:
        return None
    return _left(first, (), {name: value for name, value in keywords.items() if name not in ("p", "ord")})


def _unique_rank(first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """`unique` of all elements."""
    return 1 if first and len(operands) == 1 and not keywords.keys() - {"sorted"} else None


def _found(_first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """Return the rank of `nonzero`: a row for each dimension, or one table of all."""
    return 1 if Const(True) in (*operands[1:], keywords.get("as_tuple")) else 2


def _where_rank(_first: Tensor | None, operands: tuple[Value, ...], keywords: Table[str, Value]) -> int | None:
    """`where`: of a condition alone, the places where it holds."""
    return elementwise_rank(operands) if len(operands) == 3 else 1 if not keywords and operands else None


def _einsum_rank(_first: Tensor | None, operands: tuple[Value, ...], _keywords: Table[str, Value]) -> int | None:
    """`einsum("ij,kj->ik", ...)` names the dimensions of what it gives."""
    written = operands[0].value if operands and isinstance(operands[0], Const) else None
    given, arrow, made = written.partition("->") if isinstance(written, str) else ("", "", "")
    return len(made.replace(" ", "")) if arrow and "..." not in given else None


OTHERS: Table[str, _Rank] = MappingProxyType(
    {
        **dict.fromkeys(("det", "logdet", "slogdet"), _matrix_rank),
        "squeeze": _squeeze_rank,
        "unsqueeze": _one_more,
        "embedding": _one_more,
        "one_hot": _one_more,
        "unbind": _one_less,
        "select": _one_less,
        "t": _flip_rank,
        "matmul": _matmul_rank,
        "MatMult": _matmul_rank,
        "cat": _cat_rank,
        "concat": _cat_rank,
        "concatenate": _cat_rank,
        "stack": _stack_rank,
        "repeat_interleave": _repeat_rank,
        "gather": _gather_rank,
        "searchsorted": _like_second,
        "view_as": _like_second,
        "reshape_as": _like_second,
        "expand_as": _like_second,
        "norm": _length,
        "unique": _unique_rank,
        "unique_consecutive": _unique_rank,
        "nonzero": _found,
        "where": _where_rank,
        "einsum": _einsum_rank,
        "cosine_similarity": _distance_rank,
        "pairwise_distance": _distance_rank,
        "diag_embed": _one_more,
        "diagonal": _one_less,
    }
)
"""The number of dimensions of other operations' results, by their names."""


def elementwise_rank(operands: tuple[Value, ...]) -> int | None:
    ranks = [tensor.rank for value in operands if (tensor := tensor_of(value)) is not None]
    if len(operands) > len(ranks) and not all(
        isinstance(v, (Const, Plain)) for value in operands if not tensor_of(value) for v in options(value)
    ):
        return None
    return None if None in ranks else max((rank for rank in ranks if rank is not None), default=None)


def _left(first: Tensor, rest: Row[Value], keywords: Table[str, Value]) -> int | None:
    """Return the number of dimensions after a reduction."""
    where = [*rest[:1], *(keywords[name] for name in ("dim", "axis") if name in keywords)]
    if not where or where == [NONE]:
        return 0 if not keywords.keys() & {"dim", "axis", "keepdim", "other"} or where == [NONE] else None
    keepdim = rest[1] if len(rest) > 1 else keywords.get("keepdim", keywords.get("keepdims", Const(False)))
    gone = where[0].items if isinstance(where[0], Sequence) else (where[0],)
    if first.rank is None or gone is None or not all(isinstance(each, Const) for each in gone):
        return None
    if any(isinstance(each, Const) and type(each.value) is not int for each in gone):
        return None
    return first.rank - len(gone) if keepdim == Const(False) else first.rank if keepdim == Const(True) else None


def _flatten_rank(given: Row[Value], keywords: Table[str, Value]) -> int | None:
    """Return the number of dimensions that `flatten` leaves: those before the first of the ones that it puts together."""
    if len(given) > 1 or keywords.keys() - {"start_dim"}:
        return None
    start = given[0] if given else keywords.get("start_dim", Const(0))
    if not isinstance(start, Const) or type(start.value) is not int or start.value < 0:
        return None
    return start.value + 1


def _rank_from_sizes(sizes: Row[Value]) -> int | None:
    """Return the number of dimensions that sizes give, one by one or in a row."""
    sizes = [likely(size) for size in sizes]
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        return len(sizes[0].items) if sizes[0].items is not None else None
    whole = all(isinstance(size, Const) or (isinstance(size, Plain) and size.kind == "int") for size in sizes)
    return len(sizes) if sizes and whole else None


def _rank_of_python(value: Value) -> int | None:
    """Return the number of dimensions of `torch.tensor` for a number, or for numbers in rows."""
    if isinstance(value, (Const, Plain)):
        return 0 if isinstance(value, Const) or value.kind in ("int", "float", "bool") else None
    if not isinstance(value, Sequence) or value.kind not in ("list", "tuple") or value.items == ():
        return None
    inside = {_rank_of_python(member) for member in members_of(value)}
    rank = inside.pop() if len(inside) == 1 else None
    return None if rank is None else rank + 1


def indexed(base: Tensor, parts: Row[Value]) -> int | None:
    """Return the number of dimensions after an index, part by part."""
    rank = base.rank
    if rank is None:
        return None
    given: list[int] = []
    for part in parts:
        if part == NONE:
            rank += 1
        elif isinstance(part, Tensor):
            if part.rank is None or part.dtype not in ("int", "bool"):
                return None
            rank -= part.rank if part.dtype == "bool" else 1
            given.append(1 if part.dtype == "bool" else part.rank)
        elif isinstance(part, Sequence) and part.kind == "list":
            rank -= 1
            given.append(1)
        elif (isinstance(part, Plain) and part.kind == "int") or (isinstance(part, Const) and type(part.value) is int):
            rank -= 1
        elif part not in (Plain("slice"), Const(...)):
            return None
    rank += max(given, default=0)
    return rank if 0 <= rank <= MOST else None
