"""A call is used that the selected torch does not trace, but a newer torch does.

## What it does
For the torch that `--torch-version` names or that is installed, finds calls that only a later torch was
observed to trace: before 2.13 `copy.deepcopy` of anything, `re.match`, `search`, `fullmatch`, `findall` and
`sub` and what calls them, `eval` and `locals`; before 2.14 `random.random`, `sample` and `shuffle`, and
reading a `contextvars.ContextVar`.

## Why it hurts torch.compile
An older Dynamo ends the graph at the call.

## Use instead
A newer torch. Or compute the result before the model is compiled, in `__init__`.

## Limits
Torch 2.11 to 2.15 were tested. For a version between them, the results of the older one apply.
`copy.deepcopy` of a tensor or a module breaks the graph with any version; TCR321 reports it.
"""

from tcready.static.engine.facts import Call
from tcready.static.engine.values import ExternalInstance, Instance, holds_tensor, options
from tcready.static.rule import Claim, Rule, Sample


def check(fact: Call) -> Claim | None:
    name = fact.constructed or fact.name or ""
    if fact.traced_since is None or (name == "copy.deepcopy" and told_for_any_torch(fact)):
        return None
    since = ".".join(map(str, fact.traced_since))
    shown = name.removeprefix("torch.nn.Module.")
    return Claim(f"`{shown}` is traced since torch {since}: in older versions, the graph ends here")


def told_for_any_torch(fact: Call) -> bool:
    """A tensor, or an object of a library, is copied."""
    return any(
        holds_tensor(arg) or isinstance(v, ExternalInstance) for arg in fact.args[:1] for v in options(arg)
    ) and not any(isinstance(v, Instance) for arg in fact.args[:1] for v in options(arg))


RULE = Rule(
    code="TCR417",
    name="older-torch",
    effect="graph_break",
    level="error",
    gb_ids=("GB0179", "GB0023", "GB0059", "GB0007", "GB0156"),
    facts=(Call,),
    check=check,
    no_rewrite="A newer torch traces it.",
    fallback=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = {"rows": [1, 2]}

    def forward(self, x):
        y = x * 2
        sizes = copy.deepcopy(self.sizes)  # BAD
        return y + sizes["rows"][1]
""",
            setup="""
import copy
""",
            torch=(2, 11),
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if re.match("a+", "aab"):  # BAD
            y = y + 1
        y = y + eval("1 + 1")  # BAD
        return y * len(textwrap.dedent("  a"))  # BAD
""",
            setup="""
import re
import textwrap
""",
            torch=(2, 11),
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x) + len(locals())  # BAD
""",
            torch=(2, 11),
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.sizes = copy.deepcopy({"rows": [1, 2]})

    def forward(self, x):
        return x * 2 + self.sizes["rows"][1]
""",
            setup="""
import copy
""",
        ),
    ),
)
