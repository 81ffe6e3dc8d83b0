"""The results of the static pass: findings, module hierarchies, sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any

from tcready.schema.break_effect import BreakEffect
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import Confidence, Effect, Level, Mode, Origin, Speaker, Status
from tcready.schema.fix import Fix
from tcready.schema.notebook_cells import Cell, CellPlace
from tcready.schema.value_class import dataclass


@dataclass(frozen=True)
class FindingTarget:
    """The result of the run of one target for a finding."""

    target: str
    case: str | None
    """The named case in which it was confirmed; None if the inputs have no named cases."""
    status: Status
    mode: Mode | None = None
    """The mode of the run, if the target was run in several."""


_SPOKEN: Mapping[Speaker, str] = MappingProxyType({"static": "static: ", "dynamo": "Dynamo: "})
"""Prefixes of a line of evidence in JSON."""


@dataclass(frozen=True)
class Evidence:
    """One line on why a finding is reported, and its source: the static pass, or a run under Dynamo.

    In JSON it is the line after the source's name: `static: ...`, `Dynamo: ...`.
    """

    speaker: Speaker
    text: str

    def to_json(self) -> str:
        return _SPOKEN[self.speaker] + self.text

    @classmethod
    def of_json(cls, data: str) -> Evidence:
        for speaker, name in _SPOKEN.items():
            if data.startswith(name):
                return cls(speaker, data.removeprefix(name))
        return cls("static", data)


@dataclass(frozen=True)
class Prediction:
    """A finding according to the source alone, before a run changed it."""

    level: Level
    confidence: Confidence
    gb_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One hazard at one place. `path` is formatted by `display_path`."""

    rule: str | None
    """`TCR101`; None if a run showed something without a rule."""
    name: str
    """The rule's name, or the kind of the result of the run."""
    effect: Effect
    """The claimed behavior of Dynamo."""
    level: Level
    confidence: Confidence
    message: str
    """One line."""
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    """One past the last; the span is one expression or the header of one statement."""
    symbol: str
    """The function around it: `Model.forward`."""
    origin: Origin
    """The user's code, or an installed package."""
    status: Status
    gb_ids: tuple[str, ...]
    """IDs of PyTorch's graph break registry: of the breaks that were seen, else of those that the rule predicts."""
    targets: tuple[FindingTarget, ...]
    """The status in each target, and in each named case of it."""
    fingerprint: str
    """The same for the same rule, file, function and code, on any line."""
    fix: Fix | None = None
    cost: Mapping[str, float] | None = None
    """`operations` that it causes outside of graphs, and their `seconds`, in one warm call of each case."""
    evidence: tuple[Evidence, ...] = ()
    """Reasons of the static pass, in plain words, and results of runs: one line each, static first."""
    reached_by: tuple[str, ...] = ()
    """Symbols from the compiled entry to the function around it."""
    break_effect: BreakEffect | None = field(default=None, metadata={"json": "shape"})
    """The effect of the break on the functions around it; None if it is not a break."""
    dtypes: tuple[str, ...] = ()
    """It is reached only if the model computes in one of these types: `float16`; empty if its type does not decide
    that."""
    modes: tuple[Mode, ...] = ()
    """The modes in which the static pass finds it, if both were requested; empty for one."""
    also: tuple[str, ...] = ()
    """Fingerprints of other findings of the same kind on this line, which this one represents."""
    also_until: int | None = None
    """The last line of their spans; None if it represents only itself."""
    prediction: Prediction | None = None
    """The finding before it was compared with runs; None if they left level, confidence and IDs unchanged."""
    cell: CellPlace | None = None
    """In a notebook, the location of `line`: lines count through all code cells."""
    raises_at: CompileCall | None = None
    """The call with `fullgraph=True` that compiles its code, so that the break raises an error; None if there is none."""
    advice: str | None = None
    """For a finding that only a run showed: the code, among the report's `advice`, of the text on why and what to
    do: the type's ID (`GB0007`), or the finding's name if it has no type (`recompile`); or a rule's code, which is
    among its `rules`; None if a rule explains it, or the type is unknown."""


@dataclass(frozen=True)
class StaticModule:
    """A node of the module hierarchy according to the source; `*` represents the members of a list."""

    name: str
    type: str
    path: str | None
    line: int | None
    """Location of the code of its forward; None for a module of torch or one not found."""
    breaks: tuple[str, ...]
    """Fingerprints of the breaking findings in the code that this module itself runs."""
    unknown: tuple[str, ...] = ()
    """Members that it calls and that a helper created which could not be resolved, as source text: `self.backbone`."""
    sure: bool = True
    """Every model of the class has a module of this name, whatever its configuration."""


@dataclass(frozen=True)
class StaticTarget:
    """Results from the source for one target."""

    target: str
    modules: tuple[StaticModule, ...]
    modes: tuple[Mode, ...] = ("infer",)
    """Modes in which it was read; for several, `breaks` are those of any."""
    dtype: str = ""
    """The type that the model was read as cast to: `float16`; empty without a cast."""
    is_read: bool = True
    """Its source was found."""
    compiled_at: CompileCall | None = None
    """The call of the user's code that compiles it; None if there is none."""


@dataclass(frozen=True)
class RuleText:
    """The text of a rule, or of a type of break that no rule predicts."""

    code: str
    """For a type of break its ID: `GB0007`."""
    name: str
    summary: str
    why: str
    """Why it hurts torch.compile."""
    instead: str
    """What to write instead."""
    before: str | None
    """Example code with the hazard."""
    after: str | None
    """The same without it."""


@dataclass(frozen=True)
class SourceText:
    """A file as it was read."""

    path: str
    sha256: str
    """SHA-256 of the file's bytes."""
    text: str
    """In an HTML page, lines of installed files that are not near a finding are empty; for a notebook, its code
    cells one after the other."""
    cells: tuple[Cell, ...] = ()
    """For a notebook: the location of each line of `text`."""


@dataclass(frozen=True)
class Skipped:
    """A file that could not be read."""

    path: str
    """`path.py`; in a sweep also `path.py::Name`, if the file has no such name."""
    reason: str
    """Why there are no results for this file."""


@dataclass(frozen=True)
class Noqa:
    """One code in a `# noqa` comment."""

    path: str
    line: int
    code: str
    """As in the source, upper-case; it may be a prefix."""


@dataclass(frozen=True)
class StaticResult:
    """The result of the static pass, for merging with runs."""

    findings: tuple[Finding, ...]
    targets: tuple[StaticTarget, ...]
    sources: tuple[SourceText, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    unused: tuple[Noqa, ...] = ()
    """Codes that hide nothing, according to the source."""
    hidden: tuple[Finding, ...] = ()
    """Findings that a comment or the selection of rules hides: a run that shows one of these shows nothing new."""
