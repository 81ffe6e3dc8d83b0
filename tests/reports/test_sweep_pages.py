"""The pages of a sweep: one of all models, which is searched, sorted and leafed through, and one of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from axe_playwright_python.sync_playwright import Axe
from commands import run
from playwright.sync_api import Browser, Page, expect
from report_samples import HOSTILE_STRINGS, finding, report, sample, source, target
from tcready import api
from tcready.reports import render
from tcready.reports.machine.json_report import render as render_json
from tcready.reports.shared.wording import visible
from tcready.schema.report import Report
from tcready.schema.run import LineSet
from tcready.schema.static import Skipped, StaticModule, StaticTarget
from tcready.schema.sweep import Outcome, Sweep, SweptFix, SweptModel, SweptSite

FLEET = 5000
CODE = dedent("""\
    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        print(x)
        return x
""")


def row(target: str, verdict: str = "not_ready", sites: int = 1, **given: object) -> SweptModel:
    outcome = Outcome("run", verdict, 0.5, sites, 0)  # type: ignore[arg-type]
    return dataclasses.replace(
        SweptModel(target, "infer", "cpu", "2.13.0", "3.11.7", outcome, "breaks at 1 line"),
        **given,  # type: ignore[arg-type]
    )


def swept(models: tuple[SweptModel, ...], sites: tuple[SweptSite, ...] = (), **given: object) -> Report:
    found = Sweep(models, sites, (SweptFix("TCR301 at a.py:4: Remove it", 1, ("a.py::A",), 0, 0.0),), seconds=3.0)
    return report(sweep=found, **given)


def fleet() -> Report:
    """As many models as a large package has, one of them with text that is no name."""
    verdicts = ("ready", "not_ready", "ready_by_region")
    models = [row(f"pkg/m{n:04}.py::Net", verdicts[n % 3], n % 3, compile_seconds=n / 7) for n in range(FLEET - 1)]
    hostile = " ".join(HOSTILE_STRINGS)
    models.append(row(f"evil {hostile}", "unknown", 0, reason=hostile))
    names = tuple(each.target for each in models[:40])
    sites = tuple(
        SweptSite(f"pkg/m{n:04}.py", n + 1, "Net.forward", "own", "TCR101", f"`if` {hostile}", names, observed=True)
        for n in range(150)
    )
    return swept(tuple(models), sites, warnings=(hostile,))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("fleet") / "fleet.html"
    text = render(fleet(), "html", folder="fleet_models")
    assert len(text) < 5_000_000
    path.write_text(text, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def fleet_page(browser: Browser, address: str) -> Iterator[Page]:
    page = browser.new_page()
    trouble: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    assert trouble == []
    assert {url.partition("#")[0] for url in asked} == {address}


def test_thousands_of_models_are_leafed_through_searched_and_sorted(fleet_page: Page) -> None:
    models = fleet_page.locator("#models")
    rows = models.locator("tbody tr")
    expect(models.get_by_role("status")).to_have_text(f"1 to 100 of {FLEET}")
    assert rows.count() == 100
    models.get_by_role("button", name="Next").click()
    expect(models.get_by_role("status")).to_have_text(f"101 to 200 of {FLEET}")
    models.get_by_role("searchbox").fill("m1234")
    expect(models.get_by_role("status")).to_have_text(f"1 to 1 of 1 of {FLEET}")
    assert rows.first.locator("th").inner_text() == "pkg/m1234.py::Net"
    models.get_by_role("searchbox").fill("no such model")
    expect(models.get_by_role("status")).to_have_text(f"none of {FLEET}")
    models.get_by_role("searchbox").fill("")
    for first in ("-", f"{FLEET - 2} / 7"):  # what is not known comes first, then last
        models.get_by_role("button", name="compile").click()
        shown = rows.first.locator("td").last.inner_text()
        assert (shown == "-") == (first == "-")
    assert rows.first.locator("th").inner_text() == f"pkg/m{FLEET - 2:04}.py::Net"
    expect(fleet_page.locator("#sites").get_by_role("status")).to_have_text("1 to 100 of 150")


def test_hostile_names_are_shown_as_text(fleet_page: Page) -> None:
    fleet_page.locator("#models").get_by_role("searchbox").fill("evil")
    text = fleet_page.locator("main").inner_text()
    for value in HOSTILE_STRINGS:
        assert " ".join(visible(value).split()) in " ".join(text.split())
    assert fleet_page.locator("#injected, img, [onload], [onerror], iframe").count() == 0
    assert fleet_page.locator("script").count() == 1
    fleet_page.locator("#models").get_by_role("searchbox").fill("")


def test_the_page_of_all_models_has_no_fault_that_axe_finds(fleet_page: Page) -> None:
    found = Axe().run(fleet_page)
    assert found.response["violations"] == []


def test_without_a_script_every_model_is_there(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert page.locator("#models tbody tr").count() == FLEET
    context.close()


def of_two_models() -> Report:
    """Two models of one file: one was run and prints, the other was read and has an `if`."""
    branch = finding(CODE, "x.sum() > 0", rule="TCR101", path="a.py", fingerprint="if")
    prints = finding(CODE, "print(x)", rule="TCR301", path="a.py", fingerprint="print")
    ran = target("a.py::A", executed=(LineSet("a.py", ((4, 5),)),))
    module = StaticModule("", "B", "a.py", 1, ("if",))
    return dataclasses.replace(
        swept((row("a.py::A"), row("a.py::B"))),
        findings=(branch, prints),
        targets=(ran, target("a.py::B")),
        sources=(source("a.py", CODE), source("b.py", CODE)),
        predicted=(StaticTarget("a.py::B", (module,)),),
    )


def test_each_model_has_a_page_of_its_own_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = of_two_models()
    found = {of_model.targets[0].target: of_model for _, of_model in api.pages_of_models(whole)}
    assert {name: [each.fingerprint for each in of_model.findings] for name, of_model in found.items()} == {
        "a.py::A": ["print"],
        "a.py::B": ["if"],
    }
    assert [[each.path for each in of_model.sources] for of_model in found.values()] == [["a.py"], ["a.py"]]
    (tmp_path / "fleet.json").write_text(render_json(whole), encoding="utf-8")
    assert run("report", "fleet.json", "--html", "all.html", "-o", "all.txt") == 0
    links = {name for name, _ in api.pages_of_models(whole)}
    assert {path.name for path in (tmp_path / "all_models").iterdir()} == links
    page = (tmp_path / "all.html").read_text(encoding="utf-8")
    assert all(f'href="./all_models/{name}"' in page for name in links)


def test_a_page_whose_models_have_none_links_to_none() -> None:
    assert "_models/" not in render(of_two_models(), "html")
    assert sample("static").sweep is None


def test_text_tells_tables_unread_files_and_what_to_do_next() -> None:
    unread = SweptModel("gone.py", "infer", "", "", "", Outcome("unread", "unknown"), "syntax error in line 1")
    unknown = SweptModel("c.py::C", "infer", "cpu", "", "", Outcome("inputs_unknown", "unknown"), "it wants a width")
    models = (row("a.py::A", table="[targets.small]"), row("a.py::A", table="[targets.large]"), unread, unknown)
    site = SweptSite(
        "a.py", 4, "A.forward", "own", "TCR301", "prints", ("a.py::A",), observed=True, fingerprint="f" * 16
    )
    whole = swept(models, (site,))
    assert whole.sweep is not None
    whole = dataclasses.replace(
        whole, sweep=dataclasses.replace(whole.sweep, gone=("gone.py::G", "b.py::B"), has_last=True)
    )
    text = render(whole, "text")
    assert "a.py::A ([targets.small])" in text
    assert "a.py::A ([targets.large])" in text
    assert "gone.py::G: its file cannot be read" in text
    assert "b.py::B: not there any more" in text
    assert "it wants a width; list it in a .toml file" in text
    assert "prints fffffff\n" in text
    assert "tcready fix TARGET --verify" in text
    assert "`c.py::C`: it wants a width; list it" in render(whole, "markdown")


def test_the_page_of_a_file_that_cannot_be_read_says_so() -> None:
    page = render(report(skipped=(Skipped("broken.py", "syntax error in line 6"),)), "html")
    assert "could not be read: syntax error in line 6. Fix that" in page
    assert "No change to your own code is asked for" not in page


def test_a_run_that_ended_before_it_said_what_it_ran_in_makes_no_other_setting() -> None:
    died = row("b.py::B", torch="", python="")
    text = render(swept((row("a.py::A"), died)), "text")
    assert "in 2 settings" not in text
    assert " setting " not in text
    text = render(swept((row("a.py::A"), row("a.py::A", mode="train"), died)), "text")
    assert "in 2 settings, 3 rows" in text
    assert "train cpu" not in text, "the mode alone tells them apart"


def test_rows_of_several_settings_are_told_apart() -> None:
    before = Outcome("run", "ready", 1.0, 0, 0)
    rows = tuple(
        row(f"{name}.py::A", "unknown", 0, mode=mode, reason=f"failed in {mode}", before=before)
        for name in ("a", "b")
        for mode in ("infer", "train")
    )
    unread = SweptModel("c.py", "infer", "", "", "", Outcome("unread", "unknown"), "syntax error")
    whole = swept((*rows, unread))
    assert whole.sweep is not None
    whole = dataclasses.replace(whole, sweep=dataclasses.replace(whole.sweep, has_last=True))
    text = render(whole, "text")
    assert "a.py::A (train): unknown: failed in train\n" in text
    assert "\nc.py: cannot be read: syntax error\n" in text
    assert "CHANGED since the last sweep: 4 rows\n" in text
    assert "b.py::A (infer)`: failed in infer" in render(whole, "markdown")


def test_interpreters_of_equal_versions_are_told_apart_by_name() -> None:
    one, other = (row("a.py::A", interpreter=name) for name in ("/envs/one/python", "/envs/other/python"))
    assert "/envs/other/python" in render(swept((one, other)), "text")
    newer = dataclasses.replace(other, torch="2.14.1")
    text = render(swept((one, newer)), "text")
    assert "torch 2.14.1" in text
    assert "/envs" not in text
