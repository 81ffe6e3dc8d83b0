"""A custom operator (`torch.ops.ns.op`) is called, and no fake kernel for it is found."""

from __future__ import annotations

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Tensor
from tcready.static.library.semantics import CUSTOM_OP

BUILT_IN = frozenset(
    """
    aten prim prims debugprims quantized quantized_decomposed c10d c10d_functional inductor higher_order mkldnn mkl
    sparse symm_mem rngprims onednn profiler cuda xnnpack prepacked static_runtime fsdp mkldnn_prepacked
    """.split()
)


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name.startswith(f"{CUSTOM_OP}."):
        operator = "::".join(name.removeprefix(f"{CUSTOM_OP}.").split(".", 1))
        return Claim(
            f"`{operator}` has no fake kernel in the code that was read: without one, compiling fails here",
            "medium",
            "compile_error",
        )
    if not name.startswith("torch.ops.") or has_fake_kernel(fact):
        return None
    namespace = name.removeprefix("torch.ops.").partition(".")[0]
    if namespace in BUILT_IN or namespace.startswith("_"):
        return None
    return Claim(f"`{name}` has no fake kernel in the code that was read: without one, the graph ends here", "medium")


def has_fake_kernel(fact: Call) -> bool:
    """The engine saw a registration: it then says for sure that the operator gives a tensor."""
    return isinstance(fact.result, Tensor) and fact.result.sure


RULE = Rule(
    code="TCR404",
    gb_ids=("GB0090",),
    facts=(Call,),
    check=check,
    rewriters=("fake_kernels.fake_kernel",),
    module=__name__,
)
