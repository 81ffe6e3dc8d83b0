"""The run, from import to parity. Read from top to bottom."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
from tcready.dynamic.worker import (
    backend,
    distributed,
    foreign,
    narrate,
    shapes,
    synthesis,
    training,
)
from tcready.dynamic.worker.convention import Convention
from tcready.dynamic.worker.foreign import Foreign
from tcready.dynamic.worker.frames import Names, line_sets
from tcready.dynamic.worker.intents import intents
from tcready.dynamic.worker.journal import NOT_ASKED, Journal, StageFailedError, counted, told
from tcready.dynamic.worker.lines import executed_lines
from tcready.dynamic.worker.ops import Clock, CountingBackend, Counts, counted_eager, module_tree
from tcready.dynamic.worker.originals import compile_callable, replaced, snapshot
from tcready.dynamic.worker.parity import compare
from tcready.dynamic.worker.request import Work, with_device
from tcready.dynamic.worker.target import (
    Case,
    RunError,
    build,
    cases,
    dtype_of,
    fresh,
    import_spec,
    inputs_of,
    lookup,
    open_path,
    parse_spec,
)
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.recording import Record, recording
from tcready.schema import (
    SYNTHESISED,
    BreakSite,
    CaseCoverage,
    Cost,
    Coverage,
    Explain,
    ShapeStudy,
    StageName,
)

SEED_CALL = 1
CALLS = ("cold", "second", "warm")
"""The calls of the compiled callable, with identical inputs; the last is the one whose dispatches count."""
QUICK = 1.0
"""Seconds of operations in the counted call below which it is measured again: the first call under a dispatch mode
pays for more than its operations."""
LIBRARIES = ("transformers", "timm", "diffusers", "torchvision", "lightning", "numpy")


@dataclass
class Run:
    """One run's fixed parts, and what its phases add up to."""

    work: Work
    journal: Journal
    names: Names
    build: Callable[[], Any]
    cases: tuple[Case, ...]
    foreign: Foreign = field(default_factory=Foreign)
    """Operators and functions of others that were met."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What `torch.compile` is called with besides the backend."""
    tolerance: tuple[float, float] | None = None
    """Of the outputs, relative and absolute; None: that of their dtype."""
    watches_lines: bool = True
    """Whether to note which lines run: it takes the place of whatever else watches them, a coverage tool."""
    extra_since: float | None = None
    """When the first phase of `Extra` began, by time.monotonic."""

    def left(self) -> float | None:
        """Seconds that are left for the phases of `Extra`, None for no limit; the first question starts the clock."""
        if self.extra_since is None:
            self.extra_since = time.monotonic()
        budget = self.work.options.budget
        if budget is None:
            return None
        return distributed.agreed(budget - (time.monotonic() - self.extra_since), self.work)

    def spent(self) -> bool:
        """Whether nothing is left of it."""
        left = self.left()
        return left is not None and left <= 0


def run(work: Work, convention: Convention | None, journal: Journal) -> None:
    """Climb from import to parity; the journal has every stage. StageFailedError where one ended it."""
    asked = work.options.device
    work = distributed.placed(with_device(work, device_of(asked)))
    journal.add(environment=environment(work))
    if work.options.shapes:
        journal.add(shapes=ShapeStudy(cut=("not run: an earlier stage failed",)))
    missing = missing_device(work.options.device)
    if missing:
        journal.skip("import", missing)
        journal.close(missing)
        return
    names = Names(work.root, work.own_packages)
    whole = snapshot()
    module, value, inputs = _import(work, convention, journal)
    this = _build(work, convention, journal, names, module, value, inputs, asked == "auto")
    journal.add(environment=environment(work))
    if patched := replaced(whole):
        more = f" and {len(patched) - 3} more" if len(patched) > 3 else ""
        journal.warn(f"the code replaces {', '.join(patched[:3])}{more}: what ran is a patched torch")
    reference = eager(this)
    _sources(this)
    foreign.tell(this)
    try:
        outputs = capture(this)
    except StageFailedError:
        _sources(this)
        _foreign(this)  # an operator without a fake kernel is often why
        raise
    fullgraph(this)
    parity(this, reference, outputs)
    training.rest(this, functools.partial(call, this))
    journal.skip("speed", NOT_ASKED)
    # The last that compile anything: they run generated and foreign code, which may end the process.
    _sources(this)  # a crash in what follows leaves them behind
    _backend(this)
    _foreign(this)
    _sources(this)
    _shapes(this)
    _sources(this)
    distributed.end(work)
    journal.close()


