"""A comparison of two reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.bench import BenchVerdict, Figure
from tcready.schema.run import BreakSite
from tcready.schema.static import Finding
from tcready.schema.words import SCHEMA_VERSION, FindingKind, Mode, StageName, Status, Verdict


@dataclass(frozen=True)
class FindingChange:
    """One finding in two reports; it is the same one if the fingerprint is."""

    kind: FindingKind
    finding: Finding
    """As the later report tells it; as the earlier one does if the later does not."""
    before_line: int | None = None
    """None if the earlier report does not tell it."""
    before_status: Status | None = None
    because: tuple[str, ...] = ()
    """What differs between the reports and may be why it is new; why it was not compared."""


@dataclass(frozen=True)
class SiteChange:
    """A break site that only one of two runs of a target showed. It is the same one if file, function and reason
    are, the n-th such in both."""

    kind: Literal["fixed", "new"]
    site: BreakSite
    because: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """What a run says of where it was made, in two reports: `torch`, `packages.transformers`, `device`."""

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
    """Whether compiling pays, for one target in two reports; a verdict is None if its report holds no bench."""

    before: BenchVerdict | None
    after: BenchVerdict | None
    arms: tuple[ArmChange, ...] = ()
    """Those that both measured; eager among them, which says whether the machine was as fast as before."""
    missing: tuple[str, ...] = ()
    """What only one of them measured: `default in prefill`."""
    machine: tuple[Difference, ...] = ()
    """What keeps the two from being compared: another GPU, another CPU."""
    differences: tuple[Difference, ...] = ()
    """What else differs in the stack."""


@dataclass(frozen=True)
class TargetChange:
    """One target in two reports; verdict and share of operations in graphs are None if it is in one alone."""

    target: str
    mode: Mode
    before: Verdict | None
    after: Verdict | None
    coverage_before: float | None = None
    coverage_after: float | None = None
    ran: bool = False
    """Whether it was run in both: its break sites were compared."""
    failed: tuple[StageName, ...] = ()
    """Stages that fail now and did not before."""
    sites: tuple[SiteChange, ...] = ()
    differences: tuple[Difference, ...] = ()
    bench: BenchChange | None = None
    """None if neither report holds a bench of it."""


@dataclass(frozen=True)
class Comparison:
    """What differs between two reports."""

    before: str
    """How the two reports are called."""
    after: str
    findings: tuple[FindingChange, ...]
    targets: tuple[TargetChange, ...]
    own_files: tuple[str, ...] = ()
    """The user's files that both reports hold and whose text differs."""
    other_files: tuple[str, ...] = ()
    """The same of installed packages."""
    differences: tuple[Difference, ...] = ()
    """Of tcready itself, and of how the sources were read."""
    schema_version: int = SCHEMA_VERSION
