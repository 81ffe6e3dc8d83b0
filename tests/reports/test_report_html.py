"""The page as text: what it holds and what it must not. How it behaves is tested in a browser."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path, PureWindowsPath
from textwrap import dedent
from typing import Any

import pytest
from report_samples import (
    HOSTILE_STRINGS,
    NET,
    SAMPLES,
    broken,
    changed,
    compared,
    finding,
    hostile,
    hostile_comparison,
    planned,
    report,
    sample,
    source,
    static,
    target,
)
from tcready.merge import merge
from tcready.reports import render, render_comparison
from tcready.reports.html import highlighting as code
from tcready.reports.html.document import embedded, lean
from tcready.reports.html.editor_links import EDITORS, Editor
from tcready.reports.html.page_values import page
from tcready.reports.html.pictures import pictures, source_picture
from tcready.reports.html.side_by_side import sides
from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.reports.shared.wording import visible
from tcready.schema.code_line import Frame
from tcready.schema.codec import from_json
from tcready.schema.comparison import Comparison
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import ModuleShare, Observation
from tcready.schema.report import Checkout, Narrowed, Report, Tool
from tcready.schema.run import BreakSite, Cost, LineSet
from tcready.schema.static import Finding, StaticResult

VOID = frozenset({"br", "meta", "link", "input", "rect", "circle", "path", "hr", "img"})


class Page(HTMLParser):
    """Every element with its attributes and its own text, and whether every element was closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, list[str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.comments: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        name, text = self.open.pop()
        assert name == tag
        self.texts.append((tag, "".join(text)))
        if self.open:
            self.open[-1][1].extend(text)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][1].append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


def page_of(made: Report) -> Page:
    return Page(render(made, "html"))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_page_is_well_formed_and_its_links_lead_somewhere(name: str) -> None:
    page = page_of(sample(name))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in page.all("a"):
        href = attributes["href"] or ""
        if href.startswith("#"):
            assert href[1:] in ids
        else:
            assert re.fullmatch(r"https://meta-pytorch\.github\.io/compile-graph-break-site/gb/gb\d{4}\.html", href)
    for _, attributes in page.elements:
        for key in ("aria-labelledby", "for"):
            assert key not in attributes or attributes[key] in ids
    assert page.comments == []


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_headings_descend_one_step_at_a_time_and_tables_have_headers(name: str) -> None:
    page = page_of(sample(name))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.all("th"))
    assert sum(1 for _ in page.all("main")) == 1


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_report_can_be_read_back_from_the_page(name: str) -> None:
    text = render(sample(name), "html")
    data = re.search(r'<script type="application/json" id="tcready-report">(.*?)</script>', text, re.DOTALL)
    assert data
    back = from_json(Report, json.loads(data[1]))
    shown = lean(without_absolute_paths(sample(name)))
    if name == "hostile":  # its one NaN has become null
        shown = dataclasses.replace(
            shown, targets=(changed(shown.targets[0], bench=back.targets[0].observation.bench),)
        )
    assert back == shown


def test_embedded_json_holds_nothing_that_html_reads() -> None:
    assert not set("<>&") & set(embedded(hostile()))