def _sources(this: Run) -> None:
    sources = tuple(sorted(this.names.sources.items()))
    this.journal.add(sources=sources, digests=digests(sources))


def _shapes(this: Run) -> None:
    """The shape study, where it was asked for; no stage, and the last: an index out of range may lose the device."""
    if this.work.options.shapes:
        shapes.study_shapes(
            this, functools.partial(call, this), lambda error: compile_error(error, CALLS[0], this)
        )


def _backend(this: Run) -> None:
    """The stage `backend`, where it was asked for."""
    if not this.work.options.backend:
        this.journal.skip("backend", NOT_ASKED)
        return
    backend.stage(this, functools.partial(call, this), lambda error: compile_error(error, CALLS[0], this))


def _foreign(this: Run) -> None:
    """Operators and functions of others: what is lacking of each, and what opcheck says of them."""
    foreign.functions(this, functools.partial(call, this))
    foreign.tell(this)
    foreign.check(this)


@contextlib.contextmanager
def _stage(journal: Journal, stage: StageName, root: str, note: str = "") -> Iterator[None]:
    """Whatever is raised inside fails the stage in one line and ends the run."""
    if journal.doing != stage:
        journal.begin(stage, note)
    try:
        yield
    except StageFailedError:
        raise
    except RunError as error:
        journal.end("fail", str(error))
        raise StageFailedError from error
    except BaseException as error:
        journal.end("fail", told(error, root))
        raise StageFailedError from error


def _import(work: Work, convention: Convention | None, journal: Journal) -> tuple[ModuleType, Any, Any]:
    """The target's module, the target, and what `--inputs` names (None without it)."""
    spec = parse_spec(work.target)
    with _stage(journal, "import", work.root):
        open_path(work, spec)
        module = import_spec(spec, work.root)
        name = spec.name or (convention.target if convention else None)
        if name is None:
            raise RunError(f"{spec.module}: no target: name one as {spec.module}::Name, with --inputs")
        value = lookup(module, name, spec.module)
        inputs = None
        if work.options.inputs:
            inputs_spec = parse_spec(work.options.inputs)
            if inputs_spec.name is None:
                raise RunError(
                    f"--inputs {work.options.inputs}: name what gives the inputs, as in {work.options.inputs}::name"
                )
            owner = import_spec(inputs_spec, work.root)
            inputs = lookup(owner, inputs_spec.name, inputs_spec.module)
        journal.end("pass")
    return module, value, inputs


def _build(
    work: Work,
    convention: Convention | None,
    journal: Journal,
    names: Names,
    module: ModuleType,
    value: Any,
    inputs: Any,
    device_found: bool,
) -> Run:
    made_up = work.options.synthesise and inputs is None and convention is None
    init = getattr(module, "get_init_inputs", None)
    if not callable(init):
        init = synthesis.init_of(value) if made_up else None
    with _stage(journal, "build", work.root):
        distributed.begin(work)

        def build_anew() -> Any:
            return build(value, init, work)

        model = build_anew()
        if made_up:
            journal.write("build, looking for inputs")
            made = synthesis.synthesise(model, work, lambda error: told(error, work.root))
            journal.add(convention=f"{SYNTHESISED}{made.label}")
            journal.warn(f"nobody gave the inputs: made up were {made.label}")
            given, where = made.case, made.label
        else:
            given, where = inputs_of(inputs, module, convention, lambda: model)
        found = tuple(case for case in cases(given, where, work) if case.name not in work.leave_out)
        journal.cases = tuple(case.name for case in found if case.name is not None)
        journal.end("pass", _size(model) + (f"; device auto: {work.options.device}" if device_found else ""))
    return Run(work, journal, names, build_anew, found)


