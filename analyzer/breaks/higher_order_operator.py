"""Arguments of `torch.cond`, `while_loop`, scans, maps and the like, or what their functions do.

## Why it hurts torch.compile
Such an operator becomes one node of the graph, with a subgraph for each function that it gets. This subgraph must be
complete: the function changes nothing outside, returns new tensors, and branches return the same structure. Otherwise
Dynamo has no subgraph for the node, and most of these operators raise an error instead of running eagerly.

## Use instead
Pass functions that only compute: tensors in, new tensors out, of the same shapes and dtypes in every branch. Return
`x.clone()` rather than `x`. Return a changed value instead of changing it in place. Pass operands as a tuple of
tensors. If the condition is known before the call, use a plain `if` instead of an operator.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="higher-order-operator",
    page=__doc__,
    breaks=(
        Break(
            "GB0040",
            "A branch returns its operand itself.",
            cure="Return a copy.",
            bad="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x, lambda x: x + 1, (x,))
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x.clone(), lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0041",
            "A branch changes its operand in place.",
            cure="Use the operation that returns a new tensor.",
            bad="""
def model(x):
    def double(x):
        x.add_(1)
        return x * 2
    return torch.cond(x.sum() > 0, double, lambda x: x + 1, (x,))
""",
            good="""
def model(x):
    def double(x):
        return (x + 1) * 2

    return torch.cond(x.sum() > 0, double, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0067",
            "A function passed to the operator changes a list or an object outside of it.",
            cure="Return the value instead.",
            bad="""
def model(x):
    seen = []
    def double(x):
        seen.append(x.mean())
        return x * 2
    def add(x):
        seen.append(x.amax())
        return x + 1
    out = torch.cond(x.sum() > 0, double, add, (x,))
    return out * seen[0]
""",
            good="""
def model(x):
    def double(x):
        return x * 2, x.mean()

    def add(x):
        return x + 1, x.amax()

    out, seen = torch.cond(x.sum() > 0, double, add, (x,))
    return out * seen
""",
        ),
        Break(
            "GB4413",
            "A function passed to the operator sets an attribute of an object outside of it.",
            cure="Set it after the operator.",
            bad="""
class Part:
    n = 1
p = Part()
def model(x):
    def f(x):
        p.n = 2
        return x * 2
    return torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)  # BAD
""",
            good="""
class Part:
    n = 1


p = Part()


def model(x):
    def f(x):
        return x * 2

    out = torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    p.n = 2
    return out
""",
        ),
        Break(
            "GB0302",
            "A branch is not a function.",
            bad="""
def model(x):
    return torch.cond(x.sum() > 0, 1, lambda x: x + 1, (x,))
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 1, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0304",
            "The additional inputs are a single tensor.",
            cure="Pass a tuple.",
            bad="""
def model(x):
    return torch.ops.higher_order.while_loop(lambda x: x.sum() > 3, lambda x: (x * 2,), (x,), x)
""",
            good="""
def model(x):
    return torch.ops.higher_order.while_loop(lambda x: x.sum() > 1e30, lambda x: (x * 2,), (x,), ())
""",
        ),
        Break(
            "GB0308",
            "The condition returns more than one value.",
            cure="Reduce it, for example with `any()` or `all()`.",
            bad="""
from torch._higher_order_ops.while_loop import while_loop
def model(x):
    return while_loop(lambda x: x < 3, lambda x: (x * 2,), (x,))
""",
            good="""
from torch._higher_order_ops.while_loop import while_loop


def model(x):
    return while_loop(lambda x: (x > 1e30).any(), lambda x: (x * 2,), (x,))
""",
        ),
        Break(
            "GB0309",
            "Arguments are missing.",
            cure="Pass the condition, both branches and their operands.",
            bad="""
def model(x):
    return torch.ops.higher_order.cond(x.sum() > 0, lambda x: x * 2)
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0310",
            "The condition is neither a bool nor a boolean tensor with one element.",
            bad="""
def model(x):
    return torch.cond([1], lambda x: x * 2, lambda x: x + 1, (x,))
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0311",
            "The operands are a single tensor, not a tuple.",
            cure="Pass a tuple of tensors.",
            bad="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, x)
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0312",
            "An operand is neither a tensor nor a container of tensors.",
            cure="Let the branches close over such values.",
            bad="""
class P: pass
def model(x):
    return torch.cond(x.sum() > 0, lambda x, p: x * 2, lambda x, p: x + 2, (x, P()))
""",
            good="""
class P:
    by = 2


p = P()


def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * p.by, lambda x: x + p.by, (x,))
""",
        ),
        Break(
            "GB0314",
            "A branch returns something other than tensors and numbers.",
            bad="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: "a", lambda x: "b", (x,))
""",
            good="""
def model(x):
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x + 1, (x,))
""",
        ),
        Break(
            "GB0315",
            "The input of a scan is a tensor, but must be a list of tensors.",
            cure="Call the public function, which makes the list.",
            bad="""
def model(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, x, [])
""",
            good="""
from torch._higher_order_ops import associative_scan


def model(x):
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")
""",
        ),
        Break(
            "GB0316",
            "The additional inputs are a tensor, but must be a tuple.",
            cure="Call the public function, which passes them itself.",
            bad="""
def model(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, [x], x)
""",
            good="""
from torch._higher_order_ops import associative_scan


def model(x):
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")
""",
        ),
        Break(
            "GB0317",
            "The input of a scan is a tensor without elements.",
            cure="Check its size first, with a plain `if`.",
            bad="""
def model(x):
    return torch.ops.higher_order.associative_scan(lambda a, b: a + b, [x[:0]], [])
""",
            good="""
from torch._higher_order_ops import associative_scan


def model(x):
    if x.size(0) == 0:
        return x.clone()
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")
""",
        ),
        Break(
            "GB0325",
            "`map` gets a keyword argument.",
            cure="Pass it by position.",
            bad="""
def model(x):
    return torch.ops.higher_order.map_impl(lambda x: x * 2, [x], [], a=3)
""",
            good="""
from torch._higher_order_ops.map import map as map_


def model(x):
    return map_(lambda row, by: row * by, x, x.sum())
""",
        ),
        Break(
            "GB0326",
            "The input of `map` is a tensor without elements.",
            cure="Check its size first, with a plain `if`.",
            bad="""
def model(x):
    return torch.ops.higher_order.map_impl(lambda x: (x * 2,), [x[:0]], [])
""",
            good="""
from torch._higher_order_ops.map import map as map_


def model(x):
    if x.size(0) == 0:
        return x.clone()
    return map_(lambda row: row * 2, x)
""",
        ),
        Break(
            "GB0327",
            "An ExecuTorch delegate gets a keyword argument.",
            cure="Such delegates belong in exported programs. Compile the module itself.",
            bad="""
def model(x):
    return torch.ops.higher_order.executorch_call_delegate(x, x, a=3)  # BAD
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB6017",
            "The first argument of an ExecuTorch delegate is not a module.",
            cure="Such delegates belong in exported programs. Compile the module itself.",
            bad="""
def model(x):
    return torch.ops.higher_order.executorch_call_delegate(x, x)  # BAD
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0330",
            "An operator that is internal to torch gets a keyword argument.",
            cure="Use `torch.set_grad_enabled` as a context manager.",
            bad="""
def model(x):
    return torch.ops.higher_order.wrap_with_set_grad_enabled(True, lambda x: x, x, a=3)  # BAD
""",
            good="""
def model(x):
    with torch.set_grad_enabled(True):
        return x * 2
""",
        ),
        Break(
            "GB0331",
            "The argument that turns gradients on or off is not a constant.",
            cure="Use a Python bool.",
            bad="""
def model(x):
    return torch.ops.higher_order.wrap_with_set_grad_enabled(x, lambda x: x, x)  # BAD
""",
            good="""
def model(x):
    with torch.set_grad_enabled(True):
        return x * 2
""",
        ),
        Break(
            "GB0333",
            "An operator that is internal to torch gets a keyword argument.",
            cure="Use `torch.autocast` as a context manager.",
            bad="""
def model(x):
    return torch.ops.higher_order.wrap_with_autocast("cpu", None, True, None, lambda x: x, x, a=3)  # BAD
""",
            good="""
def model(x):
    with torch.autocast("cpu"):
        return x * 2
""",
        ),
        Break(
            "GB0344",
            "The settings of autocast are not constants.",
            cure="Use `torch.autocast` as a context manager, with constants.",
            bad="""
def model(x):
    return torch.ops.higher_order.wrap_with_autocast("cpu", x, True, None, lambda x: x, x)  # BAD
""",
            good="""
def model(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x * 2
""",
        ),
        Break(
            "GB0335",
            "Arguments are missing.",
            cure="Hints are for exported code. Compile the function itself.",
            bad="""
def model(x):
    return torch.ops.higher_order.hints_wrapper(lambda x: x, (x,))
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0336",
            "`out_dtype` gets a keyword argument.",
            cure="Cast the result instead.",
            bad="""
def model(x):
    return torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x, x, a=3)  # BAD
