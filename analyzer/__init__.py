"""Is a PyTorch model ready for torch.compile?

`check` lints targets, runs those that give their inputs, and returns the `Report` that every output is
rendered from; `observe` runs one target and returns the `Observation`. Importing this package loads no
dependency: they come with the first call.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcready.api import check, observe
    from tcready.schema import Observation, Report, TcreadyError

__all__ = ["Observation", "Report", "TcreadyError", "check", "observe"]

_HOME = {
    "Observation": "tcready.schema",
    "Report": "tcready.schema",
    "TcreadyError": "tcready.schema",
    "check": "tcready.api",
    "observe": "tcready.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
