"""Results of names of torch, the standard library and numpy: code without source, as far as the tables derived from torch
do not cover it."""

from __future__ import annotations

import logging
import math
import string
import sys
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import TypeGuard

from tcready.static.domain.const_eval import worked_out
from tcready.static.domain.values import (
    DATA,
    FLOATING,
    FLOATS,
    NONE,
    TAINTED,
    UNKNOWN,
    Choice,
    Const,
    DType,
    External,
    ExternalInstance,
    Mapping,
    Origin,
    Partial,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    comes_of_tensors,
    holds_tensor,
    is_surely_tensor,
    members_of,
    number_from_tensor,
    number_kind,
    options,
    prefer,
    promote_dtypes,
    tensor_of,
)
from tcready.static.library.torch_versions import Version

CUSTOM_OP = "torch.library.custom_op"
"""Makes an operator of a function; one without a visible fake kernel is named below it: `CUSTOM_OP.space.name`."""
SHAPE_INT = Plain("int", "shape", size=True)
SHAPE = Sequence("tuple", None, SHAPE_INT)

PLAIN_READS = frozenset(
    "dtype device layout memory_format Size finfo iinfo itemsize has_names can_cast promote_types get_autocast_dtype "
    "get_device_module".split()
)
"""Attributes and methods that return no tensor and are no operation of the tables."""
NONE_CALLS = frozenset(
    "backward register_hook save set_default_dtype set_default_device set_num_threads set_float32_matmul_precision "
    "set_printoptions set_rng_state manual_seed _assert _assert_async _check _check_is_size _check_value".split()
)
"""The same for functions without a useful result."""
CHECKS = ("_check", "_check_index", "_check_value", "_check_type", "_check_not_implemented", "_check_is_size")
"""Functions of torch that raise, with the message they are given, if a condition does not hold."""
NAMED_FIELDS = frozenset({"values", "indices"})
"""Fields of what some operations give: named tuples that may be taken for tensors here."""
TENSOR_ONLY_METHODS = frozenset(
    "size dim sum mean view reshape permute transpose unsqueeze squeeze expand expand_as contiguous masked_fill "
    "masked_fill_ softmax float half bool long to_dense detach clone matmul bmm flatten repeat_interleave chunk "
    "split argmax argmin topk gather scatter scatter_ index_select type_as new_zeros new_ones new_full any all "
    "abs sqrt rsqrt exp log pow clamp unbind cumsum norm nonzero max min item tolist cpu cuda eq ne lt gt le ge "
    "unflatten roll mul add sub div sigmoid tanh numel ndimension is_floating_point masked_select unique "
    "repeat expand flip std var prod cumprod isnan isinf isfinite nan_to_num amax amin logsumexp log_softmax floor "
    "ceil sign sin cos relu triu tril square reciprocal diagonal narrow movedim new_empty type view_as".split()
)
"""Methods that, of what models pass around, only a tensor (or an array) has."""
OF_NOTHING_BUT_TENSORS = frozenset(
    "unsqueeze unsqueeze_ permute expand expand_as view_as reshape_as contiguous masked_fill masked_fill_ softmax "
    "log_softmax detach bmm matmul repeat_interleave index_select type_as new_zeros new_ones new_full new_tensor "
    "unbind masked_select masked_scatter is_floating_point ndimension scatter_ scatter_add scatter_add_ index_add "
    "index_add_ index_fill movedim narrow clamp_ clamp_min clamp_max sigmoid_ relu_ addmm baddbmm triu tril size dim "
    "numel".split()
)
"""Those of them that neither arrays nor Python's own objects have, nor methods that authors commonly define: a value with
one is a tensor, even if unknown otherwise."""

TENSOR_NAMESPACES = (
    "torch.nn.functional.",
    "torch.linalg.",
    "torch.fft.",
    "torch.special.",
    "torch.nn.init.",
    "torch._C._nn.",
    "torch.nn.utils.rnn.pad_",
    "torch.nn.utils.parameters_to_vector",
    "torch.Tensor.",
    "torch.ops.",
    "torch.masked.",
    "torch.signal.",
    "torch.sparse.",
)
OF_PROCESS = MappingProxyType(
    {
        "torch.distributed.is_available": True,
        "torch.distributed.is_initialized": False,
        "torch.distributed.distributed_c10d.is_initialized": False,
        "torch.distributed.is_torchelastic_launched": False,
        "torch.are_deterministic_algorithms_enabled": False,
        "torch.is_deterministic_algorithms_warn_only_enabled": False,
        "torch.is_autocast_enabled": False,
        "torch.is_autocast_cpu_enabled": False,
        "torch.is_inference_mode_enabled": False,
        "torch.is_anomaly_enabled": False,
    }
)
"""Calls that return the configuration of the process, and their results in an unconfigured process."""

MAY_TURN_GRADIENTS_ON = (".enable_grad", ".set_grad_enabled")
"""The endings of names of torch context managers that may turn gradients on if they are off outside."""
TURN_GRADIENTS_OFF = (".no_grad", ".inference_mode")
"""And of those that turn them off."""

ENTER_THEMSELVES = frozenset({"contextlib.ExitStack", "torch.profiler.profile", "open"})
"""Context managers that `with ... as name` binds to the name."""
NO_CONTEXTS = frozenset(
    "dict list set collections.OrderedDict collections.defaultdict collections.deque threading.local Exception".split()
)
"""Types of Python's: an object of a class that derives from one is no context manager to Dynamo (measured on torch
2.13; those that derive from tuple, int, str, UserDict or ExitStack are)."""


