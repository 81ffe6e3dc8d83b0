"""Remedies for an arm that is not faster than eager code, chosen by the measured causes, and their risks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tcready.bench.verdicts import NOTICEABLE
from tcready.schema.bench import Arm, ArmBench, Bench

DEFAULT = "default"
"""The arm that remedies are tried for."""
NO_GAIN = ("regression", "likely_regression", "no_gain", "likely_no_gain")
"""Verdicts for which remedies are tried."""
GUARD_FILTER = 'model = torch.compile(model, options={{"guard_filter_fn": torch.compiler.{}}})'


@dataclass(frozen=True)
class RemedyCandidate:
    """A way to compile, and its risk."""

    arm: Arm
    risk: str


WITHOUT_MODULE_GUARDS = RemedyCandidate(
    Arm("no module guards", GUARD_FILTER.format("skip_guard_on_inbuilt_nn_modules_unsafe")),
    "a changed attribute or hook of a torch.nn module goes unnoticed",
)
WITHOUT_ATTRIBUTE_GUARDS = RemedyCandidate(
    Arm("no attribute guards", GUARD_FILTER.format("skip_guard_on_all_nn_modules_unsafe")),
    "a changed attribute of any module goes unnoticed; it is safer to pass what changes as an argument, and to read "
    "the rest from constants instead of attributes",
)
TENSOR_GUARDS_ALONE = RemedyCandidate(
    Arm("tensor guards alone", GUARD_FILTER.format("keep_tensor_guards_unsafe")),
    "a changed attribute, global or Python argument goes unnoticed: the old value is used",
)
CUDA_GRAPHS = RemedyCandidate(
    Arm("CUDA graphs", 'model = torch.compile(model, mode="reduce-overhead")'),
    "each graph has its own memory, and the next call overwrites an output",
)
ONE_SIZE = RemedyCandidate(
    Arm("static sizes", "model = torch.compile(model, dynamic=False)"),
    "each new size is recompiled, up to the recompile limit",
)
CONSTANT_FLOATS = RemedyCandidate(
    Arm("constant floats", "torch._dynamo.config.specialize_float = True\nmodel = torch.compile(model)"),
    "each new value of a Python float is recompiled, up to the recompile limit",
)
NESTED_BREAKS = RemedyCandidate(
    Arm("nested breaks", "torch._dynamo.config.nested_graph_breaks = True\nmodel = torch.compile(model)"),
    "torch computes wrong values or raises in some code, such as `list(map(f, ...))` with a break in `f`: compare the "
    "outputs",
)
ANY_SIZE = RemedyCandidate(
    Arm("dynamic sizes", "model = torch.compile(model, dynamic=True)"), "kernels for any size may be slower"
)
BLOCKS = RemedyCandidate(
    Arm(
        "blocks",
        "for blocks in [each for each in model.modules() if isinstance(each, torch.nn.ModuleList)]:\n"
        "    for block in blocks:\n"
        "        block.compile()",
    ),
    "code outside the blocks stays eager",
)


CANDIDATES = (
    WITHOUT_MODULE_GUARDS,
    WITHOUT_ATTRIBUTE_GUARDS,
    TENSOR_GUARDS_ALONE,
    CUDA_GRAPHS,
    CONSTANT_FLOATS,
    NESTED_BREAKS,
    BLOCKS,
    ANY_SIZE,
    ONE_SIZE,
)
RISKS: Mapping[str, str] = MappingProxyType({each.arm.name: each.risk for each in CANDIDATES})


def remedies_for(bench: Bench) -> tuple[Arm, ...]:
    """Return the remedies to try if the arm `default` does not pay off; empty if it does, or was not timed."""
    summary = bench.cases[-1].arms if bench.cases else ()
    slow = next((arm for arm in summary if arm.arm == DEFAULT and arm.verdict in NO_GAIN), None)
    if slow is None or slow.code != "model = torch.compile(model)":
        return ()
    return tuple(each.arm for each in candidates(slow, several_cases=len(bench.cases) > 1))


def candidates(arm: ArmBench, *, several_cases: bool) -> Iterator[RemedyCandidate]:
    """Yield the remedies that fit the measurements of the arm `default`."""
    call = arm.seconds.median if arm.seconds else 0.0
    if (arm.dynamo_seconds or 0.0) > NOTICEABLE * call:
        yield WITHOUT_MODULE_GUARDS
        yield WITHOUT_ATTRIBUTE_GUARDS
        yield TENSOR_GUARDS_ALONE
    if arm.kernel_seconds is not None and (arm.host_seconds or 0.0) > arm.kernel_seconds.median:
        yield CUDA_GRAPHS
    if arm.changing_floats:
        yield CONSTANT_FLOATS
    if arm.breaks and (arm.graphs or 0) > arm.breaks + 1:  # callers are split as well
        yield NESTED_BREAKS
    if arm.breaks:
        yield BLOCKS
    if arm.recompiles:
        yield ANY_SIZE
    if several_cases:
        yield ONE_SIZE
