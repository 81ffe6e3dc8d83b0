"""For every test."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from reading import PINNED

# Several workers share the cores: threads of one that wait for each other keep those of the other from running.
os.environ.setdefault("OMP_NUM_THREADS", "1")
OF_TORCH = Path(__file__).parent / "dynamic"
"""Each of its tests runs torch."""
# Programs of this interpreter (ninja) are found, by runs too; set here, all runs of a process have the same environment.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need torch, and all but one in N of the cases of a test with `sampled(N)` as `release`, before
    the default selection applies."""
    seen: Counter[str] = Counter()
    for item in items:
        if item.path.is_relative_to(OF_TORCH):
            item.add_marker(pytest.mark.torch)
        if (sampled := item.get_closest_marker("sampled")) is not None:
            function = item.nodeid.partition("[")[0]
            if seen[function] % sampled.args[0]:
                item.add_marker(pytest.mark.release)
            seen[function] += 1


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is not marked `torch` passes without torch: CI runs it in an environment that has none."""
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        reason = "torch is not installed"
        if os.environ.get("CI") and not os.environ.get("TCREADY_WITHOUT_TORCH"):
            pytest.fail(f"{reason}, and a proof must not be missing silently")
        pytest.skip(reason)
    if item.get_closest_marker("pinned") and _running_torch() != PINNED:
        pytest.skip("the sample shows what another torch does")


def _running_torch() -> tuple[int, ...]:
    return tuple(map(int, metadata.version("torch").split(".")[:2]))


@pytest.fixture(scope="session", autouse=True)
def _extensions_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A C++ extension is built anew: in torch's own folder, a build that was killed leaves a lock for ever."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(tmp_path_factory.mktemp("torch_extensions"))


@pytest.fixture(autouse=True)
def _runs_are_copies(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that a test asks the command line or the API for are copies of a process that has imported torch, as several
    runs of one command are: importing it takes longer than most of them. Tests of how a worker starts call the launcher.
    """
    if request.node.get_closest_marker("torch") is None or importlib.util.find_spec("torch") is None:
        return
    from observing import SERVER, opened
    from tcready.pipeline import observations

    launch = observations.launch

    def launch_copy(target: str, options: Any, root: Path, progress: Any, server: Any = None, stays: Any = None) -> Any:
        opened(SERVER)
        return launch(target, options, root, progress, server or SERVER, stays)

    monkeypatch.setattr(observations, "launch", launch_copy)
    monkeypatch.setattr(observations, "fork_server", lambda: contextlib.nullcontext(SERVER))
