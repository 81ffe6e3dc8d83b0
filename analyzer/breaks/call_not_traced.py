"""A call, a method or a statement that Dynamo cannot trace.

## Why it hurts torch.compile
Dynamo follows calls into Python code, and knows the operations of torch and most of Python itself. It does not cover a
function written in C, a function of a module that it skips, a context manager that it does not know, or an exception
that nothing in the compiled code catches. The graph ends there, Python makes the call, and a new graph starts after it.

## Use instead
Move the call out of the compiled code: make it once in the constructor, or before or after the model is called. If it
only prints or logs, put it behind `if not torch.compiler.is_compiling():`. If it computes on tensors, use functions of
torch, or register it with `torch.library.custom_op`.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="call-not-traced",
    page=__doc__,
    breaks=(
        Break(
            "GB0007",
            "Dynamo does not trace the function: it is written in C, its module is on Dynamo's skip list, "
            "or it is marked.",
            bad="""
import time


def model(x):
    start = time.perf_counter()  # BAD
    return x * (start > 0)
""",
            good="""
import time


def model(x, start):
    return x * (start > 0)


def timed(compiled, x):
    return compiled(x, time.perf_counter())
""",
            good_inputs="(torch.randn(4, 8), time.perf_counter())",
        ),
        Break(
            "GB0008",
            "The function is written in Python, but Dynamo skips its module.",
            bad="""
def model(x):
    with torch.autograd.set_detect_anomaly(True):  # BAD
        return x * 2
""",
            good="""
def model(x):
    return x * 2


def watched(compiled, x):
    with torch.autograd.set_detect_anomaly(True):
        return compiled(x)
""",
        ),
        Break(
            "GB0147",
            "The code calls an object that Dynamo does not know as a callable.",
            bad="""
import decimal

BY = decimal.Decimal(2)


def model(x):
    return x * 2 if BY > decimal.Decimal(1) else x  # BAD
""",
            good="""
import decimal

MORE = decimal.Decimal(2) > decimal.Decimal(1)


def model(x):
    return x * 2 if MORE else x
""",
        ),
        Break(
            "GB0156",
            "The code calls a method of an object of a type whose methods Dynamo does not know.",
            bad="""
import decimal

BY = decimal.Decimal(2)


def model(x):
    return x * float(abs(-BY))  # BAD
""",
            good="""
import decimal

BY = float(decimal.Decimal(2))


def model(x):
    return x * abs(-BY)
""",
        ),
        Break(
            "GB0059",
            "The code calls a built-in function with arguments that Dynamo cannot trace, such as `print` "
            "with a tensor.",
            cure="If it only prints or logs, run it in eager mode only.",
            bad="""
def model(x):
    print(x)  # BAD
    return x * 2
""",
            good="""
def model(x):
    if not torch.compiler.is_compiling():
        print(x)
    return x * 2
""",
        ),
        Break(
            "GB0142",
            "A `with` block uses a context manager that Dynamo does not know.",
            cure="Enter it around the call of the compiled model.",
            bad="""
import threading

LOCK = threading.Lock()


def model(x):
    with LOCK:  # BAD
        return x * 2
""",
            good="""
import threading

LOCK = threading.Lock()


def model(x):
    return x * 2


def guarded(compiled, x):
    with LOCK:
        return compiled(x)
""",
        ),
        Break(
            "GB0088",
            "The code raises an exception that nothing in the compiled code catches, or on which a check "
            "depends.",
            bad="""
def model(x):
    return x * {"a": 1}["b"]  # BAD
""",
            good="""
def model(x):
    return x * {"a": 1}.get("b", 2)
""",
        ),
        Break(
            "GB0082",
            "A statement compiles to a bytecode instruction that Dynamo does not know, such as `del` of a "
            "variable that an inner function uses.",
            cure="Set the variable to None instead of deleting it.",
            bad="""
def model(x):
    def f():
        return y

    y = x
    del y  # BAD
    try:
        f()
    except NameError:
        pass
    return x * 2
""",
            good="""
def model(x):
    def f():
        return y

    y = x
    y = None
    return x * 2 if f() is None else x
""",
        ),
        Break(
            "GB7312",
            "The arguments do not match the function that is called.",
            cure="Fix the call: it raises a `TypeError` in eager mode too.",
            bad="""
def double(x):
    return x * 2


def model(x):
    return double(x, 3)  # BAD
""",
            good="""
def double(x):
    return x * 2


def model(x):
    return double(x)
""",
        ),
        Break(
            "GB0811",
            "The code loops over an object of a type written in C.",
            bad="""
import array

NUMBERS = array.array("d", [1.0, 2.0])


def model(x):
    for n in NUMBERS:  # BAD
        x = x * n
    return x
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    for n in NUMBERS:
        x = x * n
    return x
