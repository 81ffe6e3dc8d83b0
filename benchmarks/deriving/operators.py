"""What each operation gives: structure, data type, rank, aliasing, and whether it needs the values of its input.

Forms of an operation come from torch's schemas; results are read off real runs on small tensors of four data types
(torch's own sample inputs, else arguments made from the schema), dependence on data off runs on fake tensors.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import types
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch.utils import _pytree as pytree

from deriving import calls, samples, trying

NAMESPACES = ("torch.", "torch.Tensor.", "torch.nn.functional.", "torch.linalg.", "torch.fft.", "torch.special.")
DTYPES = {"b": torch.bool, "i": torch.int64, "f": torch.float32, "c": torch.complex64}
KINDS = {
    "Tensor": "T",
    "int": "i",
    "SymInt": "i",
    "float": "f",
    "bool": "b",
    "number": "n",
    "Scalar": "n",
    "str": "s",
    "List[int]": "I",
    "List[SymInt]": "I",
    "List[Tensor]": "L",
    "ScalarType": "d",
    "Device": "v",
}
"""Schema types as letters of a form's parameters; anything else is `o`."""


def operations(found: dict[str, Any]) -> dict[str, Any]:
    """The callables among `found` that compute on tensors, by the names models use."""
    kept = {}
    for name, value in found.items():
        prefix, _, last = name.rpartition(".")
        if prefix + "." in NAMESPACES and not inspect.isclass(value) and not last.startswith("_"):
            kept[name] = value
    return kept


def aten_name(name: str) -> str:
    prefix, _, last = name.rpartition(".")
    space = prefix.rpartition(".")[2]
    return f"aten::{space}_{last}" if space in ("linalg", "fft", "special") else f"aten::{last}"


@dataclass(frozen=True)
class Overload:
    """One overload of an operator, its arguments in the order in which a call gives them."""

    overload_name: str
    arguments: tuple[Any, ...]
    returns: tuple[Any, ...]


def schemas(name: str) -> list[Overload]:
    """Overloads that a model can call: none that writes to `out=` or names its dimensions."""
    kept = []
    for schema in torch._C._jit_get_schemas_for_operator(aten_name(name)):
        arguments = list(schema.arguments)
        types = " ".join(str(a.type) for a in arguments)
        out = any(a.kwarg_only and a.alias_info is not None for a in arguments)
        named = "name" in schema.overload_name.lower()
        if name.startswith("torch.Tensor."):  # the tensor comes first, wherever the operator has it
            arguments.sort(key=lambda a: a.name != "self")
            out = out or [(a.name, str(a.type)) for a in arguments[:1]] != [("self", "Tensor")]
        if not out and not named and "Storage" not in types:
            kept.append(Overload(schema.overload_name, tuple(arguments), tuple(schema.returns)))
    return kept


def _self_first(name: str) -> bool:
    """Whether an operator takes first the tensor whose method it is, as a call of the function does."""
    found = torch._C._jit_get_schemas_for_operator(aten_name(name))
    behind = any(a.name == "self" and str(a.type) == "Tensor" for s in found for a in s.arguments[1:])
    return bool(found) and not behind


def letter(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "b"
    if dtype.is_complex:
        return "c"
    return "f" if dtype.is_floating_point else "i"


def structure(value: Any) -> Any:
    """The shape of a result in words: `T`, `n`, a word, or nested lists of these."""
    if isinstance(value, torch.Tensor):
        return "T"
    if isinstance(value, (bool, int, float, complex)):
        return "n"
    if isinstance(value, torch.Size):
        return "Size"
    if isinstance(value, (tuple, list)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return [kind, *map(structure, value)]
    return "None" if value is None else type(value).__name__


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, torch.Size):
        return []
    if isinstance(value, (tuple, list)):
        return [leaf for member in value for leaf in _leaves(member)]
    return [value] if isinstance(value, (torch.Tensor, bool, int, float, complex)) else []


def _first(args: Any) -> torch.Tensor | None:
    return next((leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, torch.Tensor)), None)


