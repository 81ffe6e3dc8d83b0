"""Holds the plans of tcready against what real models do when the printed lines are pasted and run.

A record is one JSON object a line: `target`, `spec` (`build`: `module:function` of the --zoo folder, whose call with
`kwargs` gives (module, args, kwargs)) and `break_sites`. Each model is planned by tcready's worker in the interpreter
--python; then `plan_checker.py`, which shares no code with tcready, executes every printed snippet there anew.

    python benchmarks/plans.py RECORDS.jsonl --zoo FOLDER --python ENV/bin/python --breaking --clean 40 [--list]

A snippet is the recommended code, a placement that is sound, the smallest and the quickest, and a proved region. It
fails if it raises, compiles nothing, gives what eager does not, or misses its claimed share by more than 0.03. `plain`
is `torch.compile(model)`; `oracle` the best of it and of all modules that compile alone with `fullgraph=True`, topmost
first; what raises or gives what eager does not counts as nothing in both. Exits 1 if a snippet fails, or a
recommendation is below `plain` or below 0.95 of `oracle`.

With `--time`, calls after the recommended lines are timed in turn with calls after `model.compile()`, if the lines
are others than that, under Inductor and on the GPU if there is one. Exits 1 if a recommendation is slower by more than
5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorded import source_of
from tcready.dynamic import RunRequest, observe
from tcready.portable.options import RunOptions
from tcready.schema.run import Placement, Plan

CHECKER = Path(__file__).with_name("plan_checker.py")
PLAIN = "model = torch.compile(model)"
OFF = 0.03
"""How far a share may be from what was claimed."""
BELOW_PLAIN = 0.001
OF_ORACLE = 0.95
COMPILED = "model.compile()"
SLOWER = 1.05
ROUNDS = 3


@dataclass(frozen=True)
class Printed:
    """Lines that a report shows, and the share of operations that it claims for them."""

    what: str
    code: str
    claimed: float | None


@dataclass(frozen=True)
class Checked:
    """One snippet, executed."""

    printed: Printed
    share: float
    graphs: int
    captured: int
    error: str
    differs: str

    @property
    def fault(self) -> str:
        """`raises`, `nothing`, `differs`, `off`, or empty."""
        if self.error:
            return "raises"
        if not self.graphs or not self.captured:
            return "nothing"
        if self.differs:
            return "differs"
        claimed = self.printed.claimed
        return "off" if claimed is not None and abs(self.share - claimed) > OFF else ""

    @property
    def story(self) -> str:
        claimed = "-" if self.printed.claimed is None else f"{self.printed.claimed:.3f}"
        return (
            f"{self.fault or 'good'}: {self.printed.what}: claimed {claimed}, measured {self.share:.3f} in {self.graphs}"
            f" graphs {self.error or self.differs}".rstrip()
        )


@dataclass(frozen=True)
class Row:
    """One model."""

    id: str
    target: str
    breaks: bool
    recommended: str = ""
    code: str = ""
    """The recommended lines."""
    share: float = 0.0
    """Of the recommended lines, measured; 0 where there are none."""
    plain: float = 0.0
    oracle: float = 0.0
    oracle_modules: tuple[str, ...] = ()
    seconds: float = 0.0
    """Of the stage."""
    checked: tuple[Checked, ...] = ()
    out: tuple[str, ...] = ()
    """Placements that are not sound, and regions that were refuted, each with its reason."""
    cut: tuple[str, ...] = ()
    times: tuple[float, float] | None = None
    """The seconds of a call after the recommended lines, and after `model.compile()`."""
    failed: str = ""
    """Why there is no plan, or nothing to hold it against."""

    @property
    def faults(self) -> list[Checked]:
        return [one for one in self.checked if one.fault]

    @property
    def below_plain(self) -> bool:
        return not self.failed and self.share < self.plain - BELOW_PLAIN

    @property
    def slower(self) -> bool:
        return self.times is not None and self.times[0] > SLOWER * self.times[1]

    @property
    def below_oracle(self) -> bool:
        return not self.failed and self.share < OF_ORACLE * self.oracle


def printed(plan: Plan, recommended_only: bool) -> Iterator[Printed]:
    """Every snippet of a plan, or the recommended lines alone."""

    def of(what: str, placement: Placement | None) -> Iterator[Printed]:
        if placement is not None and placement.sound:
            yield Printed(what, placement.code, placement.share)

    if plan.code:
        yield Printed("recommended", plan.code, plan.share)
    if recommended_only:
        return
    for placement in plan.alternatives:
        if placement.share:  # one that puts nothing in graphs says so
            yield from of(placement.name, placement)
    yield from of("smallest", plan.smallest)
    yield from of("quickest", plan.quickest)
    for trial in plan.regions:
        if trial.state == "proved":
            yield Printed(f"region {trial.name or 'whole'}", trial.code, trial.ops_share)


def out(plan: Plan) -> Iterator[str]:
    """What a plan does not offer, and why."""
    for placement in plan.alternatives:
        if not placement.sound:
            yield f"{placement.name}: {placement.reason}"
    for trial in plan.regions:
        if trial.state == "refuted":
            yield f"region {trial.name}: {trial.reason}"


def row(record: dict[str, Any], args: argparse.Namespace) -> Row:
    """Plans one record's model and executes what the plan prints."""
    zoo, python, timeout = str(Path(args.zoo).resolve()), args.python, args.timeout
    empty = Row(record["id"], record["target"], bool(record["break_sites"]))
    spec = record["spec"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "target_of_record.py").write_text(source_of(record, zoo), "utf-8")
        options = RunOptions(inputs="target_of_record.py::inputs", python=python, timeout=timeout, plan=True)
        seen = observe(RunRequest("target_of_record.py::model", options, folder))
        stage = next((stage for stage in seen.stages if stage.stage == "plan"), None)
        if seen.plan is None or stage is None or stage.state != "pass":
            states = [f"{s.stage}: {s.detail}" for s in seen.stages if s.state == "fail"]
            return dataclasses.replace(empty, failed="; ".join(states) or "no plan")
        snippets = list(printed(seen.plan, args.recommended_only))
        codes = list(dict.fromkeys([PLAIN, *(one.code for one in snippets)]))
        model = {"zoo": zoo, **{name: spec[name] for name in ("build", "kwargs")}, "timeout": timeout}
        oracle = not (args.without_oracle or args.recommended_only)
        found = executed({**model, "snippets": codes, "oracle": oracle}, Path(folder), python, CUDA_VISIBLE_DEVICES="")
        times = None
        if args.time and seen.plan.code not in ("", COMPILED):
            times = timed(model, seen.plan.code, Path(folder), python)
    if isinstance(found, str):
        return dataclasses.replace(empty, failed=f"checker: {found}")
    by_code = dict(zip(codes, found["snippets"], strict=True))
    modules = found.get("oracle", {})
    whole = by_code[PLAIN]
    plain = 0.0 if whole["error"] or whole["differs"] else whole["share"]
    return dataclasses.replace(
        empty,
        recommended=seen.plan.recommended,
        code=seen.plan.code,
        share=by_code[seen.plan.code].get("share", 0.0) if seen.plan.code else 0.0,
        plain=plain,
        oracle=max(plain, modules.get("share", 0.0)),
        oracle_modules=tuple(modules.get("modules", ())),
        seconds=stage.seconds or 0.0,
        checked=tuple(checked(one, by_code[one.code]) for one in snippets),
        out=tuple(out(seen.plan)),
        cut=seen.plan.cut,
        times=times,
        failed=f"oracle: {modules['error']}" if modules.get("error") else "",
    )