def first(args: tuple[Value, ...], keywords: dict[str, Value], name: str, position: int = 0) -> Value | None:
    """Return the argument given by position or by name, or None."""
    return args[position] if len(args) > position else keywords.get(name)


OLD_CLASSES: tuple[tuple[DType, str], ...] = (
    ("float32", "Float"),
    ("float64", "Double"),
    ("float16", "Half"),
    ("bfloat16", "BFloat16"),
    ("int", "Long Int Short Char Byte"),
    ("bool", "Bool"),
)
OF_TYPED: MappingProxyType[str, DType] = MappingProxyType(
    {f"{word}Tensor": kind for kind, words in OLD_CLASSES for word in words.split()}
)
"""The kinds of numbers of torch's old tensor classes."""


CASTS: MappingProxyType[str, DType] = MappingProxyType(
    {"float": "float32", "half": "float16", "bfloat16": "bfloat16", "double": "float64"}
)
"""The floating types that methods of a tensor cast to."""


def dtype_of(value: Value | None) -> DType | None:
    """Return the type of numbers for a `dtype=` argument."""
    if isinstance(value, Plain) and value.kind == "dtype" and value.types:
        return "float"
    if isinstance(value, External) and value.name.startswith("torch."):
        name = value.name.removeprefix("torch.")
        if name == "bool":
            return "bool"
        if name in CASTS:
            return CASTS[name]
        if name in FLOATS:
            return name
        if name.startswith(("float", "bfloat")):
            return "floating"
        if name.startswith(("int", "uint", "long", "short")):
            return "int"
        return OF_TYPED.get(name.removeprefix("cuda."))
    if isinstance(value, Const) and isinstance(value.value, str):  # `x.type("torch.LongTensor")`
        return OF_TYPED.get(value.value.removeprefix("torch.").removeprefix("cuda."))
    if isinstance(value, External) and value.name in ("bool", "int", "float"):
        return "float64" if value.name == "float" else value.name  # type: ignore[return-value]
    return None


OWN_WORDS = frozenset(
    "item is_nonzero equal allclose tolist size stride numel nelement storage_offset dim ndimension numpy storage "
    "untyped_storage to type new_zeros new_ones new_full new_empty new_tensor tensor as_tensor asarray from_numpy "
    "backward is_tensor broadcast_shapes cond vmap compile load where full float half bfloat16 double type_as "
    "is_floating_point".split()
)
"""Operations with results that record their origin, or that depend on more than torch's schemas: a number read from a
tensor, one from its size, a data type given by position."""


def has_own_words(operation: str) -> bool:
    """Return whether the result of the operation is defined here, not by the tables derived from torch."""
    last = operation.rpartition(".")[2]
    return last in OWN_WORDS or last.startswith("__") or last.endswith("_")


