"""Compares what the static pass finds before and after a change that must change nothing.

    python benchmarks/oracle.py dump before.jsonl
    python benchmarks/oracle.py dump after.jsonl
    python benchmarks/oracle.py diff before.jsonl after.jsonl

`dump` reads every fixture, tricky file, construct and sample of a rule; the models of `fixtures/accuracy/` whose package
is installed; and each installed file that names torch and defines a `forward`, all of them alone and one in `FOLLOWED`
with everything that it imports too. `dump OUT PATH ...` reads these files and folders instead. `--site` names another
site-packages; by default those of this interpreter are read.

The dump has one line of JSON for each input: its hash, its package and version, and in a stable order

- `verdict`: for each class the most confident break that is predicted, and `module`: which of its modules break, and
  which members could not be followed;
- `finding`, and `hidden` for what a comment hides: every field of the schema that is set, with the suggested edits;
- `fact`: what rules are asked about, once for each distinct question, with the conditions of the first place that asks;
- `reached`: the functions that are compiled; `statistics`, `skipped`, `warning`, `unused`.

The same code gives the same bytes, whatever PYTHONHASHSEED and `--jobs` are. An input that takes more than `--seconds` of
CPU time, or on which the pass raises or dies, has an `error` instead.

`diff` compares inputs with the same name, text and version of their package. It exits with 1 if anything differs, with 2
if nothing could be compared. `--ignore message --ignore evidence` ignores fields, here those that are prose. `--rename
OLD=NEW` takes two words for the same, for a change that renames a fact or a field.

Models of the `kept` halves of the records are left out: nobody may look at them.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import functools
import gc
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import resource
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures"
FOLLOWED = 8
"""One installed file in that many is also read with everything that it imports, which takes twenty times as long."""
TASKS = 100
"""A worker reads that many inputs before another replaces it, so that memory stays low."""
LONGEST = 300
"""Characters of a value in a dump; a longer one ends in a hash of all of it."""
NUMBERED = ("ident", "closure")
"""Fields of values that number what the interpreter makes."""
KINDS = ("error", "verdict", "module", "finding", "hidden", "skipped", "warning", "unused", "statistics")
"""The kinds of items that a diff shows first, in this order."""

Item = tuple[str, str, dict[str, str]]
"""What was found: its kind, what and where it is, and its fields."""


@dataclass(frozen=True)
class Task:
    """One input: a file, or a name in a package."""

    name: str
    """How the dump and the diff call it."""
    target: str
    sha256: str
    root: str
    """The folder that paths are relative to."""
    sites: tuple[str, ...]
    package: str = ""
    version: str = ""
    mode: str = "both"
    follow: bool | None = None
    """Whether calls into other packages are followed; None for what a check does."""
    text: str | None = None
    """The source of a sample, which has no file."""


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


# the inputs


def list_files(paths: Sequence[Path], root: Path, sites: Sequence[Path]) -> Iterator[Task]:
    """The Python files and notebooks among some files and folders, as the user's own code."""
    folders = tuple(map(str, sites))
    for path in paths:
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in found:
            if file.suffix in (".py", ".ipynb") and file.is_file():
                name = file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)
                yield Task(name, name, hash_bytes(file.read_bytes()), str(root), folders)


def list_samples(sites: Sequence[Path]) -> Iterator[Task]:
    """The samples of the rules, and the measured constructs."""
    from constructs import exported

    for sample in exported():
        text = sample["program"]["text"]
        digest = hash_bytes(text.encode())
        yield Task(f"sample {sample['name']}", "sample.py", digest, "", tuple(map(str, sites)), text=text)


def list_recorded(sites: Sequence[Path]) -> Iterator[Task]:
    """The recorded models whose module is installed, without those that are kept for a blind test."""
    records = [path for path in (FIXTURES / "accuracy").glob("*.jsonl") if "-kept" not in path.name]
    lines = (line for path in records for line in path.read_text("utf-8").splitlines() if line)
    targets = {record["target"] for record in map(json.loads, lines) if "target" in record}
    for target in sorted(targets):
        place = target.partition("::")[0].replace(".", "/")
        for site in sites:
            files = (site / f"{place}.py", site / place / "__init__.py")
            path = next((file for file in files if file.is_file()), None)
            if path is not None:
                package, version = _distribution(site, path)
                digest = hash_bytes(path.read_bytes())
                folders = tuple(map(str, sites))
                yield Task(target, target, digest, str(ROOT), folders, package, version, mode="infer")
                break


