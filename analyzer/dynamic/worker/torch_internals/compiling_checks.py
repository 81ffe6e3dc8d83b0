"""Answer `torch.compiler.is_compiling()` and its kin in eager code."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch._dynamo.external_utils
import torch._utils

_ANSWER = "_tcready_answer"
"""The name of the answering function among the globals of each check."""


def _ask() -> bool:
    """Return the answer; each check gets this code for a time, and runs it with its own globals."""
    return bool(globals()["_tcready_answer"]())


@dataclass(frozen=True)
class CompilingCheck:
    """A line that asks whether it is compiled, and the line that called its function."""

    path: str
    line: int
    caller: tuple[str, int] | None


def _checks() -> tuple[types.FunctionType, ...]:
    """Return the functions of torch that say whether code is being compiled."""
    modules = (torch.compiler, torch._dynamo.external_utils, torch._utils)
    found = (getattr(module, name, None) for module in modules for name in ("is_compiling", "is_dynamo_compiling"))
    return tuple(dict.fromkeys(each for each in found if isinstance(each, types.FunctionType)))


@contextlib.contextmanager
def answered_checks(answer: Callable[[CompilingCheck], bool]) -> Iterator[None]:
    """Let `answer` decide the result of each check, wherever its function was imported. Nothing may be compiled
    within."""
    checks = _checks()
    files = {check.__code__.co_filename for check in checks}

    def answered() -> bool:
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename in files:
            frame = frame.f_back
        above = frame.f_back
        caller = None if above is None else (above.f_code.co_filename, above.f_lineno)
        return answer(CompilingCheck(frame.f_code.co_filename, frame.f_lineno, caller))

    usual = [(check, check.__code__) for check in checks]
    try:
        for check, code in usual:
            check.__globals__[_ANSWER] = answered
            check.__code__ = _ask.__code__.replace(co_filename=code.co_filename)
        yield
    finally:
        for check, code in usual:
            check.__code__ = code
            check.__globals__.pop(_ANSWER, None)
