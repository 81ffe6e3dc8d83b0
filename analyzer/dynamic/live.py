"""Runs the worker's phases on an object of this process: what the pytest plugin has, no file and no name."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tcready.schema import Mode, Observation, TcreadyError, display_path, is_installed


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

    Raises TcreadyError where there is no torch, a call is none, or `value` is TorchScript.
    """
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
        mode=mode,
        root=base,
        own_folders=folders,
        own_packages=(*own_packages, *_packages_of(value)),
        dynamic=dynamic,
        fullgraph=fullgraph,
        parity=parity,
        tolerance=tolerance,
    )


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
    from tcready.dynamic.worker.frames import is_user_file

    folders = sorted(
        {
            os.path.dirname(os.path.realpath(path))
            for path in files
            if is_user_file(path) and not is_installed(path)
        }
    )
    try:
        common = os.path.commonpath([root, *folders])
    except ValueError:  # several drives
        return root, tuple(folders)
    if common == root or not Path.home().resolve().is_relative_to(common):
        return common, ()
    return root, tuple(folders)
