"""Reports made from data: each case a renderer has to show, without running anything.

`SAMPLES` names them; a test or a person asks for one with `sample(name)`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from textwrap import dedent
from types import MappingProxyType
from typing import Any

from bench_samples import full_bench, hostile_bench
from tcready.pipeline.comparison import compare
from tcready.schema.bench import ArmBench, Bench
from tcready.schema.break_effect import BreakEffect, FrameFate
from tcready.schema.code_line import Frame
from tcready.schema.comparison import Comparison, Difference
from tcready.schema.edit import Edit
from tcready.schema.enums import STAGES, StageReason
from tcready.schema.fix import Fix
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Region, Report, TargetReport, Tool
from tcready.schema.run import (
    BreakSite,
    Coverage,
    Explain,
    Graph,
    LineSet,
    Placement,
    Plan,
    Recompile,
    RegionTrial,
    SkippedFrame,
)
from tcready.schema.static import Evidence, Finding, FindingTarget, RuleText, Skipped, SourceText

RULES = (
    RuleText(
        code="TCR101",
        name="data-dependent-if",
        summary="An `if` whose test is read from a tensor's values.",
        why="Dynamo traces without values, so it cannot know which branch runs:\nit ends the graph at the test "
        "and starts another\nbehind it.",
        instead="Compute both sides and choose with `torch.where`, or keep the branch in the graph with `torch.cond`.",
        before="if x.sum() > 0:\n    x = x * 2\n",
        after="x = torch.where(x.sum() > 0, x * 2, x)\n",
    ),
    RuleText(
        code="TCR201",
        name="tensor-to-python-number",
        summary="`.item()` and its kin read a tensor's value into Python.",
        why="The value is not known while tracing, so the graph ends where it is read; on a GPU the host waits too.",
        instead="Keep the value a tensor, or set torch._dynamo.config.capture_scalar_outputs.",
        before="scale = x.max().item()\nx = x / scale\n",
        after="x = x / x.max()\n",
    ),
    RuleText(
        code="TCR301",
        name="print-in-forward",
        summary="`print` in a forward.",
        why="A print is a side effect that cannot live in a graph.",
        instead="Move it out of the forward, or name it in torch._dynamo.config.reorderable_logging_functions.",
        before="print(x.shape)\n",
        after=None,
    ),
    RuleText(
        code="TCR501",
        name="counter-on-module",
        summary="A Python number of the module that changes on each call.",
        why="Dynamo guards on the number's value, so each call compiles again until it gives up at eight.",
        instead="Register it as a buffer and add to it in place.",
        before="self.step += 1\n",
        after="self.step.add_(1)  # a buffer\n",
    ),
    RuleText(
        code="TCR601",
        name="host-sync",
        summary="The host waits for the device.",
        why="The GPU drains before the next kernel starts.",
        instead="Keep the comparison on the device.",
        before=None,
        after=None,
    ),
)

NET = '''\
"""A small gated network."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.step = 0
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        self.step += 1
        if x.sum() > 0:
            x = x * 2
        return self.linear(x)


class Net(nn.Module):
    def __init__(self, width: int = 16, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, 2) for _ in range(depth))
        self.gate = Gate(width)
        self.head = nn.Linear(width, 4)

    def forward(self, x, debug=False):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        if debug:
            print("after the layers", x.abs().max().item())
        scale = x.abs().max().item()
        x = self.gate(x / scale)
        x = keep(x)
        return self.head(x)


def keep(x):
\tmask = x > 0  # 保持 正の値
\treturn torch.where(mask, x, torch.zeros_like(x)) if bool(mask.any()) else x


def get_inputs():
    return [torch.randn(2, 3, 8)]
