"""Makes wrong patches and right refactorings of fixture models. Does `tcready prove` refuse the one and accept the other?

    python benchmarks/proof_mutants.py --out FOLDER --minutes 60 [--seed 0] [--limit 500] [--only wrong] [--kinds ...]
    python benchmarks/proof_mutants.py --out FOLDER --summary [--list]
    python benchmarks/proof_mutants.py --out FOLDER --again      # proves once more what was judged wrongly

The kinds of patches are in tests/helpers: wrong_patches.py and right_patches.py. They take turns. A wrong patch counts if
witness.py there finds a call that shows the difference, a right one if it finds none; it shares no code with the
prover. Every other wrong patch has to agree on the inputs as given. All other patches are set aside. Each case is one
line of FOLDER/patches.jsonl: its kind, patch, witness and verdict. A run that was interrupted continues. A patch is
accepted if `prove` says that it does the same. That a break of the model stays is no reason to count a right patch as
refused; a wrong one that is refused for it alone is left open.

Exits 1 if more than 2 % of the wrong patches are accepted, or less than 95 % of the right ones.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import right_patches
import witness
import wrong_patches
from rewriting_models import Model, Rewrite, candidates, carried_out, models, patch_between
from tcready import api
from tcready.dynamic import ForkServer
from tcready.pipeline import observations

KINDS = {"wrong": wrong_patches.KINDS, "right": right_patches.KINDS}
WORST_WRONG, LEAST_RIGHT = 0.02, 0.95
TRIES = 12
"""Patches that are made for one case, until one counts."""
OF_BREAKS = ("Dynamo still breaks the graph there", "Dynamo breaks the graph in the new code")
"""How the reasons begin for which a patch that does the same is refused since a break of the model stays."""
PATIENCE = 15
"""Seconds after which no further patch is searched for one case."""
AGREES_WHEN_GIVEN = frozenset({"pin a size", "pin a type"})
"""Kinds that count only if the inputs as given show no difference: they pin a value that somebody saw."""


def index(out: Path, sample: dict[str, Model]) -> dict[str, dict[str, list[str]]]:
    """The names of the models in which each kind of patch is possible; kept in a file."""
    path = out / "index.json"
    if not path.exists():
        found: dict[str, dict[str, list[str]]] = {side: defaultdict(list) for side in KINDS}
        for name, model in sample.items():
            for side, kinds in KINDS.items():
                for kind in dict.fromkeys(kind for kind, _, _ in candidates(model.text, kinds)):
                    found[side][kind].append(name)
        path.write_text(json.dumps(found), "utf-8")
    known: dict[str, dict[str, list[str]]] = json.loads(path.read_text("utf-8"))
    return known


def made_patches(
    sample: dict[str, Model], names: list[str], kind: str, rewrite: Rewrite, choose: random.Random
) -> Iterator[tuple[Model, str]]:
    """Patched files of one kind, drawn by lot."""
    for _ in range(TRIES):
        model = sample[choose.choice(names)]
        possible = list(candidates(model.text, {kind: rewrite}))
        choose.shuffle(possible)
        for _, site, other in possible[:3]:
            new = carried_out(site, other)
            if new is not None:
                yield model, new


def one_case(
    sample: dict[str, Model], names: list[str], key: tuple[str, str, int, int], known: set[str]
) -> dict[str, Any]:
    """Makes patches of one kind until one counts, and proves that one. `known` patches are left out."""
    side, kind, number, seed = key
    entry: dict[str, Any] = {"side": side, "kind": kind, "number": number, "seed": seed, "set_aside": 0}
    agrees_when_given = side == "wrong" and (number % 2 == 1 or kind in AGREES_WHEN_GIVEN)
    choose = random.Random(f"{seed}:{side}:{kind}:{number}")
    until = time.monotonic() + PATIENCE
    for model, new in made_patches(sample, names, kind, KINDS[side][kind], choose):
        patch = patch_between(model.text, new)
        if patch in known:
            continue
        verdict, why = witness.search(
            model.text, new, agreeing_when_given=agrees_when_given, all_lines_run=side == "right"
        )
        if verdict == ("differs" if side == "wrong" else "same"):
            known.add(patch)
            return entry | {"model": model.name, "patch": patch, "witness": why, **judge(model, patch, side)}
        entry["set_aside"] += 1
        if time.monotonic() > until:
            break
    return entry


def judge(model: Model, patch: str, side: str) -> dict[str, Any]:
    """What a proof says of a patch. `accepted` is None if that is not known."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "model.py").write_text(model.text, "utf-8")
        try:
            change = api.prove(patch, model.target, root=root, inputs="model.py::get_inputs")
        except Exception as error:
            change = f"{type(error).__name__}: {error}"
    seconds = round(time.monotonic() - began, 2)
    if isinstance(change, str):
        return {"state": "not_run", "reason": change, "accepted": None, "seconds": seconds}
    agrees: bool | None = api.holds(change)
    if (change.reason or "").startswith(OF_BREAKS):  # every call agrees, but for the types and texts of exceptions
        agrees = True if side == "right" else None
    return {
        "state": change.state,
        "reason": change.reason or change.unsafe,
        "condition": change.condition,
        "accepted": agrees,
        "seconds": seconds,
        "calls": change.proof.calls if change.proof is not None else None,
    }


