"""What a bench asks for: arms, sizes, and which processes within which budget. Nothing is measured here."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from tcready.bench.request_parts import BenchWanted
from tcready.cli.bench_command import bench, exit_of
from tcready.config.resolution import resolve, share_of
from tcready.pipeline import bench_run
from tcready.pipeline.run_selection import PlannedRun
from tcready.portable.option_fields import declared
from tcready.portable.options import BenchOptions, RunOptions
from tcready.schema.bench import (
    Arm,
    ArmBench,
    ArmMeasured,
    Bench,
    BenchAnswer,
    BenchCase,
    BenchProcess,
    BenchRequest,
    BenchRun,
    CarriedCode,
    ColdStart,
    Figure,
    ParityMeasured,
    Profile,
    Sizes,
)
from tcready.schema.codec import as_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import ModuleShare, Observation, Stage
from tcready.schema.report import Report, TargetReport, Tool
from tcready.schema.run import Plan

SEEN = Observation("m.py::M", None, "infer", (), None)
PLANNED = dataclasses.replace(SEEN, plan=Plan("regions", "model.a.compile()", 1.0, "", ()))


def arms(seen: Observation = SEEN, root: Path = Path(), **wanted: object) -> dict[str, str]:
    options = dataclasses.replace(BenchOptions(), **wanted)  # type: ignore[arg-type]
    return {arm.name: arm.code for arm in bench_run.arms_of(options, seen, root)}


def test_by_default_eager_and_default_and_a_plan_where_there_is_one() -> None:
    default = "model = torch.compile(model)"
    assert arms() == {"eager": "", "default": default}
    assert arms(PLANNED) == {"eager": "", "default": default, "plan": "model.a.compile()"}
    assert arms(PLANNED, quick=True) == {"eager": "", "default": default}
    assert arms(PLANNED, arms=("plan",)) == {"eager": "", "plan": "model.a.compile()"}
    assert arms(arms=("eager", "dynamic")) == {"eager": "", "dynamic": "model = torch.compile(model, dynamic=True)"}


def test_an_arm_with_a_lambda_calls_the_model_as_it_was() -> None:
    (code,) = (code for code in arms(arms=("x=torch.relu and (lambda y: model(y) + 1)",)).values() if code)
    names = {"model": abs, "torch": None}
    exec(code.replace("torch.relu and ", ""), names)
    assert names["model"](-2) == 3


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"digests": (("m.py", "other"),)}, False),
        ({"digests": ()}, False),
        ({"mode": "train"}, False),
        ({"target": "m.py::N"}, False),
        ({"convention": "--inputs other.py::x"}, False),
        ({"environment": {"torch": "2.11.0", "device": "cpu"}}, False),
        ({"environment": {"torch": "2.13.0", "device": "cuda"}}, False),
        ({"modules": (ModuleShare("", "M"), ModuleShare("a", "Linear"))}, False),
    ],
)
def test_the_plan_of_the_last_run_is_taken_if_nothing_changed(change: dict[str, Any], taken: bool) -> None:
    ran = dataclasses.replace(
        PLANNED,
        digests=(("m.py", "as it was"),),
        environment={"torch": "2.13.0", "device": "cpu"},
        modules=(ModuleShare("", "M"),),
    )
    last = Report(Tool("tcready", "0"), (), (TargetReport(ran, "ready", ()),), (), (), (), (), {})
    now = dataclasses.replace(ran, plan=None, **change)
    assert bench_run.plan_of_last(now, last) == (PLANNED.plan if taken else None)
    assert bench_run.plan_of_last(now, None) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (
            "mine=torch.compile(model, options={'a': 1, 'b': 2})",
            "model = torch.compile(model, options={'a': 1, 'b': 2})",
        ),
        ("mine = model.compile(dynamic=True)", "model.compile(dynamic=True)"),
        ("mine=model.layers[0].compile()", "model.layers[0].compile()"),
        ("mine=model = torch.compile(model)", "model = torch.compile(model)"),
        ("mine=import torch_xla\nmodel = torch.compile(model)", "import torch_xla\nmodel = torch.compile(model)"),
    ],
)
def test_an_arm_of_ones_own(text: str, code: str) -> None:
    assert arms(arms=(text,))["mine"] == code


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"arms": ("fast",)}, "--arm fast: there is default,"),
        ({"arms": ("default", "default")}, "named twice"),
        ({"arms": ("eager=model.compile()",)}, "named twice"),
        ({"arms": ("plan",)}, "there is no plan"),
        ({"arms": ("patched",)}, "--patch FILE"),
        ({"arms": ("x=torch.compile(",)}, "--arm x: "),
        ({"arms": ("x=",)}, "no code"),
        ({"arms": ("../x=torch.compile(model)",)}, "letters, digits"),
        ({"arms": ("=torch.compile(model)",)}, "letters, digits"),
        ({"patch": "nowhere.patch"}, "No such file"),
    ],
)
def test_what_is_no_arm_is_refused(wanted: dict[str, object], words: str) -> None:
    with pytest.raises(TcreadyError) as refused:
        arms(**wanted)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_patched_arm_holds_the_changed_text(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a = 1\nb = 2\n")
    patch = tmp_path / "own.patch"
    patch.write_text(
        dedent("""\
        --- a/m.py
        +++ b/m.py
        @@ -1,2 +1,2 @@
         a = 1
        -b = 2
        +b = 3
    """)
    )
    options = BenchOptions(patch=str(patch))
    found = bench_run.arms_of(options, SEEN, tmp_path)[-1]
    assert (found.name, found.sources) == ("patched", ((str(tmp_path / "m.py"), "a = 1\nb = 3\n"),))
    assert found.code == f"# after: git apply {patch}\nmodel = torch.compile(model)"
    options = BenchOptions(patch=str(patch), arms=("patched=torch.compile(model, dynamic=True)",))
    found = bench_run.arms_of(options, SEEN, tmp_path)[-1]
    assert found.sources
    assert found.code.endswith("\nmodel = torch.compile(model, dynamic=True)")


def test_a_folder_of_fixes_brings_its_settings(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("a = 1\nb = 2\n")
    folder = tmp_path / "fixes"
    folder.mkdir()
    asked = {"root": tmp_path, "patch": str(folder)}
    with pytest.raises(TcreadyError, match=r"no changes found: expected own\.patch or site-packages\.patch"):
        arms(**asked)
    line = "torch._dynamo.config.capture_scalar_outputs = True"
    fixes = folder / "fixes.json"
    fixes.write_text(json.dumps({"settings_code": [line]}))
    (folder / "site-packages.patch").write_text("")
    assert arms(**asked)["patched"] == f"{line}\nmodel = torch.compile(model)"
    patch = folder / "own.patch"
    patch.write_text(
        dedent("""\
        --- a/m.py
        +++ b/m.py
        @@ -1,2 +1,2 @@
         a = 1
        -b = 2
        +b = 3
    """)
    )
    code = f"# after: git apply {patch}\n{line}\nmodel = torch.compile(model)"
    assert arms(**asked)["patched"] == code
    for wrong in ("[]", '{"settings_code": "x"}', '{"settings_code": [1]}', "{"):
        fixes.write_text(wrong)
        with pytest.raises(TcreadyError, match=r"fixes\.json was not written by `tcready fix --patch-dir`"):
            arms(**asked)


@pytest.mark.parametrize(("given", "share"), [("2%", 0.02), ("0.02", 0.02), (0.02, 0.02), (" 5 % ", 0.05)])
def test_a_share_is_one_or_in_percent(given: object, share: float) -> None:
    assert share_of(given) == pytest.approx(share)


@pytest.mark.parametrize("given", ["150%", "1", 1.0, "0", "-2%", "nan", "%", "two", None, True])
def test_what_is_no_share(given: object) -> None:
    assert share_of(given) is None


# sizes


def sizes(tmp_path: Path, text: str) -> tuple[Sizes, ...]:
    path = tmp_path / "lengths"
    path.write_text(text)
    return bench_run.sizes_of(str(path))


def test_sizes_of_csv_and_of_json_lines(tmp_path: Path) -> None:
    expected = (Sizes((("batch", 1), ("length", 128)), 5.0), Sizes((("batch", 8), ("length", 512)), 1.0))
    assert (
        sizes(
            tmp_path,
            dedent("""\
        batch,length,count
        1,128,2
        8,512,1
        1,128,3
    """),
        )
        == expected
    )
    lines = dedent("""\
        {"batch": 1, "length": 128, "count": 5}

        {"batch": 8, "length": 512}
    """)
    assert sizes(tmp_path, lines) == expected
    assert expected[1].name == "batch 8, length 512"
    turned = '{"batch": 1, "length": 128, "count": 2}\n{"length": 128, "count": 3, "batch": 1}\n'
    assert sizes(tmp_path, turned) == expected[:1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no row"),
        ("length\n", "no row"),
        (
            dedent("""\
            length
            12
            x
        """),
            ":3: length is 'x'",
        ),
        ("length, length\n1,2\n", "a unique name"),
        ("length,\n1,2\n", "a unique name"),
        ('{"a": 1}\n{"b": 1}\n', ":2: the columns differ"),
        (
            dedent("""\
            a,count
            1,1e308
            1,1e308
        """),
            "too large",
        ),
        ("a\n" + "\n".join(map(str, range(1, 70))), "at most 64"),
        ("length\n1.5\n", "expected a whole number"),
        ("length\n0\n", "expected a whole number"),
        ('{"length": 1' + "0" * 400 + "}", "expected a whole number"),
        ("length,count\n1,0\n", "count is '0': expected a number"),
        ('[{"length": 8}]', "one JSON object per line, not a list"),
        ("length\nnan\n", "expected a whole number"),
        ("count\n3\n", "no column except"),
        ("a,b\n1\n", "number of columns"),
        ("a\n1,2\n", "number of columns"),
        ('{"a": true}\n', "expected a whole number"),
        ('{"a": 1}\n[1]\n', ":2: expected one JSON object per line"),
        ('{"a": 1}\n{\n', ":2: "),
    ],
)
def test_sizes_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TcreadyError) as refused:
        sizes(tmp_path, text)
    assert words in str(refused.value)


# which processes


class Processes:
    """Answers as a worker would, and notes what it is asked; each takes `takes` seconds of a clock of its own."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        takes: float,
        isolates: bool = True,
        device: bool = False,
        fails: str = "",
        ends: tuple[str, str] = ("", ""),
    ) -> None:
        self.device, self.fails = device, fails
        self.ends = ends
        """A kind of process, and the arm in whose code it ends."""
        self.untimed = False
        self.loses_all = False
        """Whether a process that ends in an arm leaves no times."""
        self.compiled = 0.5
        """Seconds of a call of a compiled arm; eager takes 1."""
        self.saves: tuple[CarriedCode, ...] = ()
        """The ways in which compiled code is saved."""
        self.asked: list[BenchRequest] = []
        self.now = 0.0
        self.takes = takes
        self.stack = (("isolate_recompiles", "yes" if isolates else "no"),)
        monkeypatch.setattr(bench_run.time, "monotonic", lambda: self.now)

    def __call__(self, request: BenchRequest, seconds: float, tell: object) -> BenchAnswer:
        del tell
        self.asked.append(request)
        self.now += min(self.takes, seconds)
        rows = tuple(self._measured(request))
        if request.kind == "carry":
            carried = self.saves if request.way is None else (CarriedCode(request.way, "default", 2.0),)
            return BenchAnswer(request.kind, carried=carried)
        kind, name = self.ends
        if request.kind != kind or all(arm.name != name for arm in request.arms):
            return BenchAnswer(request.kind, rows, stack=self.stack)
        rows = tuple(dataclasses.replace(row, error="it died") if row.arm == name else row for row in rows)
        if self.loses_all:
            rows = tuple(dataclasses.replace(row, blocks=()) for row in rows)
        return BenchAnswer(request.kind, rows, stack=self.stack, failure="it died", ended_in=name)

    def _measured(self, request: BenchRequest) -> Iterator[ArmMeasured]:
        for arm in request.arms:
            took = 1.0 if arm.name == "eager" else self.compiled + 0.001 * request.seed
            if arm.name == self.fails or self.untimed:
                yield ArmMeasured(arm.name, error="it gave up")
                continue
            yield ArmMeasured(
                arm.name,
                graphs=1 if arm.code else 0,
                blocks=(took, took * 1.001, took * 0.999) if request.kind == "steady" else (),
                cold=ColdStart(3.0) if request.kind == "cold" else None,
                profile=self._profile(arm) if self._profiles(request) else None,
                parity=ParityMeasured(True) if request.kind == "parity" and arm.code else None,
            )

    def _profile(self, arm: Arm) -> Profile:
        return Profile(kernels=10 if arm.code else 30, dynamo_seconds=0.5 if arm.code else None)

    def _profiles(self, request: BenchRequest) -> bool:
        return request.kind == "profile" or (self.device and request.profile)

    def kinds(self) -> list[str]:
        return [f"{each.kind} {'+'.join(arm.name for arm in each.arms)}" for each in self.asked]


