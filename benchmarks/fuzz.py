"""Lints programs that nobody wrote, and every file of installed packages: none may raise, hang, or differ.

    python benchmarks/fuzz.py --out FOLDER --generated 20000 [--seed 0]
    python benchmarks/fuzz.py --out FOLDER --installed SITE_PACKAGES [SITE_PACKAGES ...]

`--generated N` makes N distinct programs with hypothesmith (three in four of the grammar, the others of libcst's node
types) and lints of each: the program as it is; a `forward` made of its statements; a fixture with them spliced in;
a file with some bytes damaged; and one program of the small grammar of tests/static/programs.py. Every `--every`th
time two of its nn.Module classes and two of its functions are also targets of their own. `--installed` lints each .py
file as a file; of every `--every`th one classes and functions too, with all the packages that they reach. A file
that stood with the same contents under the same name in an earlier SITE is not read again. Any folder is a SITE: so
are failures tried again.

A failure is an exception, more than --limit seconds of CPU time, a process that dies, a result that cannot be
(`wrong_with`), and, for every `--twice`th program, another result under another PYTHONHASHSEED. Each is saved below
FOLDER/failures with its traceback. What is done is in FOLDER/done.jsonl, and is not done again by a later run with the
same FOLDER; failures are. Exits 1 where there are failures. A worker process does the linting, so that a hang and a
crash are only that file's.
"""

from __future__ import annotations

import argparse
import ast
import faulthandler
import gc
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path[:0] = [str(TESTS / "helpers"), str(TESTS / "static")]

BATCH = 100
"""Programs that hypothesmith makes with one seed."""
NODES = 4
"""One batch in that many is of node types."""
PATIENCE = 4
"""A worker that answers nothing for that many times the limit, on the clock, hangs."""
MEMORY = 6 << 30
"""Bytes a worker may map."""
TASKS = 400
"""A worker lints that many files, then another takes over: so that its peak of memory says something."""
MANY = 200
"""A run ends after that many failures: something common to all is broken."""
SLOW = 5.0
NAMES = 2
"""So many classes of a file, and so many functions, become targets of their own."""


@dataclass(frozen=True)
class Task:
    """One file to lint, and in how many ways."""

    key: str
    path: str
    root: str
    site: str
    named: bool
    """Lint its classes as targets of their own too."""
    twice: bool
    """Ask a worker with another hash seed too."""


@dataclass
class Outcome:
    """What linting one target of a file came to."""

    target: str
    """As it is linted; what was made up is called by the key of its task."""
    seconds: float = 0.0
    peak: int = 0
    """Bytes the worker has held at most so far."""
    findings: int = 0
    targets: int = 0
    skipped: str | None = None
    refused: str | None = None
    """The TcreadyError of a name that is no target."""
    warnings: tuple[str, ...] = ()
    digest: str = ""
    wrong: str | None = None
    """What is wrong with it: a traceback, or words."""


# the worker


def work(trace: TextIO, limit: float) -> None:
    """Lints the tasks that come as lines of JSON; tells of each target before and after."""
    from tcready import rules

    loaded = rules.load()
    gc.collect()
    gc.freeze()  # what is loaded stays; only what a task leaves is looked through behind it
    faulthandler.enable(file=trace)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        task = Task(**json.loads(line))
        for outcome in _outcomes(task, loaded, trace, limit):
            print(json.dumps(asdict(outcome)), flush=True)
        print(json.dumps(None), flush=True)
        gc.collect()


def _outcomes(task: Task, rules: Any, trace: TextIO, limit: float) -> Iterator[Outcome]:
    """Of the file, and of its classes where they are asked for."""
    first, names = _linted(task, task.path, rules, trace, limit)
    yield first
    if not task.named or first.wrong or first.skipped:
        return
    module = Path(task.path).relative_to(task.site).with_suffix("").parts
    dotted = all(part.isidentifier() for part in module) and module[-1] != "__init__"
    place = ".".join(module) if dotted else task.path
    targets = [f"{place}::{name}" for name in names[:NAMES]]
    targets += [f"{task.path}::{name}" for name in _functions(Path(task.path).read_bytes())[:NAMES]]
    for target in dict.fromkeys(targets):
        yield _linted(task, target, rules, trace, limit)[0]


