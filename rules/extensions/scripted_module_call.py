"""TorchScript is created or called in compiled code."""

from tcready.fixes.rewriters.names import instance_called
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call


def check(fact: Call) -> Claim | None:
    if fact.constructed in ("torch.jit.script", "torch.jit.trace", "torch.jit.freeze"):
        return Claim("TorchScript is created in compiled code: the graph ends here")
    if fact.constructed in ("torch.fx.symbolic_trace", "torch.fx.Tracer"):
        return Claim("a module is traced by torch.fx in compiled code: the graph ends here")
    if instance_called(fact) in ("torch.jit.load", "torch.jit.ScriptModule"):
        return Claim("a TorchScript module is called: the function runs eagerly", effect="frame_skip")
    if instance_called(fact) == "torch.jit.TracedModule":
        return Claim("a traced TorchScript module is called: the graph ends here")
    return None


RULE = Rule(
    code="TCR405",
    gb_ids=("GB4695", "GB0007", "GB0008", "GB0098", "GB0116", "GB0082"),
    facts=(Call,),
    check=check,
    no_rewrite="The module was scripted elsewhere. Use the original Python module in the model.",
    module=__name__,
)