def _size(model: Any) -> str:
    if not isinstance(model, torch.nn.Module):
        return f"function {getattr(model, '__name__', '')}"
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"{type(model).__name__}, {count:,} parameters"


def call(
    this: Run, function: Callable[..., Any], case: Case, *watchers: contextlib.AbstractContextManager[Any]
) -> Any:
    """One call with fresh inputs and the seed of every call; the watchers see the call and nothing else."""
    this.journal.at(case.name)
    inputs = fresh(case)
    torch.manual_seed(SEED_CALL)
    with contextlib.ExitStack() as stack:
        for watcher in watchers:
            stack.enter_context(watcher)
        if this.work.options.mode == "infer":
            stack.enter_context(torch.no_grad())
        if this.work.options.autocast:
            kind = torch.device(this.work.options.device).type
            stack.enter_context(torch.autocast(kind, dtype_of(this.work.options.autocast)))
        return function(*inputs.args, **inputs.kwargs)


def eager(this: Run) -> list[Any]:
    """The outputs of one eager call per case; lines and dispatches by module as well."""
    lines: set[tuple[str, int]] = set()
    counts = Counts()
    outputs = []
    with _stage(this.journal, "eager", this.work.root):
        for case in this.cases:
            model = this.build()
            with torch.compiler.set_stance("force_eager"):
                outputs.append(call(this, model, case, _watching(this, lines)))
                try:
                    counting = counted_eager(model, counts)
                    call(this, model, case, _watching(this, lines), counting, this.foreign.watch(case))
                except Exception as error:
                    this.journal.warn(f"operations were not counted by module: {told(error, this.work.root)}")
        this.journal.add(
            executed=line_sets(lines, this.names),
            modules=module_tree(model, counts, this.names, False),
            intents=intents(model, lines, this.names),
        )
        this.journal.end("pass")
    return outputs


def _watching(this: Run, lines: set[tuple[str, int]]) -> contextlib.AbstractContextManager[None]:
    return executed_lines(lines) if this.watches_lines else contextlib.nullcontext()


def capture(this: Run) -> list[Any]:
    """Three compiled calls, the cold one under what explain collects; the outputs of that one, per case."""
    outputs = []
    counts = Counts()
    by_case: list[tuple[Case, Counts]] = []
    splits: list[tuple[str | None, tuple[int, ...]]] = []
    traced: set[tuple[str, int]] = set()
    with _stage(this.journal, "capture", this.work.root, "capture under torch._dynamo.explain"):
        for case in this.cases:
            this.journal.write(f"capture under torch._dynamo.explain{case.label}")
            dynamo.reset()
            model = this.build()
            backend = CountingBackend(model, this.work.options.device)
            explained = dynamo.explaining(backend)
            compiled = compile_callable(
                distributed.wrapped(model, this.work), backend=explained, **this.options
            )
            cold = Record()
            for name in CALLS:
                record = cold if name == CALLS[0] else Record()
                counting = [backend.count(), this.foreign.watch(case)] if name == CALLS[-1] else []
                splitting = distributed.splitting(splits, case.name, this.work)
                try:
                    result = call(
                        this,
                        compiled,
                        case,
                        recording(record, every_guard=True),
                        splitting,
                        *counting,
                    )
                except Exception as error:
                    add(this, record, case, name)
                    raise RunError(compile_error(error, name, this)) from error
                traced |= record.traced
                add(this, record, case, name)
                if name == CALLS[0]:
                    outputs.append(result)
                    if this.journal.observation.explain is None:
                        this.journal.add(explain=_explained(explained.output()))
                    backend.owners = narrate.owners(record, this.names)
            if distributed.agreed(backend.counts.total.seconds_in_all, this.work) < QUICK:
                with contextlib.suppress(Exception):  # it ran three times before: without it, the times stand
                    call(this, compiled, case, backend.time_again())
            seen = narrate.graphs(cold, this.names, this.work.options.mode, case.name, backend.owned)
            this.journal.add(
                break_sites=with_cost(this.journal.observation.break_sites, case.name, backend.counts),
                graphs=(*this.journal.observation.graphs, *seen),
            )
            counts.add(backend.counts)
            by_case.append((case, backend.counts))
        this.journal.add(
            coverage=weighted(coverage(counts, this.work.options.device), by_case),
            ddp=distributed.observed(model, this.work, splits),
            modules=module_tree(model, counts, this.names, True),
            traced=line_sets(traced, this.names),
        )
        this.journal.end("pass", _summary(this))
    return outputs


