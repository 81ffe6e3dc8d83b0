"""Do files that `tcready fix --verify` changes do what they did? Each is judged anew, on seeds that no proof has seen.

    python benchmarks/fixed_files.py FILE.py... [--every N] [--part K/N] [--static] [--device cuda]

A file has a class `Model` or a function `model`, and `get_inputs()`. What is changed is built and called in a process of
its own, before and after the change, by code that shares nothing with the worker: in inference and in training, from
seeds of its own, with inputs scaled, shifted, negated, zero and with a NaN, twice each. Compared are values, types,
shapes, gradients, arguments changed in place, the state dict, exceptions, and what is printed, logged and warned of.
Then it is compiled, with the settings that the changes need, and held against the same, in inference with the inputs as
given.

Printed is what became of each file, and the sums. Exit 1 if one is changed wrongly.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.util
import io
import json
import logging
import os
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tcready.fixes.multi_target import Fixed

SEEDS = (101, 202, 303)
VARIED = {"as given": (1.0, 0.0), "large": (30.0, 0.0), "small": (0.01, 0.0), "up": (1.0, 2.5), "down": (1.0, -2.5),
          "negated": (-1.0, 0.0), "zero": (0.0, 0.0), "a NaN": (1.0, 0.0)}  # fmt: skip
SHOWN = 2000
"""Characters of what is printed that are compared."""
MANY = 10_000
"""Numbers of a tensor that are compared: a model's gradients of a hundred calls take tens of GB."""


def calls(path: Path, device: str = "cpu", compiled_after: str | None = None) -> list[dict[str, Any]]:
    """What each call of a file's model did on a device, in the order of modes, seeds and inputs.

    With `compiled_after`, lines of Python that set Dynamo up, calls of the model compiled with the backend "eager": in
    inference, with the inputs as given.
    """
    import torch

    spec = importlib.util.spec_from_file_location("judged", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["judged"] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    inputs = module.get_inputs if hasattr(module, "get_inputs") else module.inputs
    found = []
    for train in (False, True) if compiled_after is None else (False,):
        for seed in SEEDS:
            _seed(seed)
            made = module.Model() if hasattr(module, "Model") else module.model
            model = made() if not isinstance(made, torch.nn.Module) and _makes(made) else made
            if isinstance(model, torch.nn.Module):
                model.train(train).to(device)
            called = model
            if compiled_after is not None:
                torch._dynamo.reset()
                exec(compiled_after, {})
                called = torch.compile(model, backend="eager")
            _seed(seed + 1)
            given = _inputs(inputs(), device)
            for name, (scale, shift) in VARIED.items() if compiled_after is None else [("as given", (1, 0))]:
                for _ in range(2):
                    anew = _copied(given)
                    _seed(seed + 1)
                    found.append(
                        {
                            "call": (train, seed, name),
                            **_called(called, model, anew or _inputs(inputs(), device), name, scale, shift, train),
                        }
                    )
    return found


def _copied(given: Any) -> Any:
    """The inputs once more; None for those that cannot be copied."""
    try:
        return copy.deepcopy(given)
    except Exception:  # whatever the objects among them raise
        return None


def _seed(seed: int) -> None:
    import torch

    torch.manual_seed(seed)
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy as np

        np.random.seed(seed)


def _makes(function: Any) -> bool:
    """Whether `model` takes nothing: it then makes the model."""
    return callable(function) and function.__code__.co_argcount == 0


def _inputs(given: Any, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    import torch
    from torch.utils import _pytree as pytree

    given = pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), given)
    if isinstance(given, dict):
        return (), given
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], dict):
        return tuple(given[0]), given[1]
    return tuple(given), {}


