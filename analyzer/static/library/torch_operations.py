"""Results of torch operations, read from the tables that were derived from a version of torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Literal, TypeAlias

from tcready.static.domain.values import (
    FLOATING,
    NONE,
    UNKNOWN,
    Choice,
    Class,
    Const,
    DType,
    External,
    ExternalInstance,
    Function,
    Instance,
    Plain,
    Sequence,
    Tensor,
    Unknown,
    Value,
    holds_tensor,
    is_answer,
    join,
    likely,
    members_of,
    number_kind,
    promote_dtypes,
    tensor_of,
    tensors_in,
)
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.torch_tables import Argument, ContextEntry, Member, ResultEntry, Tables
from tcready.static.library.torch_versions import Version

LETTERS = {"bool": "b", "int": "i", "float": "f", "str": "s", "dtype": "d", "device": "v", "Size": "I"}
"""The names of Python's types in the tables."""
OF_SIZES = frozenset({"Size", "int"})

TAKEN_FOR_CONSTANT = ".assume_constant_result"
"""The end of the names of the decorator of what Dynamo calls while it traces."""
FOLLOWED_BY_NOBODY = ("functools.singledispatch", "triton.jit")
"""Decorators that the tables do not cover: the target of a dispatch is not followed (a rule reports the call), and a
Triton kernel is no Python function."""

ALSO_WHILE_TRACING: dict[str, bool | None] = {
    "torch._get_tracing_state": None,
    "torch._C._get_tracing_state": None,
    "torch._dynamo.is_compiling": True,
    "torch.overrides.is_tensor_method_or_property": False,
}
"""Names that the tables do not have (measured on torch 2.13)."""
OF_PYTHON = frozenset("bool complex dict float frozenset int list object set str tuple type".split())
SKIPPED = "GB0007"
"""The break of a call of a function that Dynamo skips."""
OF_NUMPY = "GB0294"
"""The break of a numpy function that torch has no counterpart for."""
CONTEXT_DECORATOR = "contextlib.ContextDecorator"
"""The base that makes an object a decorator: calling the decorated function enters the object itself."""
ENTERED_BEFORE = "GB0142"
"""The break of `with` over an object that was made before (measured on torch 2.11 and 2.13)."""
GIVES_NO_TENSOR = "GB0208"
"""The break of a function that Dynamo would put into the graph, if its result is no tensor."""
OF_TWO = MappingProxyType({"mask": 2})
"""Arguments with values that a module of torch.nn reads at this rank: a mask for each head, of one more dimension, is
compared with none (measured on torch 2.13)."""
OF_RECURRENT = frozenset({"GB0014", "GB0148"})
"""The breaks of a call of a recurrent module: until torch 2.14, and since."""
OF_WHAT_IT_IS = frozenset({SKIPPED, "GB0008", "GB0046", "GB0377", GIVES_NO_TENSOR})
"""Breaks that a function of torch gives for what it is: skipped, or one that gives no tensor."""
TAKE_A_FUNCTION = MappingProxyType({"functools.lru_cache": "GB0156", "torch.compile": ""})
"""The breaks of calls that take a function, as none was passed for the tables (measured on torch 2.13)."""
DONE_BY = MappingProxyType({"textwrap": "re.sub"})
"""Modules with functions that delegate to another's, except for the arguments they were tried with: torch 2.11 breaks in
`textwrap.dedent("  a")`, not in `dedent("a")`."""
OF_DEVICES = ("torch.cuda.", "torch.backends.", "torch.accelerator.", "torch.mps.", "torch.xpu.", "torch.cpu.")
"""Device functions: a model calls them behind a test for a device, which the source does not decide."""
OF_ANY_ARGUMENTS = frozenset({("torch.Generator", "inline"), ("torch.nn.Module.state_dict", "method")})
"""Traced by going into it, and tried with arguments that suit it."""
OF_EVERY_MODULE = frozenset({"state_dict", "load_state_dict"})
"""Methods that modules of torch.nn inherit."""
LOADS_STATE = "torch.nn.Module.load_state_dict"
"""It breaks (measured on torch 2.11 to 2.15); the tables have no arguments to try it with."""
SIZED_BY_VALUES = "GB0036"
"""The break of an operation with a result size that depends on values."""
OF_VALUES = frozenset({"GB0033", SIZED_BY_VALUES, "GB0124"})
"""Breaks for values that a tensor holds: where the form that is called needs none, another was tried."""
HANDLED_PACKAGES = frozenset({"numpy", "pandas", "sklearn"})
"""The packages that Dynamo never enters, with functions of which more is known."""
NOT_SKIPPED = ("numpy.", "torch.distributions.", "types.", "typing.")
"""Names that Dynamo's rules skip, without recorded arguments, but that were seen to be traced: numpy functions become
torch's, and other members of these modules have handlers."""
GIVE_WHAT_THEY_TAKE = frozenset(f"torch.nn.{name}" for name in ("Identity", "Dropout", "Flatten", "Unflatten"))
"""Modules that return the data type of their input."""
Reads: TypeAlias = Literal["", "size", "values", "number"]
OF_ITS_ARGUMENT = frozenset({"torch.overrides.is_tensor_like"})
"""Functions with one answer in the tables that depends on the argument: they were tried with a tensor."""
PRIVATE_OF_TENSORS = frozenset(
    "_base _backward_hooks _cdata _coalesced_ _conj _grad _grad_fn _indices _is_view _nnz _typed_storage _values "
    "_version _view_func".split()
)
"""The attributes of tensors with a leading underscore that models use; the tables have the others."""


