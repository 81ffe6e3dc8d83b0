"""The page in a real browser: quiet, contained, readable without JavaScript, in both schemes and at any width.

Needs Chromium (Debian's `chromium`, or `google-chrome`). Without one the tests are skipped on a
contributor's machine and fail where CI is set.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from pypdf import PdfReader
from report_samples import HOSTILE_STRINGS, SAMPLES, compared, hostile_comparison, many, sample
from tcready.reports import render, render_comparison
from tcready.reports.machine.json_report import render as render_json
from tcready.reports.shared.anonymous_paths import without_absolute_paths
from tcready.reports.shared.wording import visible

SCHEMES = ("light", "dark")
COMPARISONS = {"compared": compared, "hostile_comparison": hostile_comparison}
PAPER = {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a sample -> the file:// address of its page."""
    folder = tmp_path_factory.mktemp("pages")
    addresses = {}
    for name in SAMPLES:
        path: Path = folder / f"{name}.html"
        path.write_text(render(sample(name), "html"), encoding="utf-8")
        addresses[name] = path.as_uri()
    for name, comparison in COMPARISONS.items():
        path = folder / f"{name}.html"
        path.write_text(render_comparison(comparison(), "html"), encoding="utf-8")
        addresses[name] = path.as_uri()
    return addresses


@dataclass
class Seen:
    """What a page did that it should not."""

    requests: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


Opener = Callable[..., tuple[Page, Seen]]


@pytest.fixture
def visit(browser: Browser, pages: dict[str, str]) -> Iterator[Opener]:
    """Opens a sample's page; whatever it did is checked when the test ends."""
    opened: list[tuple[str, Seen, Any]] = []

    def open_page(name: str, *, scheme: Any = "light", width: int = 1280, script: bool = True) -> tuple[Page, Seen]:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=script
        )
        seen = Seen()
        page = context.new_page()
        page.route("**/*", lambda route: (seen.requests.append(route.request.url), route.continue_()))
        page.on("console", lambda message: seen.trouble.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (seen.trouble.append("a dialog"), dialog.dismiss()))
        page.goto(pages[name], wait_until="load")
        opened.append((pages[name], seen, context))
        return page, seen

    yield open_page
    for address, seen, context in opened:
        context.close()
        assert seen.trouble == []
        assert {request.partition("#")[0] for request in seen.requests} == {address}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", sorted((*SAMPLES, *COMPARISONS)))
@pytest.mark.sampled(2)
def test_each_page_is_quiet_and_fits_the_window(visit: Opener, name: str, scheme: str) -> None:
    page, _ = visit(name, scheme=scheme)
    page.click("#expand")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[scheme]
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER["light"]


CONTRAST = """() => {
  const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const paper = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = new Set();
  let measured = 0;
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || ["SCRIPT", "OPTION"].includes(element.tagName) || !element.checkVisibility()) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), paper(element)].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    measured += 1;
    if (ratio < 4.5) poor.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [measured, [...poor]];
}"""


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["benched", "compared", "planned", "third_party"])
def test_all_text_has_the_contrast_of_wcag_aa(visit: Opener, name: str, scheme: str) -> None:
    page, _ = visit(name, scheme=scheme)
    page.click("#expand")
    measured, poor = page.evaluate(CONTRAST)
    assert measured > 100
    assert poor == []


@pytest.mark.parametrize("script", [True, False])
def test_hostile_text_is_shown_as_text(visit: Opener, script: bool) -> None:
    page, _ = visit("hostile", script=script)
    if script:
        page.click("#expand")
    main = page.locator("main").inner_text()
    for value in HOSTILE_STRINGS:
        assert visible(value) in main
    assert page.locator("#injected, img, [onload], [onerror], iframe").count() == 0
    assert page.locator("script").count() == 2
    data = page.locator("#tcready-report").text_content() or ""
    assert json.loads(data) == json.loads(render_json(without_absolute_paths(sample("hostile"))))


def test_it_reads_without_javascript(visit: Opener) -> None:
    page, _ = visit("broken", script=False)
    assert page.locator("h1").inner_text() == "model.py::Net: ready by region"
    main = page.locator("main").inner_text()
    for words in (
        "What to do first",
        "for layer in model.layers:",
        "x.sum() > 0",
        "Broke at line 15",
        "82 % inside graphs",
    ):
        assert words in main
    assert not page.locator("#controls").is_visible()
    assert not page.locator("#filters").is_visible()
    folded = page.locator("#findings details.more").first
    folded.locator("> summary").click()
    assert folded.locator("article").first.is_visible()
    page.click("text=model.py:15:12")
    assert page.evaluate("location.hash") == "#model.py:15"


