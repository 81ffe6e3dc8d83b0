"""Two reports compared with each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.bench import BenchVerdict, Figure
from tcready.schema.enums import SCHEMA_VERSION, FindingKind, Mode, StageName, Status, Verdict
from tcready.schema.run import BreakSite
from tcready.schema.static import Finding


@dataclass(frozen=True)
class FindingChange:
    """One finding in two reports; the fingerprint identifies it."""

    kind: FindingKind
    finding: Finding
    """As in the later report; as in the earlier one if the later does not have it."""
    before_line: int | None = None
    """None if the earlier report does not have it."""
    before_status: Status | None = None
    because: tuple[str, ...] = ()
    """Differences between the reports that may be why it is new; why it was not compared."""


@dataclass(frozen=True)
class SiteChange:
    """A break site that only one of two runs of a target showed. Sites are equal if file, function and reason are,
    the n-th of these in both."""

    kind: Literal["fixed", "new"]
    site: BreakSite
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """A fact about where a run was made, in two reports: `torch`, `packages.transformers`, `device`."""

    name: str
    before: str | None
    after: str | None


BenchState = Literal["faster", "slower", "within_noise", "not_judged", "not_comparable"]


@dataclass(frozen=True)
class ArmChange:
    """One arm in one case of two benches, seconds of a call each."""

    case: str
    arm: str
    before: Figure
    after: Figure
    state: BenchState
    """`faster` and `slower`: the interval of their ratio, made of both intervals, does not hold 1, and the ratio is
    further from 1 than eager was from itself in either bench; `not_judged`: one of them was timed in one process;
    `not_comparable`: the benches were made on other machines."""


@dataclass(frozen=True)
class BenchChange:
    """Whether compiling pays off, for one target in two reports; a verdict is None if its report has no bench."""

    before: BenchVerdict | None
    after: BenchVerdict | None
    arms: tuple[ArmChange, ...] = ()
    """Those that both measured, including eager, which shows whether the machine was as fast as before."""
    missing: tuple[str, ...] = ()
    """Measurements that only one of them has: `default in prefill`."""
    machine: tuple[Difference, ...] = ()
    """Why the two cannot be compared: another GPU, another CPU."""
    differences: tuple[Difference, ...] = ()
    """Other differences in the stack."""


@dataclass(frozen=True)
class TargetChange:
    """One target in two reports; verdict and share of operations in graphs are None if only one has it."""

    target: str
    mode: Mode
    before: Verdict | None
    after: Verdict | None
    coverage_before: float | None = None
    coverage_after: float | None = None
    ran: bool = False
    """It was run in both, so its break sites were compared."""
    failed: tuple[StageName, ...] = ()
    """Stages that fail now and did not before."""
    sites: tuple[SiteChange, ...] = ()
    differences: tuple[Difference, ...] = ()
    bench: BenchChange | None = None
    """None if neither report has a bench of it."""


@dataclass(frozen=True)
class Comparison:
    """The differences between two reports."""

    before: str
    """The name of the report."""
    after: str
    findings: tuple[FindingChange, ...]
    targets: tuple[TargetChange, ...]
    own_files: tuple[str, ...] = ()
    """The user's files with different texts in the two reports."""
    other_files: tuple[str, ...] = ()
    """The same for installed packages."""
    differences: tuple[Difference, ...] = ()
    """Differences of tcready itself, and of how the sources were read."""
    schema_version: int = SCHEMA_VERSION
