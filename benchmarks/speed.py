"""What static checks cost, each as a whole process, against a bare script that only imports libcst and parses.

    a, b  one file, cold, and again with the cache: one of 1,500 lines made of the fixture models, one of the models in
          which nothing is suspicious, and twenty modeling files of transformers, each by itself
    c     every modeling_*.py of transformers, cold and with the cache, and the memory of all processes together
    d     `pkg.mod::Class` with all it reaches, for fifty models: cold and with the cache, more than the bare script
    e     a file again after an edit, in a process that read it before (a `Session`), against libcst's parse of it there

All of one row run in turn, so that a busy moment hits all. TorchFix, Fixit and ruff read the same files, where they
are found in --peers or on PATH. Exits 1 where a bar is missed.

    python benchmarks/speed.py [a] [c] [d] [e] [--site SITE_PACKAGES] [--records RECORDS.jsonl] [--peers BIN] [--runs 5]
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "models"
LINES = 1500
MODELS = 50
FILES = 20
BARE = "import sys, libcst, click\nfor path in sys.argv[1:]: libcst.parse_module(open(path, 'rb').read())"
PEERS = {
    "torchfix": ("torchfix", "--select", "ALL"),
    "fixit": ("fixit", "--quiet", "lint"),
    "ruff": ("ruff", "check", "--quiet", "--no-cache", "--isolated"),
}
SOME_MODELS = (
    "transformers.models.bert.modeling_bert::BertModel",
    "transformers.models.gpt2.modeling_gpt2::GPT2Model",
    "transformers.models.llama.modeling_llama::LlamaModel",
    "transformers.models.t5.modeling_t5::T5Model",
    "transformers.models.vit.modeling_vit::ViTModel",
    "transformers.models.whisper.modeling_whisper::WhisperModel",
)
BARS = {
    "a": "at most 1.6 times the bare script",
    "b": "at most 0.4 times the bare script",
    "c cold": "at most 0.8 times one process that parses with libcst",
    "c warm": "at most a tenth of that",
    "c memory": "below 600 MB",
    "d cold": "at most 1.0 s more than the bare script",
    "d warm": "at most 0.4 s more than the bare script",
    "e": "at most 1.5 times libcst's parse",
}


class _Suffix(ast.NodeTransformer):
    """Gives the names that a file defines at its top a suffix, so that copies of it can share one module."""

    def __init__(self, names: frozenset[str], suffix: str) -> None:
        self.names = names
        self.suffix = suffix

    def _renamed(self, name: str) -> str:
        return name + self.suffix if name in self.names else name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._renamed(node.id)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._renamed(node.name)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.col_offset == 0:
            node.name = self._renamed(node.name)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> ast.Global:
        node.names = [self._renamed(name) for name in node.names]
        return node


def generated(models: Iterable[Path], lines: int = LINES) -> str:
    """A modeling file of at least `lines` lines: the models one behind the other; always the same."""
    parts: list[str] = []
    for number, path in enumerate(itertools.cycle(models)):
        tree = ast.parse(path.read_text("utf-8"))
        suffix = f"_{number}"
        tops = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        for node in tree.body:
            if isinstance(node, ast.Assign):
                tops |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        parts.append(ast.unparse(_Suffix(frozenset(tops), suffix).visit(tree)))
        if sum(part.count("\n") + 1 for part in parts) >= lines:
            break
    return "\n".join(parts) + "\n"


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float
    memory: float
    """MB, of the process and all below it at once; 0 where /proc does not tell."""


@dataclass(frozen=True)
class Bench:
    """Where processes run, and how."""

    folder: Path
    site: Path
    peers: str | None
    runs: int

    def bare(self, *files: Path) -> Cost:
        return self._run([sys.executable, "-c", BARE, *map(str, files)], (0,))

    def check(self, *targets: str | Path, cold: bool) -> Cost:
        """`tcready check --no-run`, without or with what the cache holds."""
        if cold:
            shutil.rmtree(self.folder / ".tcready_cache", ignore_errors=True)
        command = [sys.executable, "-m", "tcready", "check", "--no-run", "-o", "report.txt"]
        return self._run([*command, *map(str, targets)], (0, 1))

    def peer(self, name: str, *files: Path) -> Cost | None:
        """What another linter takes for the files; None where it is not installed."""
        program, *arguments = PEERS[name]
        found = shutil.which(program, path=self.peers)
        return self._run([found, *arguments, *map(str, files)], None) if found else None

    def _run(self, command: Sequence[str], accepted: tuple[int, ...] | None) -> Cost:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        # Everybody's bytecode is written on a first run and read on the others, wherever it was installed.
        environment["PYTHONPYCACHEPREFIX"] = str(self.folder / "bytecode")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (environment.get("PYTHONPATH"), str(self.site))))
        before, started = os.times(), time.perf_counter()
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            memory, said = 0.0, None
            while said is None:
                try:
                    _, said = process.communicate(timeout=0.05)
                except subprocess.TimeoutExpired:
                    memory = max(memory, _resident(process.pid))
        wall, after = time.perf_counter() - started, os.times()
        if accepted is not None and process.returncode not in accepted:
            sys.exit(f"{' '.join(command)[:200]} failed with {process.returncode}: {said.decode()[-500:]}")
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Cost(wall, cpu, memory)


def _resident(pid: int) -> float:
    """MB held by a process and all below it; 0 where /proc does not tell."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20 + sum(_resident(int(child)) for child in children)


