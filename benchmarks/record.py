"""Records what Dynamo really does with models of installed packages, for benchmarks/accuracy.py to score against.

    python benchmarks/record.py run MODELS --zoo FOLDER --python ENV/bin/python -o OUT.jsonl
    python benchmarks/record.py agree KNOWN.jsonl OUT.jsonl
    python benchmarks/record.py split OUT.jsonl --first LOOK.jsonl --second KEPT.jsonl [--also KNOWN.jsonl]
    python benchmarks/record.py whole OUT.jsonl -o FRESH.jsonl [--also KNOWN.jsonl]

MODELS is the name of a module of the zoo folder with a list `MODELS` (benchmarks/zoo_unseen.py; `MODULE:LIST` names
another list), or a file of records, whose models are then recorded again. Each model runs in a process of its own with a
time limit, forked from one that has loaded torch alone. `run` writes one JSON object a line and goes on where it was:
what stands in OUT.jsonl is not run again (--again TEXT: it is). A model that does not build or run eagerly is no record;
it stands in OUT.jsonl.failed with the reason.

What it is made from: tcready's own worker, the parts that watch Dynamo (`torch_internals.recording`, `narrate`, `lines`,
`ops`), laid around one eager call, one cold compiled call (default settings, eager backend), one warm one whose
operations are counted, and with --fullgraph one call with `fullgraph=True`. So it is no second opinion on the worker: it
is a record of Dynamo's behaviour only as far as the worker reads Dynamo rightly. `agree` holds it against records that
other code made: on 15 models, 10 of which broke, all 30 sites and all 6,016 executed lines were the same.

A record has the fields that accuracy.py and agreement.py read: `id`, `package`, `target`, `spec`, `versions`, `mode`,
`break_sites` (path below site-packages, line, func, gb_types, gb_ids, actions, hits, cascade), `skipped_frames`
(path, firstline, name, reason), `executed` (path to line ranges of the eager call), `coverage`, `eager_ops`, `graphs`,
`fullgraph_ok`, `outside_first` (Dynamo broke first outside the package's code: no site here was the first break). If the
compiled call raises, the breaks until then are kept, `compile_error` says what it raised, and coverage is null. Line
numbers are of the versions in `versions` and of the environment's requirements file.

A site is a `cascade` if the first of its types is never the first break of any model, among all that are recorded (and
those of --also): it shows only after another break sent an outer frame to eager. `split` and `whole` decide that over
all records; `split` parts them into two files, `whole` writes one.

The split is by whole package, so that neither half teaches anything about the other's code: packages that break in a
common file belong together; such groups in the order of the SHA-256 of their first name, each to the half that has fewer
models that broke so far, for equal numbers to the one with fewer models, then to the first. Nobody chooses.

Four files of fixtures/accuracy come from here:

- unseen-look.jsonl and unseen-kept.jsonl are the halves of the models of benchmarks/unseen.toml. The first was there to
  be looked at from the start. Of the second only totals were read until it was measured: recall 0.570, precision 0.825,
  verdict 0.859. It was opened after that, so both may now be looked at and learnt from, and neither measures any more
  what the rules do with code that nobody looked at.
- unseen-second-look.jsonl and unseen-second-kept.jsonl are the halves of the models of benchmarks/unseen2.toml, of
  packages that no record covered before. The first may be looked at. Of a second half only the totals that accuracy.py
  prints may be read, and never what lies behind them (--list, or the lines and kinds of the breaks), or it measures
  nothing any more.

unseen-fifth-look.jsonl and unseen-fifth-kept.jsonl are the same of benchmarks/unseen5.toml, made with dev records and the
first two files as --also. unseen-sixth-look.jsonl and unseen-sixth-kept.jsonl are the same of benchmarks/unseen6.toml,
made with dev records and all earlier files as --also. The same holds for unseen-seventh-look.jsonl and
unseen-seventh-kept.jsonl, of benchmarks/unseen7.toml. Of the second of each only totals were read until it was measured
(the seventh: recall 0.545, precision 0.984, verdict 0.824); these were opened after that, so they may be looked at and
learnt from, and measure nothing any more.

unseen-eighth.jsonl is all of benchmarks/unseen8.toml, made with `whole` and dev records and all earlier files as --also:
it is there to learn from.
unseen-ninth-look.jsonl and unseen-ninth-kept.jsonl are the halves of benchmarks/unseen9.toml, made with dev records and
all earlier files as --also. Of the second only totals were read until it was measured: recall 0.296, precision 0.471,
verdict 0.674. It was opened after that, so it may be looked at and learnt from, and measures nothing any more. Six of its
records (aepsych, which switches off Dynamo's loggers when it is imported) lacked most breaks and were made anew: 0.519,
0.824 and 0.674, nothing learnt.
unseen-tenth-look.jsonl and unseen-tenth-kept.jsonl are the halves of benchmarks/unseen10.toml, made with dev records and
all earlier files as --also. Of the second only totals were read until 2026-11-28, and so they were of
unseen-second-kept.jsonl, unseen-eleventh-kept.jsonl, unseen-twelfth-kept.jsonl and unseen-fifteenth-kept.jsonl; they were
opened then, and measure nothing any more.
unseen-eleventh-look.jsonl and unseen-eleventh-kept.jsonl are those of benchmarks/unseen11.toml, made with the same
--also and the tenth. Their halves are not those of `split`: the sorted names of the packages were shuffled with
`random.Random(11)`, and the first half of them is the first file. No file has breaks in both.
unseen-twelfth-look.jsonl and unseen-twelfth-kept.jsonl are those of benchmarks/unseen12.toml, made in the same way with
`random.Random(12)` and the eleventh as --also. No file has breaks in both.
unseen-thirteenth-look.jsonl and unseen-thirteenth-kept.jsonl are those of benchmarks/unseen13.toml, made in the same way
with `random.Random(13)` and the twelfth as --also. No file has breaks in both. Of the second only totals may be read.
unseen-fourteenth-look.jsonl and unseen-fourteenth-kept.jsonl are those of benchmarks/unseen14.toml, made beside them. Of
the second only totals were read until it was measured: recall 0.008 (1 of 123 sites; 119 are of a package whose classes
are made when it is imported, which is not read), precision 1.0, verdict 0.825. It was opened after that.
unseen-fifteenth-look.jsonl and unseen-fifteenth-kept.jsonl are those of benchmarks/unseen15.toml, made in the same way
with `random.Random(15)` and all earlier files as --also. One file has breaks in both, one record each.
unseen-sixteenth-look.jsonl and unseen-sixteenth-kept.jsonl are those of benchmarks/unseen16.toml, whole models above all,
made in the same way with `random.Random(16)`. No file has breaks in both. Of the second only totals were read until it
was measured: recall 0.56 by class and 0.81 as called, precision 0.90 and 0.96, verdict 0.85 and 0.89. It was opened after
that.
unseen-seventeenth-look.jsonl and unseen-seventeenth-kept.jsonl are those of benchmarks/unseen17.toml, whole models again,
made in the same way with `random.Random(17)`. One file has breaks in both. Of the second only totals were read until it
was measured: recall 0.84 by class and 0.86 as called, precision 0.79 and 0.83 (0.90 and 0.95 by what accuracy.py counts
since), verdict 0.95 and 0.97. It was opened after that.
unseen-eighteenth-look.jsonl and unseen-eighteenth-kept.jsonl are those of benchmarks/unseen18.toml, whole models again,
made in the same way with `random.Random(18)`. No file has breaks in both. Of the second only totals were read until it
was measured: recall 0.31 by class and 0.62 as called, precision 1.00 and 1.00, verdict 0.90 and 0.93. It was opened after
that. Packages of its environment in other versions than the requirements name: fastai 2.7.19 with fastcore 1.7.29.
unseen-nineteenth-look.jsonl and unseen-nineteenth-kept.jsonl are those of benchmarks/unseen19.toml, classes that a script
chose: the packages by their names, the first of them in the first. Of the second only totals may be read.
unseen-twentieth-look.jsonl and unseen-twentieth-kept.jsonl are those of benchmarks/unseen20.toml, whole models again,
made in the same way with `random.Random(20)`. No file has breaks in both. Of the second only totals may be read.
unseen-twenty-first-look.jsonl and unseen-twenty-first-kept.jsonl are those of benchmarks/unseen21.toml, whole models once
more, made in the same way with `random.Random(21)`; of the second only totals may be read. Packages of its environment in
other versions than the requirements name: antlr4-python3-runtime 4.9.3, autograd-gamma 0.5.0, narwhals 2.29.0, omegaconf
2.3.1, transformers 5.24.0, typeguard 2.13.3, and releases of the same month of ten that no model is of.
unseen-twenty-second-look.jsonl and unseen-twenty-second-kept.jsonl are those of benchmarks/unseen22.toml, made in the
same way with `random.Random(22)`. No file has breaks in both. Of the second only totals were read until it was measured:
recall 0.82, precision 0.82, verdict 0.91 by the class. It was opened after that. Packages of its
environment in other versions than the requirements name: those of the twenty-first, and pandas 2.3.3, pyteomics 4.7.5.
unseen-twenty-third-look.jsonl and unseen-twenty-third-kept.jsonl are those of benchmarks/unseen23.toml, made in the same
way with `random.Random(23)`. Both were measured before anybody looked, and opened after that: recall 0.89 and 0.71,
precision 0.98 and 0.96, verdict 0.96 and 0.97 by the class. Other versions in its environment: those of the
twenty-second, and fastcore 2.2.41.
unseen-twenty-fourth-look.jsonl and unseen-twenty-fourth-kept.jsonl are those of benchmarks/unseen24.toml, made in the
same way with `random.Random(24)`, in the environment of the twenty-third; of the second only totals may be read.
unseen-twenty-fifth-look.jsonl and unseen-twenty-fifth-kept.jsonl are those of benchmarks/unseen25.toml, made in the same
way with `random.Random(25)`, in that environment; of the second only totals may be read. Two files have breaks in both,
one record in the first and two in the second.

The environment of these records, Python 3.11 on a CPU:

    python3.11 -m venv ENV
    ENV/bin/pip install torch==2.13.0
    ENV/bin/pip install --no-deps -r fixtures/accuracy/unseen-requirements.txt

No package may bring a torch of its own, hence --no-deps. The compiled halves of torchvision and torchaudio do not load
beside a torch that they were not built for: declare torchvision's operators before it is imported (torch.library; a
kernel for nms is enough), and remove torchaudio's folder `lib`. For the static pass alone the third command is enough,
without torch: it only reads sources.

Then, with a few seconds a model on two idle cores:

    python benchmarks/record.py run zoo_unseen --zoo benchmarks --python ENV/bin/python -o OUT.jsonl
    python benchmarks/record.py split OUT.jsonl --first fixtures/accuracy/unseen-look.jsonl \\
        --second fixtures/accuracy/unseen-kept.jsonl --also KNOWN.jsonl
    python benchmarks/record.py run zoo_unseen:FRESH --zoo benchmarks --python ENV/bin/python -o OUT2.jsonl
    python benchmarks/record.py whole OUT2.jsonl -o SECOND.jsonl --also KNOWN.jsonl \\
        --also fixtures/accuracy/unseen-look.jsonl --also fixtures/accuracy/unseen-kept.jsonl
    python benchmarks/record.py split SECOND.jsonl --first fixtures/accuracy/unseen-second-look.jsonl \\
        --second fixtures/accuracy/unseen-second-kept.jsonl

The committed records were made without --fullgraph (`fullgraph_ok` is null), with --drop for the file that declares
torchvision's operators, and with earlier records of other packages as --also. Another version of a package, or another
model in a table, moves packages between its halves.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

SEED_BUILD, SEED_CALL = 0, 1
ACTIONS = ("resume", "skip_rest", "skip_frame_unlogged", "skip_frame")


# In the process of one model: the environment's interpreter, with the worker's bundle on PYTHONPATH.


def observed(request: dict[str, Any]) -> dict[str, Any]:
    """Builds the model of a request and runs it; the record, or `failed` with the stage and what it raised."""
    sys.path.insert(0, request["zoo"])
    try:
        import torch
        from tcready.dynamic.worker.core.frames import FrameNames
        from tcready.dynamic.worker.core.lines import executed_lines
        from tcready.portable.events.to_schema import line_sets

        torch.set_num_threads(1)
        module, _, function = request["spec"]["build"].partition(":")
        builder = getattr(importlib.import_module(module), function)

        def build() -> tuple[Any, Any, Any]:
            torch.manual_seed(SEED_BUILD)
            return builder(**request["spec"]["kwargs"])  # type: ignore[no-any-return]

        model, args, kwargs = build()
    except Exception as error:
        return {"failed": f"build: {type(error).__name__}: {error}"}
    found: dict[str, Any] = {"target": request["target"] or f"{type(model).__module__}::{type(model).__qualname__}"}
    lines: set[tuple[str, int]] = set()
    try:
        with torch.compiler.set_stance("force_eager"):
            _call(model, args, kwargs, executed_lines(lines))
    except Exception as error:
        return {"failed": f"eager: {type(error).__name__}: {error}"}
    names = FrameNames(os.getcwd(), ())  # the empty folder of this run
    found["executed"] = {
        item.path: ",".join(str(a) if a == b else f"{a}-{b}" for a, b in item.ranges)
        for item in line_sets(lines, names)
        if not item.path.startswith("/")  # code that was made for the run lies in no package
    }
    found |= _compiled(build, names)
    found["fullgraph_ok"] = _whole(build) if request["fullgraph"] else None
    found["versions"] = {"python": ".".join(map(str, sys.version_info[:3])), "torch": str(torch.__version__)}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["versions"][request["package"]] = importlib.metadata.version(request["package"])
    return found


def _call(function: Any, args: Any, kwargs: Any, *watchers: contextlib.AbstractContextManager[Any]) -> Any:
    """One call with copies of the inputs and the seed of every call; the watchers see the call and nothing else."""
    import torch
    from tcready.dynamic.worker.core.case import Case
    from tcready.dynamic.worker.inputs.loading import fresh

    case = fresh(Case(None, tuple(args), dict(kwargs)))
    torch.manual_seed(SEED_CALL)
    with contextlib.ExitStack() as stack:
        for watcher in watchers:
            stack.enter_context(watcher)
        stack.enter_context(torch.no_grad())
        return function(*case.args, **case.kwargs)


def _compiled(build: Any, names: Any) -> dict[str, Any]:
    """What Dynamo did in one cold call, and the share of a later call's operations that ran in graphs."""
    import torch
    from tcready.dynamic.worker.measure.dispatch_counts import CountingBackend
    from tcready.dynamic.worker.torch_internals.recording import recording
    from tcready.portable.events.record import Record

    torch._dynamo.reset()
    model, args, kwargs = build()
    backend = CountingBackend(model)
    compiled = torch.compile(model, backend=backend)
    record = Record()
    found: dict[str, Any] = {"coverage": None, "eager_ops": None, "compile_error": None}
    try:
        _call(compiled, args, kwargs, recording(record), backend.adopting())
        _call(compiled, args, kwargs, backend.adopting())
        _call(compiled, args, kwargs, backend.adopting(), backend.count())
    except Exception as error:
        first = str(error).strip().partition("\n")[0]  # the lines below name files of this machine
        found["compile_error"] = f"{type(error).__name__}: {first[:300]}"
    else:
        total, inside = backend.counts.total.ops.total(), backend.counts.captured.ops.total()
        found |= {"coverage": round(inside / total, 4) if total else None, "eager_ops": total}
    found["graphs"] = sum(bool(frame.ops) for frame in record.compiled)
    sites = _sites(record, names)
    # The frame that calls the model is no code of the package; what breaks after it is no first break all the same.
    found["break_sites"] = [site for site in sites if site["path"] != names.path(__file__)]
    found["outside_first"] = found["break_sites"][:1] != sites[:1]
    found["skipped_frames"] = _skipped(record, names)
    return found


