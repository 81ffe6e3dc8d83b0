"""Compiles what the report predicts from the source alone, on real models: does the printed code hold?

A record is one JSON object a line: `target` (`pkg.mod::Class`), `spec` (`build`: `module:function` of the --zoo folder,
whose call with `kwargs` gives (module, args, kwargs)) and `break_sites`. The target's source is read below --site,
never imported here; the model is built and run by the interpreter --python, with its own torch.

    python benchmarks/static_regions.py RECORDS.jsonl --site SITE_PACKAGES --zoo FOLDER --python ENV/bin/python
        [--clean 40] [--every N] [--list] [--json FILE]

Each region's code is executed on a fresh model, and the model is called as recorded, under
`torch._dynamo.error_on_graph_break(True)`. Of all regions:

    raises       the code itself raises
    nothing      it ran, the module was called, and no graph was made of it
    breaks       a call of the compiled model raises, mostly since a graph would break
    whole        graphs were made and nothing broke
    not called   no module that the code compiles is called in this forward
    instances    the code compiles another number of modules than the report says (where it says how many)
    members      the code compiles other modules than the region's name stands for

`compiled` is the share that holds of the regions that were called. Exits 1 below --floor of it, and if any code raises
or compiles nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

BATCH = 6
"""Models that one process builds: importing their packages takes longer than most of them."""
OUTCOMES = ("raises", "nothing", "breaks", "whole", "not called")


# in this process: what the report predicts


def predicted(job: tuple[dict[str, Any], str]) -> dict[str, Any]:
    """One record's static regions, in the words of the report."""
    record, site = job
    from tcready import rules
    from tcready.merge import merge
    from tcready.portable.options import ReadOptions
    from tcready.schema.report import Tool
    from tcready.static.driver import RuleSet, read
    from tcready.static.library.torch_versions import version_of

    try:
        torch = version_of(record["versions"]["torch"])
        options = ReadOptions(root=Path("/"), search_path=(Path(site),), torch=torch)
        seen = read([record["target"]], options, RuleSet(rules.load, lambda: Tool("tcready", "0")))
        report = merge(seen.result, (), seen.rules, seen.tool)
    except Exception as error:
        return {"record": record, "failed": f"{type(error).__name__}: {error}", "regions": []}
    regions = [
        {"name": r.name, "code": r.code, "instances": r.instances, "reason": r.reason}
        for target in report.targets
        for r in target.regions
    ]
    return {"record": record, "failed": "", "regions": regions}