def timed(model: dict[str, Any], code: str, folder: Path, python: str) -> tuple[float, float] | None:
    """Return the seconds of a call after the code, and after `model.compile()`; None if nothing times that.

    Both are timed in turn, each in a new process, ROUNDS times; the least counts. Code that raises takes forever.
    """
    seconds: dict[str, list[float]] = {code: [], COMPILED: []}
    for _ in range(ROUNDS):
        for each in seconds:
            found = executed({**model, "timed": each}, folder, python)
            seconds[each].append(math.inf if isinstance(found, str) else found["seconds"])
    least = min(seconds[code]), min(seconds[COMPILED])
    return None if math.isinf(least[1]) else least


def executed(job: dict[str, Any], folder: Path, python: str, **environment: str) -> Any:
    """Return the checker's result, or the end of its output if it gave none."""
    asked, answer = folder / "job.json", folder / "result.json"
    answer.unlink(missing_ok=True)
    asked.write_text(json.dumps(job), "utf-8")
    done = subprocess.run(
        [python, str(CHECKER), str(asked), str(answer)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if not answer.is_file():
        return " ".join(done.stderr.split())[-400:] or f"exit {done.returncode}"
    return json.loads(answer.read_text("utf-8"))


def checked(one: Printed, found: dict[str, Any]) -> Checked:
    return Checked(
        one,
        found.get("share", 0.0),
        found.get("graphs", 0),
        found.get("captured", 0),
        found["error"],
        found.get("differs", ""),
    )


def chosen(records: Sequence[dict[str, Any]], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The records asked for, those that break first."""
    named = [r for r in records if not args.only or any(text in r["target"] or text in r["id"] for text in args.only)]
    if args.only and not args.breaking and not args.clean:
        return named
    clean = [r for r in named if not r["break_sites"]]
    count = min(args.clean, len(clean))
    spaced = [clean[index * len(clean) // count] for index in range(count)]
    return [*(r for r in named if r["break_sites"] and args.breaking), *spaced]


def listed(model: Row) -> None:
    marks = " BELOW PLAIN" * model.below_plain + " BELOW ORACLE" * model.below_oracle + " SLOWER" * model.slower
    print(
        f"{model.share:6.3f} {model.plain:6.3f} {model.oracle:6.3f} {model.seconds:6.1f} {len(model.checked):4}"
        f" {len(model.faults):4}  {model.recommended:16} {model.target} [{model.id}]{marks}"
    )
    if model.times is not None:
        print("       {:.3f} ms a call, after model.compile() {:.3f}".format(*(1000 * each for each in model.times)))
    if model.slower:
        print("           " + model.code.replace("\n", "\n           "))
    if model.failed:
        print(f"       failed: {model.failed}")
    for one in model.faults:
        print(f"       {one.story}")
        print("           " + one.printed.code.replace("\n", "\n           "))
    if model.below_oracle:
        print(f"       oracle: {', '.join(name or 'the whole model' for name in model.oracle_modules)}")
    if model.below_plain or model.below_oracle:
        for text in model.out:
            print(f"       out: {text[:300]}")
    for text in model.cut:
        print(f"       cut: {text}")
    sys.stdout.flush()


def told(models: Sequence[Row]) -> bool:
    """Prints the summary; whether every bar is met."""
    judged = [model for model in models if not model.failed]
    every = [one for model in judged for one in model.checked]
    count = max(len(judged), 1)
    faults = {fault: sum(one.fault == fault for one in every) for fault in ("raises", "nothing", "differs", "off")}
    below_plain, below_oracle = [m for m in judged if m.below_plain], [m for m in judged if m.below_oracle]
    print(f"models {len(models)}, of which break {sum(m.breaks for m in models)}; failed {len(models) - len(judged)}")
    print(
        f"snippets {len(every)}: raise {faults['raises']}, compile nothing {faults['nothing']}, differ"
        f" {faults['differs']}, off by more than {OFF} {faults['off']}"
    )
    print(f"recommended below plain: {len(below_plain)}; below {OF_ORACLE} of the oracle: {len(below_oracle)}")
    print(
        f"mean share: recommended {sum(m.share for m in judged) / count:.3f}, plain"
        f" {sum(m.plain for m in judged) / count:.3f}, oracle {sum(m.oracle for m in judged) / count:.3f}"
    )
    compared = [m.times for m in judged if m.times is not None]
    print(f"timed {len(compared)}: slower than {COMPILED} by more than 5 %: {sum(m.slower for m in judged)}")
    print(f"seconds of the plan: mean {sum(m.seconds for m in judged) / count:.1f}, most", end=" ")
    print(f"{max((m.seconds for m in judged), default=0.0):.1f}")
    worse = below_plain or below_oracle or any(m.slower for m in judged)
    return len(judged) == len(models) and not any(faults.values()) and not worse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--zoo", required=True, help="the folder whose modules build the models")
    parser.add_argument("--python", required=True, help="the interpreter with torch and the packages")
    parser.add_argument("--breaking", action="store_true", help="all models that break in the record")
    parser.add_argument("--clean", type=int, default=0, help="so many that do not, evenly spaced")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th of them from the K-th on")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="models whose target or id has one of these")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a model's run")
    parser.add_argument("--without-oracle", action="store_true", help="execute only what is printed, and `plain`")
    parser.add_argument(
        "--recommended-only", action="store_true", help="execute the recommended lines and `plain` alone"
    )
    parser.add_argument("--time", action="store_true", help="time the recommended lines beside model.compile()")
    parser.add_argument("--list", action="store_true", help="a line for each model, and what failed")
    parser.add_argument("--json", type=Path, help="writes all rows there, after each model")
    args = parser.parse_args()
    records = [json.loads(line) for line in args.records.read_text("utf-8").splitlines() if line]
    models: list[Row] = []
    if args.list:
        print("recomm  plain oracle  plan s  snip fail  placement        model")
    first, step = map(int, args.part.split("/"))
    for record in chosen(records, args)[first::step]:
        start = time.perf_counter()
        models.append(row(record, args))
        if args.list:
            listed(models[-1])
            print(f"       {time.perf_counter() - start:.0f} s in all", flush=True)
        if args.json:
            args.json.write_text(json.dumps([dataclasses.asdict(m) for m in models], indent=1), "utf-8")
    if not told(models):
        sys.exit(1)


if __name__ == "__main__":
    main()