@contextlib.contextmanager
def one_server() -> Iterator[None]:
    """Lets all runs be copies of one process that has imported torch."""
    server = ForkServer()
    observations.fork_server = lambda: contextlib.nullcontext(server)  # type: ignore[assignment, return-value]
    try:
        yield
    finally:
        server.close()


def carry_out(args: argparse.Namespace) -> None:
    sample = {model.name: model for model in models()}
    known = index(args.out, sample)
    log = args.out / "patches.jsonl"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []
    done = {(each["side"], each["kind"], each["number"], each["seed"]) for each in lines}
    patches = {each["patch"] for each in lines if "patch" in each}
    ends = time.monotonic() + 60 * args.minutes
    count, number = 0, 0
    with one_server():
        while time.monotonic() < ends and count < args.limit and number < 1000:
            cases = [(side, kind) for side in KINDS if args.only in (None, side) for kind in KINDS[side]]
            for side, kind in cases:
                key = (side, kind, number, args.seed)
                if key in done or (args.kinds and kind not in args.kinds) or kind not in known[side]:
                    continue
                if time.monotonic() >= ends or count >= args.limit:
                    break
                entry = one_case(sample, known[side][kind], key, patches)
                count += "state" in entry
                with log.open("a", encoding="utf-8") as lines_out:
                    lines_out.write(json.dumps(entry) + "\n")
            number += 1


def prove_again(args: argparse.Namespace) -> None:
    """Proves once more what was judged wrongly, and writes down what is said now."""
    sample = {model.name: model for model in models()}
    log = args.out / "patches.jsonl"
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    with one_server():
        for each in lines:
            if each.get("accepted") is (each["side"] == "wrong") and (not args.kinds or each["kind"] in args.kinds):
                each |= judge(sample[each["model"]], each["patch"], each["side"])
                print(each["side"], each["kind"], each["model"], each["state"], each["reason"], flush=True)
    log.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")


def summarize(args: argparse.Namespace) -> bool:
    """Prints what was counted; whether the bars are met."""
    lines = [json.loads(line) for line in (args.out / "patches.jsonl").read_text("utf-8").splitlines()]
    shares = {}
    for side in KINDS:
        judged = [each for each in lines if each["side"] == side and each.get("accepted") is not None]
        accepted = [each for each in judged if each["accepted"]]
        by_kind = Counter(each["kind"] for each in judged)
        shares[side] = len(accepted) / len(judged) if judged else None
        aside = sum(each["set_aside"] for each in lines if each["side"] == side)
        open_ones = sum(each["side"] == side and "state" in each and each["accepted"] is None for each in lines)
        seconds = sum(each["seconds"] for each in judged) / max(len(judged), 1)
        print(
            f"{side}: {len(accepted)} of {len(judged)} accepted, {len(by_kind)} kinds, {aside} set aside, "
            f"{open_ones} open, {seconds:.1f} s each"
        )
        for each in judged:
            if each["accepted"] is (side == "wrong"):
                print(f"  {each['kind']} ({each['model']}, {each['number']}): {each['witness'] or each['reason']}")
                if each.get("condition"):
                    print(f"    except {each['condition']}")
                if args.list:
                    print("    " + "\n    ".join(each["patch"].splitlines()[2:]))
    return (shares["wrong"] or 0) <= WORST_WRONG and (shares["right"] is None or shares["right"] >= LEAST_RIGHT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--limit", type=int, default=1_000_000, help="patches that are proved, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*KINDS])
    parser.add_argument("--kinds", nargs="+")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the patches too")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    if args.again:
        prove_again(args)
    elif not args.summary:
        carry_out(args)
    raise SystemExit(0 if summarize(args) else 1)


if __name__ == "__main__":
    main()
