"""A first answer in ten seconds, without torch: `pytest -n 0 tests/test_smoke.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tcready import api
from tcready.cli import main

pytestmark = pytest.mark.smoke
EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "quantizer.py"
CLEAN = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""


def run(*arguments: str) -> int:
    """Run a command, and return its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_the_example_has_findings_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    report = api.check([EXAMPLE.name], root=EXAMPLE.parent, run=False)
    assert report.findings
    for form in ("text", "json", "sarif", "html", "markdown"):
        assert report.findings[0].rule in api.render(report, form)
    assert capsys.readouterr() == ("", "")


def test_a_clean_model_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(CLEAN)
    assert run("check", str(tmp_path / "net.py"), "--no-run", "--output-format", "json") == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_every_rule_has_a_page() -> None:
    assert all(rule.summary and rule.bad and rule.good for rule in api.load_rules())


def test_a_wrong_target_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("check", "nowhere.py", "--no-run") == 2
    assert "nowhere.py" in capsys.readouterr().err
