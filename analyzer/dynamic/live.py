"""Run stages of the worker on an object of this process, as for the pytest plugin."""

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

from tcready.dynamic.worker.frames import is_cell, is_user_file
from tcready.options import RunOptions
from tcready.schema.observation import Observation
from tcready.schema.paths import display_path, is_installed
from tcready.schema.words import Mode, TcreadyError

if TYPE_CHECKING:
    from tcready.dynamic.worker.case import Case
    from tcready.dynamic.worker.live import Measuring


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
    """What compiling `value` shows, a module or a function, called as each of `calls` says: `(args, kwargs)`, a tuple
    of arguments, a dict of keyword arguments, or the one argument.

    It runs here, not in a process of its own: what crashes or hangs takes this process along. Own is what is below
    `root`, or below what `root` and the code of `value` have in common, and not installed; paths are shown relative to
    that. Where the class of `value` is installed, or of modules in a wrapper of torch, its package counts as own too,
    as do `own_packages`. `tolerance` is (relative, absolute).

    Raises TcreadyError where there is no torch, a call is none, or `value` is TorchScript or a class.
    """
    _refuse_class(value)
    if importlib.util.find_spec("torch") is None:
        raise TcreadyError(f"torch is not installed in {sys.executable}: nothing was compiled")
    from tcready.dynamic.worker import live
    from tcready.dynamic.worker.case import Case, RunError
    from tcready.dynamic.worker.loading import as_case

    try:
        cases = [
            as_case(f"call {number}" if len(calls) > 1 else None, call, f"call {number}")
            for number, call in enumerate(calls, 1)
        ]
    except RunError as error:
        raise TcreadyError(str(error)) from None
    base, folders = _roots(os.path.realpath(root), [*_files_of(value), *_files_named(own_packages)])
    return live.observe_live(
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
class Standing:
    """Where the code of an object of this process stands."""

    base: str
    """What paths are shown relative to."""
    folders: tuple[str, ...]
    """Further folders whose code is own."""
    packages: tuple[str, ...]
    """Installed packages whose code is own, since the object is of a class of theirs."""
    code: tuple[tuple[str, str, str], ...]
    """Of the object, or of those of its modules that are no torch's: file, module and qualified name; an empty file
    where no source is known."""


def standing(value: Callable[..., Any], root: str | os.PathLike[str]) -> Standing:
    """Where the code of a module or function stands. Raises TcreadyError for a class."""
    _refuse_class(value)
    base, folders = _roots(os.path.realpath(root), list(_files_of(value)))
    owners = dict.fromkeys(_definers(part)[0] for part in _outermost(_plain(value)))
    code = (
        (_code_file(owner) or "", str(getattr(owner, "__module__", "") or ""), owner.__qualname__)
        for owner in owners
        if hasattr(owner, "__qualname__") and not (isinstance(owner, type) and _is_torchs(owner))
    )
    return Standing(base, folders, _packages_of(value), tuple(code))


def observe_given(
    value: Callable[..., Any], inputs: Any, options: RunOptions, name: str, where: Standing
) -> Observation:
    """What a check of `value` as a target named `name` shows, for what `--inputs` could give. It runs in this process.

    Raises TcreadyError where there is no torch, the inputs are none, or `value` is TorchScript.
    """
    given = _cases(inputs, options, name, where)
    from tcready.dynamic.worker import live

    return live.observe_live(
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
    value: Callable[..., Any], inputs: Any, options: RunOptions, name: str, where: Standing
) -> Measuring:
    """What measures `value` as a bench of a target named `name`, in copies of this process if there can be any.

    Raises TcreadyError as `observe_given` does.
    """
    given = _cases(inputs, options, name, where)
    from tcready.dynamic.worker import live

    return live.measuring(
        value,
        given,
        options=options,
        root=where.base,
        own_folders=where.folders,
        own_packages=where.packages,
        name=name,
    )


def _cases(inputs: Any, options: RunOptions, name: str, where: Standing) -> tuple[Case, ...]:
    """The calls that inputs stand for. Raises TcreadyError where there is no torch, or the inputs are none."""
    if importlib.util.find_spec("torch") is None:
        raise TcreadyError(f"torch is not installed in {sys.executable}: nothing was compiled")
    from tcready.dynamic.worker.case import RunError
    from tcready.dynamic.worker.loading import cases
    from tcready.dynamic.worker.request import Work

    try:
        return tuple(cases(inputs, "inputs", Work(name, options, where.base)))
    except RunError as error:
        raise TcreadyError(str(error)) from None


def _refuse_class(value: Any) -> None:
    if isinstance(value, type):
        raise TcreadyError(f"{value.__name__} is a class: give an instance, {value.__name__}(...)")


def _packages_of(value: Any) -> tuple[str, ...]:
    """The installed packages of the class or function `value` is; for a wrapper of torch, of what it wraps."""
    files = (_file_of(owner) for part in _outermost(_plain(value)) for owner in _definers(part))
    return tuple(
        dict.fromkeys(
            display_path(path, os.sep).split("/")[0].removesuffix(".py")
            for path in files
            if path is not None and is_installed(path)
        )
    )


def _plain(value: Any) -> Any:
    """The function inside of decorators and partials; a module, and any other object, itself."""
    while isinstance(value, functools.partial):
        value = value.func
    with contextlib.suppress(ValueError):  # wrappers in a circle
        return inspect.unwrap(value)
    return value


def _definers(value: Any) -> tuple[Any, ...]:
    """What says where `value` comes from: its class, or a function itself; for a method both."""
    if not hasattr(value, "__qualname__"):
        return (type(value),)
    owner = getattr(value, "__self__", None)
    return (value,) if owner is None or inspect.ismodule(owner) else (value, type(owner))


def _outermost(value: Any) -> Iterator[Any]:
    """`value`, but for a module whose class is torch's own those below it, down to the first that are not."""
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
    """The file that a class or function stands in, None where it has none."""
    code = getattr(owner, "__code__", None)
    if code is not None:
        return str(code.co_filename)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    return getattr(module, "__file__", None)


def _code_file(owner: Any) -> str | None:
    """The file of a function, or of the first function of a class: of a class in a cell no module knows it."""
    code = getattr(owner, "__code__", None)
    if code is None:
        defined = (getattr(inspect.unwrap(member), "__code__", None) for member in _functions_of(owner))
        code = next((each for each in defined if each is not None), None)
    path = _file_of(owner) if code is None else str(code.co_filename)
    return path if path is not None and is_user_file(path) else None


def _functions_of(owner: Any) -> list[Any]:
    """Functions that a class defines itself."""
    module = getattr(owner, "__module__", None)
    members = vars(owner).values() if isinstance(owner, type) else ()
    return [each for each in members if inspect.isfunction(each) and each.__module__ == module]


def _files_of(value: Any) -> Iterator[str]:
    """The files of the classes of a module and all below it, bases included; of a function its own."""
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
    """Of packages that were imported and are not installed, a file each."""
    for package in packages:
        path = getattr(sys.modules.get(package), "__file__", None)
        if path is not None:
            yield path


def _roots(root: str, files: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """What paths are shown relative to, and whose code is own, and further folders whose code is own.

    The first is what `root` and the user's files have in common; where that says nothing (the file system's root, or
    what holds people's home folders) it stays `root`, and the folders of the files come second.
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
