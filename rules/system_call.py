"""The clock, the file system, a process or a serializer is used in compiled code.

## What it does
Finds calls of functions that Dynamo does not trace. In the standard library: clocks, `datetime.now`, files,
writes to the environment, processes, threads, the garbage collector, `json`, `pickle`, `uuid`, hashes, stack
inspection, progress bars, context variables and queries of installed packages. In numpy: files, functions
that do not return an array (`np.isscalar`, `np.ndim`), `np.r_` and similar objects. Also `load_state_dict`,
and a call of a tensor whose class has a `__call__`.

## Why it hurts torch.compile
Each call ends the graph. If its result is used (a time stamp), it becomes a guard on the next graph, which
then recompiles again and again.

## Use instead
Make the call before or after the compiled region, and pass results in as arguments. To time compiled code,
use CUDA events or a profiler around the call. If a time is only reported, read it under
`if not torch.compiler.is_compiling():`.

## Limits
`os.environ.get`, `os.getenv`, `os.path.join`, `re`, `platform`, `struct`, pure `pathlib` arithmetic and
`torch.cuda.is_available` are traced and not reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcready.rules._names import is_recurrent_call, receiver_class
from tcready.schema.words import Confidence
from tcready.static.engine.facts import LEAKED_FLAG, Call, Index
from tcready.static.engine.knowledge import MADE_BY_INDEX
from tcready.static.engine.values import External, Function, tensor_of
from tcready.static.rule import Claim, Declined, Rewrite, Rule, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tcready.static.concrete import Located

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
OF_TEXT = frozenset(
    {"json.dumps", "json.loads", "marshal.dumps", "marshal.loads", "pickle.dumps", "pickle.loads"}
)
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


def rewrite(place: Located) -> Iterator[Rewrite | Declined]:
    from tcready.rules._clocks import exclude_timing

    return exclude_timing(place)


RULE = Rule(
    code="TCR305",
    name="system-call",
    effect="graph_break",
    level="error",
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
    facts=(
        Call,
        Index,
    ),
    check=check,
    incidental=True,
    fallback=True,
    rewrite=rewrite,
    page=__doc__,
    bad=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2

        @torch.compiler.disable  # BAD
        def shown(z):
            return z + 1

        y = y * 3

        @functools.lru_cache(maxsize=None)  # BAD
        def kept(n):
            return n

        y = y + 1
        first = functools.lru_cache(len)  # BAD
        return y * 2, shown, kept, first
""",
            setup="""
import functools
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.path = Path("weights") / "kept.txt"

    def forward(self, x):
        y = x * 2
        if self.path.exists():  # BAD
            y = y + 1
        return y
""",
            setup="""
from pathlib import Path
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if np.isscalar(y.shape[0]):  # BAD
            y = y + 1
        return y + torch.from_numpy(np.r_[0:8] / 2.0).float()  # BAD
""",
            setup="""
import numpy as np
""",
        ),
        Sample(
            """
class Scale(nn.Parameter):
    def __call__(self):
        return F.softplus(self)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale(torch.ones(8))

    def forward(self, x):
        y = x * 2
        return y * self.scale()  # BAD
"""
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        start = time.perf_counter()  # BAD
        y = x * 2
        return y + 1
""",
            setup="""
import time
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        if os.path.exists("weights.pt"):  # BAD
            y = y + 1
        os.environ["SEEN"] = "1"  # BAD
        gc.collect()  # BAD
        y = y * 2
        name = json.dumps({"a": 1})  # BAD
        day = datetime.datetime.now()  # BAD
        key = uuid.uuid4()  # BAD
        sys.stdout.write("")  # BAD
        y = y * 2
        owner = threading.get_ident()  # BAD
        LOCK.acquire()  # BAD
        LOCK.release()  # BAD
        blob = pickle.dumps(1)  # BAD
        own = os.getpid()  # BAD
        digest = hashlib.sha256(b"a").hexdigest()  # BAD
        time.sleep(0)  # BAD
        frame = sys._getframe()  # BAD
        found = importlib.import_module("math")  # BAD
        parts = importlib.metadata.distributions()  # BAD
        mark = hashlib.md5(b"a")  # BAD
        open(os.devnull).close()  # BAD
        return y + len(name)
""",
            setup="""
import datetime
import gc
import hashlib
import importlib
import importlib.metadata
import json
import os
import pickle
import sys
import threading
import time
import uuid

LOCK = threading.Lock()
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        text = GREETING.substitute(name="b")  # BAD
        return y * len(text)
""",
            setup="""
import string

GREETING = string.Template("a $name")
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        for step in tqdm.tqdm(range(2)):  # BAD
            y = y + step
        return y
""",
            setup="""
import tqdm
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x) + self.state_dict()["layer.bias"]  # BAD
        return y + self.layer.state_dict()["bias"]  # BAD
""",
            torch=(2, 15),
        ),
        Sample(
            """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.first = dict(self.layer.state_dict())

    def forward(self, x):
        y = self.layer(x)
        self.layer.load_state_dict(self.first)  # BAD
        return self.layer(y)
""",
        ),
    ),
    good=(
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2

        @torch.no_grad()
        def doubled(z):
            return z * 2

        @functools.wraps(doubled)
        def shown(z):
            return doubled(z) + 1

        return shown(y) + torch.compile(doubled)(y)
""",
            setup="""
import functools
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        return y + 1
""",
            setup="""
import time
""",
        ),
        Sample(
            """
class Model(nn.Module):
    def forward(self, x):
        y = x * 2
        path = os.path.join("a", os.path.basename("b/c"))
        home = os.environ.get("TCREADY_NO_SUCH", "none") + os.getenv("TCREADY_NO_SUCH", "none")
        local = pathlib.Path("a") / "b"
        word = re.sub("a", "b", "cab")
        size = struct.pack("i", 1)
        if importlib.metadata.version("torch") > "1" and importlib.util.find_spec("torch"):
            y = y * 2
        if torch.cuda.is_available() or "torch" in sys.modules or sys.version_info < (3,):
            y = y + 1
        read_only = types.MappingProxyType({"factor": 2, "values": y})
        y = read_only["values"] * read_only["factor"]
        return y + len(path) + len(home) + len(word) + len(size) + math.pi + len(platform.system()) * 0
""",
            setup="""
import importlib.metadata
import importlib.util
import math
import os
import pathlib
import platform
import re
import struct
import sys
import types
""",
        ),
    ),
)