def observe(target: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any] | None:
    """What one call gives; None if it is refused."""
    given = _first((args, keywords))
    if given is not None and given.layout != torch.strided:
        return None
    version = given._version if given is not None else 0
    dim = given.dim() if given is not None else 0
    key = letter(given.dtype) if given is not None else "-"
    try:
        with trying.quiet(), torch.no_grad():
            torch.manual_seed(0)
            result = target(*args, **keywords)
    except BaseException:
        return None
    leaves = _leaves(result)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if any(t.layout != torch.strided or t.is_nested for t in tensors):
        return {"in": key, "out": "other", "letters": [], "ranks": []}
    view = inplace = False
    if given is not None and tensors:
        inplace = any(t is given for t in tensors) and given._version > version
        with contextlib.suppress(Exception):
            view = not inplace and any(
                t.untyped_storage().data_ptr() == given.untyped_storage().data_ptr() and t.numel() for t in tensors
            )
    elif given is not None:
        inplace = given._version > version
    asked = next((v for v in (*args, *keywords.values()) if isinstance(v, torch.dtype)), None)
    return {
        "in": key,
        "ins": _letters((args, keywords)),
        "flagged": any(v is True for v in (*args, *keywords.values())),
        "out": structure(result),
        "letters": [
            "?" if asked is not None else letter(v.dtype) if isinstance(v, torch.Tensor) else type(v).__name__[0]
            for v in leaves
        ],
        "ranks": [t.dim() - dim for t in tensors],
        "zero": bool(tensors) and all(t.dim() == 0 for t in tensors),
        "rank": dim,
        "view": view,
        "inplace": inplace,
        "asked": asked is not None and bool(tensors) and all(t.dtype == asked for t in tensors),
    }


def _letters(args: Any) -> str:
    return "".join(letter(t.dtype) for t in pytree.tree_leaves(args) if isinstance(t, torch.Tensor))


def depends(target: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """`d` if the call needs the values of a tensor, `s` if its shapes depend on them, `u` if it has no stand-in."""
    try:
        with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, keywords))
            target(*fake[0], **fake[1])
    except fake_tensor.DataDependentOutputException:
        return "d"
    except fake_tensor.DynamicOutputShapeException:
        return "s"
    except fake_tensor.UnsupportedOperatorException:
        return "u"
    except BaseException:
        return ""
    return ""


PROFILES: tuple[dict[str, Any], ...] = (
    {"shape": (2, 2), "i": 1, "I": [1], "n": 2},
    {"shape": (2, 2), "i": 0, "I": [2, 2], "n": 1},
    {"shape": (4,), "i": 1, "I": [4], "n": 2},
    {"shape": (2, 2, 2), "i": 2, "I": [0, 1], "n": 2},
    {"shape": (1, 2, 4, 4), "i": 2, "I": [2, 2], "n": 2},
    {"shape": (1, 2, 4), "i": 1, "I": [2], "n": 2},
    {"shape": (1, 2, 4, 4, 4), "i": 1, "I": [2, 2, 2], "n": 2},
    {"shape": (2, 2), "i": 1, "I": [1, 1], "n": 2, "second": torch.int64},
    {"shape": (2, 2), "i": 0, "I": [1], "n": 2, "second": torch.bool},
    {"shape": (), "i": 1, "I": [], "n": 2},
    {"shape": (2, 2), "i": 1, "I": [1], "n": 2, "first": torch.bool},
    {"shape": (2, 2), "i": 1, "I": [1], "n": 2, "first": torch.int64},
)