def list_installed(sites: Sequence[Path]) -> Iterator[Task]:
    """The installed files that name torch and define a `forward`, by path; first each alone, then some with what they
    import."""
    folders = tuple(map(str, sites))
    found: dict[str, Task] = {}
    for site in sites:
        for path in sorted(site.rglob("*.py")):
            name = path.relative_to(site).as_posix()
            if name in found or not path.is_file():
                continue
            data = path.read_bytes()
            if b"torch" in data and b"def forward(" in data:
                package, version = _distribution(site, path)
                found[name] = Task(name, name, hash_bytes(data), str(site), folders, package, version)
    tasks = [found[name] for name in sorted(found)]
    yield from tasks
    for task in tasks[::FOLLOWED]:
        yield dataclasses.replace(task, name=f"{task.name} with its imports", mode="infer", follow=True)


def _distribution(site: Path, path: Path) -> tuple[str, str]:
    """The name and version of the distribution that installed a file; the folder and no version if none says so."""
    top = path.relative_to(site).parts[0].removesuffix(".py")
    return _distributions(site).get(top, (top, ""))


@functools.cache
def _distributions(site: Path) -> dict[str, tuple[str, str]]:
    """By top-level name what is installed in a folder, with its version."""
    found: dict[str, tuple[str, str]] = {}
    for installed in importlib.metadata.distributions(path=[str(site)]):
        files = (installed.read_text("RECORD") or "").splitlines()
        tops = {file.partition("/")[0].partition(".py,")[0] for file in files if ".py," in file}
        found |= dict.fromkeys(tops, (installed.metadata["Name"], installed.version))
    return found


def list_all(sites: Sequence[Path]) -> Iterator[Task]:
    """Every input, in the order of the dump."""
    sections = "fixtures/constructs/"  # their blocks are samples
    yield from (t for t in list_files([FIXTURES], ROOT, sites) if not t.name.startswith(sections))
    yield from list_samples(sites)
    yield from list_recorded(sites)
    yield from list_installed(sites)


def default_sites() -> list[Path]:
    """The folders of this interpreter in which packages are installed."""
    found = (Path(entry).resolve() for entry in sys.path if entry)
    return [path for path in dict.fromkeys(found) if path.name in ("site-packages", "dist-packages")]


# what is found in one


