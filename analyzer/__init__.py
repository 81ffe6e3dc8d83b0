"""Is a PyTorch model ready for torch.compile?

`check` reads targets, runs those that give their inputs, and returns the `Report` that every output is
rendered from; `observe` runs one target and returns the `Observation`. `load` reads a stored report,
`combine` merges several, `compare` compares two. The values are those of
the JSON report, field by field; a sequence is a tuple, and everything is frozen. An error that the caller can fix is
a `TcreadyError`.

    from tcready import check, exit_code, render

    report = check(["src/model.py"], run=False)
    for finding in report.findings:
        if finding.level == "error" and finding.origin == "own":
            print(f"{finding.path}:{finding.line}: {finding.rule} {finding.message}")
    with open("report.html", "w", encoding="utf-8") as page:
        page.write(render(report, "html"))
    print(exit_code(report, fail_on="error"))

Importing this package loads no dependency; the first call does.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcready.api import check, combine, compare, exit_code, load, observe, render
    from tcready.schema.comparison import Comparison
    from tcready.schema.enums import TcreadyError
    from tcready.schema.fix import Fix
    from tcready.schema.observation import Observation, Stage
    from tcready.schema.report import Region, Report, TargetReport
    from tcready.schema.run import BreakSite, Coverage, Recompile
    from tcready.schema.static import Finding

__all__ = [
    "BreakSite",
    "Comparison",
    "Coverage",
    "Finding",
    "Fix",
    "Observation",
    "Recompile",
    "Region",
    "Report",
    "Stage",
    "TargetReport",
    "TcreadyError",
    "check",
    "combine",
    "compare",
    "exit_code",
    "load",
    "observe",
    "render",
]


_HOMES = MappingProxyType(
    {
        "BreakSite": "tcready.schema.run",
        "Comparison": "tcready.schema.comparison",
        "Coverage": "tcready.schema.run",
        "Finding": "tcready.schema.static",
        "Fix": "tcready.schema.fix",
        "Observation": "tcready.schema.observation",
        "Recompile": "tcready.schema.run",
        "Region": "tcready.schema.report",
        "Report": "tcready.schema.report",
        "Stage": "tcready.schema.observation",
        "TargetReport": "tcready.schema.report",
        "TcreadyError": "tcready.schema.enums",
    }
)
"""The modules of exported names that are not in `tcready.api`."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "tcready.api")), name)


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext tcready`."""
    from tcready.integrations import ipython

    ipython.load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
