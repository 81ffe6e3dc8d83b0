"""Each target with its verdict and its regions: first those that ran, then those known from the source only."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tcready.merge import regions
from tcready.merge.findings import harmless_in
from tcready.merge.observed_run import Run
from tcready.merge.source_lines import Code
from tcready.merge.straight_line_regions import stretches
from tcready.merge.verdict import failed_to_compile, is_whole, verdict_of
from tcready.portable.compile_code import Place
from tcready.portable.target import Target
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import STAGES, Mode
from tcready.schema.observation import ModuleShare, Observation, Stage, holds_for
from tcready.schema.report import Region, TargetReport
from tcready.schema.static import Finding, StaticTarget
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.run import Intent

_SHOWN = 3
"""Maximum number of unresolved members that are named."""


def reports_of(
    static: Sequence[StaticTarget], runs: Sequence[Run], findings: Sequence[Finding], code: Code
) -> tuple[TargetReport, ...]:
    by_code: dict[Place, set[str]] = defaultdict(set)
    for target in static if runs else ():  # finding where code begins means parsing it
        for module in target.modules:
            place = code.place(module.path, module.line)
            if place is not None:
                by_code[place].update(module.breaks)
    # A file that by a convention says what its model is asks about that model: its other classes are parts.
    files = {Target.place_in(run.target) for run in runs if run.observation.inputs_from == "convention"}
    covered = {target.target for target in static if Target.place_in(target.target) in files}
    in_file: dict[str, list[StaticTarget]] = defaultdict(list)
    by_root: dict[Place | None, list[str]] = defaultdict(list)
    for target in static if runs else ():
        in_file[Target.place_in(target.target)].append(target)
        by_root[_root(target, code)].append(target.target)
    known = _Known.of(findings)
    reports = []
    for run in runs:
        ran = {place for m in run.modules if (place := code.place(m.path, m.line)) is not None}
        near = in_file.get(Target.place_in(run.target), ())
        same = [target for target in near if _is_target(target, run, code)]
        own = next((target for target in same if run.observation.mode in target.modes), same[0] if same else None)
        ran |= {place for m in (own.modules if own else ()) if (place := code.place(m.path, m.line)) is not None}
        covered.update(name for place in ran for name in by_root.get(place, ()))
        covered.update((own.target,) if own is not None else ())
        reports.append(_observed_target(run, own, known, by_code, code))
    alone = (_static_target(target, known) for target in static if target.target not in covered)
    return (*reports, *alone)


@dataclass(frozen=True)
class _Known:
    """The findings of a report, indexed, so that no run looks at all of them: there may be thousands of runs."""

    by_print: Mapping[str, Sequence[Finding]]
    by_path: Mapping[str, Sequence[Finding]]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> _Known:
        by_print: dict[str, list[Finding]] = defaultdict(list)
        by_path: dict[str, list[Finding]] = defaultdict(list)
        for finding in findings:
            by_path[finding.path].append(finding)
            for print_ in (finding.fingerprint, *finding.also):
                by_print[print_].append(finding)
        return cls(by_print, by_path)


def _root(target: StaticTarget, code: Code) -> Place | None:
    """Return the location of the forward of the target's root."""
    root = next((module for module in target.modules if module.name == ""), None)
    return code.place(root.path, root.line) if root else None


def _is_target(target: StaticTarget, run: Run, code: Code) -> bool:
    """Return True if both are the same target: by name, or in one file by the location of the root's forward."""
    if target.target == run.target:
        return True
    if Target.place_in(target.target) != Target.place_in(run.target):
        return False
    root = next((module for module in run.modules if module.name == ""), None)
    place = code.place(root.path, root.line) if root else None
    return place is not None and _root(target, code) == place


def _observed_target(
    run: Run, static: StaticTarget | None, known: _Known, breaks_by_code: Mapping[Place, Collection[str]], code: Code
) -> TargetReport:
    plan = run.observation.plan
    if plan is not None and plan.regions:
        found = regions.regions_of_plan(plan.regions)
    elif run.captured and not run.nothing_to_compile and not failed_to_compile(run):
        found = _regions(run, static, known, breaks_by_code, code)
    else:
        found = ()
    verdict, reason = verdict_of(run, found)
    # after the verdict: stretches have no shares and count for none
    offered = run.captured and not failed_to_compile(run) and verdict != "ready"
    between = stretches(run, known.by_path, code) if offered else ()
    if run.observation.inputs_from == "made_up" and run.state("eager") == "pass":
        reason += "; the inputs were made up"
    limits = holds_for(run.observation)
    if limits and run.state("eager") == "pass":
        reason += f"; holds for {limits}"
    reason += _compiled_at(run.observation.compiled_at)
    return TargetReport(
        observation=as_stored(run.observation),
        verdict=verdict,
        verdict_reason=reason,
        regions=(*(_as_compiled(_as_named(region, run), run.observation.intents) for region in found), *between),
        dominator=regions.dominator(run.sites),
    )