class Verdicts:
    """The bars, met or missed, told as they are measured."""

    def __init__(self) -> None:
        self.missed = 0

    def tell(self, bar: str, measured: str, met: bool) -> None:
        self.missed += not met
        print(f"  {'met   ' if met else 'MISSED'} {bar}: {measured}; {BARS[bar]}\n")


def _median(costs: Iterable[Cost]) -> float:
    return statistics.median(cost.wall for cost in costs)


def _row(label: str, costs: Sequence[Cost], against: Sequence[Cost]) -> float:
    """Prints one row, and gives the ratio of the medians."""
    ratio = _median(costs) / _median(against)
    memory = max(cost.memory for cost in costs)
    print(
        f"  {label:38}{_median(costs):8.2f} s {min(c.wall for c in costs):8.2f} {max(c.wall for c in costs):8.2f}"
        f"{statistics.median(c.cpu for c in costs):9.2f} s{memory:8.0f} MB{ratio:8.2f}"
    )
    return ratio


def _head(title: str) -> None:
    print(f"{title}\n  {'':38}{'median':>8}   {'min':>8} {'max':>8}{'cpu':>9}  {'memory':>8}   {'ratio':>8}")


def _peer_rows(bench: Bench, files: Sequence[Path], against: Sequence[Cost], runs: int) -> None:
    for name in PEERS:
        found = [cost for _ in range(runs) if (cost := bench.peer(name, *files)) is not None]
        if found:
            _row(name, found, against)
        else:
            print(f"  {name:38}not installed")


def modeling_files(site: Path) -> list[Path]:
    return sorted((site / "transformers").rglob("modeling_*.py"))


