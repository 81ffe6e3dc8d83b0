"""How a `torch.autograd.Function` is written, or how its context is used.

## Why it hurts torch.compile
Dynamo has its own rules for a `torch.autograd.Function`. `forward` and `backward` must be plain static methods with
positional arguments, called through `apply`. The context may save tensors, and little more. Dynamo does not trace
anything else: the graph ends at the call of `apply`.

## Use instead
Write `forward` and `backward` as static methods with positional arguments. Pass different tensors for different
arguments. Leave out `jvp` and `vjp` in compiled code. If the class is not yours, wrap the call in a function and
register it with `torch.library.custom_op`.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, Break, Page, Unshown

PAGE = Page(
    name="autograd-function",
    page=__doc__,
    breaks=(
        Break(
            "GB0102",
            "`backward` reads `layout`, `is_neg`, `is_conj` or `is_pinned` of a gradient, which are unknown "
            "during tracing.",
            cure="Compute the same for any gradient.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 if grad.layout == torch.strided else grad.to_dense() * 2  # BAD


def model(x):
    return Double.apply(x)
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0068",
            "`backward` calls `torch.Tensor.is_neg`, `is_conj` or `is_pinned` on a gradient. The results "
            "are unknown during tracing.",
            cure="Compute the same for any gradient.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad.resolve_neg() * 2 if torch.Tensor.is_neg(grad) else grad * 2  # BAD


def model(x):
    return Double.apply(x)
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0144",
            "The class defines its own `jvp`, which Dynamo does not trace.",
            cure="Leave it out of the class that is compiled. Eager code can use a subclass that has it.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

    @staticmethod
    def jvp(ctx, x):
        return x * 2

def model(x):
    return Double.apply(x)  # BAD
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class DoubleWithForwardMode(Double):
    @staticmethod
    def jvp(ctx, x):
        return x * 2


def model(x):
    double = Double if torch.compiler.is_compiling() else DoubleWithForwardMode
    return double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0145",
            "The class defines its own `vjp`, which Dynamo does not trace.",
            cure="Rename it to `backward`, which means the same.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def vjp(ctx, grad):
        return grad * 2

def model(x):
    return Double.apply(x)  # BAD
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB4372",
            "`forward` has keyword-only arguments, and `apply` takes none in eager mode.",
            cure="Make them positional.",
            bad="""
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *, by=2.0):
        return x * by

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return Scale.apply(x, by=3.0)  # BAD
""",
            good="""
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        return x * by

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None


def model(x):
    return Scale.apply(x, 3.0)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB6297",
            "One tensor is passed for two arguments.",
            cure="Pass a copy for one of them.",
            bad="""
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a

def model(x):
    return Product.apply(x, x)  # BAD
""",
            good="""
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a


def model(x):
    return Product.apply(x, x.clone())
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB2464",
            "An input that is marked as changed in place is not returned, which raises an error in eager "
            "mode too.",
            cure="Return it.",
            bad="""
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x.add_(1)
        ctx.mark_dirty(x)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad

def model(x):
    return Add.apply(x.clone(), x)  # BAD
""",
            good="""
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


def model(x):
    return Add.apply(x.clone() + 1, x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0085",
            "`forward` is an object, not a function.",
            cure="Write a static method that calls the object.",
            bad="""
class Doubler:
    def __call__(self, ctx, x):
        return x * 2

class Double(torch.autograd.Function):
    forward = Doubler()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return Double.apply(x)  # BAD
""",
            good="""
def double(x):
    return x * 2


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return double(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
        ),
        Break(
            "GB0346",
            "`forward` is an object, not a function, and a gradient is required.",
            cure="Write a static method that calls the object.",
            bad="""
class Doubler:
    def __call__(self, ctx, x):
        return x * 2

class Double(torch.autograd.Function):
    forward = Doubler()

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return Double.apply(x)  # BAD
""",
            good="""
def double(x):
    return x * 2


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return double(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0140",
            "The code calls a method of the class other than `apply`.",
            cure="Call it outside of the compiled code.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return x if Double.mro() else x + 1  # BAD
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


BASES = Double.mro()


def model(x):
    return x if BASES else x + 1
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0347",
            "`forward` sets `_materialize_non_diff_grads` of its context.",
            cure="Remove the assignment. `backward` then gets zeros, not None, for an output that is not "
            "differentiable.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx._materialize_non_diff_grads = False
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return Double.apply(x)  # BAD
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0139",
            "The code calls a method of the context that Dynamo does not know.",
            cure="Dynamo traces `save_for_backward`, `mark_non_differentiable` and `set_materialize_grads`.",
            bad="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.maybe_clear_saved_tensors()  # BAD
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def model(x):
    return Double.apply(x)
""",
            good="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def model(x):
    return Double.apply(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
    ),
    unshown=(
        Unshown(
            NEWER,
            (
                "GB8982",
                "GB9958",
            ),
        ),
        Unshown(
            "None has been found so far.",
            (
                "GB0019",
                "GB0348",
                "GB0352",
            ),
        ),
        Unshown(
            "The code uses a context that `apply` did not create. No example has been found so far.",
            (
                "GB0138",
                "GB0205",
                "GB2019",
            ),
        ),
    ),
)
