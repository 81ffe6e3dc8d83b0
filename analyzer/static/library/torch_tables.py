"""How a version of torch handles each name, read from the tables that `benchmarks/torch_tables.py` derived from it.

`load` returns the tables of one version as a value, to be stored by frequent callers. A table is unpacked on first use.
The result for a name that no table has is None: nothing is known of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from tcready.schema.value_class import dataclass
from tcready.static.library.torch_versions import FOLDER, Version, predicted_by, with_tables

DType: TypeAlias = Literal["bool", "int", "float", "complex"]
Fate: TypeAlias = Literal["split", "around", "before", "whole", "raises"]
Body: TypeAlias = Literal["traced", "opaque", "compiled", "eager"]

LETTERS: Mapping[str, DType] = MappingProxyType({"b": "bool", "i": "int", "f": "float", "c": "complex"})
ANYTHING = "a"
"""The kind of a parameter that no schema describes."""
FITS: Mapping[str, str] = MappingProxyType(
    {"T": "T?", "i": "ibTn?", "f": "fibTn?", "b": "bn?", "n": "ifbTn?", "I": "IiTLS?", "L": "L?", "s": "s?", "d": "d?"}
)
"""The kinds of arguments that a parameter takes. A data type is an `int` to torch's schemas: see `_takes`."""
SAME = frozenset({("n", "i"), ("n", "f"), ("n", "b"), ("f", "i"), ("I", "i")})
"""Kinds that a parameter accepts as well as its own."""
Fit: TypeAlias = Literal["exact", "converted", "unknown"]
FIT: tuple[Fit, ...] = ("exact", "converted", "unknown")
"""The arguments have the kinds of a form; one is converted, as a tensor for a number; one is unknown."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: `T` tensor, `i` `f` `b` numbers, `n` a number, `s` text, `I` whole numbers in a sequence,
    `L` tensors in one, `S` whole numbers and tensors in one, `d` a data type, `v` a device, `N` None, `?` unknown.
    `value` if it is a known constant."""

    kind: str
    value: object = None


@dataclass(frozen=True, slots=True)
class CallEntry:
    """How Dynamo handles a call.

    `rule` is the name of Dynamo's own rule: `in_graph`, `inline`, `skip`, `fold`, `polyfill`, `special` (a handler of its
    own), `builtin`, `method` (of an object of the standard library). `breaks` is the result of a trial with the first
    arguments that fit, None if there were none or if it depends on the form of the call: then `gb_id` is set, and
    `results_of` distinguishes the forms.
    """

    rule: str
    breaks: bool | None
    gb_id: str


@dataclass(frozen=True, slots=True)
class Member:
    """One value of a result: `kind` is `tensor`, `number`, or the name of its type.

    `dtypes` has a letter for each data type of the tensor that decides (bool, int, float, complex): `.` is refused, `?`
    varies. `rank` is the change of rank as `+1`, `0d` for always none, `?` if it varies.
    """

    kind: str
    dtypes: str = "????"
    default: str = "?"
    rank: str = "?"

    def dtype(self, given: DType | None = None, *, without_tensor: bool = False) -> DType | None:
        """Return the data type for that of the tensor that decides, None if it is not known.

        Of an unknown one it is what all data types that are taken give, complex ones left out: who has these says so.
        """
        if without_tensor:
            return LETTERS.get(self.default)
        if given is not None:
            return LETTERS.get(self.dtypes["bifc".index(given[0])])
        letters = (set(self.dtypes[:3]) - {"."}) or {self.dtypes[3]}
        return LETTERS.get(letters.pop()) if len(letters) == 1 else None


