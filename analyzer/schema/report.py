"""The whole report: every format is rendered from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from tcready.schema.code_line import Frame
from tcready.schema.codec import FLAT
from tcready.schema.edit import Edit
from tcready.schema.enums import SCHEMA_VERSION, Mode, ModeAsked, RegionState, Verdict
from tcready.schema.observation import Observation, Stage
from tcready.schema.static import Finding, Noqa, RuleText, Skipped, SourceText, StaticTarget
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, Coverage
    from tcready.schema.serving import Serving
    from tcready.schema.sweep import Sweep


@dataclass(frozen=True)
class Region:
    """A part of a model that compiles whole, or does not."""

    name: str
    """Dotted name; `*` and `{0,2}` are list positions, `{a.0,b.1}` means those modules; the whole model is ""."""
    instances: int
    """Number of equal modules, which one line of code compiles; 0 if nothing was run and the source does not show
    the number."""
    state: RegionState
    reason: str
    """Why it can be compiled whole, or cannot."""
    code: str
    """The line that compiles it; empty if its author does already, or Dynamo refused it."""
    ops_share: float | None = None
    """Share of the whole call's operations."""
    time_share: float | None = None
    """Share of the time of these operations."""
    ops_captured_share: float | None = None
    """Measured: share of the region's own ops that ran inside graphs."""
    parameter_share: float | None = None
    """Share of the model's parameters, by their number."""
    compilations: int | None = None
    """Number of compilations for all instances, if it was compiled alone."""
    guards: tuple[str, ...] = ()
    """Guards that made instances recompile."""
    cure: str = ""
    """A line that was tried and reduces the number of compilations."""
    kind: Literal["modules", "function", "lines"] = "modules"
    """`lines`: a part of a function between breaks, named `Class.forward:37-43`."""
    path: str | None = None
    """For `lines`: the file."""
    line: int | None = None
    end_line: int | None = None
    edits: tuple[Edit, ...] = ()
    """For `lines`: the edits that extract it into a compiled function; empty if that is not mechanical."""
    diff: str = ""
    """The same as a diff."""


def covers(region: str, name: str) -> bool:
    """Return True if module `name` is an instance of a region.

    `layers.*` and `layers.{0,2}` cover `layers.0`, as does `{layers.0,head.1}`.
    """
    if region.startswith("{") and region.find("}") == len(region) - 1:
        return name in region[1:-1].split(",")
    wanted, given = region.split("."), name.split(".")
    return len(wanted) == len(given) and all(map(_segment_covers, wanted, given))


def _segment_covers(wanted: str, given: str) -> bool:
    if wanted.startswith("{"):
        return given in wanted[1:-1].split(",")
    return wanted in ("*", given)


@dataclass(frozen=True)
class TargetReport:
    """A target with the results of one run of it, and conclusions.

    In JSON the fields of the observation are merged into its own.
    """

    observation: Observation = field(metadata={"json": FLAT, "omit": ("schema_version", "sources")})
    """The run, with every stage; for a target that was only read, one in which no stage but `parse` ran, with the
    modules from the source."""
    verdict: Verdict
    regions: tuple[Region, ...]
    """Parts without a break; parts of functions come last and do not count for the verdict."""
    verdict_reason: str = ""
    """The verdict in one sentence, naming the stages that did not run."""
    dominator: Frame | None = field(default=None, metadata={"json": "waist"})
    """The innermost function on every path to a break, if it is not the outermost one."""
    unresolved: tuple[str, ...] = ()
    """`member of class` for each submodule that a target which was only read does not resolve: it is in no region."""
    assumed_dtype: str = ""
    """The type of numbers for which a target was only read; empty if none was given."""

    @property
    def target(self) -> str:
        return self.observation.target

    @property
    def mode(self) -> Mode:
        return self.observation.mode

    @property
    def was_run(self) -> bool:
        """Return True if anything beyond reading the source was tried."""
        return self.observation.was_run

    def with_command(self, words: tuple[str, ...]) -> TargetReport:
        """Return the same target with this command line, unless it has one already."""
        if self.observation.asked:
            return self
        return replace(self, observation=replace(self.observation, asked=words))

    # What a program asks a report for most often.

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.observation.stages

    @property
    def environment(self) -> Mapping[str, Any] | None:
        return self.observation.environment

    @property
    def coverage(self) -> Coverage | None:
        return self.observation.coverage

    @property
    def break_sites(self) -> tuple[BreakSite, ...]:
        return self.observation.break_sites


