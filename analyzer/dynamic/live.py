"""Runs the worker's phases on an object of this process: what the pytest plugin has, no file and no name."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
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

    It runs here, not in a process of its own: what crashes or hangs takes this process along. Paths are told
    relative to `root`, which is what is below it and not installed; where the class of `value` is installed, its
    package counts as own too, as do `own_packages`. `tolerance` is (relative, absolute).

    Raises TcreadyError where there is no torch, or a call is none.
    """
    if importlib.util.find_spec("torch") is None:
        raise TcreadyError(f"torch is not installed in {sys.executable}: nothing was compiled")
    from tcready.dynamic.worker import live
    from tcready.dynamic.worker.target import Case, RunError, as_case

    try:
        cases = [
            as_case(f"call {number}" if len(calls) > 1 else None, call, f"call {number}")
            for number, call in enumerate(calls, 1)
        ]
    except RunError as error:
        raise TcreadyError(str(error)) from None
    return live.observe_live(
        value,
        cases or [Case(None, (), {})],
        mode=mode,
        root=os.path.realpath(root),
        own_packages=(*own_packages, *_package_of(value)),
        dynamic=dynamic,
        fullgraph=fullgraph,
        parity=parity,
        tolerance=tolerance,
    )


def _package_of(value: Any) -> tuple[str, ...]:
    """The installed package whose class or function `value` is; empty where it is of no such package."""
    owner = value if hasattr(value, "__qualname__") else type(value)
    module = sys.modules.get(getattr(owner, "__module__", None) or "")
    path = getattr(module, "__file__", None)
    if path is None or not is_installed(path):
        return ()
    return (display_path(path, os.sep).split("/")[0].removesuffix(".py"),)