MAX_CACHED = 10_000
"""Questions of one kind that the tables keep the answers of, from one reading to the next."""
_Query: TypeAlias = "tuple[str, tuple[Value, ...], Mapping[str, Value], tuple[ResultEntry, ...]]"


class Operations:
    """The operations of one version of torch; what they were asked once is kept."""

    def __init__(self, tables: Tables, load: Callable[[Version], Tables], versions: Iterable[Version]) -> None:
        """`load` gives the tables of one of the `versions`: a later one may trace what breaks in this one."""
        self.tables = tables
        self._load = load
        self._later = tuple(version for version in versions if version > tables.version)
        for known in (tables.results, tables.numbers):
            if len(known) > MAX_CACHED:
                known.clear()
        self._last: _Query | None = None
        """The last query: several properties of one call are queried in a row."""
        self._of_tensors: dict[str, bool] = {}
        self._recurrent: dict[str, bool] = {}
        self._names: dict[str, list[str]] = {}

    def results(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[ResultEntry, ...]:
        """Return the possible results of a call according to the tables; none if nothing is known of it."""
        last = self._last
        if last is not None and last[1] is args and last[2] is keywords and last[0] == operation:
            return last[3]
        positional = tuple(map(argument_of, args))
        named = tuple((name, argument_of(value)) for name, value in sorted(keywords.items()))
        question = operation, positional, named
        known = self.tables.results
        found = known.get(question)
        if found is None:
            found = known[question] = self.tables.results_of(operation, positional, dict(named))
        self._last = operation, args, keywords, found
        return found

    def while_tracing(self, name: str) -> Const | None:
        """Return the constant result of a function while Dynamo traces, for any arguments; None if there is none."""
        known = self.tables.data["while_tracing"]
        if name in ALSO_WHILE_TRACING:
            return Const(ALSO_WHILE_TRACING[name])
        return Const(known[name]) if name in known and name not in OF_ITS_ARGUMENT else None

    def is_of_tensors(self, name: str) -> bool:
        """Return whether a tensor has an attribute or a method of that name."""
        if name not in self._of_tensors:
            dotted = f"torch.Tensor.{name}"
            self._of_tensors[name] = (
                name.startswith("__")
                or name in PRIVATE_OF_TENSORS
                or self.tables.call_of(dotted) is not None
                or self.tables.tensor_attribute(name) is not None
                or bool(self.tables.forms_of(dotted))
            )
        return self._of_tensors[name]

    def is_known(self, name: str) -> bool:
        """Return whether the tables have a dotted name of torch."""
        last = name.rpartition(".")[2]
        if not name.startswith("torch.") or last.startswith("_"):
            return False
        tables = self.tables
        if tables.call_of(name) is not None or tables.module_of(name) is not None or tables.forms_of(name):
            return True
        return bool(self._names_in(name))  # a module of torch

    def named_like(self, module: str, pattern: re.Pattern[str]) -> list[str]:
        """Return the names of a module of torch that fit: `Conv1d`, `Conv2d` and `Conv3d` for a `Conv` of who knows how
        many dimensions."""
        return [name for name in self._names_in(module) if pattern.fullmatch(name)]

    def _names_in(self, module: str) -> list[str]:
        if module not in self._names:
            self._names[module] = self.tables.names_in(module)
        return self._names[module]

    def is_loss(self, name: str) -> bool:
        """Return whether an operation computes a loss: operations that compare with a target, and only they, take
        `reduction`."""
        return any(
            parameter == "reduction" for form in self.tables.forms_of(name) for _, parameter, _ in form.parameters
        )

    def read_as_numbers(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Value, ...]:
        """Tensors, or arrays of numpy, which are tensors while tracing, that are given where an operation takes numbers,
        so that their values are read."""
        if not any(holds_tensor(as_tensors(value), 1) for value in (*args, *keywords.values())):
            return ()
        positional = tuple(argument_of(as_tensors(value)) for value in args)
        named = tuple((name, argument_of(as_tensors(value))) for name, value in keywords.items())
        question = operation, positional, named
        known = self.tables.numbers
        if question not in known:
            known[question] = self.tables.read_as_numbers(operation, positional, dict(named))
        read = [args[place] if isinstance(place, int) else keywords[place] for place in known[question]]
        members = (members_of(value) if isinstance(value, Sequence) else (value,) for value in read)
        return tuple(value for found in members for value in found)

    def takes_no_bool(self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]) -> bool:
        """Return whether a call fits no form as it is but fits one if each bool is replaced by a tensor."""
        if not any(map(is_answer, (*args, *keywords.values()))) or self.results(operation, args, keywords):
            return False
        tensors = tuple(Tensor("bool") if is_answer(value) else value for value in args)
        named = {name: Tensor("bool") if is_answer(value) else value for name, value in keywords.items()}
        return bool(self.results(operation, tensors, named))

    def reads(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Reads, tuple[str, ...]]:
        """Return why a call needs the values of its tensors, and the arguments that could specify the result instead."""
        if operation.endswith(".__call__"):
            return self._read_by_module(operation.removesuffix(".__call__"), args, keywords)
        results = self.results(operation, args, keywords)
        if not results or not all((r.needs_data or r.dynamic_shape) and r.gb_id for r in results):
            return "", ()
        specified_by = tuple(dict.fromkeys(name for result in results for name in result.unless))
        if any(result.dynamic_shape for result in results):
            return "size", specified_by
        numbers = all(member.kind == "number" for result in results for member in result.members)
        return "number" if numbers else "values", specified_by

    def reads_of_arrays(self, operation: str, args: tuple[Value, ...]) -> Reads:
        """Return the same of a function of numpy over arrays, which Dynamo traces as what torch has under that name. Its
        further arguments are called otherwise there, and what kind of numbers an array has is not known."""
        arrays = sum(arg == K.ARRAY or isinstance(arg, Tensor) for arg in args)
        ways = ((Tensor("int"),) * arrays, (Tensor("float"),) * arrays) if arrays else ()
        found = (self.reads(f"torch.{operation.removeprefix('numpy.')}", tensors, {})[0] for tensors in ways)
        return next((reads for reads in found if reads), "")

    def _read_by_module(
        self, name: str, args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> tuple[Reads, tuple[str, ...]]:
        """Return the same of a call of a module of torch.nn: by what it is, or by one of its optional arguments."""
        module = self.tables.module_of(K.public_name(name))
        if module is not None and module.evaluation == module.training and module.evaluation in OF_VALUES:
            return "size" if module.evaluation == SIZED_BY_VALUES else "values", ()
        for argument in self.tables.arguments_of(K.public_name(name)):
            given = args[argument.place] if len(args) > argument.place else keywords.get(argument.name, NONE)
            applies = argument.gb_id in OF_VALUES and likely(given) != NONE and not isinstance(given, Unknown)
            tensor, rank = tensor_of(likely(given)), OF_TWO.get(argument.name)
            if rank is not None and tensor is not None and tensor.rank not in (None, rank):
                continue
            if applies and not any(flag in keywords for flag in argument.spared_by):
                return "values", argument.spared_by
        return "", ()

    def break_of(self, name: str, args: tuple[Value, ...], keywords: Mapping[str, Value]) -> str:
        """Return the id of the break of a call of a dotted name; empty if none is known, or if values decide."""
        if name == f"{CONTEXT_DECORATOR}()":
            return ENTERED_BEFORE
        if name.endswith("()"):
            known = self.tables.decorator_of(K.public_name(name.removesuffix("()")))
            return known.gb_id if known is not None else ""
        if name in TAKE_A_FUNCTION:
            given = isinstance(next(iter(args), UNKNOWN), (Function, External, Class))
            return TAKE_A_FUNCTION[name] if given else ""
        module, _, last = name.rpartition(".")
        if last in ("__call__", "forward") and self.is_recurrent(module):
            return self._module_of(module)
        if last in OF_EVERY_MODULE and K.is_module_class(K.public_name(module)):
            name = f"torch.nn.Module.{last}"
        if name == LOADS_STATE:
            return GIVES_NO_TENSOR
        results = self.results(name, args, keywords) if name.startswith("torch.") else ()
        if not results:
            return self._break_of_any(name)
        if last.endswith("_"):
            return ""  # tried on an argument of the compiled call, which may not be written to as another tensor may
        ids = {"" if r.needs_data or r.dynamic_shape else r.gb_id for r in results}
        return "" if ids & {"", *OF_VALUES} else min(ids)

    def traced_since(self, name: str) -> Version | None:
        """Return the first later torch that traces a call which breaks in this one, if the newest does, too."""
        name = DONE_BY.get(name.partition(".")[0], name)
        call = self.tables.call_of(K.public_name(name))
        if call is None or not call.breaks or _is_method_of_python(name):
            return None  # what they were tried with may not have suited them
        if not self._later or not self._is_traced(name, self._later[-1]):
            return None
        return next(version for version in self._later if self._is_traced(name, version))

    def _is_traced(self, name: str, version: Version) -> bool:
        """Return whether a version of torch was seen to trace a call of a dotted name."""
        call = self._load(version).call_of(K.public_name(name))
        return call is not None and call.breaks is False

    def is_recurrent(self, name: str) -> bool:
        """Return whether Dynamo traces no module of a class of torch.nn, whatever its use."""
        if name not in self._recurrent:
            self._recurrent[name] = self._module_of(name) in OF_RECURRENT
        return self._recurrent[name]

    def _module_of(self, name: str) -> str:
        """Return the break of a call of a module of torch.nn; empty if there is none."""
        module = self.tables.module_of(K.public_name(name))
        return module.evaluation if module is not None else ""

    def module_call(self, name: str, args: tuple[Value, ...]) -> Value:
        """Return the result of calling a module of a class of torch.nn."""
        if name in GIVE_WHAT_THEY_TAKE and args:
            return args[0]
        if name == "torch.nn.MultiheadAttention":  # weights that nobody asks for are None
            return Sequence("tuple", (Tensor("float"), join(Tensor("float"), NONE)), UNKNOWN)
        module = self.tables.module_of(K.public_name(name))
        words = iter(re.findall(r"\[tuple|\]|\w+", module.result)) if module is not None else iter(())
        result: Value = next(_parse_structure(words), Tensor("float"))
        if K.PACKED in args[:1] and isinstance(result, Sequence) and result.items:  # a packed one gives another
            return Sequence("tuple", (K.PACKED, *result.items[1:]), UNKNOWN)
        return result

    def captures_draw(self, name: str) -> bool:
        """Return whether a number drawn by a function of `random` is symbolic, as Dynamo draws it anew in each call."""
        call = self.tables.call_of(name)
        return call is not None and call.breaks is False

    def _break_of_any(self, name: str) -> str:
        """Return the break of a call with any arguments.

        Functions of torch, those of numpy, those that Dynamo has a handler for and methods of Python's types were tried
        with arguments that may not have suited them: of these only what does not hang on arguments counts.
        """
        call = self.tables.call_of(K.public_name(name))
        root, _, _ = name.partition(".")
        function = name.rpartition(".")[2].islower()
        if call is None and root not in HANDLED_PACKAGES and root in self.tables.data["files"]["skipped_third_party"]:
            return SKIPPED
        if call is None or call.breaks is False or _is_method_of_python(name):
            return ""
        if call.breaks is None:
            if name.startswith("numpy.random."):
                return OF_NUMPY
            skipped = call.rule == "skip" and function and not name.startswith(NOT_SKIPPED)
            return SKIPPED if skipped and self.context_of(name) is None else ""
        if root == "torch":
            applies = function and (call.gb_id == GIVES_NO_TENSOR or not name.startswith(OF_DEVICES))
            anyway = call.gb_id in OF_WHAT_IT_IS and (call.rule == "skip" or applies)
            return call.gb_id if anyway or (name, call.rule) in OF_ANY_ARGUMENTS else ""
        if call.rule in ("special", "polyfill"):
            return ""
        if root == "numpy":
            drawn = name.startswith("numpy.random.") and call.gb_id in (SKIPPED, "GB0156")
            applies = function and name.count(".") == 1 and call.gb_id == GIVES_NO_TENSOR
            return call.gb_id if call.gb_id == OF_NUMPY or drawn or applies else ""
        return call.gb_id

    def is_method_of_tensor(self, name: str) -> bool:
        """Return whether a tensor has such a method; there is no list of private ones."""
        return name.startswith("_") or self.is_of_tensors(name)

    def context_of(self, name: str, *, made_before: bool = False) -> ContextEntry | None:
        """Return how Dynamo handles `with` over the result of a dotted name; `made_before`: made ahead of the compiled
        call."""
        known = self.tables.context_of(K.public_name(name))
        if made_before and known is not None and known.made_before:
            return replace(known, gb_id=known.made_before, inside="whole")
        return known

    def decorated(self, name: str, function: Value) -> Value:
        """Return how a call sees a function that an external name decorates."""
        known = self.tables.decorator_of(K.public_name(name))
        if name.endswith(TAKEN_FOR_CONSTANT) and isinstance(function, Function):
            return replace(function, constant=True)
        if name.startswith(FOLLOWED_BY_NOBODY) or (known is not None and known.body in ("opaque", "eager")):
            return External(f"{name}()")
        if known is not None and known.gb_id and isinstance(function, Function):
            return replace(function, breaks=name)
        return function

    @staticmethod
    def decorated_by_object(bases: Iterable[str], function: Function) -> Function:
        """Return how a call sees a function that is decorated by an object of a class derived from `bases`."""
        return replace(function, breaks=CONTEXT_DECORATOR) if CONTEXT_DECORATOR in bases else function

    def manager(self, name: str, args: tuple[Value, ...]) -> Value | None:
        """Return the result of calling a context manager, or a decorator of torch; None if the name is neither."""
        known = self.tables.decorator_of(K.public_name(name)) if name.startswith("torch.") else None
        if known is not None and args and isinstance(args[0], (Function, Instance)):
            return self.decorated(name, args[0])
        if known is not None or self.context_of(name) is not None:
            return ExternalInstance(name)
        return None

    def better(
        self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value], known: Value | None
    ) -> Value | None:
        """Return the result of a call according to the tables, else the otherwise `known` one."""
        if K.has_own_words(operation):
            return known
        result = self.value(operation, args, keywords)
        if result is None and (known is None or isinstance(known, Tensor)):
            result = self._in_any_form(operation, args, keywords)
        if result is None or (isinstance(result, Tensor) and result.dtype is None and isinstance(known, Tensor)):
            return known
        return result

    def value(self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]) -> Value | None:
        """Return the value of a call; None if the tables do not have it."""
        results = self.results(operation, args, keywords)
        if not results:
            return None
        return self._join_results(operation, results, args, keywords)

    def _in_any_form(self, operation: str, args: tuple[Value, ...], keywords: Mapping[str, Value]) -> Value | None:
        """Return the result of a call with arguments that fit no form: the common result of all forms."""
        results = dict.fromkeys(form.result for form in self.tables.forms_of(operation))
        return self._join_results(operation, tuple(results), args, keywords)

    def _join_results(
        self, operation: str, results: tuple[ResultEntry, ...], args: tuple[Value, ...], keywords: Mapping[str, Value]
    ) -> Value | None:
        # a function of torch takes tensors alone; who has such a method may be something else
        sure = not operation.startswith("torch.Tensor.") or all(t.sure for v in args[:1] for t in tensors_in(v))
        values = [_value(result, args, keywords, sure) for result in results]
        known = [value for value in values if value is not None]
        return join(*known) if known and len(known) == len(values) else None


