"""A function of a compiled Python extension (pybind, Cython, C API) is called."""

import re

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import holds_tensor

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
    gb_ids=("GB0007", "GB0156"),
    facts=(Call,),
    check=check,
    no_rewrite="Only the extension determines the shapes. `tcready check` prints a fake kernel to complete.",
    module=__name__,
)