""",
        ),
        Break(
            "GB8977",
            "The compiled code defines a class.",
            bad="""
def model(x):
    class Part:  # BAD
        by = 2

    return x * Part.by
""",
            good="""
class Part:
    by = 2


def model(x):
    return x * Part.by
""",
        ),
        Break(
            "GB4841",
            "The code needs the type of a value, which Dynamo does not know.",
            bad="""
def model(x):
    return x * len(vars(len))  # BAD
""",
            good="""
def model(x):
    return x * 2
""",
        ),
        Break(
            "GB0208",
            "A function of torch returns something that is neither a tensor nor a constant.",
            cure="Call it before the model, and pass the result.",
            bad="""
def model(x):
    return x * 2 if x.is_pinned() else x + 1  # BAD
""",
            good="""
def model(x, pinned):
    return x * 2 if pinned else x + 1
""",
            good_inputs="(x := torch.randn(4, 8), x.is_pinned())",
        ),
        Break(
            "GB0116",
            "The code creates an object of a type that Dynamo cannot represent.",
        ),
        Break(
            "GB0117",
            "The code calls a method with arguments that Dynamo's own rule for it does not accept.",
            bad="""
def model(x):
    y = x + 1
    y.share_memory_()  # BAD
    return y * 2
""",
            good="""
def model(x):
    y = x + 1
    return y * 2, y


def shared(compiled, x):
    out, y = compiled(x)
    y.share_memory_()
    return out
""",
        ),
        Break(
            "GB0098",
            "The code calls a function that is marked with `torch.compiler.disable`.",
            cure="It runs eagerly, as requested. Remove the decorator once its reason is gone, as in the "
            "example. Until then, call the function before or after the compiled code, where it does not "
            "split a graph.",
            bad="""
@torch.compiler.disable
def double(x):
    return x * 2


def model(x):
    return double(x) + 1  # BAD
""",
            good="""
def double(x):
    return x * 2


def model(x):
    return double(x) + 1
""",
        ),
        Break(
            "GB0025",
            "The code calls `torch._dynamo.graph_break()`.",
            cure="Remove the call. Without it, the code computes the same and is compiled.",
            bad="""
def model(x):
    y = x * 2
    torch._dynamo.graph_break()  # BAD
    return y + 1
""",
            good="""
def model(x):
    return x * 2 + 1
""",
        ),
        Break(
            "GB0055",
            "The code passes an object of a plain class to an operation of the graph.",
            bad="""
class Scale:
    by = 3


def model(x):
    return x.mul(Scale())  # BAD
""",
            good="""
def model(x):
    return x.mul(3)
""",
        ),
        Break(
            "GB0092",
            "A variable at another break, or a returned value, holds an object that Dynamo cannot "
            "reconstruct.",
        ),
        Break(
            "GB0119",
            "The compiled code creates a module, and uses it before its constructor has run.",
        ),
        Break(
            "GB0193",
            "The code calls a built-in function with arguments that no rule of Dynamo accepts.",
            cure="Call `super()` without arguments, or with the object as the second argument.",
            bad="""
class Part:
    def f(self):
        return super(Part).f  # BAD


part = Part()


def model(x):
    part.f()
    return x * 2
""",
            good="""
class Base:
    def f(self):
        return 2


class Part(Base):
    def f(self):
        return super().f()


part = Part()


def model(x):
    return x * part.f()
""",
        ),
        Break(
            "GB0294",
            "The code calls a NumPy function that `torch._numpy` does not have.",
        ),
        Break(
            "GB0299",
            "A method of a constant gets a value that is unknown during tracing.",
        ),
        Break(
            "GB0467",
            "The code sets an attribute of an object that Dynamo does not track.",
            cure="Set it on an object of your own class.",
            bad="""
def model(x):
    x.sum.note = 3  # BAD
    return x * 2
""",
            good="""
class Notes:
    note = 0


NOTES = Notes()


def model(x):
    NOTES.note = 3
    return x * 2
""",
        ),
        Break(
            "GB6215",
            "The code compares methods or attributes that Dynamo does not know.",
            cure="Compare names.",
            bad="""
def model(x):
    return x * 2 if x.add == x.mul else x  # BAD
""",
            good="""
def model(x, name="add"):
    return x * 2 if name == "mul" else x
""",
        ),
        Break(
            "GB7786",
            "The code sets an element of an object of a type written in C.",
            cure="Use a list.",
            bad="""
import array

NUMBERS = array.array("d", [1.0, 2.0])


def model(x):
    NUMBERS[0] = 3.0  # BAD
    return x * 2
""",
            good="""
NUMBERS = [1.0, 2.0]


def model(x):
    NUMBERS[0] = 3.0
    return x * 2
""",
        ),
    ),
)
