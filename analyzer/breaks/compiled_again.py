"""A function is recompiled on every call, although its inputs are the same.

## Why it hurts torch.compile
Compiled code is valid while its guards hold. Guards check what the code read while it was traced. If a guard fails on a
call with the same inputs, the code reads something that changes from call to call: a counter, a list that grows, or an
object that is created anew. Each call then pays for a compilation, until Dynamo reaches its limit
(`torch._dynamo.config.recompile_limit`) and runs the whole function eagerly.

## Use instead
The failed guard in the report names what changed. Keep it out of the compiled code: count in the loop that calls the
model, or in a tensor that is a buffer. Create objects once, in the constructor. Keep caches outside. With
`torch._dynamo.config.allow_unspec_int_on_nn_module = True`, a number that differs between modules of one class is no
longer a constant.
"""

from __future__ import annotations

from tcready.breaks.page import Page

PAGE = Page(name="compiled-again", page=__doc__, findings=("recompile", "recompile-limit"))
