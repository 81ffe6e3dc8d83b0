"""Run the phases of the worker on an object of this process, for the pytest plugin: there is no file and no name."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tcready.dynamic.worker.core.frames import is_cell, is_user_file
from tcready.portable.options import RunOptions
from tcready.schema.display_paths import display_path, is_installed
from tcready.schema.enums import Mode, TcreadyError
from tcready.schema.observation import Observation

if TYPE_CHECKING:
    from tcready.dynamic.worker.core.case import Case
    from tcready.dynamic.worker.core.live_pipeline import Measuring


def observe_live(
    value: Callable[..., Any],
    calls: Sequence[Any],
    *,
    mode: Mode = "infer",
    dynamic: bool | None = None,
    fullgraph: bool = False,
    parity: bool = True,
    tolerance: tuple[float, float] | None = None,
    own_packages: Sequence[str] = (),
    root: str | os.PathLike[str] = ".",
) -> Observation:
    """Observe how `value`, a module or a function, compiles, called with each of `calls`: `(args, kwargs)`, a tuple
    of arguments, a dict of keyword arguments, or the only argument.

    It runs in this process, so a crash or a hang affects this process too. Own code is code that is not installed and
    lies below `root`, or below the common folder of `root` and the code of `value`; paths are shown relative to that
    folder. If the class of `value`, or of modules in a wrapper of torch, is installed, its package counts as own too,
    as do `own_packages`. `tolerance` is (relative, absolute).

    Raises TcreadyError if torch is missing, if a call is invalid, or if `value` is TorchScript or a class.
    """
    _refuse_class(value)
    if importlib.util.find_spec("torch") is None:
        raise TcreadyError(f"torch is not installed in {sys.executable}: nothing was compiled")
    from tcready.dynamic.worker.core import live_pipeline
    from tcready.dynamic.worker.core.case import Case, RunError
    from tcready.dynamic.worker.inputs.loading import as_case

    try:
        cases = [
            as_case(f"call {number}" if len(calls) > 1 else None, call, f"call {number}")
            for number, call in enumerate(calls, 1)
        ]
    except RunError as error:
        raise TcreadyError(str(error)) from None
    base, folders = _roots(os.path.realpath(root), [*_files_of(value), *_files_named(own_packages)])
    return live_pipeline.observe_live(
        value,
        cases or [Case(None, (), {})],
        options=RunOptions(mode=mode, fullgraph=fullgraph),
        root=base,
        own_folders=folders,
        own_packages=(*own_packages, *_packages_of(value)),
        dynamic=dynamic,
        parity=parity,
        tolerance=tolerance,
    )


@dataclass(frozen=True)
class CodeLocation:
    """The location of the code of an object of this process."""

    base: str
    """The folder to which shown paths are relative."""
    folders: tuple[str, ...]
    """Further folders with own code."""
    packages: tuple[str, ...]
    """Installed packages that count as own code, because the object is of one of their classes."""
    code: tuple[tuple[str, str, str], ...]
    """File, module and qualified name of the object, or of those of its modules that are not torch's; the file is empty
    if the source is not known."""


def locate_code(value: Callable[..., Any], root: str | os.PathLike[str]) -> CodeLocation:
    """Locate the code of a module or function. Raises TcreadyError for a class."""
    _refuse_class(value)
    base, folders = _roots(os.path.realpath(root), list(_files_of(value)))
    owners = dict.fromkeys(_definers(part)[0] for part in _outermost(_plain(value)))
    code = (
        (_code_file(owner) or "", str(getattr(owner, "__module__", "") or ""), owner.__qualname__)
        for owner in owners
        if hasattr(owner, "__qualname__") and not (isinstance(owner, type) and _is_torchs(owner))
    )
    return CodeLocation(base, folders, _packages_of(value), tuple(code))


def observe_given(
    value: Callable[..., Any], inputs: Any, options: RunOptions, name: str, where: CodeLocation
) -> Observation:
    """Observe `value` in this process as a check of a target named `name` would; `inputs` is any value that
    `--inputs` accepts.

    Raises TcreadyError if torch is missing, if the inputs are invalid, or if `value` is TorchScript.
    """
    given = _cases(inputs, options, name, where)
    from tcready.dynamic.worker.core import live_pipeline

    return live_pipeline.observe_live(
        value,
        given,
        options=options,
        root=where.base,
        own_folders=where.folders,
        own_packages=where.packages,
        name=name,
        as_a_target=True,
    )


def measuring_given(
    value: Callable[..., Any], inputs: Any, options: RunOptions, name: str, where: CodeLocation
) -> Measuring:
    """A callable that measures `value` as a bench of a target named `name` would, in copies of this process if possible.

    Raises TcreadyError as `observe_given` does.
    """
    given = _cases(inputs, options, name, where)
    from tcready.dynamic.worker.core import live_pipeline

    return live_pipeline.measuring(
        value,
        given,
        options=options,
        root=where.base,
        own_folders=where.folders,
        own_packages=where.packages,
        name=name,
    )


def _cases(inputs: Any, options: RunOptions, name: str, where: CodeLocation) -> tuple[Case, ...]:
    """Return the calls that the inputs describe. Raises TcreadyError if torch is missing or the inputs are invalid."""
    if importlib.util.find_spec("torch") is None:
        raise TcreadyError(f"torch is not installed in {sys.executable}: nothing was compiled")
    from tcready.dynamic.worker.core.case import RunError
    from tcready.dynamic.worker.core.request import Work
    from tcready.dynamic.worker.inputs.loading import cases

    try:
        return tuple(cases(inputs, "inputs", Work(name, options, where.base)))
    except RunError as error:
        raise TcreadyError(str(error)) from None


def _refuse_class(value: Any) -> None:
    if isinstance(value, type):
        raise TcreadyError(f"{value.__name__} is a class: give an instance, {value.__name__}(...)")


def _packages_of(value: Any) -> tuple[str, ...]:
    """Return the installed packages of a class or function; for a wrapper of torch, those of the wrapped object."""
    files = (_file_of(owner) for part in _outermost(_plain(value)) for owner in _definers(part))
    return tuple(
        dict.fromkeys(
            display_path(path, os.sep).split("/")[0].removesuffix(".py")
            for path in files
            if path is not None and is_installed(path)
        )
    )


def _plain(value: Any) -> Any:
    """Return the function inside decorators and partials; return a module, and any other object, unchanged."""
    while isinstance(value, functools.partial):
        value = value.func
    with contextlib.suppress(ValueError):  # wrappers in a circle
        return inspect.unwrap(value)
    return value


def _definers(value: Any) -> tuple[Any, ...]:
    """Return the objects that define where `value` comes from: its class, or the function; for a method both."""
    if not hasattr(value, "__qualname__"):
        return (type(value),)
    owner = getattr(value, "__self__", None)
    return (value,) if owner is None or inspect.ismodule(owner) else (value, type(owner))


def _outermost(value: Any) -> Iterator[Any]:
    """Return `value`; for a module of one of torch's own classes, the outermost modules below it that are not torch's."""
    owner: Any = getattr(value, "__self__", None)
    module = owner if hasattr(owner, "named_children") else value
    if not hasattr(module, "named_children") or not _is_torchs(type(module)):
        yield value
        return
    for _, child in module.named_children():
        yield from _outermost(child)


def _is_torchs(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "torch"


def _file_of(owner: Any) -> str | None:
    """Return the file of a class or function; None if it has none."""
    code = getattr(owner, "__code__", None)
    if code is not None:
        return str(code.co_filename)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    return getattr(module, "__file__", None)


def _code_file(owner: Any) -> str | None:
    """The file of a function, or of the first function of a class: no module knows the file of a class in a cell."""
    code = getattr(owner, "__code__", None)
    if code is None:
        defined = (getattr(inspect.unwrap(member), "__code__", None) for member in _functions_of(owner))
        code = next((each for each in defined if each is not None), None)
    path = _file_of(owner) if code is None else str(code.co_filename)
    return path if path is not None and is_user_file(path) else None


def _functions_of(owner: Any) -> list[Any]:
    """Return the functions that a class defines itself."""
    module = getattr(owner, "__module__", None)
    members = vars(owner).values() if isinstance(owner, type) else ()
    return [each for each in members if inspect.isfunction(each) and each.__module__ == module]


def _files_of(value: Any) -> Iterator[str]:
    """The files of the classes of a module and of all modules below it, with base classes; for a function its file."""
    value = _plain(value)
    owners = list(_definers(value))
    module = getattr(value, "__self__", value)
    if hasattr(module, "named_modules"):
        owners += {type(part) for _, part in module.named_modules()}
    for owner in owners:
        for kind in inspect.getmro(owner) if isinstance(owner, type) else (owner,):
            path = _file_of(kind)
            if path is not None:
                yield path


def _files_named(packages: Sequence[str]) -> Iterator[str]:
    """Return one file of each package that was imported but is not installed."""
    for package in packages:
        path = getattr(sys.modules.get(package), "__file__", None)
        if path is not None:
            yield path


def _roots(root: str, files: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the folder to which shown paths are relative and that holds own code, and further folders with own code.

    The first is the common folder of `root` and the user's files. If that is too general (the root of the file
    system, or the parent of home folders), it is `root`, and the folders of the files come second.
    """
    folders = sorted(
        {
            os.path.dirname(os.path.realpath(path))
            for path in files
            if is_user_file(path) and not is_cell(path) and not is_installed(path)
        }
    )
    try:
        common = os.path.commonpath([root, *folders])
    except ValueError:  # several drives
        return root, tuple(folders)
    if common == root or not Path.home().resolve().is_relative_to(common):
        return common, ()
    return root, tuple(folders)
