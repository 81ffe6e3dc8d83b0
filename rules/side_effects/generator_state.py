"""Seeds, generators or thread counts are set or read in compiled code."""

import re

from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import Call
from tcready.static.domain.values import ExternalInstance, Plain, Value, likely, options

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
    gb_ids=("GB0007", "GB0208", "GB0363", "GB0046", "GB0055", "GB7650"),
    facts=(Call,),
    check=check,
    no_rewrite="A graph cannot read or set the state of a generator. Do it before the call.",
    module=__name__,
)