@dataclass(frozen=True, slots=True)
class ResultEntry:
    """The result of one form of an operation."""

    container: str
    """`tuple`, `list`, or nothing for one value."""
    members: tuple[Member, ...]
    varies: bool
    """The container holds any number of what `members` has once; or nothing is known."""
    view: bool
    """The result shares the first tensor's memory."""
    may_view: bool
    """It does so for some arguments."""
    inplace: bool
    needs_data: bool
    """It needs the values of a tensor, which a fake tensor does not have."""
    dynamic_shape: bool
    """The size of the result depends on values."""
    no_stand_in: bool
    takes_dtype: bool
    """`dtype=` decides the data type of the result."""
    promotes: bool
    """Another tensor's data type counts too."""
    leading: int
    """The index of the tensor argument that decides the data type."""
    unless: tuple[str, ...]
    """Arguments that, given as a number, make it independent of values."""
    gb_id: str
    """The break that Dynamo ends the graph with, or nothing."""


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """How Dynamo handles `with`: the break on entering (none if it is traced), and the effect of a break inside.

    `split`: the function is compiled up to the break and after it. `around`: it is compiled before the block and after
    it. `before`: it is compiled up to the block, and the rest runs eagerly. `whole`: none of it is compiled.
    """

    gb_id: str
    inside: Fate
    made_before: str | None = None
    """The break on entering one that was made before the compiled call; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Decorator:
    """How Dynamo handles a call of a function with this decorator: the break (none if there is none), and the function's
    body.

    `traced`: it goes into the graph. `opaque`: the whole call is one operation of the graph. Behind a break it is
    `compiled` by itself, or runs `eager`.
    """

    gb_id: str
    body: Body


@dataclass(frozen=True, slots=True)
class ModuleEntry:
    """How Dynamo handles a call of a torch.nn module: ids of breaks in evaluation and training, with torch's first sample
    and with any other; the structure of its result."""

    evaluation: str
    training: str
    sometimes: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class ModuleArgument:
    """An optional argument of a module's call that ends the graph: its name, its place after the module, the break, and
    the flags of which each, given as False, spares it."""

    name: str
    place: int
    gb_id: str
    spared_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributeEntry:
    """An attribute that the constructor of a module sets: `passed` names the parameter that it holds. Else it is `value`
    unless one of `unless` is given something else than its default; then it is `otherwise`, or not known (empty).

    Values are literals, or `Parameter` and `Buffer`.
    """

    name: str
    passed: str = ""
    value: str = ""
    unless: tuple[str, ...] = ()
    otherwise: str = ""


@dataclass(frozen=True, slots=True)
class Constructor:
    """How a torch.nn module is constructed: its parameters with their defaults (`?`: none, or no literal), those that
    make it unknown if given, and the attributes."""

    parameters: Mapping[str, str]
    untold: frozenset[str]
    attributes: tuple[AttributeEntry, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of an operation: its parameters, the flags that must be on, and the result."""

    parameters: tuple[tuple[str, str, bool], ...]
    """(kind, name, whether it may be left out)"""
    positional: int
    """The number of parameters that may be given by position."""
    flags: tuple[str, ...]
    result: ResultEntry