def test_hostile_text_makes_no_element_and_no_attribute() -> None:
    page = page_of(hostile())
    assert sum(1 for _ in page.all("script")) == 2
    assert not {"img", "b[id]", "iframe", "object", "form"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert not any(key.startswith("on") for key in attributes)
        assert "javascript:" not in (attributes.get("href") or "")
        assert attributes.get("id") != "injected"
    body = page.text_of("main")[0]
    for value in HOSTILE_STRINGS:
        assert visible(value) in body


def test_no_address_is_fetched() -> None:
    page = page_of(broken())
    for tag, attributes in page.elements:
        for key in ("src", "srcset", "data", "action", "poster"):
            assert key not in attributes
        if tag == "link":
            assert attributes["href"] == "data:,"
    folder = Path(__file__).parents[2] / "reports" / "html"
    for name in ("page.css", "page.js"):
        assert not re.search(r"https?:|@import|url\(|</", (folder / name).read_text())


def test_absolute_paths_stay_out_of_the_page() -> None:
    outside = "/home/ann/secret/outside.py"
    made = report(
        findings=(finding(NET, "x.sum() > 0", path=outside, origin="third_party"),),
        targets=(target(f"{outside}::Net"),),
        sources=(source(outside, NET),),
        warnings=(f"{outside}: odd",),
    )
    text = render(made, "html")
    assert "/home" not in text
    assert "secret" not in text
    assert "outside.py::Net: unknown" in text


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_signs_follow_the_stages(name: str) -> None:
    made = sample(name)
    text = render(made, "html")
    for state, sign in (("pass", "✅"), ("fail", "❌"), ("not_run", "⚪")):
        expected = sum(stage.state == state for t in made.targets for stage in t.stages)
        assert text.count(sign) == expected


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_nothing_missing_is_spelled_none(name: str) -> None:
    for tag, text in page_of(sample(name)).texts:
        if tag in ("td", "th", "dd", "p", "h3", "summary"):
            assert "None" not in text


def test_a_finding_shows_both_sources_of_evidence_and_the_refactor() -> None:
    page = page_of(broken())
    card = next(text for text in page.text_of("article") if "TCR101" in text and "x.sum() > 0" in text)
    for words in (
        "confirmed by Dynamo: GB0170",
        "x is a parameter of a forward without default",
        "Broke at line 15, 3 events",
        "Detected data-dependent branching",
        "Stack, outermost first (2)",
        "the break splits Net.forward, Gate.forward (2 call levels); so it was in the run",
        "read it first; verified by a run",
        "The change, before and after",
    ):
        assert words in " ".join(card.split())
    cards = " ".join(page.text_of("article"))
    assert "a run refuted it" in cards
    assert "remove it" not in cards  # no diff and no run: the rule's example says it
    assert "x.sum() > 0" in page.text_of("mark")


def test_without_a_run_the_page_says_so_and_claims_nothing_measured() -> None:
    page = page_of(static())
    text = " ".join(page.text_of("main")[0].split())
    assert "Static only: nothing was run." in text
    assert "Not asked: nothing was run." in text
    assert "not measured" in text
    assert "Module hierarchy" not in text
    assert "Every" not in text


def test_the_source_is_annotated_line_by_line() -> None:
    text = render(broken(), "html")
    line = re.search(r'<li id="model.py:15" data-n="15" class="ran error">.*?</li>', text)
    assert line
    assert "TCR101 error</a>" in line[0]
    assert 'href="#t-1-breaks">break GB0170 x3</a>' in line[0]
    assert re.search(r'<li id="model.py:28" data-n="28" class="skipped frame">.*skipped frame</a></li>', text)
    last = NET.count("\n")
    assert f'id="model.py:{last}"' in text
    assert f'id="model.py:{last + 1}"' not in text
    assert len(re.findall(r'id="model.py:\d+" data-n="\d+" class="ran ', text)) == 13
    assert '<i class="k">def </i><i class="d">forward</i>' in text
    assert "src-2" not in text  # the installed package's source is quoted in its finding, not shown whole


def test_bars_are_shares_of_the_whole_call() -> None:
    page = page_of(broken())
    bars = [
        (a.get("class"), float((a["width"] or "").rstrip("%"))) for a in page.all("rect") if a.get("height") == "100%"
    ]
    assert bars[:2] == [("captured", 82.0), ("eager", 18.0)]
    assert all(0 <= width <= 100 for _, width in bars)


def sized(lines: int, layers: int, findings: int) -> Report:
    code = "".join(f"    value_{n} = layer_{n}(x)  # a line of ordinary length, as in a model\n" for n in range(lines))
    modules = [ModuleShare("", "Net", 5000, 4000), ModuleShare("layers", "ModuleList", 5000, 4000)]
    modules += [ModuleShare(f"layers.{n}.{part}", "Linear", 1, 1) for n in range(layers) for part in "abc"]
    run = changed(broken().targets[0], modules=tuple(modules), executed=(LineSet("big.py", ((1, lines),)),))
    return dataclasses.replace(
        broken(),
        findings=tuple(
            finding(code, f"layer_{n}(x)", rule="TCR101", path="big.py") for n in range(0, lines, lines // findings)
        ),
        sources=(source("big.py", code),),
        targets=(run,),
    )


def test_a_typical_page_is_small() -> None:
    assert len(render(sized(lines=1000, layers=24, findings=20), "html").encode()) < 400_000


def test_a_large_hierarchy_is_cut_where_it_is_deepest() -> None:
    text = render(sized(lines=10, layers=500, findings=2), "html")
    assert "1202 deeper modules are in the JSON" in text
    assert text.count('<span class="mod">') == 300


def test_actions_are_distinct_and_in_the_order_of_the_text() -> None:
    """First what compiles again at every call, as the text has it, then by cost and by what a run confirmed."""
    text = render(broken(), "html")
    actions = text[text.index('<ol class="actions">') : text.index("</ol>", text.index('<ol class="actions">'))]
    assert re.findall(r"#rule-(TCR\d+)", actions) == ["TCR501", "TCR101", "TCR201", "TCR301"]
    twice = report(
        findings=(finding(NET, "x", nth=3, rule="TCR101"), finding(NET, "x.sum() > 0", rule="TCR101")),
        rules=broken().rules,
    )
    assert render(twice, "html").count("2 places (2 predicted)") == 1
    assert "Nothing in your own code" in render(sample("third_party"), "html")


def test_code_in_prose_is_marked_across_the_line_ends_of_a_docstring() -> None:
    rule = dataclasses.replace(
        broken().rules[0],
        instead=dedent("""\
        Use `f(x,
        size=1)` <now>.

        - or `g`
    """),
    )
    text = render(report(rules=(rule,)), "html")
    assert "Use <code>f(x, size=1)</code> &lt;now&gt;.<br><br>- or <code>g</code></p>" in text


def test_many_static_targets_are_listed_not_laddered() -> None:
    many = report(targets=tuple(target(f"m.py::N{n}") for n in range(30)))
    page = page_of(many)
    assert sum(1 for attributes in page.all("ol") if attributes.get("class") == "ladder") == 0
    assert "30 targets were read only; nothing was run for them" in page.text_of("summary")
    assert page.text_of("h1") == ["30 targets: 30 unknown"]


def test_no_home_and_no_temporary_folder_is_named() -> None:
    said = (
        "see /home/ann/work/model.py, line 3",
        "is not below /home/ann",
        "is not below '/Users/ann/'",
        "in file:///home/ann/a/model.py",
        r"in C:\Users\ann",
        "/tmp/tmpk3x/model.py was written",
        "at https://example.org/home/ann",
        "g++ -I/home/ann/include -L/usr/lib; PATH=/usr/bin:/home/ann/bin",
        "at file:///C:/Users/ann/x and C:/Users/ann/x",
        r"on \\server\share\ann\x.py",
        "static: `x.sum()/n/root > 0` is a tensor",
    )
    shown = without_absolute_paths(report(warnings=said)).warnings
    assert shown == (
        "see model.py, line 3",
        "is not below ~",
        "is not below '~'",
        "in model.py",
        "in ~",
        "model.py was written",
        "at https://example.org/home/ann",
        "g++ -I~/include -L/usr/lib; PATH=bin:~/bin",
        "at x and x",
        "on x.py",
        "static: `x.sum()/n/root > 0` is a tensor",
    )


def test_an_anchor_lasts_whatever_else_the_report_holds() -> None:
    whole, alone = broken(), dataclasses.replace(broken(), findings=broken().findings[1:2])
    there = re.findall(r'<article class="finding \w+" id="([^"]+)"', render(alone, "html"))
    assert len(there) == 1
    assert f'id="{there[0]}"' in render(whole, "html")
    twice = dataclasses.replace(whole, findings=broken().findings[:1] * 2)
    anchors = re.findall(r'<article class="finding \w+" id="([^"]+)"', render(twice, "html"))
    assert anchors == [anchors[0], f"{anchors[0]}-2"]


def test_lines_of_a_file_as_committed_link_to_their_commit() -> None:
    link = "https://github.com/ann/net/blob/0123abcd/sub/{path}#L{line}"
    there = dataclasses.replace(broken(), checkout=Checkout("0123abcd", link, ("model.py",)))
    text = render(there, "html")
    assert '<a href="https://github.com/ann/net/blob/0123abcd/sub/model.py#L15" rel="noreferrer">' in text
    assert "The file at commit 0123abcd" in text
    of_gitlab = "https://gitlab.com/ann/net-/-/blob/0123abcd/{path}#L{line}"
    text = render(dataclasses.replace(there, checkout=Checkout("0123abcd", of_gitlab, ("model.py",))), "html")
    assert '"https://gitlab.com/ann/net-/-/blob/0123abcd/model.py#L15"' in text
    changed = render(dataclasses.replace(broken(), checkout=Checkout("0123abcd", link)), "html")
    assert "blob/0123abcd/sub/model.py" not in changed
    assert "0123abcd, with changes in model.py" in changed
    odd = dataclasses.replace(
        there,
        checkout=Checkout("0123abcd", link, ("a b/é.py",)),
        findings=(finding(NET, "x", path="a b/é.py"),),
        sources=(source("a b/é.py", NET),),
    )
    assert 'href="https://github.com/ann/net/blob/0123abcd/sub/a%20b/%C3%A9.py#L13"' in render(odd, "html")


def test_what_costs_most_comes_first_and_own_code_before_packages() -> None:
    def costing(seconds: float | None, **given: Any) -> Finding:
        cost = {"operations": 5.0, "seconds": seconds} if seconds is not None else None
        return finding(NET, "x", cost=cost, status="confirmed", **given)

    made = report(
        findings=(
            costing(None, nth=1, rule="TCR101"),
            costing(0.001, nth=2, rule="TCR201"),
            costing(0.003, nth=3, rule="TCR501"),
            costing(0.003, nth=3, rule="TCR501"),
            costing(9.0, nth=4, rule="TCR301", origin="third_party", path="pkg/m.py"),
        ),
        rules=broken().rules,
    )
    text = render(made, "html")
    first = text[text.index('<section id="first"') : text.index('<section id="regions"')]
    assert re.findall(r'href="#rule-(TCR\d+)"', first) == ["TCR501", "TCR201", "TCR101", "TCR301"]
    # two findings on one line share what the break there costs
    assert "5 operations, 3 ms of a warm call, run outside of graphs on their account." in first
    assert "1 change in installed packages, for their authors" in first
    assert "Suggested change" in first


def test_of_many_lines_those_around_the_marks_are_shown() -> None:
    big = sized(lines=4000, layers=1, findings=2)
    page = page_of(big)
    shown = [attributes["data-n"] for attributes in page.all("li") if "data-n" in attributes]
    assert len(shown) == 13 + 25
    assert "3962 lines far from what is marked are left out." in " ".join(page.text_of("p"))
    for attributes in page.all("ol"):
        if attributes.get("class") == "source":
            assert attributes["start"] in ("1", "1989")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", ["x = 1\n\x0cy = '''a\n# b'''\n", "\ufeffx = 1\n", "\n\n  x\n\n", "no end", ""])
def test_coloured_lines_are_the_lines_of_the_source(text: str, ending: str) -> None:
    told = code.tokenize_lines(text.replace("\n", ending))
    said = ["".join(piece.text for piece in line) for line in told]
    lines = visible_lines(text)
    assert said == lines


def visible_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def test_the_picture_is_as_wide_as_what_it_shows() -> None:
    modules = (
        ModuleShare("", "Net", 100, 40, 0.5, seconds_captured=0.1),
        ModuleShare("a", "Block", 60, 0, 0.1, seconds_captured=0.0),
        ModuleShare("b", "Block", 30, 30, 0.4, seconds_captured=0.1),
        *(ModuleShare(f"b.{n}", "Linear", 0, 0, 0.0) for n in range(3)),
    )
    by_operations, by_time = pictures(modules, "cuda")
    assert [(box.label, box.x, box.width, box.captured) for box in by_operations.boxes] == [
        ("Net", 0, 1000, 400),
        ("a", 0, 600, 0),
        ("b", 600, 300, 300),
    ]
    assert by_operations.caption == "By operations: 40 % inside graphs, 60 of 100 operations outside."
    assert [round(box.width) for box in by_time.boxes] == [1000, 200, 800]
    assert by_time.caption == "By time on the device: 20 % inside graphs, 0.4 s of 0.5 s outside."
    assert pictures((), None) == ()
    assert len(pictures((ModuleShare("", "Net", 2, 2),), None)) == 1
    narrow = (ModuleShare("", "Net", 10_000, 0), *(ModuleShare(f"m{n}", "M", 1, 1) for n in range(50)))
    assert [box.title for box in pictures(narrow, None)[0].boxes[1:]] == [
        "50 small modules: 50 of 50 operations in graphs"
    ]


def test_the_own_call_that_leads_into_a_package_is_marked() -> None:
    site = dataclasses.replace(
        broken().targets[0].break_sites[0],
        path="pkg/m.py",
        line=7,
        origin="third_party",
        stack=(Frame("model.py", 26, "Net.forward"), Frame("model.py", 27, "Net.forward"), Frame("pkg/m.py", 7, "f")),
    )
    run = changed(broken().targets[0], break_sites=(site, dataclasses.replace(site, line=9)))
    text = render(dataclasses.replace(broken(), targets=(run,)), "html")
    line = re.search(r'<li id="model.py:27".*?</li>', text)
    assert line
    assert ">leads to 2 breaks in installed packages</a>" in line[0]
    assert text.count("in installed packages</a>") == 1


def test_what_a_baseline_hides_is_said() -> None:
    there = dataclasses.replace(broken(), narrowed=Narrowed("known.json", 3, 1, "main", "0123", 2))
    text = render(there, "html")
    assert "Not shown: 3 findings known from known.json (1 entry of it gone: write it again)" in text
    assert "2 findings on lines unchanged since main" in text
    assert "Not shown" not in render(broken(), "html")


def test_the_page_holds_of_an_installed_file_what_its_findings_need() -> None:
    code = "".join(f"x_{n} = f(y)\r\n" for n in range(1000))
    made = report(
        findings=(finding(code, "x_500 = f(y)", path="pkg/m.py", origin="third_party"),),
        sources=(source("pkg/m.py", code), source("model.py", NET)),
        targets=(target(),),
    )
    slim = lean(made)
    assert slim.sources[1] == made.sources[1]
    lines = slim.sources[0].text.split("\r\n")
    assert len(lines) == 1001
    assert [n for n, line in enumerate(lines) if line] == list(range(488, 513))
    assert len(render(made, "html")) < len(render(dataclasses.replace(made, findings=()), "html")) + 8000
    assert render(slim, "html") == render(made, "html")


def test_a_run_that_ended_before_compiling_advises_to_mend_that_and_nothing_to_compile() -> None:
    text = render(sample("failed"), "html")
    first = re.search(r'<section id="first".*?</section>', text, re.DOTALL)
    regions = re.search(r'<section id="regions".*?</section>', text, re.DOTALL)
    assert first
    assert regions
    assert "was compiled: import failed (" in first[0]
    assert "No change to your own code" not in first[0]
    assert "No region: nothing was compiled." in regions[0]
    assert "was compiled: " not in render(broken(), "html")


def test_the_page_shows_the_plan_with_the_recommended_row_marked() -> None:
    text = render(planned(), "html")
    plan = text[text.index('<section id="plan"') : text.index('<section id="regions"')]
    first = text[text.index('<section id="first"') : text.index('<section id="stages"')]
    assert "<b>Recommended: the whole model.</b> 92.0% of the operations run in graphs" in first
    assert "To be pasted where the model was made" in first
    assert "TCREADY_EAGER" in first
    assert plan.count('<tr class="recommended">') == 1
    assert '<tr class="recommended"><th scope="row">The whole model <b>(recommended)</b></th>' in plan
    assert plan.count('<span class="small out">out: ') == 3
    assert '<td class="num">0.9 s (inductor)</td>' in plan
    assert plan.count("<figcaption>") == 4 + 2  # the other placements, and two beside the plan
    assert "Not done: the budget was spent before regions alone." in plan
    assert '<a href="#t-1-plan">All that was tried</a>' in first
    assert '"#plan"' not in render(broken(), "html")


def test_no_line_of_a_refuted_region_is_offered() -> None:
    made = planned()
    text = render(made, "html")
    table = text[text.index('<table class="regions">') :]
    row = table[table.index("<code>gate</code>") :].split("</tr>")[0]
    assert "<pre>" not in row
    assert "Unsupported: Data-dependent branching" in row
    assert "compile region gate" not in text


def without_data(text: str) -> str:
    """The page without the report that it holds as JSON."""
    return re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)


def test_what_to_do_stands_above_the_stages() -> None:
    text = render(planned(), "html")
    at = [text.index(f'id="{name}"') for name in ("verdict", "first", "t-1-lines", "stages", "coverage")]
    assert at == sorted(at)
    first = text[at[1] : at[3]]
    assert 'class="pair sides"' in first
    assert "x = torch.where(x.sum() &gt; 0, x * 2, x)" in first
    assert "compile" in first
    assert text.index('<ol class="ladder"') > at[3]


def test_each_change_is_shown_once_beside_what_it_replaces() -> None:
    text = without_data(render(broken(), "html"))
    ids = re.findall(r'id="(f-[^"]+)-change"', text)
    assert len(ids) == len(set(ids)) == 2
    before, after = re.findall(
        r"<pre[^>]*><code>(.*?)</code></pre>", text[text.index('class="pair sides"') :], re.DOTALL
    )[:2]
    assert before == "<del>        if x.sum() &gt; 0:</del>\n<del>            x = x * 2</del>"
    assert after.startswith('<ins>        x = torch.where(x.sum() &gt; 0, x * 2, x)</ins>\n<span class="gap">')
    first = text[text.index('<section id="first"') : text.index('<section id="stages"')]
    assert ids[0] in first
    assert f'id="{ids[1]}-change"' not in first  # a run refuted it: it stands with its finding alone
    assert f'<a href="#{ids[0]}-change">' in text


def test_many_changes_of_one_kind_are_folded() -> None:
    (one,) = (found for found in broken().findings if found.fix and found.fix.verified)
    many = tuple(
        dataclasses.replace(one, fingerprint=f"print-{number}", line=number, end_line=number) for number in range(1, 8)
    )
    first = render(dataclasses.replace(broken(), findings=many), "html")
    first = first[first.index('<section id="first"') : first.index('<section id="stages"')]
    assert first.index("The changes of 4 other places") > first.index("print-3-change")
    assert first.index("The changes of 4 other places") < first.index("print-4-change")


def test_a_diff_is_told_as_two_texts_of_one_length() -> None:
    told = sides(
        "--- a/net.py\n+++ b/net.py\n@@ -3,4 +3,5 @@\n same\n--- not a header\n-old\n+new\n+more\n+still\n same\n"
        "@@ -20 +21 @@\n-gone\n\\ No newline at end of file\n+came\n"
    )
    one, two = told.hunks
    assert (one.path, one.line, two.path, two.line) == ("net.py", 3, "net.py", 20)
    assert [(line.kind, line.text) for line in one.before] == [
        ("same", "same"),
        ("changed", "-- not a header"),
        ("changed", "old"),
        ("gap", ""),
        ("same", "same"),
    ]
    assert [line.text for line in one.after] == ["same", "new", "more", "still", "same"]
    assert [line.text for line in (*two.before, *two.after)] == ["gone", "came"]
    assert sides("-a\n+b\n").hunks[0].line is None


def test_a_hint_is_shown_once_with_its_places_and_cases() -> None:
    hint = "Move the read out of the compiled region, for once."
    (run,) = broken().targets
    site = dataclasses.replace(run.break_sites[0], hints=(hint, hint), stack=())
    sites = (
        dataclasses.replace(site, case="prefill"),
        dataclasses.replace(site, case="decode", hits=2),
        dataclasses.replace(site, line=41),
        dataclasses.replace(site, line=34, path="pkg/m.py", origin="third_party"),
    )
    made = dataclasses.replace(broken(), targets=(changed(run, break_sites=sites),))
    text = without_data(render(made, "html"))
    assert text.count(hint) == 1
    assert 'At <a class="path" href="#model.py:15">model.py:15</a> (prefill, decode), ' in text
    card = next(" ".join(card.split()) for card in page_of(made).text_of("article") if "Broke at line 15" in card)
    assert card.count("Broke at line 15") == 1
    assert "Broke at line 15, 3 events in prefill, 2 events in decode" in card
    assert "Dynamo's hint 1." in card
    (told,) = page(made).hints
    assert told.places == (("model.py", 15, "prefill, decode"), ("model.py", 41, ""), ("pkg/m.py", 34, ""))


def test_lines_of_source_share_the_call_among_them() -> None:
    modules = (
        ModuleShare("", "Net", 100, 70, 1.0, "net.py", 10, seconds_captured=0.8),
        ModuleShare("blocks", "ModuleList", 80, 60, 0.7, seconds_captured=0.6),
        ModuleShare("blocks.0", "Block", 40, 30, 0.4, "net.py", 30, seconds_captured=0.3),
        ModuleShare("blocks.0.linear", "Linear", 20, 20, 0.1, seconds_captured=0.1),
        ModuleShare("blocks.1", "Block", 40, 30, 0.3, "net.py", 30, seconds_captured=0.3),
    )

    def site(line: int, ops: int, seconds: float) -> BreakSite:
        return BreakSite("net.py", line, "Block.forward", "r", None, 1, "own", (), cost=Cost(ops, seconds))

    found = source_picture(modules, (site(33, 12, 0.06), site(33, 8, 0.04), site(12, 4, 0.02)), None)
    assert found is not None
    assert [(at.name, at.inside[0], at.outside[0]) for at in found.places] == [
        ("net.py:33", 0, 20),
        ("no single line", 0, 6),
        ("net.py:12", 0, 4),
        ("net.py:30", 60, 0),
        ("net.py:10", 10, 0),
    ]
    widths = {box.title: (round(box.width), round(box.captured)) for box in found.picture.boxes}
    assert widths == {
        "the whole call: 80 % in graphs": (1000, 800),
        "inside graphs: 80 % of the call": (800, 800),
        "net.py: 80 % of the call, in graphs": (800, 800),
        "net.py:30 Block: 60 % of the call, in graphs": (600, 600),
        "net.py:10 Net: 20 % of the call, in graphs": (200, 200),
        "outside of graphs: 20 % of the call": (200, 0),
        "net.py: 12 % of the call, outside of graphs": (120, 0),
        "net.py:33 Block.forward: 10 % of the call, outside of graphs": (100, 0),
        "net.py:12 Block.forward: 2 % of the call, outside of graphs": (20, 0),
        "no single line: 8 % of the call, outside of graphs": (80, 0),
    }
    assert found.picture.caption == "By time on the host: 80 % inside graphs, 0.2 s of 1.0 s outside."
    twice = source_picture(modules, (site(33, 30, 0.4),), None)  # medians that do not add up
    assert twice is not None
    assert [round(box.width) for box in twice.picture.boxes if "outside" in box.title] == [200, 200, 200]
    untimed = tuple(dataclasses.replace(module, seconds_captured=None) for module in modules)
    by_operations = source_picture(untimed, (site(33, 20, 0.1),), None)
    assert by_operations is not None
    assert by_operations.picture.caption == "By operations: 70 % inside graphs, 30 of 100 operations outside."
    assert source_picture((), (), None) is None
    assert len(pictures(untimed, None)) == 1  # how much of the time was in graphs is not known


def test_lines_open_in_an_editor_if_that_is_asked_for(tmp_path: Path) -> None:
    root = tmp_path / "my net"
    root.mkdir()
    (root / "model.py").write_text(NET)
    there = f"{tmp_path.as_posix()}/my%20net/model.py"
    assert "my%20net" not in render(broken(), "html", root=root)
    text = render(broken(), "html", editor="vscode", root=root)
    assert f'href="vscode://file{there}:15:12"' in text
    assert 'aria-label="Open model.py:15 in the editor"' in text
    assert not re.search(r"vscode:[^\"]*modeling_bert", text)  # not below the folder
    assert f"pycharm://open?file={there}&amp;line=15" in render(broken(), "html", editor="pycharm", root=root)
    own = render(broken(), "html", editor="subl://open?url=file://{path}&line={line}", root=root)
    assert f"subl://open?url=file://{there}&amp;line=15" in own
    windows = Editor(EDITORS["vscode"], PureWindowsPath(r"C:\code"), frozenset({"a#b.py"}))
    assert windows.link("a#b.py", 3, 1) == "vscode://file/C:/code/a%23b.py:3:1"
    assert windows.link("other.py", 3, 1) == ""
    for wrong in (
        "emacs",
        "javascript:alert('{path}')",
        "vscode://file",
        "JavaScript:{path}",
        "about:{path}",
        "x://{path}/{bogus}",
        "",
    ):
        with pytest.raises(TcreadyError, match="--editor"):
            render(broken(), "html", editor=wrong, root=root)
    outside = report(
        findings=(finding(NET, "x.sum() > 0", path="/srv/other/model.py"),),
        sources=(source("/srv/other/model.py", NET),),
    )
    assert "vscode" not in render(outside, "html", editor="vscode", root=root)


def test_what_is_pasted_is_marked_for_a_copy_button() -> None:
    text = render(planned(), "html")
    pasted = re.findall(r'<pre class="(?:diff )?paste"><code>(.*?)</code></pre>', text, re.DOTALL)
    told = "\n".join(pasted)
    for words in ("model.compile()", "TCREADY_EAGER", "torch.where", "+++ b/model.py", "set_logs"):
        assert words in told
    assert "onclick" not in text
    assert "Copy</button>" not in text  # the script makes the buttons: without it there is none that does nothing


def test_the_page_of_twelve_layers_is_small() -> None:
    """A real run with a plan, and a recorded BERT beside 1,400 lines of source."""
    folder = Path(__file__).parents[2] / "fixtures"
    stored = json.loads((folder / "stored" / "twelve_layers.json").read_text("utf-8"))
    text = render(from_json(Report, stored), "html")
    assert "(the whole)" in text
    assert text.count('class="mod"') == 126
    assert len(text.encode()) < 400_000
    seen = from_json(Observation, json.loads((folder / "cuda" / "plan_bert.json").read_text("utf-8")))
    found = merge(StaticResult((), (), (), (), (), {}), [seen], {}, Tool("tcready", "0"))
    path = "transformers/models/bert/modeling_bert.py"
    lines = "".join(f"        hidden_states = self.layer_{n}(hidden_states, attention_mask)\n" for n in range(1400))
    ran = changed(found.targets[0], executed=(LineSet(path, ((1, 1400),)),))
    text = render(dataclasses.replace(found, targets=(ran,), sources=(source(path, lines),)), "html")
    assert text.count('class="mod"') == 228
    assert "layer_373(" in text  # the forward of a region
    assert "layer_800(" not in text  # neither on the page nor in its data
    assert len(text.encode()) < 400_000


def test_of_a_large_own_file_the_page_holds_what_it_shows() -> None:
    big = sized(lines=4000, layers=1, findings=2)
    text = render(big, "html")
    held = from_json(Report, json.loads(re.search(r'id="tcready-report">(.*?)</script>', text, re.DOTALL)[1]))  # type: ignore[index]
    lines = held.sources[0].text.split("\n")
    assert len(lines) == 4001
    assert sum(map(bool, lines)) == 13 + 25
    assert held.sources[0].sha256 == big.sources[0].sha256
    assert render(held, "html") == text
    small = sized(lines=400, layers=1, findings=2)
    assert lean(small, page(small).sources).sources == small.sources


@pytest.mark.parametrize("made", [compared, hostile_comparison])
def test_the_page_of_a_comparison_is_well_formed(made: Callable[[], Comparison]) -> None:
    told = made()
    page = Page(render_comparison(told, "html"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for attributes in page.all("a"):
        href = attributes["href"] or ""
        assert href[1:] in ids if href.startswith("#") else href.startswith("https://meta-pytorch.github.io/")
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(attributes.get("scope") in ("col", "row") for attributes in page.all("th"))
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    text = " ".join(page.text_of("main")[0].split())
    for change in told.findings:  # everything that the text format tells
        assert " ".join(visible(change.finding.message).replace("`", "").split()) in text.replace("`", "")
    assert "/home" not in text
