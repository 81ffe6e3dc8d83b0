"""The table of measured constructs: every row is a sample, and of each the static pass says what Dynamo does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from construct_samples import Construct, elsewhere, rows, samples, untold
from reading import PINNED, read
from reading import RULES as EVERY_RULE
from tcready.portable.options import ReadOptions
from tcready.schema.static import Finding

if TYPE_CHECKING:
    from dynamo_runs import Run

RULES = {rule.code: rule for rule in EVERY_RULE}
ROWS = {(row["section"], row["row"]): row for row in rows()}
UNTOLD = untold()
SAMPLES = samples()
BREAKING = ("graph_break", "frame_skip")


def cases(told: bool) -> list[object]:
    return [
        pytest.param(sample, id=f"{sample.section}-{sample.row}")
        for sample in SAMPLES
        if (sample.key not in UNTOLD) is told
    ]


@pytest.fixture
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A file of its own for each sample: Dynamo, linecache and sys.modules all go by name."""
    sample: Construct = request.node.callspec.params["sample"]
    return tmp_path / f"construct_{sample.where.replace('.', '_').replace(':', '_')}.py"


# the table


def test_every_row_is_covered_exactly_once() -> None:
    covered = [sample.key for sample in SAMPLES] + list(elsewhere())
    assert len(ROWS) == 482
    assert sum(bool(row["breaks"]) for row in ROWS.values()) == 181
    assert sorted(covered) == sorted(ROWS)
    assert set(UNTOLD) <= set(ROWS)


def test_rows_that_rules_prove_with_their_own_samples() -> None:
    for key, code in elsewhere().items():
        assert set(ROWS[key]["gb"]) <= set(RULES[code].gb_ids)
        assert RULES[code].bad


def test_every_hazard_is_told_or_listed() -> None:
    """A row that breaks, or compiles again for identical arguments, has a marker of that effect."""
    for sample in SAMPLES:
        row = ROWS[sample.key]
        if sample.key not in UNTOLD and (row["breaks"] or row["recompiles"] or row["raises"] or row["meaning"]):
            assert sample.expected, sample.where


# the samples


@pytest.mark.torch
@pytest.mark.pinned
@pytest.mark.parametrize("sample", cases(told=True))
@pytest.mark.sampled(4)
def test_what_is_told_is_what_dynamo_does(sample: Construct, path: Path) -> None:
    seen = shown(sample, path)
    found = findings(sample, path)
    assert {(f.line, f.rule or "") for f in found} == sample.expected
    if seen is None:
        assert {f.effect for f in found} <= {"compile_error", "wrong_result"}
        assert found
        return
    breaking = {f.line: f for f in found if f.effect in BREAKING}
    surprises = {line for line, _ in sample.only_run}
    given_up = {f.line for f in found if RULES[f.rule or ""].follows} & seen.generators  # no log tells of these
    assert seen.lines | given_up == set(breaking) | surprises, [(b.line, b.text[:300]) for b in seen.breaks]
    for broken in seen.breaks:
        if broken.line in breaking:
            predicted = {gb for f in found if f.line == broken.line for gb in f.gb_ids}
            assert not broken.gb_ids or predicted & set(broken.gb_ids)
        else:
            assert (broken.line, broken.gb_id) in sample.only_run
    if any(f.effect == "frame_skip" for f in found):
        assert seen.skipped
    if not seen.breaks:
        assert_compilations(sample, found, seen)
        changed = [f for f in found if f.effect == "wrong_result" and RULES[f.rule or ""].unproved is None]
        assert same(sample, seen, path) is not bool(changed)


def assert_compilations(sample: Construct, found: list[Finding], seen: Run) -> None:
    """An error compiles again at every identical call, a warning or note once or for other values, else nothing."""
    again = [f for f in found if f.effect == "recompile"]
    calls = [bool(reasons) for reasons in seen.recompiles]
    if not again:
        assert not any(calls), seen.recompiles
    elif any(f.level == "error" for f in again):
        assert calls[1:3] == [True, True]
    else:
        assert calls[2] is False
        assert calls[-1] if sample.program.again else calls[1]


def same(sample: Construct, seen: Run, path: Path) -> bool:
    """Whether the compiled results are eager's."""
    import dynamo_runs
    import torch

    try:
        torch.testing.assert_close(seen.outputs, dynamo_runs.eager(sample.program, path))
    except AssertionError:
        return False
    return True


@pytest.mark.torch
@pytest.mark.pinned
@pytest.mark.parametrize("sample", cases(told=False))
def test_what_is_listed_as_untold_is_still_told_wrongly(sample: Construct, path: Path) -> None:
    """The list stays honest: a row that comes out right leaves it."""
    seen = shown(sample, path)
    assert seen is not None
    found = findings(sample, path)
    breaks_told = {f.line for f in found if f.effect in BREAKING} == seen.lines
    again = [f for f in found if f.effect == "recompile"]
    compiles_told = (
        bool(again) == any(map(bool, seen.recompiles))
        and any(f.level == "error" for f in again) == bool(seen.recompiles[2])
    ) or bool(seen.breaks)
    assert not (breaks_told and compiles_told)


def shown(sample: Construct, path: Path) -> Run | None:
    """What Dynamo does with a sample, which must be what the table says of its row; None where the call raises."""
    import dynamo_runs

    row = ROWS[sample.key]
    program = sample.program
    dynamic = True if program.again and sample.key not in UNTOLD else None
    try:
        seen = dynamo_runs.run(program, path, dynamic=dynamic)
    except ModuleNotFoundError as error:  # a package that the row is about and that tests do not require
        pytest.skip(str(error))
    except Exception:
        if not row["raises"]:
            raise
        dynamo_runs.eager(program, path)
        return None
    assert not row["raises"]
    assert bool(seen.breaks) == bool(row["breaks"]), [b.text[:300] for b in seen.breaks]
    for broken in seen.breaks:
        assert set(broken.gb_ids or ("-",)) & set(row["gb"]), broken.text[:300]
    if row["skips"] == "whole" or not row["breaks"]:
        assert bool(seen.skipped) == (row["skips"] == "whole"), seen.skipped
    if not row["breaks"]:
        assert bool(seen.recompiles[1]) == bool(row["recompiles"]), seen.recompiles
    return seen


def findings(sample: Construct, path: Path) -> list[Finding]:
    """All that the static pass says of a sample in the default dtype."""
    path.write_text(sample.text, encoding="utf-8")
    name = "Model" if "class Model" in sample.text else "model"
    mode = "train" if sample.program.train else "infer"
    options = ReadOptions(root=path.parent, mode=mode, third_party=False, torch=PINNED)
    result = read([f"{path}::{name}"], options)
    assert not result.skipped
    return [found for found in result.findings if not found.dtypes]  # what another dtype alone shows is a note
