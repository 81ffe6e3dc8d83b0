"""Records of calls of operators and functions that are not torch's own. This does not load torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tcready.schema.run import OpCheck

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Meta:
    """A tensor's metadata."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Meta:
        stride = tuple(tensor.stride()) if str(tensor.layout) == "torch.strided" else ()
        return cls(tuple(tensor.shape), stride, tensor.dtype, tensor.device)


@dataclass(frozen=True)
class Observed:
    """One call: its arguments before it, and its results. Tensors of the result are `Meta`."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    whole: bool
    """True if the tensors are copies of the arguments; otherwise they are `Meta`, because there were too many
    elements."""
    result: Any
    mutated: frozenset[int | str]
    """Positions and names of the tensor arguments that the call changed."""
    aliased: bool
    """True if the result is, or shares memory with, an argument."""
    wants_grad: bool


@dataclass(frozen=True)
class Seen:
    """An operator or function at one place of the user's code."""

    name: str
    kind: Literal["operator", "extension", "ctypes"]
    place: tuple[str, int, str]
    operator: Any = None
    call: Observed | None = None
    spelled: str = ""
    """The name of the function in the source."""
    labels: tuple[str, ...] = ()
    """The names of its positional arguments in the source; "" for an argument without a name."""
    in_graph: bool = False
    around: str | None = None
    case: str | None = None


@dataclass
class SeenCalls:
    """The calls seen so far, by name and place."""

    seen: dict[tuple[str, str, int], Seen] = field(default_factory=dict)
    checks: dict[str, tuple[OpCheck, ...]] = field(default_factory=dict)
    """By operator."""