@dataclass(frozen=True)
class Tool:
    """The program that made the report."""

    name: str
    version: str


@dataclass(frozen=True)
class Checkout:
    """The git checkout that the sources were read in."""

    commit: str
    link: str | None = None
    """The page of a line at that commit, with `{path}` (relative to the working folder, percent-encoded) and
    `{line}` as placeholders; None if the remote is not known to have such pages."""
    files: tuple[str, ...] = ()
    """The report's files that are as committed: only their lines have links."""


@dataclass(frozen=True)
class Narrowed:
    """Why a report has fewer findings than were found. Verdicts, break sites and regions cover all findings."""

    baseline: str | None = None
    """The name of the baseline's file; None if there is none."""
    known: int = 0
    """Findings in the baseline, which are left out."""
    gone: int = 0
    """Entries of the baseline, in what was read or run here, without a finding."""
    diff_base: str | None = None
    """The name of the revision; None if there is none."""
    commit: str | None = None
    """The commit that lines were compared with: the merge base of the checkout and the revision."""
    unchanged: int = 0
    """Findings on lines that did not change since, which are left out."""


@dataclass(frozen=True)
class Reading:
    """How the sources were read: two readings may find different things in the same code."""

    mode: ModeAsked
    low: bool = False
    """Findings with low confidence are included."""
    plain_call: bool = False
    """A model that takes its targets was read as called without them."""
    torch: str = ""
    """The version for which Dynamo is predicted: `2.13`."""
    dtype: str = ""
    """The type that models were read as cast to: `float16`; empty without a cast."""

    def differs(self, then: Reading, modes: tuple[Mode, ...] = ()) -> str | None:
        """Return why something that the reading `then` found may be missed by this one, in a few words; None if it
        cannot.

        `modes` are those in which it was found, if `then` was in both.
        """
        wanted = set(modes) or ({"infer", "train"} if then.mode == "both" else {then.mode})
        if self.mode != "both" and not wanted <= {self.mode}:
            return f"read with --mode {then.mode} before and {self.mode} now"
        if then.low and not self.low:
            return "read with --low before and without now"
        if then.plain_call != self.plain_call:
            return "read with --plain-call " + ("before and without now" if then.plain_call else "now alone")
        if then.torch != self.torch:
            return f"read for torch {then.torch} before and {self.torch} now"
        if then.dtype != self.dtype:
            before, now = (f"--dtype {each.dtype}" if each.dtype else "no --dtype" for each in (then, self))
            return f"read with {before} before and {now} now"
        return None


@dataclass(frozen=True)
class Report:
    """The whole report; every format is rendered from this value alone."""

    tool: Tool
    findings: tuple[Finding, ...]
    targets: tuple[TargetReport, ...]
    rules: tuple[RuleText, ...]
    """The rules of the findings."""
    sources: tuple[SourceText, ...]
    """The text of each file that the report is about."""
    skipped: tuple[Skipped, ...]
    """Files that could not be read or parsed."""
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    """How much was read: `files`, `functions`, `calls`, how many of these were resolved and to what; `unresolved`
    are the constructs that were not understood, most frequent first, each with a place."""
    checkout: Checkout | None = None
    """None outside of a git checkout."""
    narrowed: Narrowed | None = None
    """None if no findings are left out."""
    predicted: tuple[StaticTarget, ...] = ()
    """Predictions from the source alone for each target: what a run that is merged later is compared with."""
    readings: tuple[Reading, ...] = ()
    """How the sources were read; several if reports were combined, none if unknown."""
    hidden: tuple[str, ...] = ()
    """Fingerprints of findings that are left out because of a comment or the selection of rules."""
    silenced: tuple[Finding, ...] = ()
    """The findings of `hidden`. If a run that is merged later shows one of them, it is not reported as new."""
    unused: tuple[Noqa, ...] = ()
    """Codes in `# noqa` comments that hide nothing, according to the source."""
    static_warnings: tuple[str, ...] | None = None
    """Those of `warnings` that are about the sources, not about a run; None in reports of an older tcready."""
    advice: tuple[RuleText, ...] = ()
    """Advice on findings that no rule predicts; `code` is the ID of the type of break in PyTorch's registry, or the
    finding's name if it has none (`recompile`)."""
    serving: Serving | None = None
    """None unless the effect of a serving engine on the findings was requested."""
    in_process: bool = False
    """It is about an object or a cell of a Python process: no command line can repeat it."""
    sweep: Sweep | None = None
    """For a sweep, the summary of all its models; None for any other report."""
    schema_version: int = SCHEMA_VERSION
