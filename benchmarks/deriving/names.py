"""The public names of torch and of the standard library that models call."""

from __future__ import annotations

import contextlib
import enum
import importlib
import inspect
import os
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import trace_rules

LIBRARY = (
    "builtins math cmath operator itertools functools collections contextlib random time os os.path sys copy re "
    "threading logging warnings inspect typing types enum abc dataclasses string json pickle hashlib uuid datetime "
    "weakref gc ctypes subprocess socket io pathlib shutil tempfile platform traceback struct heapq bisect statistics "
    "decimal fractions numbers textwrap glob queue zlib base64 contextvars importlib importlib.metadata importlib.util "
    "importlib.resources multiprocessing tracemalloc numpy "
    "numpy.random numpy.linalg numpy.fft"
).split()
SEPARATE = (
    "torch.utils.cpp_extension torch.utils.benchmark torch.utils.tensorboard torch.testing torch.quantization torch.ao "
    "torch.onnx torch.fb torch.contrib torch.package torch.monitor torch.xpu torch.mtia torch.mps torch.hub "
    "torch.utils.collect_env torch.fx.experimental torch.fx.passes torch.nn.quantized torch.nn.qat torch.nn.intrinsic "
    "torch.nn.quantizable torch.utils.bottleneck torch.utils.viz torch.cuda.tunable torch.cuda.gds "
    "torch.utils.throughput_benchmark torch.utils.mobile_optimizer torch.utils.bundled_inputs torch.utils.model_dump "
    "torch.multiprocessing torch.export._ torch.distributed.elastic torch.cuda.green_contexts"
).split()
"""Parts of torch that no model calls in its forward."""
ASKED_OF_DEVICES = {
    f"torch.{device}": (
        "is_available",
        "device_count",
        "is_initialized",
        "is_bf16_supported",
        "empty_cache",
        "synchronize",
    )
    for device in ("xpu", "mps", "mtia")
}
"""What a model asks of devices all the same, to find out which there are; by module."""
WITHOUT_METHODS = (
    "torch. numpy. ctypes. socket. typing. types. inspect. multiprocessing. struct. abc. enum. os. subprocess. tempfile. "
    "shutil. traceback. importlib. numbers. gc. tracemalloc. dataclasses. warnings. memoryview bytearray "
    "decimal.Context pathlib.Posix pathlib.Windows pathlib.PurePosix pathlib.PureWindows io.Buffered io.Raw io.File "
    "io.Text io.IO uuid.bytes_ uuid.int_ random.SystemRandom logging.RootLogger logging.FileHandler collections.User "
    "logging.NullHandler logging.Handler logging.BufferingFormatter weakref.Weak threading.Barrier "
    "threading.ExceptHookArgs"
).split()
"""Where only what is called without an object is asked."""
PACKAGES = (
    "torch.nn",
    "torch.nn.utils",
    "torch.autograd",
    "torch.utils",
    "torch.cuda",
    "torch.distributions",
    "torch.optim",
    "torch.backends",
)
"""Packages whose public modules are looked into as well."""


def torch_modules() -> list[str]:
    """Public modules of torch: those that Dynamo's lists name, and what lies in PACKAGES."""
    named = {*trace_rules.MOD_SKIPLIST, *trace_rules.MOD_INLINELIST, *trace_rules.LEGACY_MOD_INLINELIST}
    named |= {f"torch.{name}" for name, value in vars(torch).items() if isinstance(value, types.ModuleType)}
    for package in PACKAGES:
        found = pkgutil.iter_modules(importlib.import_module(package).__path__, package + ".")
        named |= {module.name for module in found}
    public = {n for n in named if not any(part.startswith("_") for part in n.split("."))}
    return sorted({"torch", *(n for n in public if not n.startswith(tuple(SEPARATE)))})


def modules() -> Iterator[tuple[str, types.ModuleType]]:
    """Every module that is looked into and can be imported here."""
    for name in (*torch_modules(), *LIBRARY):
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
            # torch.backends.cudnn stands for its settings; its functions are in the module behind it
            yield name, module.m if isinstance(module, torch.backends.PropModule) else module


def _belongs(value: Any, name: str, module: types.ModuleType) -> bool:
    """Whether a module's attribute is its own, and not what the module happens to import."""
    listed = getattr(module, "__all__", None)
    if listed is not None and name in listed:
        return True
    home = getattr(value, "__module__", None)
    if not module.__name__.startswith("torch"):
        return listed is None or home == module.__name__
    if home is None:
        return True  # of torch's C library
    if str(home).startswith("torch._C"):
        return True
    return str(home) == module.__name__ or (hasattr(module, "__path__") and str(home).startswith("torch"))