def some_of(files: Sequence[Path]) -> Sequence[Path]:
    """Some FILES of them, evenly spread."""
    return files[:: max(1, len(files) // FILES)]


def one_file(bench: Bench, verdicts: Verdicts) -> None:
    """Rows a and b."""
    models = [path for path in sorted(FIXTURES.glob("*.py")) if "from parts" not in path.read_text("utf-8")]
    clean = [path for path in models if path.name.startswith("clean_")]
    for title, source in (("full of hazards", models), ("nothing suspicious", clean)):
        path = bench.folder / f"modeling_{title.split()[0]}.py"
        path.write_text(generated(source), encoding="utf-8")
        bench.bare(path)
        bench.check(path.name, cold=True)
        bare, cold, warm = [], [], []
        for _ in range(bench.runs):
            bare.append(bench.bare(path))
            cold.append(bench.check(path.name, cold=True))
            warm.append(bench.check(path.name, cold=False))
        _head(f"one file, {title}: {len(path.read_bytes().splitlines())} lines, {bench.runs} runs each")
        _row("import libcst and click, parse", bare, bare)
        first = _row("tcready, cold", cold, bare)
        again = _row("tcready, warm", warm, bare)
        _peer_rows(bench, [path], bare, bench.runs)
        verdicts.tell("a", f"{first:.2f} times", first <= 1.6)
        verdicts.tell("b", f"{again:.2f} times", again <= 0.4)


def real_files(bench: Bench, verdicts: Verdicts) -> None:
    """Rows a and b, of files as they are found."""
    some = some_of(modeling_files(bench.site))
    if not some:
        print(f"single modeling files: no transformers in {bench.site}: name another with --site\n")
        return
    costs: dict[str, list[Cost]] = {"bare": [], "cold": [], "warm": []}
    for path in some:
        bench.bare(path)
        costs["bare"].append(bench.bare(path))
        costs["cold"].append(bench.check(path, cold=True))
        costs["warm"].append(bench.check(path, cold=False))
    _head(f"modeling files of transformers, each by itself: {len(some)} files, one run each")
    _row("import libcst and click, parse", costs["bare"], costs["bare"])
    for bar, kind, most in (("a", "cold", 1.6), ("b", "warm", 0.4)):
        _row(f"tcready, {kind}", costs[kind], costs["bare"])
        ratios = [one.wall / bare.wall for one, bare in zip(costs[kind], costs["bare"], strict=True)]
        worst = some[ratios.index(max(ratios))].name
        said = f"median {statistics.median(ratios):.2f} times, worst {max(ratios):.2f} ({worst})"
        verdicts.tell(bar, said, statistics.median(ratios) <= most)


def tree(bench: Bench, verdicts: Verdicts) -> None:
    """Row c."""
    files = modeling_files(bench.site)
    if not files:
        print(f"every modeling file: no transformers in {bench.site}: name another with --site\n")
        return
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    bare = [bench.bare(*files)]
    cold = [bench.check(*files, cold=True)]
    warm = [bench.check(*files, cold=False)]
    _head(f"every modeling file of transformers: {len(files)} files, {lines} lines, one run each")
    _row("libcst.parse_module, one process", bare, bare)
    first, again = _row("tcready, cold", cold, bare), _row("tcready, warm", warm, bare)
    _peer_rows(bench, files, bare, 1)
    memory = max(cost.memory for cost in (*cold, *warm))
    verdicts.tell("c cold", f"{first:.2f} times", first <= 0.8)
    verdicts.tell("c warm", f"{again:.2f} times", again <= 0.1)
    verdicts.tell("c memory", f"{memory:.0f} MB", memory < 600)


def classes(bench: Bench, verdicts: Verdicts, records: Sequence[Path]) -> None:
    """Row d."""
    rows = [json.loads(line) for path in records for line in path.read_text("utf-8").splitlines() if line]
    asked = list(dict.fromkeys(row["target"] for row in rows)) or list(SOME_MODELS)
    found = [target for target in asked if _source(bench.site, target).is_file()]
    some = [found[index * len(found) // MODELS] for index in range(MODELS)] if len(found) > MODELS else found
    if not some:
        print(f"classes of installed packages: none of them in {bench.site}: name another with --site\n")
        return
    bench.check(some[0], cold=True)
    bare, cold, warm = [], [], []
    for target in some:
        bare.append(bench.bare(_source(bench.site, target)))
        cold.append(bench.check(target, cold=True))
        warm.append(bench.check(target, cold=False))
    _head(f"classes of installed packages, with all they reach: {len(some)} models, one run each")
    _row("import libcst and click, parse its file", bare, bare)
    _row("tcready, cold", cold, bare)
    _row("tcready, warm", warm, bare)
    for bar, costs, most in (("d cold", cold, 1.0), ("d warm", warm, 0.4)):
        more = [cost.wall - least.wall for cost, least in zip(costs, bare, strict=True)]
        worst = some[more.index(max(more))]
        said = f"median {statistics.median(more):.2f} s more, worst {max(more):.2f} s ({worst})"
        verdicts.tell(bar, said, statistics.median(more) <= most)


def again(bench: Bench, verdicts: Verdicts) -> None:
    """Row e. CPU time of this process, so that a busy machine does not show."""
    import libcst
    from tcready.pipeline import registry
    from tcready.portable.options import ReadOptions
    from tcready.static.session import Session

    models = [path for path in sorted(FIXTURES.glob("*.py")) if "from parts" not in path.read_text("utf-8")]
    files = {"full of hazards": generated(models)}
    for path in some_of(modeling_files(bench.site)):
        files[path.name] = path.read_text("utf-8")
    root = bench.folder / "again"
    root.mkdir()
    session = Session(ReadOptions(root=root, search_path=(root,)), registry.rule_set())
    print("a file again after an edit, in one process: CPU seconds, the least of three\n")
    ratios = {}
    for name, text in files.items():
        path = root / "model.py"
        path.write_text(text, encoding="utf-8")
        session.check([path.name])

        def edit(number: int, text: str = text, path: Path = path) -> None:
            session.check([path.name], {path: f"{text}\n_EDITED = {number}\n"})

        def parse(_number: int, text: str = text) -> None:
            libcst.parse_module(text.encode())

        bare, relint = min(map(_timed(parse), range(3))), min(map(_timed(edit), range(3)))
        ratios[name] = relint / bare
        print(f"  {name:48}{text.count(chr(10)):7} lines{bare:8.2f} s{relint:8.2f} s{relint / bare:8.2f}")
    worst = max(ratios, key=lambda name: ratios[name])
    median = statistics.median(ratios.values())
    said = f"median {median:.2f} times, worst {ratios[worst]:.2f} ({worst})"
    verdicts.tell("e", said, median <= 1.5)


def _timed(work: Callable[[int], None]) -> Callable[[int], float]:
    def timed(number: int) -> float:
        started = time.process_time()
        work(number)
        return time.process_time() - started

    return timed


def _source(site: Path, target: str) -> Path:
    """The file of `pkg.mod::Class`."""
    path = site.joinpath(*target.partition("::")[0].split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a (with b), c, d, e; all by default")
    parser.add_argument("--site", type=Path, default=Path(sysconfig.get_path("purelib")))
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="JSON lines, each with a `target`")
    parser.add_argument("--peers", help="the bin folder in which other linters are looked for")
    parser.add_argument("--runs", type=int, default=5, help="of each process of a and b (default 5)")
    options = parser.parse_args()
    if not set(options.rows) <= {"a", "b", "c", "d", "e"}:
        parser.error("the rows are a, b, c, d and e")
    rows = set(options.rows) or {"a", "c", "d", "e"}
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), options.site.resolve(), options.peers, options.runs)
        if rows & {"a", "b"}:
            one_file(bench, verdicts)
            real_files(bench, verdicts)
        if "c" in rows:
            tree(bench, verdicts)
        if "d" in rows:
            classes(bench, verdicts, options.records)
        if "e" in rows:
            again(bench, verdicts)
    return 1 if verdicts.missed else 0


if __name__ == "__main__":
    sys.exit(main())
