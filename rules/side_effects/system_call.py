"""The clock, the file system, a process or a serializer is used in compiled code."""

from __future__ import annotations

from tcready.fixes.rewriters.names import is_recurrent_call, receiver_class
from tcready.schema.enums import Confidence
from tcready.static.diagnostics.rule import Claim, Rule
from tcready.static.domain.facts import LEAKED_FLAG, Call, Index
from tcready.static.domain.values import External, Function, tensor_of
from tcready.static.library.semantics import MADE_BY_INDEX

NAMES = frozenset(
    """
    __import__ json.dump numpy.load numpy.savetxt string.Template.safe_substitute string.Template.substitute
    sys._getframe
    """.split()
)
"""What the tables do not tell, as it cannot be tried there or is a name for no function: measured on torch 2.13."""
MODULES = ("subprocess.",)
"""Not tried for the tables: it starts programs."""

COMPUTING = frozenset(
    "bisect cmath collections decimal fractions functools heapq itertools operator statistics string struct".split()
)
"""Modules whose functions have no effect but on what they are given: nobody calls one to watch or to report."""
FOLDED = frozenset({"importlib.metadata.version", "types.MappingProxyType"})
"""Worked out while tracing, of Python constants, or of a dict (measured on torch 2.13); the trial for the tables gave
them none."""
OF_TEXT = frozenset({"json.dumps", "json.loads", "marshal.dumps", "marshal.loads", "pickle.dumps", "pickle.loads"})
"""What makes text or bytes of values, or values of these: a key to look something up by, more than a message."""
OF_THREADS = frozenset({"threading.get_ident", "threading.get_native_id"})

OBJECTS = frozenset(
    "hashlib.md5 hashlib.sha1 hashlib.sha256 queue.Queue threading.Lock threading.RLock threading.Condition "
    "threading.Semaphore".split()
)
"""Objects that were made elsewhere: what is asked of them breaks (measured on torch 2.13), and the tables could not try
it, as it waits or belongs to a class without a name."""


OF_ANOTHER_RULE = frozenset({"contextlib.ExitStack.enter_context", "contextlib.ContextDecorator()"})
"""Another rule asks what they enter."""


def check(fact: Call | Index) -> Claim | None:
    if isinstance(fact, Index):
        if fact.mode == "store" and fact.base == External("os.environ"):
            return Claim("`os.environ` is written in compiled code: the graph ends here")
        if isinstance(fact.base, External) and fact.base.name in MADE_BY_INDEX:
            return Claim(f"`{fact.base.name}` in compiled code: the graph ends here", computes=True)
        return None
    name = fact.constructed or fact.name or f"{receiver_class(fact)}.{fact.method}"
    if name in OF_ANOTHER_RULE or name in FOLDED:
        return None
    known = name in NAMES or name.startswith(MODULES) or receiver_class(fact) in OBJECTS
    of_another = fact.gb_id == LEAKED_FLAG or is_recurrent_call(fact)
    if known or (fact.gb_id and not of_another and fact.traced_since is None):
        computes = name.partition(".")[0] in COMPUTING or name in OF_THREADS | OF_TEXT
        makes = tensor_of(fact.result) is not None
        # of two ways that are not decided both may make one, and one alone is gone
        sure: Confidence | None = "medium" if makes and fact.where.conditional else None
        anyway = not name.startswith(("torch.", "numpy.")) and fact.receiver is None
        return Claim(
            f"`{name}` in compiled code: the graph ends here",
            sure,
            computes=computes or makes or any(isinstance(arg, Function) for arg in fact.args[:1]),
            regardless=anyway,
        )
    return None


RULE = Rule(
    code="TCR305",
    gb_ids=(
        "GB0007",
        "GB0008",
        "GB0059",
        "GB0092",
        "GB0142",
        "GB0147",
        "GB0156",
        "GB0208",
        "GB0294",
        "GB0299",
        "GB0377",
        "GB0467",
        "GB9193",
    ),
    facts=(Call, Index),
    check=check,
    side_output_only=True,
    fallback=True,
    rewriters=("clocks.exclude_timing",),
    module=__name__,
)
