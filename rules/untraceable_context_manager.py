"""A `with` block enters a context manager that Dynamo does not trace.

## What it does
Finds `with` over `torch.device`, locks, `fork_rng`, `set_detect_anomaly`, `saved_tensors_hooks`, redirected
output and all others that this torch was observed not to enter, including one that was created before the
compiled call. Finds contexts of torch and of the standard library that are passed to an `ExitStack`. Finds
instances of your own classes that are stored in an attribute or a global and entered there, and instances of
your own classes that derive from dict, list or another container. Finds calls of functions that are decorated
with such a context manager, or with an instance of your own `contextlib.ContextDecorator`. Finds the first
read of a `functools.cached_property`, which acquires a lock before Python 3.12.

## Why it hurts torch.compile
Dynamo cannot end a graph inside a `with`. At best it compiles the function up to the block, and the rest of
the function runs eagerly. A decorated function is compiled separately, and the graph around the call is
split.

## Use instead
Pass `device=` instead of `with torch.device(...)`, or enter the context outside of the compiled region.
Create an instance of your own class where you enter it: `with Scope(state):` is traced. Use
`torch.nn.attention.sdpa_kernel` instead of `torch.backends.cuda.sdp_kernel`, and
`with torch.set_grad_enabled(...)` inside the function instead of the decorator. For a lock, use
`with nullcontext() if torch.compiler.is_compiling() else self.lock:`, if the block does not write to what the
lock guards. Read a cached property in `__init__`, before the compiled call.

## Limits
`torch.no_grad`, `inference_mode`, `autocast`, `nullcontext`, `suppress`, `catch_warnings` and profiler ranges
are traced if the compiled code creates them. `with open(...)` is reported as a system call (TCR305).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from tcready.rules._names import receiver_class
from tcready.schema.words import Confidence
from tcready.static.engine.facts import Attribute, Call, With
from tcready.static.engine.knowledge import CACHED_PROPERTY
from tcready.static.engine.values import (
    UNKNOWN,
    ExternalInstance,
    Function,
    Instance,
    Sequence,
    Unknown,
    Value,
    likely,
    options,
)
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

WITHOUT_LOCK = (3, 12)
"""The Python from which on a cached property has none."""


def check(fact: Call | With | Attribute) -> Claim | tuple[Claim, ...] | None:
    if isinstance(fact, Attribute):
        if fact.by != CACHED_PROPERTY or sys.version_info >= WITHOUT_LOCK:
            return None
        return Claim("the first read of a cached property acquires a lock: the function runs eagerly")
    if isinstance(fact, Call):
        if fact.method == "enter_context" and receiver_class(fact) == "contextlib.ExitStack":
            return _entered_through_stack(likely(fact.args[0]) if fact.args else UNKNOWN)
        if isinstance(fact.function, Function) and fact.gb_id:
            shown = (fact.name or "").removesuffix("()")
            return Claim(
                f"a function that is decorated with `{shown}` is called: the graph ends here",
                effect="graph_break",
                form=f"decorated by {shown}",
            )
        return None
    if fact.made_before:
        return Claim(
            "`with` over an object that was created before the call is not traced: the function runs eagerly",
            "high" if likely(fact.value) == fact.value else "medium",
            form="an object made before",
        )
    if fact.builtin:
        return Claim(
            f"`with` over an object that is also a {fact.builtin} is not traced: the function runs eagerly"
        )
    if fact.context is None or not fact.context.gb_id:
        return None
    sure: Confidence | None = None if len(options(fact.value)) == 1 else "medium"  # one of several is entered
    if fact.context.inside == "before":
        rest = "the function is compiled up to it, and the rest runs eagerly"
        return (
            Claim(
                f"`with {fact.name}` is not traced: {rest}", sure, form=f"{fact.name}: the rest goes eager"
            ),
            Claim(f"`with {fact.name}` is not traced: the graph ends here", sure, "graph_break"),
        )
    return Claim(f"`with {fact.name}` is not traced: the function runs eagerly", sure)


def _entered_through_stack(manager: Value) -> Claim | None:
    """Of what an `ExitStack` enters, Dynamo follows what is Python: an object of a class that it reads, and a generator
    that `contextlib.contextmanager` wraps. What it has a model of its own for, it enters in a `with` alone."""
    claim = Claim("a context is entered through an `ExitStack`: the function runs eagerly")
    if any(isinstance(v, Unknown) for v in options(manager)):
        return replace(claim, confidence="medium")
    return None if all(_is_python(v) for v in options(manager)) else claim


def _is_python(manager: Value) -> bool:
    if isinstance(manager, Sequence):
        return manager.kind == "iterator"
    return isinstance(manager, Instance) or (
        isinstance(manager, ExternalInstance) and manager.name == "contextlib.suppress"
    )


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._state import scope_made_here

    return scope_made_here(place)


RULE = Rule(
    code="TCR407",
    name="untraceable-context-manager",
    effect="frame_skip",
    level="error",
    gb_ids=(
        "GB0142",
        "GB0208",
        "GB0008",
        "GB0262",
        "GB0007",
        "GB0147",
        "GB0066",
        "GB0156",
        "GB0294",
    ),
    facts=(
        Attribute,
        Call,
        With,
    ),
    check=check,
    rewrite=rewrite,
    may_autofix=True,
    page=__doc__,
    bad=(
        Sample(
            """
