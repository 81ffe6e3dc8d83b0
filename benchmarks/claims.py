"""Under which versions of torch the claims of the rules hold: `analyzer/static/tables/claims.json`.

    python benchmarks/claims.py            derives the table and writes it
    python benchmarks/claims.py --check    exits 1 if the file says something else

A BAD sample of a rule marks the lines that its claims are about, and `fixtures/constructs/shown.json` holds what each
version did there. A claim with that rule and form holds under a version unless it was seen at none of these lines.
This prints the forms of which a version shows only a part: they need others that tell the two apart.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from constructs import RECORD, digest_of, exported  # puts the helpers of tests/ on the path
from reading import PINNED, RULES, read
from sample_runner import bad_lines, source_of
from tcready.portable.options import ReadOptions
from tcready.schema.enums import BREAKING
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.diagnostics.rule_page import Sample
from tcready.static.domain.facts import extent
from tcready.static.library.torch_versions import FOLDER, Version, with_tables

CLAIMS = FOLDER / "claims.json"
UNLIMITED = "TCR999"
CAUSES = [rule for rule in RULES if not rule.follows]
"""Rules that report the breaks from which others follow."""
OBSERVED = frozenset({*BREAKING, "recompile", "wrong_result"})
"""Effects that a run of a sample shows."""


def claims_of(rule: Rule, sample: Sample, version: Version, folder: Path) -> Iterator[tuple[int, Claim]]:
    """What is found by a rule on the marked lines of its sample, whatever the table says of the version."""
    path = folder / "sample.py"
    path.write_text(source_of(sample), encoding="utf-8")
    target = f"{path}::{'Model' if 'class Model' in sample.source else 'model'}"
    forms: dict[str, None] = {}
    _found(rule, target, version, folder, lambda claim: forms.setdefault(claim.form) is not None)
    lines = bad_lines(sample)
    for form in forms:  # one at a time: of two claims about one place, only one becomes a finding
        found = _found(rule, target, version, folder, lambda claim, form=form: claim.form == form)
        yield from ((line, claim) for line, claim in found if line in lines)


def _found(
    rule: Rule, target: str, version: Version, folder: Path, wanted: Callable[[Claim], bool]
) -> list[tuple[int, Claim]]:
    """The claims of a rule that are wanted and come to be findings, each with its line."""
    claims: dict[tuple[int, Claim], None] = {}

    def check(fact: Any) -> tuple[Claim, ...]:
        said = rule.check(fact)
        given = () if said is None else (said,) if isinstance(said, Claim) else tuple(said)
        found = tuple(claim for claim in given if wanted(claim))
        claims.update(dict.fromkeys((extent(fact)[0].lineno, claim) for claim in found))
        return found

    # The table holds nothing of a rule with this code.
    unlimited = dataclasses.replace(rule, code=UNLIMITED, check=check)
    result = read([target], ReadOptions(root=folder, torch=version), [unlimited, *CAUSES])
    told = {(finding.line, finding.message) for finding in result.findings if finding.rule == UNLIMITED}
    return [(line, claim) for line, claim in claims if (line, claim.message) in told]


def is_shown(outcome: dict[str, Any], line: int, effect: str, follows: bool, raises: str | None) -> bool:
    """Whether a run of a sample shows the effect that is claimed for a line. `follows`: the claim may be about a
    generator that Python runs, which is in no log. `raises`: the exception that the sample is about."""
    if effect == "compile_error":
        return outcome.get("raises") == raises
    if effect == "frame_skip" and not outcome.get("skipped") and not follows:
        return False
    if effect in BREAKING:
        broken = {broken for broken, _ in outcome.get("breaks", ())}
        return line in broken or (follows and line in outcome.get("generators", ()))
    if effect == "recompile":
        return any(outcome.get("recompiles", ())) and not outcome["breaks"]
    return "raises" in outcome or not outcome["same"]


def derived() -> tuple[dict[str, dict[str, list[str]]], list[str]]:
    """The table, and a line for each form whose claims do not agree under some version."""
    record = json.loads(RECORD.read_text("utf-8"))["samples"]
    digests = {sample["name"]: digest_of(sample["program"]) for sample in exported()}
    seen: dict[tuple[str, str, str], dict[bool, set[tuple[str, str]]]] = {}
    versions = with_tables()
    with tempfile.TemporaryDirectory() as folder:
        for rule in RULES:
            for number, sample in enumerate(rule.bad if rule.unproved is None else ()):
                name = f"rule {rule.code} bad{number}"
                if digests[name] != record.get(name, {}).get("digest"):
                    print(f"{name}: no record of the sample as it is", file=sys.stderr)
                    continue
                outcomes = {v: each for each in record[name]["outcomes"] for v in each["torch"]}
                raises = outcomes[_text(sample.torch or PINNED)].get("raises")
                for version in versions:
                    text = _text(version)
                    for line, claim in claims_of(rule, sample, version, Path(folder)):
                        effect = claim.effect or rule.effect
                        if text in outcomes and effect in OBSERVED:
                            shown = is_shown(outcomes[text], line, effect, rule.follows, raises)
                            place = f"bad{number}:{line}", effect
                            seen.setdefault((rule.code, claim.form, text), {}).setdefault(shown, set()).add(place)
    _leave_out_what_no_run_shows(seen)
    conflicts = [
        f"{code} {form!r}, torch {version}: shown at {_places(shown[True])}; not at {_places(shown[False])}"
        for (code, form, version), shown in seen.items()
        if len(shown) == 2
    ]
    table: dict[str, dict[str, list[str]]] = {}
    for code, form in sorted({(code, form) for code, form, _ in seen}):
        # Without a run under a version, the claim stands.
        gone = [v for c, f, v in seen if (c, f) == (code, form) and list(seen[c, f, v]) == [False]]
        if gone:
            table.setdefault(code, {})[form] = [v for v in map(_text, versions) if v not in gone]
    return table, conflicts


def _leave_out_what_no_run_shows(seen: dict[tuple[str, str, str], dict[bool, set[tuple[str, str]]]]) -> None:
    """Some effects are in no log: what no version shows says nothing about any."""
    shown = {(code, form): set() for code, form, _ in seen}
    for (code, form, _), places in seen.items():
        shown[code, form] |= places.get(True, set())
    for (code, form, version), places in list(seen.items()):
        missing = places.get(False, set()) & shown[code, form]
        seen[code, form, version] = {
            seen_there: found for seen_there, found in ((True, places.get(True)), (False, missing)) if found
        }


def _text(version: Version) -> str:
    return "{}.{}".format(*version)


def _places(found: set[tuple[str, str]]) -> str:
    return ", ".join(sorted(place for place, _ in found))


def text_of(table: dict[str, dict[str, list[str]]]) -> str:
    """JSON with a line for each rule."""
    rows = ",\n".join(f"{json.dumps(code)}: {json.dumps(forms)}" for code, forms in table.items())
    return f"{{\n{rows}\n}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="derive, compare, write nothing")
    check = parser.parse_args().check
    table, conflicts = derived()
    print("\n".join(conflicts), end="\n" if conflicts else "")
    text = text_of(table)
    if check:
        return int(not CLAIMS.exists() or CLAIMS.read_text("utf-8") != text)
    CLAIMS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