@dataclass(frozen=True)
class Tables:
    """The tables of one version of torch."""

    version: Version
    data: Mapping[str, Any]
    claims: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    """The versions under which a claim holds, by rule and form; a claim that holds under all is not listed."""
    results: dict[object, tuple[ResultEntry, ...]] = field(default_factory=dict, compare=False, repr=False)
    """The cache of `results_of`: reading a file again repeats the queries."""
    numbers: dict[object, tuple[int | str, ...]] = field(default_factory=dict, compare=False, repr=False)
    """The same of `read_as_numbers`."""

    def holds(self, rule: str, form: str) -> bool:
        """Return whether a claim of a rule holds under this version."""
        versions = self.claims.get(rule, {}).get(form)
        return versions is None or "{}.{}".format(*self.version) in versions

    def call_of(self, name: str) -> CallEntry | None:
        """Return how Dynamo handles a call of a dotted name."""
        text = self._calls.get(name)
        if text is None:
            return None
        rule, outcome, gb_id = text.split("|")
        return CallEntry(rule, {"break": True, "traced": False}.get(outcome), gb_id)

    def forms_of(self, operation: str) -> tuple[Form, ...]:
        """Return all forms of an operation: `torch.max`, `torch.Tensor.max` (the tensor is its first argument)."""
        if operation not in self._forms:
            text = self._operators.get(operation) or self._operators.get(_same(operation), "")
            self._forms[operation] = tuple(_form(part) for part in text.split("; ")) if text else ()
        return self._forms[operation]

    def results_of(
        self, operation: str, positional: Sequence[Argument], keywords: Mapping[str, Argument]
    ) -> tuple[ResultEntry, ...]:
        """Return the possible results of a call: those of the forms that its arguments fit, the most likely first.

        More than one if an unknown argument decides, none if nothing is known of such a call.
        """
        forms = self.forms_of(operation)
        keywords = _switched_on(forms, keywords)
        fitting = [(_fits(form, positional, keywords), _select_result(form, positional, keywords)) for form in forms]
        exact = next((result for fit, result in fitting if fit == "exact"), None)
        if exact is not None:
            return (exact,)
        possible = [result for fit, result in fitting if fit == "unknown"]
        converted = [result for fit, result in fitting if fit == "converted"]
        return tuple(dict.fromkeys([*possible, *(converted if possible else converted[:1])]))

    def read_as_numbers(
        self, operation: str, positional: Sequence[Argument], keywords: Mapping[str, Argument]
    ) -> tuple[int | str, ...]:
        """Tensors, and sequences with tensors, that a call gives where the operation takes numbers, by position or name.

        None if some form takes the call as it is; where an unknown argument decides which form it is, what all read.
        """
        forms = self.forms_of(operation)
        if all(kind == ANYTHING for form in forms for kind, _, _ in form.parameters):
            # written in Python over that of torch of the same name, which has the kinds of its arguments
            forms = self.forms_of(_same(operation)) or forms
        keywords = _switched_on(forms, keywords)
        fitting = [(_fits(form, positional, keywords), form) for form in forms]
        if any(fit == "exact" for fit, _ in fitting):
            return ()
        if any(fit == "unknown" for fit, _ in fitting):
            read = [_read_by(form, positional, keywords) for fit, form in fitting if fit is not None]
            return tuple(place for place in read[0] if all(place in other for other in read))
        form = next((form for fit, form in fitting if fit == "converted"), None)
        return () if form is None else _read_by(form, positional, keywords)

    def result_of(
        self, operation: str, positional: Sequence[Argument], keywords: Mapping[str, Argument]
    ) -> ResultEntry | None:
        """Return the one result that a call can have; None if there are several or none."""
        found = self.results_of(operation, positional, keywords)
        return found[0] if len(found) == 1 else None

    def needs_data(self, operation: str) -> bool:
        """Return whether some form of it needs the values of a tensor."""
        return any(form.result.needs_data for form in self.forms_of(operation))

    def dynamic_shape(self, operation: str) -> bool:
        """Return whether the result size of some form of it depends on values."""
        return any(form.result.dynamic_shape for form in self.forms_of(operation))

    def is_view(self, operation: str) -> bool:
        """Return whether every form of it returns a view of its first tensor."""
        forms = self.forms_of(operation)
        return bool(forms) and all(form.result.view for form in forms)

    def is_inplace(self, operation: str) -> bool:
        """Return whether it writes to its first tensor."""
        return any(form.result.inplace for form in self.forms_of(operation))

    def context_of(self, name: str) -> ContextEntry | None:
        """Return how Dynamo handles `with name(...)`."""
        text = self._contexts.get(name, "raises")
        if text.startswith("raises"):
            return None
        entering, inside, *before = text.split("|")
        fates: dict[str, Fate] = {"split": "split", "around": "around", "before": "before", "whole": "whole"}
        known = _gb(before[0]) if before and before[0] != "raises" else None
        return ContextEntry(_gb(entering), fates.get(inside, "raises"), known)

    def decorator_of(self, name: str) -> Decorator | None:
        """Return how Dynamo handles a function that `name` decorates."""
        outcome, _, body = self._decorators.get(name, "raises").partition("|")
        if outcome == "raises":
            return None
        if _gb(outcome):
            return Decorator(outcome, "compiled" if body == "compiled" else "eager")
        return Decorator("", "opaque" if outcome == "opaque" else "traced")

    def names_in(self, module: str) -> list[str]:
        """Return the names of a module of torch that the tables have; in alphabetical order."""
        known = {*self._modules, *self._operators, *self._calls}
        under = f"{module}."
        found = (name.removeprefix(under) for name in known if name.startswith(under))
        return sorted(name for name in found if "." not in name)

    def module_of(self, name: str) -> ModuleEntry | None:
        """Return how Dynamo handles calls of a torch.nn module, by the name of its class."""
        text = self._modules.get(name)
        if text is None:
            return None
        evaluation, training, result = text.split("|")
        first = [_gb(part.split()[0]) for part in (evaluation, training)]
        others = {word for part in (evaluation, training) for word in part.split()[1:]}
        return ModuleEntry(first[0], first[1], tuple(sorted(others)), result)

    def arguments_of(self, name: str) -> tuple[ModuleArgument, ...]:
        """Return the optional arguments with which a call of a torch.nn module breaks. None are known of a version
        without such a table: torch 2.11 and 2.14 were not measured."""
        text = self._arguments.get(name)
        return tuple(map(_argument, text.split("|"))) if text else ()

    def constructor_of(self, name: str) -> Constructor | None:
        """Return the attributes that the constructor of a torch.nn module sets. None are known of a version without such
        a table."""
        if name not in self._read:
            text = self._constructors.get(name)
            self._read[name] = _constructor(text.split("|")) if text else None
        return self._read[name]

    def distribution_of(self, name: str, method: str, validated: bool) -> str | None:
        """Return the break of `sample`, `rsample`, `log_prob` or `entropy` of a distribution that is made and used in
        compiled code: its id, nothing if it is traced, None if it has no such method or was not made."""
        text = self._distributions.get(name)
        ways = ("sample", "rsample", "log_prob", "entropy")
        if text is None or method not in ways:
            return None
        outcome = text.split("|")[ways.index(method) + (0 if validated else len(ways))]
        return None if outcome in ("-", "raises") else _gb(outcome)

    def tensor_attribute(self, name: str) -> str | None:
        """Return the type of an attribute of a tensor: `T` a tensor, `Tf` one of floats, or the names of types with
        `|`."""
        text = self._attributes.get(f"torch.Tensor.{name}")
        return text.split()[0] if text else None

    def config(self, name: str) -> object:
        """Return the default of a setting of torch._dynamo.config. Raises KeyError if there is none of that name."""
        return self.data["config"][name]

    def while_tracing(self, name: str) -> object:
        """Return the constant result of a function while Dynamo traces. Raises KeyError for any other function."""
        return self.data["while_tracing"][name]

    def member(self, use: str) -> str:
        """Return the effect of a use of an enum member: a break's id, `raises` or `differs`; empty: as in Python."""
        return str(self.data["members"].get(use, ""))

    def file_of(self, module: str) -> str | None:
        """Return how Dynamo handles calls of Python functions of a module's file: `skip`, `inline`, or None: not
        listed."""
        files = self.data["files"]
        if _under(module, files["force_skipped"]):
            return "skip"
        for key in ("inlined_torch_legacy", "inlined_torch", "inlined_when_called"):
            if _under(module, files[key]):
                return "inline"
        for key in ("skipped_standard", "skipped_third_party", "skipped_torch"):
            if _under(module, files[key]):
                return "skip"
        return None

    @property
    def registry(self) -> Mapping[str, str]:
        """The id of each graph break and the line by which it is known."""
        return MappingProxyType(self.data["registry"])

    @cached_property
    def _forms(self) -> dict[str, tuple[Form, ...]]:
        """Those used so far: parsing their text takes long."""
        return {}

    @cached_property
    def _calls(self) -> Mapping[str, str]:
        return _names(self.data["calls"])

    @cached_property
    def _operators(self) -> Mapping[str, str]:
        return _names(self.data["operators"])

    @cached_property
    def _contexts(self) -> Mapping[str, str]:
        return _names(self.data["contexts"])

    @cached_property
    def _decorators(self) -> Mapping[str, str]:
        return _names(self.data["decorators"])

    @cached_property
    def _modules(self) -> Mapping[str, str]:
        return _names(self.data["modules"])

    @cached_property
    def _arguments(self) -> Mapping[str, str]:
        return _names(self.data.get("arguments", {}))

    @cached_property
    def _constructors(self) -> Mapping[str, str]:
        return _names(self.data.get("constructors", {}))

    @cached_property
    def _read(self) -> dict[str, Constructor | None]:
        """Return the constructors used so far."""
        return {}

    @cached_property
    def _distributions(self) -> Mapping[str, str]:
        return _names(self.data["distributions"])

    @cached_property
    def _attributes(self) -> Mapping[str, str]:
        return _names(self.data["attributes"])