def _regions(
    run: Run, static: StaticTarget | None, known: _Known, breaks_by_code: Mapping[Place, Collection[str]], code: Code
) -> tuple[Region, ...]:
    """Return the break-free parts of what ran, neither seen nor predicted to break; results of a clean run outweigh
    predictions."""
    seen = run.observation
    by_module = [module.breaks for module in static.modules] if static else []
    clean = run.captured and is_whole(run)
    places = {(m.path, m.line) for m in seen.modules if m.path is not None and m.line is not None}
    breaks = {place: tuple(breaks_by_code[place]) for place in places if place in breaks_by_code}
    return regions.predict_regions(
        seen.modules,
        static.modules if static else (),
        frozenset() if clean else _breaking(known, seen.target, (*by_module, *breaks.values()), seen.mode),
        sites=(*seen.break_sites, *run.troubles.resized),
        skipped=run.skipped,
        recompiles=seen.recompiles,
        breaks_by_code=breaks,
        code_ends=code.ends(places),
    )


def _as_named(region: Region, run: Run) -> Region:
    """Return the whole of a target that is not a module, with the line that compiles just that."""
    if region.name or not region.code or run.modules or run.observation.plan is not None:
        return region
    name = Target.parse(run.target).name or ""
    *_, last = name.split(".")
    if not last.isidentifier():
        return dataclasses.replace(region, code="compiled = torch.compile(function)")
    called = f"model.{last}" if "." in name else last
    return dataclasses.replace(region, code=f"{called} = torch.compile({called})")


def as_stored(seen: Observation) -> Observation:
    """Return a run as stored in a report: every stage once, without paths of the machine."""
    known = {stage.stage: stage for stage in seen.stages}
    stages = tuple(known.get(name, Stage(name, "not_run", "")) for name in STAGES)
    return dataclasses.replace(seen, stages=stages, sources=())


def _as_compiled(region: Region, intents: Iterable[Intent]) -> Region:
    """Leave a region that its author compiles already unchanged: no code is suggested for it."""
    for intent in intents:
        if region.name in intent.modules:
            return dataclasses.replace(region, code="", reason=f"compiled already by {intent.how}; {region.reason}")
    return region


def _static_target(target: StaticTarget, known: _Known) -> TargetReport:
    stages = tuple(
        Stage(name, "pass", "read, not executed") if name == "parse" else Stage(name, "not_run", "nothing was run")
        for name in STAGES
    )
    found = regions.predict_regions(
        (), target.modules, _breaking(known, target.target, (m.breaks for m in target.modules))
    )
    modules = tuple(ModuleShare(m.name, m.type, path=m.path, line=m.line) for m in target.modules)
    unresolved = tuple(
        f"{member} of {module.type}"
        for module in {each.type: each for each in target.modules}.values()
        for member in module.unknown
    )
    shown = ", ".join(unresolved[:_SHOWN]) + (", ..." if len(unresolved) > _SHOWN else "")
    return TargetReport(
        observation=Observation(
            target.target, None, target.modes[0], stages, None, modules=modules, compiled_at=target.compiled_at
        ),
        verdict="unknown",
        verdict_reason="nothing was run"
        + ("; the regions are what the source predicts" if found else "")
        + (", over both modes" if len(target.modes) > 1 else "")
        + (f", and hold for {target.dtype}" if target.dtype else "")
        + (f"; it does not show what these are: {shown}" if unresolved else "")
        + _compiled_at(target.compiled_at),
        regions=found,
        unresolved=unresolved,
        assumed_dtype=target.dtype,
    )


def _compiled_at(call: CompileCall | None) -> str:
    return f"; compiled at {call.words}" if call is not None else ""


def _breaking(
    known: _Known, target: str, predicted: Iterable[Iterable[str]], mode: Mode | None = None
) -> frozenset[str]:
    """Return those of the breaks in `predicted` (fingerprints) that count against a target's regions.

    A run that traced the line, or never reached it, shows that these inputs do not break there. Breaks of the other
    mode do not count in the run's `mode` (None: nothing was run). A break counts even if its finding is hidden, by a
    comment or by the selection of rules.
    """
    return frozenset(
        print_
        for print_ in {fingerprint for some in predicted for fingerprint in some}
        if mode is None or not any(harmless_in(f, target, mode) for f in known.by_print.get(print_, ()))
    )
