"""The verification of a change: what a worker tries, and the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcready.schema.edit import Edit
from tcready.schema.enums import Mode
from tcready.schema.fix import Proof
from tcready.schema.observation import Observation

SLOWER = 1.10
"""The largest ratio of eager call times, after to before, for a change that counts as safe."""
Differs = Literal["value", "gradient", "exception", "state", "compiled"]
"""The kind of difference: in outputs, in a gradient, in the raised exception, in the state after a call, or between
compiled and eager code."""


def setting_of(text: str) -> tuple[str, bool | int | str]:
    """Return the name of a setting, and its value: `capture_scalar_outputs` means True, `recompile_limit=64` means
    64, and `reorderable_logging_functions=print` means that this function is added to the set."""
    name, _, value = text.partition("=")
    return name, (int(value) if value.isdecimal() else value) if value else True


def setting_line(text: str) -> str:
    """Return the line of code for a setting, from its name and value as `setting_of` returns them."""
    name, value = setting_of(text)
    if not isinstance(value, str):
        return f"torch._dynamo.config.{name} = {value}"
    module, dot, _ = value.rpartition(".")
    return f"{f'import {module}; ' if dot else ''}torch._dynamo.config.{name}.add({value})"


ProofCode = Literal[
    "value",
    "gradient",
    "exception",
    "state",
    "compiled",
    "not_run",
    "not_captured",
    "new_break",
    "break_left",
    "captures_less",
    "compiles_again",
    "setting_is_lost",
    "one_side",
    "not_reached",
]
"""Why a change is not proved: the kind of a difference (as `Differs`); `not_run`: it was not tried; a stage fails, or
nothing is captured; another line breaks; no break is gone; less is captured; functions are compiled as often; a setting
has no effect later; inputs for one side of a branch are missing; no call runs or shows something that is changed."""


@dataclass(frozen=True)
class CaseValue:
    """A value that a call takes or gives."""

    name: str
    """`x`, `batch['ids']`, `output 0`."""
    type: str
    """The type: `Tensor`, `int`."""
    shape: tuple[int, ...] | None = None
    """None unless it is a tensor."""
    dtype: str | None = None
    """As `torch.float32`; None unless it is a tensor."""
    value: str | None = None
    """As Python writes it; None if it is large."""


@dataclass(frozen=True)
class CaseResult:
    """The result of one call: values, or an exception."""

    outputs: tuple[CaseValue, ...] = ()
    raises: str | None = None
    """The type and the text of the exception, in one line."""


@dataclass(frozen=True)
class Counterexample:
    """A call that differs after a change, with the smallest inputs that were found."""

    mode: Mode
    seed: int
    """The seed of weights and inputs."""
    inputs: str
    """How the inputs were varied, before they were made smaller."""
    difference: str
    """How the call with these inputs differs, in one line."""
    function: str | None = None
    """The function that was called alone, by its qualified name; None if the model was called."""
    arguments: tuple[CaseValue, ...] = ()
    before: CaseResult = CaseResult()
    after: CaseResult = CaseResult()
    smaller: bool = False
    """The inputs are smaller, or simpler, than those with which the difference was found."""
    tried: int = 0
    """Number of inputs that were tried in the search."""


ASSERTION_ERROR = "RuntimeError"
"""The exception that an assertion in a graph raises."""


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
class CallId:
    """Identifies a call of a proof."""

    mode: Mode
    seed: int
    case: int
    variation: str
    function: FunctionPlace | None = None


@dataclass(frozen=True)
class Variant:
    """Changed sources and settings to try."""

    name: str
    sources: tuple[tuple[str, str], ...] = ()
    """Absolute path and whole text of each file that differs."""
    settings: tuple[str, ...] = ()
    """Names of `torch._dynamo.config` settings to set to True; `name=64` sets a number, `name=print` adds this
    function to a set."""
    functions: tuple[FunctionPlace, ...] = ()
    """The changed functions: these are called alone as well."""
    written: tuple[Span, ...] = ()
    """New statements in existing functions: some call must run each."""
    asked: tuple[Span, ...] = ()
    """New branch conditions: both sides should be taken."""
    called_before: bool = False
    """Every model is called once in eager mode before the comparison, so that what it creates at its first call
    exists."""


@dataclass(frozen=True)
class ProofRequest:
    """A request to one worker: the unmodified code and each variant run in separate processes, and each variant is
    compared with the unmodified code."""

    variants: tuple[Variant, ...]
    functions: tuple[FunctionPlace, ...] = ()
    """The functions that any variant changes."""
    tests: tuple[Span, ...] = ()
    """Branch tests of the unmodified code that should take both sides."""
    statements: tuple[Span, ...] = ()
    """Statements of the unmodified code that any variant removes: some call must run each."""
    seeds: tuple[int, ...] = (0, 1, 2)
    modes: tuple[Mode, ...] = ("infer", "train")
    stays: bool = False
    """The worker stays for further requests, in files next to the first, once it has answered."""
    seconds: float = 15.0
    """Time for calls of the unmodified code with varied inputs, and the same again for its functions alone; the rest
    is then left out."""
    constants: tuple[float | str, ...] = ()
    """Numbers and strings of the changed code: inputs are tried at each of them."""
    without: tuple[str, ...] = ()
    """Variations that are not tried, because a kernel failed on the device with them."""
    environment: tuple[str, ...] = ()
    """Names of environment variables that a call reads: other values of them are tried."""
    builds: tuple[str, ...] = ()
    """Variations of constructor arguments with which the model is built."""
    seeks_smallest: bool = False
    """Smaller inputs are searched with which a refuted variant still differs."""


@dataclass(frozen=True)
class SidesTaken:
    """How often a branch test was true and false, in calls of the model, and in calls of its function alone."""

    test: Span
    true: int = 0
    false: int = 0
    alone_true: int = 0
    alone_false: int = 0


@dataclass(frozen=True)
class Trial:
    """The results of one variant compared with the unmodified code: the same seeds, weights and inputs."""

    name: str
    observation: Observation
    """The stages import, build, eager, capture and fullgraph, as of a run."""
    calls: int = 0
    """Number of calls compared, eager with eager."""
    compiled_calls: int = 0
    """Number of calls compared, compiled with eager."""
    difference: str | None = None
    """The first difference, in one line."""
    differs: Differs | None = None
    raises: str | None = None
    """The types of exceptions, if both raise but differ in type, in one line."""
    notice: str | None = None
    """A difference that a caller may notice though every call agrees, in one line."""
    seconds: float | None = None
    """Shortest eager call with the given inputs: on a CPU the time of a single thread."""
    not_run: tuple[Span, ...] = ()
    """New code that no eager call ran."""
    sides: tuple[SidesTaken, ...] = ()
    """How often each new test was true and false."""
    unanswered: str | None = None
    """Why there is no result, in one line: it was ended early."""
    unsettled: bool = False
    """It ended because values differ and no result in a wider dtype could decide between them."""
    condition: str | None = None
    """The inputs or settings for which alone it differs, and how, in one line."""
    of_other_types: str | None = None
    """The same for inputs of other types, ranks or magnitudes than the given ones."""
    compiled_raises: tuple[str, ...] = ()
    """Types of exceptions that compiled code raises where a check of the user raises another one."""
    compiled_raises_text: str | None = None
    """The first of them, with the inputs, in one line."""
    recompiled: str | None = None
    """Functions that recompile at every call with the same inputs, with the guards that fail, in one line."""
    not_lasting: str | None = None
    """Why its settings have no effect in later calls, in one line."""
    failing: CallId | None = None
    """The eager call that `difference` is about; None if it is not about one."""
    counterexample: Counterexample | None = None
    """That call with smaller inputs, if they were searched and it differs on a fresh model."""

    @property
    def limits(self) -> str | None:
        """Return the exceptions to the proof, in one line; None if there are none."""
        return "; ".join(filter(None, (self.condition, self.of_other_types, self.compiled_raises_text))) or None

    @property
    def holding_back(self) -> str | None:
        """Return those of `limits` for which `fix` proposes no change: `x.norm().item()` does not overflow, and
        `x.norm()` may."""
        return "; ".join(filter(None, (self.condition, self.compiled_raises_text))) or None

    @property
    def only_asserts(self) -> bool:
        """Return True if the only exception is that an assertion in the graph raises its own type of exception."""
        return self.condition is None and {*self.compiled_raises} == {ASSERTION_ERROR}


@dataclass(frozen=True)
class ProofResult:
    """The answer of a worker to a request."""

    trials: tuple[Trial, ...] = ()
    sides: tuple[SidesTaken, ...] = ()
    calls: int = 0
    """Number of calls of the unmodified code, including those of functions alone."""
    left_out: int = 0
    """Number of calls that were not made, for lack of time."""
    variations: tuple[str, ...] = ()
    """How the inputs were varied, in words."""
    seconds: float | None = None
    """The shortest eager call of the unmodified code."""
    not_run: tuple[Span, ...] = ()
    """Removed statements that no call ran."""
    failure: str | None = None
    """Why nothing can be compared with the unmodified code, in one line."""
    lost: str | None = None
    """The variation with which a kernel failed on the device, after which the process could not use it any more."""


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
"""Effects that a caller might see and that verification does not compare."""
ProofState = Literal["proved", "one_side", "refuted", "not_run"]
"""Proved equivalent on both sides of every branch that it removes; on one side of some; refuted; not tried."""


@dataclass(frozen=True)
class FixChange:
    """One change, and the result of its verification."""

    path: str
    line: int
    symbol: str
    rule: str | None
    gb_ids: tuple[str, ...]
    """IDs of the break that it should fix."""
    how: str
    edits: tuple[Edit, ...]
    """Edits of the text after the changes of earlier rounds."""
    settings: tuple[str, ...]
    """Names of `torch._dynamo.config` settings to set to True; `name=64` sets a number, `name=print` adds this
    function to a set."""
    unsafe: str | None
    """Why it is not safe, as the end of "not safe: ..."; None if it is equivalent by construction."""
    state: ProofState
    reason: str | None = None
    """Why it is not proved, in one line."""
    proof: Proof | None = None
    round: int = 1
    """The round in which it was found, after earlier ones fixed the breaks before it."""
    keeps_out: bool = False
    """It does not fix a break, but excludes the function around it from compilation."""
    called_before: bool = False
    """The fix is one eager call of the model before it is compiled: no edit, and no setting."""
    fewer_compiles: bool = False
    """It does not fix a break, but makes Dynamo recompile functions less often."""
    targets: tuple[str, ...] = ()
    """Targets in which it was found: a setting, or a call before, is for these. Empty if nothing was run."""
    condition: str | None = None
    """If proved: the exceptions, as the end of "holds, except ..."; None if there are none."""
    only_other_types: bool = False
    """`condition` is only about inputs of other types, ranks or magnitudes than the given ones."""
    only_asserts: bool = False
    """`condition` is only that an assertion in the graph raises RuntimeError in place of a check's own exception."""
    code: ProofCode | None = None
    """The kind of `reason`, for programs; None if it is proved, or was not tried."""
    counterexample: Counterexample | None = None
    """A call that differs, for a patch that `prove` refutes; None if the reason is not about one eager call."""

    @property
    def holds(self) -> bool:
        """Return True if verification passed without any reservation, not even another exception."""
        return self.state == "proved" and not (self.unsafe or "").startswith("another exception")


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
    """Results of the runs of one target before and after all changes."""

    target: str
    breaks_before: int | None = None
    """None if nothing could be run."""
    breaks_after: int | None = None
    share_before: float | None = None
    share_after: float | None = None
    failure: str | None = None
    """Why nothing, or not everything, could be verified in it, in one line."""


