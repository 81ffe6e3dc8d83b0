"""The only table of differences between the versions of torch that the worker supports.

Names of torch are looked up instead of comparing versions, because nightlies and vendors' builds contain different
ones. Nothing else in the worker checks whether torch has a name.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Name = Literal[
    "skip_reason",
    "break_ids",
    "cache_entries",
    "fake_kernel_check",
    "error_on_graph_break",
    "nested_compile_region",
    "sizes_seen",
    "setting_is_default",
    "collapsed_frames",
    "line_table",
    "cache_artifacts",
    "aot_compile",
    "precompile",
]


@dataclass(frozen=True)
class VersionDifference:
    """A name that some versions lack: its module, and its path there."""

    name: Name
    module: str
    path: str
    since: str
    """The first version that was seen to have it; empty if that was not checked."""
    without: str
    """The replacement in versions without it."""


DIFFERENCES = (
    VersionDifference(
        "skip_reason",
        "torch._dynamo.types",
        "ConvertFrameReturn.skip_reason",
        "2.12",
        "the frame's row of metrics says why it was given up",
    ),
    VersionDifference("break_ids", "torch._dynamo.exc", "_load_gb_type_to_gb_id_map", "2.9", "breaks have no id"),
    VersionDifference(
        "cache_entries",
        "torch._C._dynamo.eval_frame",
        "_debug_get_cache_entry_list",
        "",
        "of a recompilation the guards that Dynamo logs are known, and no others",
    ),
    VersionDifference(
        "fake_kernel_check",
        "torch._library.utils",
        "has_fake_kernel",
        "",
        "the dispatcher and the registry are asked, which does not know operators that need none since they mutate only",
    ),
    VersionDifference(
        "error_on_graph_break",
        "torch._dynamo",
        "error_on_graph_break",
        "",
        "a region's breaks are read from the record",
    ),
    VersionDifference(
        "nested_compile_region", "torch.compiler", "nested_compile_region", "", "the placement `nested` is not tried"
    ),
    VersionDifference(
        "sizes_seen",
        "torch._dynamo.pgo",
        "reset_code_state",
        "",
        "of several arms in a process the later ones compile for sizes that vary as soon as the first one met several",
    ),
    VersionDifference(
        "setting_is_default",
        "torch.utils._config_module",
        "ConfigModule._is_default",
        "",
        "settings of Inductor that differ from their defaults are not named",
    ),
    VersionDifference(
        "collapsed_frames",
        "torch._dynamo.symbolic_convert",
        "collapse_resume_frames",
        "",
        "the stack of a break is as Dynamo logs it",
    ),
    VersionDifference(
        "line_table",
        "torch._dynamo.bytecode_transformation",
        "linetable_311_writer",
        "",
        "lines of resumed functions are taken as they are: on Python 3.10 they are right",
    ),
    VersionDifference(
        "cache_artifacts",
        "torch.compiler",
        "save_cache_artifacts",
        "",
        "a bench measures no start with the artifacts of the caches",
    ),
    VersionDifference(
        "aot_compile",
        "torch._dynamo.aot_compile",
        "AOTCompiledFunction.save_compiled_function",
        "",
        "a bench measures no start with a loaded function; in 2.11 and older, a setting enables it",
    ),
    VersionDifference(
        "precompile",
        "torch.compiler.precompile",
        "capture",
        "2.15",
        "a bench measures no start with a precompiled function",
    ),
)
_BY_NAME = {row.name: row for row in DIFFERENCES}


@functools.cache
def has(name: Name) -> bool:
    """Return whether this torch has it. Loads its module."""
    row = _BY_NAME[name]
    try:
        value: Any = importlib.import_module(row.module)
        for step in row.path.split("."):
            value = getattr(value, step)
    except (ImportError, AttributeError):
        return False
    return True


def those_of(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of those names that `owner` has: settings are added and removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are deprecated, but tcready itself requests them
        return {name: getattr(owner, name) for name in names if hasattr(owner, name)}