def _tensor(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    made = (torch.arange(count) * 3 % 4).reshape(shape)
    return (made / 4 + 0.125).to(dtype) if dtype.is_floating_point or dtype.is_complex else (made % 2).to(dtype)


def _made(schema: Any, dtype: torch.dtype, profile: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments for what a schema requires."""
    args: list[Any] = []
    keywords: dict[str, Any] = {}
    tensors = 0
    for argument in schema.arguments:
        if argument.has_default_value():
            continue
        kind = KINDS.get(str(argument.type).removeprefix("Optional[").removesuffix("]"), "o")
        kind = KINDS.get(str(argument.type), kind)
        value: Any = None
        if kind == "T":
            value = _tensor(profile["shape"], profile.get("second" if tensors else "first", dtype))
            tensors += 1
        elif kind == "L":
            value = [_tensor(profile["shape"], dtype), _tensor(profile["shape"], dtype)]
        elif argument.name == "dtype":
            value = torch.float64
        elif kind in profile:
            value = profile[kind]
        else:
            value = {"f": 0.5, "b": False, "s": "mean", "d": torch.float32, "v": torch.device("cpu")}.get(kind)
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            args.append(value)
    return tuple(args), keywords


def invocations(
    name: str, value: Any, infos: list[Any], overloads: list[Overload]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Calls of an operation on small tensors of each dtype."""
    last = name.rpartition(".")[2]
    for info in infos:
        for dtype in DTYPES.values():
            for args, keywords in samples.of_operator(info, dtype, 8 if dtype == torch.float32 else 3):
                if observe(value, *_copied(args, keywords)) is None:  # some samples give the tensors first
                    args = (*args[1:2], *args[:1], *args[2:])
                yield args, keywords
    for schema, dtype in itertools.product(overloads, DTYPES.values()):
        fitting = 0
        for profile in PROFILES:
            args, keywords = _made(schema, dtype, profile)
            if observe(value, *_copied(args, keywords)) is not None:
                fitting += 1
                yield _made(schema, dtype, profile)
                if fitting == 2:
                    break
    if infos or overloads:
        return
    for dtype in DTYPES.values():
        fitting = 0
        for make in calls.candidates(True):
            args = tuple(a.to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in make())
            if name.startswith("torch.Tensor.") and not (args and isinstance(args[0], torch.Tensor)):
                continue
            if not any(isinstance(a, torch.Tensor) for a in pytree.tree_leaves(args)) and dtype != torch.float32:
                continue
            if calls._runs(name) and not last.startswith("set_") and observe(value, *_copied(args, {})) is not None:
                fitting += 1
                yield args, {}
                if fitting == 3:
                    break


def _copied(args: Any, keywords: Any) -> tuple[Any, Any]:
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, keywords))  # type: ignore[no-any-return]


