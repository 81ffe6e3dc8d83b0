"""The enumerations of the schema: effects, levels, stages and their states, in the order of comparisons."""

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
"""What a call was resolved to: a function or class whose source is read, a name that is known without it, a method of a
value that is known."""
StageName = Literal[
    "parse",
    "import",
    "build",
    "eager",
    "capture",
    "fullgraph",
    "shapes",
    "plan",
    "backend",
    "parity",
    "speed",
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
"""Why a stage failed or did not run. `crash`: the process died by a signal; `exit`: it ended by itself; `mismatch`: the
compiled outputs differ from eager; `not_comparable`: eager differs from itself, or gives no tensor; `no_toolchain`: the
backend lacks a compiler; `no_inputs`: nobody gives what the model is built or called with, and it could not be made up;
`no_values`: it reads, compares or measures what tensors hold, which the device `meta` does not know; `not_built`: the
model's constructor raises;
`error`: anything else that was raised."""
Engine = Literal["vllm"]
"""A serving engine whose own compile pipeline is read."""
EAGER = "eager"
"""The arm that the others are held against: the code as it stands. What it compiles itself stays compiled."""
InputsSource = Literal["option", "project", "convention", "made_up", "object", "library"]
"""What gave the inputs: `--inputs`, a table of pyproject.toml, the file itself, nobody (they were made up), the caller
in this process, or what a library says of a model that was named."""
Speaker = Literal["static", "dynamo"]
"""Who says a line of evidence."""
TrainingPhase = Literal["loss", "gradients", "forward", "backward", "optimizer", "step"]
Mode = Literal["infer", "train"]
Parallelism = Literal["ddp", "fsdp", "tp"]
"""How several processes share a model: copies of it in DistributedDataParallel, FSDP2 (`fully_shard`), a tensor-parallel
plan (`parallelize_module`)."""
ModeAsked = Literal["infer", "train", "both"]
Fate = Literal["split", "whole_frame", "not_compiled"]
Action = Literal["resume", "skip_frame", "skip_rest", "skip_frame_unlogged"]
RegionState = Literal["predicted", "proved", "refuted"]
PlacementName = Literal["whole", "regions", "repeated_blocks", "nested", "disable"]
"""Where `torch.compile` is put: on the whole model; on the parts proved to compile whole; on repeated blocks alone;
on the whole model with its repeated blocks compiled once (`nested_compile_region`), or with the functions that break
kept out (`torch.compiler.disable`)."""
PlanChoice = Literal[PlacementName, "eager", "none"]
"""`eager`: all that was tried raised, differed, recompiled or captured nothing; `none`: nothing could be tried."""
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
"""`not_compared`: the later report cannot tell: it did not read that file or run that target, read it otherwise, or
hides the finding."""
ShapeSetting = Literal["default", "dynamic=True", "dynamic=False", "mark_dynamic", "dynamic_shapes", "pad"]
"""`dynamic_shapes`: `torch.compile(dynamic_shapes=...)`, from torch 2.14 on. `pad`: inputs that are padded to a multiple
of 8 before each call."""
ShapeCure = Literal[
    "none",
    "keep",
    "mark_dynamic",
    "dynamic=True",
    "dynamic=False",
    "dynamic_shapes",
    "pad",
    "mend",
    "unknown",
]
"""What to do: nothing, as nothing recompiles; leave the default; take a setting; `mend` the recompilation of identical
calls first; `unknown`: no setting is sound."""
LEVELS: tuple[Level, ...] = ("note", "warning", "error")
"""In rising order of weight."""
RESOLVED: tuple[Resolved, ...] = get_args(Resolved)
FATES: tuple[Fate, ...] = ("not_compiled", "split", "whole_frame")
"""In rising order of what is lost: of several fates of one function the last of these is told."""
STAGES: tuple[StageName, ...] = get_args(StageName)
"""In the order in which a target climbs them."""
OF_THE_MODEL: frozenset[StageReason] = frozenset({"compile_error", "mismatch"})
"""Reasons for a failed stage that speak of the model; all others leave open whether it compiles."""
BREAKING: frozenset[Effect] = frozenset({"graph_break", "frame_skip", "compile_error"})
"""Effects that split or end a compiled region."""
INTENDED = frozenset({"GB0025", "GB0098", "GB0099"})
"""Ids of breaks that the author asked for: `torch._dynamo.graph_break()`, `torch.compiler.disable`."""


class TcreadyError(Exception):
    """What the user can mend: told in one line, exit 2, never a traceback."""


def in_words(names: Sequence[str]) -> str:
    """Several names as one of them is meant: `float16`, `float16 or bfloat16`."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def lines_of(text: str) -> list[str]:
    """The lines of a source as Python counts them: a form feed or U+2028 does not end one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def visible(text: str, keep: str = "") -> str:
    """`text` with every character that is not seen, or that moves others, spelled as its Python escape.

    Those are controls, format characters (bidi overrides, zero-width), line and paragraph separators and
    lone surrogates. The characters in `keep` stay as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    from unicodedata import category  # a table of its own, which hardly any text needs

    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(
        each.encode("unicode_escape").decode("ascii")
        if each not in keep and category(each) in unseen
        else each
        for each in text
    )