def _linted(task: Task, target: str, rules: Any, trace: TextIO, limit: float) -> tuple[Outcome, list[str]]:
    """The outcome of one target, and the names of what was interpreted in it."""
    import programs
    from tcready.fixes.rewriting.suggestions import suggest
    from tcready.portable.options import ReadOptions
    from tcready.schema.codec import as_json
    from tcready.schema.display_paths import display_path
    from tcready.schema.enums import TcreadyError
    from tcready.schema.report import Tool
    from tcready.static.driver import RuleSet, read

    outcome = Outcome(target.replace(task.path, task.key, 1))
    names: list[str] = []
    root = Path(task.root)
    options = ReadOptions(root=root, mode=None, low=True, search_path=(Path(task.site),))
    trace.seek(0)
    trace.truncate()
    trace.write(f"{outcome.target}\n")
    trace.flush()
    faulthandler.dump_traceback_later(PATIENCE * limit, exit=True, file=trace)
    started = time.process_time()
    try:
        rule_set = RuleSet(lambda: tuple(rules), lambda: Tool("tcready", "0"), suggest)
        result = read([target], options, rule_set).result
    except TcreadyError as error:
        outcome.refused = str(error)
        if "::" not in target:
            outcome.wrong = f"a file that is there is refused: {error}"
    except Exception:
        outcome.wrong = traceback.format_exc()
    else:
        outcome.findings, outcome.targets = len(result.findings), len(result.targets)
        outcome.warnings = result.warnings
        shown = display_path(task.path, task.root)
        outcome.skipped = next((s.reason for s in result.skipped if s.path == shown), None)
        told = json.dumps(as_json(result))
        outcome.digest = hashlib.sha256(told.encode()).hexdigest()[:16]
        wrong = programs.wrong_with(result, Path(task.path).read_bytes(), shown)
        outcome.wrong = "\n".join(wrong) or None
        names = [found.target.partition("::")[2] for found in result.targets]
    finally:
        faulthandler.cancel_dump_traceback_later()
    outcome.seconds = time.process_time() - started
    outcome.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if outcome.seconds > limit and outcome.wrong is None:
        outcome.wrong = f"took {outcome.seconds:.1f} s of CPU time"
    return outcome, names