def tensor_method(name: str, receiver: Tensor, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    """Return the result of `receiver.name(*args, **keywords)`."""
    if name in TENSOR_ONLY_METHODS and not receiver.sure:
        receiver = Tensor(receiver.dtype)  # its use says so
    return _operation(name, receiver, args, keywords)


def dimensions_of(tensor: Tensor) -> Value:
    """Return the number of a tensor's dimensions: as far as it is known, that is what it has in a usual call."""
    return Plain("int") if tensor.rank is None else prefer(Const(tensor.rank), Plain("int"))


def _operation(name: str, subject: Tensor, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    """Return the result of a tensor operation, as a method of its first argument, as far as the tables do not cover
    it."""
    sure = subject.sure
    base = name.rstrip("_") if name not in ("__len__",) and not name.startswith("__") else name
    if base in ("item", "is_nonzero") or name in ("__bool__", "__int__", "__float__", "__index__"):
        return Plain(number_kind(subject.dtype), "tensor")
    if base in ("equal", "allclose"):
        return Plain("bool", "tensor")
    if base == "tolist":
        return Sequence("list", None, Plain(number_kind(subject.dtype), "tensor"))
    if base in ("size", "stride"):
        return SHAPE_INT if args or "dim" in keywords else SHAPE
    if base in ("numel", "nelement", "__len__"):
        return SHAPE_INT
    if base == "storage_offset":
        return Plain("int", "shape")
    if base in ("dim", "ndimension"):
        return dimensions_of(subject)
    if base == "type" and not args and not keywords:
        return Plain("str")
    if base in PLAIN_READS:
        return Plain()
    if base == "is_floating_point":
        kind = number_kind(subject.dtype)
        return Plain("bool") if kind is None else prefer(Const(kind == "float"), Plain("bool"))
    if base in CASTS and not args:
        return Tensor(CASTS[base], sure)
    if base == "type_as":
        like = tensor_of(args[0]) if args else None
        return Tensor(like.dtype if like is not None else None, sure)
    if base in NONE_CALLS:
        return NONE
    if base == "numpy":
        return ARRAY
    if base in ("storage", "untyped_storage"):
        return ExternalInstance("torch.UntypedStorage")
    if base in ("to", "type"):
        wanted = [dtype_of(v) for v in (*args, *keywords.values())]
        known = [d for d in wanted if d]
        if known:
            return Tensor(known[0], sure)
        like = tensor_of(args[0]) if args else None
        if like is not None:
            return Tensor(like.dtype, sure)
        open_ones = (v for v in args if isinstance(v, Plain) and v.kind not in ("device", "str", "bool"))
        if subject.dtype in FLOATING and any(map(_may_be_type, (*args, *keywords.values()))):
            return Tensor(None if any(open_ones) else "floating", sure)
        return Tensor(None if any(open_ones) else subject.dtype, sure)
    if base in ("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor"):
        return Tensor(dtype_of(keywords.get("dtype")) or (None if "dtype" in keywords else subject.dtype), sure)
    dtype = dtype_of(keywords.get("dtype"))
    return Tensor(dtype or subject.dtype, sure)


def _may_be_type(value: Value) -> bool:
    """Return whether a value that is passed to a cast may be a data type."""
    return any(isinstance(v, Unknown) or (isinstance(v, Plain) and v.kind in (None, "dtype")) for v in options(value))


GETTER = ExternalInstance("getset_descriptor.__get__")
"""The function that `__torch_function__` of a class receives when an attribute of a tensor is read."""
PARTS: MappingProxyType[str, dict[str, str]] = MappingProxyType(
    {
        "torch.nn.Transformer": {"encoder": "TransformerEncoder", "decoder": "TransformerDecoder"},
        "torch.nn.TransformerEncoder": {"layers": "ModuleList"},
        "torch.nn.TransformerDecoder": {"layers": "ModuleList"},
        "torch.nn.TransformerEncoderLayer": {
            **dict.fromkeys(("linear1", "linear2"), "Linear"),
            **dict.fromkeys(("norm1", "norm2"), "LayerNorm"),
            **dict.fromkeys(("dropout", "dropout1", "dropout2"), "Dropout"),
            "self_attn": "MultiheadAttention",
        },
        "torch.nn.TransformerDecoderLayer": {
            **dict.fromkeys(("linear1", "linear2"), "Linear"),
            **dict.fromkeys(("norm1", "norm2", "norm3"), "LayerNorm"),
            **dict.fromkeys(("dropout", "dropout1", "dropout2", "dropout3"), "Dropout"),
            **dict.fromkeys(("self_attn", "multihead_attn"), "MultiheadAttention"),
        },
        "torch.nn.MultiheadAttention": {"out_proj": "Linear"},
    }
)
"""The modules that a module of torch.nn makes of itself, by the names it keeps them under (held against torch by a
test)."""
UNRESOLVED = ExternalInstance("super().attribute")
"""Dynamo's placeholder for a property, a dict or a class that is read by `super().name`."""
OF_FUNCTION = ExternalInstance("torch.autograd.Function.attribute")
"""Dynamo's placeholder for attributes of a class of `torch.autograd.Function`, except its methods."""
OF_LOGGER = ExternalInstance("logging.Logger.attribute")
"""Dynamo's placeholder for attributes of a logger, except its methods."""
LOGGER_ATTRIBUTES = MappingProxyType(
    {name: Plain(type(value).__name__) for name, value in vars(logging.Logger("")).items()}
)
"""The attributes of a logger, and their types."""
ADDRESS = ExternalInstance("torch.Tensor.data_ptr()")
"""The memory address of a tensor, which Dynamo has no number for."""
PACKED = ExternalInstance("torch.nn.utils.rnn.PackedSequence")
NEW_CLASS = External("type of this call")
"""A class made by `type(name, bases, dict)` while tracing: it may be read, not called."""
ARRAY = ExternalInstance("numpy.ndarray")
OF_TEXT = ExternalInstance("numpy.ndarray of text")
"""An array of text made outside: Dynamo makes a tensor of an array when it is used, and torch has none for these."""
NUMBER = ExternalInstance("numpy.generic")
"""One number that numpy made of known ones: Dynamo keeps its value, until it is used in another operation."""
MADE_BY_INDEX = frozenset({"numpy.r_", "numpy.c_", "numpy.mgrid", "numpy.ogrid"})
"""numpy objects that make arrays of the expression in their brackets; Dynamo traces none of them."""
ARRAY_SIZES = frozenset("ndim size itemsize nbytes".split())
"""Attributes with the size of an array."""
OF_EACH = frozenset("ceil floor round sqrt log log2 exp".split())
"""Functions of numpy that return a number for a number, and an array for an array."""
FOLDING = OF_EACH | frozenset("prod sum max min amax amin mean median std var size".split())

NUMBERS_OF_NUMPY = frozenset(
    "bool_ float16 float32 float64 int8 int16 int32 int64 intp uint8 uint16 uint32 uint64".split()
)
"""Types of numpy that are mostly called with a single number."""


UNIFORM = frozenset({"rand", "random", "random_sample", "ranf", "sample"})
"""Functions of `numpy.random` that draw from 0 to 1."""
BARE_DRAWS = UNIFORM | frozenset({"randn", "standard_normal", "standard_exponential", "standard_cauchy"})
"""Those that take nothing but a size."""
DRAWS_OF_ONE = frozenset(
    "geometric poisson exponential chisquare choice dirichlet zipf rayleigh standard_gamma power pareto weibull "
    "logseries standard_t bytes".split()
)
"""Those that take one argument, and then a size."""
GENERATORS: MappingProxyType[str, Value] = MappingProxyType(
    {
        f"numpy.random.{name}": ExternalInstance(f"numpy.random.{kind}")
        for name, kind in (("default_rng", "Generator"), ("Generator", "Generator"), ("RandomState", "RandomState"))
    }
)
"""Makers of numpy random number generators. Their methods have the names of the functions of `numpy.random`."""
SELDOM = 0.3
"""A branch that a draw from 0 to 1 takes no more often than this is not the default."""


def drawn_below(draw: Value, bound: Value) -> bool | None:
    """Return whether a draw from 0 to 1 is usually below a known number; None if it varies."""
    if not isinstance(draw, Plain) or (draw.kind, draw.origin) != ("float", "random"):
        return None
    if not isinstance(bound, Const) or not isinstance(bound.value, (int, float)):
        return None
    if SELDOM < bound.value < 1 - SELDOM:
        return None
    return bound.value > 0.5


def computed(origin: Origin) -> Origin:
    """Return the origin of a number made of another: a number made of a captured draw is computed after a break."""
    return "random" if origin == "drawn" else origin


def drawn_before(value: Value | None) -> Value | None:
    """Return the result of a call that runs before the compiled call: none of its draws is captured."""
    return Plain(value.kind, "random") if isinstance(value, Plain) and value.origin == "drawn" else value


def _type_of_both(one: Tensor | None, other: Tensor | None) -> DType | None:
    """Return the type that two tensors, or a tensor and something else, are promoted to; a single number does not
    count."""
    found = [each for each in (one, other) if each is not None]
    if len(found) == 2 and found[0].dtype in FLOATING and found[1].dtype in FLOATING:
        found = [each for each in found if not _is_single(each)] or found
    types = [each.dtype for each in found]
    return types[0] if len(types) == 1 else promote_dtypes(*types)


def _is_single(tensor: Tensor) -> bool:
    return tensor.from_python_scalar or tensor.rank == 0


def _either_floats(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether one of two tensors is floating, or may be."""
    return any(each is not None and each.dtype not in ("int", "bool") for each in (one, other))


def binary(op: str, left: Value, right: Value) -> Value:
    """`left op right` for values of which at least one may be a tensor or number; op is ast's class name."""
    lt, rt = tensor_of(left), tensor_of(right)
    if lt or rt:
        sure = (lt is None or lt.sure) and (rt is None or rt.sure)
        unsure = not ((lt and is_surely_tensor(left)) or (rt and is_surely_tensor(right)))
        if op in ("BitAnd", "BitOr", "BitXor"):
            dtype: DType | None = "bool" if (lt and lt.dtype == "bool") or (rt and rt.dtype == "bool") else None
        elif op == "Div":
            dtype = _type_of_both(lt, rt)
            dtype = dtype if dtype in FLOATING else "floating" if _either_floats(lt, rt) else "float32"
        else:
            dtype = _type_of_both(lt, rt)
            both = lt is not None and rt is not None and op in ("Mult", "Add")  # masks are multiplied, too
            dtype = None if dtype == "bool" and not both else dtype
        return Tensor(dtype, sure and not unsure)
    if ARRAY in (*options(left), *options(right)):
        return ARRAY
    for side in (left, right):
        if any(isinstance(v, External) and v.name.startswith("torch.") for v in options(side)):
            return Plain()
    if NUMBER in (left, right):
        return ARRAY
    if op == "Div" and isinstance(left, ExternalInstance) and left.name.startswith("pathlib."):
        return left
    tainted = any(v == TAINTED for side in (left, right) for v in options(side))
    if any(isinstance(v, type(UNKNOWN)) for side in (left, right) for v in options(side)):
        return TAINTED if tainted else UNKNOWN
    if any(map(is_number_of_numpy, (left, right))):
        whole = op != "Div" and _is_whole(left) and _is_whole(right)
        return Plain(WHOLE if whole else FRACTION, _origin((left, right)))
    origins = [v.origin for side in (left, right) for v in options(side) if isinstance(v, Plain)]
    kinds_ = {v.kind for side in (left, right) for v in options(side) if isinstance(v, Plain)}
    if kinds_ == {"int"} and any(isinstance(v, Const) and isinstance(v.value, float) for v in (left, right)):
        kinds_ = {"float"}
    if op == "Div":
        kinds_ = {"float"} if kinds_ and kinds_ <= {"int", "float"} else set()
    for origin in DATA:
        if origin in origins:
            kind = kinds_.pop() if len(kinds_) == 1 else None
            # what is made of a draw from 0 to 1 may be anything
            return Plain(None if (kind, origin) == ("float", "random") else kind, computed(origin))
    return Plain(kinds_.pop() if len(kinds_) == 1 else None)


UNUSUAL = frozenset(
    "torch.float16 torch.half torch.bfloat16 torch.float64 torch.double torch.complex64 torch.complex128 "
    "torch.sparse_coo torch.sparse_csr torch.sparse_csc torch.sparse_bsr torch.sparse_bsc torch.jagged".split()
)
"""Data types and layouts that a model does not get by default."""
USUAL = frozenset(("torch.float32", "torch.float"))
"""The data type that a model computes in by default."""
UNUSUAL_KINDS = frozenset(
    "is_sparse is_sparse_csr is_quantized is_mkldnn is_nested is_meta is_mps is_xla is_xpu is_ipu is_vulkan is_maia "
    "is_mtia".split()
)
"""Attributes of a tensor that are False by default."""


def is_unusual(value: Value) -> bool:
    """One of UNUSUAL, or a collection of such."""
    if isinstance(value, Sequence):
        return bool(value.items) and all(map(is_unusual, value.items or ()))
    return isinstance(value, External) and value.name in UNUSUAL


def version_text(torch: Version) -> Value:
    """Return torch's version in the code; its last number is unknown, and nobody tests that alone."""
    return Const(f"{torch[0]}.{torch[1]}.0")


def external_attribute(name: str, torch: Version) -> Value:
    """Return the value of a dotted external name that is read, not called, in this version of torch."""
    if name in ("torch.inf", "torch.pi", "torch.e", "torch.nan", "math.pi", "math.inf", "math.e", "math.nan"):
        return Plain("float")
    if name in ("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING"):
        return Const(False)
    if name.startswith("string.") and isinstance(value := getattr(string, name[7:], None), str):
        return Const(value)
    if name in ("torch.__version__", "torch.version.__version__"):
        return version_text(torch)
    if name == "sys.version_info":
        return prefer(Sequence("tuple", tuple(map(Const, sys.version_info)), UNKNOWN), Plain())
    if name.startswith("torch.version."):
        return Plain("str")
    return External(public_name(name))


FOLDED_OF_MATH: MappingProxyType[str, Callable[..., object]] = MappingProxyType(
    {
        f"math.{function.__name__}": function
        for function in (
            math.ceil, math.copysign, math.exp, math.fabs, math.floor, math.fmod, math.gcd, math.hypot, math.isclose,
            math.isqrt, math.log, math.log10, math.log1p, math.log2, math.sqrt, math.trunc,
        )
    }
)  # fmt: skip
"""Functions of `math` that give one number quickly, however large their arguments are."""


def external_call(name: str, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value | None:
    """Return the result of calling the external `name`, or None if nothing is known of that name."""
    if name.endswith("()"):  # a function that an opaque decorator hides
        return TAINTED if any(map(comes_of_tensors, args)) else UNKNOWN
    if name.startswith("torch."):
        return _torch_call(name, args, keywords)
    root = name.partition(".")[0]
    if root == "numpy":
        return _numpy_call(name, args, keywords)
    if root == "math":
        known = worked_out(FOLDED_OF_MATH[name], *args) if name in FOLDED_OF_MATH else None
        if known is not None:
            return known
        return Plain("int" if name in ("math.ceil", "math.floor", "math.trunc", "math.isqrt") else None, _origin(args))
    if name.startswith(("os.", "time.", "sys.", "platform.", "re.", "json.", "inspect.", "logging.")):
        if name == "logging.getLogger":
            return ExternalInstance("logging.Logger")
        return Plain()
    if name == "warnings.warn":
        return NONE
    if name in ("copy.copy", "copy.deepcopy", "typing.cast"):
        position = 1 if name == "typing.cast" else 0
        return args[position] if len(args) > position else UNKNOWN
    if name == "collections.OrderedDict" and not args:
        return Mapping((), None)
    if name == "collections.defaultdict":
        return Mapping((), UNKNOWN)
    if root == "tqdm" and args:
        return args[0]
    if root == "einops" and args:
        return Tensor(None)
    if root in (
        "ctypes",
        "threading",
        "contextlib",
        "contextvars",
        "decimal",
        "fractions",
        "hashlib",
        "queue",
        "datetime",
        "pathlib",
        "uuid",
        "weakref",
        "io",
        "types",
        "string",
    ):
        return ExternalInstance(name)
    if root in ("collections", "itertools", "functools", "operator", "enum", "dataclasses", "abc", "copy", "typing"):
        return TAINTED if any(map(comes_of_tensors, args)) else UNKNOWN
    return None


def einops_call(name: str, args: tuple[Value, ...]) -> Value:
    """Return the result of a call of einops or einx: they register their functions with Dynamo, which traces none of
    their parsing; nor is it read here."""
    if name.startswith("einops.layers.") and name.rpartition(".")[2][:1].isupper():
        return ExternalInstance(name)
    last = name.rpartition(".")[2]
    if last == "parse_shape":
        return Mapping((), SHAPE_INT)
    subject = tensor_of(args[0]) if args else None
    made = Tensor(subject.dtype if subject and last in ("rearrange", "repeat") else None)
    if last == "pack":
        return Sequence("tuple", (made, Sequence("list", None, SHAPE)), UNKNOWN)
    return Sequence("list", None, made) if last == "unpack" else made


ARITHMETIC = frozenset("add sub mul div true_divide floor_divide remainder".split())


def _is_number(value: Value) -> bool:
    return isinstance(value, Plain) or (isinstance(value, Const) and isinstance(value.value, (int, float)))


def _origin(args: tuple[Value, ...]) -> Origin:
    for origin in DATA:
        if origin == "tensor" and any(tensor_of(a) or number_from_tensor(a) for a in args):
            return "tensor"
        if any(isinstance(v, Plain) and v.origin == origin for a in args for v in options(a)):
            return computed(origin)
    return "config"


OF_ROWS = frozenset(
    "array asarray prod sum max min amax amin mean median std var cumsum cumprod any all argmax argmin".split()
)
"""Functions of numpy that nobody calls with a single number: unknown arguments are rows."""


KEEPING_WHOLE = frozenset(
    """
    abs absolute add around array asarray bitwise_and ceil clip floor floor_divide gcd int32 int64 maximum minimum
    mod multiply negative power remainder rint round sign subtract
    """.split()
)
"""Functions of numpy that return a whole number for whole numbers."""
WHOLE = "numpy.integer"
"""The kind of a whole number that numpy made while tracing: Dynamo keeps it, and cannot make an `int` of it."""
FRACTION = "numpy.floating"
"""The kind of any other number: its `int` and `float` are known. Neither decides a branch."""
ASKING = frozenset(
    """
    equal greater greater_equal isclose isfinite isinf isnan isneginf isposinf less less_equal logical_and logical_not
    logical_or logical_xor not_equal signbit
    """.split()
)
"""Functions of numpy that return an array of one truth value even for a known number."""


def numpy_built(name: str, made: Value, args: tuple[Value, ...]) -> Value:
    """Return the result of a numpy call that ran before the compiled one: an object from outside."""
    last = name.rpartition(".")[2]
    if last in ("array", "asarray"):
        return OF_TEXT if args and is_text(args[0]) else ARRAY
    if is_number_of_numpy(made):
        made = Plain(None, made.origin)
    if last in OF_EACH and ARRAY in args:
        return ARRAY
    return NUMBER if last in FOLDING | NUMBERS_OF_NUMPY else made


def is_text(value: Value) -> bool:
    """Return whether it is a row of text."""
    members = members_of(value) if isinstance(value, Sequence) else ()
    kinds = (type(v.value).__name__ if isinstance(v, Const) else getattr(v, "kind", None) for v in members)
    return bool(members) and all(kind == "str" for kind in kinds)


OF_NUMBERS = frozenset("arange empty eye full geomspace identity linspace logspace ones tri vander zeros".split())
"""Functions of numpy that make an array of known numbers: its values have to be read."""
OF_SEVERAL = frozenset("array_split broadcast_arrays dsplit histogram hsplit meshgrid nonzero split vsplit".split())
"""Functions of numpy that return a row of arrays."""
OF_PYTHON: MappingProxyType[str, str] = MappingProxyType(
    {
        **dict.fromkeys("allclose array_equal array_equiv iscomplexobj isrealobj isscalar".split(), "bool"),
        "ndim": "int",
        "size": "int",
    }
)
"""Functions of numpy that return a value of Python's own, and its type."""
OF_TYPES = frozenset("can_cast dtype finfo iinfo issubdtype min_scalar_type promote_types result_type".split())
"""Functions of numpy about types: they return no array."""


def _numpy_call(name: str, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
    module, _, last = name.rpartition(".")
    if last in OF_TYPES:
        return Plain("bool" if last in ("can_cast", "issubdtype") else None)
    if module == "numpy" and last in OF_PYTHON:
        return Plain(OF_PYTHON[last], _origin(args))
    if name in GENERATORS:
        return GENERATORS[name]
    if module == "numpy.random":
        before_size = 0 if last in BARE_DRAWS else 1 if last in DRAWS_OF_ONE else 2
        sized = len(args) > before_size and args[before_size] != NONE
        if sized or keywords.get("size", NONE) != NONE:
            return ARRAY
        return Plain("float" if last in UNIFORM else None, "random")
    if last in OF_SEVERAL or (last == "where" and len(args) == 1):
        return Sequence("tuple", None, ARRAY)
    extras = [key for key in keywords if key.startswith("return_")]
    if last == "unique" and extras:
        return Sequence("tuple", (ARRAY,) * (1 + len(extras)), UNKNOWN)
    of_a_row = last in OF_ROWS and isinstance(args[0], Plain) and args[0].kind is None if args else False
    if args and last not in OF_NUMBERS and not of_a_row and all(_is_number(v) for a in args for v in options(a)):
        if last in ASKING:
            return ARRAY
        whole = (
            last in KEEPING_WHOLE and "dtype" not in keywords and all(_is_whole(v) for a in args for v in options(a))
        )
        # one known number stays known while tracing; a row of them does not
        return Plain(WHOLE if whole else FRACTION, _origin(args))
    return ARRAY


def is_number_of_numpy(value: Value) -> TypeGuard[Plain]:
    """Return whether it is a number that numpy made of known ones while tracing."""
    return isinstance(value, Plain) and value.kind in (WHOLE, FRACTION)


def method_of_number(number: Plain, name: str, wanted: Value | None) -> Value:
    """Return the result of a method of a numpy number; `astype` makes it the `wanted` kind."""
    if name in ("item", "tolist"):
        return Plain("int", "tensor") if number.kind == WHOLE else Plain(None, number.origin)
    if name != "astype":
        return number
    given = wanted.value if isinstance(wanted, Const) else wanted.name if isinstance(wanted, External) else ""
    last = given.rpartition(".")[2] if isinstance(given, str) else ""
    if last.startswith(("int", "uint", "long")):
        return Plain(WHOLE, number.origin)
    return Plain(FRACTION, number.origin) if last.startswith(("float", "double")) else ARRAY


def _is_whole(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, int)
    return isinstance(value, Plain) and value.kind in ("int", WHOLE)


def _torch_call(name: str, args: tuple[Value, ...], keywords: dict[str, Value]) -> Value | None:
    last = name.rpartition(".")[2]
    short = name.removeprefix("torch.")
    if name.startswith("torch.nn.") and last[:1].isupper():
        if last in ("Parameter", "Buffer") or name.startswith("torch.nn.parameter."):
            return Tensor(None, leaf=True, buffer=last == "Buffer", parameter=last.endswith("Parameter"))
        return ExternalInstance(public_name(name))
    if last[:1].isupper():
        if last in ("Tensor", "FloatTensor", "LongTensor", "BoolTensor", "IntTensor", "HalfTensor", "DoubleTensor"):
            return Tensor(OF_TYPED.get(last, "float32"))
        return Plain("Size") if last == "Size" else ExternalInstance(name)
    if name.startswith(TENSOR_NAMESPACES):
        subject = tensor_of(args[0]) if args else None
        rest = args[1:]
        if name.startswith("torch.nn.functional.") and last in (
            "multi_head_attention_forward",
            "max_pool2d_with_indices",
        ):
            return Sequence("tuple", (Tensor("float"), Tensor()), UNKNOWN)
        if name.startswith("torch.ops."):
            return Tensor(None, sure=False)
        return _operation(last, Tensor(subject.dtype) if subject else Tensor(), rest, keywords)
    if "." not in short:
        if short == "compile":
            return args[0] if args else UNKNOWN
        if short in PLAIN_READS or short in ("dtype",):
            return Plain()
        if short == "numel":
            return SHAPE_INT
        if short == "broadcast_shapes":
            return SHAPE
        if short in ("equal", "allclose", "is_nonzero"):
            return Plain("bool", "tensor")
        if short in NONE_CALLS:
            return NONE
        if short in ("load", "get_rng_state", "hub", "vmap", "cond", "while_loop"):
            return UNKNOWN
        subject = next((t for a in args if (t := tensor_of(a))), None)
        if short.startswith("_") and subject is None:
            return None  # a check of torch itself
        dtype = dtype_of(keywords.get("dtype"))
        if short in ("tensor", "as_tensor", "asarray", "from_numpy"):
            found = args[0] if args else UNKNOWN
            kind = dtype or (_made_dtype(found) if "dtype" not in keywords else None)
            constant = bool(args) and all(isinstance(v, (Const, Plain)) for v in options(found))
            return Tensor(kind, graph_input=constant)  # a number made a tensor is still known while tracing
        if short in ARITHMETIC and args and all(_is_number(v) for a in args[:2] for v in options(a)):
            whole = all(_python_dtype(a) == "int" for a in args[:2])
            divided = short in ("div", "true_divide") and "rounding_mode" not in keywords
            return Tensor("float32" if divided else "int" if whole else None)
        if short == "full":
            fill = first(args, keywords, "fill_value", 1)
            return Tensor(dtype or (_made_dtype(fill) if fill is not None and "dtype" not in keywords else None))
        if short == "arange":
            plain = "dtype" not in keywords
            whole = all(isinstance(v, (Const, Plain)) and _python_dtype(v) == "int" for v in args)
            return Tensor(dtype or ("int" if plain and whole else None))
        if short == "where" and len(args) == 1 and not keywords:
            return Sequence("tuple", None, Tensor("int"))
        if short == "where" and len(args) == 3:
            both = [tensor_of(a) for a in args[1:]]
            kinds = [t.dtype if t else _python_dtype(a) for t, a in zip(both, args[1:], strict=True)]
            if any(both) and all(kind in FLOATING for kind in kinds):
                return Tensor(_type_of_both(*both))
            return Tensor(kinds[0] if kinds[0] == kinds[1] else None)
        return _operation(short, Tensor(subject.dtype) if subject else Tensor(), args[1:] if args else (), keywords)
    if short.startswith(("cuda.", "backends.", "distributed.", "version.", "mps.", "xpu.", "cpu.", "accelerator.")):
        return Plain()
    if short.startswith("distributions.") and last == "kl_divergence":
        return Tensor("float")
    if short.startswith(("autograd.grad",)):
        return Sequence("tuple", None, Tensor())
    if short in ("nn.utils.rnn.pack_padded_sequence", "nn.utils.rnn.pack_sequence"):
        return PACKED
    if short == "nn.utils.rnn.pad_packed_sequence":
        return Sequence("tuple", (Tensor(), Tensor("int")), UNKNOWN)
    if short.startswith(("utils.cpp_extension.", "utils.data.", "classes.")):
        return ExternalInstance(name)
    if short.startswith(("jit.", "compiler.", "library.", "_dynamo.", "fx.", "profiler.", "random.", "autograd.")):
        return ExternalInstance(name)
    return None


def _python_dtype(value: Value) -> DType | None:
    """Return the dtype `torch.tensor(value)` would have."""
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, Const):
        kind = type(value.value).__name__
    elif isinstance(value, Plain):
        kind = value.kind or ""
    elif isinstance(value, Sequence):
        kinds = {_python_dtype(m) for m in members_of(value)}
        return kinds.pop() if len(kinds) == 1 else None
    else:
        return None
    return kind if kind in ("bool", "int", "float") else None  # type: ignore[return-value]


def _made_dtype(value: Value) -> DType | None:
    """Return the type of a tensor that is made of a value: of numbers of Python it is the default one, whatever the model
    computes in."""
    kind = _python_dtype(value)
    if kind != "float" or isinstance(value, Tensor):
        return kind
    return "floating" if holds_tensor(value) else "float32"


TENSOR_CLASSES: dict[str, DType] = {"LongTensor": "int", "IntTensor": "int", "BoolTensor": "bool"}
DICTIONARIES = frozenset(
    "dict collections.OrderedDict collections.UserDict collections.defaultdict typing.Dict typing.OrderedDict".split()
)
"""The bases of classes of dicts."""
LISTS = frozenset("list collections.UserList typing.List".split())
"""The bases of classes of lists."""

CONTAINERS = frozenset(
    f"torch.nn.{name}" for name in ("ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict")
)
WITH_PARAMETERS = ("Linear", "Bilinear", "Conv", "Embedding", "Norm", "Cell", "Attention", "Transformer", "PReLU")
"""Parts of the names of torch.nn classes that have parameters."""


EXPORTED = (
    ("torch.nn", "torch.nn.modules"),
    ("torch.nn", "torch.nn.parameter"),
    ("torch.autograd", "torch.autograd.function"),
)
"""Packages of torch, and the modules inside from which they export classes under their own name."""
DISTRIBUTION_METHODS = frozenset(
    "sample rsample log_prob prob entropy cdf icdf expand enumerate_support perplexity sample_n".split()
)


PARAMETRISED = "parametrizations"
"""The attribute with the parametrizations of a module's tensors, by their names."""
PROPERTY = External("property")
"""A partial of it is a property: its arguments are the getter and the setter."""


def is_property(value: Value) -> TypeGuard[Partial]:
    """Return whether it is a property: the partial's arguments are its getter and its setter."""
    return isinstance(value, Partial) and value.function == PROPERTY


OF_PROPERTIES = frozenset({"fget", "fset", "fdel", "__set__", "__delete__"})
"""The attributes of a property, all of which Dynamo leaves to Python (measured on torch 2.13)."""
CACHED_PROPERTY = "functools.cached_property"
PROPERTIES = frozenset({"property", "abc.abstractproperty", CACHED_PROPERTY, "torch.distributions.utils.lazy_property"})
"""Classes of descriptors without source that call their function when the attribute is read."""


def distribution_attribute(owner: ExternalInstance, name: str) -> Value:
    """Return the value of an attribute of a torch.distributions object: usually a parameter, or a statistic."""
    if name in ("batch_shape", "event_shape"):
        return SHAPE
    if name == "_validate_args":
        return prefer(Const(False), Plain("bool"))  # Dynamo's default, while it compiles
    if name.endswith(("_dist", "_distribution")):
        return owner
    if name.startswith("_") or name in ("support", "arg_constraints", "has_rsample", "transforms"):
        return UNKNOWN
    return Tensor("float", sure=False)


FIELDS: MappingProxyType[tuple[str, str], Value] = MappingProxyType(
    {
        ("torch.nn.utils.rnn.PackedSequence", "data"): Tensor(),
        ("torch.nn.utils.rnn.PackedSequence", "batch_sizes"): Tensor("int"),
        ("torch.nn.utils.rnn.PackedSequence", "sorted_indices"): Choice((NONE, Tensor("int"))),
        ("torch.nn.utils.rnn.PackedSequence", "unsorted_indices"): Choice((NONE, Tensor("int"))),
    }
)
"""Attributes of objects of torch that are no modules, by class and name."""


def is_left(value: Value) -> bool:
    """Return whether it is Dynamo's placeholder for an attribute that it does not look up."""
    return value is UNRESOLVED or value is OF_FUNCTION or value is OF_LOGGER


@lru_cache(4096)
def public_name(name: str) -> str:
    """`torch.nn.modules.linear.Linear` as the public `torch.nn.Linear`, `torch._C.Generator` as `torch.Generator`,
    `torch._dynamo.disable` as `torch.compiler.disable`."""
    if not name.startswith("torch."):
        return name
    if f"{name}.".startswith("torch.torch."):
        return public_name(name.removeprefix("torch."))  # torch has itself as an attribute
    if name == "torch._dynamo.disable":
        return "torch.compiler.disable"
    module, _, last = name.rpartition(".")
    if last[:1].isupper() and not module.rpartition(".")[2].startswith("_"):
        for package, inside in EXPORTED:
            if module.startswith(inside):
                return f"{package}.{last}"
    return "torch." + name.removeprefix("torch._C.") if name.startswith("torch._C.") else name


@lru_cache(4096)
def is_module_class(name: str) -> bool:
    """Return whether it is a class of torch.nn that is an nn.Module."""
    last = name.rpartition(".")[2]
    named_so = last.removeprefix("_")[:1].isupper()  # `_Loss` and `_ConvNd` are for classes to derive from
    return (
        name.startswith("torch.nn.")
        and named_so
        and last not in ("Parameter", "Buffer")
        and not name.startswith("torch.nn.utils.rnn.")
    )


STACKS: MappingProxyType[str, str] = MappingProxyType(
    {"torch.nn.TransformerEncoder": "encoder_layer", "torch.nn.TransformerDecoder": "decoder_layer"}
)
"""Modules of torch.nn that call copies of a module, one after the other, and the argument with that module."""
CALLED = MappingProxyType({"torch.nn.DataParallel": "module", **dict.fromkeys(STACKS, "layers")})
"""Modules of torch.nn that call their argument, and the attribute that holds it."""


def has_parameters(name: str) -> bool:
    """Return whether a module of the torch.nn class `name` usually has parameters of its own."""
    return any(word in name.rpartition(".")[2] for word in WITH_PARAMETERS)


MODULE_TENSORS = frozenset(
    "weight bias running_mean running_var num_batches_tracked in_proj_weight in_proj_bias weight_ih weight_hh "
    "bias_ih bias_hh".split()
)


def module_method(name: str, module: Value) -> Value | None:
    """Return the result of an inherited method of nn.Module, or None if it has no such method."""
    if name in ("parameters", "buffers"):
        return Sequence("iterator", None, Tensor(leaf=True, parameter=name == "parameters"))
    if name in ("named_parameters", "named_buffers"):
        named = Plain("str"), Tensor(leaf=True, parameter=name == "named_parameters")
        return Sequence("iterator", None, Sequence("tuple", named, UNKNOWN))
    if name in ("get_parameter", "get_buffer"):
        return Tensor(leaf=True, parameter=name == "get_parameter")
    if name == "generate_square_subsequent_mask":  # of nn.Transformer
        return Tensor("float")
    if name in ("children", "modules"):
        return Sequence("iterator", None, UNKNOWN)
    if name in ("named_children", "named_modules"):
        return Sequence("iterator", None, Sequence("tuple", (Plain("str"), UNKNOWN), UNKNOWN))
    if name in ("train", "eval", "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "requires_grad_", "apply"):
        return module
    if name == "state_dict":
        return Mapping((), Tensor(leaf=True))
    if name in ("zero_grad", "load_state_dict", "register_parameter", "extra_repr"):
        return NONE
    if name.startswith("register_") and name.endswith("_hook"):
        return ExternalInstance("torch.utils.hooks.RemovableHandle")
    if name in ("get_submodule", "get_extra_state", "_get_name"):
        return UNKNOWN
    return None