@dataclass(frozen=True)
class FixResult:
    """The changes for some targets."""

    changes: tuple[FixChange, ...]
    """Proposed changes, in the order in which they were found; together they are one patch."""
    refused: tuple[FixChange, ...] = ()
    """Changes that were tried and failed, also in another target only, or that are left out because nothing shows
    them safe."""
    no_fix: tuple[NoFix, ...] = ()
    edits: tuple[Edit, ...] = ()
    """All changes together, as edits of the current files."""
    patch: str = ""
    """All edits in the user's own files, as one unified diff; bytes that are not UTF-8 are escaped
    (`surrogateescape`)."""
    third_party_patch: str = ""
    """The same for installed packages; paths are below their site-packages folder."""
    breaks_before: int | None = None
    """Breaks of all targets together; None if nothing was run."""
    breaks_after: int | None = None
    share_before: float | None = None
    """None for several targets: `targets` has the share of each."""
    share_after: float | None = None
    left: tuple[tuple[str, int], ...] = ()
    """Path and line, in the current files, of each break that is left."""
    kept_out: tuple[tuple[str, int], ...] = ()
    """The same for breaks that are gone because their function, or a caller of it, is excluded from compilation."""
    failure: str | None = None
    """Why nothing could be verified, in one line; for several targets, in the named ones."""
    targets: tuple[FixedTarget, ...] = ()
    """Each target that was to be run."""
