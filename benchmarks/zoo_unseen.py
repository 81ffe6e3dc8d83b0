"""Builds small models of packages that nobody had looked at when tcready's rules were written.

There are twenty-five tables, of different packages, from unseen.toml (`MODELS`) and unseen2.toml (`FRESH`) to
unseen25.toml (`TWENTY_FIFTH`). unseen3.toml (`LEARNT`), unseen4.toml (`FOURTH`) and unseen8.toml (`EIGHTH`) were made to
learn from. The classes of unseen19.toml (`NINETEENTH`) were chosen by a script, by what could be made of their
signatures. What `record.py` says of their records tells which of them anybody has looked at. Random weights, tiny sizes,
CPU; nothing is downloaded. `benchmarks/record.py run zoo_unseen --zoo benchmarks ...` records the first, `run
zoo_unseen:FRESH` the second, and so on by the names below.
Models were taken for breadth of packages and kinds of work, not by what Dynamo does with them; no package gives more than
nine, in unseen2.toml, unseen7.toml, unseen9.toml, unseen11.toml and unseen12.toml no more than six, in unseen13.toml no
more than five, in unseen10.toml no more than four.
Every model that builds and runs eagerly is recorded, so none may be removed for its outcome. The target of a record is
the class of the built module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomllib


def build(imports: str, model: str, args: str = "", kwargs: str = "", before: str = "") -> tuple[Any, Any, Any]:
    """(module in eval mode, args, kwargs) from expressions; `B` is the batch, `R` randn, `RI` randint, `U` rand.

    imports: statements, `;`-separated; before: statements that run next; model, args, kwargs: expressions.
    """
    import torch

    names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "B": 2}
    names |= {"R": torch.randn, "RI": torch.randint, "U": torch.rand}
    for statements in (imports, before):
        exec("\n".join(line.strip() for line in statements.split(";")), names)
    module = eval(model, names)
    module.eval()  # not every package returns the module
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    torch.manual_seed(7)
    return module, eval(f"({args},)" if args else "()", names), eval(f"dict({kwargs})", names)


def _models(name: str) -> list[dict[str, Any]]:
    table = tomllib.loads((Path(__file__).resolve().parent / name).read_text("utf-8"))["model"]
    found = []
    for row in table:
        spec = {key: text for key, text in row.items() if key not in ("id", "package")}
        found.append(
            {
                "id": row["id"],
                "package": row["package"],
                "target": None,
                "spec": {"build": "zoo_unseen:build", "kwargs": spec},
            }
        )
    return found


MODELS: list[dict[str, Any]] = _models("unseen.toml")
FRESH: list[dict[str, Any]] = _models("unseen2.toml")
LEARNT: list[dict[str, Any]] = _models("unseen3.toml")
FOURTH: list[dict[str, Any]] = _models("unseen4.toml")
FIFTH: list[dict[str, Any]] = _models("unseen5.toml")
SIXTH: list[dict[str, Any]] = _models("unseen6.toml")
SEVENTH: list[dict[str, Any]] = _models("unseen7.toml")
EIGHTH: list[dict[str, Any]] = _models("unseen8.toml")
NINTH: list[dict[str, Any]] = _models("unseen9.toml")
TENTH: list[dict[str, Any]] = _models("unseen10.toml")
ELEVENTH: list[dict[str, Any]] = _models("unseen11.toml")
TWELFTH: list[dict[str, Any]] = _models("unseen12.toml")
THIRTEENTH: list[dict[str, Any]] = _models("unseen13.toml")
FOURTEENTH: list[dict[str, Any]] = _models("unseen14.toml")
FIFTEENTH: list[dict[str, Any]] = _models("unseen15.toml")
SIXTEENTH: list[dict[str, Any]] = _models("unseen16.toml")
SEVENTEENTH: list[dict[str, Any]] = _models("unseen17.toml")
EIGHTEENTH: list[dict[str, Any]] = _models("unseen18.toml")
NINETEENTH: list[dict[str, Any]] = _models("unseen19.toml")
TWENTIETH: list[dict[str, Any]] = _models("unseen20.toml")
TWENTY_FIRST: list[dict[str, Any]] = _models("unseen21.toml")
TWENTY_SECOND: list[dict[str, Any]] = _models("unseen22.toml")
TWENTY_THIRD: list[dict[str, Any]] = _models("unseen23.toml")
TWENTY_FOURTH: list[dict[str, Any]] = _models("unseen24.toml")
TWENTY_FIFTH: list[dict[str, Any]] = _models("unseen25.toml")