def _sites(record: Any, names: Any) -> list[dict[str, Any]]:
    """Distinct lines in order of their first event, what Dynamo left without a word behind what it logged."""
    from tcready.portable.events import to_schema
    from tcready.portable.events.record import Record

    sites: dict[tuple[str, int], dict[str, Any]] = {}
    events = [Record(breaks=[event]) for event in record.breaks] + [Record(skips=[event]) for event in record.skips]
    for event in events:
        for seen in to_schema.break_sites(event, names, None):
            new = {"path": seen.path, "line": seen.line, "func": seen.symbol.rpartition(".")[2]}
            new |= {"gb_types": [], "gb_ids": [], "actions": [], "hits": 0, "cascade": False}
            site = sites.setdefault((seen.path, seen.line), new)
            site["hits"] += 1
            kind = seen.reason.partition(": ")[0]
            for name, values in (("gb_types", [kind]), ("gb_ids", seen.gb_ids), ("actions", [seen.action])):
                site[name] += [value for value in values if value not in site[name]]
    return list(sites.values())


def _skipped(record: Any, names: Any) -> list[dict[str, Any]]:
    from tcready.dynamic.worker.core.frames import is_user_file

    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for event in record.skips:
        place = event.place
        if is_user_file(place.path):
            path = names.path(place.path)
            reason = event.reason.split("\n")[0][:160]
            found.setdefault(
                (path, place.line, place.name, reason),
                {"path": path, "firstline": place.line, "name": place.name, "reason": reason},
            )
    return list(found.values())