def test_a_bench_is_reached_drawn_and_listed(visit: Opener) -> None:
    page, _ = visit("benched", script=False, width=1200)
    page.click("nav >> text=Is it worth compiling")
    assert page.evaluate("location.hash") == "#bench"
    bench = page.locator("#bench")
    assert bench.locator("svg").count() == 13  # three of each of three cases, cold starts, the soak's calls and memory
    for width in (1200, 400):
        page.set_viewport_size({"width": width, "height": 900})
        outside = page.evaluate(
            """() => [...document.querySelectorAll("#bench svg")].flatMap((svg) => {
              const around = svg.getBoundingClientRect();
              return [...svg.querySelectorAll("rect, circle, polyline, text")].filter((mark) => {
                const at = mark.getBoundingClientRect();
                return at.left < around.left - 8 || at.right > around.right + 8
                  || at.top < around.top - 8 || at.bottom > around.bottom + 8;
              }).map((mark) => mark.outerHTML);
            })"""
        )
        assert outside == []
    tables = bench.locator("table.arms")
    assert "1.43x (1.41\u20131.45)" in tables.first.inner_text()
    folded = bench.locator("details", has_text="The same as a table").first
    folded.locator("summary").click()
    assert folded.locator("td").first.is_visible()
    assert "not measured" in bench.locator(".checklist").inner_text()


def test_the_theme_switches_by_keyboard(visit: Opener) -> None:
    page, _ = visit("clean", scheme="light")
    for _ in range(5):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "theme":
            break
    assert page.evaluate("document.activeElement.id") == "theme"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for key, scheme in (("End", "dark"), ("ArrowUp", "light"), ("Home", "light")):
        page.keyboard.press(key)
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == PAPER[scheme]
    assert page.locator("#theme").input_value() == "auto"


def test_findings_filter_by_words_level_and_status(visit: Opener) -> None:
    page, _ = visit("broken")
    shown = page.locator("article.finding:not([hidden]), tr[data-level]:not([hidden])")
    total = shown.count()
    page.get_by_label("Find", exact=True).fill("gb0170")
    expect(shown).to_have_count(1)
    page.get_by_label("Find", exact=True).fill("")
    page.locator("#level").select_option("note")
    expect(shown).to_have_count(2)
    assert shown.first.is_visible()
    expect(page.locator("#shown")).to_have_text(f"2 of {total} shown")
    page.locator("#level").select_option("all")
    page.locator("#status").select_option("not traced")
    expect(shown).to_have_count(1)


def test_findings_sort_by_place_level_and_cost(visit: Opener) -> None:
    page, _ = visit("broken")
    cards = page.locator(".cards").first.locator("article")

    def levels() -> list[str]:
        return cards.evaluate_all("all => all.map((card) => card.dataset.level)")

    in_place = cards.evaluate_all("all => all.map((card) => card.id)")
    page.get_by_label("Sort").select_option("by level")
    assert levels() == sorted(levels())  # error before warning
    page.get_by_label("Sort").select_option("by cost")
    costs = cards.evaluate_all("all => all.map((card) => Number(card.dataset.cost))")
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 0
    page.get_by_label("Sort").select_option("by place")
    assert cards.evaluate_all("all => all.map((card) => card.id)") == in_place


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["benched", "compared", "planned", "static", "third_party"])
def test_axe_finds_nothing(visit: Opener, name: str, scheme: str) -> None:
    """axe-core's rules, those of WCAG 2 A and AA and its best practices among them."""
    page, _ = visit(name, scheme=scheme)
    page.click("#expand")
    found = Axe().run(page).response["violations"]
    assert [(rule["id"], rule["impact"], [node["html"] for node in rule["nodes"]][:3]) for rule in found] == []


@pytest.mark.parametrize("script", [True, False])
def test_it_prints_whole_without_its_controls(visit: Opener, script: bool) -> None:
    page, _ = visit("broken", scheme="dark", script=script)
    paper = PdfReader(BytesIO(page.pdf(format="A4")))
    read = " ".join(sheet.extract_text() for sheet in paper.pages)
    text = " ".join(unicodedata.normalize("NFKC", read).split())  # fonts join letters: \ufb01
    for words in (
        "model.py::Net: ready by region",
        "What to do first",
        "By operations: 82 % inside graphs",
        "after the layers",  # of a note, which is folded on the screen
        "Stack, outermost first",
        "embed",  # of the list of modules
        "Keep the comparison on the device.",
    ):
        assert words in text
    for words in ("Expand all", "as the system", "Skip to the report", "by place"):
        assert words not in text
    assert len(paper.pages) < 15


