"""The verification of a change: what a worker tries, and the result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.edit import Edit
from tcready.schema.fix import Proof
from tcready.schema.observation import Observation
from tcready.schema.words import Mode

SLOWER = 1.10
"""How many times as long an eager call may take after a change that is called safe."""
Differs = Literal["value", "gradient", "exception", "state", "compiled"]
"""What differs: what comes out, a gradient, which exception is raised, what a call leaves behind, or compiled code from
eager code."""


def setting_of(text: str) -> tuple[str, bool | int | str]:
    """The name of a setting, and its value: `capture_scalar_outputs` stands for True, `recompile_limit=64` for 64, and
    `reorderable_logging_functions=print` for the function that is put into that set."""
    name, _, value = text.partition("=")
    return name, (int(value) if value.isdecimal() else value) if value else True


def setting_line(text: str) -> str:
    """The line of code that makes a setting, of its name and value as `setting_of` reads them."""
    name, value = setting_of(text)
    if not isinstance(value, str):
        return f"torch._dynamo.config.{name} = {value}"
    module, dot, _ = value.rpartition(".")
    return f"{f'import {module}; ' if dot else ''}torch._dynamo.config.{name}.add({value})"


ASSERTION_ERROR = "RuntimeError"
"""What an assertion in a graph raises."""


@dataclass(frozen=True)
class Span:
    """An expression of a file; lines and columns count from 1, the end is one past the last."""

    path: str
    """Absolute."""
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class FunctionPlace:
    """A function by its file, absolute, and its qualified name: `Model.forward`."""

    path: str
    name: str


@dataclass(frozen=True)
class Variant:
    """Sources as they would be, and settings as they would be set."""

    name: str
    sources: tuple[tuple[str, str], ...] = ()
    """Absolute path and whole text of each file that differs."""
    settings: tuple[str, ...] = ()
    """Names of `torch._dynamo.config` that are set to True; `name=64` is one that is set to that number, `name=print` one
    that this function is put into."""
    functions: tuple[FunctionPlace, ...] = ()
    """What it changes: these are called alone as well."""
    written: tuple[Span, ...] = ()
    """Statements that are new in functions that were there: some call is to run each."""
    asked: tuple[Span, ...] = ()
    """What decides on a branch in it and is new: both sides are wanted."""
    called_before: bool = False
    """Whether every model is called once, in eager mode, before what is compared: what it makes at its first call is
    there then."""


@dataclass(frozen=True)
class ProofRequest:
    """What one worker tries, each in a process of its own: the code as it stands, then each variant held against it."""

    variants: tuple[Variant, ...]
    functions: tuple[FunctionPlace, ...] = ()
    """The functions that any variant changes."""
    tests: tuple[Span, ...] = ()
    """Branch tests of the code as it stands whose both sides are wanted."""
    statements: tuple[Span, ...] = ()
    """Statements of the code as it stands that any variant takes away: some call is to run each."""
    seeds: tuple[int, ...] = (0, 1, 2)
    modes: tuple[Mode, ...] = ("infer", "train")
    stays: bool = False
    """Whether the worker stays for further requests, in files beside the first, once it has answered."""
    seconds: float = 15.0
    """For how long the code as it stands is called with varied inputs, and as long again its functions alone; what is
    left then is left out."""
    constants: tuple[float | str, ...] = ()
    """Numbers and strings of the code that changes: inputs are tried at each of them."""
    without: tuple[str, ...] = ()
    """Variations that are not tried: with them a kernel failed on the device."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that a call reads: they are given other values."""
    builds: tuple[str, ...] = ()
    """Variations of arguments of constructors: the model is built with them."""


@dataclass(frozen=True)
class SidesTaken:
    """How often a branch test was true and false: by calls of the model, and of its function alone."""

    test: Span
    true: int = 0
    false: int = 0
    alone_true: int = 0
    alone_false: int = 0