class Describer:
    """Facts as text: without numbers that only one interpretation has, and without absolute paths."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._paths: dict[str, str] = {}
        self._texts: dict[int, tuple[object, str]] = {}

    def describe(self, fact: Any) -> Item:
        """The item of a fact."""
        place = f"{self._show(fact.where.path)}:{fact.node.lineno}:{fact.node.col_offset + 1}"
        fields = self._fields(fact.where, ("path", "context")) | self._fields(fact, ("where", "node"))
        return "fact", f"{type(fact).__name__} {place}", fields

    def _fields(self, value: Any, without: Sequence[str]) -> dict[str, str]:
        return {
            field.name: _shorten(self._text(inner))
            for field in dataclasses.fields(value)
            if field.init and field.name not in without
            if (inner := getattr(value, field.name)) is not field.default and inner != ()
        }

    def _text(self, value: Any) -> str:
        """A value as text; the same object has the same text."""
        known = self._texts.get(id(value))
        if known is None:
            known = self._texts[id(value)] = value, self._make_text(value)
        return known[1]

    def _make_text(self, value: Any) -> str:
        if isinstance(value, ast.AST):
            return f"{type(value).__name__}@{getattr(value, 'lineno', 0)}:{getattr(value, 'col_offset', -1) + 1}"
        if isinstance(value, type):
            return value.__name__
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, (set, frozenset)):
            return f"{{{', '.join(sorted(map(self._text, value)))}}}"
        if not dataclasses.is_dataclass(value):
            return repr(value)
        name = getattr(value, "symbol", None) or getattr(value, "name", None)
        if hasattr(value, "module") or hasattr(value, "source"):  # a class, function or module that was read
            return f"{type(value).__name__} {name}"
        fields = self._fields(value, NUMBERED)
        return f"{type(value).__name__}({', '.join(f'{key}={text}' for key, text in fields.items())})"

    def _show(self, path: str) -> str:
        from tcready.schema.display_paths import display_path

        if path not in self._paths:
            self._paths[path] = display_path(path, self._root)
        return self._paths[path]


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... {hash_bytes(text.encode())}"


def find_items(task: Task, root: str) -> list[Item]:
    """What the static pass finds in one input."""
    from tcready.pipeline.registry import rule_set
    from tcready.portable.options import ReadOptions
    from tcready.static.diagnostics.rule import Rule
    from tcready.static.domain.facts import Fact
    from tcready.static.driver import read

    describer = Describer(root)
    facts: list[Item] = []

    def check(fact: Any) -> None:
        facts.append(describer.describe(fact))

    kinds = typing.get_args(Fact)
    observer = Rule("TST001", kinds, check, "facts", "slow", "note")
    rules = rule_set()
    known = rules.load()
    standard = Path(sysconfig.get_path("stdlib"))
    options = ReadOptions(
        root=Path(root),
        mode=task.mode,
        low=True,
        search_path=(standard, *map(Path, task.sites)),
        third_party=task.follow,
    )
    with_observer = dataclasses.replace(rules, load=lambda: (*known, observer))
    result = read([task.target], options, with_observer).result
    return [*_items_of(result), *facts]


def _items_of(result: Any) -> Iterator[Item]:
    """Findings, verdicts and the rest of a StaticResult."""
    from tcready.schema.codec import as_json
    from tcready.schema.enums import BREAKING

    for kind, found in (("finding", result.findings), ("hidden", result.hidden)):
        for finding in found:
            head = f"{finding.rule} {finding.path}:{finding.line}:{finding.column}"
            yield kind, head, _texts(as_json(finding), ("rule", "path", "line", "column"))
    breaks = {f.fingerprint: f for f in result.findings if f.effect in BREAKING}
    for target in result.targets:
        inside = {mark: breaks[mark] for module in target.modules for mark in module.breaks if mark in breaks}
        sure = {finding.confidence for finding in inside.values()}
        words = next((f"breaks ({each})" for each in ("high", "medium", "low") if each in sure), "no break")
        fields = {
            "verdict": words if target.is_read else "not read",
            "places": " ".join(sorted({_place(finding) for finding in inside.values()})),
            "modules": str(len(target.modules)),
        }
        yield "verdict", target.target, fields
        for module in target.modules:
            if module.breaks or module.unknown:
                shown = [_place(breaks[mark]) if mark in breaks else mark for mark in module.breaks]
                fields = _texts(as_json(module) | {"breaks": sorted(shown)}, ("name",))
                yield "module", f"{target.target} {module.name or '(root)'}", fields
    statistics = as_json(result.statistics)
    for symbol in statistics.pop("reached"):
        yield "reached", symbol, {}
    yield "statistics", "calls and functions", _texts(statistics, ())
    for skipped in result.skipped:
        yield "skipped", skipped.path, {"reason": skipped.reason}
    for warning in result.warnings:
        yield "warning", warning, {}
    for noqa in result.unused:
        yield "unused", f"{noqa.path}:{noqa.line} {noqa.code}", {}


def _place(finding: Any) -> str:
    return f"{finding.rule}@{finding.path}:{finding.line}"


def _texts(fields: Mapping[str, Any], without: Sequence[str]) -> dict[str, str]:
    """The fields that are set, as text."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in _drop_empty(fields).items()
        if name not in without
    }


