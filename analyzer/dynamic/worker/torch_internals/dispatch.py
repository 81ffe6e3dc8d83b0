"""Dispatch modes that see every ATen dispatch but do not affect Dynamo, and the frames behind a dispatch."""

from __future__ import annotations

import contextlib
import sys
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

TORCH_NAMESPACES = frozenset(
    "_c10d_functional _c10d_functional_autograd _dtensor _inductor_test _native _quantized _test aten c10d "
    "c10d_functional debug_mode_ops debugprims export flex_lib fsdp higher_order inductor inductor_prims mkl mkldnn "
    "mkldnn_prepacked onednn onnx onnx_symbolic prim prims profiler quantization quantized quantized_decomposed "
    "rngprims sparse static_runtime streams symm_mem".split()
)
"""For torch 2.13, from `torch._C._dispatch_get_all_op_names`, before and after Inductor was loaded."""


class DispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """Calls `seen` once per ATen dispatch, without affecting Dynamo; the function that it returns is called after the
    dispatch.

    Dynamo skips every frame under a mode with an `ignore_compile_internals` that returns False.
    """

    supports_higher_order_operators = True

    def __init__(self, seen: Callable[[], Callable[[], None] | None]) -> None:
        super().__init__()
        self.seen = seen

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "invoke_subgraph":
            # One operator to the modes, and many operations: the subgraph's own are counted.
            with self:
                return args[0](*args[2:])
        # `record_function` dispatches too, in DDP's forward for one; it computes nothing.
        done = None if func.namespace == "profiler" else self.seen()
        result = func(*args, **(kwargs or {}))
        if done is not None:
            done()
        return result


class OperatorMode(TorchDispatchMode):  # type: ignore[misc]
    """Calls `seen` with each operator that is not torch's own, its arguments, and a function that calls it.

    `seen(operator, args, kwargs, call)` replaces `call()`: it returns the operator's result.
    """

    supports_higher_order_operators = True

    def __init__(self, seen: Callable[[Any, tuple[Any, ...], dict[str, Any], Callable[[], Any]], Any]) -> None:
        super().__init__()
        self.seen = seen

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "namespace", "aten") in TORCH_NAMESPACES:
            return func(*args, **(kwargs or {}))
        return self.seen(func, args, kwargs or {}, lambda: func(*args, **(kwargs or {})))


def unseen() -> contextlib.AbstractContextManager[Any]:
    """Hide dispatches in the context from all modes: tcready's own work is not counted as the model's."""
    found: contextlib.AbstractContextManager[Any] = _disable_current_modes()
    return found


def graph_node_stack(frame: types.FrameType) -> str | None:
    """Return the user's stack, as text, of the graph node that this frame runs; None if it runs none."""
    if not isinstance(frame.f_locals.get("self"), torch.fx.Interpreter):
        return None
    node = frame.f_locals.get("n")
    return str(node.meta.get("stack_trace") or "") if isinstance(node, torch.fx.Node) else None


def calling_frames() -> Iterator[types.FrameType]:
    """Yield Python frames outside of torch, innermost first, from the caller's caller on."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back


class WideningMode(TorchDispatchMode):  # type: ignore[misc]
    """Makes operations that name one of the `narrow` dtypes compute in `wide` instead; None: they are not changed.

    A model in float64 that casts to float32 for its softmax computes that in float64, too. `found` has the dtypes of
    operation results. `casts` counts those that named a narrow one more precise than `own`, the dtype of the model.
    `ran` counts the operations on floating tensors by name, and by whether one of these is more precise than `own`.
    """

    supports_higher_order_operators = True

    def __init__(self, narrow: Collection[torch.dtype], wide: torch.dtype | None, own: torch.dtype) -> None:
        super().__init__()
        self.eps = torch.finfo(own).eps
        self.casts = 0
        self.wider = {each: wide or each for each in narrow}
        if wide == torch.float64:
            self.wider[torch.complex64] = torch.complex128
        self.found: set[torch.dtype] = set()
        self.ran: Counter[tuple[str, bool]] = Counter()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        floating = [each for each in args if isinstance(each, torch.Tensor) and each.is_floating_point()]
        if floating:
            is_precise = any(torch.finfo(each.dtype).eps < self.eps for each in floating)
            self.ran[str(func), is_precise] += 1
        if func is not torch.ops.aten.view.dtype:  # reads the same bits as another type
            args = tuple(self._widened(each) for each in args)
            kwargs = {name: self._widened(each) for name, each in kwargs.items()}
        result = func(*args, **kwargs)
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex()):
                self.found.add(each.dtype)
        return result

    def _widened(self, value: Any) -> Any:
        if not isinstance(value, torch.dtype):
            return value
        wider = self.wider.get(value, value)
        self.casts += value in self.wider and torch.finfo(value).eps < self.eps
        return wider