@dataclass(frozen=True)
class Trial:
    """What one variant showed, held against the code as it stands: the same seeds, weights and inputs."""

    name: str
    observation: Observation
    """import, build, eager, capture and fullgraph, as of a run."""
    calls: int = 0
    """Calls compared, eager against eager."""
    compiled_calls: int = 0
    """Calls compared, compiled against eager."""
    difference: str | None = None
    """The first difference, in one line."""
    differs: Differs | None = None
    raises: str | None = None
    """Where both raise, but not the same type of exception: both of them, in one line."""
    notice: str | None = None
    """What a caller may notice though every call agrees, in one line."""
    seconds: float | None = None
    """Shortest eager call with the given inputs: on a CPU the seconds that one thread worked."""
    not_run: tuple[Span, ...] = ()
    """What is written anew and no eager call ran."""
    sides: tuple[SidesTaken, ...] = ()
    """How often each new test was true and false."""
    unanswered: str | None = None
    """Why it shows nothing, in one line: it was ended before it was done."""
    unsettled: bool = False
    """Whether it ended where values differ and nothing in a wide dtype was there to judge them by."""
    condition: str | None = None
    """With which inputs or settings alone it does something else, and what, in one line."""
    of_other_types: str | None = None
    """The same of inputs of other types, ranks or magnitudes than those given."""
    compiled_raises: tuple[str, ...] = ()
    """The types of exceptions that compiled code raises where a check of the user's own raises another one."""
    compiled_raises_text: str | None = None
    """The first of them, with the inputs, in one line."""
    recompiled: str | None = None
    """Functions that compile again at every call with the same inputs, with the guards that fail, in one line."""
    not_lasting: str | None = None
    """Why its settings gain nothing in later calls, in one line."""

    @property
    def limits(self) -> str | None:
        """What the change holds except for, in one line; None if for nothing."""
        return (
            "; ".join(filter(None, (self.condition, self.of_other_types, self.compiled_raises_text))) or None
        )

    @property
    def holding_back(self) -> str | None:
        """What `fix` proposes no change for, of `limits`: `x.norm().item()` does not overflow, and `x.norm()` may."""
        return "; ".join(filter(None, (self.condition, self.compiled_raises_text))) or None

    @property
    def only_asserts(self) -> bool:
        """Whether it holds except that an assertion in the graph raises its own type of exception."""
        return self.condition is None and {*self.compiled_raises} == {ASSERTION_ERROR}


@dataclass(frozen=True)
class ProofResult:
    """What a worker leaves of a request."""

    trials: tuple[Trial, ...] = ()
    sides: tuple[SidesTaken, ...] = ()
    calls: int = 0
    """Calls of the code as it stands, those of functions alone among them."""
    variations: tuple[str, ...] = ()
    """How the inputs were varied, in words."""
    seconds: float | None = None
    """The same of the code as it stands."""
    not_run: tuple[Span, ...] = ()
    """Statements that are taken away and no call ran."""
    failure: str | None = None
    """Why nothing can be held against the code as it stands, in one line."""
    lost: str | None = None
    """The variation with which a kernel failed on the device, so that the process could do no more there."""


NOT_COMPARED = (
    "most compiled calls of functions alone",
    "more than a few digits of outputs in bfloat16, and other types of fewer bits than 32",
    "sizes of a fifth dimension and those behind it",
    "other buffers of several values, numbers in containers, and other texts",
    "arguments that are None by default and left out, and values on another device",
    "compiled code in another mode than that of the run, but for training steps with the inputs as given, and calls in "
    "training where `torch.cond` was written",
    "code that Inductor generates, and gradients of gradients that a training loop takes",
    "values of objects that neither show what they hold nor how they are written, beyond their types",
    "both outcomes of comparisons that give tensors",
    "which side of a branch gives an input itself, or a view of one, and which a new tensor",
    "files that were open before a call, and networks",
    "of which type an exception is that torch itself raises in compiled code",
    "integers that outgrow 64 bits, and the sign of a zero",
)
"""What a caller might see and a proof does not look at."""
ProofState = Literal["proved", "one_side", "refuted", "not_run"]
"""Shown to do the same on both sides of every branch that it takes away; on one side of some; not to; nobody tried."""