EAGER, DEFAULT, OTHER = Arm("eager", ""), Arm("default", "model.compile()"), Arm("other", "model.compile()")


def measured(processes: Processes, *given: Arm, **wanted: object) -> bench_run.Bench:
    options = dataclasses.replace(BenchOptions(), **wanted)  # type: ignore[arg-type]
    return bench_run.measure_bench(processes, (EAGER, *given), options, BenchWanted("m.py::M"), lambda _now: None)


def test_arms_are_timed_together_and_started_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=5)
    found = measured(processes, DEFAULT)
    assert processes.kinds() == [
        "steady eager+default",
        "profile eager+default",
        "parity eager+default",
        "steady eager+default",
        "cold default",
        "cold eager",
        "cold default",
        "parity eager+default",
        "carry default",
    ]
    assert [each.first_seed_only for each in processes.asked if each.kind == "parity"] == [True, False]
    cold = [each for each in processes.asked if each.kind == "cold"]
    assert cold[0].cache == cold[2].cache != cold[1].cache
    assert [each.seed for each in processes.asked if each.kind == "steady"] == [0, 1]
    assert (found.verdict, found.recommended, found.cut) == ("real_gain", "default", ())


@pytest.mark.parametrize(("took", "processes"), [(0.5, 2), (0.979, 5)])
def test_a_ratio_near_a_threshold_gets_two_processes_more(
    monkeypatch: pytest.MonkeyPatch, took: float, processes: int
) -> None:
    made = Processes(monkeypatch, takes=5)
    made.compiled = took
    measured(made, DEFAULT)
    steady = [each for each in made.asked if each.kind == "steady"]
    assert [each.seed for each in steady] == list(range(processes))
    assert {each.blocks for each in steady} == {10}


