"""A function is compiled again at every call, though its inputs are the same.

## Why it hurts torch.compile
What was compiled holds for as long as its guards do: checks of what the code had read while it was traced. If one fails
at a call with the same inputs, the code reads something that changes from call to call: a counter, a list that grows, an
object that is made anew. Each call then pays for a compilation, until Dynamo reaches its limit
(`torch._dynamo.config.recompile_limit`) and runs all of the function eagerly.

## Use instead
The failed guard in the report names what changed. Keep it out of what is compiled: count in the loop that calls the
model, or in a tensor that is a buffer; make objects once, in the constructor; keep caches outside. A number that differs
between modules of one class is no constant any more under `torch._dynamo.config.allow_unspec_int_on_nn_module = True`.
"""

from __future__ import annotations

from tcready.breaks.page import Page

PAGE = Page(name="compiled-again", page=__doc__, findings=("recompile", "recompile-limit"))
