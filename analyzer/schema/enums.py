"""The enumerated values: effects, levels, stages and their states, in the orders that code compares by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

SCHEMA_VERSION = 1
"""1: first version."""
Effect = Literal[
    "graph_break",
    "frame_skip",
    "recompile",
    "compile_error",
    "wrong_result",
    "sync",
    "cudagraph_skip",
    "slow",
    "intent",
]
Level = Literal["error", "warning", "note"]
Confidence = Literal["high", "medium", "low"]
Origin = Literal["own", "third_party"]
Status = Literal["confirmed", "not_observed", "not_traced", "not_reached", "runtime_only", "predicted"]
Verdict = Literal["ready", "ready_by_region", "not_ready", "unknown"]
Resolved = Literal["source", "library", "value"]
"""How a call was resolved: to a function or class with known source, a known name without source, or a method of a
known value."""
StageName = Literal[
    "parse", "import", "build", "eager", "capture", "fullgraph", "shapes", "plan", "backend", "parity", "speed"
]
StageState = Literal["pass", "fail", "not_run"]
StageReason = Literal[
    "timeout",
    "memory",
    "crash",
    "exit",
    "no_torch",
    "device_missing",
    "not_asked",
    "budget",
    "earlier_stage",
    "compile_error",
    "mismatch",
    "not_comparable",
    "no_toolchain",
    "no_inputs",
    "no_values",
    "not_built",
    "error",
]
"""Why a stage failed or did not run. `crash`: the process died by a signal; `exit`: it ended by itself; `mismatch`:
the compiled outputs differ from eager; `not_comparable`: eager differs from itself, or returns no tensor;
`no_toolchain`: the backend lacks a compiler; `no_inputs`: arguments for building or calling the model are missing,
and could not be generated; `no_values`: it reads, compares or measures the values of tensors, which the device
`meta` does not have; `not_built`: the model's constructor raises; `error`: any other exception."""
Engine = Literal["vllm"]
"""A serving engine with a compile pipeline of its own that is read."""
EAGER = "eager"
"""The arm that the others are compared with: the unmodified code. Parts that it compiles itself stay compiled."""
InputsSource = Literal["option", "project", "convention", "made_up", "object", "library"]
"""The source of the inputs: `--inputs`, a table of pyproject.toml, the file itself, generated, the caller in this
process, or a library's description of a named model."""
Speaker = Literal["static", "dynamo"]
"""The source of a line of evidence."""
TrainingPhase = Literal["loss", "gradients", "forward", "backward", "optimizer", "step"]
Mode = Literal["infer", "train"]
Parallelism = Literal["ddp", "fsdp", "tp"]
"""How several processes share a model: copies of it in DistributedDataParallel, FSDP2 (`fully_shard`), a
tensor-parallel plan (`parallelize_module`)."""
ModeAsked = Literal["infer", "train", "both"]
Fate = Literal["split", "whole_frame", "not_compiled"]
Action = Literal["resume", "skip_frame", "skip_rest", "skip_frame_unlogged"]
RegionState = Literal["predicted", "proved", "refuted"]
PlacementName = Literal["whole", "regions", "repeated_blocks", "nested", "disable"]
"""Where `torch.compile` is applied: to the whole model; to the parts proved to compile whole; to repeated blocks
alone; to the whole model with its repeated blocks compiled once (`nested_compile_region`), or with the functions
that break excluded (`torch.compiler.disable`)."""
PlanChoice = Literal[PlacementName, "eager", "none"]
"""`eager`: everything that was tried raised, differed, recompiled or captured nothing; `none`: nothing could be
tried."""
PLACEMENT_WORDS: Mapping[PlanChoice, str] = {
    "whole": "the whole model",
    "regions": "regions",
    "repeated_blocks": "repeated blocks",
    "nested": "whole model, repeated blocks traced once",
    "disable": "whole model, functions that break kept out",
    "eager": "leave it eager",
    "none": "no recommendation",
}
FindingKind = Literal["new", "moved", "unchanged", "fixed", "not_compared"]
"""`not_compared`: the later report does not show it: it did not read that file or run that target, read it
differently, or hides the finding."""
ShapeSetting = Literal["default", "dynamic=True", "dynamic=False", "mark_dynamic", "dynamic_shapes", "pad"]
"""`dynamic_shapes`: `torch.compile(dynamic_shapes=...)`, from torch 2.14 on. `pad`: inputs that are padded to a multiple
of 8 before each call."""
ShapeCure = Literal[
    "none", "keep", "mark_dynamic", "dynamic=True", "dynamic=False", "dynamic_shapes", "pad", "mend", "unknown"
]
"""What to do: nothing, because nothing recompiles; keep the default; use a setting; `mend`: first fix the
recompilation of identical calls; `unknown`: no setting is sound."""
LEVELS: tuple[Level, ...] = ("note", "warning", "error")
"""In rising order of severity."""
RESOLVED: tuple[Resolved, ...] = get_args(Resolved)
FATES: tuple[Fate, ...] = ("not_compiled", "split", "whole_frame")
"""In rising order of what is lost: of several fates of one function the last of these is shown."""
STAGES: tuple[StageName, ...] = get_args(StageName)
"""In the order in which a target passes them."""
OF_THE_MODEL: frozenset[StageReason] = frozenset({"compile_error", "mismatch"})
"""Reasons for a failed stage that are about the model; all others leave open whether it compiles."""
BREAKING: frozenset[Effect] = frozenset({"graph_break", "frame_skip", "compile_error"})
"""Effects that split or end a compiled region."""
INTENDED = frozenset({"GB0025", "GB0098", "GB0099"})
"""IDs of breaks that the author requested: `torch._dynamo.graph_break()`, `torch.compiler.disable`."""


class TcreadyError(Exception):
    """An error that the user can fix: reported in one line, exit 2, never a traceback."""


def in_words(names: Sequence[str]) -> str:
    """Join several alternatives: `float16`, `float16 or bfloat16`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def counted(count: int, one: str, many: str | None = None) -> str:
    """Format `1 error`, `2 errors`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def lines_of(text: str) -> list[str]:
    """Return the lines of a source as Python counts them: a form feed or U+2028 does not end one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def visible(text: str, keep: str = "") -> str:
    """Return `text` with every invisible or reordering character replaced by its Python escape.

    Those are controls, format characters (bidi overrides, zero-width), line and paragraph separators and lone
    surrogates. The characters in `keep` are not replaced.
    """
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category  # a table of its own, which hardly any text needs

    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        each.encode("unicode_escape").decode("ascii") if each not in keep and category(each) in unseen else each
        for each in text
    )