def _is_method_of_python(name: str) -> bool:
    """Return whether a dotted name is a method of one of Python's own types."""
    root, dot, _ = name.partition(".")
    return bool(dot) and root in OF_PYTHON


def _parse_structure(words: Iterator[str]) -> Iterator[Value]:
    """Return the values for the notations `T` and `[tuple T T]`."""
    for word in words:
        if word == "]":
            return
        yield (Sequence("tuple", tuple(_parse_structure(words)), UNKNOWN) if word == "[tuple" else Tensor("float"))


def as_tensors(value: Value) -> Value:
    """Return a value with arrays of numpy, itself or its members, as the tensors that they are while tracing."""
    if isinstance(value, Sequence) and value.items is not None and K.ARRAY in value.items:
        return Sequence(value.kind, tuple(map(as_tensors, value.items)), UNKNOWN)
    if isinstance(value, Sequence) and value.items is None and value.element == K.ARRAY:
        return Sequence(value.kind, None, Tensor())
    return Tensor() if value == K.ARRAY else value


def argument_of(value: Value) -> Argument:
    """Return a value as an argument of the tables."""
    if not isinstance(value, Choice):
        return _argument(value)
    found = {_argument(option) for option in value.options}
    if len(found) == 1:
        return found.pop()
    kinds = {each.kind for each in found}
    return Argument(kinds.pop() if len(kinds) == 1 else "?")


