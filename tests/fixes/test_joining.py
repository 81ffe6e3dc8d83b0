"""The changes for several targets as one: what is taken, what is left out, and what is told of each. Nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tcready.fixes.multi_target import OVERLAPS, Done, Fixed, join_results
from tcready.fixes.patching import ChangedFile
from tcready.portable.options import RunOptions
from tcready.schema.observation import Observation
from tcready.schema.proof import FixChange, FixResult
from tcready.source.edits import between

BEFORE = dedent("""\
    a = 1
    b = 2
    c = 3
    d = 4
""")
ROOT = Path("/project")


def done(target: str, old: str, new: str) -> Done:
    """A target for which one line of one file is changed; with no `old`, nothing is."""
    after = BEFORE.replace(old, new) if old else BEFORE
    edits = between("m.py", BEFORE, after)
    change = FixChange("m.py", 1, "f", "TCR101", ("GB1",), f"{old} is {new}", edits, (), None, "proved")
    changes = (change,) if edits else ()
    result = FixResult(changes, breaks_before=2, breaks_after=1, share_before=0.5, share_after=1.0)
    untouched = FixResult((), breaks_before=2, breaks_after=2, share_before=0.5, share_after=0.5)
    run = Observation(target, None, "infer", (), None)
    files = (ChangedFile(ROOT / "m.py", "m.py", BEFORE, after),) if edits else ()
    return Done(target, RunOptions(), run, run, Fixed(result, files), untouched)


class Asked:
    """Says of each run that it holds, but for a text that a target cannot do with; and keeps what was asked."""

    def __init__(self, wrong: Mapping[str, str] | None = None) -> None:
        self.wrong = wrong or {}
        self.calls: list[tuple[str, bool]] = []

    def __call__(self, each: Done, texts: Mapping[str, str], own: bool) -> FixResult | str:
        self.calls.append((each.target, own))
        wrong = self.wrong.get(each.target)
        if wrong is not None and any(wrong in text for text in texts.values()):
            return "another value"
        return each.fixed.result if own else each.untouched


def test_the_same_change_of_two_targets_is_one_and_not_tried_again() -> None:
    asked = Asked()
    found = join_results([done("A", "a = 1", "a = 9"), done("B", "a = 1", "a = 9")], (), asked)
    assert asked.calls == []
    assert [(change.how, change.targets) for change in found.result.changes] == [("a = 1 is a = 9", ("A", "B"))]
    assert [file.after for file in found.files] == [BEFORE.replace("a = 1", "a = 9")]
    assert (found.result.breaks_before, found.result.breaks_after) == (4, 2)
    assert [(each.target, each.share_after) for each in found.result.targets] == [("A", 1.0), ("B", 1.0)]


def test_changes_of_one_file_are_tried_together_in_every_target() -> None:
    asked = Asked()
    every = [done("A", "a = 1", "a = 9"), done("B", "d = 4", "d = 9"), done("C", "", "")]
    found = join_results(every, (), asked)
    assert asked.calls == [("A", True), ("B", True), ("C", True)]
    assert found.files[0].after == dedent("""\
        a = 9
        b = 2
        c = 3
        d = 9
    """)
    assert found.result.refused == ()


def test_what_does_not_hold_in_another_target_is_left_out_whole() -> None:
    every = [done("A", "a = 1", "a = 9"), done("B", "d = 4", "d = 9"), done("C", "", "")]
    found = join_results(every, (), Asked({"C": "a = 9"}))
    assert found.files[0].after == dedent("""\
        a = 1
        b = 2
        c = 3
        d = 9
    """)
    assert [change.targets for change in found.result.changes] == [("B",)]
    (left,) = found.result.refused
    assert (left.reason, left.targets) == ("in C: another value", ("A",))
    assert [each.breaks_after for each in found.result.targets] == [2, 1, 1]


def test_of_two_changes_of_one_line_the_first_stands() -> None:
    found = join_results([done("A", "a = 1", "a = 8"), done("B", "a = 1", "a = 9")], (), Asked())
    assert found.files[0].after.startswith("a = 8\n")
    assert [(change.targets, change.reason) for change in found.result.refused] == [(("B",), OVERLAPS)]


def test_a_target_that_cannot_be_run_is_told_beside_the_others() -> None:
    found = join_results([done("A", "a = 1", "a = 9")], [("gone.py", "gone.py: no such file")], Asked())
    assert found.result.failure == "gone.py: no such file"
    assert len(found.result.changes) == 1
    assert [(each.target, each.breaks_after) for each in found.result.targets] == [("gone.py", None), ("A", 1)]
    assert join_results([], [("gone.py", "no")], Asked()).result.breaks_before is None
