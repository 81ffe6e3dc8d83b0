"""A C++ or CUDA extension is loaded or called in compiled code.

## What it does
Finds `torch.utils.cpp_extension.load` and `load_inline` in code that the compiled forward reaches, and calls
of functions of a module that they loaded.

## Why it hurts torch.compile
A function of an extension module is native code without a source that Dynamo could trace, and Dynamo does not
know the shape of its result. The graph ends at each call. Loading starts a build system and does not belong
in a forward.

## Use instead
Register it as an operator, which Dynamo keeps in the graph:
`@torch.library.custom_op("mylib::op", mutates_args=())` on a function that calls the extension, and
`@op.register_fake` on a function that returns an empty tensor with the shape and dtype of the result.
`op.register_autograd` adds a backward.

## Limits
TCR404 reports functions that the extension registers with `TORCH_LIBRARY` and that are called as
`torch.ops.ns.op`.
"""

from tcready.rules._names import receiver_class
from tcready.static.engine.facts import Call
from tcready.static.rule import Claim, Rule, Sample

LOADERS = ("torch.utils.cpp_extension.load", "torch.utils.cpp_extension.load_inline")


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if name in LOADERS:
        return Claim(f"`{name.rpartition('.')[2]}` builds an extension in compiled code: the graph ends here")
    if receiver_class(fact) in LOADERS:
        return Claim(f"`{fact.method}` is native code of an extension: the graph ends here")
    return None


RULE = Rule(
    code="TCR401",
    name="cpp-extension-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="Only the extension determines the shapes. `tcready check` prints a fake kernel to complete.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = EXT.twice(y)  # BAD
        return z + 1
""",
            setup="""
import pathlib
import tempfile

from torch.utils import cpp_extension

SOURCE = '''
#include <Python.h>
static PyObject* twice(PyObject*, PyObject* x) { return PyNumber_Add(x, x); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tcready_loaded_a", "", -1, methods};
PyMODINIT_FUNC PyInit_tcready_loaded_a() { return PyModule_Create(&module); }
'''
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "twice.cpp").write_text(SOURCE)
EXT = cpp_extension.load("tcready_loaded_a", [str(folder / "twice.cpp")], build_directory=str(folder))
""",
        ),
    ),
    good=(
        Sample(
            """
@torch.library.custom_op("tcready_loaded::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return EXT.twice(x)


@twice.register_fake
def _(x):
    return torch.empty_like(x)


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        z = twice(y)
        return z + 1
""",
            setup="""
import pathlib
import sys
import tempfile

from torch.utils import cpp_extension

SOURCE = '''
#include <Python.h>
static PyObject* twice(PyObject*, PyObject* x) { return PyNumber_Add(x, x); }
static PyMethodDef methods[] = {{"twice", twice, METH_O, ""}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tcready_loaded_b", "", -1, methods};
PyMODINIT_FUNC PyInit_tcready_loaded_b() { return PyModule_Create(&module); }
'''
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "twice.cpp").write_text(SOURCE)
if "tcready_loaded_b" not in sys.modules:
    cpp_extension.load("tcready_loaded_b", [str(folder / "twice.cpp")], build_directory=str(folder))
EXT = sys.modules["tcready_loaded_b"]
""",
        ),
    ),
)