def test_before_and_after_stand_side_by_side_and_on_a_phone_below_each_other(visit: Opener) -> None:
    page, _ = visit("broken")
    before, after = (page.locator(".sides pre").nth(at) for at in (0, 1))
    one, other = before.bounding_box(), after.bounding_box()
    assert one
    assert other
    assert one["y"] == other["y"]
    assert one["height"] == other["height"]  # a gap stands where the other side has a line more
    assert other["x"] >= one["x"] + one["width"]
    page.set_viewport_size({"width": 400, "height": 900})
    one, other = before.bounding_box(), after.bounding_box()
    assert one
    assert other
    assert other["x"] == one["x"]
    assert other["y"] > one["y"] + one["height"]
    assert not page.locator(".sides .gap").first.is_visible()


@pytest.mark.parametrize("clipboard", ["allowed", "refused", "missing"])
def test_what_is_pasted_can_be_copied(visit: Opener, clipboard: str) -> None:
    """From a file, by the clipboard's interface or, where the browser has none for the page, by a selection."""
    page, _ = visit("planned")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """(how) => {
          window.read = navigator.clipboard.readText.bind(navigator.clipboard);
          const refuse = { writeText: () => Promise.reject(new Error("no")) };
          if (how !== "allowed") {
            const value = how === "missing" ? undefined : refuse;
            Object.defineProperty(navigator, "clipboard", { value, configurable: true });
          }
        }""",
        clipboard,
    )
    page.click("#expand")
    pasted = page.locator("pre.paste")
    assert page.get_by_role("button", name="Copy", exact=True).count() == pasted.count() > 10
    for caption, text in (
        ("To be pasted where the model was made", "model.compile()\n"),
        ("After", "        x = torch.where(x.sum() > 0, x * 2, x)\n"),  # without the gap beside it
        ("Back to eager", (sample("planned").targets[0].observation.plan or pytest.fail("no plan")).rollback + "\n"),
    ):
        captioned = page.locator("figure.code").filter(has=page.get_by_text(caption, exact=True))
        figure = captioned.filter(has_text=text.splitlines()[0].strip()).first
        button = figure.get_by_role("button")
        button.click()
        expect(button).to_have_text("Copied")
        expect(page.locator("p[role=status]")).to_contain_text("Copied")
        assert page.evaluate("window.read()") == text
    patch = page.locator("details.patch").first
    patch.get_by_role("button").click()
    expect(patch.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("window.read()").startswith(
        dedent("""\
        --- a/model.py
        +++ b/model.py
        @@ -15,2 +15,1 @@
        -""")
    )
    assert page.evaluate("document.activeElement.className") == "copy"


def test_without_javascript_there_is_no_button_to_copy(visit: Opener) -> None:
    page, _ = visit("planned", script=False)
    assert page.get_by_role("button").count() == 0
    assert page.locator("pre.paste").first.is_visible()


def test_a_hint_is_reached_from_its_finding(visit: Opener) -> None:
    page, _ = visit("broken")
    page.locator("article.finding", has_text="Broke at line 15").locator(".hint a").first.click()
    assert page.evaluate("location.hash") == "#hint-1"
    assert page.locator("#hint-1").is_visible()


def test_a_comparison_tells_what_came_went_and_stayed(visit: Opener) -> None:
    page, _ = visit("compared", script=False)
    assert page.locator("h1").inner_text() == "What changed"
    told = {
        name: page.locator(f"#{name}").inner_text() for name in ("verdicts", "speed", "new", "fixed", "differences")
    }
    assert "Ready by region" in told["verdicts"]
    assert "82 %" in told["verdicts"]
    assert "faster" in told["speed"]
    assert "within noise" in told["speed"]
    assert "-20 %" in told["speed"]
    assert "triton" in told["speed"]
    assert "`.tolist()`".strip("`") in told["new"]
    assert "model.py changed" in told["new"]
    assert "TCR101" in told["fixed"]
    assert "Break sites that only the earlier run showed" in told["fixed"]
    assert "model.py" in told["differences"]
    stayed = page.locator("#stayed")
    stayed.locator("summary").click()
    assert "(was 33)" in stayed.inner_text()
    page.click("nav >> text=What went")
    assert page.evaluate("location.hash") == "#fixed"


def test_a_hostile_comparison_is_shown_as_text(visit: Opener) -> None:
    page, _ = visit("hostile_comparison")
    page.click("#expand")
    main = page.locator("main").inner_text()
    for value in HOSTILE_STRINGS:
        assert visible(value) in main
    assert page.locator("#injected, img, [onload], [onerror], iframe").count() == 0
    assert page.locator("script").count() == 1
    assert "/home" not in page.content()


def test_two_thousand_findings_stay_quick(browser: Browser, tmp_path: Path) -> None:
    """The bars are many times what was measured, so that only a wrong order of growth fails."""
    path = tmp_path / "many.html"
    path.write_text(render(many(2000), "html"), encoding="utf-8")
    page = browser.new_page()
    page.goto(path.as_uri(), wait_until="load")
    assert page.locator("article.finding").count() == 2000
    loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
    filtered = page.evaluate(
        """() => new Promise((done) => {
          const from = performance.now();
          const find = document.getElementById("find");
          find.value = "tcr201 line_70";
          find.dispatchEvent(new Event("input"));
          requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - from)));
        })"""
    )
    assert 0 < page.locator("article.finding:not([hidden])").count() < 2000
    page.close()
    assert loaded < 20_000
    assert filtered < 5_000


def test_controls_and_regions_have_names_and_every_link_can_be_reached(visit: Opener) -> None:
    page, _ = visit("broken")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll('a, button, select, input, [role=region], summary, section, article, nav')]
          .filter((e) => !(e.getAttribute('aria-label') || e.labels?.length || e.textContent.trim()
                           || document.getElementById(e.getAttribute('aria-labelledby'))))
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert unnamed == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#main"


