"""The processes of a proof: torch is loaded once, and each variant runs in a copy of this process."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import Journal, one_line
from tcready.dynamic.worker.core.request import Work, next_request, write_json
from tcready.dynamic.worker.proof import trials
from tcready.dynamic.worker.proof.smaller_cases import ROUNDS, Smallest, compare_calls, make_calls
from tcready.dynamic.worker.proof.variations import GIVEN
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.schema.codec import from_json
from tcready.schema.observation import Observation
from tcready.schema.proof import Counterexample, ProofRequest, ProofResult, Trial, Variant

POLL = 0.02
SEARCH = 60.0
"""The most seconds in which smaller inputs are searched."""
LEAST = 40.0
"""The least seconds of each process."""
_T = TypeVar("_T", ProofResult, Trial, Smallest)


def run(work: Work, request: ProofRequest, room: Path, fresh: Callable[[], Context]) -> None:
    """Answer the request, and leave `result.json` in `room`, complete after each variant.

    `fresh` makes the context of one process. If requests follow each other, a file `done-N` means that the N-th was
    answered, and `request-N.json` is the next one; the sender of the requests ends the process.
    """
    journal = Journal(work, None, str(room / "state.json"))
    dynamo.loaded()  # once, for every process that is copied from this one
    known: _Known | None = None
    number = 0
    while True:
        known = _answer_request(work, request, room, fresh, journal, known)
        if not request.stays:
            break
        request = next_request(ProofRequest, room, number)
        number += 1
    journal.close()


@dataclass(frozen=True)
class _Known:
    """The results of the unmodified code, and the request for them."""

    request: ProofRequest
    result: ProofResult

    def covers(self, other: ProofRequest) -> bool:
        """Return whether the results include everything that another request needs."""
        mine = self.request
        return (
            self.result.failure is None
            and (mine.seeds, mine.modes, mine.seconds) == (other.seeds, other.modes, other.seconds)
            and set(mine.functions) >= set(other.functions)
            and set(mine.tests) >= set(other.tests)
            and set(mine.statements) >= set(other.statements)
            and set(mine.constants) >= set(other.constants)
        )


def _answer_request(
    work: Work, request: ProofRequest, room: Path, fresh: Callable[[], Context], journal: Journal, known: _Known | None
) -> _Known:
    """Answer one request. Known results of the unmodified code are used again if they suffice."""
    began = time.monotonic()
    trace = room / "trace.pt"

    def share(left: int) -> float:
        return max(LEAST, (work.options.timeout - (time.monotonic() - began)) / (left + 1))

    if known is None or not known.covers(request):
        journal.begin("import", "proof: calls of the unmodified code, with varied inputs")
        known = _call_unmodified(work, request, room, fresh, trace, share(len(request.variants)))
    result = known.result
    first_request, variants = known.request, request.variants
    write_json(str(room / "result.json"), result)
    for number, variant in enumerate(variants):
        if result.failure is not None:
            break
        journal.write(f"proof: {variant.name}", number, len(variants))
        trial = _try_variant(
            variant,
            functools.partial(_after, fresh, first_request, variant, trace),
            room / f"trial-{number}.json",
            work,
            share(len(variants) - number),
        )
        if trial.unsettled:
            wide = trace.with_name("wide.pt"), room / f"wide-{number}.pt"
            for of, path in zip((None, variant), wide, strict=True):
                if not path.exists() or of is not None:
                    _in_child(
                        ProofResult,
                        path.with_suffix(".json"),
                        functools.partial(_call_widely, fresh, first_request, of, trace, path),
                        work.root,
                        share(len(variants) - number),
                        lambda why, _: ProofResult(failure=why),
                    )
            trial = _try_variant(
                variant,
                functools.partial(_after, fresh, first_request, variant, trace, wide),
                room / f"trial-{number}.json",
                work,
                share(len(variants) - number),
            )
            wide[1].unlink(missing_ok=True)
        if first_request.seeks_smallest and trial.failing is not None:
            journal.write(f"proof: the smallest inputs with which {variant.name} differs")
            until = time.monotonic() + min(SEARCH, share(len(variants) - number))
            trial = replace(trial, counterexample=_smallest(fresh, first_request, variant, trial, trace, work, until))
        result = replace(result, trials=(*result.trials, trial))
        write_json(str(room / "result.json"), result)
    return known


def _call_unmodified(
    work: Work, request: ProofRequest, room: Path, fresh: Callable[[], Context], trace: Path, seconds: float
) -> _Known:
    """Run the unmodified code. If a kernel fails on an accelerator, its process cannot continue there, and another one
    makes the calls, without the inputs that caused the failure."""
    until = time.monotonic() + seconds
    trace.with_name("wide.pt").unlink(missing_ok=True)
    while True:
        found = _in_child(
            ProofResult,
            room / "before.json",
            functools.partial(_before, fresh, request, trace),
            work.root,
            max(until - time.monotonic(), LEAST),
            lambda why, _: ProofResult(failure=why),
        )
        if found.lost is None:
            return _Known(request, found)
        if found.lost == GIVEN or time.monotonic() > until:
            why = f"a kernel failed on the device, with inputs {found.lost}"
            return _Known(request, replace(found, failure=why))
        request = replace(request, without=(*request.without, found.lost))


def _before(fresh: Callable[[], Context], request: ProofRequest, trace: Path) -> ProofResult:
    return trials.before(fresh(), request, trace)


def _try_variant(variant: Variant, after: Callable[[], Trial], path: Path, work: Work, seconds: float) -> Trial:
    """Return the trial of a variant, from a separate process."""
    return _in_child(Trial, path, after, work.root, seconds, functools.partial(_without_answer, work, variant))


def _after(
    fresh: Callable[[], Context], request: ProofRequest, variant: Variant, trace: Path, wide: Sequence[Path] = ()
) -> Trial:
    return trials.after(fresh(), request, variant, trace, wide)


def _call_widely(
    fresh: Callable[[], Context], request: ProofRequest, variant: Variant | None, trace: Path, path: Path
) -> ProofResult:
    return trials.call_widely(fresh(), request, variant, trace, path)


def _smallest(
    fresh: Callable[[], Context],
    request: ProofRequest,
    variant: Variant,
    trial: Trial,
    trace: Path,
    work: Work,
    until: float,
) -> Counterexample | None:
    """Return the call that a trial failed in with the smallest inputs that were found; None if a model in its initial
    state does not show the difference."""
    call, differs = trial.failing, trial.differs
    assert call is not None
    assert differs is not None
    best, tried = Smallest(), 0
    path = trace.with_name("smaller.pt")
    for number in range(ROUNDS):
        path.unlink(missing_ok=True)
        calls = (
            lambda: make_calls(fresh(), request, call, trace, best.steps, path),  # noqa: B023 - made in this round
            lambda: compare_calls(fresh(), request, variant, call, differs, trace, path),
        )
        found = Smallest()
        for each in calls:
            left = max(until - time.monotonic(), 1.0)
            found = _in_child(
                Smallest, trace.with_name("smaller.json"), each, work.root, left, lambda _why, _late: Smallest()
            )
        tried += found.tried
        if found.case is None or (number and found.steps == best.steps):
            break
        best = found
        if time.monotonic() > until:
            break
    path.unlink(missing_ok=True)
    return replace(best.case, tried=tried) if best.case is not None else None


def _without_answer(work: Work, variant: Variant, why: str, is_late: bool) -> Trial:
    blank = Observation(work.target, None, work.options.mode, (), None)
    if is_late:
        return Trial(variant.name, blank, unanswered=why)
    return Trial(variant.name, blank, difference=why, differs="exception")


def _in_child(
    kind: type[_T], path: Path, work: Callable[[], _T], root: str, seconds: float, failed: Callable[[str, bool], _T]
) -> _T:
    """Return the result of `work` in a copy of this process. If there is none, return the result of `failed`, which
    gets the reason and whether the time was over."""
    why = path.with_suffix(".why")
    for each in (path, why):
        each.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            write_json(str(path), work())
            code = 0
        except BaseException as error:
            write_json(str(why), one_line(error, root))
            traceback.print_exc()
            sys.stdout.flush()
            code = 1
        os._exit(code)
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return failed(f"no answer within {seconds:.0f} s; --timeout SECONDS gives more", True)
        time.sleep(POLL)
    if path.exists():
        return from_json(kind, json.loads(path.read_text(encoding="utf-8")))
    if os.WIFSIGNALED(status):
        return failed(f"the process died by {signal.Signals(os.WTERMSIG(status)).name}", False)
    reason = f": {json.loads(why.read_text('utf-8'))}" if why.exists() else ""
    return failed(f"the process that tried the change failed{reason}", False)