def test_processes_that_were_asked_for_all_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Processes(monkeypatch, takes=5)
    measured(made, DEFAULT, at_least=4)
    assert [each.seed for each in made.asked if each.kind == "steady"] == [0, 1, 2, 3]
    assert [each.works for each in made.asked if each.kind == "steady"] == [False, True, True, True]


def test_remedies_are_tried_where_compiling_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Arm("default", "model = torch.compile(model)")
    processes = Processes(monkeypatch, takes=5)
    processes.compiled = 1.5
    found = measured(processes, slow)
    assert found.verdict == "regression"
    names = ["no module guards", "no attribute guards", "tensor guards alone"]
    assert "+".join(["steady eager+default", *names]) in processes.kinds()
    assert [each.name for each in found.remedies] == names
    for remedy in found.remedies:
        assert remedy.risk
        assert remedy.speedup is not None
        assert remedy.without is not None
        assert remedy.speedup.median == pytest.approx(remedy.without.median)
    assert found.processes == len(processes.asked) - 1
    for quick in (Processes(monkeypatch, takes=5), Processes(monkeypatch, takes=5)):
        quick.compiled = 1.5
        assert not measured(quick, slow, quick=True).remedies
    fast = Processes(monkeypatch, takes=5)
    assert not measured(fast, slow).remedies
    assert not any("guards" in kind for kind in fast.kinds())


