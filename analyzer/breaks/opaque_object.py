"""Objects that torch keeps to itself: generators, streams, events, scripted classes, Triton kernels.

## Why it hurts torch.compile
What such an object does lies in C++ or on a device. Dynamo can hand it through a graph, but traces only the few
methods that it knows; at any other the graph ends.

## Use instead
Seed, query and configure such objects before the compiled code is called. Inside, use functions of torch that take
a generator, stream or device.
"""

from __future__ import annotations

from tcready.breaks.page import NEWER, UNRAISED, Break, Page, Unshown

PAGE = Page(
    name="opaque-object",
    page=__doc__,
    breaks=(
        Break(
            "GB7650",
            "A method of a generator is called.",
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
            "A method of an event is called that Dynamo does not know.",
            cure="There is no counterpart in a graph: record events around the call of the compiled code, and "
            "read the time there.",
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
            "`torch.accelerator.current_stream` got too many arguments.",
            cure="Python refuses the call as well: give a device, or nothing, and ask before the compiled code "
            "is called.",
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
            "`torch.accelerator.current_stream` got something that is no device, or there is no accelerator.",
            cure="Ask before the compiled code is called, and where there is an accelerator: without one the "
            "call raises in eager code too.",
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
            "A callback is put into autograd's queue.",
            cure="That is for code that runs in a backward pass, and raises anywhere else: what is to be done "
            "after a forward is done behind the call.",
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
            "A method of autograd's engine is called.",
            cure="Ask before the compiled code is called.",
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
            "`torch.library.wrap_triton` got more than a kernel.",
            cure="Python refuses the call as well: give the kernel alone.",
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
            "Only for Triton kernels, which need a GPU: the examples run on a CPU.",
            (
                "GB0216",
                "GB0361",
                "GB3326",
            ),
        ),
        Unshown(
            "Only for objects of TorchScript classes; those that were tried are traced under torch 2.13.",
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
            "Only for classes registered as opaque types with torch's library of operators: no example "
            "was written.",
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
