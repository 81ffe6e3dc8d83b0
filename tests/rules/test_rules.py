"""Every rule's page, and its claim against the real Dynamo and against the static engine."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from reading import PINNED, RULES, read
from sample_runner import bad_lines, cause_lines, eager, following_lines, run, source_of
from tcready.portable.options import ReadOptions
from tcready.schema.enums import Level
from tcready.schema.static import Finding
from tcready.static.diagnostics.rule import Rule
from tcready.static.diagnostics.rule_page import Sample
from tcready.static.library.torch_tables import load
from tcready.static.library.torch_versions import FOLDER, with_tables
from version_samples import OF_GENERATORS, shown_by

if TYPE_CHECKING:
    from dynamo_runs import Run

PROVED = [rule for rule in RULES if rule.unproved is None]
FAMILIES = {
    "1": {"graph_break", "frame_skip", "recompile", "wrong_result"},
    "2": {"graph_break", "frame_skip"},
    "3": {"graph_break", "frame_skip", "recompile", "wrong_result"},
    "4": {"graph_break", "frame_skip", "compile_error"},
    "5": {"recompile"},
    "6": {"sync", "cudagraph_skip", "slow"},
}
FOLDERS = {"1": "control_flow", "2": "values", "3": "side_effects", "4": "extensions", "5": "recompilation"}
"""The folder of a rule, by the digit of its family."""


def cases(kind: str) -> list[object]:
    return [
        pytest.param(rule, sample, id=f"{rule.code}-{kind}{number}")
        for rule in PROVED
        for number, sample in enumerate(rule.bad if kind == "bad" else rule.good)
    ]


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of its own for each sample: Dynamo, linecache and sys.modules all go by name."""
    name = re.sub(r"\W", "_", request.node.callspec.id)
    return tmp_path / f"sample_{name}.py"


