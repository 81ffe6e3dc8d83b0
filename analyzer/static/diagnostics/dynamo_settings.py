"""Dynamo settings in the files that are read: `torch._dynamo.config.capture_scalar_outputs = True` and similar.

Code that runs before the model is compiled counts: statements of a module, the functions that these call, and the
constructors of the model and its parts. Each setting applies to the whole process, so one of the files decides for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tcready.static.domain.scope import Env, Frame, positional
from tcready.static.domain.values import (
    UNKNOWN,
    Answer,
    Const,
    External,
    Function,
    Instance,
    Mapping,
    Sequence,
    Value,
    members_of,
    options,
)
from tcready.static.frontend.index import Import, ModuleInfo
from tcready.static.interp.interpreter import Interpreter

CONFIG = "torch._dynamo.config"
NESTED = "nested_graph_breaks"
"""The setting under which a break splits its function together with the callers. Off by default up to 2.15."""
LEFT_OUT = ("ignore_logging_functions", "reorderable_logging_functions")
"""Sets of functions that Dynamo does not call, or calls after the graph."""
VARIABLE = "TORCHDYNAMO_"
"""The prefix of a setting's name, in capitals, in the environment variable it is read from as torch is imported."""
DEEP = 4
"""Calls inside one another that are followed."""


@dataclass(frozen=True)
class DynamoSettings:
    """`flags`: names of `torch._dynamo.config` that are true; `unsure`: those of unknown value; `left_out`: functions
    configured to be dropped or called after the graph."""

    flags: frozenset[str] = frozenset()
    unsure: frozenset[str] = frozenset()
    left_out: tuple[Value, ...] = ()


def settings_of(interpreter: Interpreter, roots: Iterable[Instance | None]) -> DynamoSettings:
    """Return the settings of the modules that have been read, then of the models' constructors, with the defaults of this
    torch."""
    reader = _Reader(interpreter)
    models = list(roots)
    with interpreter.outside_trace():
        for module in list(interpreter.program.modules()):
            if _speaks(module) or reader.calls_out(module):
                reader.read(module.source.tree.body, interpreter.names.module_frame(module))
        for root in models:
            if root is not None:
                reader.construct(root, sure=len(models) == 1, known=set())
    return DynamoSettings(
        frozenset(name for name, on in reader.flags.items() if on), frozenset(reader.unsure), tuple(reader.left_out)
    )


def _speaks(module: ModuleInfo) -> bool:
    return "_dynamo" in module.source.text or VARIABLE in module.source.text