def _whole(build: Any) -> bool:
    import torch

    torch._dynamo.reset()
    model, args, kwargs = build()
    try:
        _call(torch.compile(model, backend="eager", fullgraph=True), args, kwargs)
    except Exception:
        return False
    return True


def serve(timeout: float) -> None:
    """Reads requests, one a line; forks a process for each and says how it ended, once its answer is written."""
    import torch
    import torch._dynamo
    import torch._inductor.config
    from tcready.dynamic.worker.measure import dispatch_counts  # noqa: F401
    from tcready.portable.events import to_schema  # noqa: F401

    torch.set_num_threads(1)
    tell = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what models print is not an answer
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if not pid:
            os.setsid()
            answer = observed(request)
            Path(request["answer"]).write_text(json.dumps(answer), "utf-8")
            os._exit(0)  # threads and handlers of the model's packages have no say in how long it takes
        print(_ended(pid, timeout), file=tell, flush=True)


def _ended(pid: int, timeout: float) -> str:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return f"the process ended with {status}"
        time.sleep(0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return f"no answer in {timeout:.0f} s"


# In the process that starts the others.


def wanted(models: str, zoo: Path) -> list[dict[str, Any]]:
    """The models to record: id, package, target, spec. `models` is a file of records or `MODULE[:LIST]`."""
    if models.endswith(".jsonl"):
        records = read(Path(models))
        return [{key: r[key] for key in ("id", "package", "target", "spec")} for r in records]
    sys.path.insert(0, str(zoo))
    module, _, name = models.partition(":")
    found: list[dict[str, Any]] = getattr(importlib.import_module(module), name or "MODELS")
    number: dict[str, int] = defaultdict(int)
    turns = []
    for index, model in enumerate(found):
        number[model["package"]] += 1
        turns.append((number[model["package"]], index))
    # Each package's first, each package's second, and so on: a run that is ended early has seen them all.
    return [found[index] for _, index in sorted(turns)]


class Recorder:
    """The environment's interpreter, with torch loaded, that forks a process for each model."""

    def __init__(self, zoo: Path, python: str, timeout: float, fullgraph: bool, folder: Path) -> None:
        from tcready.dynamic.bundle import build_bundle

        self.zoo, self.fullgraph, self.folder = zoo, fullgraph, folder
        bundle = folder / "worker.pyz"
        build_bundle(bundle)
        environment = os.environ | {
            "PYTHONPATH": str(bundle),
            "HF_HUB_OFFLINE": "1",
            "MPLBACKEND": "Agg",
            "PYTHONWARNINGS": "ignore",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.process = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "serve", str(timeout)],
            env=environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def recorded(self, model: dict[str, Any]) -> dict[str, Any]:
        """What one model showed, or why it showed nothing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        request = {**model, "zoo": str(self.zoo), "answer": str(answer), "fullgraph": self.fullgraph}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        end = self.process.stdout.readline().strip()
        if not end:
            raise SystemExit("the interpreter that forks the models has ended")
        if not answer.exists():
            return {"failed": end}
        found: dict[str, Any] = json.loads(answer.read_text("utf-8"))
        return found


def run(args: argparse.Namespace) -> None:
    zoo = args.zoo.resolve()
    done = {r["id"]: r for r in read(args.output)} if args.output.exists() else {}
    failed_path = args.output.with_name(args.output.name + ".failed")
    failed = {r["id"]: r for r in read(failed_path)} if failed_path.exists() else {}
    models = [m for m in wanted(args.models, zoo) if not args.only or any(text in m["id"] for text in args.only)]
    again = args.again or []
    with tempfile.TemporaryDirectory() as name:
        recorder = Recorder(zoo, args.python, args.timeout, args.fullgraph, Path(name))
        for model in models:
            if model["id"] in done | failed and not any(text in model["id"] for text in again):
                continue
            start = time.perf_counter()
            found = recorder.recorded(model)
            done.pop(model["id"], None)
            failed.pop(model["id"], None)
            common = {key: model[key] for key in ("id", "package", "spec")}
            if "failed" in found:
                failed[model["id"]] = common | found
                word = "FAILED " + found["failed"].replace("\n", " ")[:200]
            else:
                done[model["id"]] = common | {"mode": "infer"} | found
                word = f"{len(found['break_sites'])} sites"
            write(args.output, list(done.values()))
            write(failed_path, list(failed.values()))
            print(f"{time.perf_counter() - start:6.1f} s  {model['id']}  {word}", flush=True)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def write(path: Path, records: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    new = path.with_name(path.name + ".new")
    new.write_text(text, "utf-8")
    new.replace(path)


def firsts(records: list[dict[str, Any]]) -> set[str]:
    """The kinds of breaks that come first in some model."""
    return {
        r["break_sites"][0]["gb_types"][0]
        for r in records
        if r["break_sites"] and r["break_sites"][0]["gb_types"] and not r.get("outside_first")
    }


def roots(records: list[dict[str, Any]], also: list[dict[str, Any]]) -> set[str]:
    """The kinds of breaks that are no cascades. Sites of `also` are told already, and stand in any order."""
    told = {s["gb_types"][0] for r in also for s in r["break_sites"] if s["gb_types"] and not s["cascade"]}
    return firsts(records) | told


def marked(records: list[dict[str, Any]], no_cascade: set[str]) -> list[dict[str, Any]]:
    """The records, each site told to be a cascade or not."""
    return [
        record
        | {
            "break_sites": [
                site | {"cascade": bool(site["gb_types"]) and site["gb_types"][0] not in no_cascade}
                for site in record["break_sites"]
            ]
        }
        for record in records
    ]


def halves(records: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Whole packages, by the rule at the top of this file."""
    parts: tuple[list[dict[str, Any]], list[dict[str, Any]]] = ([], [])
    for group in sorted(groups(records), key=lambda group: hashlib.sha256(min(group).encode()).hexdigest()):
        part = min(parts, key=lambda part: (broken(part), len(part)))
        part.extend(record for record in records if record["package"] in group)
    return parts


def groups(records: list[dict[str, Any]]) -> list[set[str]]:
    """Packages, together where models of theirs break in the same file."""
    found: list[tuple[set[str], set[str]]] = []
    for record in records:
        names, paths = {record["package"]}, {site["path"] for site in record["break_sites"]}
        apart = []
        for other in found:
            if names & other[0] or paths & other[1]:
                names, paths = names | other[0], paths | other[1]
            else:
                apart.append(other)
        found = [*apart, (names, paths)]
    return [names for names, _ in found]


def broken(records: list[dict[str, Any]]) -> int:
    return sum(bool(record["break_sites"]) for record in records)


def decided(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The records without what lies in dropped files, each site told to be a cascade or not."""
    records = read(args.records)
    dropped = args.drop or []
    for record in records:
        record["executed"] = {p: text for p, text in record["executed"].items() if p not in dropped}
        for kind in ("break_sites", "skipped_frames"):
            record[kind] = [each for each in record[kind] if each["path"] not in dropped]
    also = [record for path in args.also or [] for record in read(path)]
    return marked(records, roots(records, also))


def split(args: argparse.Namespace) -> None:
    for path, part in zip((args.first, args.second), halves(decided(args)), strict=True):
        keep(path, part)


def whole(args: argparse.Namespace) -> None:
    keep(args.output, decided(args))


def keep(path: Path, records: list[dict[str, Any]]) -> None:
    """Writes the records and prints how many there are, by package; nothing of where they broke."""
    write(path, sorted(records, key=lambda record: record["id"]))
    sites = {(s["path"], s["line"]) for r in records for s in r["break_sites"]}
    size = path.stat().st_size
    print(f"{path}: {len(records)} models, {broken(records)} broke, {len(sites)} sites, {size} bytes")
    packages = sorted({r["package"] for r in records})
    print("  " + ", ".join(f"{n} {sum(r['package'] == n for r in records)}" for n in packages))


def agree(args: argparse.Namespace) -> None:
    """Lays records of the same models side by side; exits 1 where their sites differ."""
    known = {record["id"]: record for record in read(args.known)}
    differ = sites = lines = other = 0
    compared = [record for record in read(args.records) if record["id"] in known]
    for new in compared:
        old = known[new["id"]]
        a, b = ({(s["path"], s["line"]): s for s in r["break_sites"]} for r in (old, new))
        sites += len(a)
        for place in sorted(a.keys() ^ b.keys()):
            differ += 1
            print(f"{'missing ' if place in a else 'invented'} {place[0]}:{place[1]} [{new['id']}]")
        for place in sorted(a.keys() & b.keys()):
            for name in ("func", "gb_types", "gb_ids", "hits", "actions"):
                x, y = a[place][name], b[place][name]
                if (sorted(x) if isinstance(x, list) else x) != (sorted(y) if isinstance(y, list) else y):
                    print(f"{name:8} {place[0]}:{place[1]} {x} {y} [{new['id']}]")
        was, now = (
            {(path, line) for path, text in r["executed"].items() for line in lines_of(text)} for r in (old, new)
        )
        lines += len(was)
        other += len(was ^ now)
        for path in sorted({path for path, _ in was ^ now}):
            shown = [sorted(line for p, line in part if p == path) for part in (was - now, now - was)]
            print(f"lines    {path} only known {shown[0][:20]} only new {shown[1][:20]} [{new['id']}]")
        skips = [{(f["path"], f["firstline"], f["name"]) for f in r["skipped_frames"]} for r in (old, new)]
        for frame in sorted(skips[0] ^ skips[1]):
            print(f"skipped  {frame} only {'known' if frame in skips[0] else 'new'} [{new['id']}]")
        for name in ("coverage", "eager_ops", "fullgraph_ok", "graphs", "target"):
            if old.get(name) != new.get(name):
                print(f"{name:8} {old.get(name)} {new.get(name)} [{new['id']}]")
    print(f"{len(compared)} models: {differ} of {sites} sites differ, {other} of {lines} executed lines")
    sys.exit(differ > 0)


def lines_of(ranges: str) -> set[int]:
    """`1,4-6` as {1, 4, 5, 6}."""
    found: set[int] = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(float(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="record models")
    one.add_argument("models", help="a module of the zoo folder, MODULE:LIST, or a file of records")
    one.add_argument("--zoo", type=Path, required=True, help="the folder whose modules build the models")
    one.add_argument("--python", required=True, help="the interpreter with torch and the packages")
    one.add_argument("-o", "--output", type=Path, required=True)
    one.add_argument("--timeout", type=float, default=120.0, help="seconds for a model")
    one.add_argument("--fullgraph", action="store_true", help="try fullgraph=True too")
    one.add_argument("--only", action="append", help="only models whose id contains this text")
    one.add_argument("--again", action="append", help="models whose id contains this text run again")
    one.set_defaults(run=run)
    two = commands.add_parser("agree", help="compare with records of the same models")
    two.add_argument("known", type=Path)
    two.add_argument("records", type=Path)
    two.set_defaults(run=agree)
    three = commands.add_parser("split", help="tell cascades and part the records into halves by package")
    three.add_argument("records", type=Path)
    three.add_argument("--first", type=Path, required=True)
    three.add_argument("--second", type=Path, required=True)
    three.set_defaults(run=split)
    four = commands.add_parser("whole", help="tell cascades and write all records to one file")
    four.add_argument("records", type=Path)
    four.add_argument("-o", "--output", type=Path, required=True)
    four.set_defaults(run=whole)
    for command in (three, four):
        command.add_argument("--also", type=Path, action="append", help="records that say which kinds are no cascades")
        command.add_argument(
            "--drop", action="append", help="a file that is no package's: its lines and sites are left out"
        )
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