def coverage(counts: Counts, device: str) -> Coverage | None:
    """None where the call dispatched nothing at all."""
    total, captured = counts.total.ops.total(), counts.captured.ops.total()
    spent = counts.total.seconds_in_all
    time_share = counts.captured.seconds_in_all / spent if spent else None
    return (
        Coverage(total, captured, captured / total, time_share, spent, Clock(device).name) if total else None
    )


def weighted(found: Coverage | None, by_case: Sequence[tuple[Case, Counts]]) -> Coverage | None:
    """The coverage with that of each named case, its shares over calls as frequent as the weights say."""
    if found is None or not any(case.name for case, _ in by_case):
        return found

    def over(of: Callable[[Counts], float]) -> float:
        return sum(case.weight * of(counts) for case, counts in by_case)

    told = []
    for case, counts in by_case:
        total, captured = counts.total.ops.total(), counts.captured.ops.total()
        told.append(
            CaseCoverage(case.name or "", case.weight, total, captured, captured / total if total else 0.0)
        )
    spent = over(lambda counts: counts.total.seconds_in_all)
    return replace(
        found,
        share=over(lambda counts: counts.captured.ops.total())
        / over(lambda counts: counts.total.ops.total()),
        time_share=over(lambda counts: counts.captured.seconds_in_all) / spent if spent else None,
        cases=tuple(told),
    )


def with_cost(sites: tuple[BreakSite, ...], case: str | None, counts: Counts) -> tuple[BreakSite, ...]:
    """The sites, those of `case` with what ran outside of graphs on their account in the counted call."""
    ops, seconds = counts.outside.ops, counts.outside.seconds
    return tuple(
        replace(site, cost=Cost(ops[site.path, site.line], seconds[site.path, site.line]))
        if site.case == case
        else site
        for site in sites
    )


def _explained(found: Any) -> Explain:
    """What explain makes of the graphs and reasons that it collected."""
    reasons = tuple(str(item.reason).strip().split("\n")[0] for item in found.break_reasons)
    return Explain(found.graph_count, found.graph_break_count, reasons, found.op_count)


def add(this: Run, record: Record, case: Case, phase: str) -> None:
    """Join what one call showed to the observation."""
    seen = this.journal.observation
    sites: tuple[BreakSite, ...] = narrate.break_sites(record, this.names, case.name)
    skipped = narrate.skipped_frames(record, this.names, case.name)
    known = {(frame.path, frame.line, frame.symbol, frame.case) for frame in seen.skipped_frames}
    fresh_skips = [item for item in skipped if (item.path, item.line, item.symbol, item.case) not in known]
    again = narrate.recompiles(record, this.names, case.name, phase == CALLS[-1])
    this.journal.add(
        break_sites=narrate.union_sites(seen.break_sites, sites),
        skipped_frames=(*seen.skipped_frames, *fresh_skips),
        recompiles=narrate.join_recompiles((*seen.recompiles, *again)),
    )


def compile_error(error: BaseException, name: str, this: Run) -> str:
    """Compiled code raised where eager code did not: the reason, and the user's line where one is named."""
    found = narrate.user_stack(narrate.parse_stack(str(error)))
    which = "" if name == CALLS[0] else f"the {name} compiled call raised "
    text = told(error, this.work.root)
    if found is None:
        return which + text
    path, line, symbol = found[0]
    frame = this.names.frame(path, line, symbol)
    place = f"({frame.path}:{frame.line})"
    return which + (text if text.endswith(place) else f"{text} {place}")