_TENSOR, _NOTHING, _UNKNOWN = Argument("T"), Argument("N"), Argument("?")


def _argument(value: Value) -> Argument:
    if isinstance(value, Tensor):
        return _TENSOR
    if isinstance(value, Const) and value.value is None:
        return _NOTHING
    if isinstance(value, Const):
        return Argument(LETTERS.get(type(value.value).__name__, "?"), value.value)
    if isinstance(value, Plain):
        kind = value.kind or ("int" if value.origin == "shape" else "")
        return Argument(LETTERS.get(kind, "?"))
    if isinstance(value, External) and K.dtype_of(value) and value.name.startswith("torch."):
        return Argument("d")
    if isinstance(value, Sequence):
        members = {argument_of(member).kind for member in members_of(value)}
        if members and members <= {"i", "b"}:
            return Argument("I")
        if members == {"T"}:
            return Argument("L")
        return Argument("S") if members and members <= {"i", "b", "T"} else _UNKNOWN
    return _UNKNOWN


def _value(result: ResultEntry, args: tuple[Value, ...], keywords: Mapping[str, Value], sure: bool) -> Value | None:
    tensors = [tensor for value in (*args, *keywords.values()) for tensor in tensors_in(value)]
    members = [_member(result, member, tensors, keywords, sure) for member in result.members]
    if any(isinstance(member, Unknown) for member in members) or not members:
        return None
    if not result.container:
        return None if result.varies else members[0]
    if result.varies:
        return Sequence("list" if result.container == "list" else "tuple", None, members[0])
    return Sequence("list" if result.container == "list" else "tuple", tuple(members), UNKNOWN)


