"""Do changes that `tcready fix --verify` proves ever change what code does? Functions are generated, and judged anew.

Each file holds some generated functions that a model calls: branches, masks, in-place work, divisions, dtypes.
`fix --verify` changes them; then every changed function is held against what it was, on inputs of fresh seeds, by a
judge of its own that shares no code with the worker: values, dtypes, shapes, gradients, arguments changed in place,
exceptions, what is printed, logged and warned of.

    python benchmarks/generated_fixes.py --count 200 [--in-file 20] [--seed 0] [--folder DIR] [--device cuda]

Printed are functions, those at which Dynamo breaks, those that were changed, and those that were changed wrongly, with
their source. Exit 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import random
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tcready import api

HEAD = "import logging\nimport warnings\n\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


class Writer:
    """Writes one function `f(x, y, m, k)`: two float tensors, a mask and integers, each 4 by 8."""

    def __init__(self, draw: random.Random, name: str) -> None:
        self.draw = draw
        self.name = name
        self.names = ["x", "y"]
        self.lines: list[str] = []

    def function(self) -> str:
        for _ in range(self.draw.randint(0, 2)):
            self.assign(1)
        for _ in range(self.draw.randint(1, 2)):
            self.draw.choice(
                [
                    self.branch,
                    self.branch,
                    self.choice,
                    self.early,
                    self.masked,
                    self.number,
                    self.check,
                    self.reduced,
                    self.shown,
                ]
            )()
        if self.draw.random() < 0.4:
            self.assign(1)
        self.lines.append(f"    return {self.value()}")
        return f"def {self.name}(x, y, m, k):\n" + "\n".join(self.lines) + "\n"

    def value(self, depth: int = 0) -> str:
        """An expression of float tensors of one shape."""
        one = self.draw.choice(self.names)
        kind = self.draw.randint(0, 9)
        if depth > 1 or kind < 3:
            return one
        inner = self.value(depth + 1)
        forms = [
            f"({one} + {inner})",
            f"({one} * {self.constant()})",
            f"({one} - {inner})",
            f"({one} / {inner})",
            f"torch.sqrt({inner})",
            f"torch.log({inner})",
            f"{inner}.abs()",
            f"torch.exp({inner})",
            f"torch.where(m, {one}, {inner})",
            f"({one} * m)",
            f"({one} + k)",
            f"{inner}.clamp(min={self.constant()})",
            f"F.relu({inner})",
            f"{inner}.half().float()",
            f"({one}).double()",
        ]
        return self.draw.choice(forms)

    def constant(self) -> str:
        return self.draw.choice(["0", "1", "2", "0.5", "-1.5", "100"])

    def test(self) -> str:
        one = self.draw.choice(self.names)
        forms = [
            f"{one}.sum() > {self.constant()}",
            f"({one} > {self.constant()}).any()",
            f"({one} != 0).all()",
            "m.any()",
            "not m.all()",
            f"{one}.mean() > 0 and m.any()",
            f"m.all() or {one}.max() > {self.constant()}",
            f"0 < {one}.mean() < 1",
            f"torch.isnan({one}).any()",
            "k.sum() > 10",
            "(k == 0).any()",
            f"{one}.sum()",
            f"{one}.norm() > {self.constant()}",
        ]
        return self.draw.choice(forms)

    def assign(self, depth: int) -> None:
        margin = "    " * depth
        name = self.draw.choice([*self.names, "t"]) if self.draw.random() < 0.7 else self.draw.choice(self.names)
        self.lines.append(f"{margin}{name} = {self.value()}")
        if depth == 1 and name not in self.names:
            self.names.append(name)

    def body(self, depth: int) -> None:
        margin = "    " * depth
        for _ in range(self.draw.randint(1, 2)):
            name = self.draw.choice(self.names)
            self.lines.append(
                margin
                + self.draw.choice(
                    [
                        f"{name} = {self.value()}",
                        f"{name} = {self.value()}",
                        f"{name} += {self.value()}",
                        f"{name} *= {self.constant()}",
                        f"{name} = {name}.masked_fill(m, {self.constant()})",
                    ]
                )
            )

    def branch(self) -> None:
        self.lines.append(f"    if {self.test()}:")
        self.body(2)
        if self.draw.random() < 0.4:
            self.lines.append("    else:")
            self.body(2)

    def choice(self) -> None:
        one, other = self.draw.choice([(self.value(), self.value()), (self.constant(), self.constant())])
        self.lines.append(f"    x = x * ({one} if {self.test()} else {other})")

    def early(self) -> None:
        self.lines += [f"    if {self.test()}:", f"        return {self.value()}"]

    def masked(self) -> None:
        name = self.draw.choice(self.names)
        copied = f"    {name} = {name}.clone()" if self.draw.random() < 0.7 else None
        mask = self.draw.choice(["m", f"{name} > {self.constant()}", "k == 1"])
        self.lines += [*([copied] if copied else []), f"    {name}[{mask}] = {self.constant()}"]

    def number(self) -> None:
        name = self.draw.choice(self.names)
        form = self.draw.choice(["{}.max().item()", "float({}.sum())", "int(k.max())", "{}.mean().item()"])
        self.lines.append(f"    {name} = {name} * {form.format(name)}")

    def reduced(self) -> None:
        name = self.draw.choice(self.names)
        form = self.draw.choice(["sum", "mean", "max"])
        self.lines.append(f"    {name} = {name} + {name}[m].{form}()")

    def shown(self) -> None:
        """What prints, logs or warns, now and then with an effect inside."""
        name = self.draw.choice(self.names)
        what = self.draw.choice(
            [f"{name}.mean()", f"{name}.shape", f"tuple({self.value()}.shape)", f"{name}.mul_(2).sum()", self.value()]
        )
        form = self.draw.choice(
            [
                f"print({what})",
                f'print("seen", {what}, m.any())',
                f"print(f'{{{what}}}')",
                f'logging.getLogger("generated").warning("seen %s", {what})',
                f'warnings.warn(f"seen {{{what}}}")',
            ]
        )
        if self.draw.random() < 0.3:
            self.lines.append(f"    if {self.test()}:")
            form = "    " + form
        self.lines.append("    " + form)

    def check(self) -> None:
        test = self.draw.choice(["(y > 50).any()", "not (y < 90).all()", "y.max() > 60", "k.sum() > 90"])
        self.lines += [f"    if {test}:", '        raise ValueError("refused")']


def written(draw: random.Random, count: int) -> str:
    """A file of functions, and a model that calls them all, each in turn on copies of what it was given."""
    parts = [HEAD, *(Writer(draw, f"f{number}").function() for number in range(count))]
    calls = "".join(f"        out.append(f{n}(x.clone(), y.clone(), m, k))\n" for n in range(count))
    parts.append(
        "class Model(nn.Module):\n    def forward(self, x, y, m, k):\n        out = []\n"
        + calls
        + "        return out\n"
    )
    parts.append(
        "def get_inputs():\n    return [torch.randn(4, 8), torch.randn(4, 8), torch.rand(4, 8) > 0.5, "
        "torch.randint(0, 3, (4, 8))]\n"
    )
    return "\n\n".join(parts)


def functions(text: str) -> dict[str, str]:
    """The source of each function of a file, by name."""
    return {
        part.split("(")[0][4:]: part
        for part in re.split(r"^(?=def f|class |def get)", text, flags=re.M)
        if part.startswith("def f")
    }


def loaded(text: str) -> ModuleType:
    module = ModuleType("generated")
    exec(compile(text, "generated.py", "exec"), vars(module))
    return module


def inputs(seed: int) -> Iterator[tuple[Any, ...]]:
    """Inputs that no proof has seen: of a seed, and what spreads to both sides of a branch."""
    import torch

    draw = torch.Generator().manual_seed(10_000 + seed)
    for scale, shift in ((1.0, 0.0), (30.0, 0.0), (0.01, 0.0), (1.0, 2.5), (1.0, -2.5), (0.0, 0.0), (0.0, 0.3)):
        x, y = (torch.randn(4, 8, generator=draw) * scale + shift for _ in range(2))
        for share in (0.5, 0.0, 1.0):
            m = torch.rand(4, 8, generator=draw) < share
            yield x, y, m, torch.randint(0, 3, (4, 8), generator=draw)
    yield (
        torch.full((4, 8), float("nan")),
        torch.ones(4, 8),
        torch.ones(4, 8, dtype=torch.bool),
        torch.ones(4, 8).long(),
    )


def outcome(function: Callable[..., Any], given: tuple[Any, ...], *, grad: bool) -> tuple[Any, ...]:
    """What a call prints and raises, gives and changes."""
    import torch

    x, y, m, k = (tensor.clone() for tensor in given)
    leaves = [x.requires_grad_(grad), y.requires_grad_(grad)]
    passed = [leaf * 1 if grad else leaf for leaf in leaves]
    shown = io.StringIO()
    logs = logging.StreamHandler(shown)
    logging.getLogger("generated").addHandler(logs)
    try:
        with contextlib.redirect_stdout(shown), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            out = function(*passed, m, k)
        if grad and isinstance(out, torch.Tensor) and out.requires_grad:
            out.double().sum().backward()
    except Exception as error:
        return f"{type(error).__name__} after {shown.getvalue()!r}", None, None, None
    finally:
        logging.getLogger("generated").removeHandler(logs)
    shown_text = (
        f"{shown.getvalue()!r} {[str(each.message) for each in warned if str(each.message).startswith('seen')]}"
    )
    return shown_text, out, [leaf.grad for leaf in leaves], [each.detach() for each in (*passed, m, k)]


def reordered(
    function: Callable[..., Any], given: tuple[Any, ...], *, grad: bool, orders: int = 40
) -> Iterator[tuple[Any, ...]]:
    """What a call gives if the elements of all arguments come in another order, put back into theirs.

    All that is generated works element by element or reduces everything, so but for rounding it is the same.
    """
    import torch

    for seed in range(orders):
        order = torch.randperm(given[0].numel(), generator=torch.Generator().manual_seed(seed))
        order = order.to(given[0].device)
        back = torch.argsort(order)

        def moved(tensor: Any, to: torch.Tensor) -> Any:
            whole = isinstance(tensor, torch.Tensor) and tensor.numel() == to.numel()
            return tensor.flatten()[to].reshape(tensor.shape) if whole else tensor

        text, out, grads, arguments = outcome(function, tuple(moved(each, order) for each in given), grad=grad)
        several = [each and [moved(one, back) for one in each] for each in (grads, arguments)]
        yield text, moved(out, back), *several


OTHER_VALUES = "other values"
NUMBER = re.compile(r"-?\d+\.?\d*(e[+-]?\d+)?")


def difference(before: tuple[Any, ...], after: tuple[Any, ...], rtol: float = 1e-4) -> str | None:
    import torch

    if before[0] != after[0]:
        same_words = NUMBER.sub("0", before[0]) == NUMBER.sub("0", after[0])
        return f"printed: {OTHER_VALUES}" if same_words else f"{before[0]} became {after[0]}"
    for what, one, other in zip(("out", "gradient", "argument"), before[1:], after[1:], strict=True):
        pairs = zip(one, other, strict=True) if isinstance(one, list) else [(one, other)]
        for left, right in pairs:
            if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
                if (left is None) != (right is None) or type(left) is not type(right):
                    return f"{what}: {type(left).__name__} became {type(right).__name__}"
                continue
            if left.dtype != right.dtype or left.shape != right.shape or left.requires_grad != right.requires_grad:
                return f"{what}: {left.dtype} {tuple(left.shape)} became {right.dtype} {tuple(right.shape)}"
            if not torch.allclose(left.double(), right.double(), rtol=rtol, atol=rtol / 10, equal_nan=True):
                return f"{what}: {OTHER_VALUES}"
    return None


def wrong(before: str, after: str, name: str, device: str = "cpu") -> str | None:
    """How a changed function differs from what it was, on a device; None if no fresh input shows a difference.

    What is gone in double precision is the rounding of another order of the same additions; so is what the function as
    it was gives too, if its elements come in another order: 0/0 in a gradient may be -1e-17/0.
    """
    import torch

    one, other = getattr(loaded(before), name), getattr(loaded(after), name)
    for seed in range(6):
        for drawn in inputs(seed):
            given = tuple(each.to(device) for each in drawn)
            for grad in (False, True):
                found = difference(outcome(one, given, grad=grad), outcome(other, given, grad=grad))
                if found and found.endswith(OTHER_VALUES):
                    given = tuple(each.double() if each.is_floating_point() else each for each in given)
                    torch.set_default_dtype(torch.float64)
                    after = outcome(other, given, grad=grad)
                    found = difference(outcome(one, given, grad=grad), after, 1e-8)
                    if found and any(
                        difference(each, after, 1e-8) is None for each in reordered(one, given, grad=grad)
                    ):
                        found = None
                        print(f"{name}: differs as it does from itself with its elements in another order")
                    torch.set_default_dtype(torch.float32)
                if found:
                    return found
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--in-file", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--static", action="store_true", help="judge what is called safe without a run")
    parser.add_argument("--folder", help="where the files are written; by default nowhere that stays")
    parser.add_argument("--device", default="cpu", help="where the proofs run, and what judges them")
    options = parser.parse_args()
    made = broke = changed_functions = 0
    bad: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(0, options.count, options.in_file):
            text = written(random.Random(options.seed * 100_003 + number), options.in_file)
            path = folder / f"generated_{options.seed}_{number}.py"
            path.write_text(text)
            found = api.fix(path.name, root=folder, verify=not options.static, device=options.device)
            if found.result.failure:
                print(f"{path.name}: {found.result.failure}", flush=True)
            breaks = (*found.result.changes, *found.result.refused, *found.result.no_fix)
            touched = {text_symbol(text, each.line) for each in breaks}
            made += options.in_file
            broke += len(touched)
            for file in found.files:
                old, new = functions(file.before), functions(file.after)
                for name in [each for each in old if new.get(each) != old[each]]:
                    changed_functions += 1
                    if why := wrong(file.before, file.after, name, options.device):
                        bad.append(f"{path.name} {name}: {why}\n{old[name]}\n{new[name]}")
                        print(bad[-1], flush=True)
            seconds = time.monotonic() - began
            print(
                f"{made} functions, {broke} break, {changed_functions} changed, {len(bad)} wrong, {seconds:.0f} s",
                flush=True,
            )
    return 1 if bad else 0


def text_symbol(text: str, line: int) -> str:
    """The function that a line stands in."""
    names = re.findall(r"^def (\w+)", "\n".join(text.splitlines()[:line]), flags=re.M)
    return names[-1] if names else ""


if __name__ == "__main__":
    sys.exit(main())
