"""What Dynamo makes of a member of an enum, where Python takes it for the number or the text that it is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch._dynamo import exc

from deriving import trying


class Number(enum.IntEnum):
    """Members that are numbers."""

    A = 0
    B = 1


class Text(str, enum.Enum):
    """Members that are texts."""

    A = "a"
    B = "b"


USES: Mapping[str, Callable[[torch.Tensor], Any]] = MappingProxyType(
    {
        "tensor equality": lambda x: x == Number.B,
        "tensor order": lambda x: x < Number.B,
        "tensor contained": lambda x: x[0] in (Number.A, Number.B),
        "tensor arithmetic": lambda x: x + Number.B,
        "tensor index": lambda x: x[Number.B],
        "tensor dimension": lambda x: x.sum(Number.A),
        "list index": lambda x: x * [2, 3][Number.B],
        "tuple index": lambda x: x * (2, 3)[Number.B],
        "range index": lambda x: x * range(4)[Number.B],
        "size index": lambda x: x * x.shape[Number.A],
        "module index": lambda x: LAYERS[Number.B](x),
        "text index": lambda x: x * len("abc"[Number.B]),
        "slice": lambda x: x * len([1, 2, 3][Number.B :]),
        "float": lambda x: x * float(Number.B),
        "int": lambda x: x * int(Number.B),
        "range": lambda x: x * len(range(Number.B)),
        "number method": lambda x: x * Number.B.bit_length(),
        "number arithmetic": lambda x: x * (Number.B + 2),
        "number order": lambda x: x * (Number.A < Number.B),
        "number truth": lambda x: x + 1 if Number.A else x - 1,
        "text method": lambda x: x + 1 if Text.A.upper() == "A" else x - 1,
        "text walk": lambda x: x * len([letter for letter in Text.A]),  # noqa: C416 - it is the walk that is tried
        "text containment": lambda x: x + 1 if "a" in Text.A else x - 1,
        "text sum": lambda x: x + 1 if Text.A + "x" == "ax" else x - 1,
        "text length": lambda x: x * len(Text.A),
        "text equality": lambda x: x + 1 if Text.A == "a" else x - 1,
    }
)
LAYERS = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.ReLU()])


def members(only: Collection[str] | None = None) -> dict[str, str]:
    """Each use that Dynamo does not make of a member what Python makes of it: the id of a break, `raises` if tracing
    raises an error of another kind, `differs` if what comes out is not what eager code gives."""
    found = {name: _outcome(use) for name, use in USES.items() if only is None or name in only}
    return {name: outcome for name, outcome in found.items() if outcome}


def _outcome(use: Callable[[torch.Tensor], Any]) -> str:
    x = torch.tensor([1.0, 2.0])
    expected = use(x)
    torch._dynamo.reset()
    with trying.quiet(), torch._dynamo.error_on_graph_break(True):
        try:
            given = torch.compile(use, backend="eager", dynamic=False)(x)
        except exc.Unsupported as error:
            return trying.gb_id(str(error))
        except Exception:
            return "raises"
    return "" if torch.equal(torch.as_tensor(given), torch.as_tensor(expected)) else "differs"