def test_where_arms_share_a_limit_each_remedy_has_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=5, isolates=False)
    processes.compiled = 1.5
    processes.fails = "tensor guards alone"
    found = measured(processes, Arm("default", "model = torch.compile(model)"))
    assert [kind for kind in processes.kinds() if "guards" in kind] == [
        "steady eager+no module guards",
        "steady eager+no attribute guards",
        "steady eager+tensor guards alone",
    ]
    assert [(each.speedup is None, each.error) for each in found.remedies] == [
        (False, ""),
        (False, ""),
        (True, "it gave up"),
    ]


def test_on_a_device_the_first_process_profiles_what_it_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=5, device=True)
    found = measured(processes, DEFAULT, quick=True)
    assert [each.profile for each in processes.asked if each.kind == "steady"] == [True, False]
    assert "profile eager+default" not in processes.kinds()
    assert found.verdict == "real_gain"


def test_where_arms_share_a_limit_each_has_its_own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=1, isolates=False)
    found = measured(processes, DEFAULT, OTHER)
    steady = [kind for kind in processes.kinds() if kind.startswith("steady")]
    assert steady[:2] == ["steady eager+default+other", "steady eager+other"]
    assert steady[2:] == ["steady eager+default", "steady eager+other"]
    rows = {arm.arm: len(arm.blocks) for arm in found.cases[0].arms}
    assert (rows["default"], rows["other"]) == (2, 2)


