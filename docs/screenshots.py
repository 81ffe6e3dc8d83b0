"""Takes the screenshots of the pages: `python docs/screenshots.py` (needs the extras `torch` and `dev`, and Chromium).

Each shows a page of three models: one that is ready, one that breaks in its own code, one whose breaks are all in a
package that it uses.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tcready import check, render
from tcready.schema import Report

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "pages" / "img"
WIDTH, MARGIN = 1000, 20


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
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = Path(folder) / "report.html"
        shoot(browser, page, ready, "ready.png", ("header", "#coverage .picture"))
        shoot(browser, page, own, "own-breaks.png", ("header", "#coverage .picture"))
        shoot(browser, page, own, "finding.png", ("#findings .finding",))
        shoot(browser, page, own, "source.png", ("#source",))
        shoot(browser, page, package, "package.png", ("header", "#first .actions > li"))
        shoot(browser, page, package, "package-source.png", ("#source",))
        browser.close()
    return 0


def shoot(browser: Browser, path: Path, report: Report, name: str, shown: tuple[str, ...]) -> None:
    """The part of the report's page from the first to the last of the elements `shown`."""
    path.write_text(render(report, "html"), encoding="utf-8")
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
