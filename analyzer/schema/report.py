"""The whole report: every format is rendered from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal

from tcready.schema.codec import FLAT
from tcready.schema.edit import Edit
from tcready.schema.frame import Frame
from tcready.schema.frozen import dataclass
from tcready.schema.observation import Observation, Stage
from tcready.schema.static import Finding, Noqa, RuleText, Skipped, SourceText, StaticTarget
from tcready.schema.words import SCHEMA_VERSION, Mode, ModeAsked, RegionState, Verdict

if TYPE_CHECKING:
    from tcready.schema.run import BreakSite, Coverage
    from tcready.schema.serving import Serving
    from tcready.schema.sweep import Sweep


@dataclass(frozen=True)
class Region:
    """A part of a model that compiles whole, or does not."""

    name: str
    """The dotted name. `*` and `{0,2}` are list positions, `{a.0,b.1}` are these modules, and "" is the whole model."""
    instances: int
    """The number of equal modules, which one line of code compiles; 0 if nothing was run and the source does not show
    how many there are."""
    state: RegionState
    reason: str
    """Why it can be compiled whole, or cannot."""
    code: str
    """The line that compiles it; empty if its author does already, or Dynamo refused it."""
    ops_share: float | None = None
    """Of the whole call's operations."""
    time_share: float | None = None
    """Of their time."""
    ops_captured_share: float | None = None
    """Measured: share of the region's own ops that ran inside graphs."""
    parameter_share: float | None = None
    """Of the model's parameters, by their number."""
    compilations: int | None = None
    """The number of compilations for all instances, if it was compiled alone."""
    guards: tuple[str, ...] = ()
    """The guards that made instances recompile."""
    cure: str = ""
    """A line that was tried and reduces the number of compilations."""
    kind: Literal["modules", "function", "lines"] = "modules"
    """`lines`: a stretch of a function between breaks, named `Class.forward:37-43`."""
    path: str | None = None
    """The file, for `kind` `lines`."""
    line: int | None = None
    end_line: int | None = None
    edits: tuple[Edit, ...] = ()
    """For `kind` `lines`: edits that move the lines into a compiled function; empty if that is not mechanical."""
    diff: str = ""
    """The same, shown."""


def covers(region: str, name: str) -> bool:
    """Whether module `name` is an instance of a region.

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
    """A target with all that one run of it showed, and what follows from that.

    In JSON, the fields of the observation are among its own.
    """

    observation: Observation = field(metadata={"json": FLAT, "omit": ("schema_version", "sources")})
    """The run, every stage told; of a target that was only read, one in which no stage but `parse` ran, with the modules
    that the source tells."""
    verdict: Verdict
    regions: tuple[Region, ...]
    """Parts without a break. Lines of functions between breaks come last; they do not count for the verdict."""
    verdict_reason: str = ""
    """The verdict in one sentence, naming the stages that did not run."""
    dominator: Frame | None = field(default=None, metadata={"json": "waist"})
    """The innermost function on every call path to a break, if it is not the outermost one."""

    @property
    def target(self) -> str:
        return self.observation.target

    @property
    def mode(self) -> Mode:
        return self.observation.mode

    @property
    def was_run(self) -> bool:
        """Whether anything beyond reading the source was tried."""
        return self.observation.was_run

    def asked_with(self, words: tuple[str, ...]) -> TargetReport:
        """The same, made by this command line if that is not known yet."""
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
    `{line}` to be put in; None if the remote is none that has such pages."""
    files: tuple[str, ...] = ()
    """The report's files that are as committed: only to their lines a link leads."""


@dataclass(frozen=True)
class Narrowed:
    """Why a report contains fewer findings than were found. Verdicts, break sites and regions cover all findings."""

    baseline: str | None = None
    """The baseline's file as it was named; None if none was."""
    known: int = 0
    """Findings that are left out because the baseline contains them."""
    gone: int = 0
    """Entries of the baseline that no longer match a finding, among those that this check can judge."""
    diff_base: str | None = None
    """The revision as it was named; None if none was."""
    commit: str | None = None
    """The commit that the lines were compared with: where the checkout and the revision diverged."""
    unchanged: int = 0
    """Findings that are left out because their lines are unchanged."""


@dataclass(frozen=True)
class Reading:
    """How the sources were read: two readings may find different things in the same code."""

    mode: ModeAsked
    low: bool = False
    """Whether what is found with low confidence is kept."""
    plain_call: bool = False
    """Whether a model that takes its targets was read as called without them."""
    torch: str = ""
    """The version of torch that is predicted: `2.13`."""
    dtype: str = ""
    """The type that models were read as cast to: `float16`; empty if they were not cast."""

    def differs(self, then: Reading, modes: tuple[Mode, ...] = ()) -> str | None:
        """Why something that the reading `then` found may be missed by this one, in a few words; None if not.

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
    """The rules that findings name."""
    sources: tuple[SourceText, ...]
    """The text of each file that the report mentions."""
    skipped: tuple[Skipped, ...]
    """Files that could not be read or parsed."""
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    """How much was read: `files`, `functions`, `calls`, how many of these were resolved and to what; `unresolved` are
    the constructs that were not understood, most frequent first, each with a place."""
    checkout: Checkout | None = None
    """None outside of a git checkout."""
    narrowed: Narrowed | None = None
    """None if no finding is left out."""
    predicted: tuple[StaticTarget, ...] = ()
    """What the source alone shows of each target. A run that is merged later is compared with it."""
    readings: tuple[Reading, ...] = ()
    """How the sources were read. Several if reports were merged, none if it is not known."""
    hidden: tuple[str, ...] = ()
    """Fingerprints of findings that are left out because of a comment or of the selection of rules."""
    silenced: tuple[Finding, ...] = ()
    """The findings of `hidden`. If a run that is merged later shows one of them, it is not reported as new."""
    unused: tuple[Noqa, ...] = ()
    """Codes in `# noqa` comments that hide nothing, as far as the source shows."""
    static_warnings: tuple[str, ...] | None = None
    """Those of `warnings` that came from the sources, not from a run; None in reports of an older tcready."""
    advice: tuple[RuleText, ...] = ()
    """Texts on findings that no rule predicts; `code` is the id of the type of break in PyTorch's registry, or the
    finding's name if it has none (`recompile`)."""
    serving: Serving | None = None
    """What a serving engine does with the findings; None without `--serving`."""
    in_process: bool = False
    """Whether the report is about an object or a cell of a Python process, so that no command line repeats it."""
    sweep: Sweep | None = None
    """The summary of a sweep over all its models; None for other reports."""
    schema_version: int = SCHEMA_VERSION
