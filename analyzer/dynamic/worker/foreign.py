"""Operators and functions that are neither Python nor torch's own: what torch.compile lacks of each, and how to add it.

Operators are seen as they are dispatched, in eager code and inside graphs. Functions of extension modules and of
ctypes are looked for on the lines that broke, and watched there for one eager call.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import functools
import linecache
import os
import re
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from tcready.dynamic.worker import narrate
from tcready.dynamic.worker.frames import NOT_USER, is_user_file
from tcready.dynamic.worker.journal import told
from tcready.dynamic.worker.registration import AUTOGRAD, FAKE, REGISTRATION, Meta, Observed, Seen, skeleton
from tcready.dynamic.worker.target import Case
from tcready.dynamic.worker.torch_internals import dispatch, dynamo, operators, pytree
from tcready.dynamic.worker.torch_internals.recording import break_id
from tcready.schema import CustomOp, OpCheck

if TYPE_CHECKING:
    from tcready.dynamic.worker.run import Run

MANY_ELEMENTS = 2**20
"""Arguments with more elements than this together are not kept, so neither compared nor checked."""
CHECKS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""The tests of `torch.library.opcheck`, in its order."""
CHECKS_SECONDS = 20.0
"""After this long no further test of opcheck is begun."""
UNDER_WAY = "under way when the process ended"
FOREIGN_FUNCTION = type(ctypes.pythonapi.Py_GetVersion).__mro__[1]
"""What every function of a `ctypes.CDLL` is; the class has no public name."""
FOREIGN_BREAKS = (
    "Attempted to call function marked as skipped",
    "Failed to trace builtin operator",
    "Unsupported function call",
    "Unsupported method call",
    "unimplemented builtin op on tensor arguments",
)
"""Kinds of break, by their names in torch's registry, under which Dynamo meets a call that it cannot look into."""
KNOWN_ROOTS = NOT_USER | {"triton", "builtins"} | sys.stdlib_module_names
"""Packages whose functions are not told: torch knows them, or they are no kernels."""


@dataclass
class Foreign:
    """What was seen so far, by name and place."""

    seen: dict[tuple[str, str, int], Seen] = field(default_factory=dict)
    checks: dict[str, tuple[OpCheck, ...]] = field(default_factory=dict)
    """By operator."""

    @contextlib.contextmanager
    def watch(self, case: Case) -> Iterator[None]:
        """Note each operator of others that is dispatched meanwhile, once per place."""

        def saw(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]) -> Any:
            place, in_graph, around = _caller(dispatch.calling_frames())
            name = operators.operator_name(operator)
            key = (name, place[0], place[1])
            known = self.seen.get(key)
            if known is not None:
                self.seen[key] = replace(known, in_graph=known.in_graph or in_graph)
                return run()
            result, call = observed(run, args, kwargs)
            self.seen[key] = Seen(
                name, "operator", place, operator, call, in_graph=in_graph, around=around, case=case.name
            )
            return result

        with dispatch.OperatorMode(saw):
            yield


def _caller(frames: Iterator[types.FrameType]) -> tuple[tuple[str, int, str], bool, str | None]:
    """The user's line that calls, whether a graph does it, and the autograd.Function around it."""
    for frame in frames:
        code = frame.f_code
        stack = dispatch.graph_node_stack(frame)
        if stack is not None:
            found = narrate.user_stack(narrate.parse_stack(stack))
            return (found[0] if found else (code.co_filename, frame.f_lineno, code.co_name)), True, None
        if is_user_file(code.co_filename):
            return (code.co_filename, frame.f_lineno, code.co_name), False, _autograd_function(frame)
    return ("<unknown>", 1, ""), False, None


def _autograd_function(frame: types.FrameType) -> str | None:
    """The name of the autograd.Function whose `forward` or `backward` the frame is, found by its code."""
    code = frame.f_code
    if code.co_name not in ("forward", "backward"):
        return None
    for value in list(frame.f_globals.values()):
        if isinstance(value, type) and issubclass(value, torch.autograd.Function):
            method = getattr(value, code.co_name, None)
            if getattr(method, "__code__", None) is code:
                return value.__name__
    return None


