"""Every type of graph break has advice, and each page's examples show what it says under the real Dynamo."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from commands import run
from tcready.pipeline import break_pages
from tcready.pipeline.break_pages import BreakPage, BreakType, Unshown
from tcready.rules import load as rules
from tcready.static.diagnostics.rule import PRELUDE
from tcready.static.library import torch_tables as tables
from tcready.static.library import torch_versions

if TYPE_CHECKING:
    from dynamo_runs import Program

PAGES = break_pages.load()
ON_PAGES = {gb_id for page in PAGES for gb_id in page.gb_ids}
CLAIMS = [gb_id for rule in rules() for gb_id in rule.gb_ids]
RUN_WITH = (2, 13)
"""The torch that the examples are run with."""
NEWER = "No example: this type is new in torch 2.14 or later, and the examples are run with torch 2.13."
UNRAISED = "Listed in the registry of torch 2.13, but not raised by any code there."
HOW = (
    "a type of break without advice: put it on a page of rules/break_pages/, with an example or with the reason "
    "why there is none; if no rule claims it, list it in analyzer/static/tables/unclaimed.json, too"
)


def test_every_type_is_on_a_page_or_claimed_by_one_rule() -> None:
    registered = {gb_id for version in torch_versions.with_tables() for gb_id in tables.load(version).registry}
    by_one_rule = {gb_id for gb_id in CLAIMS if CLAIMS.count(gb_id) == 1}
    assert sorted(registered - ON_PAGES - by_one_rule) == [], HOW
    assert sorted(ON_PAGES - registered) == [], "no torch has it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: BreakPage) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", page.name)
    assert 20 <= len(page.summary) <= 130
    assert page.summary.endswith(".")
    assert re.findall(r"^## (.*)$", page.page, re.M) == ["Why it hurts torch.compile", "Use instead"]
    assert len(page.why) > 40
    assert len(page.instead) > 30
    for each in page.breaks:
        assert each.what.endswith(".")
        assert not each.remedy or each.remedy.endswith(".")
        assert (each.bad is None) == (each.good is None)
        assert each.bad is not None or each.gb_id in CLAIMS, f"{each.gb_id}: no example and no rule"
        assert each.good is None or "# BAD" not in each.good
    for other in page.unshown:
        assert other.reason.endswith(".")
        assert other.gb_ids


def test_what_is_said_to_be_newer_is_newer() -> None:
    older = {
        gb_id
        for version in torch_versions.with_tables()
        if version <= RUN_WITH
        for gb_id in tables.load(version).registry
    }
    for page in PAGES:
        for each in page.unshown:
            assert (each.reason == NEWER) == older.isdisjoint(each.gb_ids), page.name


def test_two_pages_do_not_speak_of_one_type(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "rules" / "break_pages" / "tensor-method.md").read_text("utf-8")
    for name in ("assertion", "tensor-method"):
        (tmp_path / f"{name}.md").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"GB\d{4} is on two pages: assertion and tensor-method"):
        break_pages.read_pages(tmp_path)


TEXT = """\
# A call that Dynamo does not trace.

**Findings:** `recompile`, `ranks-differ`

## Why it hurts torch.compile

The graph
ends.

It is `slow`.

## Use instead

Another call.

## GB0001

The code calls
`f`.

**Remedy:** Call `g`.

**Inputs:** `(1,)`

**Inputs of the good program:** `(2,)`

**Settings:** `trace_numpy=False`

**Compiled with:** `fullgraph=True`

**Bad:**

```python
## a comment

f()  # BAD
```

**Good:**

```python
g()
```

## GB0002

The code calls `h`.

## Without an example

None was found.

**Types:** GB0003,
GB0004

Newer.

