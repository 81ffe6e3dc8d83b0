"""A call inside a `try` passes arguments that the function does not accept.

## What it does
Finds calls with a keyword that the function has no parameter for, or with too many arguments, inside a `try`
that handles the `TypeError`.

## Why it hurts torch.compile
Python raises an error that the `except` handles. Dynamo binds the arguments itself when it traces into the
call, and gives up instead: the graph ends. Because this is inside a `try`, the whole function runs eagerly.

## Use instead
Check before the call: use an attribute that says what a layer accepts, or evaluate
`inspect.signature(layer.forward).parameters` when the model is built. Or let every layer accept `**kwargs`.

## Limits
Only functions whose source is read are checked. A call that lacks an argument is not found.
"""

from tcready.static.engine.facts import Misfit
from tcready.static.rule import Claim, Rule, Sample


def check(_fact: Misfit) -> Claim:
    return Claim("the function does not accept these arguments: the function with the `try` runs eagerly")


RULE = Rule(
    code="TCR122",
    name="caught-argument-error",
    effect="frame_skip",
    level="error",
    gb_ids=("GB7312",),
    facts=(Misfit,),
    check=check,
    no_rewrite="Only the author knows which functions the call may reach. Check before the call.",
    page=__doc__,
    bad=(
        Sample(
            """
class Plain(nn.Module):
    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Plain()

    def forward(self, x):
        y = x * 2
        try:
            y = self.layer(y, lengths=None)  # BAD
        except TypeError:
            y = self.layer(y)
        return y
"""
        ),
        Sample(
            """
def scaled(x):
    return x * 2


class Model(nn.Module):
    def forward(self, x):
        y = x + 1
        try:
            y = scaled(y, 3)  # BAD
        except TypeError:
            y = scaled(y)
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Plain(nn.Module):
    takes_lengths = False

    def forward(self, x):
        return x + 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Plain()

    def forward(self, x, lengths=None):
        y = x * 2
        if self.layer.takes_lengths:
            return self.layer(y, lengths=lengths)
        return self.layer(y)
"""
        ),
    ),
)
