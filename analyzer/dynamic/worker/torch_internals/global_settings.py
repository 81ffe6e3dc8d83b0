"""Settings of the whole process that lines of code may change, and that can be restored."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config

_Read = Callable[[], Any]
_Write = Callable[[Any], Any]
CAST = ("cpu", "cuda")
"""Kinds of devices with a state of autocast each."""


def _configs() -> tuple[Any, ...]:
    import torch._inductor.config

    return torch._dynamo.config, torch._functorch.config, torch._inductor.config


def _attribute(owner: Any, name: str) -> tuple[_Read, _Write]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


def _cast(kind: str) -> Iterator[tuple[str, _Read, _Write]]:
    yield (
        f"autocast {kind}",
        lambda: torch.is_autocast_enabled(kind),
        lambda value: torch.set_autocast_enabled(kind, value),
    )
    yield (
        f"autocast dtype {kind}",
        lambda: torch.get_autocast_dtype(kind),
        lambda value: torch.set_autocast_dtype(kind, value),
    )


def _others() -> Iterator[tuple[str, _Read, _Write]]:
    """Return each with its reader and its writer. The older name of a precision precedes the newer ones, which it
    sets."""
    yield "threads", torch.get_num_threads, torch.set_num_threads
    yield "grad mode", torch.is_grad_enabled, torch.set_grad_enabled
    yield "default dtype", torch.get_default_dtype, torch.set_default_dtype
    yield "deterministic", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
    yield "matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
    for kind in CAST:
        yield from _cast(kind)
    backends = torch.backends
    for name in ("benchmark", "deterministic", "enabled", "allow_tf32"):
        yield f"cudnn.{name}", *_attribute(backends.cudnn, name)
    for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction"):
        yield f"matmul.{name}", *_attribute(backends.cuda.matmul, name)
    cuda = backends.cuda
    for kind in ("flash", "mem_efficient", "math", "cudnn"):
        yield f"{kind} attention", getattr(cuda, f"{kind}_sdp_enabled"), getattr(cuda, f"enable_{kind}_sdp")
    for place in ("cuda.matmul", "cudnn", "cudnn.conv", "cudnn.rnn", "mkldnn", "mkldnn.matmul"):
        owner: Any = backends
        for step in place.split("."):
            owner = getattr(owner, step, None)
        yield f"{place} precision", *_attribute(owner, "fp32_precision")


@dataclass(frozen=True)
class GlobalSetting:
    """A setting that was changed."""

    name: str
    write: _Write
    before: Any
    after: Any


@contextlib.contextmanager
def changed_meanwhile() -> Iterator[list[GlobalSetting]]:
    """Restore settings afterwards; the yielded list then holds those that were changed. Settings that this torch lacks,
    or cannot read, are left out."""
    configs = [(config, dict(config.get_config_copy())) for config in _configs()]
    others = [(name, read, write, _read(read)) for name, read, write in _others()]
    found: list[GlobalSetting] = []
    try:
        yield found
    finally:
        for config, before in configs:
            for name, value in config.get_config_copy().items():
                if name in before and value != before[name]:
                    found.append(GlobalSetting(name, _attribute(config, name)[1], before[name], value))
        for name, read, write, (known, value) in others:
            still, now = _read(read)
            # A mix of older and newer names of a precision raises when it is read: it was changed too.
            if known and (not still or now != value):
                found.append(GlobalSetting(name, write, value, now if still else value))
        put_before(found)


def _read(read: _Read) -> tuple[bool, Any]:
    try:
        return True, read()
    except Exception:
        return False, None


def put_before(settings: Iterable[GlobalSetting]) -> None:
    """Set each setting to its value before the change."""
    for setting in settings:
        setting.write(setting.before)


def put_after(settings: Iterable[GlobalSetting]) -> None:
    """Set each setting to its value after the change."""
    for setting in settings:
        setting.write(setting.after)
