"""What one call did, as a caller sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from tcready.dynamic.worker.proof.sharing import Pair

LONG = 400
"""The number of characters of a printed value that are stored."""


@dataclass(frozen=True)
class Behaviour:
    """One call. It can be pickled: anything but tensors and plain values is stored as the name of its type."""

    error: str | None = None
    """The type of the raised exception."""
    message: str = ""
    outputs: list[Any] = field(default_factory=list)
    structure: list[str] = field(default_factory=list)
    differentiable: list[tuple[bool, bool]] = field(default_factory=list)
    """For each output, whether it requires grad, and whether it can have no part in autograd at all."""
    gradients: dict[str, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)
    """The arguments after the call, with their structure and which of them require grad."""
    state: dict[str, Any] = field(default_factory=dict)
    """Buffers and attributes of modules, whether they train, and the parameters that the call wrote to."""
    names: dict[str, Any] = field(default_factory=dict)
    """Changes to the names of the watched Python modules, and to their classes."""
    left: dict[str, Any] = field(default_factory=dict)
    """The new values of these names."""
    process: dict[str, Any] = field(default_factory=dict)
    """Settings of the whole process that the call changed, and files that it wrote."""
    shared: frozenset[Pair] = frozenset()
    """Values that share memory, and lists, dicts and sets that are the same object."""
    modules: dict[str, int] = field(default_factory=dict)
    """The number of calls of each module, and of its hooks; only for eager calls."""
    by_position: dict[str, int] = field(default_factory=dict)
    """The total number of positional arguments of each module."""
    written: dict[str, int] = field(default_factory=dict)
    """The number of later writes to the outputs of each module: its hooks may have stored them."""
    given: dict[str, list[tuple[float, tuple[int, ...]]]] = field(default_factory=dict)
    """The mean absolute output of each module, and its shape, call by call."""
    raised: bool = False
    """True if a `raise` or an `assert` of user code raised the exception."""
    printed: str = ""
    """Standard output and standard error, log messages and warnings."""
    random: str = ""
    strides: list[Any] = field(default_factory=list)
    """Strides of outputs that are strided tensors, without dimensions of length one."""
    warned: tuple[str, ...] = ()
    """Warnings from torch's own C++ code."""

    @property
    def is_comparable(self) -> bool:
        """True if a difference could be detected: there is an exception, or a value that is neither NaN nor infinite."""
        tensors = [each for each in self.outputs if isinstance(each, torch.Tensor)]
        if self.error is not None or not tensors:
            return True
        return any(bool(torch.isfinite(each).any()) for each in tensors if each.layout == torch.strided)


REPLACED = ", replaced by another object"
NOT_SAVED = ", a buffer that is not saved"
