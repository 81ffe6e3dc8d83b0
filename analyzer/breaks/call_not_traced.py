"""A call, a method or a statement that Dynamo has no way to trace.

## Why it hurts torch.compile
Dynamo follows calls into Python code, and knows operations of torch and most of Python itself. A function written
in C, one of a module that it leaves alone, a context that it does not know, or an exception that nothing in the
compiled code catches, is none of these: the graph ends, Python makes the call, and a new graph starts behind it.

## Use instead
Take the call out of what is compiled: do it once in the constructor, or before or after the model is called. Where
it only tells something, put it behind `if not torch.compiler.is_compiling():`. Where it computes on tensors, use
functions of torch, or register it with `torch.library.custom_op`.
"""

from __future__ import annotations

from tcready.breaks.page import Break, Page

PAGE = Page(
    name="call-not-traced",
    page=__doc__,
    breaks=(
        Break(
            "GB0007",
            "The function is one that Dynamo leaves to Python: written in C, of a module on its list, "
            "or marked.",
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
            "The function is written in Python, but of a module that Dynamo leaves to Python.",
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
            "A value is called that Dynamo knows only as a value.",
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
            "A method is called on a kind of object whose methods Dynamo does not know.",
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
            "A built-in function is called with arguments that Dynamo cannot trace, such as `print` with "
            "a tensor.",
            cure="Where it only tells something, leave it to eager code.",
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
            "A `with` block over a context that Dynamo does not know.",
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
            "An exception is raised and nothing in the compiled code catches it, or a check decides by it.",
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
            "A statement compiles to an instruction that Dynamo does not know, such as `del` of a "
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
            "Arguments do not fit the function that is called.",
            cure="Eager raises a `TypeError` there, too.",
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
            "A loop over an object of a type written in C.",
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
            "A class is defined in compiled code.",
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
            "The type of a value is asked for that Dynamo does not know.",
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
            "A function of torch gives something that is no tensor and no constant.",
            cure="Call it before the model, and pass the answer.",
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
            "An object is made of a type that Dynamo has no stand-in for.",
        ),
        Break(
            "GB0117",
            "A method is called with arguments that Dynamo's own rule for it does not take.",
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
            "A function under `torch.compiler.disable` is called.",
            cure="It runs eagerly, as was asked. Take the decorator off once its reason is gone, as here; "
            "until then call the function before or after what is compiled, where it parts no graph.",
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
            "`torch._dynamo.graph_break()` is called.",
            cure="There is nothing to put in its place: without it the code computes the same, compiled.",
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
            "An object of a plain class is given to an operation of the graph.",
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
            "An object stands in a variable at another break, or is returned, that Dynamo cannot make again.",
        ),
        Break(
            "GB0119",
            "A module is made in compiled code, and used before its constructor ran.",
        ),
        Break(
            "GB0193",
            "A built-in function with arguments that no rule of Dynamo takes.",
            cure="Call `super()` without arguments, or with the object as the second.",
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
            "A function of NumPy that `torch._numpy` does not have.",
        ),
        Break(
            "GB0299",
            "A method of a constant is called with a value that is not known while tracing.",
        ),
        Break(
            "GB0467",
            "An attribute is set on an object that Dynamo does not follow.",
            cure="Set it on an object of a class of your own.",
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
            "Methods or attributes that Dynamo does not know are compared.",
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
            "An element of an object of a type written in C is set.",
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
