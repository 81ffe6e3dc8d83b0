"""Lines between breaks: which are told, what takes them out, and that this runs under Dynamo."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tcready.merge import merge
from tcready.merge.observed_run import Run
from tcready.merge.source_lines import Code
from tcready.merge.straight_line_regions import stretches
from tcready.schema.code_line import Frame
from tcready.schema.codec import as_json, from_json
from tcready.schema.enums import STAGES
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Region, Tool
from tcready.schema.run import BreakSite, Intent, LineSet, Plan, RegionTrial
from tcready.schema.static import Finding, FindingTarget, SourceText, StaticResult
from tcready.source.edits import apply_edits

PATH = "model.py"
ROOT = Path(__file__).parents[2]
HEAD = dedent("""\
    import torch


    class Net(torch.nn.Module):
""")
FORWARD = 5
"""The line of `def forward` behind HEAD."""


def site(line: int, symbol: str = "Net.forward", *stack: Frame, **change: Any) -> BreakSite:
    reason = "Data-dependent branching: a long text\nand more"
    own = Frame(PATH, line, symbol)
    found = BreakSite(PATH, line, symbol, reason, "GB0170", 1, "own", (*stack, own))
    return dataclasses.replace(found, **change)


def seen(*sites: BreakSite, **change: Any) -> Observation:
    stages = tuple(Stage(name, "pass", "") for name in STAGES[: STAGES.index("capture") + 1])
    model = ModuleShare("", "Net", 10, 5, path=PATH, line=FORWARD)
    found = Observation(PATH, None, "infer", stages, {"torch": "2.13.0"}, sites, modules=(model,))
    return dataclasses.replace(found, **change)


def found_in(text: str, observation: Observation, *findings: Finding) -> list[Region]:
    code = Code({PATH: text})
    return list(stretches(Run(observation, code, None), {PATH: findings}, code))


def forward(body: str, signature: str = "self, x") -> str:
    lines = "".join(f"        {line}\n" if line else "\n" for line in body.strip("\n").splitlines())
    return f"{HEAD}    def forward({signature}):\n{lines}"


def extracted(text: str, line: int, tmp_path: Path) -> str | None:
    """The file with the one stretch before the break at `line` taken out; None if it is not."""
    [region] = [each for each in found_in(text, seen(site(line))) if (each.line or 0) < line]
    if not region.edits:
        assert region.diff == ""
        return None
    changed = apply_edits(text, region.edits)
    (tmp_path / PATH).write_bytes(text.encode())
    command = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
    subprocess.run(command, cwd=tmp_path, input=region.diff.encode(), check=True, capture_output=True)
    assert (tmp_path / PATH).read_bytes().decode() == changed
    ast.parse(changed)
    return changed


BODY = """
\"\"\"Doc.\"\"\"
a = self.one(x)
b = a * 2  # kept
c = a + b
if c.sum() > 0:
    c = c - 1