**Types:** GB0005
"""


def test_every_part_of_a_page_is_read() -> None:
    page = dedent("""\
            A call that Dynamo does not trace.

            ## Why it hurts torch.compile
            The graph
            ends.

            It is `slow`.

            ## Use instead
            Another call.
        """)
    shown = BreakType(
        "GB0001",
        "The code calls `f`.",
        remedy="Call `g`.",
        bad="\n## a comment\n\nf()  # BAD\n",
        good="\ng()\n",
        inputs="(1,)",
        good_inputs="(2,)",
        config="trace_numpy=False",
        fullgraph=True,
    )
    unshown = (Unshown("None was found.", ("GB0003", "GB0004")), Unshown("Newer.", ("GB0005",)))
    found = break_pages.read_page("some", TEXT)
    expected = (shown, BreakType("GB0002", "The code calls `h`."))
    assert found == BreakPage("some", page, expected, unshown, ("recompile", "ranks-differ"))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# A call", "A call", "line 1: expected a title, found the paragraph: A call that"),
        ("**Findings:**", "**Finding:**", "line 3: expected the field 'Findings', a list"),
        ("## Use instead", "## Instead", "line 12: expected the section 'Use instead': Instead"),
        ("## GB0002", "## GB2", "line 45: unknown or misplaced heading: GB2"),
        ("## GB0002", "### GB0002", "line 45: unknown block: ### GB0002"),
        ("## Without an example", "## Without", "line 49: unknown or misplaced heading: Without"),
        ("\nNewer.\n\n**Types:** GB0005\n", "\n## GB0006\n\nA sentence.\n", "line 56: unknown or misplaced heading"),
        (
            dedent("""\
            The code calls
            `f`.

        """),
            "",
            "line 18: expected a sentence before the fields",
        ),
        ("**Remedy:**", "**Cure:**", "line 21: unknown or repeated field 'Cure'"),
        ("**Inputs of the good program:**", "**Inputs:**", "line 25: unknown or repeated field 'Inputs'"),
        ("**Remedy:** Call", "Call", "line 21: expected a field, as `**Remedy:** ...`: Call `g`."),
        ("`(1,)`", "(1,)", "line 23: the field 'Inputs' cannot have this value"),
        ("`fullgraph=True`", "`fullgraph=1`", "line 29: the field 'Compiled with' cannot have this value"),
        ("**Bad:**\n", "**Bad:** this\n", "line 31: the field 'Bad' cannot have this value"),
        ("**Bad:**\n\n", "", "line 31: expected a heading, found the program: ## a comment"),
        ("```python\ng", "```\ng", "line 41: unknown block: ```"),
        ("g()\n```", "g()", "line 41: unknown block: ```python"),
        ("GB0003,", "GB3,", "line 53: expected the field 'Types', a list"),
        ("**Types:** GB0005\n", "", "line 58: expected a paragraph, found the end"),
    ],
)
def test_a_mistake_in_a_page_is_named_with_its_line(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=re.escape(f"some.md, {problem}")):
        break_pages.read_page("some", TEXT.replace(old, new, 1))


# the examples, under Dynamo


@pytest.mark.torch
def test_the_torch_that_runs_has_no_type_without_advice() -> None:
    torch = pytest.importorskip("torch")
    registry = Path(torch.__file__).parent / "_dynamo" / "graph_break_registry.json"
    assert sorted(set(json.loads(registry.read_text("utf-8"))) - ON_PAGES - set(CLAIMS)) == [], HOW


@pytest.mark.torch
def test_what_is_said_not_to_be_raised_stands_nowhere_in_torch() -> None:
    torch = pytest.importorskip("torch")
    top = Path(torch.__file__).parent
    if tuple(map(int, torch.__version__.split(".")[:2])) != RUN_WITH:
        pytest.skip("said of another torch")
    folders = ("_dynamo", "_higher_order_ops", "_library", "fx")
    code = "\n".join(path.read_text("utf-8") for folder in folders for path in (top / folder).rglob("*.py"))
    names = tables.load(RUN_WITH).registry
    said = [gb_id for page in PAGES for each in page.unshown if each.reason == UNRAISED for gb_id in each.gb_ids]
    assert said
    assert [gb_id for gb_id in said if f'gb_type="{names[gb_id]}"' in code] == []


@pytest.mark.torch
@pytest.mark.parametrize("page", [page for page in PAGES if page.breaks], ids=lambda page: page.name)
@pytest.mark.sampled(4)
def test_examples_show_their_types(page: BreakPage, tmp_path: Path) -> None:
    """BAD breaks at its line with that very id, or raises an error that names it; GOOD is captured whole, and equals eager."""
    torch = pytest.importorskip("torch")
    if tuple(map(int, torch.__version__.split(".")[:2])) != RUN_WITH:
        pytest.skip("the examples are those of another torch")
    wrong = {each.gb_id: problem for each in page.breaks if each.bad and (problem := wrong_with(each, tmp_path))}
    assert wrong == {}


def wrong_with(each: BreakType, folder: Path) -> str:
    """What an example does otherwise than it says; empty if nothing."""
    import dynamo_runs
    import torch

    bad = program(each.bad or "", each.inputs, each.config)
    path = folder / f"{each.gb_id}_bad.py"
    module = dynamo_runs.load(bad, path)
    torch._dynamo.reset()
    error = ""
    with dynamo_runs.configured(bad, module), dynamo_runs.recorded(path) as handler, dynamo_runs.quiet():
        try:
            torch.compile(dynamo_runs.build(module), backend="eager", fullgraph=each.fullgraph)(
                *dynamo_runs.arguments(module, bad.inputs)
            )
        except Exception as raised:
            error = str(raised)
    marked = {n for n, line in enumerate(bad.text.splitlines(), 1) if line.endswith("# BAD")}
    seen = {one.line for one in handler.seen if each.gb_id in one.gb_ids and one.line}
    if seen != marked:
        return f"breaks at {sorted(seen)}, not at {sorted(marked)}: {handler.seen} {error[:300]}"
    if not marked and each.gb_id.lower() not in error:
        return f"no error names it: {error[:300]}"
    good = program(each.good or "", each.good_inputs or each.inputs, each.config)
    path = folder / f"{each.gb_id}_good.py"
    (expected,) = dynamo_runs.eager(good, path, 1)
    try:
        found = dynamo_runs.run(good, path, 1, fullgraph=True)
    except Exception as raised:
        return f"GOOD: {str(raised)[:300]}"
    torch.testing.assert_close(found.outputs[0], expected)
    return "GOOD breaks" if found.breaks or found.skipped else ""


def program(source: str, inputs: str, config: str) -> Program:
    from dynamo_runs import Program

    return Program(f"{PRELUDE}{source.strip()}\n", inputs, config=config)


# the command, and a report


def test_rule_command_explains_a_type(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(gb_id: str) -> str:
        assert run("rule", gb_id) == 0
        return capsys.readouterr().out

    assert shown("gb0144").startswith(
        "GB0144 Unsupported custom jvp (torch 2.11, 2.12, 2.13, 2.14, 2.15)\n\nautograd-function: "
    )
    assert "return Double.apply(x)  # GB0144\n" in shown("GB0144")
    assert "Predicted by: TCR101 data-dependent-if, TCR102" in shown("GB0170")
    assert f"There is no example. {NEWER}" in shown("GB0375")
    only_a_rule = shown("GB0014")
    assert "TCR406 recurrent-module-call" in only_a_rule
    assert "## Why it hurts torch.compile" in only_a_rule
    assert run("rule", "GB9999") == 2
    assert (
        capsys.readouterr().err
        == "tcready: error: there is no type of break GB9999 in torch 2.11, 2.12, 2.13, 2.14, 2.15\n"
    )


def test_every_type_has_advice_that_a_report_can_carry() -> None:
    from tcready.pipeline.registry import advice

    texts = advice()
    for version in torch_versions.with_tables():
        assert tables.load(version).registry.keys() <= texts.keys(), HOW
    assert texts["GB0014"].code == "TCR406"
    jvp = texts["GB0144"]
    assert (jvp.code, jvp.name) == ("GB0144", "autograd-function")
    assert jvp.why.startswith("The class defines its own `jvp`, which Dynamo does not trace. Dynamo has")
    assert jvp.instead.startswith("Leave it out of the class that is compiled. Eager code")
    assert "# BAD" not in (jvp.before or "# BAD")
    assert texts["GB0375"].before is None