def _functions(data: bytes) -> list[str]:
    """The top-level functions, longest first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [node for node in ast.parse(data).body if isinstance(node, ast.FunctionDef)]
    found.sort(key=lambda node: node.lineno - (node.end_lineno or node.lineno))
    return [node.name for node in found]


class Worker:
    """A process that lints under one hash seed; another follows where it dies, and now and then."""

    def __init__(self, folder: Path, hash_seed: int, limit: float) -> None:
        self._trace = folder / f"worker-{hash_seed}.txt"
        self._seed = hash_seed
        self._limit = limit
        self._process: subprocess.Popen[str] | None = None
        self._done = 0

    def ask(self, task: Task) -> list[Outcome]:
        """What came of the task; its last outcome is wrong where the process died of it."""
        if self._process is None or self._done >= TASKS:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._done += 1
        process.stdin.write(json.dumps(asdict(task)) + "\n")
        process.stdin.flush()
        found: list[Outcome] = []
        for line in process.stdout:
            read = json.loads(line)
            if read is None:
                return found
            found.append(Outcome(**read))
        status = process.wait()
        self._process = None
        text = self._trace.read_text(encoding="utf-8", errors="replace")
        target = text.partition("\n")[0]
        words = "no answer" if "Timeout (" in text else f"the process died with status {status}"
        return [*found, Outcome(target, wrong=f"{text}\n{words}")]

    def _start(self) -> None:
        self.stop()
        self._done = 0
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker", str(self._trace), "--limit", str(self._limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(self._seed)},
        )

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


# what is linted


def installed(sites: list[Path], every: int, twice: int) -> Iterator[Task]:
    """Every .py file below the folders."""
    seen: set[tuple[str, bytes]] = set()
    number = 0
    for site in sites:
        for path in sorted(site.rglob("*.py")):
            try:
                contents = hashlib.sha256(path.read_bytes()).digest()
            except OSError:
                contents = b""
            known = (path.relative_to(site).as_posix(), contents)
            if known in seen or path.is_dir():
                continue
            seen.add(known)
            number += 1
            yield Task(str(path), str(path), "/", str(site), named=number % every == 0, twice=number % twice == 0)


def generated(count: int, seed: int, every: int, twice: int, folder: Path, done: dict[str, Any]) -> Iterator[Task]:
    """The programs made of `count` texts; a batch whose last program is done is not made again."""
    import programs

    folder.mkdir(parents=True, exist_ok=True)
    mixer = programs.Mixer(programs.fixture_sources())
    path = folder / "model.py"
    texts: set[str] = set()
    batch = 0
    while len(texts) < count:
        kind = "node" if batch % NODES == NODES - 1 else "grammar"
        made = _kept(folder / f"{kind}-{seed}-{batch}.json", kind, seed * 1_000_000 + batch)
        for number, text in enumerate(made):
            if text in texts or len(texts) == count:
                continue
            texts.add(text)
            unique = (seed * 1_000_000 + batch) * BATCH + number
            near = [made[(number + step) % len(made)] for step in range(4)]
            for way in ("plain", "forward", "spliced", "damaged", "written"):
                key = f"{kind} {seed} {batch} {number} {way}"
                if key in done:
                    continue
                program = _program(programs, mixer, way, near, unique)
                path.write_bytes(program)
                yield Task(
                    key, str(path), str(folder), str(folder), named=unique % every == 0, twice=unique % twice == 0
                )
        batch += 1


def _kept(path: Path, kind: Any, number: int) -> list[str]:
    """The texts of a batch: made once, which takes most of the time."""
    import programs

    if not path.exists():
        path.write_text(json.dumps(programs.hypothesmith_texts(kind, number, BATCH)), encoding="utf-8")
    kept: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def _program(programs: Any, mixer: Any, way: str, near: list[str], number: int) -> bytes:
    if way == "plain":
        text = near[0]
    elif way == "forward":
        text = mixer.forward(near, number)
    elif way == "written":
        text = programs.Writer(number).program()
    else:
        text = mixer.spliced(near[:2], number)
    data: bytes = text.encode()
    return programs.damaged(data, number) if way == "damaged" else data


# a run


def run(tasks: Iterator[Task], folder: Path, limit: float, done: dict[str, Any]) -> None:
    """Lints what is not done, and writes it down."""
    first, second = Worker(folder, 0, limit), Worker(folder, 1, limit)
    shown = time.monotonic()
    number = failures = 0
    with (folder / "done.jsonl").open("a", encoding="utf-8") as log:
        for task in tasks:
            if task.key in done:
                continue
            outcomes = first.ask(task)
            if task.twice and not any(outcome.wrong for outcome in outcomes):
                for one, other in zip(outcomes, second.ask(task), strict=False):
                    if one.digest != other.digest or one.refused != other.refused:
                        one.wrong = other.wrong or "another hash seed gives another result"
            record = {"key": task.key, "outcomes": [asdict(outcome) for outcome in outcomes]}
            log.write(json.dumps(record) + "\n")
            done[task.key] = record
            number += 1
            for outcome in outcomes:
                if outcome.wrong:
                    failures += 1
                    _save(folder / "failures", task, outcome)
            if failures >= MANY:
                break
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                log.flush()
                print(f"{number} files, {failures} failures; at {task.key}", flush=True)
    first.stop()
    second.stop()


def _save(folder: Path, task: Task, outcome: Outcome) -> None:
    """The file as it was linted, and what is wrong."""
    folder.mkdir(exist_ok=True)
    name = hashlib.sha256(f"{task.key} {outcome.target}".encode()).hexdigest()[:12]
    (folder / f"{name}.py").write_bytes(Path(task.path).read_bytes())
    (folder / f"{name}.txt").write_text(
        f"{task.key}\n{outcome.target}\n\n{outcome.wrong}\n", encoding="utf-8", errors="backslashreplace"
    )
    last = (outcome.wrong or "").strip().splitlines()[-1]
    print(f"FAILED {outcome.target}: {last}  -> {folder / name}.txt", flush=True)


def summary(done: dict[str, Any]) -> int:
    """Prints what was found in all runs with this folder; the number of failures."""
    outcomes = [o for record in done.values() for o in record["outcomes"]]
    files = [record["outcomes"][0] for record in done.values()]
    failed = [outcome for outcome in outcomes if outcome["wrong"]]
    print(
        f"{len(files)} files, {len(outcomes) - len(files)} more targets of them; {sum(o['findings'] for o in outcomes)} "
        f"findings; {sum(1 for f in files if f['targets'])} files with something to interpret; "
        f"{sum(o['refused'] is not None for o in outcomes)} names refused; "
        f"{sum(bool(o['warnings']) for o in outcomes)} with a warning; "
        f"{sum(o['seconds'] for o in outcomes):.0f} s of CPU time"
    )
    ways = Counter(key.rpartition(" ")[2] if key[0] != "/" else "installed" for key in done)
    print("  " + ", ".join(f"{way}: {count}" for way, count in sorted(ways.items())))
    reasons = Counter(
        f["skipped"].partition(":")[0].partition(" in line")[0] for f in files if f["skipped"] is not None
    )
    print(f"skipped {sum(reasons.values())}: " + "; ".join(f"{n} {why}" for why, n in reasons.most_common()))
    for outcome in sorted(outcomes, key=lambda o: -o["seconds"])[:10]:
        mark = " SLOW" if outcome["seconds"] > SLOW else ""
        print(f"  {outcome['seconds']:6.2f} s {outcome['target']}{mark}")
    if outcomes:
        most = max(outcomes, key=lambda o: o["peak"])
        print(f"memory at most {most['peak'] / 1e6:.0f} MB, by {most['target']}")
    print(f"failures: {len(failed)}")
    for outcome in failed[:20]:
        print(f"  {outcome['target']}: {outcome['wrong'].strip().splitlines()[-1]}")
    return len(failed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder of its own for this run: programs, results, failures")
    parser.add_argument("--generated", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--installed", nargs="+", type=Path, default=[], metavar="SITE")
    parser.add_argument("--limit", type=float, default=20.0, help="CPU seconds a target may take")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--twice", type=int, default=20)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        with args.worker.open("w+", encoding="utf-8") as trace:
            work(trace, args.limit)
        return
    if args.out is None or not (args.generated or args.installed):
        parser.error("--out, and --generated or --installed")
    folder = args.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {}
    log = folder / "done.jsonl"
    for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
        record = json.loads(line)
        if any(outcome["wrong"] for outcome in record["outcomes"]):
            done.pop(record["key"], None)
        else:
            done[record["key"]] = record
    sites = [site.resolve() for site in args.installed]
    run(installed(sites, args.every, args.twice), folder, args.limit, done)
    if args.generated:
        programs_in = folder / "programs"
        tasks = generated(args.generated, args.seed, args.every, args.twice, programs_in, done)
        run(tasks, folder, args.limit, done)
    raise SystemExit(1 if summary(done) else 0)


if __name__ == "__main__":
    main()
