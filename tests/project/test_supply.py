"""What tcready brings, what CI installs, and that nothing here reaches for the network."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import pytest
from fixture_markers import MODELS, ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

UNHASHED = {"torch", "torchvision"}
"""Of these there are builds for the CPU and for CUDA."""
NO_NETWORK = """

import socket, sys

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto", "urllib.Request"):
        if event == "socket.connect" and arguments[0].family == getattr(socket, "AF_UNIX", None):
            return
        with open({said!r}, "a") as file:
            file.write(f"{event} {arguments[1:]}\\n")
        raise ConnectionRefusedError(event)

sys.addaudithook(refuse)
"""
"""A process says in a file what it reaches for, and is refused: each, as a sitecustomize, and what runs a model, in that."""


def _pins() -> dict[str, str]:
    """What constraints.txt pins on the platform that was tested."""
    found = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            each = Requirement(line)
            if each.marker is None or each.marker.evaluate({"python_version": "3.11"}):
                found[canonicalize_name(each.name)] = str(each.specifier)
    return found


def test_ci_has_a_hash_of_every_package_that_is_pinned() -> None:
    lines = (ROOT / ".ci" / "requirements.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert all(re.fullmatch(r"[\w.-]+==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)
    named = [Requirement(line.partition(" --hash")[0]) for line in lines]
    pinned = {canonicalize_name(each.name): str(each.specifier) for each in named}
    assert pinned == {name: pin for name, pin in _pins().items() if name not in UNHASHED}


def test_ci_builds_with_what_has_a_hash() -> None:
    """pip takes what builds a package from the index, whatever is installed, unless it is told not to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for each in map(Requirement, project["build-system"]["requires"]):
        assert _pins()[canonicalize_name(each.name)].removeprefix("==") in each.specifier
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    built = [line for line in script.splitlines() if "pip install" in line and " -e " in line]
    # The newest torch, and what it needs, are taken by version.
    built = [line for line in built if "-newest" not in line]
    assert len(built) == 2
    # from the files that were downloaded by their hashes, or with what is there
    assert all("${from_where[@]" in line or "${built_with[@]" in line for line in built)
    assert "built_with=(--no-build-isolation)" in script


def test_the_page_names_every_extra_of_the_bill_of_materials() -> None:
    extras = runpy.run_path(str(ROOT / ".ci" / "sbom.py"))["EXTRAS"]
    page = (ROOT / "docs" / "pages" / "reliability.md").read_text(encoding="utf-8")
    said = page.partition("(CycloneDX 1.6) lists")[2].partition("install")[0]
    assert tuple(re.findall(r"`(\w+)`", said)) == extras


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or sys.version_info[:2] != (3, 11),
    reason="it says what torch needs, on the Python that was tested",
)
@pytest.mark.pinned
def test_the_bill_of_materials_is_what_is_installed() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "sbom.py"))["written"]()
    assert made == (ROOT / "docs" / "sbom.cdx.json").read_text(encoding="utf-8"), (
        "make it anew: python .ci/sbom.py > docs/sbom.cdx.json"
    )
    bill = json.loads(made)
    names = {each["name"] for each in bill["components"]}
    assert {"click", "libcst", "torch", "scipy", "pygls", "mcp", "nbformat"} <= names
    assert not names & {"pytest", "hypothesis", "sphinx", "ruff"}
    refs = {each["bom-ref"] for each in bill["components"]}
    assert all(set(each["dependsOn"]) <= refs for each in bill["dependencies"])


@pytest.fixture
def watched(tmp_path: Path) -> dict[str, str]:
    """An environment in which every Python process says what it reaches for, and is refused."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "sitecustomize.py").write_text(_watch(tmp_path))
    return {**os.environ, "PYTHONPATH": str(tmp_path / "watch")}


def _watch(folder: Path) -> str:
    return NO_NETWORK.replace("{said!r}", repr(str(folder / "reached.txt")))


def test_the_watch_sees_what_reaches_out(watched: dict[str, str], tmp_path: Path) -> None:
    code = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')"
    subprocess.run([sys.executable, "-c", code], env=watched, capture_output=True)
    assert (tmp_path / "reached.txt").read_text()


CHECK = ("check", "model.py", "-q", "--html", "page.html")
SWEEP = ("sweep", "model.py", "-q", "--html", "page.html")
RUNS = (pytest.mark.torch, pytest.mark.slow)
COMMANDS = pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param((*CHECK, "--no-run"), "TCR", id="check, read"),
        pytest.param(CHECK, "(confirmed)", id="check, run", marks=RUNS),
        pytest.param(("fix", "model.py", "--unsafe", "-q"), "+++ b/model.py", id="fix"),
        pytest.param((*SWEEP, "--no-run"), "SWEEP   1 model", id="sweep, read"),
        pytest.param(SWEEP, "1 model: 1 not ready", id="sweep, run", marks=RUNS),
    ],
)


@COMMANDS
def test_no_process_reaches_for_the_network(
    command: tuple[str, ...], says: str, watched: dict[str, str], tmp_path: Path
) -> None:
    _works(command, says, watched, tmp_path)


@COMMANDS
def test_all_is_said_where_there_is_no_network(
    command: tuple[str, ...], says: str, watched: dict[str, str], tmp_path: Path
) -> None:
    """What no hook of Python sees cannot reach out either: there is nothing to reach."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no network namespace here: there is no unshare")
    alone = (unshare, "-rn", "--")
    links = [sys.executable, "-c", "import socket; print([name for _, name in socket.if_nameindex()])"]
    tried = subprocess.run([*alone, *links], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"no network namespace here: {tried.stderr.strip()}")
    assert tried.stdout == "['lo']\n"
    _works(command, says, watched, tmp_path, alone)


def _works(
    command: tuple[str, ...], says: str, environment: dict[str, str], folder: Path, alone: tuple[str, ...] = ()
) -> None:
    """Whether a command does on a model what it does everywhere, and no process reached for the network."""
    model = (MODELS / "super_chain.py").read_text(encoding="utf-8")
    # the worker takes no sitecustomize from PYTHONPATH
    (folder / "model.py").write_text(model + _watch(folder))
    done = subprocess.run(
        [*alone, sys.executable, "-m", "tcready", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    left = 0 if command[0] == "fix" else 1  # what fix proposes leaves no break
    assert done.returncode == left, done.stdout + done.stderr
    assert says in done.stdout
    assert not (folder / "reached.txt").exists(), (folder / "reached.txt").read_text()
    assert (folder / "page.html").exists() == ("--html" in command)