""",
            good="""
def model(x):
    return (x @ x.t()).to(torch.float64)
""",
        ),
        Break(
            "GB0337",
            "An operator of strict mode gets a keyword argument.",
            cure="Call the function itself.",
            bad="""
def model(x):
    return torch.ops.higher_order.strict_mode(lambda x: x, (x,), a=3)
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0339",
            "The condition of `while_loop` is a constant, so the loop would not end.",
            cure="Make it depend on a value that the loop changes.",
            bad="""
from torch._higher_order_ops.while_loop import while_loop
def model(x):
    return while_loop(lambda x: True, lambda x: (x * 2,), (x,))
""",
            good="""
from torch._higher_order_ops.while_loop import while_loop


def model(x):
    return while_loop(lambda x: x.sum() > 1e30, lambda x: (x * 2,), (x,))
""",
        ),
        Break(
            "GB0342",
            "The code calls the operator behind `scan` directly.",
            cure="Call the public function.",
            bad="""
def model(x):
    return torch.ops.higher_order.scan(lambda a, b: (a + b, b), [x[0]], [x], [])
""",
            good="""
from torch._higher_order_ops.scan import scan


def model(x):
    return scan(lambda carry, x: (carry + x, carry * x), torch.zeros(8), x)
""",
        ),
        Break(
            "GB0343",
            "The function passed to `scan` returns one value.",
            cure="Return the carried value and the result of the step.",
            bad="""
from torch._higher_order_ops.scan import scan
def model(x):
    return scan(lambda c, x: c + x, torch.zeros(8), x)
""",
            good="""
from torch._higher_order_ops.scan import scan


def model(x):
    return scan(lambda carry, x: (carry + x, carry * x), torch.zeros(8), x)
""",
        ),
        Break(
            "GB0017",
            "The code calls the operator behind `nested_compile_region` directly.",
            cure="Use the decorator.",
            bad="""
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
def model(x):
    return invoke_subgraph(lambda x: x * 2, "a", x)  # BAD
""",
            good="""
@torch.compiler.nested_compile_region
def double(x):
    return x * 2


def model(x):
    return double(x)
""",
        ),
        Break(
            "GB0306",
            "The code calls an operator that is internal to torch.",
            cure="Call the operation itself.",
            bad="""
from torch._higher_order_ops.flat_apply import flat_apply
def model(x):
    return torch.ops.higher_order.run_and_save_rng_state(torch.ops.aten.relu.default, x)  # BAD
""",
            good="""
def model(x):
    return torch.relu(x)
""",
        ),
    ),
    unshown=(
        Unshown(
            "None has been found so far. In the programs tried, an earlier check fails first, or the "
            "operator is internal to torch.",
            (
                "GB0042",
                "GB0073",
                "GB0074",
                "GB0149",
                "GB0301",
                "GB0303",
                "GB0305",
                "GB0307",
                "GB0313",
                "GB0318",
                "GB0319",
                "GB0320",
                "GB0321",
                "GB0322",
                "GB0323",
                "GB0324",
                "GB0329",
                "GB0332",
                "GB0334",
                "GB0338",
                "GB0340",
                "GB0341",
                "GB0345",
                "GB0349",
                "GB0350",
                "GB0351",
                "GB0353",
                "GB0356",
                "GB1177",
                "GB2977",
                "GB7299",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0328",
                "GB0355",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB1075",
                "GB1824",
                "GB4307",
                "GB4774",
                "GB5884",
                "GB6183",
                "GB7072",
                "GB7694",
                "GB7935",
                "GB8165",
                "GB8206",
                "GB8593",
                "GB9203",
                "GB9509",
                "GB9760",
            ),
        ),
    ),
)