@pytest.mark.parametrize("isolates", [True, False])
def test_an_arm_that_failed_is_not_measured_again(monkeypatch: pytest.MonkeyPatch, isolates: bool) -> None:
    processes = Processes(monkeypatch, takes=1, isolates=isolates, fails="default")
    found = measured(processes, DEFAULT, OTHER)
    assert sum("default" in kind for kind in processes.kinds()) == 1
    assert {arm.arm: arm.verdict for arm in found.cases[0].arms} == {
        "eager": "baseline",
        "default": "failed",
        "other": "real_gain",
    }
    alone = Processes(monkeypatch, takes=1, isolates=isolates, fails="default")
    found = measured(alone, DEFAULT)
    assert alone.kinds() == ["steady eager+default"]
    assert found.reason == "default failed: it gave up"


@pytest.mark.parametrize("isolates", [True, False])
def test_the_others_are_timed_without_the_arm_that_ended_the_process(
    monkeypatch: pytest.MonkeyPatch, isolates: bool
) -> None:
    processes = Processes(monkeypatch, takes=1, isolates=isolates, ends=("steady", "default"))
    found = measured(processes, DEFAULT, OTHER)
    assert processes.kinds()[:2] == ["steady eager+default+other", "steady eager+other"]
    assert sum("default" in kind for kind in processes.kinds()) == 1
    arms = {arm.arm: arm for arm in found.cases[0].arms}
    assert (arms["default"].verdict, arms["default"].reason) == ("failed", "it died")
    assert arms["other"].verdict == "real_gain"
    assert len(arms["other"].blocks) == 2
    processes = Processes(monkeypatch, takes=1, ends=("steady", "default"))
    processes.loses_all = True
    alone = measured(processes, DEFAULT)
    assert alone.reason == "default failed: it died"
    assert processes.kinds() == ["steady eager+default", "steady eager"]
    assert alone.cases[0].arms[0].seconds is not None


@pytest.mark.parametrize("kind", ["parity", "profile"])
def test_the_others_are_compared_without_the_arm_that_ended_the_process(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    processes = Processes(monkeypatch, takes=1, ends=(kind, "default"))
    found = measured(processes, DEFAULT, OTHER)
    kinds = [each for each in processes.kinds() if each.startswith(kind)]
    further = ["parity eager+other"] if kind == "parity" else []
    assert kinds == [f"{kind} eager+default+other", f"{kind} eager+other", *further]
    verdicts = {arm.arm: arm.verdict for arm in found.cases[0].arms}
    assert verdicts["other"] == "real_gain"
    assert kind == "profile" or verdicts["default"] == "likely_gain"


def test_eager_code_that_was_not_timed_is_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=1, ends=("steady", "eager"))
    found = measured(processes, DEFAULT)
    assert processes.kinds() == ["steady eager+default"]
    assert found.cases[0].arms[0].verdict == "failed"


def test_what_was_asked_for_is_named_where_nothing_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=1)
    processes.untimed = True
    found = measured(processes, DEFAULT, soak=600.0, loader="m.py::batches")
    assert processes.kinds() == ["steady eager+default"]
    asked = ("loader m.py::batches", "profile", "outputs against eager", "cold start, and memory", "soak")
    assert found.cut == tuple(f"{words}: not run: the first process timed nothing" for words in asked)