def callables() -> dict[str, Any]:
    """Every public callable by its dotted name: functions, classes, and what classes have that needs no object."""
    found: dict[str, Any] = {}
    for prefix, module in modules():
        for name in dir(module):
            with contextlib.suppress(Exception):
                value = getattr(module, name)
                if name.startswith("_") or not callable(value) or isinstance(value, types.ModuleType):
                    continue
                if _belongs(value, name, module):
                    found[f"{prefix}.{name}"] = value
                    if inspect.isclass(value) and not prefix.startswith("torch"):
                        found.update(_of_class(f"{prefix}.{name}", value))
    for prefix, asked in ASKED_OF_DEVICES.items():
        device = importlib.import_module(prefix)
        found.update((f"{prefix}.{name}", getattr(device, name)) for name in asked if hasattr(device, name))
    for prefix, made in _instances():
        for name in dir(made):
            if not name.startswith("_") and callable(getattr(made, name)):
                found[f"{prefix}.{name}"] = getattr(made, name)
    for name in dir(torch.Tensor):
        method = getattr(torch.Tensor, name)
        if not name.startswith("_") and callable(method):
            found[f"torch.Tensor.{name}"] = method
    return {name.removeprefix("builtins."): value for name, value in sorted(found.items())}


def _instances() -> Iterator[tuple[str, Any]]:
    """Objects with methods that modules of the system hold: `sys.stdout`, `os.environ`."""
    for module in (sys, os):
        for name in sorted(vars(module)):
            value = getattr(module, name)
            home = type(value).__module__
            if name.startswith("_") or home not in ("os", "_io") or inspect.isroutine(value):
                continue
            if home == "_io":  # another of its class: what a stream can do depends on where it leads
                value = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115
            yield f"{module.__name__}.{name}", value


@dataclass(frozen=True)
class Method:
    """A method that needs an object: `threading.Lock.acquire`."""

    cls: type
    name: str

    def __call__(self, made: Any, *args: Any) -> Any:
        return getattr(made, self.name)(*args)


def methods(found: dict[str, Any]) -> dict[str, Method]:
    """Public methods of the library's classes and of Python's own types, which lie in `found`, and of modules."""
    made: dict[str, Method] = {}
    for prefix, cls in found.items():
        if not inspect.isclass(cls) or prefix.startswith(tuple(WITHOUT_METHODS)):
            continue
        if issubclass(cls, (BaseException, enum.Enum)) or cls.__module__.startswith("torch"):
            continue
        for name in dir(cls):
            with contextlib.suppress(Exception):
                whole = f"{prefix}.{name}"
                if not name.startswith("_") and whole not in found and callable(getattr(cls, name)):
                    made[whole] = Method(cls, name)
    for name in dir(torch.nn.Module):  # asked of a module that has parameters
        if not name.startswith("_") and callable(getattr(torch.nn.Linear, name)):
            made[f"torch.nn.Module.{name}"] = Method(torch.nn.Linear, name)
    return made


def _of_class(prefix: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Class methods and static methods, as `datetime.datetime.now`."""
    for name, raw in vars(cls).items():
        if not name.startswith("_") and isinstance(
            raw, (classmethod, staticmethod, types.ClassMethodDescriptorType, types.BuiltinMethodType)
        ):
            yield f"{prefix}.{name}", getattr(cls, name)


def module_lists() -> dict[str, list[str]]:
    """Modules whose files Dynamo skips, inlines, or inlines only when called: its own lists, as dotted names."""
    folder = trace_rules._module_dir(torch)

    def dotted(paths: Any) -> list[str]:
        return sorted(p.removeprefix(folder).removesuffix(".py").replace("/", ".") for p in paths)

    whens = [
        m.__name__
        for m in trace_rules.BUILTIN_SKIPLIST
        if trace_rules._module_dir(m) in getattr(trace_rules, "BUILTIN_INLINE_WHEN_CALLED", ())
    ]
    return {
        "skipped_standard": sorted(m.__name__ for m in trace_rules.BUILTIN_SKIPLIST),
        "inlined_when_called": sorted(whens),
        "skipped_third_party": sorted(trace_rules.THIRDPARTY_SKIPLIST),
        "skipped_torch": sorted(trace_rules.MOD_SKIPLIST),
        "inlined_torch": sorted(trace_rules.MOD_INLINELIST),
        "inlined_torch_legacy": sorted(trace_rules.LEGACY_MOD_INLINELIST),
        "force_skipped": [f"torch.{name}" for name in dotted(trace_rules.FORCE_SKIP_FILES)],
    }
