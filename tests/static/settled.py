"""Programs all of whose tests Python settles when the model is made with its defaults, and what of them runs.

Each place that may be reached prints a word of its own, so a call without Dynamo says which are. The same seed makes the
same program.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
import types

HEAD = """\
import enum
import torch
from torch import nn


class Kind(enum.Enum):
    A = 1
    B = 2


def pick(n, flag=False):
    if flag:
        return n + 1
    return n


def check(value):
    return value is not None and value > 1


"""
CONSTANTS = {
    "int": "-2 -1 0 1 2 3 4 5 6".split(),
    "bool": ["True", "False"],
    "str": ["'none'", "'gelu'", "'relu_fast'", "'Layer'", "'pre-norm'", "''"],
    "opt": ["None", "None", "3", "0"],
    "list": ["[]", "[1]", "[0, 3]", "[4, 2, 1]", "[3, 0, 0, 2]"],
    "dict": ["{}", "{'a': 2}", "{'a': 0, 'b': 3}", "{'c': 1, 'b': 4}"],
    "enum": ["Kind.A", "Kind.B"],
}
FORMS = {
    "int": (
        "({int} + {int})", "({int} * 2)", "({int} - 1)", "max({int}, {int})", "len({list})", "sum({list})", "({opt} or {int})",
        "({int} if {bool} else {int})", "{dict}.get('a', {int})", "int({bool})", "abs({int})", "len({str})", "({int} // 2)",
        "({int} % 3)", "pick({int}, {bool})", "{list}.count(1)", "sum(i for i in {list} if i > 1)",
        "len([i for i in {list} if i])", "min([{int}, {int}])", "({list} + [1])[-1]", "round({int} / 2)",
    ),
    "bool": (
        "{int} > {int}", "{int} == {int}", "{opt} is None", "{opt} is not None", "(not {bool})", "({bool} and {bool})",
        "({bool} or {bool})", "{str} == {str}", "{str} in ('gelu', 'none')", "{int} in {list}", "'a' in {dict}",
        "bool({list})", "{str}.startswith('re')", "isinstance({opt}, int)", "any(i > 2 for i in {list})", "all({list})",
        "{enum} is Kind.A", "{enum} == {enum}", "0 < {int} < 4", "bool({str})", "bool({dict})", "callable({opt})",
        "{str}.endswith('norm')", "check({opt})", "{list} == {list}", "{enum}.value == 1", "'-' in {str}",
        "{{1, 2}} == {{2, 1}}", "'b' in {{key for key in {dict}}}",
    ),
    "str": (
        "{str}.lower()", "({str} or 'none')", "({str} if {bool} else {str})", "{str}.replace('-', '_')", "{enum}.name",
        "{str}.split('-')[0]", "({str} + 'x')", "'_'.join([{str}, 'b'])", "{str}[:3]", "str({int})",
    ),
    "opt": ("({int} if {bool} else None)", "{dict}.get('b')"),
    "list": (
        "[{int}, {int}]", "({list} + {list})", "[i + 1 for i in {list}]", "sorted({list})", "{list}[1:]", "([{int}] * 2)",
        "list(reversed({list}))", "list({dict}.values())", "({list} if {bool} else [])",
    ),
    "dict": (
        "{{**{dict}, 'a': {int}}}", "dict(b={int})", "{{k: v + 1 for k, v in {dict}.items()}}", "({dict} or {{'c': 1}})",
    ),
    "enum": (),
}  # fmt: skip
KINDS = tuple(FORMS)
WORDS = ("none", "gelu", "relu_fast")


class Program:
    """One program of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0
        self._marks = 0
        self._methods: list[tuple[str, list[str]]] = []
        self._attributes: dict[str, str] = {}

    def text(self) -> str:
        parameters, constants = self._defaults("p", 2, 5), self._defaults("C", 2, 2)
        self._attributes = {name: kind for name, kind, _ in constants}
        scope = {**{name: kind for name, kind, _ in parameters}, **self._attributes}
        lines: list[str] = []
        for _ in range(self._random.randint(3, 7)):
            kind, name = self._random.choice(KINDS), f"self.{self._name('a')}"
            lines += self._given(name, kind, scope)
            scope[name] = self._attributes[name] = kind
        forward = self._block(self._attributes, 2, self._random.randint(3, 6), methods=True)
        parts = [HEAD, *(f"{name} = {value}\n" for name, _, value in constants), "\n\nclass Model(nn.Module):\n"]
        given = ", ".join(f"{name}={value}" for name, _, value in parameters)
        parts += [f"    def __init__(self, {given}):\n        super().__init__()\n", *_indented(lines)]
        for name, body in self._methods:
            parts += [f"\n    def {name}(self, x, arg):\n", *_indented([*body, "return x"])]
        parts += ["\n    def forward(self, x):\n", *_indented([*forward, "return x"])]
        return "".join(parts)

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _defaults(self, prefix: str, least: int, most: int) -> list[tuple[str, str, str]]:
        kinds = self._random.choices(KINDS, k=self._random.randint(least, most))
        return [(self._name(prefix), kind, self._random.choice(CONSTANTS[kind])) for kind in kinds]

    def _given(self, name: str, kind: str, scope: dict[str, str]) -> list[str]:
        """Statements that give a name a value: at once, in both arms of an `if`, or by default and in one."""
        way = self._random.random()
        if way < 0.7:
            return [f"{name} = {self._value(kind, scope)}"]
        test = f"if {self._value('bool', scope)}:"
        one, other = (f"{name} = {self._value(kind, scope)}" for _ in range(2))
        return [test, f"    {one}", "else:", f"    {other}"] if way < 0.85 else [other, test, f"    {one}"]

    def _value(self, kind: str, scope: dict[str, str], depth: int = 2) -> str:
        if depth <= 0 or not FORMS[kind] or self._random.random() < 0.3:
            named = [name for name, other in scope.items() if other == kind]
            return self._random.choice(named if named and self._random.random() < 0.75 else CONSTANTS[kind])
        form = self._random.choice(FORMS[kind])

        def part(found: re.Match[str]) -> str:
            return self._value(found[1], scope, depth - 1) if found[1] else found[0][0]

        return re.sub(r"\{\{|\}\}|\{(\w+)\}", part, form)

    def _mark(self) -> str:
        self._marks += 1
        return f'print("mark{self._marks}")'

    def _block(self, names: dict[str, str], depth: int, count: int, *, methods: bool = False) -> list[str]:
        made, scope = [], dict(names)
        for _ in range(count):
            way = self._random.random()
            if way < 0.3:
                name, kind = self._name("v"), self._random.choice(KINDS)
                made += self._given(name, kind, scope)
                scope[name] = kind
            elif way < 0.75 and depth:
                made += [f"if {self._value('bool', scope)}:", *self._arm(scope, depth)]
                if self._random.random() < 0.3:
                    made += [f"elif {self._value('bool', scope)}:", *self._arm(scope, depth)]
                made += ["else:", *self._arm(scope, depth)]
            elif way < 0.82 and depth:
                made.append(f"match {self._value('str', scope)}:")
                for word in (*map(repr, self._random.sample(WORDS, 2)), "_"):
                    made += [f"    case {word}:", f"        {self._mark()}"]
            elif way < 0.9 and depth and methods:
                name, kind = self._name("m"), self._random.choice(KINDS)
                self._methods.append((name, self._block({**self._attributes, "arg": kind}, depth - 1, 2)))
                made.append(f"x = self.{name}(x, {self._value(kind, scope)})")
            else:
                made.append("x = x + 1")
        return made

    def _arm(self, scope: dict[str, str], depth: int) -> list[str]:
        inner = self._block(scope, depth - 1, self._random.randint(0, 2))
        return [f"    {line}" for line in (self._mark(), *inner)]


def _indented(lines: list[str]) -> list[str]:
    return [f"        {line}\n" for line in lines]


def words_of(text: str) -> set[str] | None:
    """What a call of the model prints; None if it raises."""
    import torch

    printed = io.StringIO()
    module = sys.modules["settled_program"] = types.ModuleType("settled_program")
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(text, "settled_program", "exec"), vars(module))
            module.Model()(torch.ones(2))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    finally:
        del sys.modules["settled_program"]
    return set(printed.getvalue().split())
