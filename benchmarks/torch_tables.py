"""What this interpreter's torch does, written down for the static pass: `analyzer/static/tables/torch-VERSION.json`.

    python benchmarks/torch_tables.py                     derives every table and writes the file
    python benchmarks/torch_tables.py --check             exits 1 if the file says something else
    python benchmarks/torch_tables.py --names torch.max   prints what is derived of some names, and writes nothing

Nothing in it is typed by hand: Dynamo's own rules are asked, and where these cannot decide a small function is compiled
(`deriving/`). It needs torch, numpy and this folder. `--parts FOLDER` keeps each table there as soon as it is
derived, and takes up what it finds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Dynamo asks for the GPU's state, which no forked process can

import torch
from deriving import calls, constructors, members, names, operators, others, samples, trying

ROOT = Path(__file__).resolve().parent.parent
TABLES = ROOT / "analyzer" / "static" / "tables"


def target() -> Path:
    major, minor = torch.__version__.split(".")[:2]
    return TABLES / f"torch-{major}.{minor}.json"


def grouped(table: dict[str, str]) -> dict[str, dict[str, str]]:
    """description -> prefix -> the last parts of all names with that description and prefix."""
    groups: dict[str, dict[str, list[str]]] = {}
    for name, text in sorted(table.items()):
        prefix, _, last = name.rpartition(".")
        groups.setdefault(text, {}).setdefault(prefix, []).append(last)
    return {text: {p: " ".join(lasts) for p, lasts in group.items()} for text, group in sorted(groups.items())}


def told_by_operators(table: dict[str, list[str]], operations: dict[str, list[str]]) -> dict[str, list[str]]:
    """The calls, those of operations by what torch's own sample inputs showed: made-up arguments fit less well.

    `forms` says that some forms of an operation break and others do not.
    """
    told = dict(table)
    for name, forms in operations.items():
        observed = [form for form in forms if " ? ? " not in form]
        if name not in told or not observed:
            continue
        ids = [re.search(r" (GB\d+)$", form) for form in observed]
        broken = sorted({found[1] for found in ids if found})
        outcome = "traced" if not broken else "break" if all(ids) else "forms"
        told[name] = [told[name][0], outcome, broken[0] if broken else ""]
    return told


def derive(processes: int, parts: Path | None = None, only: set[str] | None = None) -> dict[str, Any]:
    """Every table, before it is packed."""
    found = names.callables()
    found.update(names.methods(found))
    few = found if only is None else {name: value for name, value in found.items() if name in only}
    trying.warm()

    def kept(name: str, make: Callable[[], Any]) -> Any:
        path = parts / f"{name}.json" if parts else None
        if path is not None and path.exists():
            return json.loads(path.read_text("utf-8"))
        made = make()
        if path is not None:
            path.write_text(json.dumps(made, indent=0, sort_keys=True), "utf-8")
        return made

    tables = {"calls": kept("calls", lambda: calls.derive(found, processes, only))}
    tables["contexts"] = kept("contexts", lambda: others.contexts(few, processes))
    tables["decorators"] = kept("decorators", lambda: others.decorators(few, processes, only))
    tables["distributions"] = kept("distributions", lambda: others.distributions(processes, only))
    samples.modules()
    trying.warm()
    tables["modules"] = kept("modules", lambda: others.modules(processes, only))
    tables["arguments"] = kept("arguments", lambda: others.arguments(processes, only))
    tables["constructors"] = kept("constructors", lambda: constructors.constructors(only))
    infos = operators.infos_of(operators.operations(found))
    trying.warm()
    tables["operators"] = kept("operators", lambda: operators.derive(found, processes, infos, only))
    tables["calls"] = told_by_operators(tables["calls"], tables["operators"])
    tables["members"] = members.members(only)
    if only is None:
        tables["attributes"] = others.attributes()
        tables["config"] = others.config()
        tables["registry"] = others.registry()
        tables["while_tracing"] = others.constants_while_tracing(found)
        tables["files"] = names.module_lists()
    return tables


def packed(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables as they are stored: names grouped by what is said of them."""
    data: dict[str, Any] = {
        "torch": torch.__version__.partition("+")[0],
        "python": "{}.{}".format(*sys.version_info[:2]),
    }
    for name in ("files", "config", "registry", "while_tracing", "members"):
        data[name] = tables[name]
    for name in ("calls", "contexts", "decorators", "distributions", "modules", "arguments", "constructors"):
        data[name] = grouped({key: "|".join(words) for key, words in tables[name].items()})
    data["attributes"] = grouped({f"torch.Tensor.{key}": text for key, text in tables["attributes"].items()})
    data["operators"] = grouped({key: "; ".join(forms) for key, forms in tables["operators"].items()})
    return data


def text_of(data: dict[str, Any]) -> str:
    """JSON with a line for each entry of each table."""
    lines = ["{"]
    for number, (name, value) in enumerate(data.items()):
        comma = "," if number < len(data) - 1 else ""
        if not isinstance(value, dict):
            lines.append(f"{json.dumps(name)}: {json.dumps(value)}{comma}")
            continue
        lines.append(f"{json.dumps(name)}: {{")
        rows = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in value.items()]
        lines.extend(row + "," for row in rows[:-1])
        lines.extend([*rows[-1:], "}" + comma])
    return "\n".join([*lines, "}", ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="derive, compare, write nothing")
    parser.add_argument("--names", nargs="+", help="derive these names only and print what is found")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--parts", type=Path, help="folder of tables derived before")
    parser.add_argument("-o", "--output", type=Path, help="where to write; beside the other versions by default")
    options = parser.parse_args()
    if options.names:
        print(json.dumps(derive(options.processes, only=set(options.names)), indent=1))
        return 0
    if options.parts:
        options.parts.mkdir(parents=True, exist_ok=True)
    text = text_of(packed(derive(options.processes, options.parts)))
    path = options.output or target()
    if options.check:
        stale = not path.exists() or path.read_text("utf-8") != text
        print(f"{path.name}: {'stale' if stale else 'as derived'}")
        return int(stale)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    print(f"{path}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
