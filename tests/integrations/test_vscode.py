"""The extension for VS Code, in `editors/vscode`: it is built, tested and packaged as a user of it would get it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tcready.integrations.lsp.line_states import STATES

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text("utf-8"))
MADE = ("node_modules", "dist", "out", "*.vsix")
"""What is left behind by a build in the tree."""
SHIPPED = {
    "[Content_Types].xml",
    "extension.vsixmanifest",
    "extension/LICENSE.txt",
    "extension/package.json",
    "extension/README.md",
    "extension/dist/extension.js",
    "extension/dist/licenses.txt",
    *(f"extension/media/{state}.svg" for state in STATES),
}


def npm(folder: Path, *args: str) -> str:
    """What a command of npm prints; it must succeed."""
    environment = {**os.environ, "TCREADY_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    if importlib.util.find_spec("torch") is None:
        environment["TCREADY_WITHOUT_TORCH"] = "1"
    done = subprocess.run(
        [shutil.which("npm") or "npm", *args],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=900,
    )
    assert done.returncode == 0, f"npm {' '.join(args)}:\n{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the extension with what its lock file names."""
    for name in ("node", "npm"):
        if shutil.which(name) is None:
            missing = f"no {name}: install it, such as Debian's packages nodejs and npm"
            if os.environ.get("CI"):
                pytest.fail(missing)
            pytest.skip(missing)
    folder = tmp_path_factory.mktemp("editor") / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns(*MADE))
    npm(folder, "ci", "--ignore-scripts", "--no-audit", "--no-fund")  # what it installs runs nothing
    return folder


@pytest.mark.slow
def test_the_source_is_typed_and_in_style(built: Path) -> None:
    npm(built, "run", "lint")


@pytest.mark.slow
@pytest.mark.torch
def test_its_own_tests_pass_with_a_real_server_and_real_runs(built: Path) -> None:
    printed = npm(built, "test")
    (passed,) = re.findall(r"^\W* pass (\d+)$", printed, re.MULTILINE)
    (skipped,) = re.findall(r"^\W* skipped (\d+)$", printed, re.MULTILINE)
    written = sum(
        len(re.findall(r"^test\(", path.read_text(), re.MULTILINE)) for path in (EXTENSION / "test").glob("*.ts")
    )
    assert int(passed) + int(skipped) == written
    assert int(skipped) == 0 or importlib.util.find_spec("torch") is None


@pytest.fixture(scope="module")
def packaged(built: Path) -> Path:
    npm(built, "run", "package")
    return built / "tcready.vsix"


@pytest.mark.slow
def test_the_package_holds_what_it_should_and_nothing_more(packaged: Path) -> None:
    with zipfile.ZipFile(packaged) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    assert held.keys() == SHIPPED
    assert json.loads(held["extension/package.json"]) == MANIFEST
    code = held["extension/dist/extension.js"].decode()
    assert 'require("vscode")' in code
    assert not re.search(r'require\("(?!node:|vscode")[^"./]*/', code), "it needs a package that is not in it"
    assert "sourceMappingURL" not in code
    notices = held["extension/dist/licenses.txt"].decode()
    assert re.search(r"^vscode-languageclient \d.* \(MIT\)$", notices, re.MULTILINE)
    for content in held.values():
        assert str(ROOT).encode() not in content
        assert str(packaged.parent).encode() not in content


def test_the_lock_file_names_no_registry() -> None:
    text = (EXTENSION / "package-lock.json").read_text("utf-8")
    lock = json.loads(text)
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []
    assert all("integrity" in package for name, package in lock["packages"].items() if name and not package.get("link"))
    assert lock["packages"][""]["devDependencies"] == MANIFEST["devDependencies"]