def _called(called: Any, model: Any, given: Any, name: str, scale: float, shift: float, train: bool) -> dict[str, Any]:
    import torch
    from torch.utils import _pytree as pytree

    def varied(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or name == "as given":
            return tensor
        changed = tensor.detach() * scale + shift
        if name == "a NaN" and changed.numel():
            changed.view(-1)[0] = float("nan")
        return changed

    args, kwargs = pytree.tree_map_only(torch.Tensor, varied, given)
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    logging.getLogger().addHandler(handler)
    error, out, gradients = None, None, []
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    try:
        with (
            contextlib.redirect_stdout(shown),
            warnings.catch_warnings(record=True) as warned,
            torch.set_grad_enabled(train),
        ):
            warnings.simplefilter("always")
            out = called(*args, **kwargs)
            leaves = [each for each in pytree.tree_leaves(out) if isinstance(each, torch.Tensor)]
            losses = [each.double().sum() for each in leaves if each.requires_grad and not each.is_complex()]
            if train and losses:
                gradients = list(torch.autograd.grad(sum(losses), parameters, allow_unused=True))
        shown.write("".join(str(each.message) for each in warned if each.category is UserWarning))
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"[:200]
    finally:
        logging.getLogger().removeHandler(handler)
    state = [*model.state_dict().values()] if isinstance(model, torch.nn.Module) else []
    parts = {"output": out, "gradient": gradients, "argument": (args, kwargs), "state": state}
    values = {what: [kept for each in pytree.tree_leaves(part) for kept in _kept(each)] for what, part in parts.items()}
    return {"error": error, "printed": shown.getvalue()[:SHOWN], **values}


def _kept(value: Any) -> tuple[Any, ...]:
    """What is kept of a leaf: a copy of a tensor, of a large one its shape, and numbers at equal steps."""
    import torch

    if not isinstance(value, torch.Tensor):
        return (value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__,)
    if value.numel() <= MANY or value.layout != torch.strided:
        return (value.detach().clone(),)
    return str(tuple(value.shape)), value.detach().flatten()[:: value.numel() // MANY].clone()


def difference(before: list[dict[str, Any]], after: list[dict[str, Any]], printed: bool = True) -> str | None:
    """How two files' calls differ; None if they do not."""
    import torch

    for one, other in zip(before, after, strict=True):
        where = f"{'training' if one['call'][0] else 'inference'}, seed {one['call'][1]}, inputs {one['call'][2]}"
        for what in ("error", *(["printed"] if printed else [])):
            if one[what] != other[what]:
                return f"{what}: {one[what]!r} became {other[what]!r} ({where})"
        for what in ("output", "gradient", "argument", "state"):
            if len(one[what]) != len(other[what]):
                return f"{what}: {len(one[what])} values became {len(other[what])} ({where})"
            for left, right in zip(one[what], other[what], strict=True):
                if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
                    if type(left) is not type(right) or (left != right and left == left):
                        return f"{what}: {left!r} became {right!r} ({where})"
                    continue
                try:
                    torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)
                except AssertionError as error:
                    return f"{what}: {' '.join(str(error).split())[:200]} ({where})"
    return None


def judged(
    folder: Path, name: str, site: Path, python: str, device: str, *compiled_after: str
) -> list[dict[str, Any]] | str:
    """The `calls` of a file in a process of its own, packages in `site` before those installed; what went wrong there as
    text."""
    import torch

    out = folder / "calls.pt"
    done = subprocess.run(
        [python, __file__, "--judge", name, str(out), device, *compiled_after],
        cwd=folder, capture_output=True, text=True, timeout=900, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    if done.returncode:
        return f"it cannot be called: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1][:200]}"
    found: list[dict[str, Any]] = torch.load(out, weights_only=False)
    return found


def held_against(found: Fixed, path: Path, python: str = sys.executable, device: str = "cpu") -> tuple[str, str]:
    """`changed`, `wrong` or `failed`, and why: the target `path` with the changes held against itself without them, on a
    device, in eager code, and compiled with the settings that the changes need."""
    from tcready.reports.machine.fix_output import settings_code

    code = "\n".join(["import torch", *settings_code(found.result)])
    with tempfile.TemporaryDirectory() as scratch:
        own, site = _laid_out(found, path, Path(scratch) / "before", changed=False)
        before = judged(own, path.name, site, python, device)
        if isinstance(before, str):
            return "failed", before
        own, site = _laid_out(found, path, Path(scratch) / "after", changed=True)
        for is_compiled in (False, True):
            after = judged(own, path.name, site, python, device, *([code] if is_compiled else []))
            if isinstance(after, str):
                return "wrong", after
            made = {json.dumps(each["call"]) for each in after}
            same = [each for each in before if json.dumps(each["call"]) in made]
            if why := difference(same, after, printed=not is_compiled):
                return "wrong", f"{'compiled, ' if is_compiled else ''}{why}"
    return "changed", ""


def _laid_out(found: Fixed, path: Path, folder: Path, changed: bool) -> tuple[Path, Path]:
    """The folder with the target, and one with the packages of which files change, with the changes or without."""
    own, site = folder / "own", folder / "site"
    shutil.copytree(path.parent, own, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    for file in found.files:
        is_own = file.path.is_relative_to(path.parent.resolve())
        place = own / file.path.relative_to(path.parent.resolve()) if is_own else _linked(file.path, site)
        place.write_text(file.after if changed else file.before, encoding="utf-8")
    return own, site


def _linked(file: Path, site: Path) -> Path:
    """Where a package's file stands in `site`, which gets links to all files of that package, this one left out."""
    installed = next(folder for folder in file.parents if folder.name in ("site-packages", "dist-packages"))
    place = file.relative_to(installed)
    if len(place.parts) > 1 and not (site / place.parts[0]).exists():
        for each in (installed / place.parts[0]).rglob("*"):
            if each.is_file() and each.suffix != ".pyc":
                link = site / each.relative_to(installed)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(each)
    site.mkdir(parents=True, exist_ok=True)
    (site / place).unlink(missing_ok=True)
    return site / place


def tried(path: Path, verify: bool = True, device: str = "cpu") -> tuple[str, str]:
    """What became of a file, in one word, and how it differs, or why nothing is known."""
    from tcready import api

    entry = "Model" if "\nclass Model(" in path.read_text("utf-8") else "model"
    target, inputs = f"{path.name}::{entry}", f"{path.name}::get_inputs"
    found = api.fix(target, root=path.parent, verify=verify, inputs=inputs if verify else None, device=device)
    if not found.result.changes:
        return ("failed", found.result.failure) if found.result.failure else ("not changed", "")
    became, why = held_against(found, path, device=device)
    return (became if found.files or became != "changed" else "given a setting"), why


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th file from the K-th on")
    parser.add_argument("--static", action="store_true", help="judge what is called safe without a proof")
    parser.add_argument("--device", default="cpu", help="where the proofs run, and what judges them")
    parser.add_argument("--judge", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.judge:
        import torch

        path, out, device, *compiled_after = options.judge
        torch.save(calls(Path(path).resolve(), device, *compiled_after), out)
        return 0
    first, step = map(int, options.part.split("/"))
    sums: dict[str, int] = {}
    for path in options.files[:: options.every][first::step]:
        try:
            became, why = tried(path.resolve(), verify=not options.static, device=options.device)
        except Exception as error:  # one file must not end the measurement
            became, why = "failed", f"{type(error).__name__}: {error}"
        sums[became] = sums.get(became, 0) + 1
        print(f"{path.name}: {became}{f': {why}' if why else ''}", flush=True)
    print(json.dumps(sums))
    return 1 if sums.get("wrong") else 0


if __name__ == "__main__":
    sys.exit(main())
