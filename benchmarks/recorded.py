"""The file through which tcready runs the model of a record: a benchmark writes it and names it as the target."""

from __future__ import annotations

from typing import Any

_TARGET = """\
import importlib
import sys

sys.path.insert(0, {zoo!r})


def _made():
    module, function = {build!r}.split(":")
    return getattr(importlib.import_module(module), function)(**{kwargs!r})


def model():
    return _made()[0]


def inputs():
    _, args, kwargs = _made()
    return tuple(args), dict(kwargs)
"""


def source_of(record: dict[str, Any], zoo: str) -> str:
    """Python with `model` and `inputs`, built as the record's `spec` says by a module of the folder `zoo`."""
    return _TARGET.format(zoo=zoo, build=record["spec"]["build"], kwargs=record["spec"]["kwargs"])
