"""Objects that Dynamo cannot look into: generators, streams, events, scripted classes, Triton kernels.

## Why it hurts torch.compile
Such an object works in C++ or on a device. Dynamo can pass it through a graph, but traces only the few methods that it
knows. The graph ends at any other method.

## Use instead
Seed, query and configure such objects before the compiled code is called. Inside, use functions of torch that take a
generator, stream or device.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="opaque-object",
    page=__doc__,
    breaks=(
        Break(
            "GB7650",
            "The code calls a method of a `torch.Generator`.",
            cure="Seed it before the compiled code is called.",
            bad="""
g = torch.Generator()
def model(x):
    g.manual_seed(3)  # BAD
    return x * 2
""",
            good="""
g = torch.Generator()
g.manual_seed(3)


def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0146",
            "The code calls a method of an event that Dynamo does not know.",
            cure="A graph has no counterpart. Record events around the call of the compiled code, and read the "
            "time there.",
            bad="""
e = torch.Event()
def model(x):
    e.elapsed_time(e)  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0285",
            "`torch.accelerator.current_stream` gets too many arguments.",
            cure="The call raises an error in eager mode too. Pass a device or nothing, and make the call before "
            "the compiled code is called.",
            bad="""
def model(x):
    torch.accelerator.current_stream("cpu", 3)  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0249",
            "The argument of `torch.accelerator.current_stream` is not a device, or there is no accelerator.",
            cure="Make the call before the compiled code is called, and only if there is an accelerator. Without "
            "one, it raises an error in eager mode too.",
            bad="""
def model(x):
    torch.accelerator.current_stream(x)  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0166",
            "The code adds a callback to the queue of autograd.",
            cure="This is for code that runs in a backward pass, and raises an error anywhere else. If work "
            "follows the forward pass, do it after the call.",
            bad="""
def model(x):
    torch.autograd.Variable._execution_engine.queue_callback(lambda: None)  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0165",
            "The code calls a method of autograd's engine.",
            cure="Call it before the compiled code is called.",
            bad="""
def model(x):
    valid = torch.autograd.Variable._execution_engine.is_checkpoint_valid()  # BAD
    return x * 2 if valid else x
""",
            good="""
VALID = torch.autograd.Variable._execution_engine.is_checkpoint_valid()


def model(x):
    return x * 2 if VALID else x
""",
        ),
        Break(
            "GB6735",
            "`torch.library.wrap_triton` gets more than a kernel.",
            cure="The call raises an error in eager mode too. Pass only the kernel.",
            bad="""
def model(x):
    torch.library.wrap_triton(x, 3)  # BAD
    return x * 2
""",
            good="""
def model(x):
    return x * 2
""",
        ),
    ),
    unshown=(
        Unshown(
            "Only for Triton kernels, which need a GPU. The examples run on a CPU.",
            (
                "GB0216",
                "GB0361",
                "GB3326",
            ),
        ),
        Unshown(
            "Only for objects of TorchScript classes. Those tried so far are traced by torch 2.13.",
            (
                "GB0265",
                "GB0266",
                "GB0267",
            ),
        ),
        Unshown(
            UNRAISED,
            (
                "GB0362",
                "GB1739",
                "GB4026",
            ),
        ),
        Unshown(
            NEWER,
            (
                "GB0998",
                "GB1576",
                "GB2473",
                "GB4996",
                "GB5282",
                "GB6441",
                "GB7905",
                "GB8587",
            ),
        ),
        Unshown(
            "Only for classes registered as opaque types in torch's operator library. No example was "
            "written.",
            (
                "GB2078",
                "GB7685",
                "GB8656",
                "GB8843",
                "GB9567",
            ),
        ),
    ),
)
