"""Programs run for real: what one line causes is one error and one number, in the verdict, the text and the page."""

from __future__ import annotations

import textwrap
from pathlib import Path
from textwrap import dedent

import pytest
from tcready.api import check, render
from tcready.schema.capture_failures import CaptureFailures

pytestmark = pytest.mark.torch

HEAD = dedent("""\
    import torch
    from torch import nn


""")
TAIL = "\n\ndef get_inputs():\n    return [torch.randn(2, 4)]\n\n\nModel = Net\n"
TWO_LOOPS = """\
def say(x):
    print("deep")  # here
    return x + 1


def first(x):
    for _ in range(2):
        x = say(x * 2)
    return x


def second(x):
    for _ in range(2):
        x = say(x * 3)
    return x


class Net(nn.Module):
    def forward(self, x):
        return second(first(x))
"""
IN_TRY = """\
class Net(nn.Module):
    def forward(self, x):
        try:
            n = x.sum().item()  # here
        except ValueError:
            n = 1
        return x * n
"""
TWO_BREAKS = """\
class Net(nn.Module):
    def forward(self, x):
        for _ in range(2):
            print("again")  # here
            if x.sum() > 0:  # behind it
                x = x + 1
        return x
"""


@pytest.mark.parametrize(
    ("body", "counted", "others"),
    [
        (TWO_LOOPS, "1 break site (skipping 2 frames)", ()),
        (IN_TRY, "1 break site (skipping 1 frame)", ()),
        (TWO_BREAKS, "1 break site (skipping 1 frame)", ("not_traced",)),
    ],
)
def test_a_break_in_a_loop_or_a_try_is_one_error(
    body: str, counted: str, others: tuple[str, ...], tmp_path: Path
) -> None:
    text = HEAD + textwrap.dedent(body) + TAIL
    (tmp_path / "model.py").write_text(text)
    report = check(["model.py"], root=tmp_path, checkout=False)
    line = text[: text.index("# here")].count("\n") + 1
    confirmed, *rest = report.findings
    assert (confirmed.line, confirmed.status, confirmed.level) == (line, "confirmed", "error")
    assert tuple(found.status for found in rest) == others
    (target,) = report.targets
    assert CaptureFailures.of(target.observation).words() == [counted]
    assert target.verdict_reason.startswith(f"{counted}; ")
    capture = next(stage for stage in target.stages if stage.stage == "capture")
    assert capture.detail.endswith(f", {counted}")
    shown = " ".join(render(report, "text", width=200, verbose=True).split())
    assert "break sites 1 distinct" in shown
    assert "skipped frames" not in shown
    page = render(report, "html")
    assert "<div><dt>break sites</dt><dd>1</dd></div>" in page
    assert "that Dynamo gave up on</caption>" not in page


CALLER_BREAKS_TOO = """\
def deeper(x):
    for _ in range(2):
        if x.sum() > 0:  # behind it
            x = x + 1
    return x


class Net(nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x * 2
            print("here")
        return deeper(x)
"""


def test_a_frame_belongs_to_the_break_whose_record_says_so(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(HEAD + CALLER_BREAKS_TOO + TAIL)
    (target,) = check("net.py", root=tmp_path, cache=False).targets
    owners = {
        item.first.symbol: {frame.symbol for frame in item.skipped}
        for item in CaptureFailures.of(target.observation).breaks
    }
    assert owners == {"deeper": {"deeper"}, "Net.forward": {"Net.forward"}}