class Scope(dict):
    def __enter__(self):
        self["depth"] = 1
        return self

    def __exit__(self, *error):
        self.clear()


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with Scope() as scope:  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
class Scope(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Model(nn.Module):
    @Scope()
    def double(self, x):
        return x * 2

    def forward(self, x):
        y = x + 1
        y = self.double(y)  # BAD
        with Scope():
            y = y + 1
        return y
""",
            setup="import contextlib",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with torch.device("cpu"):  # BAD
            bias = torch.ones(8)
        return y + bias
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        y = x * 2
        with self.lock:  # BAD
            y = y + 1
        return y
""",
            setup="""
import threading
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with torch.random.fork_rng():  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with torch.autograd.set_detect_anomaly(True):  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with torch.autograd.graph.save_on_cpu():  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.no_grad())  # BAD
            y = y + 1
        return y
""",
            setup="""
import contextlib
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.quiet = torch.no_grad()

    def forward(self, x):
        y = x * 2
        with self.quiet:  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
class Scope:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scope = Scope()

    def forward(self, x):
        y = x * 2
        with self.scope:  # BAD
            y = y + 1
        return y
"""
        ),
        Sample(
            """
@torch.set_grad_enabled(False)
def frozen(x):
    return x + 1


class Model(nn.Module):
    @torch.random.fork_rng()
    def noisy(self, x):
        return x * 3

    def forward(self, x):
        y = frozen(x * 2)  # BAD
        return self.noisy(y) * 2  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        q = (x * 2).view(1, 1, -1, 2)
        with torch.backends.cuda.sdp_kernel(enable_flash=False):  # BAD
            y = nn.functional.scaled_dot_product_attention(q, q, q)
        return y.view(x.shape)
"""
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        bias = torch.ones(8, device="cpu")
        return y + bias
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with contextlib.nullcontext(), torch.no_grad(), contextlib.suppress(ValueError), torch.enable_grad():
            y = y + 1
        with torch.inference_mode(), torch.profiler.record_function("block"), warnings.catch_warnings():
            y = y.float() * 2
        with torch.set_grad_enabled(False), torch.enable_grad():
            y = y + 1
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), KEPT:
            y = y + 1
        return frozen(y)
""",
            setup="""
import contextlib
import warnings

KEPT = torch.autocast("cpu")


@torch.no_grad()
def frozen(x):
    return x + 1
""",
        ),
        Sample(
            """
class Scope:
    def __init__(self, names):
        self.names = names

    def __enter__(self):
        self.names.append("inside")

    def __exit__(self, *error):
        self.names.pop()


class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        with Scope([]):
            y = y + 1
        return y
"""
        ),
    ),
)
