"""Writes docs/sbom.cdx.json: what tcready and its extras bring into an environment, as CycloneDX 1.6.

    python .ci/sbom.py > docs/sbom.cdx.json

Versions are those of constraints.txt, hashes those of .ci/requirements.txt; who needs whom, and licences, are what the
installed packages say. There is no date and no serial number in it: the same packages give the same bytes. What only
builds, tests or documents tcready is no part of it.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("torch", "notebook", "bench", "lsp", "mcp", "ray", "parquet")
"""Those that users install."""


def sbom() -> dict[str, Any]:
    """The whole document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    needed = [Requirement(text) for text in project["dependencies"]]
    more = [Requirement(text) for extra in EXTRAS for text in optional.get(extra, ())]
    always = _closure(needed)
    graph = {**_closure(more), **always}
    versions, hashes = _versions(), _hashes()
    own = f"pkg:pypi/{project['name']}@{project['version']}"
    refs = {name: f"pkg:pypi/{name}@{versions[name]}" for name in graph}
    direct = sorted({canonicalize_name(each.name) for each in (*needed, *more) if _holds(each)} & refs.keys())
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": project["name"],
                "version": project["version"],
                "purl": own,
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": refs[name],
                "name": name,
                "version": versions[name],
                "purl": refs[name],
                "scope": "required" if name in always else "optional",
                **({"licenses": licences} if (licences := _licences(name)) else {}),
                **({"hashes": [{"alg": "SHA-256", "content": hashes[name]}]} if name in hashes else {}),
            }
            for name in sorted(graph)
        ],
        "dependencies": [
            {"ref": own, "dependsOn": [refs[name] for name in direct]},
            *({"ref": refs[name], "dependsOn": [refs[each] for each in sorted(graph[name])]} for name in sorted(graph)),
        ],
    }  # fmt: skip


def _holds(needed: Requirement, extra: str = "") -> bool:
    environment = {**default_environment(), "extra": extra}
    return needed.marker is None or needed.marker.evaluate(environment)


def _closure(needed: list[Requirement]) -> dict[str, set[str]]:
    """The packages that are needed, with what each needs itself."""
    graph: dict[str, set[str]] = {}
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in needed if _holds(each)]
    seen = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found = list(_needed_by(name, extras))
        graph.setdefault(name, set()).update(each for each, _ in found)
        waiting += found
    return graph


def _needed_by(name: str, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in importlib.metadata.requires(name) or ():
        each = Requirement(text)
        if any(_holds(each, extra) for extra in ("", *extras)):
            yield canonicalize_name(each.name), frozenset(each.extras)


def _versions() -> dict[str, str]:
    """What constraints.txt pins for this Python."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            each = Requirement(line)
            if _holds(each):
                found[canonicalize_name(each.name)] = str(each.specifier).removeprefix("==")
    return found


def _hashes() -> dict[str, str]:
    text = (ROOT / ".ci" / "requirements.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^([\w.-]+)==\S+ --hash=sha256:([0-9a-f]{64})$", text, re.MULTILINE)
    return {canonicalize_name(name): digest for name, digest in rows}


def _licences(name: str) -> list[dict[str, Any]]:
    about = importlib.metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    classified = [
        text.rpartition(" :: ")[2]
        for text in about.get_all("Classifier") or ()
        if text.startswith("License :: OSI Approved :: ")
    ]
    short = (about.get("License") or "").strip()
    names = classified or ([short] if short and "\n" not in short and len(short) < 80 else [])
    return [{"license": {"name": each}} for each in names]


def written() -> str:
    return json.dumps(sbom(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(written())
