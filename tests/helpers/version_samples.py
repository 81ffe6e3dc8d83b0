"""What the static pass says of every sample for each version of torch, beside what that version showed.

`fixtures/constructs/shown.json` holds what each version showed (`benchmarks/constructs.py`), `deviations.json` beside it
the samples of which the static pass says something else, each with the reason. Needs no torch.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import construct_samples
from reading import RULES, read
from sample_runner import cause_lines, following_lines, source_of
from tcready.portable.options import ReadOptions
from tcready.schema.enums import BREAKING, Mode
from tcready.schema.static import Finding
from tcready.static.library.torch_versions import Version

FOLDER = construct_samples.FOLDER
SHOWN: Mapping[str, Any] = json.loads((FOLDER / "shown.json").read_text("utf-8"))
FOLLOWING = frozenset(rule.code for rule in RULES if rule.follows)
OF_GENERATORS = frozenset(rule.code for rule in RULES if "GB0003" in rule.gb_ids)
"""Rules that report generators which Dynamo is asked to compile by themselves: that break is in no log."""
UNPROVED = frozenset(rule.code for rule in RULES if rule.unproved is not None)


@dataclass(frozen=True)
class VersionSample:
    """A sample by the name that `benchmarks/constructs.py` gives it, and how it is read."""

    name: str
    text: str
    rule: str | None = None
    """The rule whose sample it is: notes of other rules are not about it."""
    mode: Mode = "infer"
    again: bool = False
    """It is called once more with other values, after three calls with the same."""
    untold: frozenset[int] = frozenset()
    """Lines that break in a run only, or because another line did."""


def samples() -> Iterator[VersionSample]:
    """Every sample of the rules whose claims a run can show, and of the measured constructs."""
    for rule in RULES:
        if rule.unproved is not None:
            continue
        for kind, group in (("bad", rule.bad), ("good", rule.good)):
            for number, sample in enumerate(group):
                untold = following_lines(sample) | cause_lines(sample)
                yield VersionSample(
                    f"rule {rule.code} {kind}{number}",
                    source_of(sample),
                    rule.code,
                    again=sample.again is not None,
                    untold=frozenset(line for line in untold if line),
                )
    for construct in construct_samples.samples():
        yield VersionSample(
            f"{construct.section}: {construct.row}",
            construct.text + _settings(construct.options.get("config", "")),
            mode="train" if construct.options["train"] else "infer",
            again="again" in construct.options,
            untold=frozenset(line for line, _ in construct.only_run),
        )


def _settings(config: str) -> str:
    """The settings of a sample's run, as statements of its file."""
    given = ast.parse(f"dict({config})", mode="eval").body
    assert isinstance(given, ast.Call)
    return "".join(f"\ntorch._dynamo.config.{k.arg} = {ast.unparse(k.value)}\n" for k in given.keywords)


def shown_by(name: str, version: Version) -> Mapping[str, Any] | None:
    """What a version showed of a sample; None if it was not run."""
    text = "{}.{}".format(*version)
    outcomes = SHOWN["samples"].get(name, {}).get("outcomes", ())
    return next((outcome for outcome in outcomes if text in outcome["torch"]), None)


def deviation(sample: VersionSample, version: Version, folder: Path) -> str:
    """How the static pass differs from what the version did; empty if it does not, or if nothing was recorded."""
    outcome = shown_by(sample.name, version)
    if outcome is None:
        return ""
    found = findings(sample, version, folder)
    effects = {finding.effect for finding in found if finding.rule not in UNPROVED}
    if "raises" in outcome:
        told = effects & {"compile_error", "wrong_result"}
        return "" if told else f"raises {outcome['raises']}, and nothing is told of it"
    # A warning is about calls with other values.
    raising = {f.level for f in found if f.effect == "compile_error"}
    if "error" in raising or (raising and sample.again):
        return "an error is told, and none was raised"
    told = {f.line for f in found if f.effect in BREAKING and f.effect != "compile_error"}
    untold = {f.line for f in found if f.rule in OF_GENERATORS} & {*outcome["generators"]}
    broken = {line for line, _ in outcome["breaks"]} | untold
    if missed := broken - told - sample.untold:
        return f"breaks on {_lines(missed)}, which is not told"
    if invented := told - broken:
        return f"a break is told on {_lines(invented)}, which does not break"
    if "frame_skip" in effects and not outcome["skipped"] and not untold:
        return "a skipped frame is told, and none was skipped"
    return "" if broken else _otherwise(sample, found, effects, outcome)


def _otherwise(sample: VersionSample, found: list[Finding], effects: set[str], outcome: Mapping[str, Any]) -> str:
    """The same for a sample without breaks: recompilations and wrong results."""
    if ("wrong_result" in effects) is outcome["same"]:
        return "wrong results are told" if outcome["same"] else "results differ, which is not told"
    levels = {f.level for f in found if f.effect == "recompile" and f.rule not in UNPROVED}
    _, second, third, *other = outcome["recompiles"]
    if not levels:
        return "compiles again, which is not told" if second or third or any(other) else ""
    if "error" in levels:
        return "" if third or (not second and any(other)) else "compiling at every call is told"
    return "" if second or any(other) else "compiling again is told"


def findings(sample: VersionSample, version: Version, folder: Path) -> list[Finding]:
    """The findings of a sample in the default dtype; for a rule's sample, without notes of other rules."""
    path = folder / "sample.py"
    path.write_text(sample.text, encoding="utf-8")
    name = "Model" if "class Model" in sample.text else "model"
    options = ReadOptions(root=folder, mode=sample.mode, third_party=False, torch=version)
    result = read([f"{path}::{name}"], options)
    assert not result.skipped
    return [
        f
        for f in result.findings
        if not f.dtypes and (sample.rule in (None, f.rule) or (f.level != "note" and sample.rule not in FOLLOWING))
    ]


def _lines(numbers: set[int]) -> str:
    return "line " + ", ".join(map(str, sorted(numbers)))