d = c * b
e = d + x
f = e * 2
print(f)
return f
"""


def test_lines_before_between_and_after_breaks_are_told() -> None:
    found = found_in(forward(BODY), seen(site(10), site(15)))
    assert [(each.name, each.instances, each.state, each.kind) for each in found] == [
        ("Net.forward:7-9", 1, "predicted", "lines"),
        ("Net.forward:12-14", 1, "predicted", "lines"),
    ]
    assert [each.reason for each in found] == [
        "lines 7 to 9 of Net.forward stand before the first break; from line 10 it stays eager "
        "(Data-dependent branching)",
        "lines 12 to 14 of Net.forward stand between breaks; from line 15 it stays eager (Data-dependent branching)",
    ]
    [*_, last] = found_in(forward(BODY), seen(site(10)))
    [first] = [each for each in found_in(forward(BODY), seen(site(10))) if each.line == 12]
    assert first.reason == (
        "lines 12 to 16 of Net.forward stand after the last break, at line 10 (Data-dependent branching)"
    )
    assert (last.code, last.ops_share, last.time_share) == ("", None, None)


def test_the_longest_five_come_first() -> None:
    body = "\n".join(line for size in range(2, 9) for line in [*(f"x = x + {n}" for n in range(size)), "print(x)"])
    text = forward(body)
    breaks = [number for number, line in enumerate(text.splitlines(), 1) if "print" in line]
    found = found_in(text, seen(*map(site, breaks)))
    assert [(each.end_line or 0) - (each.line or 0) + 1 for each in found] == [8, 7, 6, 5, 4]


def test_a_break_below_a_forward_parts_the_forward_too() -> None:
    text = forward(
        dedent("""\
        a = x + 1
        b = a + 1
        c = helper(b)
        d = c + b
        return d""")
    ) + ("\n\ndef helper(b):\n    b = b * 2\n    b = b * 3\n    if b.sum() > 0:\n        return b\n    return -b\n")
    below = site(16, "helper", Frame(PATH, 8, "Net.forward"))
    assert sorted(each.name for each in found_in(text, seen(below))) == [
        "Net.forward:6-7",
        "Net.forward:9-10",
        "helper:14-15",
    ]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"intents": (Intent(PATH, FORWARD, "Net.forward", "disabled", "disable"),)}, id="intent"),
        pytest.param({"executed": (LineSet(PATH, ((20, 30),)),)}, id="not-executed"),
        pytest.param(
            {"plan": Plan("regions", "c", 1.0, "r", (), regions=(RegionTrial("", ("",), "proved", "r", "c"),))},
            id="proved",
        ),
        pytest.param({"break_sites": (site(10, origin="third_party"),)}, id="not-own"),
        pytest.param({"break_sites": ()}, id="no-break"),
    ],
)
def test_not_told(change: dict[str, Any]) -> None:
    assert found_in(forward(BODY), seen(site(10)))
    assert found_in(forward(BODY), seen(**{"break_sites": (site(10),), **change})) == []


def test_a_predicted_break_ends_a_stretch_unless_the_run_refuted_it() -> None:
    predicted = Finding(
        rule="TCR301", name="print", effect="graph_break", level="error", confidence="high", message="m",
        path=PATH, line=15, column=1, end_line=15, end_column=2, symbol="Net.forward", origin="own",
        status="predicted", gb_ids=(), targets=(), fingerprint="f", evidence=(),
    )  # fmt: skip
    ends = [each.end_line for each in found_in(forward(BODY), seen(site(10)), predicted)]
    assert ends == [9, 14]
    refuted = dataclasses.replace(
        predicted, status="not_observed", targets=(FindingTarget(PATH, None, "not_observed"),)
    )
    assert sorted(each.end_line or 0 for each in found_in(forward(BODY), seen(site(10)), refuted)) == [9, 16]


def test_two_statements_with_some_work() -> None:
    assert found_in(forward("a = x\nb = a\nprint(b)"), seen(site(8))) == []
    assert found_in(forward("a = x + 1\nprint(a)"), seen(site(7))) == []


def test_a_report_holds_them_last_and_its_json_comes_back() -> None:
    result = StaticResult((), (), (SourceText(PATH, "0" * 64, forward(BODY)),), (), (), {})
    report = merge(result, [seen(site(10))], {}, Tool("tcready", "0"))
    [target] = report.targets
    assert target.verdict == "not_ready"
    assert [each.kind for each in target.regions] == ["lines", "lines"]
    assert from_json(type(report), as_json(report)) == report


def test_a_method_is_taken_out(tmp_path: Path) -> None:
    expected = f'''{HEAD}    @torch.compile
    def _forward_lines_7_9(self, x):
        a = self.one(x)
        b = a * 2  # kept
        c = a + b
        return b, c

    def forward(self, x):
        """Doc."""
        b, c = self._forward_lines_7_9(x)
        if c.sum() > 0:
'''
    for end in ("\n", "\r\n"):
        changed = extracted(forward(BODY).replace("\n", end), 10, tmp_path)
        assert changed is not None
        assert changed.startswith(expected.replace("\n", end))


def test_a_function_is_taken_out_above_its_comment_and_decorator(tmp_path: Path) -> None:
    text = dedent("""\
            import torch


            # About run.
            @torch.no_grad()
            def run(x):
                y = x * 2

                # Then
                x = y + x
                print(x)
                return x
        """)
    [region] = found_in(text, seen(site(11, "run"), modules=()))
    assert apply_edits(text, region.edits) == (
        dedent("""\
            import torch


            @torch.compile
            def _run_lines_7_10(x):
                y = x * 2

                # Then
                x = y + x
                return x


            # About run.
            @torch.no_grad()
            def run(x):
                x = _run_lines_7_10(x)
                print(x)
                return x
        """)
    )


@pytest.mark.parametrize(
    ("body", "line", "called"),
    [
        pytest.param("a = x + 1\nb = a + 1\nprint()", 8, "self._forward_lines_6_7(x)", id="nothing-out"),
        pytest.param("x += 1\nx += 2\nprint(x)", 8, "x = self._forward_lines_6_7(x)", id="augmented"),
        pytest.param(
            dedent("""\
            a = x + 1
            if self.on:
                a = a * 2
            print(a)"""),
            9,
            "a = self._forward_lines_6_8(x)",
            id="if",
        ),
        pytest.param(
            "a = [x for x in x.unbind()]\nb = a[0] + 1\nprint(b)",
            8,
            "b = self._forward_lines_6_7(x)",
            id="comprehension",
        ),
        pytest.param(
            dedent("""\
                a = x + 1
                b = a + 1
                print()
                def g():
                    return b
                return g()"""),
            8,
            "b = self._forward_lines_6_7(x)",
            id="read-by-a-function-after",
        ),
        pytest.param(
            dedent("""\
                x = x + 1
                for i in range(3):
                    x = x * i
                print(x)"""),
            9,
            "x = self._forward_lines_6_8(x)",
            id="loop",
        ),
    ],
)
def test_what_goes_in_and_comes_out(body: str, line: int, called: str, tmp_path: Path) -> None:
    changed = extracted(forward(body), line, tmp_path)
    assert changed is not None
    assert f"\n        {called}\n" in changed


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(
            dedent("""\
            a = x + 1
            if a.ndim:
                return a
            print()"""),
            9,
            id="return",
        ),
        pytest.param(
            dedent("""\
            a = x + 1
            with torch.no_grad():
                a = a * 2
            print(a)"""),
            9,
            id="with",
        ),
        pytest.param("a = x + 1\nb = lambda: a\nprint(b)", 8, id="lambda"),
        pytest.param("a = x + 1\nb = sum(each for each in a)\nprint(b)", 8, id="generator"),
        pytest.param(
            dedent("""\
            a = x + 1
            if (b := a.ndim):
                a = a + b
            print(a)"""),
            9,
            id="walrus",
        ),
        pytest.param(
            dedent("""\
            a = x + 1
            for i in range(3):
                b = a
            print(b)"""),
            9,
            id="perhaps-bound",
        ),
        pytest.param("a = x + 1\nb = a + 1\nprint(locals())", 8, id="locals"),
        pytest.param("a = x + 1; b = a + 1; print(b)", 7, id="one-line"),
        pytest.param(
            dedent("""\
            global g
            g = x + 1
            h = g + 1
            print(h)"""),
            9,
            id="global",
        ),
        pytest.param("self = x + 1\nb = self + 1\nprint(b)", 8, id="self-bound"),
        pytest.param(
            dedent("""\
            def g():
                return a
            a = x + 1
            b = g() + a
            print(b)"""),
            10,
            id="read-late",
        ),
    ],
)
def test_not_taken_out(body: str, line: int) -> None:
    regions = [each for each in found_in(forward(body), seen(site(line))) if (each.line or 0) < line]
    assert [each.edits for each in regions] in ([()], [])


def test_not_taken_out_where_a_name_is_bound_on_some_ways_before() -> None:
    text = forward(
        dedent("""\
        if self.on:
            y = x
        print(x)
        a = x + 1
        b = a + y
        print(b)""")
    )
    [region] = found_in(text, seen(site(8), site(11)))
    assert (region.line, region.edits) == (9, ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("import torch\n", "from torch import nn\n", id="no-torch"),
        pytest.param("import torch\n", "import torch as t\n", id="other-name"),
        pytest.param("    def forward", "    @classmethod\n    def forward", id="classmethod"),
        pytest.param("import torch\n", "import torch  # _forward_lines_7_9\n", id="name-taken"),
    ],
)
def test_not_taken_out_of_such_a_file(old: str, new: str) -> None:
    text = forward(BODY).replace(old, new)
    line = 11 if "@" in new else 10
    found = found_in(text, seen(site(line)))
    assert found
    assert found[-1].edits == ()


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["detector_head", *(pytest.param(name, marks=pytest.mark.release) for name in ("moe_router", "vq_logging"))]
)
def test_what_is_taken_out_compiles_whole_and_gives_what_eager_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from tcready import check
    from torch._dynamo.utils import counters

    monkeypatch.chdir(ROOT)
    path = f"fixtures/models/{name}.py"
    text = Path(path).read_text()
    compiled = torch.compile
    [target, *_] = check([path], run=True).targets
    taken = [region for region in target.regions if region.edits]
    assert len(taken) >= 2
    for edits in (*(region.edits for region in taken), [e for region in taken for e in region.edits]):
        outputs = []
        for source in (text, apply_edits(text, edits)):
            torch._dynamo.reset()
            counters.clear()
            monkeypatch.setattr(torch, "compile", lambda function: compiled(function, backend="eager"))
            module: dict[str, Any] = {"__name__": name}
            exec(compile(source, path, "exec"), module)
            torch.manual_seed(0)
            model = module["Model"](*module["get_init_inputs"]()).eval()
            with torch.no_grad(), torch._dynamo.error_on_graph_break(True):
                outputs.append(model(*module["get_inputs"]()))
        assert not counters["graph_break"]
        assert counters["stats"]["unique_graphs"] >= len(edits) // 2
        torch.testing.assert_close(*outputs, rtol=0, atol=0, equal_nan=True)