@dataclass(frozen=True)
class FixChange:
    """One change, and what a proof says of it."""

    path: str
    line: int
    symbol: str
    rule: str | None
    gb_ids: tuple[str, ...]
    """The ids of the break that it is meant to fix."""
    how: str
    edits: tuple[Edit, ...]
    """For the text that the changes of earlier rounds produce."""
    settings: tuple[str, ...]
    """Names of `torch._dynamo.config`: `name` is set to True, `name=64` to that number, and with `name=print` the
    function is added to the set of that name."""
    unsafe: str | None
    """Why it is not safe, as the end of "not safe: ..."; None if it does the same by construction."""
    state: ProofState
    reason: str | None = None
    """Why it is not proved, in one line."""
    proof: Proof | None = None
    round: int = 1
    """The round in which it was found, after the changes of earlier rounds."""
    keeps_out: bool = False
    """Whether it does not fix the break, but excludes the function around it from compiling."""
    called_before: bool = False
    """Whether the change is one eager call of the model before it is compiled: no edit, and no setting."""
    fewer_compiles: bool = False
    """Whether it fixes no break, but makes functions recompile less often."""
    targets: tuple[str, ...] = ()
    """The targets with a run in which it was found. A setting, or a call before compiling, applies to these alone.
    Empty if nothing was run."""
    condition: str | None = None
    """The exceptions of a proved change, as the end of "holds, except ..."; None if there are none."""
    only_other_types: bool = False
    """Whether `condition` is only about inputs of other types, ranks or magnitudes than those given."""
    only_asserts: bool = False
    """Whether `condition` is only that an assertion in the graph raises RuntimeError in place of a check's own
    exception."""


@dataclass(frozen=True)
class NoFix:
    """A break for which there is no change, and why."""

    path: str
    line: int
    rule: str | None
    gb_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class FixedTarget:
    """What the runs of one target show before and after all changes."""

    target: str
    breaks_before: int | None = None
    """None if nothing could be run."""
    breaks_after: int | None = None
    share_before: float | None = None
    share_after: float | None = None
    failure: str | None = None
    """Why nothing, or not all, could be proved in it, in one line."""


@dataclass(frozen=True)
class FixResult:
    """The changes for some targets."""

    changes: tuple[FixChange, ...]
    """The proposed changes, in the order in which they were found. Together they are one patch."""
    refused: tuple[FixChange, ...] = ()
    """Changes that do not hold, also if only in another target, and changes that are left out because nothing shows
    that they are safe."""
    no_fix: tuple[NoFix, ...] = ()
    edits: tuple[Edit, ...] = ()
    """All changes together, for the unmodified files."""
    patch: str = ""
    """All edits in the user's own files together, as one unified diff; bytes of files that are not in UTF-8 are escaped
    (`surrogateescape`)."""
    third_party_patch: str = ""
    """The same in installed packages; paths are below their site-packages folder."""
    breaks_before: int | None = None
    """Those of all targets together; None if nothing was run."""
    breaks_after: int | None = None
    share_before: float | None = None
    """None for several targets: `targets` has the value of each."""
    share_after: float | None = None
    left: tuple[tuple[str, int], ...] = ()
    """Path and line, in the unmodified files, of each break that is left."""
    kept_out: tuple[tuple[str, int], ...] = ()
    """The same for each break that is gone only because its line is no longer compiled: a function that is excluded
    from compiling contains it, or calls its function."""
    failure: str | None = None
    """Why nothing could be proved, in one line; of several targets, in those that are named."""
    targets: tuple[FixedTarget, ...] = ()
    """One for each target."""
