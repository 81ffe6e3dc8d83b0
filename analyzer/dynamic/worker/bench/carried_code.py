"""Code that was compiled by another process: the lines that carry it, and whether its outputs agree with eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tcready.dynamic.worker.bench.carry_lines import CarryLines, lines_of
from tcready.dynamic.worker.bench.variant_parity import compare_case
from tcready.dynamic.worker.bench.variants import RunningVariant
from tcready.dynamic.worker.core.case import Case
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.torch_internals import compile_calls
from tcready.schema.bench import CarryWay


def lines_for(context: Context, way: CarryWay, *, is_module: bool, **options: Any) -> CarryLines:
    """Return the lines of a way, with the contexts of the calls of this run and the settings that this torch needs.
    `options`: those of `lines_of`."""
    work = context.work.options
    contexts = ("torch.no_grad()",) if work.mode == "infer" else ()
    if work.autocast:
        dtype = work.autocast.removeprefix("torch.")
        contexts = (*contexts, f'torch.autocast("{torch.device(work.device).type}", torch.{dtype})')
    settings = compile_calls.settings_to_save() if way == "aot_compile" else ()
    return lines_of(way, is_module=is_module, contexts=contexts, settings=settings, **options)


def compare_outputs(
    context: Context,
    load: Callable[[Any, int], RunningVariant],
    compile_anew: Callable[[Any, Case], RunningVariant],
    seconds: float,
) -> tuple[bool | None, str]:
    """Compare loaded code with eager code in every case, as the parity of an arm is compared, with one seed.

    Args:
        context: The run.
        load: Returns the loaded code over a model, for the case with an index.
        compile_anew: Returns code that is compiled in the same way for other inputs, in case of doubt.
        seconds: If several calls take longer, one is compared.

    Returns:
        Whether all cases agree, None if that is not known, and what differs or why it is not known.
    """
    found = [compare_case(context, load, compile_anew, index, seconds) for index in range(len(context.cases))]
    for same in (False, None):
        for each in found:
            if each.same is same:
                return same, each.detail
    return True, ""
