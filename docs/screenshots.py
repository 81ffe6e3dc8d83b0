"""Takes the screenshots of the pages: `python docs/screenshots.py` (needs the extras `torch` and `dev`, and Chromium).

They show the pages of four models: one that is ready, one that breaks in its own code, one whose breaks are all in a
package that it uses, one of which it was tried which parts to compile; and what changed in the last when two of its lines
were mended.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tcready import check, compare, render
from tcready.schema.comparison import Comparison

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "pages" / "img"
WIDTH, MARGIN = 1000, 20
VQ = "examples/quantizer.py"


def main() -> int:
    """Overwrites the images; exit 1 where there is no Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("needs Chromium", file=sys.stderr)
        return 1
    ready = check(["fixtures/models/clean_vit.py"], backend=True, root=ROOT)
    own = check(["fixtures/models/moe_router.py"], fullgraph=True, shapes=True, root=ROOT)
    tower = "fixtures/targets/library_tower.py"
    package = check([f"{tower}::Tower"], inputs=f"{tower}::inputs", root=ROOT)
    planned = check([VQ], plan=True, root=ROOT)
    changed = mended()
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = Path(folder) / "report.html"
        for of, name, shown in (
            (ready, "ready.png", ("header", "#coverage .picture")),
            (own, "own-breaks.png", ("header", "#coverage .picture")),
            (own, "finding.png", ("#findings .finding",)),
            (own, "source.png", ("#source",)),
            (own, "where.png", ("#coverage", "#coverage > figure:last-of-type")),
            (package, "package.png", ("header", "#first .actions > li")),
            (package, "package-source.png", ("#source",)),
            (planned, "planned.png", ("header", "#first .change")),
        ):
            shoot(browser, page, render(of, "html"), name, shown)
        shoot(browser, page, render(changed, "html"), "compared.png", ("header", "#stayed"))
        browser.close()
    return 0


def mended() -> Comparison:
    """What changed in a model when its two lines that print were taken out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.py"
        text = (ROOT / VQ).read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        before = check(["model.py"], root=folder)
        kept = [
            line for line in text.splitlines(keepends=True) if "print(" not in line and "if self.verbose" not in line
        ]
        path.write_text("".join(kept), encoding="utf-8")
        return compare(before, check(["model.py"], root=folder), ("before.json", "after.json"))


def shoot(browser: Browser, path: Path, html: str, name: str, shown: tuple[str, ...]) -> None:
    """The part of the page from the first to the last of the elements `shown`."""
    path.write_text(html, encoding="utf-8")
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.goto(path.as_uri())
    boxes = [box for selector in shown if (box := page.locator(selector).first.bounding_box())]
    top = max(min(box["y"] for box in boxes) - MARGIN, 0)
    bottom = max(box["y"] + box["height"] for box in boxes) + MARGIN
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top}
    page.screenshot(path=IMAGES / name, full_page=True, clip=clip)  # type: ignore[arg-type]
    page.close()


if __name__ == "__main__":
    sys.exit(main())
