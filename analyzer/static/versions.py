"""The construct-by-torch-version table: what an older torch does not trace and a newer one does.

Measured by running the samples of the rules and of fixtures/constructs under both (`benchmarks/constructs.py`,
torch 2.11.0 with Python 3.12 against torch 2.13.0 with Python 3.11); what 2.11 did is kept in
fixtures/constructs/shown-2.11.json. Versions between were not run: a construct counts as traced from the version
in which it was seen to be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tcready.schema import TcreadyError
from tcready.static import locate

Version: TypeAlias = "tuple[int, int]"
KNOWN: tuple[Version, ...] = ((2, 11), (2, 13))
NEWEST: Version = KNOWN[-1]


@dataclass(frozen=True)
class Change:
    """A construct that breaks the graph in a torch before `traced_since`."""

    names: tuple[str, ...]
    """Dotted external names; one that ends in a dot stands for all below it."""
    traced_since: Version
    gb_id: str
    """What the older torch says."""


CHANGES: tuple[Change, ...] = (
    Change(("copy.deepcopy",), (2, 13), "GB0179"),
    Change(("re.match", "re.search", "re.fullmatch", "re.findall", "re.sub"), (2, 13), "GB0023"),
    Change(("eval", "locals"), (2, 13), "GB0059"),
    Change(("textwrap.",), (2, 13), "GB0007"),
    Change(("torch.nn.Module.state_dict",), (2, 13), "GB0059"),
)


def change_of(name: str) -> Change | None:
    """The entry for a dotted external name."""
    for change in CHANGES:
        if any(name == n or (n.endswith(".") and name.startswith(n)) for n in change.names):
            return change
    return None


def version_of(text: str) -> Version:
    """`2.11`, `2.11.0` or `2.11.0+cu130` as (2, 11). Raises TcreadyError for anything else."""
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?(?:\+\w+)?", text.strip())
    if found is None or int(found[1]) != 2:
        raise TcreadyError(f"--torch-version {text}: give a version of torch 2, like 2.11")
    return int(found[1]), int(found[2])


def installed(search_path: tuple[Path, ...]) -> Version | None:
    """The version of the torch on a search path, read from its source; None if there is none."""
    path = locate.find_module("torch.version", search_path)
    try:
        text = path.read_text("utf-8", errors="replace") if path is not None else ""
    except OSError:
        return None
    found = re.search(r"^__version__\s*=\s*['\"](\d+)\.(\d+)", text, re.M)
    return (int(found[1]), int(found[2])) if found else None
