"""Builds small models of packages that nobody had looked at when tcready's rules were written.

There are twenty-one tables, of different packages: unseen.toml (`MODELS`), unseen2.toml (`FRESH`), made later, and
unseen3.toml (`LEARNT`) and unseen4.toml (`FOURTH`), which were made to learn from: each measured the rules once, before
anything was learnt from it, and measures nothing since. unseen5.toml (`FIFTH`) was small; of one half of the packages
of unseen6.toml (`SIXTH`) and of unseen7.toml (`SEVENTH`) only totals are read. unseen8.toml (`EIGHTH`) was made to learn
from; of one half of the packages of unseen9.toml (`NINTH`) only totals were read until it was measured. Of one half
of unseen10.toml (`TENTH`), of unseen11.toml (`ELEVENTH`), of unseen12.toml (`TWELFTH`) and of unseen13.toml
(`THIRTEENTH`) only totals are read, and so they were of unseen14.toml (`FOURTEENTH`), made beside it, until it was
measured. Of one half of unseen15.toml (`FIFTEENTH`) only totals are read, and so they were of unseen16.toml
(`SIXTEENTH`), of unseen17.toml (`SEVENTEENTH`) and of unseen18.toml (`EIGHTEENTH`) until they were measured. The classes
of unseen19.toml (`NINETEENTH`) were chosen by a script, by what could be made of their signatures; of one half of them
only totals are read, and so they are of one half of unseen20.toml (`TWENTIETH`) and of unseen21.toml (`TWENTY_FIRST`),
whole models again.
Random weights, tiny sizes, CPU; nothing is downloaded. `benchmarks/record.py run zoo_unseen --zoo benchmarks ...` records
the first, `run zoo_unseen:FRESH` the second, `run zoo_unseen:LEARNT` the third, `run zoo_unseen:FOURTH` the fourth,
`run zoo_unseen:FIFTH` the fifth, `run zoo_unseen:SIXTH` the sixth, `run zoo_unseen:SEVENTH` the seventh,
`run zoo_unseen:EIGHTH` the eighth, `run zoo_unseen:NINTH` the ninth, `run zoo_unseen:TENTH` the tenth,
`run zoo_unseen:ELEVENTH` the eleventh, `run zoo_unseen:TWELFTH` the twelfth, `run zoo_unseen:THIRTEENTH` the thirteenth.
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


def build(
    imports: str, model: str, args: str = "", kwargs: str = "", before: str = ""
) -> tuple[Any, Any, Any]:
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