PLANTED = """
<script>document.documentElement.dataset.ran = "inline";</script>
<script src="{address}/script.js"></script>
<img src="{address}/image.png" onerror="document.documentElement.dataset.ran = 'handler'">
<img src="{address}/image.svg"><svg onload="document.documentElement.dataset.ran = 'svg'"></svg>
<link rel="stylesheet" href="{address}/style.css"><link rel="prefetch" href="{address}/prefetch">
<style>body {{ background: url({address}/background.png); outline: 9px solid red }}</style>
<p style="background: url({address}/attribute.png)">x</p>
<iframe src="{address}/frame.html"></iframe><object data="{address}/object"></object><embed src="{address}/embed">
<video src="{address}/video.mp4" poster="{address}/poster.png"></video><audio src="{address}/audio.mp3"></audio>
<a id="planted" href="javascript:void(document.documentElement.dataset.ran = 'link')">link</a>
<base href="{address}/"><form id="form" action="{address}/form"><input name="a"></form>
"""
"""Markup that runs or asks for something, for a page in which the escaping would have failed."""


def test_markup_that_got_into_the_page_neither_runs_nor_asks_for_anything(
    browser: Browser, pages: dict[str, str], tmp_path: Path
) -> None:
    """The second line of defence, in a real browser: first that what is planted works in a page without the policy."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    text = Path(pages["broken"].removeprefix("file://")).read_text(encoding="utf-8")
    planted = text.replace('<main id="main">', '<main id="main">' + PLANTED.format(address=address), 1)
    policy = re.compile('<meta http-equiv="Content-Security-Policy"[^>]*>')
    seen = {}
    for name, page_text in (("without", policy.sub("", planted)), ("with", planted)):
        path = tmp_path / f"{name}.html"
        path.write_text(page_text, encoding="utf-8")
        asked.clear()
        context = browser.new_context()
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="load")
        page.locator("#planted").click()
        page.evaluate("document.getElementById('form').submit()")
        page.wait_for_timeout(300)
        if name == "with":
            assert page.evaluate("getComputedStyle(document.body).outlineStyle") == "none"
            assert page.url == path.as_uri()
            assert page.evaluate("document.documentElement.dataset.ran") is None
            assert page.locator("#controls").is_visible(), "its own script runs"
        seen[name] = set(asked)
        context.close()
    server.shutdown()
    server.server_close()
    assert {"/script.js", "/image.png", "/style.css", "/frame.html"} <= seen["without"]
    assert any(path.startswith("/form") for path in seen["without"])
    assert seen["with"] == set()
