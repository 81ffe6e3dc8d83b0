"""`argparse`: an object of options has the defaults of its parser, unless other values are passed."""

from __future__ import annotations

from types import MappingProxyType

from tcready.static.domain.values import (
    NONE,
    UNKNOWN,
    Const,
    External,
    ExternalInstance,
    Plain,
    Sequence,
    Value,
    prefer,
)
from tcready.static.interp.interfaces import CallSite, Engine
from tcready.static.library.builtins import named_values

PARSER = "argparse.ArgumentParser"
NAMESPACE = "argparse.Namespace"
GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
PARSED = ("parse_args", "parse_intermixed_args")
OF_FLAGS = MappingProxyType({"store_true": False, "store_false": True})
"""Actions of options that take no value, with what these are by default."""


def parser(engine: Engine, site: CallSite) -> Value:
    """Return a parser: its options become attributes, by their names."""
    return ExternalInstance(PARSER, engine.heap.ident(PARSER, site.node, site.frame.context, escaping=True))


def method(engine: Engine, made: ExternalInstance, name: str, site: CallSite) -> Value | None:
    """Return the result of a method of a parser; None if nothing is known of it."""
    if name == "add_argument":
        option = _dest(site)
        if option:
            engine.heap[made].update(option, _option_value(site), strong=True)
        return UNKNOWN
    if name == "set_defaults":
        for key, value in site.keywords.items():
            engine.heap[made].update(key, prefer(value, _any_like(value)), strong=True)
        return NONE
    if name in GROUPS:
        return made
    if name in PARSED or name == "parse_known_args":
        options = named_values(engine, NAMESPACE, site, engine.heap[made].attributes)
        if name in PARSED:
            return options
        return Sequence("tuple", (options, Sequence("list", None, Plain("str"))), UNKNOWN)
    return None


def _dest(site: CallSite) -> str:
    """Return the attribute of an option: `dest`, else its first long name, else its first name."""
    given = site.keywords.get("dest")
    if given is not None:
        return given.value if isinstance(given, Const) and isinstance(given.value, str) else ""
    names = [v.value for v in site.args if isinstance(v, Const) and isinstance(v.value, str)]
    first = next((name for name in names if name.startswith("--")), names[0] if names else "")
    return first.lstrip("-").replace("-", "_")


def _option_value(site: CallSite) -> Value:
    """Return the value of an option: its default first."""
    action = site.keywords.get("action")
    flag = OF_FLAGS.get(str(action.value)) if isinstance(action, Const) else None
    default = site.keywords.get("default", NONE if flag is None else Const(flag))
    optional = any(isinstance(v, Const) and str(v.value).startswith("-") for v in site.args)
    if flag is not None:
        return prefer(default, Plain("bool"))
    kind = site.keywords.get("type")
    other = _any_like(default)
    if isinstance(kind, External) and kind.name in ("int", "float", "str", "bool"):
        other = Plain(kind.name)
    return prefer(default, other) if optional or default != NONE else other


def _any_like(default: Value) -> Value:
    """Return a value that a user may pass in place of a default."""
    if isinstance(default, Const) and default.value is not None:
        return Plain(type(default.value).__name__)
    return Plain() if isinstance(default, (Const, Plain)) else UNKNOWN