def _overload(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
    with contextlib.suppress(Exception):
        return str(torch._C._jit_resolve_packet(aten_name(name), *args, **keywords))
    return None


def _by_count(overloads: list[Overload], args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """The overload whose tensors stand where a call has tensors, where torch's own choice gives none."""
    for schema in overloads:
        plain = [a for a in schema.arguments if not a.kwarg_only]
        given = {a.name for a in plain[: len(args)]} | set(keywords)
        required = {a.name for a in schema.arguments if not a.has_default_value()}
        tensors = all(
            ("Tensor" in str(a.type)) == any(isinstance(t, torch.Tensor) for t in pytree.tree_leaves(value))
            for a, value in zip(plain, args, strict=False)
            if value is not None
        )
        if len(args) <= len(plain) and required <= given and tensors:
            return schema.overload_name or "default"
    return ""


def signature(value: Any) -> inspect.Signature | None:
    """Of a Python function; of one that a flag parts in two, that of what is usual; else what torch's tests say."""
    from torch._jit_internal import boolean_dispatched

    while value in boolean_dispatched:
        value = boolean_dispatched[value]["if_false"]
    for asked in (value, torch.overrides.get_testing_overrides().get(value)):
        with contextlib.suppress(TypeError, ValueError):
            if asked is not None:
                return inspect.signature(asked)
    return None


def parameters(source: Any, numbers: Collection[str] = ()) -> str:
    """`T self,i dim,b keepdim?`: kind, name, `?` where it may be left out; what must be named stands behind `*`.

    Of a Python function, `numbers` are the parameters whose tensors are read as numbers.
    """
    words: list[str] = []
    starred = False
    if source is None:
        return "**"
    if isinstance(source, inspect.Signature):
        for p in source.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                words.append("**")
                continue
            if p.kind is p.VAR_KEYWORD:
                continue
            if p.kind is p.KEYWORD_ONLY and not starred:
                words.append("*")
                starred = True
            kind = "n " if p.name in numbers else "a "
            words.append(kind + p.name + ("" if p.default is p.empty else "?"))
        return ",".join(words)
    for a in source.arguments:
        if a.kwarg_only and not starred:
            words.append("*")
            starred = True
        text = str(a.type)
        maybe = text.startswith("Optional[")
        inner = text.removeprefix("Optional[").removesuffix("]") if maybe else text
        kind = KINDS.get(inner, "o")
        words.append(kind + ("|" if maybe else "") + " " + a.name + ("?" if a.has_default_value() else ""))
    return ",".join(words)


def merged(seen: list[dict[str, Any]], schema: Any) -> str:
    """The results of one form in one text: structure, letters by input dtype, rank, flags."""
    outs = [s["out"] for s in seen]
    if any(out == "other" for out in outs):
        return "other"
    lists = schema is not None and any("List" in str(r.type) for r in schema.returns)
    varies = any(isinstance(o, list) for o in outs) and (lists or len({str(o) for o in outs}) > 1)
    kinds = {o[0] if isinstance(o, list) else o for o in outs}
    if len(kinds) > 1:
        return "varies"
    out = outs[0]
    if varies:
        members = {str(m) for o in outs for m in o[1:]}
        shape = f"{outs[0][0]}[{members.pop() if len(members) == 1 else '?'}]"
        width = 1
    elif isinstance(out, list):
        shape = f"{out[0]}({' '.join(m if isinstance(m, str) else m[0] for m in out[1:])})"
        width = len(seen[0]["letters"])
    else:
        shape, width = out, len(seen[0]["letters"])
    count = min((len(s["ins"]) for s in seen), default=0)
    rows = {k: [_row(seen, k, position, varies) for position in range(width)] for k in range(max(count, 1))}
    leading = min(rows, key=lambda k: (sum(row.count("?") for row in rows[k]), k))
    letters = rows[leading]
    ranks = []
    for position in range(width if "T" in shape else 0):
        with_rank = [s for s in seen if s["ranks"] and s["in"] != "-"]
        with_rank = [s for s in with_rank if not s["flagged"]] or with_rank
        deltas = {r for s in with_rank for r in (s["ranks"] if varies else s["ranks"][position : position + 1])}
        if with_rank and all(s["zero"] for s in with_rank) and any(s["rank"] for s in with_rank):
            ranks.append("0d")
        else:
            ranks.append(f"{deltas.pop():+d}" if len(deltas) == 1 else "?")
    views = [s.get("view", False) for s in seen]
    flags = "v" if all(views) else "m" if any(views) else ""
    marks = (("w", "inplace"), ("t", "asked"), ("p", "promotes"))
    flags += "".join(flag for flag, mark in marks if any(s.get(mark) for s in seen))
    flags += "".join(sorted({s["depends"] for s in seen if s.get("depends")}))
    unless = sorted({u for s in seen for u in s.get("unless", ())})
    flags += str(leading) if leading else ""
    parts = [shape, "/".join(letters) or "-", "/".join(ranks) or "-", flags or "-"]
    return " ".join(parts) + (f" unless {' '.join(unless)}" if unless else "")


def _row(seen: list[dict[str, Any]], k: int, position: int, varies: bool) -> str:
    """The data type of one output by that of the k-th tensor given: a letter each for bool, int, float, complex."""
    row = ""
    for key in "-bifc":
        rows = [s for s in seen if (s["ins"][k : k + 1] or "-") == key]
        found = {
            letter
            for s in rows
            for letter in (s["letters"] if varies else s["letters"][position : position + 1])
            if letter != "?"
        }
        if key == "-":
            row += f"-{found.pop() if len(found) == 1 else '?'}" if rows else ""
        else:
            row += "." if not found else found.pop() if len(found) == 1 else "?"
    return row


def form(name: str, value: Any, infos: list[Any]) -> list[str]:
    """All forms of an operation, those under a condition first."""
    overloads = [] if isinstance(value, types.FunctionType) else schemas(name)
    by_name = {s.overload_name or "default": s for s in overloads}
    spoken = signature(value)
    spoken_of = {a.name for schema in overloads for a in schema.arguments}
    seen: dict[str, list[dict[str, Any]]] = {}
    given: dict[str, list[tuple[Any, Any]]] = {}
    for args, keywords in invocations(name, value, infos, overloads):
        words = {k: v for k, v in keywords.items() if k in spoken_of}
        key = (_overload(name, args, words) or _by_count(overloads, args, words)) if overloads else "python"
        once = observe(value, *_copied(args, keywords))
        if once is None or not key or (overloads and key not in by_name):
            continue
        if len(seen.get(key, ())) < MOST:
            fresh = len(seen.get(key, ())) < STAND_INS or keywords
            once["depends"] = depends(value, *_copied(args, keywords)) if fresh else seen[key][0]["depends"]
            seen.setdefault(key, []).append(once)
            given.setdefault(key, []).append((args, keywords))
    forms: list[str] = []
    for key, observed in seen.items():
        forms.extend(_forms_of(value, by_name.get(key), spoken, observed, given[key]))
    for key, schema in by_name.items():
        if key not in seen and str(schema.arguments[0].type if schema.arguments else "") in ("Tensor", "List[Tensor]"):
            forms.append(f"{parameters(schema)} -> {_unseen(name, schema)}")
    return forms


MOST = 32
"""Observed calls of one form."""
STAND_INS = 4
"""Of these, how many are repeated on tensors without data."""


def _forms_of(
    value: Any,
    schema: Any,
    spoken: inspect.Signature | None,
    observed: list[dict[str, Any]],
    given: list[tuple[Any, Any]],
) -> list[str]:
    """One form, and before it what it gives under flags that change the structure of the result."""
    flags, options, asks = _options(schema, spoken)
    bare = [(args, {k: v for k, v in keywords.items() if k not in flags}) for args, keywords in given]

    def order(number: int) -> tuple[int, int, int]:
        return (observed[number]["in"] not in "f-", len(bare[number][0]) + len(bare[number][1]), number)

    best = min(range(len(bare)), key=order)
    args, keywords = bare[best]
    base = observe(value, *_copied(args, keywords))
    if asks:
        told = observe(value, *_copied(args, {**keywords, "dtype": torch.float64}))
        observed[0]["asked"] = bool(told and told["asked"])
    observed[0]["promotes"] = _promotes(value, args, keywords)
    depending = [pair for pair, row in zip(bare, observed, strict=True) if row["depends"]]
    if depending:
        depending.sort(key=lambda pair: len(pair[0]) + len(pair[1]))
        observed[0]["unless"] = [o for o in options if _told(value, depending[0], o)]
    parted = []
    for flag in flags:
        once = observe(value, *_copied(args, {**keywords, flag: True}))
        if base is not None and once is not None and once["out"] != base["out"]:
            parted.append(flag)
    numbers = [] if schema or depending else _numbers(value, spoken, args, keywords)
    words = parameters(schema or spoken, numbers)
    forms: list[str] = []
    ranked = {row["rank"]: pair for pair, row in reversed([*zip(bare, observed, strict=True)]) if "rank" in row}
    for count in range(min(len(parted), 3), 0, -1):
        for chosen in itertools.combinations(parted, count):
            on = dict.fromkeys(chosen, True)
            rows = []
            for pair in [*[(_as(args, d), keywords) for d in DTYPES.values()], *ranked.values()]:
                if row := observe(value, *_copied(pair[0], {**pair[1], **on})):
                    row["depends"] = depends(value, *_copied(pair[0], {**pair[1], **on}))
                    row["flagged"] = False
                    rows.append(row)
            if rows:
                result = merged(rows, None) + _broken(value, args, {**keywords, **on})
                forms.append(f"{words} if {' '.join(chosen)} -> {result}")
    kept = [s for s in observed if base is not None and s["out"] == base["out"]] if parted else observed
    pair = depending[0] if depending else (args, keywords)
    return [*forms, f"{words} -> {merged(kept or observed, schema)}{_broken(value, *pair)}"]


def _numbers(value: Any, spoken: inspect.Signature | None, args: Any, keywords: Any) -> list[str]:
    """The parameters of a Python function that may be left out, and that need the value of a tensor given for them."""
    found = []
    for place, p in enumerate(spoken.parameters.values() if spoken else ()):
        if place >= len(args) and (p.default is None or type(p.default) in (int, float)):
            given = {**keywords, p.name: torch.tensor(0.0 if p.default is None else p.default)}
            if depends(value, *_copied(args, given)) == "d" and _broken(value, args, given):
                found.append(p.name)
    return found


def _options(schema: Any, spoken: inspect.Signature | None) -> tuple[list[str], list[str], bool]:
    """Flags that are off by default, what may be left out, and whether `dtype=` may be given."""
    flags: list[str] = []
    options: list[str] = []
    if schema is not None:
        flags = [a.name for a in schema.arguments if str(a.type) == "bool" and a.has_default_value()]
        options = [a.name for a in schema.arguments if a.has_default_value()]
    if spoken is not None:
        given = spoken.parameters.values()
        flags += [p.name for p in given if p.default is False and p.name not in flags]
        options += [p.name for p in given if p.default is not p.empty and p.name not in options]
    return flags, options, "dtype" in options


def _promotes(value: Any, args: Any, keywords: Any) -> bool:
    """Whether whole numbers and a float tensor beside them give floats."""
    count = len(_letters((args, keywords)))
    if count < 2:
        return False
    numbers = iter(range(count))

    def mixed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.int64 if next(numbers) == 0 else torch.float32)

    beside = observe(value, *pytree.tree_map_only(torch.Tensor, mixed, (args, keywords)))
    alone = observe(value, *pytree.tree_map_only(torch.Tensor, lambda t: t.to(torch.int64), (args, keywords)))
    return bool(beside and alone and beside["letters"] == ["f"] and alone["letters"] == ["i"])


def _told(value: Any, pair: tuple[Any, Any], option: str) -> bool:
    """Whether a number given for `option` makes the result independent of data."""
    with contextlib.suppress(Exception), trying.quiet():
        result = value(*_copied(*pair)[0], **pair[1])
        sizes = {n for leaf in _leaves(result) if isinstance(leaf, torch.Tensor) for n in leaf.shape}
        for number in (4, *sorted(sizes)):
            told = {**pair[1], option: number}
            if observe(value, *_copied(pair[0], told)) is not None:
                return bool(depends(value, *_copied(*pair))) and not depends(value, *_copied(pair[0], told))
    return False


def _broken(value: Any, args: Any, keywords: Any) -> str:
    """The id of the break that Dynamo ends the graph with at this call."""
    if isinstance(args, tuple):
        outcome, detail = trying.call(value, *_copied(args, keywords))
        return f" {detail}" if outcome == "break" else ""
    return ""


def _unseen(name: str, schema: Any) -> str:
    """A form that was not called: what its schema and tags say."""
    returned = [str(r.type) for r in schema.returns]
    words = [{"Tensor": "T", "List[Tensor]": "list[T]"}.get(r, "n" if r in KINDS else "other") for r in returned]
    shape = words[0] if len(words) == 1 else f"tuple({' '.join(words)})" if words else "None"
    tags = {tag.name for tag in getattr(_op(name, schema), "tags", ())}
    flags = ("d" if "data_dependent_output" in tags else "") + ("s" if "dynamic_output_shape" in tags else "")
    if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments[:1]):
        flags += "w"
    return f"{shape} ? ? {flags or '-'}"