def judged(model: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each region of a model that was run, with its outcome and what the report says wrongly of it."""
    from tcready.schema.report import covers

    for region, seen in zip(model["regions"], model["seen"], strict=True):
        found = dict(region, target=model["record"]["target"], **seen)
        if seen["outcome"] != "raises":
            named = {first for name, first in model["names"].items() if covers(region["name"], name)}
            told = region["instances"]  # 0: the source does not tell how many
            found["instances differ"] = bool(told) and told != len(seen["compiled"])
            found["members differ"] = named != set(seen["compiled"])
        yield found


# in the other interpreter: what the code does


def tried(model: dict[str, Any]) -> dict[str, Any]:
    """The model with what became of each region's code, on a fresh copy each time."""
    import importlib

    import torch

    module, function = model["record"]["spec"]["build"].split(":")
    build = getattr(importlib.import_module(module), function)
    original, args, kwargs = build(**model["record"]["spec"]["kwargs"])
    original.eval()
    called: set[str] = set()
    observed = copy.deepcopy(original)
    for name, part in observed.named_modules():
        part.register_forward_pre_hook(lambda *_, name=name: called.add(name))
    with torch.no_grad():
        observed(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    first: dict[Any, str] = {}
    every = original.named_modules(remove_duplicate=False)
    names = {name: first.setdefault(part, name) for name, part in every}  # one module may have several
    seen = [_outcome(copy.deepcopy(original), args, kwargs, region["code"], called) for region in model["regions"]]
    return dict(model, names=names, seen=seen)


def _outcome(model: Any, args: Any, kwargs: Any, code: str, called: set[str]) -> dict[str, Any]:
    import torch

    torch._dynamo.reset()
    graphs = 0

    def backend(graph: Any, *_: Any) -> Any:
        nonlocal graphs
        graphs += 1
        return graph.forward

    plain = torch.compile
    with contextlib.ExitStack() as stack:
        torch.compile = lambda model, **options: plain(model, **{**options, "backend": backend})
        stack.callback(setattr, torch, "compile", plain)
        of_module = torch.nn.Module.compile
        torch.nn.Module.compile = lambda self, **options: of_module(self, **{**options, "backend": backend})
        stack.callback(setattr, torch.nn.Module, "compile", of_module)
        try:
            exec(code, {"model": model, "torch": torch})
        except Exception as error:
            return {"outcome": "raises", "said": _line(error), "compiled": []}
    compiled = [
        name
        for name, part in model.named_modules()
        if part._compiled_call_impl is not None or hasattr(vars(part).get("forward"), "_torchdynamo_inline")
    ]
    if called.isdisjoint(compiled):
        return {"outcome": "not called", "said": "", "compiled": compiled}
    try:
        with torch.no_grad(), torch._dynamo.error_on_graph_break(True):
            model(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    except Exception as error:
        return {"outcome": "breaks", "said": _line(error), "compiled": compiled}
    return {"outcome": "whole" if graphs else "nothing", "said": "", "compiled": compiled}


def _line(error: Exception) -> str:
    """What an error says, and where in the user's code it arose."""
    text = str(error).strip()
    where = [line.strip() for line in text.splitlines() if line.strip().startswith('File "')]
    return f"{type(error).__name__}: {(text.splitlines() or [''])[0]} {where[-1] if where else ''}".strip()


def serve(zoo: str) -> None:
    """Reads models from standard input, one a line, and writes each with what was seen."""
    import torch

    sys.path.insert(0, zoo)
    torch.set_num_threads(1)
    out, sys.stdout = sys.stdout, sys.stderr  # models print
    for line in sys.stdin:
        model = json.loads(line)
        try:
            model = tried(model)
        except Exception as error:
            model = dict(model, failed=f"the model does not run: {_line(error)}", seen=[], names={})
        print(json.dumps(model), file=out, flush=True)


# both


def run_all(models: list[dict[str, Any]], zoo: str, python: str, jobs: int, timeout: float) -> list[dict[str, Any]]:
    """The models with what was seen of each; a process that dies fails those it did not come to."""

    def batch(some: list[dict[str, Any]]) -> list[dict[str, Any]]:
        with tempfile.TemporaryFile("w+") as out:
            child = subprocess.Popen(
                [python, __file__, "--serve", zoo],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.communicate("".join(json.dumps(model) + "\n" for model in some), timeout * len(some))
            child.kill()
            child.wait()
            out.seek(0)
            done = [json.loads(line) for line in out]
        rest = [dict(model, failed="its process ended", seen=[], names={}) for model in some[len(done) :]]
        print(".", end="", file=sys.stderr, flush=True)
        return done + rest

    with ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(batch, (models[start : start + BATCH] for start in range(0, len(models), BATCH)))
        return [model for part in parts for model in part]


def chosen(records: list[dict[str, Any]], clean: int, every: int) -> list[dict[str, Any]]:
    """The records that break, and `clean` others spread over the file."""
    breaking = [r for r in records if r["break_sites"]]
    others = [r for r in records if not r["break_sites"]]
    step = max(1, len(others) // clean) if clean else 1
    return (breaking + others[::step][:clean])[::every]


def table(name: str, found: Iterable[dict[str, Any]]) -> str:
    regions = list(found)
    count = Counter(region["outcome"] for region in regions)
    called = len(regions) - count["not called"] - count["raises"]
    share = f"{count['whole'] / called:8.1%}" if called else f"{'-':>8}"
    wrong = [sum(r.get(key, False) for r in regions) for key in ("instances differ", "members differ")]
    numbers = (len(regions), *(count[outcome] for outcome in OUTCOMES), *wrong)
    return f"{name:24}" + "".join(f"{number:11}" for number in numbers) + f"  {share}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--site", required=True, help="the site-packages folder of the models' sources")
    parser.add_argument("--zoo", required=True, help="the folder whose modules build the models")
    parser.add_argument("--python", required=True, help="the interpreter with torch and the packages")
    parser.add_argument("--clean", type=int, default=40, help="models that do not break, beside all that do")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", help="only targets that contain this text")
    parser.add_argument("--jobs", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for a model")
    parser.add_argument("--list", action="store_true", help="list every region that does not hold")
    parser.add_argument("--json", type=Path, help="keep every region with its outcome in this file")
    parser.add_argument("--floor", type=float, default=0.98)
    args = parser.parse_args()
    records = [json.loads(line) for line in args.records.read_text("utf-8").splitlines() if line]
    records = chosen(records, args.clean, args.every)
    records = [record for record in records if (args.only or "") in record["target"]]
    site = str(Path(args.site).resolve())
    with multiprocessing.get_context("spawn").Pool(args.jobs, maxtasksperchild=25) as pool:
        models = pool.map(predicted, [(record, site) for record in records], chunksize=2)
    unread = [model for model in models if model["failed"]]
    zoo = str(Path(args.zoo).resolve())
    ran = run_all([m for m in models if m["regions"]], zoo, args.python, args.jobs, args.timeout)
    failed = [model for model in ran if model["failed"]]
    regions = [(model, region) for model in ran if not model["failed"] for region in judged(model)]
    print(f"\n{'models':24}{'regions':>11}" + "".join(f"{name:>11}" for name in OUTCOMES), end="")
    print(f"{'instances':>11}{'members':>11}  compiled")
    for name, breaks in (("that break", True), ("that do not", False)):
        print(table(name, (r for m, r in regions if bool(m["record"]["break_sites"]) == breaks)))
    everything = [region for _, region in regions]
    print(table("all", everything))
    print(f"models: {len(models)}, with regions: {len(ran)}, unread: {len(unread)}, not run: {len(failed)}")
    for model in (*unread, *failed):
        print(f"  FAILED {model['record']['target']}: {model['failed']}")
    if args.list:
        for region in everything:
            differs = [key for key in ("instances differ", "members differ") if region.get(key)]
            if differs or region["outcome"] in ("raises", "nothing", "breaks"):
                print(
                    f"{region['outcome']:10} {', '.join(differs)} {region['target']} {region['name']!r}: says"
                    f" {region['instances']}, compiles {len(region['compiled'])}; {region['said']}"
                )
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1), "utf-8")
    count = Counter(region["outcome"] for region in everything)
    called = count["whole"] + count["breaks"] + count["nothing"]
    if count["raises"] or count["nothing"] or (called and count["whole"] / called < args.floor):
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2])
    else:
        main()