def test_what_the_budget_cuts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=30)
    found = measured(processes, DEFAULT, bench_budget=100.0)
    assert processes.now <= 130
    assert any("steady state of eager, default, process 3" in line for line in found.cut)
    assert all("the budget was spent" in line for line in found.cut)


def test_quick_is_eager_and_default_and_one_cold_start(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=4)
    measured(processes, DEFAULT, quick=True)
    assert processes.kinds().count("cold default") == 1
    assert processes.kinds().count("steady eager+default") == 2
    assert all(each.artifacts is None for each in processes.asked)
    assert "carry default" not in processes.kinds()


def test_code_is_loaded_in_the_ways_in_which_it_was_saved_and_last(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=4)
    processes.saves = (CarriedCode("aot_compile", "default"), CarriedCode("precompile", "default", error="no"))
    measured(processes, DEFAULT)
    saving, loading = processes.asked[-2:]
    assert (saving.kind, saving.way, loading.kind, loading.way) == ("carry", None, "carry", "aot_compile")
    assert saving.carried == loading.carried
    assert saving.cache is loading.cache is None
    without = Processes(monkeypatch, takes=4)
    measured(without, DEFAULT, carry=False)
    assert "carry default" not in without.kinds()
    close = Processes(monkeypatch, takes=4)
    close.compiled = 0.98
    measured(close, DEFAULT)
    assert close.kinds().count("steady eager+default") > 3
    assert close.kinds()[-1] == "carry default"
    other = Processes(monkeypatch, takes=4)
    measured(other, OTHER)
    assert not [each for each in other.asked if each.kind == "carry"]


def test_the_soak_takes_the_recommended_arm_beyond_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=5)
    measured(processes, DEFAULT, soak=600.0)
    assert processes.kinds()[-1] == "soak default"
    assert processes.asked[-1].seconds == 600.0


def test_the_command_has_the_defaults_of_its_options() -> None:
    given = bench.make_context("bench", ["m.py"]).params
    assert BenchOptions(**{each.name: given[each.name] for each in dataclasses.fields(BenchOptions)}) == BenchOptions()
    assert bench.make_context("bench", ["m.py", "--no-carry"]).params["carry"] is False


@pytest.mark.parametrize(("budget", "timeout"), [(None, 600.0), (1e-300, 20.0), (90.0, 90.0), (900.0, 600.0)])
def test_the_check_keeps_to_the_budget(tmp_path: Path, budget: float | None, timeout: float) -> None:
    options = BenchOptions(bench_budget=budget)
    assert bench_run.settings_for(options, resolve({}, root=tmp_path)).run.timeout == timeout


def test_a_first_answer_takes_longer_where_others_use_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    needed = {}
    for load in (0.2, 1.0, 3.0):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        needed[load] = bench_run._first_answer_after(SEEN, 2)
    assert needed[0.2] == needed[1.0]
    assert needed[3.0] == 1.5 * needed[1.0], "at most: the average includes the load of the check itself"


def test_the_budget_counts_from_the_start_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes(monkeypatch, takes=10)
    options = BenchOptions(bench_budget=100.0)
    processes.now = 60.0  # so long the check took
    found = bench_run.measure_bench(
        processes, (EAGER, DEFAULT), options, BenchWanted("m.py::M"), lambda _now: None, began=0.0
    )
    assert processes.now <= 110
    assert found.seconds == processes.now
    assert found.cut


def test_a_bench_of_which_every_arm_failed_fails_its_stage() -> None:
    arms = (ArmBench("eager", "baseline", Figure(1, 1, 1, 3)), ArmBench("default", "failed", None, parity=False))
    found = bench_run.stage_of(Bench("no_gain", "default failed: it differs", (BenchCase("x", arms),)))
    assert (found.state, found.reason) == ("fail", "mismatch")
    either = (*arms, ArmBench("plan", "no_gain", Figure(1, 1, 1, 3)))
    assert bench_run.stage_of(Bench("no_gain", "", (BenchCase("x", either),))).state == "pass"


