"""Move code that Dynamo cannot trace to a custom operator: one call in the graph."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.rewrites import NO_TORCH, Decline, Ways, expression, torch_name
from tcready.fixes.rewriters.statements import text
from tcready.static.diagnostics.cst_view import names_in
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

RAISING = """

@{torch}.library.custom_op("{space}::{name}", mutates_args=())
def _{name}(holds: {torch}.Tensor, message: str) -> None:
    if not holds:
        raise {kind}(message)


_{name}.register_fake(lambda holds, message: None)
_{name}.register_effect({torch}.library.EffectType.ORDERED)
"""
"""An operator with an effect stays in the graph, and in its place, though nothing reads its result."""
MATCHING = """

@{torch}.library.custom_op("{space}::matched", mutates_args=())
def _matched(cost: {torch}.Tensor, maximize: bool = False) -> tuple[{torch}.Tensor, {torch}.Tensor]:
    rows, columns = {function}(cost, maximize)
    return {torch}.as_tensor(rows), {torch}.as_tensor(columns)


@_matched.register_fake
def _matched_shapes(cost: {torch}.Tensor, maximize: bool = False) -> tuple[{torch}.Tensor, {torch}.Tensor]:
    found = {torch}.empty(min(cost.shape), dtype={torch}.int64)
    return found, found.clone()
"""
"""SciPy returns int64 indices, one for each row or column, of whichever there are fewer."""
BACKENDS = """

def _attention_backends(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    kinds = {torch}.nn.attention.SDPBackend
    return (
        bool(enable_flash) * [kinds.FLASH_ATTENTION]
        + bool(enable_mem_efficient) * [kinds.EFFICIENT_ATTENTION]
        + bool(enable_math) * [kinds.MATH]
        + bool(enable_cudnn) * [kinds.CUDNN_ATTENTION]
    )
"""
"""The code of the deprecated `torch.backends.cuda.sdp_kernel`, which calls `torch.nn.attention.sdpa_kernel`. It has
no branches: a proof would need inputs for both sides, and the flags are the model's own."""


def raising_operator(place: Located, torch: str, kind: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name of an operator that raises a built-in exception unless a tensor is true, and its definition if
    the file lacks it; None for another exception."""
    found = getattr(builtins, kind, None)
    if not isinstance(found, type) or not issubclass(found, Exception) or kind in place.source.derive(names_in):
        return None
    name = "_".join(word.lower() for word in re.findall("[A-Z][a-z]*|[A-Z]+(?![a-z])", kind)) + "_unless"
    return _defined(place, f"_{name}", RAISING, torch=torch, name=name, kind=kind)


def matching_operator(place: Located) -> Ways:
    """Rewrite `scipy.optimize.linear_sum_assignment(cost)` as a registered operator."""
    node = place.node
    if not isinstance(node, cst.Call):
        return
    function = text(node.func)
    if function.rpartition(".")[2] != "linear_sum_assignment":
        raise Decline(
            f"tcready does not know the shapes and types of the result of `{function}`. Wrap it in a "
            "`torch.library.custom_op` with a fake kernel."
        )
    names = [arg.keyword.value if arg.keyword is not None else "" for arg in node.args]
    if names not in ([""], ["", "maximize"], ["", ""]) or any(arg.star for arg in node.args):
        raise Decline(
            f"`{function}` is called with arguments that an operator cannot take. Pass `cost` by position, and "
            "`maximize`."
        )
    torch = torch_name(place)
    made = _defined(place, "_matched", MATCHING, torch=torch[0], function=function) if torch else None
    if torch is None or made is None:
        raise Decline(NO_TORCH)
    cost = node.args[0].value  # an operator takes no array, which SciPy is given as often
    yield Rewrite(
        "The function becomes a registered operator, with what it gives told for tracing",
        (
            Change((node.func,), (cst.Name(made[0]),)),
            Change((cost,), (expression(f"{torch[0]}.as_tensor(cost)", cost=cost),)),
        ),
        "it returns tensors instead of arrays, and no backend optimizes it",
        (*torch[1], *made[1]),
    )


def attention_kernels(place: Located, entered: cst.Call) -> Ways:
    """Rewrite `with torch.backends.cuda.sdp_kernel(...)` with `torch.nn.attention.sdpa_kernel`, which it calls
    itself."""
    torch = torch_name(place)
    if torch is None or torch[1]:
        raise Decline(NO_TORCH)
    made = _defined(place, "_attention_backends", BACKENDS, torch=torch[0])
    if made is None or (torch[0] != "torch" and made[1]):
        raise Decline(
            "The file defines another `_attention_backends`, or renames torch. Call `torch.nn.attention.sdpa_kernel`."
        )
    backends = entered.with_changes(func=cst.Name(made[0]))
    new = expression(f"{torch[0]}.nn.attention.sdpa_kernel(backends)", backends=backends)
    yield Rewrite(
        "The context manager that it enters itself, which Dynamo traces, replaces it",
        (Change((entered,), (new,)),),
        None,
        ("import torch.nn.attention", *made[1]) if made[1] else (),
    )


def _defined(place: Located, defined: str, code: str, **words: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name `defined`, and the code that defines it if the file does not; None if the name means something
    else."""
    tree = place.source.tree
    space = re.sub(r"\W", "_", Path(place.source.path).stem)
    if not space[:1].isalpha() or space.startswith(("aten", "prim")):
        space = f"of_{space}"  # torch refuses the others, or has operators of its own there
    made = code.format(space=space, **words)
    known = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == defined]
    if known:
        same = ast.unparse(known[0]) in ast.unparse(ast.parse(made))
        return (defined, ()) if same else None
    if defined in place.source.derive(names_in):
        return None
    return defined, tuple(made.removesuffix("\n").split("\n"))
