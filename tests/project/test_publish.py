"""What is published, as users install it: built as the workflow builds it, uploaded to an index on this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest
from scratch_git import tool_tree

yaml = pytest.importorskip("yaml")
MISSING = [name for name in ("pipx", "pypiserver", "twine", "uv") if importlib.util.find_spec(name) is None]
"""Not imported: pypiserver brings an import hook that is older than Python's own, about which later imports warn."""
pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif(bool(MISSING), reason=f"the extra `dist` brings {', '.join(MISSING)}"),
]
ROOT = Path(__file__).resolve().parents[2]
HIT = dedent("""\
    import torch.nn as nn


    class Net(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                x = x + 1
            return x
""")
CLEAN = HIT.replace("x.sum() > 0", "x.shape[0] > 1")


@dataclass(frozen=True)
class Index:
    """An index that holds tcready and what it needs, without any extra."""

    url: str
    folder: Path
    version: str


@dataclass(frozen=True)
class User:
    """Somebody with a model, whose programs know this index and no other."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, command)], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=600
        )

    def expect(self, code: int, *command: str | Path) -> str:
        done = self.run(*command)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def make_environment(self) -> Path:
        """Make a virtual environment with pip, and return its folder of programs."""
        venv.create(self.folder / "venv", with_pip=True, symlinks=True)
        return self.folder / "venv" / "bin"

    def finds_the_hazard(self, *tcready: str | Path) -> None:
        assert "model.py:6" in self.expect(1, *tcready, "check", "model.py", "--no-run")
        self.expect(0, *tcready, "check", "clean.py", "--no-run")


def without_settings() -> dict[str, str]:
    """The environment without what configures the programs under test."""
    own = ("GIT_", "PIP_", "PIPX_", "PYTHON", "UV_", "VIRTUAL_ENV", "TWINE_")
    return {key: value for key, value in os.environ.items() if not key.startswith(own)}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist and the wheel, by the lines of the workflow, in a clone."""
    base = tmp_path_factory.mktemp("build")
    tool, _ = tool_tree(base)
    venv.create(base / "venv", with_pip=True, symlinks=True)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    (step,) = [step for step in workflow["jobs"]["build"]["steps"] if "python -m build" in step.get("run", "")]
    path = os.pathsep.join([str(base / "venv" / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "RUNNER_TEMP": str(base)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tool, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("there is no index here to take the build backend from")
    assert done.returncode == 0, done.stdout + done.stderr
    return tool / "dist"


@pytest.fixture(scope="module")
def index(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    folder = tmp_path_factory.mktemp("index")
    (wheel,) = built.glob("*.whl")
    # Beside what tcready needs: pipx takes the newest pip for itself, and setuptools builds from the sdist.
    download = ("download", "-q", "--only-binary", ":all:", "-c", ROOT / "constraints.txt", "-d", folder, wheel)
    subprocess.run(
        [sys.executable, "-m", "pip", *map(str, download), "pip", "setuptools"],
        check=True,
        capture_output=True,
        timeout=600,
    )
    (folder / wheel.name).unlink()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    serve = (
        "run",
        "-i",
        "127.0.0.1",
        "-p",
        port,
        "-a",
        ".",
        "-P",
        ".",
        "--disable-fallback",
        "--server",
        "wsgiref",
        folder,
    )
    server = subprocess.Popen(
        [sys.executable, "-m", "pypiserver", *map(str, serve)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(url, server)
        files = sorted(map(str, built.iterdir()))
        twine = [sys.executable, "-m", "twine"]
        subprocess.run([*twine, "check", "--strict", *files], check=True, capture_output=True, timeout=120)
        upload = ["upload", "--non-interactive", "--repository-url", url, "-u", "any", "-p", "any", *files]
        done = subprocess.run([*twine, *upload], env=without_settings(), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        yield Index(f"{url}simple/", folder, wheel.name.split("-")[1])
    finally:
        server.terminate()
        server.wait(timeout=30)


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        assert server.poll() is None, "the index has ended"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the index does not answer")


@pytest.fixture
def user(index: Index, tmp_path: Path) -> User:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.py").write_text(HIT)
    (folder / "clean.py").write_text(CLEAN)
    settings = {
        "HOME": str(tmp_path / "home"),
        "NO_PROXY": "127.0.0.1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": index.url,
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_DEFAULT_BACKEND": "pip",  # uv is tested below
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_DEFAULT_INDEX": index.url,
        "UV_NO_CONFIG": "1",
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
    }
    return User(folder, without_settings() | settings)


def test_the_index_has_both_files_of_the_version(index: Index) -> None:
    names = {path.name for path in index.folder.iterdir() if path.name.startswith("tcready-")}
    assert names == {f"tcready-{index.version}.tar.gz", f"tcready-{index.version}-py3-none-any.whl"}
    assert f'\nversion = "{index.version}"\n' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_pip_installs_it_without_torch(user: User, index: Index) -> None:
    programs = user.make_environment()
    user.expect(0, programs / "pip", "install", "tcready")
    assert user.expect(0, programs / "tcready", "--version") == f"tcready {index.version}\n"
    assert user.run(programs / "python", "-c", "import torch").returncode == 1
    user.finds_the_hazard(programs / "tcready")


def test_pip_builds_it_from_the_sdist(user: User, index: Index) -> None:
    """Where wheels are not taken, with the build backend from the index."""
    programs = user.make_environment()
    user.expect(0, programs / "pip", "install", "--no-binary", "tcready", "tcready")
    assert user.expect(0, programs / "tcready", "--version") == f"tcready {index.version}\n"
    user.finds_the_hazard(programs / "tcready")


def test_pipx_installs_it(user: User, index: Index) -> None:
    user.expect(0, sys.executable, "-m", "pipx", "install", "tcready")
    tcready = Path(user.environment["PIPX_BIN_DIR"], "tcready")
    assert user.expect(0, tcready, "--version") == f"tcready {index.version}\n"
    user.finds_the_hazard(tcready)


def test_uvx_runs_it(user: User) -> None:
    import uv

    user.finds_the_hazard(Path(uv.find_uv_bin()).with_name("uvx"), "tcready")


def link_others(folder: Path) -> Path:
    """Link what is installed here, but tcready and pip, into a folder."""
    folder.mkdir()
    for site in filter(lambda entry: entry.endswith("site-packages"), sys.path):
        for path in Path(site).iterdir():
            left_out = path.suffix == ".pth" or "tcready" in path.name or path.name.partition("-")[0] == "pip"
            if not left_out and not (folder / path.name).exists():
                (folder / path.name).symlink_to(path)
    return folder


@pytest.mark.torch
def test_the_extra_takes_the_torch_that_is_there(user: User, index: Index) -> None:
    """pip asks for torch, which the index does not hold, and is content with one that is installed."""
    programs = user.make_environment()
    absent = user.run(programs / "pip", "install", "--dry-run", "tcready[torch]")
    assert absent.returncode == 1
    assert "No matching distribution found for torch>=" in absent.stderr

    (site,) = (user.folder / "venv").glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{link_others(user.folder / 'others')}\n")
    report = user.folder / "report.json"
    user.expect(0, programs / "pip", "install", "--report", report, "tcready[torch]")
    installed = {each["metadata"]["name"]: each for each in json.loads(report.read_text())["install"]}
    assert installed.keys() <= {"tcready", "setuptools"}  # torch may need a newer setuptools than ensurepip brings
    assert installed["tcready"]["requested_extras"] == ["torch"]
    assert installed["tcready"]["download_info"]["url"].startswith(index.url.removesuffix("simple/"))
    shown = user.expect(1, programs / "tcready", "check", "model.py::Net", "--run")
    assert "(confirmed)" in shown
