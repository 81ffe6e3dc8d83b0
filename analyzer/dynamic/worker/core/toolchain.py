"""Check whether Inductor can compile anything for a device here."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

import torch
from tcready.dynamic.worker.core.context import Context
from tcready.dynamic.worker.core.journal import one_line
from tcready.dynamic.worker.torch_internals import inductor
from tcready.dynamic.worker.torch_internals.compile_calls import compile_callable

PREFIX = "torchinductor_tcready_"
"""Prefix of the cache folder, by which `frames.is_user_file` recognizes generated code."""


def room_of(context: Context) -> str | None:
    """The folder of the state file, which the launcher removes even if this process dies; None if there is none."""
    state = context.journal.state_path
    return os.path.dirname(os.path.abspath(state)) if state else None


@contextlib.contextmanager
def shared_folder(context: Context, shared: str | None) -> Iterator[str]:
    """Return a cache folder for Inductor below one that several processes share, or a separate one."""
    with contextlib.ExitStack() as stack:
        if shared is None:
            shared = stack.enter_context(cache_folder(context))
        else:
            shared = os.path.join(shared, f"{PREFIX}files")
            os.makedirs(shared, exist_ok=True)
        yield shared


def cache_folder(context: Context) -> tempfile.TemporaryDirectory[str]:
    """Create an empty folder, which is removed afterwards."""
    return tempfile.TemporaryDirectory(prefix=PREFIX, dir=room_of(context), ignore_cleanup_errors=True)


@contextlib.contextmanager
def compiler_cache(context: Context, folder: str) -> Iterator[None]:
    """Make Inductor store files of models in `folder`. Files that it makes once per machine stay in its default
    folder."""
    if torch.device(context.work.options.device).type == "cpu":
        inductor.choose_vector_instructions()
    with inductor.inductor_cache(folder):
        yield


def missing_toolchain(device: str, context: Context) -> str | None:
    """Return why Inductor cannot compile anything for the device here, or None; tried once in a process."""
    if device not in context.toolchains:
        context.toolchains[device] = _missing_toolchain(device, context)
    return context.toolchains[device]


def _missing_toolchain(device: str, context: Context) -> str | None:
    """The same, without the cache.

    Tried by compiling one addition: headers, drivers and old GPUs fail in many ways, each of which would be blamed on
    the model otherwise.
    """
    kind = torch.device(device).type
    if kind == "cpu" and inductor.cpp_compiler() is None:
        named = os.environ.get("CXX")
        setting = f"CXX={named}" if named else "CXX is not set, and there is no default one"
        return f"Inductor needs a C++ compiler for the CPU and none was found ({setting})"
    if kind in ("cuda", "xpu") and not inductor.has_triton_package():
        return f"Inductor needs Triton for {kind}, and it is not installed"
    context.journal.write("backend: the toolchain")
    try:
        with cache_folder(context) as folder, compiler_cache(context, folder):
            compile_callable(_add_one, backend="inductor")(torch.ones(8, device=device))
    except Exception as error:
        return f"Inductor cannot compile one addition for {device} here: {one_line(error, context.work.root)}"
    return None


def _add_one(tensor: torch.Tensor) -> torch.Tensor:
    return tensor + 1
