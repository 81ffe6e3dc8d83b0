"""Choose which parts to compile: prove regions alone, execute placements as they are printed, and pick the best one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tcready.dynamic.worker.core.budget import begins, spent
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import BUDGET_SPENT, counted, one_line
from tcready.dynamic.worker.core.step import Step
from tcready.dynamic.worker.core.toolchain import missing_toolchain
from tcready.dynamic.worker.measure import gradients
from tcready.dynamic.worker.measure.dispatch_counts import below
from tcready.dynamic.worker.measure.inductor_seconds import InductorClock, excluded
from tcready.dynamic.worker.plan.choice import (
    HOT,
    NEAR,
    SETTING,
    SteadyTimes,
    choose,
    quickest,
    smallest_of,
    worth_timing,
)
from tcready.dynamic.worker.plan.disabling import disabling_code
from tcready.dynamic.worker.plan.function_trials import function_trials
from tcready.dynamic.worker.plan.placements import ExpectedOutputs, Measured, measure, raises_with_inductor
from tcready.dynamic.worker.plan.region_trials import (
    CAPTURING,
    ISOLATED,
    MOSTLY,
    proved_groups,
    proved_regions,
    repeated_groups,
)
from tcready.dynamic.worker.plan.rollback import PRODUCTION, ROLLBACK, checkpoint, production_fails, rollback_fails
from tcready.dynamic.worker.torch_internals import dynamo
from tcready.dynamic.worker.torch_internals.compile_calls import (
    has_nested_regions,
    isolates_recompiles,
    takes_recompile_limit,
)
from tcready.portable.compile_code import Tree, accessor, compiling, is_bare_leaf, node_of, tree_of, with_option
from tcready.portable.target import Target
from tcready.schema.enums import PLACEMENT_WORDS, PlacementName
from tcready.schema.observation import ModuleShare
from tcready.schema.run import Placement, Plan, RegionTrial
from torch import nn

RAISED_LIMIT = 64
"""The recompile limit that is tried if a function reaches the default of 8."""
LARGE = 0.2
"""The lines of a region with a larger share of the operations are executed by themselves. The shares of others are
taken from a run with all regions and one with none."""
DOUBT = 0.01
"""If a share that was taken from these two may be off by more, the lines are executed by themselves as well."""


@dataclass
class _Study:
    """The results of the stage. After each step the plan so far is in the journal."""

    context: Context
    expected: ExpectedOutputs
    tree: Tree
    placements: list[Placement] = field(default_factory=list)
    measured: dict[str, Measured] = field(default_factory=dict)
    """By the executed code."""
    forwards: dict[str, Measured] = field(default_factory=dict)
    """The same without a training step."""
    regions: list[RegionTrial] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    clock: InductorClock | None = None
    times: SteadyTimes = field(default_factory=SteadyTimes)

    def note(self, doing: str) -> bool:
        """Announce the next step. If the budget is spent, return False and report the step as cut."""
        if spent(self.context):
            self.cut.append(f"{BUDGET_SPENT} before this was tried: {doing}")
            return False
        journal = self.context.journal
        journal.add(plan=self.plan((*self.cut, f"the run ended during {doing}")))
        journal.write(f"plan, {doing}")
        return True

    def run(self, code: str) -> Measured:
        if code not in self.measured:
            self.measured[code] = measure(self.context, code, self.expected)
        return self.measured[code]

    def run_forward(self, code: str) -> Measured:
        """Measure only shares: of lines that were trained together with others, or that compile nothing."""
        if code in self.measured:
            return self.measured[code]
        if code not in self.forwards:
            self.forwards[code] = measure(self.context, code, replace(self.expected, steps=()))
        return self.forwards[code]

    def place(self, name: PlacementName, code: str, reason: str = "") -> Placement | None:
        """Execute and measure a placement; None if the budget is spent."""
        if not self.note(PLACEMENT_WORDS[name]):
            return None
        found = _placement(name, code, self.run(code), reason)
        if self.clock is not None and found.sound:
            found = self.clock.timed(self.context, found)
        self.placements.append(found)
        return found

    def plan(self, cut: Sequence[str], **more: Any) -> Plan:
        best = choose(self.placements, self.times)
        regions = tuple(self.regions)
        if best is None:
            tried = bool(self.placements)
            why = (
                "every placement that was tried raised, differed from eager, compiled again on identical calls or put "
                "nothing in graphs"
                if tried
                else "nothing was tried"
            )
            return Plan(
                "eager" if tried else "none", "", None, why, tuple(self.placements), regions=regions, cut=tuple(cut)
            )
        placement = best.placement
        return Plan(
            placement.name,
            placement.code,
            placement.share,
            best.reason,
            tuple(self.placements),
            time_share=placement.time_share,
            graphs=placement.graphs,
            recompiles=placement.recompiles,
            compile_seconds=placement.compile_seconds,
            parity=placement.parity,
            state_dict_changes=placement.state_dict_changes,
            regions=regions,
            cut=tuple(cut),
            chosen_by=best.chosen_by,
            **more,
        )


def run(context: Context) -> None:
    """Run the stage. Errors end the stage but not the run."""
    journal = context.journal
    if not begins(context, "plan", "plan"):
        return
    try:
        tree = tree_of(node_of(module) for module in journal.observation.modules)
        study = _Study(context, _eager_results(context), tree)
        with contextlib.ExitStack() as stack:
            if context.work.options.backend:
                study.clock = stack.enter_context(InductorClock.of(context))
                if study.clock is None:
                    study.cut.append("seconds with Inductor: its toolchain is not here")
            _try_placements(study)
            _time(study)
            _try_settings_with_inductor(study)
            journal.add(plan=_complete_plan(study))
    except Exception as error:
        journal.end("fail", one_line(error, context.work.root), "error")
        return
    finally:
        dynamo.reset()
    plan = journal.observation.plan
    if plan is not None and plan.recommended == "none" and not plan.regions:
        journal.end("not_run", f"{BUDGET_SPENT} before anything was tried", "budget")
    else:
        journal.end("pass", _summary(plan))


def _eager_results(context: Context) -> ExpectedOutputs:
    """Return the results of eager code; empty if `parity` found that nothing can be compared."""
    parity = context.journal.done.get("parity")
    comparable = parity is None or parity.reason != "not_comparable"
    steps = [step for step in context.eager_steps if isinstance(step, gradients.Trained)]
    if len(steps) < len(context.cases):
        steps = []
    return ExpectedOutputs(context.eager_outcomes if comparable else None, steps)


def _try_placements(study: _Study) -> None:
    """Try every placement, each based on the results of the earlier ones."""
    whole = _whole(study)
    clean = _is_clean(whole)
    if whole is not None and not clean:
        if study.measured[whole.code].limit:
            limit = f"recompile_limit={RAISED_LIMIT}"
            code = (
                with_option(whole.code, limit)
                if takes_recompile_limit()
                else f"{SETTING}recompile_limit = {RAISED_LIMIT}\n{whole.code}"
            )
            raised = study.place("whole", code, "with a higher recompile limit")
            if raised is not None and raised.sound and (raised.share or 0.0) > (whole.share or 0.0):
                whole = raised
        capturing = study.place("whole", CAPTURING + whole.code, "with numbers and sizes that depend on data in graphs")
        if capturing is not None and _is_clean(capturing):
            study.regions.append(_whole_region(capturing))
        if _splits_callers(whole):
            study.place(
                "whole", f"{SETTING}nested_graph_breaks = True\n{whole.code}", "with callers split at their calls"
            )
    if clean and whole is not None:
        study.regions.append(_whole_region(whole))
        trials = proved_groups(study.context, study.tree, repeated_groups(study.tree))
    else:
        trials = proved_regions(study.context, study.tree, study.tree.children[""])
    if study.note("regions alone"):
        for trial in trials:
            study.regions.append(trial)
            if not study.note("the next region"):
                break
    if not clean:
        _regions(study, whole)
        if study.note("functions"):
            known = {name for trial in _proved_modules(study) for name in trial.modules}
            study.regions += function_trials(study.context, known, study.run)
    blocks = [
        trial
        for trial in _proved_modules(study)
        if len(trial.modules) > 1 and not all(is_bare_leaf(study.tree, name) for name in trial.modules)
    ]
    if blocks:
        code = _join_lines(blocks)
        if study.place("repeated_blocks", code) is not None and clean:
            _as_pasted(study, study.measured[code])
        own = [trial for trial in blocks if study.tree.modules[trial.modules[0]].code is not None]
        if own and has_nested_regions() and whole is not None:  # a class of torch's own is everybody's
            study.place("nested", _place_nested(study, own, whole))
    if not clean and whole is not None:
        disabling = disabling_code(study.context, whole.code)
        if disabling is not None:
            study.place("disable", disabling)


def _is_clean(whole: Placement | None) -> bool:
    return whole is not None and whole.sound and not whole.break_sites and (whole.share or 0.0) >= 1.0


def _splits_callers(whole: Placement) -> bool:
    """Return whether there are more graphs than the breaks alone make, because callers meet them too, and a setting
    that is off lets a break split its callers at their calls."""
    return dynamo.flags().get("nested_graph_breaks") is False and (whole.graphs or 0) > (whole.break_sites or 0) + 1


def _whole(study: _Study) -> Placement | None:
    """Place the whole model: in place if that captures as much as `torch.compile(model)` does."""
    observed = study.context.journal.observation
    root = study.tree.modules[""]
    in_place = compiling("model", own=root.code is not None)
    codes = [in_place] if observed.modules else []
    if not study.note("the whole model"):
        return None
    plain = observed.coverage.share if observed.coverage else 0.0
    first = study.run(codes[0]) if codes else None
    if first is None or first.error or (first.coverage.share if first.coverage else 0.0) < plain - NEAR / 2:
        codes += ["model.forward = torch.compile(model.forward)"] if codes else []
        codes.append(f"model = torch.compile(model){_comment_on_target(study.context)}")
    for code in codes:
        study.run(code)
    best = max(codes, key=lambda code: _share(study.measured[code]))
    return study.place("whole", best)


def _comment_on_target(context: Context) -> str:
    """Return a comment that says what `model` is if it is not a module."""
    name = Target.parse(context.work.target).name or ""
    *_, last = name.split(".")
    if context.journal.observation.modules or not last.isidentifier():
        return ""
    return f"  # model: the method `{last}` of a model" if "." in name else f"  # model: the function `{last}`"


def _share(found: Measured) -> float:
    return -1.0 if found.error or found.coverage is None else found.coverage.share


def _whole_region(whole: Placement) -> RegionTrial:
    return RegionTrial(
        "",
        ("",),
        "proved",
        "compiled whole: all operations in graphs"
        + (", the outputs of eager" if whole.parity else ", outputs not comparable"),
        whole.code,
        ops_share=whole.share,
        time_share=whole.time_share,
        parameter_share=1.0,
        compilations=1,
    )


def _proved_modules(study: _Study) -> list[RegionTrial]:
    """Return the proved modules, except the root."""
    return [trial for trial in study.regions if trial.state == "proved" and any(trial.modules)]


def _regions(study: _Study, whole: Placement | None) -> None:
    """Place all proved regions; if that captures more, also the operations that compiling the whole model leaves out."""
    code = limit = ""
    while proved := _proved_modules(study):
        if not study.note("the regions together"):
            return
        code, limit = _join_lines(proved), ""
        together = study.run(code)
        # The limit counts by code: several regions of one class, Conv1d for one, share it.
        if together.limit and isolates_recompiles():
            together, code = _isolate_regions(study, together, code)
            proved = _proved_modules(study)
        if together.limit:
            line = f"{SETTING}recompile_limit = {sum(len(trial.modules) for trial in proved)}\n"
            raised = study.run(line + code)
            if _share(raised) > _share(together):
                together, code, limit = raised, line + code, line
        opened = _as_pasted(study, together)
        if not opened and _join_lines(_proved_modules(study)) == _join_lines(proved):
            break
        study.regions += proved_regions(study.context, study.tree, opened)
    if not proved:
        return
    best, reason = code, ""
    if whole is not None and whole.sound:
        missed = [trial for trial in proved if _misses_operations(study, whole, trial)]
        both = limit + _add_parts(whole.code, missed)
        if missed and study.note("the whole model and what it leaves out"):
            found = study.run(both)
            if found.against is None and _share(found) > _share(study.run(best)) + NEAR:
                best, reason = both, "the whole model, and the parts that it leaves out"
    study.place("regions", best, reason)


def _isolate_regions(study: _Study, together: Measured, code: str) -> tuple[Measured, str]:
    """Isolate regions with a compilation that serves no two instances, if that captures more than the executed code."""
    apart = {
        trial.name: replace(trial, code=with_option(trial.code, ISOLATED))
        for trial in _proved_modules(study)
        if (trial.compilations or 0) >= len(trial.modules) and ISOLATED not in trial.code
    }
    isolated = _join_lines([apart.get(trial.name, trial) for trial in _proved_modules(study)])
    found = study.run(isolated)
    if _share(found) <= _share(together):
        return together, code
    study.regions = [apart.get(trial.name, trial) for trial in study.regions]
    return found, isolated


def _as_pasted(study: _Study, together: Measured) -> list[str]:
    """Set the shares of each region to those that its lines captured in the whole model. A region that does not work
    there, or with lines that captured less, is refuted; return the modules in it, to be tried themselves."""
    opened = _failing_in_the_model(study, together)
    if opened or together.error or together.coverage is None:
        return opened
    only = len(_proved_modules(study)) == 1
    sums = _Sums(together, together if only else _eager(study) or together)
    doubt = sums.doubt([name for trial in _proved_modules(study) for name in trial.modules])
    for index, trial in enumerate(study.regions):
        if trial.state != "proved" or not trial.name:
            continue
        shares = replace(trial, ops_share=sums.ops_share(trial.modules), time_share=sums.time_share(trial.modules))
        share = shares.ops_share or 0.0
        alone = share > LARGE or share * doubt > DOUBT or sums.lent(trial.modules)
        if not only and alone and study.note(f"{trial.name} in the whole model"):
            pasted = study.run_forward(trial.code)
        else:
            pasted = together if only else Measured()
        if pasted.coverage is not None:
            shares = replace(shares, ops_share=pasted.coverage.share, time_share=pasted.coverage.time_share)
        ops, captured = sums.inside(trial.modules)
        if captured < MOSTLY * ops:
            why = f"in the whole model these lines put {captured} of its {ops} operations in graphs"
            shares = replace(shares, state="refuted", reason=why)
            opened += (child for name in trial.modules for child in study.tree.children[name])
        study.regions[index] = shares
    return opened


def _failing_in_the_model(study: _Study, together: Measured) -> list[str]:
    """Refute each region with lines that alone do not work in the whole model, if all together do not: its caller may
    train it differently than its own calls show. Return the modules in it."""
    opened: list[str] = []
    if together.against is None:
        return opened
    only = len(_proved_modules(study)) == 1
    for index, trial in enumerate(study.regions):
        if trial.state != "proved" or not trial.name:
            continue
        if not only and not study.note(f"{trial.name} in the whole model"):
            break
        why = (together if only else study.run(trial.code)).against
        if why is not None:
            study.regions[index] = replace(trial, state="refuted", reason=f"in the whole model it {why}")
            opened += (child for name in trial.modules for child in study.tree.children[name])
    return opened


def _eager(study: _Study) -> Measured | None:
    """Measure the unmodified model like placements; None if that fails."""
    if not study.note("the model as it is"):
        return None
    found = study.run_forward("")
    return found if found.modules else None


class _Sums:
    """Estimates of compiling some modules and no others: these as with all regions compiled, everything else as with
    none. The operations may differ: compiled code may compute values that eager code finds in a cache."""

    def __init__(self, together: Measured, eager: Measured) -> None:
        self.together = {module.name: module for module in together.modules}
        self.eager = {module.name: module for module in eager.modules}
        self.called = together.called

    def inside(self, names: Iterable[str]) -> tuple[int, int]:
        """Return the operations of modules, with all regions compiled: all, and those in graphs."""
        own = [self.together[name] for name in names if name in self.together]
        return sum(module.ops or 0 for module in own), sum(module.ops_captured or 0 for module in own)

    def ops_share(self, names: Sequence[str]) -> float:
        total = self._sum(names, lambda module: module.ops)
        return self._sum(names, lambda module: module.ops_captured) / total if total else 0.0

    def time_share(self, names: Sequence[str]) -> float | None:
        """Return the share of time. Both parts are from one measurement: on a busy machine another one differs by more
        than a region holds."""
        compiled, eager_seconds = self.together[""].seconds, self.eager[""].seconds
        if not compiled or not eager_seconds:
            return None
        names = [name for name in names if name in self.together]
        captured = sum(self.together[name].seconds_captured or 0 for name in names)
        compiled_anyway = (self.eager[""].seconds_captured or 0) - sum(
            self.eager[name].seconds_captured or 0 for name in names
        )
        return captured / compiled + compiled_anyway / eager_seconds

    def doubt(self, names: Sequence[str]) -> float:
        """The difference between the measurement of all compiled modules and their sum, as a part of all operations."""
        total = self.together[""].ops or 0
        return abs(self._sum(names, lambda module: module.ops) - total) / total if total else 0.0

    def lent(self, names: Iterable[str]) -> bool:
        """Return whether graphs of these modules hold operations of others, or the reverse."""
        names = [name for name in names if name in self.together]
        called: int = sum(below(self.called, name) for name in names)
        return called != self.inside(names)[1]

    def _sum(self, names: Iterable[str], of: Callable[[ModuleShare], float | None]) -> float:
        changes = (
            (of(self.together[name]) or 0) - (of(self.eager[name]) or 0) for name in names if name in self.together
        )
        return (of(self.eager[""]) or 0) + sum(changes)


def _misses_operations(study: _Study, whole: Placement, trial: RegionTrial) -> bool:
    """Return whether compiling the whole model leaves operations of a region out of graphs."""
    modules = {module.name: module for module in study.measured[whole.code].modules}
    return any(
        (modules[name].ops_captured or 0) < (modules[name].ops or 0) for name in trial.modules if name in modules
    )


def _join_lines(trials: Iterable[RegionTrial]) -> str:
    """Return the lines of all, settings first, each once."""
    lines = [line for trial in trials for line in trial.code.splitlines()]
    settings = dict.fromkeys(line for line in lines if line.startswith(SETTING))
    codes = dict.fromkeys(
        "\n".join(line for line in trial.code.splitlines() if not line.startswith(SETTING)) for trial in trials
    )
    return "\n".join([*settings, *codes])


def _add_parts(whole: str, trials: Sequence[RegionTrial]) -> str:
    """Return the code for the whole model and for the parts that it leaves out; settings come first."""
    lines = _join_lines(trials).splitlines()
    settings = [line for line in lines if line.startswith(SETTING)]
    return "\n".join([*settings, whole, *(line for line in lines if line not in settings)])


def _place_nested(study: _Study, blocks: Sequence[RegionTrial], whole: Placement) -> str:
    """Place `nested_compile_region`: each repeated block is traced once and repeated, inside one graph."""
    types = {name: module.type for name, module in study.tree.modules.items()}
    lines = []
    for number, trial in enumerate(blocks):
        name = f"block{number or ''}"
        lines.append(f"{name} = type({accessor(trial.modules[0], types)})")
        lines.append(f"{name}.forward = torch.compiler.nested_compile_region({name}.forward)")
    return "\n".join([*lines, whole.code])


def _placement(name: PlacementName, code: str, found: Measured, reason: str) -> Placement:
    covered = found.coverage
    measured = found.error is None
    return Placement(
        name,
        code,
        (covered.share if covered else 0.0) if measured else None,
        found.graphs if measured else None,
        found.recompiles if measured else None,
        (found.difference is None) if found.compared else None,
        found.against or reason,
        sound=found.against is None,
        time_share=covered.time_share if measured and covered else None,
        break_sites=len(found.sites) if measured else None,
        compile_seconds=round(found.compile_seconds, 3) if measured else None,
        steady_seconds=round(found.steady_seconds, 6) if measured else None,
        backend="eager",
        state_dict_changes=found.keys,
    )


def _time(study: _Study) -> None:
    """Measure steady times of the placements between which they decide."""
    placements = worth_timing(study.placements)
    if not study.context.work.options.backend:
        study.times = SteadyTimes(missing="the backend was not run (--backend)")
    elif study.clock is None:
        study.times = SteadyTimes(missing="Inductor's toolchain is not here")
    elif not placements:
        return
    elif not study.note("steady times"):
        study.times = SteadyTimes(missing=BUDGET_SPENT)
    else:
        study.times = study.clock.in_turn(study.context, placements)
    study.placements = [
        item if seconds is None else replace(item, in_turn_seconds=round(seconds, 6))
        for item in study.placements
        for seconds in [study.times.median(item)]
    ]


def _try_settings_with_inductor(study: _Study) -> None:
    """Compile the recommended lines with Inductor if they change settings of Dynamo, and reject what raises.

    Inductor cannot generate code for each graph with numbers and sizes that depend on data (measured with torch 2.11).
    With `--backend` it compiled every placement already.
    """
    context = study.context
    while not context.work.options.backend:
        best = choose(study.placements, study.times)
        if best is None or SETTING not in best.placement.code:
            return
        if missing_toolchain(context.work.options.device, context):
            study.cut.append("the recommended lines with Inductor: its toolchain is not here")
            return
        if not study.note("the recommended lines with Inductor"):
            return
        failure = raises_with_inductor(context, best.placement.code, study.expected)
        if failure is None:
            return
        study.placements = [excluded(each, failure) if each is best.placement else each for each in study.placements]


def _complete_plan(study: _Study) -> Plan:
    """Complete the plan with the smallest and quickest placements, and with the rollback, all tried."""
    smallest = None
    trials = smallest_of([trial for trial in study.regions if trial.state == "proved" and trial.modules])
    if trials and study.note("the smallest placement"):
        code = _join_lines(trials)
        smallest = _placement("regions" if trials[0].name else "whole", code, study.run(code), "")
        smallest = smallest if smallest.sound and (smallest.time_share or 0.0) >= HOT else None
    study.regions = [replace(trial, parameter_share=share) for trial, share in _with_parameters(study)]
    best = choose(study.placements, study.times)
    rollback = production = saved = ""
    if best is not None and study.note("the way back to eager, the lines for production, checkpoints"):
        rollback = _unless(study, "the way back", rollback_fails(study.context, best.placement.code), ROLLBACK)
        failure = production_fails(study.context, best.placement.code, study.expected.outcomes)
        saved = checkpoint(study.context, best.placement.code)
        production = _unless(study, "the lines for production", failure, PRODUCTION)
    return study.plan(
        study.cut,
        **(
            {
                "rollback": rollback,
                "production": production,
                "checkpoint": saved,
                "smallest": smallest,
                "quickest": quickest(study.placements),
            }
            if best is not None
            else {}
        ),
    )


def _unless(study: _Study, what: str, failure: str | None, text: str) -> str:
    if failure is None:
        return text
    study.cut.append(f"{what}: {failure}")
    return ""


def _with_parameters(study: _Study) -> Iterable[tuple[RegionTrial, float | None]]:
    """Return each region with its share of the model's parameters; parameters of several modules count once."""
    model = study.context.build()
    if not isinstance(model, nn.Module):
        return [(trial, None) for trial in study.regions]
    sizes = {id(parameter): parameter.numel() for parameter in model.parameters()}
    total = sum(sizes.values())
    found = []
    for trial in study.regions:
        own = {id(p) for name in trial.modules for p in model.get_submodule(name).parameters()}
        found.append((trial, sum(sizes[key] for key in own) / total if total else None))
    return found


def _summary(plan: Plan | None) -> str:
    if plan is None:
        return ""
    proved = sum(trial.state == "proved" for trial in plan.regions)
    refuted = sum(trial.state == "refuted" for trial in plan.regions)
    best = PLACEMENT_WORDS[plan.recommended]
    best += "" if plan.share is None else f", {plan.share:.1%} of the operations"
    placements = counted(len(plan.alternatives), "placement")
    return f"{placements} tried: {best}; {counted(proved, 'region')} proved, {refuted} refuted"


STEP = Step("plan", run, requires=("eager",), is_requested=lambda context: context.work.options.plan, needs_values=True)