# pages


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page(rule: Rule) -> None:
    assert re.fullmatch(r"TCR[1-6]\d\d", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert 20 <= len(rule.summary) <= 100
    assert rule.summary.endswith(".")
    headings = re.findall(r"^## (.*)$", rule.page, re.M)
    assert headings == ["What it does", "Why it hurts torch.compile", "Use instead", "Limits"]
    for heading in headings:
        assert len(rule.section(heading)) > 40, f"{heading} says nothing"
    assert rule.bad
    assert rule.good
    assert rule.after
    assert "# BAD" not in rule.before + rule.after
    assert rule.effect in FAMILIES[rule.code[3]]
    if rule.effect in ("graph_break", "frame_skip"):
        assert rule.gb_ids
        assert rule.level != "note"
    for sample in rule.bad:
        assert bad_lines(sample)
    for sample in rule.good:
        assert not bad_lines(sample)


def test_names_are_unique_and_files_are_named_after_them() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    expected = {f"{FOLDERS[rule.code[3]]}/{rule.name.replace('-', '_')}" for rule in RULES}
    folder = Path(__file__).parents[2] / "rules"
    for kind in ("py", "md"):
        files = [path for family in FOLDERS.values() for path in (folder / family).glob(f"[!_]*.{kind}")]
        assert {path.relative_to(folder).with_suffix("").as_posix() for path in files} == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_the_module_has_the_summary_of_the_page(rule: Rule) -> None:
    assert sys.modules[rule.module].__doc__ == rule.summary


@pytest.mark.torch
def test_gb_ids_exist() -> None:
    """Every predicted id is one that this torch, or another that the static pass knows, can show."""
    from torch._dynamo.exc import _load_gb_type_to_gb_id_map

    known = {*_load_gb_type_to_gb_id_map().values()}.union(*(load(version).registry for version in with_tables(FOLDER)))
    for rule in RULES:
        assert all(re.fullmatch(r"GB\d{4}", gb) for gb in rule.gb_ids), rule.code
        assert not rule.gb_ids or known & set(rule.gb_ids), rule.code


# the claim, under Dynamo


@pytest.mark.torch
@pytest.mark.pinned
@pytest.mark.parametrize(("rule", "sample"), cases("bad"))
@pytest.mark.sampled(3)
def test_bad_sample_shows_the_claim(rule: Rule, sample: Sample, path: Path) -> None:
    """What lint says of the sample (a claim may differ from its rule's default) is what Dynamo does."""
    if sample.torch is not None:
        show_recorded(rule, sample, path)
        return
    told = {(finding.effect, finding.level) for finding in findings(sample, path, rule)}
    assert len(told) == 1, told
    effect, level = told.pop()
    if effect == "recompile":
        show_recompile(rule, level, sample, run(sample, path, dynamic=True if sample.again else None))
    elif effect == "wrong_result":
        show_wrong_result(sample, path)
    elif effect == "compile_error":
        eager(sample, path)
        show_error(sample, path)
    else:
        seen = run(sample, path, calls=1)
        expected = bad_lines(sample) | following_lines(sample) | cause_lines(sample)
        generators = seen.generators if rule.code in OF_GENERATORS else set()
        assert seen.lines | generators == expected, [b.text[:400] for b in seen.breaks]
        own = [b for b in seen.breaks if b.line not in cause_lines(sample)]
        assert {b.gb_id for b in own} <= set(rule.gb_ids)
        assert rule.follows == bool(cause_lines(sample))
        if effect == "frame_skip":
            assert seen.skipped or generators


def show_recorded(rule: Rule, sample: Sample, path: Path) -> None:
    """Another torch broke at the marked lines, as its record says, and this one does not."""
    assert sample.raises or not run(sample, path, calls=1).breaks
    assert sample.torch is not None
    shown = shown_by(f"rule {rule.code} bad{rule.bad.index(sample)}", sample.torch)
    assert shown is not None
    if sample.raises:
        assert shown["raises"]
        return
    assert {line for line, _ in shown["breaks"]} == bad_lines(sample)
    assert {gb for _, gb in shown["breaks"]} <= set(rule.gb_ids)


def show_recompile(rule: Rule, level: Level, sample: Sample, seen: Run) -> None:
    """An error recompiles at every identical call, a warning once or for other values; the guard names it, or what
    stands on Python's stack at the break that it follows."""
    assert seen.lines == cause_lines(sample)
    assert rule.follows == bool(cause_lines(sample))
    first, second = seen.recompiles[1], seen.recompiles[2]
    if sample.again:
        assert not first
        told = seen.recompiles[-1]
    else:
        assert bool(second) == (level == "error")
        told = first
    assert told
    if rule.follows:
        assert any("___stack" in reason for reason in told), told
        return
    lines = source_of(sample).splitlines()
    named = {word for line in bad_lines(sample) for word in re.findall(r"[a-zA-Z]\w*", lines[(line or 0) - 1])}
    guards = {word for reason in told for word in re.findall(r"[a-zA-Z]\w*", reason.split("#")[0])}
    assert (named & guards) - {"self", "len", "not"}, told


def show_error(sample: Sample, path: Path) -> None:
    """Dynamo's own error, and the one that the sample tells, comes out of the compiled model."""
    import torch

    assert sample.raises, "the sample does not say which error"
    with pytest.raises(torch._dynamo.exc.TorchDynamoException, match=sample.raises):
        run(sample, path)


def show_wrong_result(sample: Sample, path: Path) -> None:
    """Captured whole, and what comes out is not what eager gives: other values, or an error that eager handles."""
    import torch

    expected = eager(sample, path)
    if sample.raises:
        show_error(sample, path)
        return
    seen = run(sample, path)
    assert not seen.breaks
    with pytest.raises(AssertionError):
        torch.testing.assert_close(seen.outputs, expected)


@pytest.mark.torch
@pytest.mark.pinned
@pytest.mark.parametrize(("rule", "sample"), cases("good"))
@pytest.mark.sampled(3)
def test_good_sample_is_harmless(rule: Rule, sample: Sample, path: Path) -> None:
    import torch

    expected = eager(sample, path)
    seen = run(sample, path, dynamic=True if sample.again else None)
    assert not seen.breaks, [b.text[:400] for b in seen.breaks]
    assert not seen.skipped
    assert not any(seen.recompiles), seen.recompiles
    torch.testing.assert_close(seen.outputs, expected)
    whole = run(sample, path, calls=1, fullgraph=True)
    torch.testing.assert_close(whole.outputs[0], expected[0])


# the claim, from the source alone


@pytest.mark.parametrize(("rule", "sample"), cases("bad"))
def test_lint_finds_the_bad_lines(rule: Rule, sample: Sample, path: Path) -> None:
    found = lint_of(sample, path, rule)
    assert {line for code, line in found} == bad_lines(sample), found
    assert {code for code, line in found} == {rule.code}, found


@pytest.mark.parametrize(("rule", "sample"), cases("good"))
def test_lint_is_silent_on_the_good(rule: Rule, sample: Sample, path: Path) -> None:
    assert not lint_of(sample, path, rule)


def lint_of(sample: Sample, path: Path, rule: Rule) -> set[tuple[str | None, int]]:
    """(code, line) of what `findings` holds."""
    return {(finding.rule, finding.line) for finding in findings(sample, path, rule)}


def findings(sample: Sample, path: Path, rule: Rule) -> list[Finding]:
    """What lint says of a sample of `rule`, without notes of other rules and what is told of packages; nor is what follows
    from another rule's break held against either."""
    path.write_text(source_of(sample), encoding="utf-8")
    name = "Model" if "class Model" in sample.source else "model"
    options = ReadOptions(root=path.parent, torch=sample.torch or PINNED)
    result = read([f"{path}::{name}"], options)
    assert not result.skipped
    own = [f for f in result.findings if f.origin == "own"]
    following = {each.code for each in RULES if each.follows}
    others = () if rule.follows else [f for f in own if f.level != "note" and f.rule not in following]
    return [f for f in own if f.rule == rule.code or f in others]


@pytest.mark.torch
@pytest.mark.pinned
def test_what_takes_no_bool_raises_for_a_comparison_with_a_member(tmp_path: Path) -> None:
    """Two things are told of one line, so that it is no sample: that the answer is a constant, and what that raises."""
    import torch

    path = tmp_path / "where_member.py"
    rule = next(rule for rule in RULES if rule.name == "member-with-tensor")
    source = "class Model(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
    sample = Sample(
        source + "        return torch.where(x != Kind.WORD, x * 2, x).masked_fill(x == 3, 0)\n",
        setup=rule.bad[0].setup,
    )
    told = {finding.effect for finding in findings(sample, path, rule)}
    assert told == {"compile_error", "wrong_result"}
    assert isinstance(eager(sample, path)[0], torch.Tensor)
    with pytest.raises(TypeError, match="where"):
        run(sample, path)
