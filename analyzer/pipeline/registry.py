"""The installed tcready: its version, and its rules with the code that makes their diffs."""

from __future__ import annotations

import os
import re
import sys
from textwrap import indent
from typing import TYPE_CHECKING

from tcready.schema.enums import TcreadyError
from tcready.schema.report import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tcready.schema.edit import Edit
    from tcready.schema.static import RuleText
    from tcready.static.diagnostics.diagnose import Suggest
    from tcready.static.diagnostics.rule import FixCandidate, Rule
    from tcready.static.driver import RuleSet


def load_rules() -> tuple[Rule, ...]:
    """Load every rule, by code."""
    from tcready import rules

    return rules.load()


def rule_named(code: str) -> Rule:
    """Return the rule with this code or name. Raises TcreadyError, with a suggestion, if there is none."""
    known = {rule.code: rule for rule in load_rules()}
    by_name = {rule.name: rule for rule in known.values()}
    found = known.get(code.upper()) or by_name.get(code.lower())
    if found is None:
        from difflib import get_close_matches

        digits = re.sub(r"\D", "", code.upper().translate(str.maketrans("OIL", "011")))
        typed = [each for each in (f"TCR{digits}",) if each in known]
        near = [*typed, *get_close_matches(code.lower(), by_name, n=1)][:1]
        hint = f": did you mean {near[0]}?" if near else ""
        raise TcreadyError(f"there is no rule {code}{hint} (`tcready rules` lists them)")
    return found


def advice() -> dict[str, RuleText]:
    """Return the advice for each type of break that only a run shows, by its ID: the text of its page, or of the
    only rule that claims it. Breaks without a type are listed under the finding's name."""
    from tcready.pipeline import break_pages

    found: dict[str, RuleText] = {}
    for rule in load_rules():
        text = rule.text()
        found |= dict.fromkeys(rule.gb_ids, text)
    return found | {text.code: text for text in break_pages.texts()}


def version() -> str:
    """Return the version of the installed tcready; `0+unknown` for a source tree that is not installed."""
    # `importlib.metadata` takes longer to load than a warm check
    for folder in filter(os.path.isdir, sys.path):
        for name in os.listdir(folder):
            if name.startswith("tcready-") and name.endswith(".dist-info"):
                return name.removeprefix("tcready-").removesuffix(".dist-info")
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("tcready")
    except PackageNotFoundError:
        return "0+unknown"


def tool() -> Tool:
    return Tool("tcready", version())


def torch_for(named: tuple[int, int] | None, root: Path, python: str | None = None) -> tuple[int, int]:
    """Return the torch version to predict for: the named one, else that of the environment of `python`, which runs the
    model, else the installed one, else the newest known."""
    from tcready.static.frontend import module_search
    from tcready.static.library import torch_versions as versions

    beside = versions.installed_beside(python) if python else None
    known = named or beside or versions.installed(module_search.default_search_path(root))
    return known if known is not None else versions.with_tables()[-1]


def warn_no_tables(torch: tuple[int, int]) -> tuple[str, ...]:
    """Return a warning if there are no tables for the torch version to predict for."""
    from tcready.static.library import torch_versions as versions

    predicted = versions.predicted_by(torch, versions.with_tables())
    named, other = (f"{major}.{minor}" for major, minor in (torch, predicted))
    if torch == predicted:
        return ()
    why = "is older than the oldest known version" if torch < predicted else "is not known to this tcready"
    return (f"torch {named} {why}: the predictions are those for torch {other}",)


def require_tables(versions: Iterable[tuple[int, int]]) -> None:
    """Raise TcreadyError for a version of torch without predictions of its own."""
    from tcready.static.library import torch_versions

    known = torch_versions.with_tables()
    unknown = next((each for each in versions if each not in known), None)
    if unknown is not None:
        named, first, last = ("{}.{}".format(*each) for each in (unknown, known[0], known[-1]))
        raise TcreadyError(f"torch {named} has no predictions of its own: compare versions from {first} to {last}")


def page_of(rule: Rule) -> str:
    """Return the page of a rule as text, with its rewrite of a sample, or why there is no rewrite."""
    from tcready.fixes.rewriting.page_example import example

    made = example(rule)
    if made is not None:
        how = " ".join(f"{each}." for each in made.how)
        of = "" if made.before == rule.before else f"Before:\n\n{indent(made.before, '    ')}\n\nAfter:\n\n"
        return f"{rule.document}\n## Rewrite\n\n{how}\n\n{of}{indent(made.after, '    ')}\n"
    return f"{rule.document}\n## Rewrite\n\n{rule.no_rewrite}\n" if rule.no_rewrite else rule.document


def is_of_a_run(code: str) -> bool:
    """Return True if it looks like the ID of a type of break, or names a finding of runs without a type:
    `recompile`."""
    from tcready.pipeline import break_pages

    return bool(re.fullmatch(r"(?i)GB\d+", code)) or any(code.lower() in p.findings for p in break_pages.load())


def page_of_break(code: str) -> str:
    """Return the page of a type of break in PyTorch's registry, or of a finding without a type, as text. Raises
    TcreadyError for an unknown ID."""
    from tcready.pipeline import break_pages
    from tcready.static.library import torch_tables
    from tcready.static.library import torch_versions as versions

    without_type = next((page for page in break_pages.load() if code.lower() in page.findings), None)
    if without_type is not None:
        return f"{without_type.name}: {without_type.page.strip()}\n"
    wanted = code.upper()
    registries = {version: torch_tables.load(version).registry for version in versions.with_tables()}
    having = [version for version, registry in registries.items() if wanted in registry]
    if not having:
        raise TcreadyError(f"there is no type of break {wanted} in torch {_versions(registries)}")
    rules = [rule for rule in load_rules() if wanted in rule.gb_ids]
    title = f"{wanted} {registries[having[-1]][wanted]} (torch {_versions(having)})"
    predicted = f"Predicted by: {', '.join(f'{rule.code} {rule.name}' for rule in rules)}\n\n" if rules else ""
    page = next((page for page in break_pages.load() if wanted in page.gb_ids), None)
    return f"{title}\n\n{predicted}{page.document(wanted) if page else page_of(rules[0])}"


def _versions(versions: Iterable[tuple[int, int]]) -> str:
    return ", ".join(f"{major}.{minor}" for major, minor in versions)


def _suggest(suspects: Sequence[FixCandidate]) -> Iterable[tuple[Edit, ...]]:
    from tcready.fixes.rewriting.suggestions import suggest

    return suggest(suspects)


def _suggesting(likely: Path | None) -> AbstractContextManager[Suggest]:
    from tcready.fixes.rewriting.suggestion_process import suggest_in_process

    return suggest_in_process(load_rules, likely)


def rule_set() -> RuleSet:
    from tcready.static.driver import RuleSet

    shared = ("tcready", "tcready.pipeline", "tcready.portable.*", "tcready.schema", "tcready.source.*")
    packages = (*shared, "tcready.static.*", "tcready.rules.*", "tcready.fixes.*")
    return RuleSet(load_rules, tool, _suggest, _suggesting, packages)
