"""A C++ or CUDA extension is loaded or called in compiled code."""

from tcready.fixes.rewriters.names import receiver_class
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call

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
    gb_ids=("GB0007",),
    facts=(Call,),
    check=check,
    no_rewrite="Only the extension determines the shapes. `tcready check` prints a fake kernel to complete.",
    module=__name__,
)