def _summary(this: Run) -> str:
    seen = this.journal.observation
    skipped = sum(not frame.benign for frame in seen.skipped_frames)
    parts = [
        counted(len(seen.graphs), "graph"),
        counted(len({(site.path, site.line) for site in seen.break_sites}), "break site"),
        counted(skipped, "skipped frame"),
    ]
    return ", ".join(parts)


def fullgraph(this: Run) -> None:
    """Whether one graph holds it all; where the default run broke, only if that was asked for."""
    seen = this.journal.observation
    broke = seen.break_sites or any(not frame.benign for frame in seen.skipped_frames)
    if broke and not this.work.options.fullgraph:
        this.journal.skip("fullgraph", "the default run has breaks (--fullgraph tries all the same)")
        return
    this.journal.begin("fullgraph")
    try:
        for case in this.cases:
            dynamo.reset()
            whole = compile_callable(this.build(), backend="eager", fullgraph=True, **this.options)
            call(this, whole, case)
    except Exception as error:
        this.journal.end("fail", compile_error(error, CALLS[0], this))
    else:
        this.journal.end("pass")
    finally:
        dynamo.reset()


def parity(this: Run, reference: list[Any], outputs: list[Any]) -> None:
    """Eager against compiled outputs of the same seeds and inputs."""
    this.journal.begin("parity")
    compared = 0
    told_of: list[str] = []
    for case, expected, actual in zip(this.cases, reference, outputs, strict=True):
        result = compare(expected, actual, this.tolerance)
        compared += result.tensors
        if result.difference and compare(expected, _again(this, case), this.tolerance).difference:
            this.journal.end("not_run", f"eager differs from eager under the same seeds{case.label}")
            return
        if result.difference:
            this.journal.end("fail", result.difference + case.label)
            return
    if compared:
        told_of.append(counted(compared, "tensor"))
    if this.work.options.mode == "train":
        state, detail = training.parity(this, functools.partial(call, this))
        if state == "fail":
            this.journal.end("fail", detail)
            return
        if state == "pass":
            told_of.append(detail)
    if told_of:
        this.journal.end("pass", f"{', '.join(told_of)} within tolerance")
    else:
        this.journal.end("not_run", "no tensor in the outputs")


def _again(this: Run, case: Case) -> Any:
    """The eager outputs of another build."""
    with torch.compiler.set_stance("force_eager"):
        return call(this, this.build(), case)


def device_of(asked: str) -> str:
    """The device asked for; for `auto` CUDA where it is there, else MPS, else the CPU."""
    if asked != "auto":
        return asked
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def digests(sources: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Display path and SHA-256 of each file that can be read."""
    found = []
    for shown, path in sources:
        with contextlib.suppress(OSError), open(path, "rb") as file:
            found.append((shown, hashlib.sha256(file.read()).hexdigest()))
    return tuple(found)


def missing_device(name: str) -> str | None:
    """Why the device cannot be used here, or None."""
    kind, _, number = name.partition(":")
    if kind == "meta":
        return "device meta holds no values: nothing can be compared there"
    if kind == "cpu" and number not in ("", "0"):
        return f"device {name} is not available here: there is one CPU"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).split("\n")[0]
        return f"device {name} is not available here: {first}"
    return None


def environment(work: Work) -> dict[str, Any]:
    """Versions and hardware, and the Dynamo settings in force."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "threads": torch.get_num_threads(),
        "device": work.options.device,
        "dtype": work.options.dtype,
        "autocast": work.options.autocast,
        "dynamo": dynamo.flags(),
        "packages": {name: _version(name) for name in LIBRARIES if name in sys.modules},
    }
    if work.options.device.startswith("cuda") and torch.cuda.is_available():
        found["cuda"] = torch.version.cuda
        found["gpu"] = torch.cuda.get_device_name(torch.device(work.options.device))
        found["driver"] = driver_version()
    return found


def driver_version() -> str | None:
    """The NVIDIA driver's version, as the kernel module tells it."""
    with contextlib.suppress(OSError), open("/proc/driver/nvidia/version", encoding="utf-8") as file:
        match = re.search(r"Module\s+(?:for \S+\s+)?([\d.]+)", file.read())
        return match[1] if match else None
    return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
