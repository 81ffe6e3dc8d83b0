"""The results of the static pass: findings, module hierarchies, sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tcready.schema.break_effect import BreakEffect
from tcready.schema.cells import Cell, CellPlace
from tcready.schema.fix import Fix
from tcready.schema.frozen import dataclass
from tcready.schema.words import Confidence, Effect, Level, Mode, Origin, Speaker, Status

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class FindingTarget:
    """What the run of one target showed of a finding."""

    target: str
    case: str | None
    """The named case in which it was confirmed; None if the inputs name none."""
    status: Status
    mode: Mode | None = None
    """The mode of the run, if the target was run in several."""


_SPOKEN: Mapping[Speaker, str] = MappingProxyType({"static": "static: ", "dynamo": "Dynamo: "})
"""How a line of evidence begins in JSON."""


@dataclass(frozen=True)
class Evidence:
    """One line that says why a finding is reported, and who says so: the static pass, or a run under Dynamo.

    In JSON it is the line behind the speaker's name: `static: ...`, `Dynamo: ...`.
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
    """What the source alone said of a finding that a run then changed."""

    level: Level
    confidence: Confidence
    gb_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One hazard at one place. `path` is spelled as `display_path` spells it."""

    rule: str | None
    """`TCR101`; None if a run showed it and no rule covers it."""
    name: str
    """The rule's name, or the kind of what the run showed."""
    effect: Effect
    """What Dynamo does, according to the finding."""
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
    """The function that contains it: `Model.forward`."""
    origin: Origin
    """Whose code it is: the user's, or an installed package's."""
    status: Status
    gb_ids: tuple[str, ...]
    """Ids of PyTorch's graph break registry: of the breaks that were seen, else of those that the rule predicts."""
    targets: tuple[FindingTarget, ...]
    """The status in each target, and in each named case of it."""
    fingerprint: str
    """The same for the same rule, file, function and code, on whatever line."""
    fix: Fix | None = None
    cost: Mapping[str, float] | None = None
    """The `operations` that the break forced to run outside of graphs, and their `seconds`, in one warm call of each
    case."""
    evidence: tuple[Evidence, ...] = ()
    """The reasons of the static pass, and what the run showed: one line each, static first."""
    reached_by: tuple[str, ...] = ()
    """Symbols from the compiled entry down to the function that contains the finding."""
    break_effect: BreakEffect | None = field(default=None, metadata={"json": "shape"})
    """What the break does to the functions around it; None if the finding is not a break."""
    dtypes: tuple[str, ...] = ()
    """The dtypes of the model in which the line is reached, if it is not reached otherwise: `float16`. Empty if the
    dtype does not decide that."""
    modes: tuple[Mode, ...] = ()
    """The modes in which the static pass finds it, if it was asked about both; empty if about one."""
    also: tuple[str, ...] = ()
    """Fingerprints of other findings of the same kind on this line, which this finding represents."""
    also_until: int | None = None
    """The last line of their spans; None if it represents only itself."""
    prediction: Prediction | None = None
    """The prediction before runs were compared with it; None if they did not change level, confidence and ids."""
    cell: CellPlace | None = None
    """The place of `line` in a notebook. `line` counts the lines of all code cells in order."""
    advice: str | None = None
    """For a finding that only a run showed: the `code` of its text in the report's `advice`, which is the id of its
    type (`GB0007`), or the finding's name if it has no type (`recompile`). Or the code of a rule in `rules`. None if a
    rule predicts it, or the type is unknown."""


@dataclass(frozen=True)
class StaticModule:
    """A node of the module hierarchy as the source shows it; `*` are the members of a list."""

    name: str
    type: str
    path: str | None
    line: int | None
    """The line of its forward; None for a module of torch, or one that was not found."""
    breaks: tuple[str, ...]
    """Fingerprints of the findings that break the graph in code that this module itself runs."""
    unknown: tuple[str, ...] = ()
    """Members that it calls and that an unresolved helper created, as written: `self.backbone`."""
    sure: bool = True
    """Whether every model of the class has a module of this name, whatever its configuration says."""


@dataclass(frozen=True)
class StaticTarget:
    """What the source says of one target."""

    target: str
    modules: tuple[StaticModule, ...]
    modes: tuple[Mode, ...] = ("infer",)
    """What it was read in; over several, `breaks` are those of any."""
    dtype: str = ""
    """The type that the model was read as cast to: `float16`; empty if it was not cast."""
    is_read: bool = True
    """Whether its source was found."""


@dataclass(frozen=True)
class RuleText:
    """The text about a rule, or about a type of break that no rule predicts."""

    code: str
    """Of a type of break its id: `GB0007`."""
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
    """Of the file's bytes."""
    text: str
    """In an HTML page, lines of installed files that are not near a finding are empty. For a notebook, its code cells
    in order."""
    cells: tuple[Cell, ...] = ()
    """The cells of a notebook, with the place of each line of `text`."""


@dataclass(frozen=True)
class Skipped:
    """A file that could not be read."""

    path: str
    """`path.py`; in a sweep also `path.py::Name`, if the file has no such name."""
    reason: str
    """Why this file was not checked."""


@dataclass(frozen=True)
class Noqa:
    """One code that a `# noqa` names."""

    path: str
    line: int
    code: str
    """As written, upper-case; it may be a prefix."""


@dataclass(frozen=True)
class StaticResult:
    """What the static half hands to merge."""

    findings: tuple[Finding, ...]
    targets: tuple[StaticTarget, ...]
    sources: tuple[SourceText, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]
    statistics: Mapping[str, Any]
    unused: tuple[Noqa, ...] = ()
    """What hides nothing, as far as the source tells."""
    hidden: tuple[Finding, ...] = ()
    """What a comment or the choice of rules hides: a run that shows one of these shows nothing new."""
