"""A module hook is registered or removed in compiled code."""

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import tensor_of

HOOKS = frozenset(
    """
    register_forward_hook register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
    register_backward_hook register_state_dict_pre_hook register_load_state_dict_post_hook
    """.split()
)


def check(fact: Call) -> Claim | None:
    if fact.method in HOOKS and fact.receiver is not None and not tensor_of(fact.receiver):
        return Claim(f"`{fact.method}` in compiled code: the graph ends here")
    if fact.name == "torch.utils.hooks.RemovableHandle.remove":
        return Claim("a hook is removed in compiled code: the graph ends here")
    return None


RULE = Rule(
    code="TCR412",
    gb_ids=("GB0467", "GB0013", "GB0083", "GB0156"),
    facts=(Call,),
    check=check,
    no_rewrite="The author has to decide when the hook is needed. Register it before compiling.",
    module=__name__,
)
