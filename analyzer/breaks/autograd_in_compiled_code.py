"""Compiled code takes gradients or keeps hooks.

## Why it hurts torch.compile
A graph does not know how its inputs were computed, and its outputs get an autograd history only when the graph is
called. Code that reads this history, keeps the handle of a hook, or takes gradients of a value that it also returns
needs what does not exist during tracing.

## Use instead
Call `backward()` and `torch.autograd.grad` outside of the compiled function, or use `torch.func.grad` inside. Register
hooks before the model is compiled.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="autograd-in-compiled-code",
    page=__doc__,
    breaks=(
        Break(
            "GB0100",
            "The handle of a hook is stored in a global variable.",
            cure="Do not store the handle, or register the hook before the compiled code is called.",
            bad="""
handle = None
def model(x):
    global handle
    y = x * 2
    handle = y.register_hook(lambda g: g)  # BAD
    return y
""",
            good="""
def model(x):
    y = x * 2
    y.register_hook(lambda g: g)
    return y
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0104",
            "The code reads `grad_fn` of a tensor.",
            cure="Check `requires_grad` instead.",
            bad="""
def model(x):
    y = x * 2
    return y * 2 if y.grad_fn is not None else y  # BAD
""",
            good="""
def model(x):
    y = x * 2
    return y * 2 if y.requires_grad else y
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0108",
            "The code calls `retain_grad()`, so that a tensor keeps its gradient.",
            cure="Add an input of zeros to that tensor. After `backward()`, the gradient of this input is the "
            "gradient of the tensor. Or end the compiled code at the tensor, and compute the rest outside.",
            bad="""
def model(x):
    y = x * 2
    y.retain_grad()  # BAD
    return y.sum()
""",
            good="""
def model(x, zeros):
    y = x * 2 + zeros
    return y.sum()
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            good_inputs="(torch.randn(4, 8, requires_grad=True), torch.zeros(4, 8, requires_grad=True))",
        ),
        Break(
            "GB0237",
            "`nn.Parameter` gets a tensor as `requires_grad`, which raises an error in eager mode too.",
            cure="Pass True or False.",
            bad="""
def model(x):
    return nn.Parameter(x, requires_grad=x)  # BAD
""",
            good="""
def model(x):
    return nn.Parameter(x, requires_grad=True)
""",
        ),
        Break(
            "GB0442",
            "`backward` gets an empty list of tensors, which raises an error in eager mode too.",
            bad="""
def model(x):
    x.sum().backward(inputs=[])  # BAD
    return x * 2
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: x.sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB1042",
            "Gradients accumulate in a tensor that was created in the compiled code.",
            cure="Get the gradients as return values instead.",
            bad="""
def model(x):
    z = (x * 2).detach().requires_grad_()
    z.sum().backward(inputs=[z])  # BAD
    return x * 2
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: x.sum())(x * 2)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB7054",
            "Gradients accumulate in a tensor that is not a leaf.",
            cure="Get the gradients as return values instead.",
            bad="""
def model(x):
    y = x * 2
    y.sum().backward(inputs=[y])  # BAD
    return x * 2
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: x.sum())(x * 2)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB0372",
            "The inputs come with an autograd history, and the code takes gradients through it.",
            cure="Detach the inputs, or take gradients outside of the compiled code.",
            bad="""
def model(x):
    y = (x * 2).exp().sum()
    torch.autograd.grad(y, x)
    return torch.autograd.grad(y, x)[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).exp().sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB1381",
            "The code takes gradients twice through the same history, which raises an error in eager mode "
            "too.",
            bad="""
def model(x):
    y = (x * 2).exp().sum()
    torch.autograd.grad(y, x)
    return torch.autograd.grad(y, x)[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).exp().sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB4927",
            "The code returns a tensor whose autograd history was freed when gradients were taken.",
            cure="Return the tensor detached.",
            bad="""
def model(x):
    y = (x * 2).exp()
    return y, torch.autograd.grad(y.sum(), x)[0]  # BAD
""",
            good="""
def model(x):
    y = (x * 2).exp()
    g = torch.autograd.grad(y.sum(), x)[0]
    return y.detach(), g
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB1724",
            "`torch.autograd.grad` gets its tensors as a dict whose keys are not constants.",
            cure="Pass a tuple.",
            bad="""
def model(x):
    y = (x * 2).exp().sum()
    return torch.autograd.grad(y, {x: x})[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).exp().sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB6663",
            "`torch.autograd.grad` gets something that is not a tensor.",
            bad="""
def model(x):
    y = (x * 2).exp().sum()
    return torch.autograd.grad(y, 3)[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).exp().sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB5748",
            "`torch.autograd.grad` gets a gradient edge.",
            cure="Pass the tensor.",
            bad="""
edge = None
def model(x):
    y = (x * 2).exp().sum()
    return torch.autograd.grad(y, torch.autograd.graph.get_gradient_edge(x))[0]  # BAD
""",
            good="""
def model(x):
    return torch.func.grad(lambda x: (x * 2).exp().sum())(x)
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
            config="trace_autograd_ops=True",
        ),
        Break(
            "GB7444",
            "A hook branches on the strides of the gradient, which are unknown during tracing.",
            cure="Compute the same for any strides.",
            bad="""
def model(x):
    y = x * 2
    y.register_hook(lambda g: g * 2 if g.is_contiguous() else g)  # BAD
    return y
""",
            good="""
def model(x):
    y = x * 2
    y.register_hook(lambda g: g * 2)
    return y
""",
            inputs="(torch.randn(4, 8, requires_grad=True),)",
        ),
        Break(
            "GB0209",
            "The code returns an autograd context manager.",
            cure="Use it within the compiled code.",
            bad="""
def model(x):
    return torch.autograd._unsafe_preserve_version_counter(x)  # BAD
""",
            good="""
def model(x):
    y = x.clone()
    with torch.autograd._unsafe_preserve_version_counter(y):
        y.add_(1)
    return y
""",
        ),
    ),
    unshown=(
        Unshown(NEWER, ("GB5821",)),
        Unshown(
            "A function that is called stores the handle of a hook in a global variable. Under torch 2.13, "
            "the type of the direct case is reported instead.",
            ("GB0101",),
        ),
        Unshown(
            "The programs tried so far break with another type of this kind, or not at all.",
            (
                "GB0181",
                "GB1140",
                "GB7324",
            ),
        ),
        Unshown(
            UNRAISED,
            ("GB0371",),
        ),
    ),
)
