"""Gradients are asked for, or hooks are kept, inside of what is compiled.

## Why it hurts torch.compile
A graph has no history of how its inputs were made, and its outputs get theirs only when it is called. Code that
reads that history, keeps a hook's handle, or takes gradients of what it also returns, needs what does not exist
while tracing.

## Use instead
Call `backward()` and `torch.autograd.grad` outside of the compiled function; or `torch.func.grad` inside of it.
Register hooks before the model is compiled.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="autograd-in-compiled-code",
    page=__doc__,
    breaks=(
        Break(
            "GB0100",
            "The handle of a hook is kept in a global variable.",
            cure="Do not keep the handle; or register the hook before the compiled code is called.",
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
            "`grad_fn` of a tensor is read.",
            cure="Ask `requires_grad` instead.",
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
            "`retain_grad()` is called: a tensor is to keep its gradient.",
            cure="Add an input of zeros to that tensor: after `backward()` the gradient of the input is the tensor's. "
            "Or end the compiled code at the tensor, and compute the rest from it outside.",
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
            "`nn.Parameter` is given a tensor as `requires_grad`, which eager refuses, too.",
            cure="Give it True or False.",
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
            "`backward` is given no tensors, which eager refuses, too.",
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
            "Gradients are collected in a tensor that was made in the compiled code.",
            cure="Take them as results.",
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
            "Gradients are collected in a tensor that is no leaf.",
            cure="Take them as results.",
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
            "The tensors came in with a history, and gradients go through it.",
            cure="Detach them, or take gradients outside.",
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
            "Gradients are taken twice through the same history, which eager refuses, too.",
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
            "Gradients use up the history of a tensor that is returned.",
            cure="Return it detached.",
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
            "The tensors of `torch.autograd.grad` are a dict whose keys are no constants.",
            cure="Give a tuple.",
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
            "`torch.autograd.grad` got something that is no tensor.",
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
            "`torch.autograd.grad` got an edge of the history.",
            cure="Give the tensor.",
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
            "A hook decides by the strides of the gradient, which are not known while tracing.",
            cure="Let it compute the same for any.",
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
            "A context of autograd is returned.",
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
            "The handle of a hook is kept in a global variable by a function that is called; under "
            "torch 2.13 the type of the direct case is shown instead.",
            ("GB0101",),
        ),
        Unshown(
            "The programs that were tried break with another type of this kind, or not at all; no example "
            "has been found so far.",
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
