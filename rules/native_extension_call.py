"""A function of a compiled Python extension (pybind, Cython, C API) is called.

## What it does
Finds calls of functions in a compiled extension module of an installed package, with any arguments. Also
finds calls with tensor arguments of functions whose module looks like an extension by its name: `_C`, `_ext`,
`my_cuda`, `my_cpp`, `my_ext`.

## Why it hurts torch.compile
Dynamo finds no source to trace and no registered operator, so it ends the graph at each call.

## Use instead
Register it as an operator, which Dynamo keeps in the graph:
`@torch.library.custom_op("mylib::op", mutates_args=())` on a function that calls the extension, and
`@op.register_fake` on a function that returns an empty tensor with the shape and dtype of the result.
`op.register_autograd` adds a backward.

## Limits
If the name of the module is the only evidence, the confidence is medium. `torch._C` and functions in
`torch.ops` are not reported.
"""

import re

from tcready.static.engine.facts import Call
from tcready.static.engine.values import holds_tensor
from tcready.static.rule import Claim, Rule, Sample

NATIVE = re.compile(r"(^|[._])(C|ext|cuda|cpp|cpu|hip|kernels?_C)$")


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if fact.native:
        return Claim(f"`{name}` is native code of an extension: the graph ends here")
    if native(name) and any(holds_tensor(arg) for arg in fact.args):
        return Claim(f"`{name}` is native code of an extension: the graph ends here", "medium")
    return None


def native(name: str) -> bool:
    """The module of a dotted name is called as compiled extensions are."""
    module = name.rpartition(".")[0]
    return not module.startswith("torch.") and NATIVE.search(module) is not None


RULE = Rule(
    code="TCR403",
    name="native-extension-call",
    effect="graph_break",
    level="error",
    gb_ids=("GB0007", "GB0156"),
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
        z = tcready_sample_cpp.twice(y)  # BAD
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
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tcready_sample_cpp", "", -1, methods};
PyMODINIT_FUNC PyInit_tcready_sample_cpp() { return PyModule_Create(&module); }
'''
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "twice.cpp").write_text(SOURCE)
cpp_extension.load("tcready_sample_cpp", [str(folder / "twice.cpp")], build_directory=str(folder))

import tcready_sample_cpp
""",
        ),
    ),
    good=(
        Sample(
            """
@torch.library.custom_op("tcready_native::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return tcready_other_cpp.twice(x)


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
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "tcready_other_cpp", "", -1, methods};
PyMODINIT_FUNC PyInit_tcready_other_cpp() { return PyModule_Create(&module); }
'''
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "twice.cpp").write_text(SOURCE)
if "tcready_other_cpp" not in sys.modules:
    cpp_extension.load("tcready_other_cpp", [str(folder / "twice.cpp")], build_directory=str(folder))

import tcready_other_cpp
""",
        ),
    ),
)
