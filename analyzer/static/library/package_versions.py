"""Versions of packages, as text and as values that compare correctly."""

from __future__ import annotations

import re
from types import MappingProxyType

from tcready.static.domain.values import UNKNOWN, Const, Plain, Sequence, Value, lift
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library import semantics as K  # noqa: N812
from tcready.static.library.builtins import Handler

RELEASE = re.compile(r"\d+(?:\.\d+)*")
READERS = (
    "packaging.version.parse",
    "packaging.version.Version",
    "pkg_resources.parse_version",
    "distutils.version.LooseVersion",
    "distutils.version.StrictVersion",
)
"""Functions that parse a version from text."""


def _version(_engine: Engine, site: CallSite) -> Value | None:
    """Return a version that was read from text: it compares as its numbers do."""
    return lift(_as_version, site.args[0]) if site.args else None


def _as_version(text: Value) -> Value:
    given = text.value if isinstance(text, Const) and isinstance(text.value, str) else ""
    found = RELEASE.match(given)
    numbers = [int(number) for number in found.group().split(".")] if found is not None else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return Sequence("tuple", tuple(map(Const, numbers)), UNKNOWN) if numbers else Plain()


def _installed_version(engine: Engine, site: CallSite) -> Value:
    """Return the version of an installed package, as text."""
    return K.version_text(engine.operations.tables.version) if site.args == (Const("torch"),) else Plain("str")


HANDLERS: MappingProxyType[str, Handler] = MappingProxyType(
    {**dict.fromkeys(READERS, _version), "importlib.metadata.version": _installed_version}
)