def load(version: Version | None = None, folder: Path = FOLDER) -> Tables:
    """Return the tables of the newest torch that is no newer than `version`; of the newest, or the oldest, if there is
    none."""
    chosen = predicted_by(version, with_tables(folder))
    text = (folder / f"torch-{chosen[0]}.{chosen[1]}.json").read_text("utf-8")
    return Tables(chosen, MappingProxyType(json.loads(text)), claims_by_version(folder))


def claims_by_version(folder: Path = FOLDER) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """Return the versions under which a claim holds, by rule and form; a claim that holds under all is not listed.

    `benchmarks/claims.py` derives them from what each version did with the samples of the rules.
    """
    path = folder / "claims.json"
    return MappingProxyType(json.loads(path.read_text("utf-8"))) if path.exists() else MappingProxyType({})


def unclaimed(folder: Path = FOLDER) -> Mapping[str, str]:
    """Return the graph breaks that no rule predicts, each with the reason."""
    return MappingProxyType(json.loads((folder / "unclaimed.json").read_text("utf-8")))


def _names(groups: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
    """name -> what is said of it, of a table that groups names by that."""
    return {
        f"{prefix}.{last}" if prefix else last: text
        for text, group in groups.items()
        for prefix, lasts in group.items()
        for last in lasts.split(" ")
    }


def _argument(text: str) -> ModuleArgument:
    argument, gb_id, flags = text.split(" ")
    name, _, place = argument.partition("@")
    return ModuleArgument(name, int(place), gb_id, tuple(flags.split(",")) if flags != "-" else ())


def _constructor(words: Sequence[str]) -> Constructor:
    parameters: dict[str, str] = {}
    untold: set[str] = set()
    attributes = []
    for word in words:
        name, _, what = word.partition(" ")
        if word[0] in ">!":
            parameters[name[1:]] = what
            untold |= {name[1:]} if word[0] == "!" else set()
        elif what[0] == "=":
            attributes.append(AttributeEntry(name, passed=what[1:]))
        else:
            value, _, names = what.partition(" unless ")
            names, _, otherwise = names.partition(" else ")
            attributes.append(AttributeEntry(name, "", value, tuple(names.split()), otherwise))
    return Constructor(parameters, frozenset(untold), tuple(attributes))


def _gb(word: str) -> str:
    return word if word.startswith("GB") else ""


def _under(module: str, prefixes: Sequence[str]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def _same(operation: str) -> str:
    """Return the torch function that is the same object as a function of `torch.nn.functional` without a form of its
    own."""
    return operation.replace("torch.nn.functional.", "torch.", 1)


def _form(text: str) -> Form:
    """Return a form from its text, as `T self,i dim,b keepdim? -> tuple(T T) bif./iii. ?/? -`."""
    left, _, right = text.partition(" -> ")
    left, _, flags = left.partition(" if ")
    parameters: list[tuple[str, str, bool]] = []
    positional: int | None = None
    for word in left.split(","):
        if word == "*":
            positional = len(parameters)
        elif word == "**":
            parameters.append(("*", "", True))
        elif word:
            kind, _, name = word.partition(" ")
            parameters.append((kind, name.rstrip("?"), name.endswith("?")))
    count = len(parameters) if positional is None else positional
    return Form(tuple(parameters), count, tuple(flags.split()), _result(right))


def _result(text: str) -> ResultEntry:
    words = re.findall(r"\w*\([^)]*\)|\S+", text)
    gb_id = words.pop() if re.fullmatch(r"GB\d+", words[-1]) else ""
    unless: tuple[str, ...] = ()
    if "unless" in words:
        unless = tuple(words[words.index("unless") + 1 :])
        words = words[: words.index("unless")]
    shape, letters, ranks, flags = (*words, "-", "-", "-")[:4]
    found = re.fullmatch(r"(tuple|list)(?:\[(.*)\]|\((.*)\))", shape)
    container, varies = (found[1], found[2] is not None) if found else ("", shape in ("varies", "other", "?"))
    kinds = [(found[2] if varies else found[3]) or ""] if found else [shape]
    kinds = kinds[0].split() if found and not varies else kinds
    rows = letters.split("/") if letters != "-" else []
    changes = ranks.split("/") if ranks != "-" else []
    members: list[Member] = []
    values = tensors = 0
    for kind in kinds:
        if kind not in ("T", "n"):
            members.append(Member(kind or "?"))
            continue
        row = rows[values] if values < len(rows) else "?"
        default = row[1] if row.startswith("-") else "?"
        row = row[2:] if row.startswith("-") else row
        rank = "?"
        if kind == "T":
            rank = changes[tensors] if tensors < len(changes) else "?"
            tensors += 1
        members.append(Member("tensor" if kind == "T" else "number", row if len(row) == 4 else "????", default, rank))
        values += 1
    leading = re.search(r"\d", flags)
    return ResultEntry(
        container=container,
        members=tuple(members),
        varies=varies,
        view="v" in flags,
        may_view="v" in flags or "m" in flags,
        inplace="w" in flags,
        needs_data="d" in flags,
        dynamic_shape="s" in flags,
        no_stand_in="u" in flags,
        takes_dtype="t" in flags,
        promotes="p" in flags,
        leading=int(leading[0]) if leading else 0,
        unless=unless,
        gb_id=gb_id,
    )


def _switched_on(forms: Iterable[Form], keywords: Mapping[str, Argument]) -> dict[str, Argument]:
    """Keywords without the flags that are given as False: such a call has the form without the flag."""
    flags = {flag for form in forms for flag in form.flags}
    return {name: argument for name, argument in keywords.items() if not (name in flags and argument.value is False)}


def _fits(form: Form, positional: Sequence[Argument], keywords: Mapping[str, Argument]) -> Fit | None:
    """Return how well a call fits this form; None if it does not."""
    fit: Fit = "exact"
    given = dict(keywords)
    if ("*", "", True) in form.parameters:
        return "unknown"
    if len(positional) > form.positional:
        # sizes may be given one by one: x.view(2, 3)
        last = form.parameters[form.positional - 1] if form.positional else ("", "", False)
        if last[0].rstrip("|") != "I":
            return None
        rest = {argument.kind for argument in positional[form.positional - 1 :]}
        sizes = Argument("?" if "?" in rest else "S" if "T" in rest else "I")
        positional = [*positional[: form.positional - 1], sizes]
    for (_, name, _), argument in zip(form.parameters, positional, strict=False):
        given[name] = argument
    for kind, name, optional in form.parameters:
        passed = given.get(name) or given.get({"self": "input", "dim": "axis"}.get(name, name))
        if passed is None:
            if not optional:
                return None
            continue
        taken = _takes(kind, name, passed)
        if taken is None:
            return None
        fit = max(fit, taken, key=FIT.index)
    known = {name for _, name, _ in form.parameters} | {*form.flags} | {"out", "input", "axis", "generator"}
    if set(keywords) - known:
        return None
    for flag in form.flags:
        set_to = given.get(flag)
        if set_to is None or set_to.value is False or set_to.kind == "N":
            return None
        if set_to.value is not True:
            fit = "unknown"
    return fit


def _read_by(form: Form, positional: Sequence[Argument], keywords: Mapping[str, Argument]) -> tuple[int | str, ...]:
    """Return the tensors, or containers of them, in a call for which a form takes numbers."""
    if not form.positional and positional:
        return ()
    # sizes may be given one by one: what is left over goes to the last parameter that takes a place
    parameters = [form.parameters[min(place, form.positional - 1)] for place in range(len(positional))]
    given: list[tuple[str, str, int | str, Argument]] = [
        (kind, name, place, argument)
        for place, ((kind, name, _), argument) in enumerate(zip(parameters, positional, strict=True))
    ]
    kinds = {name: kind for kind, name, _ in form.parameters}
    given.extend((kinds.get(name, "?"), name, name, argument) for name, argument in keywords.items())
    return tuple(
        place
        for kind, name, place, argument in given
        if argument.kind in ("T", "L", "S") and _takes(kind, name, argument) == "converted"
    )


def _select_result(form: Form, positional: Sequence[Argument], keywords: Mapping[str, Argument]) -> ResultEntry:
    """Return the result of a form; an argument that specifies what otherwise depends on values makes it independent of
    them."""
    if not form.result.unless:
        return form.result
    given = {name: argument for (_, name, _), argument in zip(form.parameters, positional, strict=False)}
    deciding = [(given | dict(keywords)).get(name) for name in form.result.unless]
    if any(argument is not None and argument.kind != "N" and argument.value != -1 for argument in deciding):
        return replace(form.result, needs_data=False, dynamic_shape=False, gb_id="")
    return form.result


def _takes(kind: str, name: str, argument: Argument) -> Fit | None:
    """Return how well a parameter takes an argument; None if it does not."""
    if argument.kind == "?":
        return "unknown"
    if kind == ANYTHING:
        return "exact"
    if argument.kind == "N":
        return "exact" if kind.endswith("|") else None
    letter = kind.rstrip("|")
    if name in ("dtype", "layout", "memory_format") and letter == "i":
        letter = "d"
    if letter not in FITS:
        return "exact"
    if argument.kind not in FITS[letter]:
        return None
    if argument.kind == letter or (letter, argument.kind) in SAME:
        return "exact"
    return "unknown" if argument.kind == "n" else "converted"