def _member(
    result: ResultEntry, member: Member, tensors: list[Tensor], keywords: Mapping[str, Value], sure: bool
) -> Value:
    if member.kind == "tensor":
        return Tensor(_dtype(result, member, tensors, keywords), sure)
    if member.kind == "number":
        kind = number_kind(_dtype(result, member, tensors, keywords))
        return Plain(kind, "tensor" if result.needs_data else "config")
    if member.kind == "Size":
        return K.SHAPE
    if member.kind == "None":
        return NONE
    if member.kind in ("dtype", "device", "layout", "str", "bool", "int", "float"):
        return Plain(member.kind)
    return UNKNOWN


def _dtype(result: ResultEntry, member: Member, tensors: list[Tensor], keywords: Mapping[str, Value]) -> DType | None:
    """Return the data type of a result; None if it is not known, or complex."""
    dtype = keywords.get("dtype")
    if result.takes_dtype and dtype is not None and dtype != NONE:
        return K.dtype_of(dtype)
    leading = tensors[result.leading] if result.leading < len(tensors) else None
    made: DType
    if leading is None:
        found = member.dtype(without_tensor=not tensors)
        made = "float32" if not tensors else "floating"
    else:
        types = {tensor.dtype for tensor in tensors}
        one = leading.dtype
        if result.promotes and len(types) > 1:
            one = reduce(promote_dtypes, (tensor.dtype for tensor in tensors))
            if one is None:
                return None
        found = member.dtype(number_kind(one))
        made = one if one in FLOATING else "floating" if one is None else "float32"
    if found == "float":  # of floating numbers it is their type, of others the default one
        return made
    return None if found == "complex" else found