def _as(args: Any, dtype: torch.dtype) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: t.to(dtype) if t.is_floating_point() and not dtype.is_complex else t, args
    )


def _op(name: str, schema: Any) -> Any:
    packet = getattr(torch.ops.aten, aten_name(name).partition("::")[2], None)
    return getattr(packet, schema.overload_name or "default", None)


def infos_of(found: dict[str, Any]) -> dict[str, list[Any]]:
    """The OpInfos whose samples may fit each name: of that very callable, or of one called the same."""
    by_object: dict[Any, list[Any]] = {}
    for info in samples.operators():
        for target in (info.op, info.method_variant, info.inplace_variant):
            if target is not None:
                by_object.setdefault(id(target), []).append(info)
        by_object.setdefault(info.name, []).append(info)
    listed = {}
    for name, value in found.items():
        short = name.removeprefix("torch.").removeprefix("Tensor.")
        both = (*by_object.get(id(value), ()), *by_object.get(short, ()))
        listed[name] = [*{id(info): info for info in both}.values()]
    return listed


def derive(
    found: dict[str, Any], processes: int, infos: dict[str, list[Any]], only: Collection[str] | None = None
) -> dict[str, list[str]]:
    """name -> forms of every operation.

    What Dynamo ends the graph with is asked of a function and of the method of its name each for itself.
    """
    known = operations(found)
    once: dict[Any, str] = {}
    keys = {name: _key(name, value, known) for name, value in known.items()}
    for name in sorted(known, key=lambda n: (n.startswith("torch.Tensor."), n)):
        once.setdefault(keys[name], name)
    wanted = [name for name in known if only is None or name in only]
    canonical = sorted({once[keys[name]] for name in wanted})
    results = trying.each(canonical, lambda name: form(name, known[name], infos[name]), processes, "operators")
    table = {name: results[once[keys[name]]] for name in wanted}
    breaking = [
        name
        for name, forms in table.items()
        if name not in canonical and isinstance(forms, list) and any(" GB" in form for form in forms)
    ]
    table |= trying.each(breaking, lambda name: form(name, known[name], infos[name]), processes, "methods")
    return {name: forms for name, forms in table.items() if isinstance(forms, list) and forms}


def _key(name: str, value: Any, wanted: dict[str, Any]) -> Any:
    """What names share if they are one operation: the object, or the operator behind a function and its method."""
    if name.startswith("torch.Tensor."):
        function = wanted.get("torch." + name.rpartition(".")[2])
        if isinstance(function, types.BuiltinFunctionType) and isinstance(value, types.MethodDescriptorType):
            if _self_first(name):
                return id(function)
    return id(value)