def _drop_empty(value: Any) -> Any:
    """A JSON value without the keys that hold nothing."""
    if isinstance(value, list):
        return [_drop_empty(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    kept = {name: _drop_empty(each) for name, each in value.items()}
    return {name: each for name, each in kept.items() if each not in (None, "", [], {})}


def in_order(items: Sequence[Item]) -> list[Item]:
    """Distinct items by kind and place; numbers in places count as numbers."""
    distinct = {json.dumps(item, ensure_ascii=False): item for item in items}

    def key(text: str) -> tuple[Any, ...]:
        kind, head, _ = distinct[text]
        shown_first = KINDS.index(kind) if kind in KINDS else len(KINDS)
        parts = re.split(r"(\d+)", head.partition(" ")[2] or head)
        return shown_first, kind, [int(p) if p.isdecimal() else p for p in parts], text

    return [distinct[text] for text in sorted(distinct, key=key)]


# the processes that read


def work(seconds: int) -> None:
    """Reads the tasks that come as lines of JSON, and prints the items of each."""
    from tcready.pipeline.registry import load_rules

    load_rules()
    gc.freeze()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    for line in sys.stdin:
        task = Task(**json.loads(line))
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + 1 + seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        try:
            answer: dict[str, Any] = {"items": in_order(_find_in_place(task))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        used_then = resource.getrusage(resource.RUSAGE_SELF)
        answer["seconds"] = used_then.ru_utime + used_then.ru_stime - used.ru_utime - used.ru_stime
        print(json.dumps(answer, ensure_ascii=False), file=answers, flush=True)
        gc.collect()


def _find_in_place(task: Task) -> list[Item]:
    """The items of a task; a sample is written to a file for it."""
    if task.text is None:
        return find_items(task, task.root)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, task.target).write_text(task.text, encoding="utf-8")
        return find_items(task, folder)


class Worker:
    """A process that reads; another replaces it if it dies, and after some inputs."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._done = 0

    def read(self, task: Task) -> dict[str, Any]:
        """What was found, or an `error`, and the CPU `seconds` that it took."""
        if self._process is None or self._done >= TASKS:
            self.stop()
            command = [sys.executable, __file__, "work", "--seconds", str(self._seconds)]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8")
            self._done = 0
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        self._done += 1
        process.stdin.write(json.dumps(dataclasses.asdict(task)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        status = process.wait()
        self._process = None
        if status == -signal.SIGXCPU:
            words = f"takes more than {self._seconds} s of CPU time"
            return {"error": words, "seconds": float(self._seconds)}
        return {"error": f"the process ended with {status}", "seconds": 0.0}

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


# dump


def dump(tasks: Sequence[Task], out: Path, jobs: int, seconds: int) -> None:
    """Writes what is found in each input, in their order, and prints a summary to stderr."""
    began = time.monotonic()
    kinds: Counter[str] = Counter()
    slow: list[tuple[float, str]] = []
    errors: list[str] = []
    workers: list[Worker] = []
    mine = threading.local()

    def read(task: Task) -> dict[str, Any]:
        if not hasattr(mine, "worker"):
            mine.worker = Worker(seconds)
            workers.append(mine.worker)
        worker: Worker = mine.worker
        return worker.read(task)

    try:
        with ThreadPoolExecutor(jobs) as pool, out.open("w", encoding="utf-8") as file:
            header = {"python": platform.python_version(), "inputs": len(tasks)}
            file.write(json.dumps(header) + "\n")
            for number, (task, answer) in enumerate(zip(tasks, pool.map(read, tasks), strict=True), 1):
                slow.append((answer.pop("seconds"), task.name))
                kinds.update(item[0] for item in answer.get("items", ()))
                if "error" in answer:
                    errors.append(f"{task.name}: {answer['error']}")
                about = {"name": task.name, "sha256": task.sha256}
                about |= {"package": task.package, "version": task.version} if task.package else {}
                file.write(json.dumps(about | answer, ensure_ascii=False) + "\n")
                if number % 200 == 0:
                    print(f"{number} of {len(tasks)}, {time.monotonic() - began:.0f} s", file=sys.stderr)
    finally:
        for worker in workers:
            worker.stop()
    took, cpu = time.monotonic() - began, sum(each for each, _ in slow)
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"{len(tasks)} inputs in {took:.0f} s ({cpu:.0f} s of CPU time): {counts}", file=sys.stderr)
    slowest = ", ".join(f"{name} {each:.1f} s" for each, name in sorted(slow, reverse=True)[:5])
    print(f"slowest: {slowest}", file=sys.stderr)
    for error in errors:
        print(f"no result for {error}", file=sys.stderr)


# diff


@dataclass(frozen=True)
class Comparison:
    """What two dumps have in common, and what not."""

    compared: int
    lines: dict[str, list[str]]
    """By the name of an input that differs, what went and what came."""
    changed: Counter[str]
    """How many items of each kind differ."""
    left_out: dict[str, list[str]]
    """Inputs that were not compared, by the reason."""


def load(path: Path, renamed: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header of a dump, and its inputs by name."""
    text = path.read_text("utf-8")
    for old, new in renamed.items():
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    header, *inputs = map(json.loads, text.splitlines())
    return header, {each["name"]: each for each in inputs}


def compare(one: Mapping[str, Any], two: Mapping[str, Any], ignored: Sequence[str]) -> Comparison:
    """Compares the inputs of two dumps that have the same name, text and version."""
    lines: dict[str, list[str]] = {}
    changed: Counter[str] = Counter()
    left_out: dict[str, list[str]] = {}
    compared = 0
    for name in dict.fromkeys((*one, *two)):
        before, after = one.get(name), two.get(name)
        if before is None or after is None:
            left_out.setdefault("only in the first" if after is None else "only in the second", []).append(name)
        elif before["sha256"] != after["sha256"]:
            left_out.setdefault("another text", []).append(name)
        elif before.get("version") != after.get("version"):
            left_out.setdefault("another version of its package", []).append(name)
        else:
            compared += 1
            if found := list(_differences(_items(before, ignored), _items(after, ignored), changed)):
                lines[name] = found
    return Comparison(compared, lines, changed, left_out)


def _items(read: Mapping[str, Any], ignored: Sequence[str]) -> dict[tuple[str, str], list[dict[str, str]]]:
    """By kind and head the fields of what was found, without those that are ignored."""
    found: dict[tuple[str, str], list[dict[str, str]]] = {}
    error: list[Item] = [("error", read["error"], {})] if "error" in read else []
    for kind, head, fields in (*error, *read.get("items", ())):
        kept = {name: text for name, text in fields.items() if name not in ignored}
        found.setdefault((kind, head), []).append(kept)
    return found


def _differences(
    before: Mapping[tuple[str, str], list[dict[str, str]]],
    after: Mapping[tuple[str, str], list[dict[str, str]]],
    changed: Counter[str],
) -> Iterator[str]:
    """One line for each item that went (`-`), came (`+`) or has other fields (`~`); counted by kind."""
    places = dict.fromkeys((*before, *after))
    for kind, head in sorted(places, key=lambda at: KINDS.index(at[0]) if at[0] in KINDS else len(KINDS)):
        old, new = before.get((kind, head), []), after.get((kind, head), [])
        went, came = [each for each in old if each not in new], [each for each in new if each not in old]
        changed[kind] += max(len(went), len(came))
        if len(went) == len(came) == 1:
            names = [name for name in {**went[0], **came[0]} if went[0].get(name) != came[0].get(name)]
            parts = (f"{name}: {went[0].get(name, '(none)')} -> {came[0].get(name, '(none)')}" for name in names)
            yield f"~ {kind} {head}  {'; '.join(parts)}"
            continue
        for sign, items in (("-", went), ("+", came)):
            for fields in items:
                yield f"{sign} {kind} {head}  {'; '.join(f'{n}: {t}' for n, t in fields.items())}".rstrip()


def print_comparison(found: Comparison, most: int) -> None:
    """Prints what differs input by input, then the totals."""
    for name, lines in found.lines.items():
        print(name)
        for line in lines[:most]:
            print(f"  {line}")
        if len(lines) > most:
            print(f"  ... {len(lines) - most} more")
    for reason, names in found.left_out.items():
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        print(f"not compared, {reason}: {len(names)} ({shown})")
    counts = ", ".join(f"{count} {kind}" for kind, count in found.changed.items() if count)
    print(f"{found.compared} inputs compared, {len(found.lines)} differ{f': {counts}' if counts else ''}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    dumping = commands.add_parser("dump", help="write what the static pass finds")
    dumping.add_argument("out", type=Path)
    dumping.add_argument("paths", nargs="*", type=Path, help="files and folders to read instead of everything")
    dumping.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    dumping.add_argument("--seconds", type=int, default=60, help="CPU time for one input")
    dumping.add_argument("--site", action="append", type=Path, help="a site-packages folder to read")
    comparing = commands.add_parser("diff", help="compare two dumps")
    comparing.add_argument("one", type=Path)
    comparing.add_argument("two", type=Path)
    comparing.add_argument("--ignore", action="append", default=[], metavar="FIELD")
    comparing.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    comparing.add_argument("--lines", type=int, default=20, help="lines to print for one input")
    working = commands.add_parser("work")
    working.add_argument("--seconds", type=int, required=True)
    args = parser.parse_args(arguments)
    if args.command == "work":
        work(args.seconds)
    elif args.command == "dump":
        sites = [site.resolve() for site in args.site or default_sites()]
        paths = [path.resolve() for path in args.paths]
        tasks = list(list_files(paths, Path.cwd(), sites) if paths else list_all(sites))
        dump(tasks, args.out, args.jobs, args.seconds)
    else:
        renamed = dict(each.split("=", 1) for each in args.rename)
        (header, one), (other, two) = (load(path, renamed) for path in (args.one, args.two))
        if header["python"] != other["python"]:
            print(f"Python {header['python']} made the first, {other['python']} the second")
        found = compare(one, two, args.ignore)
        print_comparison(found, args.lines)
        raise SystemExit(1 if found.lines else 0 if found.compared else 2)


if __name__ == "__main__":
    main()