'''

BERT = "transformers/models/bert/modeling_bert.py"

ENVIRONMENT: Mapping[str, Any] = MappingProxyType(
    {"torch": "2.13.0+cpu", "python": "3.11.7", "device": "cpu", "dtype": "float32", "platform": "linux-x86_64"}
)


def source(path: str, text: str) -> SourceText:
    data = text.encode("utf-8", "surrogatepass")
    return SourceText(path, hashlib.sha256(data).hexdigest(), text)


def stages(
    passed: str = "",
    failed: str = "",
    reason: StageReason = "compile_error",
    details: Mapping[str, str] = MappingProxyType({}),
    seconds: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Stage, ...]:
    """Every stage; `passed` and `failed` (for `reason`) are names parted by blanks, all others did not run."""
    return tuple(
        Stage(
            name,
            "pass" if name in passed.split() else "fail" if name in failed.split() else "not_run",
            details.get(name, ""),
            seconds.get(name),
            reason if name in failed.split() else None,
        )
        for name in STAGES
    )


def finding(text: str, needle: str, *, path: str = "model.py", nth: int = 0, **given: Any) -> Finding:
    """A finding whose span is the `nth` occurrence of `needle` in the source `text`."""
    at = -1
    for _ in range(nth + 1):
        at = text.index(needle, at + 1)
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    end_line = line + needle.count("\n")
    end_column = column + len(needle) if end_line == line else len(needle) - needle.rfind("\n")
    rule = next((rule for rule in RULES if rule.code == given.get("rule")), None)
    values: dict[str, Any] = {
        "rule": None,
        "name": rule.name if rule else "unforeseen",
        "effect": "graph_break",
        "level": "error",
        "confidence": "high",
        "message": rule.summary if rule else "Dynamo broke here",
        "path": path,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "symbol": "",
        "origin": "own",
        "status": "predicted",
        "gb_ids": (),
        "targets": (),
    }
    values |= given
    mark = f"{values['rule']}|{path}|{line}|{column}|{values['origin']}"
    values.setdefault("fingerprint", hashlib.sha256(mark.encode()).hexdigest()[:16])
    return Finding(**values)


def target(name: str = "model.py::Net", **given: Any) -> TargetReport:
    """A target that nothing was run for, unless `given` says otherwise: fields of TargetReport and of Observation."""
    judged: dict[str, Any] = {"verdict": "unknown", "regions": ()}
    seen: dict[str, Any] = {
        "target": name,
        "convention": None,
        "mode": "infer",
        "stages": stages(passed="parse"),
        "environment": None,
    }
    return changed(TargetReport(Observation(**seen), **judged), **given)


def changed(one: TargetReport, /, **given: Any) -> TargetReport:
    """The target with other fields, its own or those of its observation."""
    own = {key: value for key, value in given.items() if key in TargetReport.__dataclass_fields__}
    seen = {key: value for key, value in given.items() if key not in own}
    return dataclasses.replace(one, **own, observation=dataclasses.replace(one.observation, **seen))


def report(**given: Any) -> Report:
    values: dict[str, Any] = {
        "tool": Tool("tcready", "0.1.0"),
        "findings": (),
        "targets": (),
        "rules": (),
        "sources": (),
        "skipped": (),
        "warnings": (),
        "statistics": {},
    }
    return Report(**(values | given))


def empty() -> Report:
    """Nothing was found to look at."""
    return report()


CLEAN = dedent("""\
        import torch
        from torch import nn


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(8, 8)

            def forward(self, x):
                return torch.relu(self.linear(x))


        def get_inputs():
            return [torch.randn(2, 8)]
    """)


def clean() -> Report:
    """Static and run agree: captured whole, the backend not asked for."""
    return report(
        targets=(
            target(
                convention="get_inputs",
                inputs_from="convention",
                verdict="ready",
                verdict_reason="captured whole in 1 graph; backend, parity and speed not run",
                stages=stages(
                    passed="parse import build eager capture fullgraph",
                    details={"parse": "1 file", "capture": "1 graph, 2 operations", "backend": "not asked for"},
                    seconds={"import": 1.93, "build": 0.01, "eager": 0.004, "capture": 0.61, "fullgraph": 0.2},
                ),
                environment=ENVIRONMENT,
                graphs=(Graph("0/0", "model.py", 10, 2, guards=9, symbol="Net.forward"),),
                coverage=Coverage(2, 2, 1.0),
                explain=Explain(1, 0, (), 2),
                regions=(
                    Region(
                        "", 1, "proved", "no break predicted below it", "model.compile(fullgraph=True)", 1.0, None, 1.0
                    ),
                ),
                modules=(
                    ModuleShare("", "Net", 2, 2, 0.0004, "model.py", 10, 1),
                    ModuleShare("linear", "Linear", 1, 1, 0.0003, None, None, 1),
                ),
                executed=(LineSet("model.py", ((11, 11),)),),
            ),
        ),
        sources=(source("model.py", CLEAN),),
        statistics={"files": 1, "reachable_functions": 1, "calls_resolved": 3, "calls_unresolved": 0},
    )


def _each(status: str, case: str | None = None, name: str = "model.py::Net") -> tuple[FindingTarget, ...]:
    return (FindingTarget(name, case, status),)  # type: ignore[arg-type]


def _shape() -> BreakEffect:
    """A break in `Gate.forward`, which `Net.forward` calls."""
    gate, above = (
        FrameFate("model.py", line, symbol, "split") for line, symbol in ((13, "Gate.forward"), (28, "Net.forward"))
    )
    return BreakEffect(gate, (above,), levels=2)


def _broken_findings() -> tuple[Finding, ...]:
    down = ("Net.forward", "Gate.forward")
    shape = _shape()
    return (
        finding(
            NET,
            "x.sum() > 0",
            rule="TCR101",
            symbol="Gate.forward",
            status="confirmed",
            gb_ids=("GB0170",),
            message="`if` on a value read from the tensor `x`",
            targets=_each("confirmed"),
            evidence=(
                Evidence("static", "`x` is a parameter of a forward without default: a tensor"),
                Evidence("dynamo", "Data-dependent branching (GB0170, 3 hits)"),
            ),
            reached_by=down,
            break_effect=dataclasses.replace(shape, seen=(*shape.above, shape.frame)),
            cost={"operations": 6.0, "seconds": 0.0021},
            fix=Fix(
                "choose with torch.where",
                False,
                dedent("""\
                    --- a/model.py
                    +++ b/model.py
                    @@ -15,2 +15,1 @@
                    -        if x.sum() > 0:
                    -            x = x * 2
                    +        x = torch.where(x.sum() > 0, x * 2, x)
                """),
                True,
                (Edit("model.py", 15, 9, 16, 22, "x = torch.where(x.sum() > 0, x * 2, x)"),),
            ),
        ),
        finding(
            NET,
            "x.abs().max().item()",
            nth=1,
            rule="TCR201",
            symbol="Net.forward",
            status="not_traced",
            message="`.item()` reads a tensor's value into Python",
            targets=_each("not_traced"),
            evidence=(Evidence("static", "`x` comes from `self.gate`, which returns a tensor"),),
            reached_by=("Net.forward",),
            fix=Fix(
                "keep the value a tensor",
                True,
                dedent("""\
                @@ -33 +33 @@
                -.item()
                +
            """),
                False,
            ),
        ),
        finding(
            NET,
            'print("after the layers", x.abs().max().item())',
            rule="TCR301",
            symbol="Net.forward",
            status="not_reached",
            message="`print` in a forward",
            targets=_each("not_reached"),
            reached_by=("Net.forward",),
            fix=Fix("remove it", True, None, None),
        ),
        finding(
            NET,
            "self.step += 1",
            rule="TCR501",
            effect="recompile",
            symbol="Gate.forward",
            status="confirmed",
            message="`self.step` changes on every call",
            targets=_each("confirmed"),
            evidence=(
                Evidence("static", "`step` is an int set in `__init__`"),
                Evidence("dynamo", "recompiled Gate.forward on an identical call: self.step == 1"),
            ),
            reached_by=down,
        ),
        finding(
            NET,
            "torch.where(mask, x, torch.zeros_like(x)) if bool(mask.any()) else x",
            rule="TCR101",
            symbol="keep",
            confidence="medium",
            status="not_observed",
            level="note",
            message="conditional expression on a tensor's value",
            targets=_each("not_observed"),
            reached_by=("Net.forward", "keep"),
        ),
        finding(
            NET,
            "mask = x > 0  # 保持 正の値",
            symbol="keep",
            status="runtime_only",
            level="warning",
            gb_ids=("GB0059", "GB7000"),
            message="Dynamo broke here: call to a function it skips",
            targets=_each("runtime_only"),
            evidence=(Evidence("dynamo", "Attempted to call function marked as skipped (GB0059, GB7000, 1 hit)"),),
        ),
        finding(
            NET,
            "x / scale",
            rule="TCR601",
            effect="sync",
            level="note",
            confidence="low",
            symbol="Net.forward",
            message="the host waits for `scale`",
            targets=_each("predicted"),
        ),
    )


def _broken_run() -> TargetReport:
    forward = Frame("model.py", 34, "Net.forward")
    gate = NET[: NET.index("if x.sum()")].count("\n") + 1
    return target(
        convention="get_inputs",
        inputs_from="convention",
        verdict="ready_by_region",
        verdict_reason="it breaks at 3 lines, 1 of them in an installed package; 4 layers with 82 % of the operations have no break; "
        "backend, parity and speed not run",
        stages=stages(
            passed="parse import build eager capture",
            failed="fullgraph",
            details={
                "parse": "1 file",
                "capture": "3 graphs, 3 distinct break sites",
                "fullgraph": "Unsupported: Data-dependent branching (GB0170) at model.py:15",
                "backend": "fullgraph failed",
            },
            seconds={"import": 2.04, "build": 0.01, "eager": 0.006, "capture": 1.31},
        ),
        seconds=3.9,
        environment=ENVIRONMENT,
        break_sites=(
            BreakSite(
                "model.py",
                gate,
                "Gate.forward",
                "Data-dependent branching: Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`).",
                "GB0170",
                3,
                "own",
                (forward, Frame("model.py", gate, "Gate.forward")),
                "resume",
                None,
                ("GB0170",),
                ("Use `torch.cond` to express dynamic control flow.",),
            ),
            BreakSite(
                "model.py",
                41,
                "keep",
                "Attempted to call function marked as skipped",
                "GB0059",
                1,
                "own",
                (forward, Frame("model.py", 41, "keep")),
                "skip_frame",
                None,
                ("GB0059", "GB7000"),
            ),
            BreakSite(
                BERT,
                210,
                "BertLayer.forward",
                "Tensor.item() call with no capture",
                "GB0109",
                2,
                "third_party",
                (forward, Frame(BERT, 210, "BertLayer.forward")),
            ),
        ),
        skipped_frames=(
            SkippedFrame("model.py", 28, "Net.forward", "a graph break inside a loop: the frame goes eager", False, 37),
            SkippedFrame("model.py", 46, "get_inputs", "no tensor-related objects found", True, 47),
        ),
        graphs=(
            Graph("0/0", "model.py", 13, 4, 12, symbol="Gate.forward"),
            Graph("1/0", "model.py", 16, 1, 7, symbol="torch_dynamo_resume_in_forward_at_15"),
            Graph("2/0", "model.py", 28, 77, None, symbol="Net.forward"),
        ),
        recompiles=(
            Recompile(
                "model.py",
                13,
                "Gate.forward",
                ("self.step == 1  # self.step += 1  # model.py:14 in forward",),
                None,
                True,
                "own",
                (Frame("model.py", 14, "Gate.forward"),),
            ),
        ),
        coverage=Coverage(100, 82, 0.82, 0.7),
        explain=Explain(3, 2, ("generic_jump TensorVariable()",), 82),
        regions=(
            Region(
                "layers.*",
                4,
                "predicted",
                "no break predicted below it",
                "for layer in model.layers:\n    layer.compile()",
                0.81,
                None,
                1.0,
            ),
            Region("head", 1, "proved", "compiled alone with fullgraph=True", "model.head.compile()", 0.01, 0.02, 0.5),
            Region(
                "gate", 1, "refuted", "it breaks when compiled alone: GB0170", "model.gate.compile()", 0.05, None, None
            ),
            Region(
                "Net.forward:20-21",
                1,
                "predicted",
                "lines 20 to 21 of Net.forward stand after the last break, at line 19 (Data-dependent branching)",
                "",
                kind="lines",
                path="model.py",
                line=20,
                end_line=21,
                edits=(Edit("model.py", 20, 9, 20, 10, "z"),),
                diff=dedent("""\
                    --- a/model.py
                    +++ b/model.py
                    @@ -20 +20 @@
                    -        y
                    +        z
                """),
            ),
        ),
        modules=(
            ModuleShare("", "Net", 100, 82, 0.004, "model.py", 28, 10),
            ModuleShare("embed", "Linear", 1, 1, 0.0001, None, None, 1),
            ModuleShare("layers", "ModuleList", 81, 81, 0.003),
            *(ModuleShare(f"layers.{index}", "TransformerEncoderLayer", 20, 20, 0.0007) for index in range(4)),
            ModuleShare("layers.0.self_attn", "MultiheadAttention", 9, 9, 0.0003),
            ModuleShare("gate", "Gate", 7, 0, 0.0005, "model.py", 13, 6),
            ModuleShare("gate.linear", "Linear", 1, 0, 0.0001),
            ModuleShare("head", "Linear", 1, 0, 0.0001),
            ModuleShare("unused", "Dropout", 0, 0, None),
        ),
        executed=(LineSet("model.py", ((14, 17), (29, 31), (34, 37), (41, 42))),),
        parity={"max_abs_error": 0.0},
        bench=None,
    )


def broken() -> Report:
    """Own breaks of every status, one in an installed package, a run with all it can tell."""
    foreign = Finding(
        "TCR201",
        "tensor-to-python-number",
        "graph_break",
        "error",
        "high",
        "`.item()` reads a tensor's value into Python",
        BERT,
        210,
        17,
        210,
        31,
        "BertLayer.forward",
        "third_party",
        "confirmed",
        ("GB0109",),
        _each("confirmed"),
        "feedfacefeedface",
    )
    return report(
        findings=(*_broken_findings(), foreign),
        targets=(_broken_run(),),
        rules=RULES,
        sources=(source("model.py", NET), source(BERT, "\n" * 209 + "        return hidden.sum().item()\n")),
        skipped=(Skipped("legacy/old.py", "line 3: not valid Python: print without parentheses"),),
        warnings=("model.py: 2 calls could not be resolved",),
        statistics={"files": 1, "reachable_functions": 5, "calls_resolved": 21, "calls_unresolved": 2},
    )


LAYERS = "for module in model.layers:\n    module.forward = torch.compile(module.forward)"
BOTH = f"{LAYERS}\nmodel.head.forward = torch.compile(model.head.forward)"
NESTED = "block = type(model.layers[0])\nblock.forward = torch.compiler.nested_compile_region(block.forward)"


def _placements() -> tuple[Placement, ...]:
    """One of each fate: recommended, sound, raised, differs, compiles again."""
    return (
        Placement(
            "whole",
            "model.compile()",
            0.92,
            3,
            0,
            True,
            "",
            time_share=0.968,
            break_sites=3,
            compile_seconds=1.31,
            steady_seconds=0.0041,
            backend="eager",
        ),
        Placement(
            "regions",
            BOTH,
            0.82,
            2,
            0,
            True,
            "",
            time_share=0.88,
            break_sites=0,
            compile_seconds=0.42,
            steady_seconds=0.0043,
            backend="eager",
        ),
        Placement(
            "repeated_blocks",
            LAYERS,
            0.81,
            1,
            1,
            False,
            "differs from eager: output[0] at (1, 2): 0.25 and 0.5",
            False,
            0.86,
            0,
            0.4,
            0.0042,
            "eager",
        ),
        Placement(
            "nested",
            f"{NESTED}\nmodel.compile()",
            None,
            None,
            None,
            None,
            "raised: RuntimeError: invoke_subgraph: exceeded maximum reuse entries (8) for forward (model.py:32)",
            False,
            backend="eager",
        ),
        Placement(
            "disable",
            "model.gate.forward = torch.compiler.disable(model.gate.forward)\nmodel.compile()",
            0.9,
            3,
            2,
            None,
            "compiles again on an identical call (1 function)",
            False,
            0.9,
            2,
            0.9,
            0.004,
            "inductor",
            ("head.weight -> _orig_mod.head.weight",),
        ),
    )


def _plan() -> Plan:
    placements = _placements()
    trials = tuple(
        RegionTrial(
            region.name,
            tuple(f"layers.{n}" for n in range(4)) if region.instances > 1 else (region.name,),
            region.state,
            region.reason,
            region.code or "model.gate.compile()",
            ops_share=region.ops_share,
            time_share=region.time_share,
            parameter_share=region.parameter_share,
            compilations=region.compilations,
            guards=region.guards,
            cure=region.cure,
            site=_broken_run().break_sites[0] if region.state == "refuted" else None,
        )
        for region in _tried_regions()
    )
    return Plan(
        "whole",
        "model.compile()",
        0.92,
        "92.0% of the operations run in graphs, the most of 2 placements that work; next is regions with 82.0%",
        placements,
        'import os\nif os.environ.get("TCREADY_EAGER") == "1":  # set it, and nothing compiled is called any more\n'
        '    torch.compiler.set_stance("force_eager")',
        "torch._logging.set_logs(graph_breaks=True, recompiles=True)  # log each break and each recompilation\n"
        'torch.compiler.set_stance("eager_on_recompile")  # from now on run eagerly what would compile again',
        0.968,
        3,
        0,
        1.31,
        True,
        smallest=Placement(
            "regions",
            LAYERS,
            0.81,
            1,
            0,
            True,
            "",
            time_share=0.86,
            compile_seconds=0.4,
            steady_seconds=0.004,
            backend="eager",
        ),
        quickest=placements[1],
        regions=trials,
        cut=("the budget was spent before regions alone",),
        chosen_by="by what it captures",
    )


def _tried_regions() -> tuple[Region, ...]:
    return (
        Region(
            "layers.*",
            4,
            "proved",
            "compiled alone in each of 4 instances: all operations in graphs, the outputs of eager; 3 compilations",
            LAYERS,
            0.81,
            0.86,
            1.0,
            0.94,
            3,
            ("self.layer_idx == 0", "self.layer_idx == 1"),
            "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
        ),
        Region("embed", 1, "predicted", "its call was not kept", "model.embed.compile()", 0.01, 0.02),
        Region(
            "gate", 1, "refuted", "Unsupported: Data-dependent branching (model.py:15)", "", 0.07, 0.11, None, 0.03, 0
        ),
    )


def planned() -> Report:
    """The run of `broken`, in which it was tried which parts to compile."""
    return dataclasses.replace(broken(), targets=(changed(_broken_run(), plan=_plan(), regions=_tried_regions()),))


def benched() -> Report:
    """A model that compiles whole, and whether that pays."""
    (one,) = clean().targets
    speed = Stage("speed", "pass", "real gain: default 1.43x", 412.0)
    climbed = tuple(speed if stage.stage == "speed" else stage for stage in one.stages)
    return dataclasses.replace(clean(), targets=(changed(one, stages=climbed, bench=full_bench()),))


def static() -> Report:
    """What the pre-commit hook sees: findings, nothing run."""
    plain = tuple(
        finding(
            NET,
            needle,
            rule=code,
            symbol=symbol,
            message=message,
            targets=_each("predicted"),
            level=level,
            effect=effect,
            reached_by=by,
            break_effect=_shape() if symbol == "Gate.forward" else None,
        )
        for needle, code, symbol, message, level, effect, by in (
            (
                "x.sum() > 0",
                "TCR101",
                "Gate.forward",
                "`if` on a value read from the tensor `x`",
                "error",
                "graph_break",
                ("Net.forward", "Gate.forward"),
            ),
            (
                "mask.any()",
                "TCR101",
                "keep",
                "conditional expression on a tensor's value",
                "error",
                "graph_break",
                ("Net.forward", "keep"),
            ),
            ("x / scale", "TCR601", "Net.forward", "the host waits for `scale`", "note", "sync", ("Net.forward",)),
        )
    )
    return report(
        findings=plain,
        targets=(
            target(
                stages=stages(passed="parse", details={"parse": "1 file"}),
                verdict_reason="2 breaks predicted; nothing was run",
                regions=(
                    Region(
                        "layers.*",
                        4,
                        "predicted",
                        "no break predicted below it",
                        "for layer in model.layers:\n    layer.compile()",
                    ),
                ),
            ),
        ),
        rules=RULES,
        sources=(source("model.py", NET),),
        statistics={"files": 1},
    )


def third_party() -> Report:
    """Every break stands in an installed package."""
    text = "\n".join(f"    value_{line} = hidden.sum().item()" for line in range(1, 41)) + "\n"
    return report(
        findings=tuple(
            finding(
                text,
                f"value_{line} = hidden.sum().item()",
                path=BERT,
                rule="TCR201",
                origin="third_party",
                status="confirmed" if line % 2 else "predicted",
                symbol="BertLayer.forward",
                targets=_each("confirmed" if line % 2 else "predicted", name="run.py::build"),
                gb_ids=("GB0109",) if line % 2 else (),
            )
            for line in range(1, 31)
        ),
        targets=(
            target(
                "run.py::build",
                verdict="not_ready",
                verdict_reason="it breaks at 15 lines of installed packages; no region has half of its operations",
                stages=stages(passed="parse import build eager capture", failed="fullgraph"),
                environment=ENVIRONMENT,
                break_sites=tuple(
                    BreakSite(BERT, line, "BertLayer.forward", "Tensor.item()", "GB0109", 1, "third_party", ())
                    for line in range(1, 31, 2)
                ),
                graphs=(Graph("0/0", BERT, 1, 9),),
                coverage=Coverage(120, 9, 0.075),
                explain=Explain(0, -1, ()),
                modules=(ModuleShare("", "BertModel", 120, 9),),
            ),
        ),
        rules=RULES,
        sources=(source(BERT, text),),
    )


def failed() -> Report:
    """Two runs that could not be made: an import error, and a time limit."""
    return report(
        targets=(
            target(
                "model.py::Net",
                stages=stages(
                    passed="parse",
                    failed="import",
                    reason="error",
                    details={"import": "ModuleNotFoundError: No module named 'flash_attn' (model.py:3)"},
                ),
                verdict_reason="its import failed: No module named 'flash_attn'",
                environment={"torch": "2.13.0+cpu", "python": "3.11.7"},
            ),
            target(
                "slow.py::Slow",
                stages=stages(
                    passed="parse import build",
                    failed="eager",
                    reason="error",
                    details={"eager": "stopped after 600 s: the forward did not return"},
                    seconds={"eager": 600.0},
                ),
                verdict_reason="its eager forward did not end within 600 s",
            ),
        ),
        skipped=(Skipped("broken.py", "line 12: '(' was never closed"),),
        warnings=("the worker printed 3 MB on its output; it was dropped",),
    )


HOSTILE_STRINGS = (
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    '<svg onload="alert(2)">',
    "<img src=x onerror=alert(3)>",
    "\"'><b id=injected>bold</b>",
    "[bold red]markup[/bold red] :warning: [link=https://x.invalid]y[/link]",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;escaped&gt; &amp;",
    "\x1b[31mred\x1b[0m\x07\x00\x9b",
    "\u202etxt.exe\u202c\u200f\u2066",
    "\u2028\u2029\ufeff",
    "javascript:alert(4)",
    "宽字符 が 混ざる",
)


def _hostile_plan(path: str, everything: str) -> Plan:
    bad = Placement("nested", everything, None, None, None, None, everything, False, backend=everything)
    site = BreakSite(path, 1, everything, everything, everything, 1, "own", ())
    return Plan(
        "whole",
        everything,
        0.5,
        everything,
        (dataclasses.replace(bad, name="whole", share=0.5, compile_seconds=1.0, sound=True), bad),
        everything,
        everything,
        state_dict_changes=(everything,),
        smallest=dataclasses.replace(bad, code=f"{everything} 1"),
        quickest=dataclasses.replace(bad, code=f"```\n{everything} 2"),
        regions=(RegionTrial(everything, (everything,), "refuted", everything, everything, site=site),),
        cut=(everything,),
        chosen_by=everything,
    )


def hostile() -> Report:
    """Every string that a model file controls is an attack on the page or the terminal."""
    everything = " ".join(HOSTILE_STRINGS)
    lines = [f"\tx = {value!s}  # {value}" for value in HOSTILE_STRINGS]
    lines.append("y = '" + "ab " * 2000 + "' + x.item() + '" + "宽" * 500 + "'")
    text = "\n".join(lines) + "\n"
    path = "evil/<svg onload=alert(5)>.py"
    last = len(lines)
    findings = tuple(
        Finding(
            "TCR101",
            value,
            "graph_break",
            "error",
            "high",
            value,
            path,
            line,
            2,
            line,
            3,
            value,
            "own",
            "confirmed",
            ("GB0170", value),
            (FindingTarget(value, value, "confirmed"), FindingTarget("other", None, "predicted")),
            f"hostile-{line}",
            Fix(value, False, f"-{value}\n+{value}\n", None, (Edit(path, line, 1, line, 1, value),)),
            {value: 1.0},
            (Evidence("static", value), Evidence("dynamo", value)),
            (value, value),
            BreakEffect(
                FrameFate(path, line, value, "split"),
                (FrameFate(path, line, value, "whole_frame", value),),
                seen=(FrameFate(value, line, value, "whole_frame"),),
            ),
        )
        for line, value in enumerate(HOSTILE_STRINGS, 1)
    )
    late = finding(text, "x.item()", path=path, rule="TCR201", message=everything, symbol="f")
    frame = Frame(path, 1, everything)
    run = target(
        everything,
        convention=everything,
        inputs_from="convention",
        verdict="not_ready",
        verdict_reason=everything,
        stages=stages(passed="parse import build eager capture", failed="fullgraph", details={"fullgraph": everything}),
        environment={"torch": everything, everything: {"nested": [everything]}},
        break_sites=(BreakSite(path, 1, everything, everything, everything, 1, "own", (frame,), hints=(everything,)),),
        skipped_frames=(SkippedFrame(path, 1, everything, everything, False, 3),),
        graphs=(Graph(everything, path, 1, 2, symbol=everything),),
        recompiles=(Recompile(path, 1, everything, (everything,), everything, False),),
        coverage=Coverage(10, 1, 0.1),
        explain=Explain(1, 0, (everything,)),
        regions=(
            Region(everything, 1, "predicted", everything, everything, 0.5),
            Region(everything, 1, "proved", everything, everything, guards=(everything,), cure=everything),
        ),
        plan=_hostile_plan(path, everything),
        modules=(
            ModuleShare("", everything, 10, 1),
            ModuleShare(everything, everything, 5, 1),
            ModuleShare(".".join("abcdefghijklmnopqrstuvwxyz" * 20), "Deep", 1, 0),
        ),
        executed=(LineSet(path, ((1, last),)),),
        parity={everything: everything},
        bench=hostile_bench(everything),
    )
    rules = (
        RuleText("TCR101", everything, everything, everything, everything, everything, everything),
        RuleText("TCR201", "n", "s", "w", "i", None, None),
    )
    return report(
        findings=(*findings, late),
        targets=(run,),
        rules=rules,
        sources=(source(path, text), source("/home/someone/secret/outside.py", "x = 1\n")),
        skipped=(Skipped(everything, everything),),
        warnings=(everything, "/home/someone/secret/outside.py:1: could not follow"),
        statistics={everything: everything},
    )


SAMPLES: Mapping[str, Callable[[], Report]] = MappingProxyType(
    {maker.__name__: maker for maker in (empty, clean, broken, planned, benched, static, third_party, failed, hostile)}
)


def sample(name: str) -> Report:
    return SAMPLES[name]()


def _quicker(bench: Bench, factor: float) -> Bench:
    """Each compiled arm so many times as long a call."""

    def arm(one: ArmBench) -> ArmBench:
        if one.seconds is None or one.arm == "eager":
            return one
        low, high = one.seconds.low * factor, one.seconds.high * factor
        figure = dataclasses.replace(one.seconds, median=one.seconds.median * factor, low=low, high=high)
        return dataclasses.replace(one, seconds=figure)

    cases = (dataclasses.replace(case, arms=tuple(map(arm, case.arms))) for case in bench.cases)
    return dataclasses.replace(bench, cases=tuple(cases), stack=(*bench.stack, ("triton", "3.9")))


def compared() -> Comparison:
    """`broken` before, and after it some mended, one new, one moved, one not compared; a bench on either side."""
    before, after = broken(), benched()
    (then,), (now,) = before.targets, after.targets
    found = before.findings
    moved = dataclasses.replace(found[2], line=31, end_line=31)
    new = dataclasses.replace(found[1], fingerprint="new", line=36, end_line=36, message="`.tolist()` reads values")
    return compare(
        dataclasses.replace(before, targets=(changed(then, bench=full_bench()),)),
        dataclasses.replace(
            after,
            findings=(moved, found[3], new),
            targets=(changed(now, bench=_quicker(full_bench(), 0.8), break_sites=then.break_sites[:1]),),
            sources=(source("model.py", NET.replace("x / scale", "x.tolist()")),),
        ),
        ("runs/before.json", "runs/after.json"),
    )


def hostile_comparison() -> Comparison:
    """Every string of `hostile` in a comparison: what is new, and what went."""
    one, everything = hostile(), " ".join(HOSTILE_STRINGS)
    (run,) = one.targets
    none = dataclasses.replace(one, findings=(), targets=(changed(run, break_sites=(), environment={}),))
    there = compare(none, one, (everything, "/home/someone/after.json"))
    back = compare(one, none)
    odd = Difference(everything, everything, None)
    return dataclasses.replace(
        there,
        findings=(*there.findings, *back.findings),
        targets=(*there.targets, *(dataclasses.replace(each, differences=(odd,)) for each in back.targets)),
        own_files=(everything,),
        other_files=("/home/someone/secret/library.py",),
        differences=(odd,),
    )


def many(count: int) -> Report:
    """`count` findings in a hundred files, as a first check of a large repository gives them."""
    of_each = -(-count // 100)
    code = "".join(f"    line_{n} = x.sum() > {n}  # as long as lines are\n" for n in range(of_each * 10))
    rules = ("TCR101", "TCR201", "TCR501")
    found = [
        finding(
            code,
            f"line_{n * 10} = x.sum() > {n * 10}",
            rule=rules[n % 3],
            path=f"pkg/file_{file}.py",
            symbol="Net.forward",
            evidence=(Evidence("static", "`x` is a parameter of a forward without default: a tensor"),),
            reached_by=("Net.forward", "Gate.forward"),
        )
        for file in range(100)
        for n in range(of_each)
    ]
    return report(
        findings=tuple(found[:count]),
        rules=RULES,
        targets=(target("pkg"),),
        sources=tuple(source(f"pkg/file_{file}.py", code) for file in range(100)),
    )
