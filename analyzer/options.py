"""What a check was asked for, as three values: what decides how sources are read, how a target is run, what is reported.

Standard library and the schema only: the worker carries this file. A new option is one field here; the command line, the
keys of `[tool.tcready]` and the documentation are made from these fields or checked against them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tcready.schema import Level, Mode, ModeAsked


@dataclass(frozen=True)
class ReadOptions:
    """What decides the static results; the cache's key holds every field."""

    root: Path
    """The working folder: paths are written relative to it."""
    mode: ModeAsked | None = "infer"
    """What `self.training` is taken for: `both` asks for one after the other, None for either at once."""
    exclude: tuple[str, ...] = ()
    """Globs of files and folders that are passed by where a folder is read."""
    search_path: tuple[Path, ...] | None = None
    """Where installed packages are looked for; None for this interpreter's path."""
    low: bool = False
    """Keep findings of low confidence."""
    plain_call: bool = False
    """A model that takes its targets is called without them, as any other: by default it gets all it takes."""
    torch: tuple[int, int] | None = None
    """The version whose Dynamo is predicted; None for the newest that is known."""
    third_party: bool | None = None
    """Follow calls into other people's packages; None: where a class or function was named, not for files."""
    lenient: bool = False
    """Leave out files that were named, cannot be parsed and do not name torch, as in a folder; else they are skipped."""


@dataclass(frozen=True)
class RunOptions:
    """What decides a run of one target."""

    inputs: str | None = None
    """`path.py::name` or `pkg.mod::name`; None: what a convention of the file gives."""
    mode: Mode = "infer"
    device: str = "cpu"
    """As torch calls it (`cpu`, `cuda:1`), or `auto`."""
    dtype: str | None = None
    """The model and its floating inputs are cast to it (`float16`); None: they stay as they are."""
    autocast: str | None = None
    """The dtype of `torch.autocast` around every call (`bfloat16`); None: no autocast."""
    weights: tuple[tuple[str, float], ...] = ()
    """Weights of named cases; they win over those that the inputs give."""
    synthesise: bool = False
    """Make inputs up where nothing gives them."""
    fullgraph: bool = False
    """Try `fullgraph=True` though the default run has breaks."""
    shapes: bool = False
    """Vary the sizes of the inputs and record what recompiles, under each setting of `dynamic`."""
    backend: bool = False
    """Compile with Inductor."""
    budget: float | None = None
    """Seconds for fullgraph, shapes and backend together; None: only the time limit of the run."""
    python: str | None = None
    """The interpreter; None: the one that runs this."""
    launcher: tuple[str, ...] = ()
    """What stands before the interpreter on the command line: `srun -n1`."""
    processes: int | None = None
    """Run under `torch.distributed.run` with so many processes; the first of them observes. None: a plain run."""
    timeout: float = 600.0
    """Seconds for the whole dynamic pass of one target."""
    memory_gb: float | None = None
    """Resident memory of all its processes together, in GB of 10**9 bytes; None: no limit."""
    allow_downloads: bool = False


@dataclass(frozen=True)
class ReportOptions:
    """What is reported of all that was found, and what of it fails."""

    select: tuple[str, ...] = ()
    """Prefixes of rule codes; empty for all."""
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Globs of files, and the prefixes of rule codes that are not reported there."""
    baseline: str | None = None
    """A file of known findings: only what it does not hold is reported."""
    write_baseline: str | None = None
    diff_base: str | None = None
    """A git revision: only findings on lines that changed since are reported."""
    fail_on: Level = "warning"
    third_party: bool = False
    """Whether findings in installed packages fail, too."""
