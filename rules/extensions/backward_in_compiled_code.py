"""`backward`, `autograd.grad`, `retain_grad` or an optimizer runs in compiled code."""

import re

from tcready.fixes.rewriters.names import method_of_tensor, receiver_class
from tcready.schema.enums import Effect
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import Mapping, Sequence, Value, members_of, options

OPTIMIZER = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]\w*")
"""An optimizer, or a scheduler of its learning rate."""
BY_AUTOGRAD = "torch.autograd.functional."
"""Its functions call `torch.autograd.grad` in what Dynamo takes for an operation of torch (all six, on torch 2.13)."""


def check(fact: Call) -> Claim | None:
    if method_of_tensor(fact, "backward"):
        return Claim("`backward` in compiled code: the graph ends here")
    if method_of_tensor(fact, "retain_grad"):
        return Claim("`retain_grad` in compiled code: the function runs eagerly", effect="frame_skip")
    name = fact.constructed
    if name in ("torch.autograd.backward", "torch.autograd.grad") or name.startswith(BY_AUTOGRAD):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    owner = receiver_class(fact)
    if owner.startswith("torch.optim.") and fact.method in ("step", "zero_grad"):
        scheduler = owner.startswith("torch.optim.lr_scheduler.")
        kind = "a learning rate scheduler" if scheduler else "an optimizer"
        behind = ", and the step is compiled by itself" if (scheduler, fact.method) == (False, "step") else ""
        return Claim(f"`{fact.method}` of {kind}: torch ends the graph here on purpose{behind}", level="note")
    if OPTIMIZER.fullmatch(name):
        given = (*fact.args, *(value for _, value in fact.keywords))
        effect: Effect | None = "frame_skip" if any(map(holds_iterator, given)) else None
        return Claim(f"`{name}` is created in compiled code: the graph ends here", effect=effect)
    return None


def holds_iterator(value: Value) -> bool:
    """Whether a value is an iterator, or a list or dict with one."""
    for option in options(value):
        if isinstance(option, Sequence) and (option.kind == "iterator" or any(map(holds_iterator, members_of(option)))):
            return True
        if isinstance(option, Mapping) and any(holds_iterator(each) for _, each in option.entries):
            return True
    return False


RULE = Rule(
    code="TCR408",
    gb_ids=("GB0123", "GB0007", "GB9186", "GB0025", "GB0008", "GB0055", "GB0059", "GB0108", "GB0467", "GB8335"),
    facts=(Call,),
    check=check,
    no_rewrite="The compiled region has to end before `backward()`. Where to split depends on the whole training step.",
    module=__name__,
)