def test_what_the_check_found_to_differ_is_not_compared_again() -> None:
    differs = Stage("parity", "fail", "output 0 differs by 100 %", 0.1, "mismatch")
    seen = dataclasses.replace(SEEN, stages=(differs,))
    compared = (EAGER, Arm("default", "model = torch.compile(model)"), Arm("own", "model.layer.compile()"))
    known = bench_run._differing(seen, compared)
    assert known == (("default", "output 0 differs by 100 %"),)
    asked: list[BenchRequest] = []

    def run(request: BenchRequest, _seconds: float, _progress: object) -> BenchAnswer:
        asked.append(request)
        rows = tuple(ArmMeasured(arm.name, None, blocks=(1e-3,) * 10) for arm in request.arms)
        return BenchAnswer(request.kind, measured=rows)

    about = BenchWanted(target="m.py::M", differing=known)
    found = bench_run.measure_bench(run, compared, BenchOptions(), about, lambda _: None)
    held = [{arm.name for arm in each.arms} for each in asked if each.kind == "parity"]
    assert held
    assert all("default" not in names for names in held)
    arms = {arm.arm: arm for arm in found.cases[-1].arms}
    assert arms["default"].verdict == "failed"
    assert "its outputs differ from eager: output 0 differs by 100 %" in arms["default"].reason


def test_a_bench_of_which_every_arm_failed_exits_1_where_it_guards() -> None:
    arms = (ArmBench("eager", "baseline", Figure(1, 1, 1, 3)), ArmBench("default", "failed", None, parity=False))
    failed = Bench("no_gain", "default failed: it differs", (BenchCase("x", arms),))
    assert exit_of([failed], (), guards=True) == 1
    assert exit_of([failed], (), guards=False) == 0
    assert exit_of([failed, None], (), guards=True) == 2
    assert exit_of([dataclasses.replace(failed, cases=())], ("default",), guards=True) == 1


def test_a_stored_bench_of_one_process_is_refused_before_anything_runs(tmp_path: Path) -> None:
    timed = ArmBench("default", "inconclusive", Figure(1, 1, 1, 3), blocks=((1.0, 1.0, 1.0),))
    path = tmp_path / "before.json"
    bench = Bench("inconclusive", "", (BenchCase("x", (timed,)),), stack=STACK)
    path.write_text(json.dumps(as_json(dataclasses.replace(SEEN, bench=bench))))
    wanted = BenchOptions(against=str(path), fail_on_regression="5%")
    with pytest.raises(TcreadyError, match="timed in one process only, so nothing can be compared"):
        bench_run.reject_other_bench((PlannedRun("m.py::M", "", True),), resolve({}, root=tmp_path), wanted)


@pytest.mark.parametrize("seconds", [0.0, -1e-3])
def test_times_that_somebody_edited_are_refused(seconds: float) -> None:
    row = ArmMeasured("eager", None, blocks=(1e-3, seconds))
    answer = BenchAnswer("steady", measured=(row,))
    process = BenchProcess(BenchRequest("steady", (EAGER,)), answer, "steady")
    with pytest.raises(TcreadyError, match="times that are not above zero"):
        bench_run.compute_bench(dataclasses.replace(SEEN, bench_run=BenchRun((EAGER,), (process,), 1.0)))


def test_the_steps_of_training_stand_in_the_commands_of_the_checklist() -> None:
    options = RunOptions(mode="train", python="env/bin/python")
    command = bench_run._command_target("m.py::M", options, BenchOptions(accumulate=4))
    assert command == "m.py::M --mode train --python env/bin/python --accumulate 4"


@pytest.mark.parametrize(("timeout", "repeated"), [(600.0, ""), (30.0, " --timeout 30")])
def test_the_limit_that_a_budget_gives_the_check_is_not_repeated(tmp_path: Path, timeout: float, repeated: str) -> None:
    """The command that fills a box has a budget of its own."""
    wanted = BenchOptions(bench_budget=50.0)
    run = bench_run.settings_for(wanted, resolve({"timeout": timeout}, root=tmp_path)).run
    assert run.timeout == min(timeout, 50.0)
    assert bench_run._command_target("m.py::M", run, wanted) == f"m.py::M{repeated}"


