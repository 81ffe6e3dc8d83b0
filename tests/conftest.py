"""For every test."""

from __future__ import annotations

import importlib.util
import os

import pytest

# Several workers share the cores: threads of one that wait for each other keep those of the other from running.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is not marked `dynamo` passes without torch: CI runs it in an environment that has none."""
    if item.get_closest_marker("dynamo") and importlib.util.find_spec("torch") is None:
        reason = "torch is not installed"
        if os.environ.get("CI") and not os.environ.get("TCREADY_WITHOUT_TORCH"):
            pytest.fail(f"{reason}, and a proof must not be missing silently")
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def _extensions_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A C++ extension is built anew: in torch's own folder, a build that was killed leaves a lock for ever."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(tmp_path_factory.mktemp("torch_extensions"))