def observed(run: Callable[[], Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Observed]:
    """The result of `run`, and what can be said of the call. Raises what it raises."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    whole = sum(tensor.numel() for tensor in tensors) <= MANY_ELEMENTS
    with dispatch.unseen():
        kept_args, kept_kwargs = pytree.tree_map_only(
            torch.Tensor, _copy if whole else Meta.of, (args, kwargs)
        )
    wants_grad = any(tensor.requires_grad for tensor in tensors)
    result = run()
    mutated: set[int | str] = set()
    if whole:
        pairs: list[tuple[int | str, Any, Any]] = [(i, args[i], kept_args[i]) for i in range(len(args))]
        pairs += [(name, kwargs[name], kept_kwargs[name]) for name in kwargs]
        with dispatch.unseen():
            for key, after, before in pairs:
                if isinstance(after, torch.Tensor) and not _same(before, after):
                    mutated.add(key)
    stores = {_storage(tensor) for tensor in tensors} - {None}
    outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    aliased = any(_storage(tensor) in stores for tensor in outputs)
    metas = pytree.tree_map_only(torch.Tensor, Meta.of, result)
    return result, Observed(kept_args, kept_kwargs, whole, metas, frozenset(mutated), aliased, wants_grad)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    copied = tensor.detach().clone()
    return copied.requires_grad_(tensor.requires_grad) if tensor.is_floating_point() else copied


def _same(before: torch.Tensor, after: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            return before.shape == after.shape and bool(
                torch.allclose(before, after, rtol=0, atol=0, equal_nan=True)
            )
    except (RuntimeError, NotImplementedError):  # a dtype or layout without comparison
        return True


def _storage(tensor: torch.Tensor) -> int | None:
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except (RuntimeError, NotImplementedError):
        return None


# Functions of extensions, by the lines that broke


def functions(this: Run, call: Callable[..., Any]) -> None:
    """Look for foreign functions on the lines that broke and in the frames that were given up.

    That takes one more eager call of each case that has such lines.
    """
    for case in this.cases:
        lines = _suspect_lines(this, case)
        if not lines:
            continue
        try:
            model = this.build()
            with torch.compiler.set_stance("force_eager"):
                call(model, case, _watched_lines(lines, this.foreign, case))
        except Exception as error:
            this.journal.warn(f"foreign functions were not looked for: {told(error, this.work.root)}")


def _suspect_lines(this: Run, case: Case) -> set[tuple[str, int]]:
    """Lines that may call what Dynamo cannot look into: a break says so, or Dynamo saw no more of the frame."""
    seen, files = this.journal.observation, this.names.sources
    ids = {break_id(kind) for kind in FOREIGN_BREAKS} - {None}
    lines = {
        (files.get(site.path, site.path), site.line)
        for site in seen.break_sites
        if site.case == case.name and not ids.isdisjoint((*site.gb_ids, site.gb_id))
    }
    for frame in seen.skipped_frames:
        if frame.case == case.name and not frame.benign and frame.end_line is not None:
            path = files.get(frame.path, frame.path)
            lines |= {
                (path, line)
                for line in range(frame.line, frame.end_line + 1)
                if calls_by_line(path).get(line)
            }
    return lines


@contextlib.contextmanager
def _watched_lines(lines: set[tuple[str, int]], found: Foreign, case: Case) -> Iterator[None]:
    """Where one of `lines` is about to run, have the foreign functions that it calls tell of their first call.

    They are replaced where they are looked up (a module, an object, the globals) and put back at the end. One that
    is a local variable is told without its arguments.
    """
    undo = contextlib.ExitStack()
    files = {path for path, _ in lines}
    done: set[tuple[str, int]] = set()

    def on_line(frame: types.FrameType, event: str, _: Any) -> Any:
        at = (_real(frame.f_code.co_filename), frame.f_lineno)
        if event == "line" and at in lines and at not in done:
            done.add(at)
            for node in calls_by_line(at[0]).get(at[1], ()):
                _watch_call(node, frame, found, case, undo)
        return on_line

    def on_call(frame: types.FrameType, _event: str, _: Any) -> Any:
        return on_line if _real(frame.f_code.co_filename) in files else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(before)
        undo.close()


@functools.cache
def _real(path: str) -> str:
    return os.path.realpath(path)


@functools.cache
def calls_by_line(path: str) -> Mapping[int, tuple[ast.Call, ...]]:
    """The calls that stand on each line of a file, or reach over it; none where it cannot be parsed."""
    found: dict[int, list[ast.Call]] = {}
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(path)))):
            if isinstance(node, ast.Call):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    found.setdefault(line, []).append(node)
    return {line: tuple(nodes) for line, nodes in found.items()}


def _watch_call(
    node: ast.Call, frame: types.FrameType, found: Foreign, case: Case, undo: contextlib.ExitStack
) -> None:
    """Note a foreign function, and put in its place what notes its next call as well."""
    chain = _chain(node.func)
    if not chain:
        return
    first, *rest = chain
    names = {**frame.f_globals, **frame.f_locals}
    if first not in names:
        return
    owner, value = None, names[first]
    for step in rest:
        try:
            owner, value = value, getattr(value, step)
        except Exception:  # a property of the user's
            return
    kind = foreign_kind(value)
    if kind is None:
        return
    spelled = ".".join(chain)
    own = getattr(value, "__name__", chain[-1])
    module = getattr(value, "__module__", None) or type(value).__module__
    name = f"{module}.{own}" if kind == "extension" else spelled
    place = (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    key = (name, place[0], place[1])
    if key in found.seen:
        return
    labels = tuple(_label(argument) for argument in node.args)
    found.seen[key] = Seen(
        name, kind, place, None, None, spelled, labels, around=_autograd_function(frame), case=case.name
    )

    def watching(*args: Any, **kwargs: Any) -> Any:
        if found.seen[key].call is not None:
            return value(*args, **kwargs)
        result, call = observed(lambda: value(*args, **kwargs), args, kwargs)
        found.seen[key] = replace(found.seen[key], call=call)
        return result

    if owner is None:
        if first in frame.f_globals and first not in frame.f_locals:
            frame.f_globals[first] = watching
            undo.callback(frame.f_globals.__setitem__, first, value)
        return
    with contextlib.suppress(AttributeError, TypeError):
        setattr(owner, rest[-1], watching)
        undo.callback(setattr, owner, rest[-1], value)


def _chain(node: ast.expr) -> list[str]:
    """`a.b.c` as its names, nothing for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _label(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def foreign_kind(value: Any) -> Literal["extension", "ctypes"] | None:
    """Whether a callable is compiled code of others: not Python, not torch's, not the standard library's."""
    if isinstance(value, FOREIGN_FUNCTION):
        return "ctypes"
    inner = value.__func__ if isinstance(value, types.MethodType) else value
    if isinstance(inner, (types.FunctionType, type)) or not callable(inner):
        return None
    if isinstance(type(inner).__call__, types.FunctionType):  # a class written in Python
        return None
    owner = getattr(inner, "__self__", None)
    module = getattr(inner, "__module__", None)
    if module is None and owner is not None:
        module = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__module__
    root = str(module or type(inner).__module__).split(".")[0]
    return None if root in KNOWN_ROOTS else "extension"


# What is told


def tell(this: Run) -> None:
    """Put what was seen so far into the observation."""
    names, mode = this.names, this.work.options.mode
    found: list[CustomOp] = []
    checked: set[str] = set()
    for seen in this.foreign.seen.values():
        lacks = _lacks(seen, mode)
        frame = names.frame(*seen.place)
        checks = () if seen.name in checked else this.foreign.checks.get(seen.name, ())
        checked.add(seen.name)
        schema = operators.operator_schema(seen.operator) if seen.operator is not None else ""
        code = skeleton(seen, lacks)
        found.append(
            CustomOp(
                seen.name,
                seen.kind,
                frame.path,
                frame.line,
                frame.symbol,
                names.origin(seen.place[0]),
                lacks,
                schema or _signature(code),
                code,
                checks,
                seen.in_graph,
                seen.around,
                seen.case,
            )
        )
    this.journal.add(custom_ops=tuple(found))
    this.journal.write("")


def _signature(code: str) -> str:
    match = re.search(r"^def (\w+\(.*\) -> .*):$", code, re.MULTILINE)
    return match[1] if match else ""


def _lacks(seen: Seen, mode: str) -> tuple[str, ...]:
    if seen.operator is None:
        return (REGISTRATION,)
    lacks = [] if operators.has_fake_kernel(seen.operator) else [FAKE]
    wants = mode == "train" and seen.call is not None and seen.call.wants_grad
    # Inside of an autograd.Function the gradient is that one's affair.
    if wants and seen.around is None and not operators.has_autograd(seen.operator):
        lacks.append(AUTOGRAD)
    return tuple(lacks)


def check(this: Run) -> None:
    """Run `torch.library.opcheck` on what was observed of each operator, test by test, within CHECKS_SECONDS."""
    found = this.foreign
    started = time.monotonic()
    for seen in list(found.seen.values()):
        if seen.operator is None or seen.name in found.checks or seen.call is None:
            continue
        why = ""
        if not seen.call.whole:
            why = f"the arguments have more than {MANY_ELEMENTS:,} elements"
        results: list[OpCheck] = []
        for name in CHECKS:
            reason = why or (
                f"cut after {CHECKS_SECONDS:g} s" if time.monotonic() - started > CHECKS_SECONDS else ""
            )
            if reason:
                results.append(OpCheck(name, "not_run", reason))
                continue
            found.checks[seen.name] = (*results, OpCheck(name, "not_run", UNDER_WAY))
            tell(this)
            results.append(_check(seen, name))
        found.checks[seen.name] = tuple(results)
        tell(this)
    if found.checks:
        dynamo.reset()


def _check(seen: Seen, name: str) -> OpCheck:
    assert seen.call is not None
    args, kwargs = pytree.tree_map_only(torch.Tensor, _copy, (seen.call.args, seen.call.kwargs))
    try:
        said = torch.library.opcheck(seen.operator, args, kwargs, test_utils=name, raise_exception=False)[
            name
        ]
    except Exception as error:
        return OpCheck(name, "not_run", f"opcheck itself failed: {_first_line(error)}")
    return OpCheck(name, "pass") if said == "SUCCESS" else OpCheck(name, "fail", _first_line(said))


def _first_line(error: Any) -> str:
    """An exception in one line; opcheck gives exceptions back instead of raising them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ": ".join([type(error).__name__, *lines[:1]])[:300]
