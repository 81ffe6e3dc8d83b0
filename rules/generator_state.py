"""Seeds, generators or thread counts are set or read in compiled code.

## What it does
Finds `torch.manual_seed`, reads and writes of generator state, `torch.Generator()`, methods of a generator, a
generator that is passed to an operator, and process-wide settings such as `torch.set_num_threads`.

## Why it hurts torch.compile
They act on the process and not on tensors, so Dynamo skips them and the graph ends at the call.

## Use instead
Set seeds and generators up before the compiled region. Draw with `torch.rand`, and pass a generator only if
the call stays eager.

## Limits
`torch.set_default_dtype`, `torch.use_deterministic_algorithms` and `torch.set_float32_matmul_precision` are
traced.
"""

import re

from tcready.static.engine.facts import Call
from tcready.static.engine.values import ExternalInstance, Plain, Value, likely, options
from tcready.static.rule import Claim, Rule, Sample

OF_PROCESS = re.compile(
    r"seed|rng_state|Generator|_threads|flush_denormal|inference_mode_enabled|precision|worker_info"
)
"""Words of the names that this rule speaks of; whether a call of one breaks is what this torch was seen to do."""

GENERATORS: frozenset[Value] = frozenset({ExternalInstance("torch.Generator"), Plain("Generator")})


def check(fact: Call) -> Claim | None:
    name = fact.constructed
    if fact.gb_id and name.startswith("torch.") and OF_PROCESS.search(name):
        return Claim(f"`{name}` in compiled code: the graph ends here")
    if fact.method and fact.receiver is not None and _is_generator(fact.receiver):
        return Claim(f"`{fact.method}` of a random number generator: the graph ends here")
    generator = fact.keyword("generator")
    if generator is not None and _is_generator(generator):
        return Claim("a random number generator is passed to an operator: the graph ends here")
    return None


def _is_generator(value: Value) -> bool:
    return bool(GENERATORS.intersection(options(likely(value))))


RULE = Rule(
    code="TCR307",
    name="generator-state",
    effect="graph_break",
    level="error",
    gb_ids=(
        "GB0007",
        "GB0208",
        "GB0363",
        "GB0046",
        "GB0055",
        "GB7650",
    ),
    facts=(Call,),
    check=check,
    no_rewrite="A graph cannot read or set the state of a generator. Do it before the call.",
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator()

    def forward(self, x):
        y = x * 2
        self.generator.manual_seed(0)  # BAD
        return y + 1
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + torch.rand(x.shape, generator=GENERATOR)  # BAD
""",
            setup="GENERATOR = torch.Generator()",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        torch.manual_seed(0)  # BAD
        y = x + torch.rand(8)
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        state = torch.get_rng_state()  # BAD
        torch.set_num_threads(torch.get_num_threads())  # BAD
        y = y * 2
        torch.set_rng_state(state)  # BAD
        y = y * 2
        generator = torch.Generator()  # BAD
        return y
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x + torch.rand(8) * 0
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        torch.set_default_dtype(torch.float32)
        torch.use_deterministic_algorithms(False)
        if torch.is_grad_enabled() and not torch.is_autocast_enabled():
            x = x * 2
        return F.dropout(x, 0.0) + torch.randn_like(x) * 0
"""
        ),
    ),
)
