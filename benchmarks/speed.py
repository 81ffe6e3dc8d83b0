"""What a cold static check costs: `tcready check FILE --no-run` against importing libcst and parsing FILE.

Both are whole processes, run in turn so that a busy moment hits both. Prints the medians and their ratio;
exits 1 where the ratio is above the target.

    python benchmarks/speed.py                    a 1,500-line file made from the fixture models
    python benchmarks/speed.py --source bert      transformers' modeling_bert.py, where that is installed
    python benchmarks/speed.py --source FILE      any file
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = 2.5
"""The check may cost this many times the bare parse."""
LINES = 1500
MODELS = Path(__file__).resolve().parent.parent / "fixtures" / "models"
BARE = "import sys, libcst; libcst.parse_module(open(sys.argv[1], 'rb').read())"


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


def generated(lines: int) -> str:
    """A modeling file of at least `lines` lines: the fixture models one behind the other; always the same."""
    files = [path for path in sorted(MODELS.glob("*.py")) if "from parts" not in path.read_text("utf-8")]
    parts: list[str] = []
    for number, path in enumerate(itertools.cycle(files)):
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


def _source(name: str, folder: Path) -> Path:
    if name == "generated":
        path = folder / "modeling_generated.py"
        path.write_text(generated(LINES), encoding="utf-8")
        return path
    if name == "bert":
        found = importlib.util.find_spec("transformers")
        if found is None or found.origin is None:
            sys.exit("transformers is not installed: use --source generated, or name a file")
        return Path(found.origin).parent / "models" / "bert" / "modeling_bert.py"
    return Path(name)


def _seconds(command: list[str], accepted: tuple[int, ...]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode not in accepted:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}: {done.stderr.strip()}")
    return taken


def main() -> int:
    parser = argparse.ArgumentParser(description="Cold static check against a bare libcst parse.")
    parser.add_argument("--source", default="generated", help="generated, bert, or a file")
    parser.add_argument("--runs", type=int, default=7, help="of each, in turn (default 7)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = _source(options.source, Path(folder))
        bare = [sys.executable, "-c", BARE, str(path)]
        check = [sys.executable, "-m", "tcready", "check", str(path), "--no-run"]
        # Once each beforehand: what is measured is the check, not the writing of bytecode.
        _seconds(bare, (0,))
        _seconds(check, (0, 1))
        bares, checks = [], []
        for _ in range(options.runs):
            bares.append(_seconds(bare, (0,)))
            checks.append(_seconds(check, (0, 1)))
        lines = len(path.read_bytes().splitlines())
    ratio = statistics.median(checks) / statistics.median(bares)
    print(f"{path.name}: {lines} lines, {options.runs} runs each, whole processes, seconds")
    print(f"{'':28}{'median':>9}{'min':>9}{'max':>9}")
    for label, times in (("import libcst and parse", bares), ("tcready check --no-run", checks)):
        print(f"{label:28}{statistics.median(times):9.3f}{min(times):9.3f}{max(times):9.3f}")
    print(f"ratio of medians {ratio:.2f}, target at most {TARGET}: {'met' if ratio <= TARGET else 'missed'}")
    return 0 if ratio <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