def test_the_commands_of_the_checklist_can_be_pasted() -> None:
    """They repeat what decides what is measured, and of time limits those of a run."""
    wanted = BenchOptions(
        arms=("a = 1\nmodel = torch.compile(model)",), at_least=2, min_effect=0.1, quick=True, bench_budget=9.0
    )
    options = RunOptions(inputs="my dir/m.py::example", timeout=500.0, memory_gb=8.0)
    command = bench_run._command_target("my dir/m.py::M", options, wanted)
    given = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True, text=True, check=True
    ).stdout.split("\0")[:-1]
    assert "\n" not in command
    assert given[0] == "my dir/m.py::M"
    assert dict(zip(given[1::2], given[2::2], strict=True)) == {
        "--inputs": "my dir/m.py::example", "--timeout": "500", "--memory": "8",
        "--arm": wanted.arms[0], "--processes": "2", "--min-effect": "0.1",
    }  # fmt: skip


def test_the_options_that_are_repeated_are_those_of_the_command() -> None:
    flags = {flag for parameter in bench.params for flag in parameter.opts}
    repeated = {f"--{each.name}" for each in declared(RunOptions) if each.field in bench_run.REPEATED}
    assert repeated <= flags
    of_the_page = {"--editor", "--output-format", "--output", "-o", "--html", "--verbose", "-v", "--quiet", "-q"}
    own = {f"--{each.name}" for each in declared(BenchOptions)}
    assert flags - repeated - own - of_the_page == {"target", "--mode", "--help", "-h"} & flags


# a stored bench to compare with


STACK = (("torch", "2.13.0"), ("cpu", "x"), ("device", "cpu"), ("inputs", "m.py::sizes"), ("accumulate", "1"))


@pytest.fixture
def before(tmp_path: Path) -> str:
    bench = Bench("no_gain", "", (), stack=STACK)
    path = tmp_path / "before.json"
    path.write_text(json.dumps(as_json(dataclasses.replace(SEEN, bench=bench))))
    return str(path)


@pytest.mark.parametrize(
    ("target", "changed", "words"),
    [
        ("m.py::M", {}, None),
        ("m.py::N", {}, "contains no bench of m.py::N"),
        ("m.py::M", {"mode": "train"}, "contains no bench of m.py::M (--mode train)"),
        ("m.py::M", {"device": "cuda"}, "device (cpu, now cuda)"),
        ("m.py::M", {"device": "auto"}, None),
        ("m.py::M", {"dtype": "bfloat16"}, "dtype (-, now bfloat16)"),
        ("m.py::M", {"inputs": "m.py::other"}, "inputs (m.py::sizes, now m.py::other)"),
        ("m.py::M", {"inputs": None}, "inputs (m.py::sizes, now -)"),
    ],
)
def test_what_a_stored_bench_cannot_be_compared_with_is_refused_before_anything_runs(
    before: str, tmp_path: Path, target: str, changed: dict[str, object], words: str | None
) -> None:
    chosen = resolve({"inputs": "m.py::sizes", **changed}, root=tmp_path)
    planned = (PlannedRun(target, "", True),)
    if words is None:
        bench_run.reject_other_bench(planned, chosen, BenchOptions(against=before))
        return
    with pytest.raises(TcreadyError) as refused:
        bench_run.reject_other_bench(planned, chosen, BenchOptions(against=before))
    assert words in str(refused.value)


def test_another_machine_is_refused_once_the_check_knows_it(before: str) -> None:
    known = {"torch": "2.13.0", "cpu": "x", "dtype": None, "peak_host_bytes": 391_639_040}
    here = dataclasses.replace(SEEN, environment=known)
    bench_run.reject_other_machine(before, here)
    there = dataclasses.replace(SEEN, environment={"torch": "2.14.0", "cpu": "x"})
    with pytest.raises(TcreadyError, match=r"torch \(2.13.0, now 2.14.0\)"):
        bench_run.reject_other_machine(before, there)


def test_a_budget_that_is_too_short_for_any_answer_is_named_first() -> None:
    said: list[str] = []
    for budget in (8.0, 25.0):
        bench_run.announce_short_budget(BenchOptions(bench_budget=budget), said.append)
    (text,) = said
    assert text.startswith("a budget of 8 s is too short for an answer")