@dataclass
class _Reader:
    """Goes through what runs, in order, and keeps what it sets."""

    interpreter: Interpreter
    flags: dict[str, bool] = field(init=False)
    unsure: set[str] = field(default_factory=set)
    left_out: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        defaults = self.interpreter.operations.tables.data["config"]
        self.flags = {name: value for name, value in defaults.items() if value is True}

    def construct(self, made: Instance, *, sure: bool, known: set[Instance]) -> None:
        """The constructors of an object and of the modules that it holds."""
        known.add(made)
        for function in reversed(self.interpreter.classes.mro(made.cls).functions("__init__")):
            if _speaks(function.module):
                self._call(Function(function, made), ast.Call(ast.Name("_"), [], []), None, sure)
        for _, part in self.interpreter.containers.children(made).entries:
            for option in options(part):
                if isinstance(option, Instance) and option not in known:
                    self.construct(option, sure=sure, known=known)

    def read(self, body: Iterable[ast.stmt], frame: Frame, sure: bool = True, depth: int = 0) -> None:
        """Statements that run, in blocks too; not those of a function that is only defined."""
        for node in body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value, frame, sure)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._ask(node.value, frame, sure, depth)
            elif isinstance(node, ast.If):
                answer = self.interpreter.truth.answer(self.interpreter.expressions.eval(node.test, frame))
                # a file asks as it is imported whether torch has a setting; what a function asks is anybody's choice
                certain = sure and (answer.decided is not None or frame.function is None)
                if _is_main_guard(node.test):
                    answer, certain = Answer(None, None), False
                for taken, block in ((True, node.body), (False, node.orelse)):
                    if answer.likely in (None, taken):
                        self.read(block, frame, certain, depth)
            elif isinstance(node, ast.Return):
                return
            elif isinstance(node, (ast.For, ast.While)):
                self._loop(node, frame, sure, depth)
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for part in ("body", "orelse", "finalbody"):
                    self.read(getattr(node, part, []), frame, sure, depth)

    def _loop(self, node: ast.For | ast.While, frame: Frame, sure: bool, depth: int) -> None:
        walked = self.interpreter.expressions.eval(node.iter, frame) if isinstance(node, ast.For) else UNKNOWN
        members = walked.items if isinstance(walked, Sequence) else None
        if not isinstance(node, ast.For) or members is None or not isinstance(node.target, ast.Name):
            self.read(node.body, frame, False, depth)
            return
        for member in members:
            self.read(node.body, replace(frame, env={**frame.env, node.target.id: member}), sure, depth)

    def _assign(self, target: ast.expr, value: ast.expr, frame: Frame, sure: bool) -> None:
        if isinstance(target, ast.Attribute):
            if self._names(target.value, frame) == CONFIG:
                given = self.interpreter.expressions.eval(value, frame)
                if target.attr in LEFT_OUT:
                    self.left_out[:] = _functions(given)
                self._set(target.attr, given, sure)
        elif isinstance(target, ast.Subscript) and self._names(target.value, frame) == "os.environ":
            key, given = (self.interpreter.expressions.eval(node, frame) for node in (target.slice, value))
            if isinstance(key, Const) and isinstance(key.value, str) and key.value.startswith(VARIABLE):
                # who has imported torch before has read the variable before
                name = key.value.removeprefix(VARIABLE).lower()
                if given == Const("1") and target.lineno < _imports_torch(frame.module):
                    self._set(name, Const(True), False)

    def _ask(self, node: ast.Call, frame: Frame, sure: bool, depth: int) -> None:
        """Evaluate a call statement: it may set something itself, or run a function that does."""
        if not self._concerns(node.func, frame.module):
            return
        function = self.interpreter.expressions.eval(node.func, frame)
        if function == External("setattr") and len(node.args) == 3:
            name, value = (self.interpreter.expressions.eval(arg, frame) for arg in node.args[1:])
            if self._names(node.args[0], frame) == CONFIG and isinstance(name, Const):
                self._set(str(name.value), value, sure)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("add", "update"):
            if self._names(node.func.value, frame).removeprefix(f"{CONFIG}.") in LEFT_OUT:
                for arg in node.args:
                    self.left_out.extend(_functions(self.interpreter.expressions.eval(arg, frame)))
        elif isinstance(function, Function) and _speaks(function.info.module) and depth < DEEP:
            self._call(function, node, frame, sure, depth + 1)

    def calls_out(self, module: ModuleInfo) -> bool:
        """Return whether a user's file calls at import a function of another that mentions Dynamo."""
        calls = (
            n.value.func for n in module.source.tree.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
        )
        return self.interpreter.program.is_own(module.path) and any(self._concerns(f, module) for f in calls)

    def _concerns(self, function: ast.expr, module: ModuleInfo) -> bool:
        """Return whether a call may run code that mentions Dynamo."""
        if _speaks(module):
            return True
        bound = module.bindings.get(function.id, ()) if isinstance(function, ast.Name) else ()
        mentions = self.interpreter.program.mentions
        return any(isinstance(b, Import) and mentions(b.module, "_dynamo") for b in bound)

    def _call(self, function: Function, node: ast.Call, caller: Frame | None, sure: bool, depth: int = 0) -> None:
        """The statements of a function, under the arguments of a call; its defaults where nobody calls it."""
        info = function.info
        if isinstance(info.node, (ast.Lambda, ast.AsyncFunctionDef)):
            return
        home = self.interpreter.names.module_frame(info.module)
        names = positional(info.node.args)
        env: Env = {arg.arg: UNKNOWN for arg, _ in names}
        if caller is not None:  # whoever makes an object gives what nobody knows
            env |= {arg.arg: self.interpreter.expressions.eval(d, home) for arg, d in names if d is not None}
            given = [self.interpreter.expressions.eval(arg, caller) for arg in node.args]
            places = [arg.arg for arg, _ in names][function.bound is not None :]
            env |= dict(zip(places, given, strict=False))
            env |= {k.arg: self.interpreter.expressions.eval(k.value, caller) for k in node.keywords if k.arg}
        if function.bound is not None and names:
            env[names[0][0].arg] = function.bound
        self.read(info.node.body, Frame(info.module, info, -1, env), sure, depth)

    def _names(self, node: ast.expr, frame: Frame) -> str:
        """Return the package name that an expression refers to; empty for anything else."""
        value = self.interpreter.expressions.eval(node, frame)
        return value.name if isinstance(value, External) else ""

    def _set(self, name: str, value: Value, sure: bool) -> None:
        if sure and isinstance(value, Const):
            self.flags[name] = bool(value.value)
            self.unsure.discard(name)
        elif not isinstance(value, Const) or bool(value.value) is not self.flags.get(name, False):
            self.unsure.add(name)


def _imports_torch(module: ModuleInfo) -> float:
    """Return the line of a file on which it first imports torch."""
    return min(
        (
            node.lineno
            for node in module.source.tree.body
            if (isinstance(node, ast.Import) and any(_is_of_torch(each.name) for each in node.names))
            or (isinstance(node, ast.ImportFrom) and _is_of_torch(node.module or ""))
        ),
        default=float("inf"),
    )


def _is_main_guard(test: ast.expr) -> bool:
    """`__name__ == "__main__"`: whether the model is compiled there or by who imports the file is not known."""
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(test))


def _is_of_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def _functions(value: Value) -> Iterator[Value]:
    for option in options(value):
        if isinstance(option, Sequence):
            for member in members_of(option):
                yield from options(member)
        elif not isinstance(option, Mapping):
            yield option