def test_the_manifest_agrees_with_the_package_and_its_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert MANIFEST["version"] == project["version"]
    assert MANIFEST["license"] == project["license"]
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    readme = (EXTENSION / "README.md").read_text("utf-8")
    page = (ROOT / "docs" / "pages" / "editors.md").read_text("utf-8")
    for name in MANIFEST["contributes"]["configuration"]["properties"]:
        assert f"`{name}`" in readme
        assert f"`{name}`" in page
    source = (EXTENSION / "src" / "extension.ts").read_text("utf-8")
    for command in MANIFEST["contributes"]["commands"]:
        assert f"registerCommand('{command['command']}'" in source
    assert MANIFEST["capabilities"]["untrustedWorkspaces"]["supported"] is False


def test_the_gutter_knows_every_state_of_the_server() -> None:
    source = (EXTENSION / "src" / "gutter.ts").read_text("utf-8")
    (states,) = re.findall(r"STATES = \[(.*)\] as const", source)
    assert tuple(re.findall(r"'(\w+)'", states)) == STATES
    assert {path.stem for path in (EXTENSION / "media").glob("*.svg")} == {*STATES}


PATIENCE = 240_000
"""Milliseconds to wait for what must come."""


@pytest.fixture
def vscode(packaged: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a VS Code with the extension, and with a folder that has the demo model: `tmp_path / "ws"`."""
    program = shutil.which("code-server")
    if program is None:
        pytest.skip("no code-server, the VS Code that runs in a browser")
    (tmp_path / "ws").mkdir()
    shutil.copy(ROOT / "examples" / "quantizer.py", tmp_path / "ws")
    (tmp_path / "data" / "User").mkdir(parents=True)
    settings = {"tcready.path": sys.executable, "workbench.startupEditor": "none"}
    (tmp_path / "data" / "User" / "settings.json").write_text(json.dumps(settings))
    folders = ["--user-data-dir", str(tmp_path / "data"), "--extensions-dir", str(tmp_path / "extensions")]
    environment = {**os.environ, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    subprocess.run([program, *folders, "--install-extension", str(packaged)], env=environment, check=True, timeout=120)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = ["--auth", "none", "--bind-addr", address, "--disable-workspace-trust", "--disable-telemetry"]
    with subprocess.Popen([program, *folders, *options, "--disable-update-check"], env=environment) as server:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"http://{address}/healthz", timeout=5)
                    break
                except OSError:
                    time.sleep(0.2)
            yield f"http://{address}/?folder={tmp_path / 'ws'}"
        finally:
            server.terminate()


@pytest.mark.release
@pytest.mark.torch
def test_in_vs_code(vscode: str, tmp_path: Path) -> None:
    """Findings, a run with its marks and its report, and changes that are applied only after a click."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium")
    from playwright.sync_api import expect, sync_playwright

    file = tmp_path / "ws" / "quantizer.py"
    text = file.read_text()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1300, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(vscode)
        page.get_by_role("treeitem", name="quantizer.py").dblclick()
        expect(page.locator(".squiggly-error").first).to_be_visible(timeout=PATIENCE)
        expect(page.get_by_text("tcready: not run; 5 breaks predicted")).to_be_visible(timeout=PATIENCE)
        marks = page.locator(".glyph-margin-widgets .cgmr")
        assert marks.count() == 0

        def command(name: str) -> None:
            page.keyboard.press("F1")
            page.locator(".quick-input-widget input").first.fill(f">tcready: {name}")
            page.get_by_role("option", name=name).first.click()

        command("Run and verify")
        show = page.get_by_role("button", name="Show Report")
        show.first.click()
        report = page.frame_locator("iframe.webview.ready").frame_locator("iframe")
        expect(report.get_by_role("heading", name="quantizer.py::Model: not ready")).to_be_visible(timeout=PATIENCE)
        expect(marks.first).to_be_visible(timeout=PATIENCE)
        page.get_by_role("tab", name="quantizer.py").first.click()
        command("Propose verified fixes")
        apply = page.get_by_role("button", name="Apply")
        expect(apply.first).to_be_visible(timeout=PATIENCE)
        assert file.read_text() == text, "nothing is applied without consent"
        apply.first.click()
        expect(marks).to_have_count(0, timeout=PATIENCE)  # the text has changed since the run
        page.keyboard.press("Control+S")
        page.wait_for_timeout(1000)
        assert file.read_text() != text
        browser.close()
