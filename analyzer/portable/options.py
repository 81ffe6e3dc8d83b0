"""Options as values: how sources are read, how a target is run, what is reported, how the work is done.

Only the standard library and the schema: the worker includes this file. A new option is one field here. Its metadata
describe how users set it: the options of the command line and of the standalone worker, the keys of `[tool.tcready]`
and of a target's table, and the keywords of `tcready.check` and `tcready.observe` are generated from the fields.
"""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from tcready.portable.option_fields import fixed, given_by, option
from tcready.schema.compile_call import CompileCall
from tcready.schema.enums import LEVELS, Engine, Level, Mode, ModeAsked, Parallelism, TcreadyError
from tcready.schema.value_class import dataclass

if TYPE_CHECKING:
    from tcready.schema.bench import Sizes


@dataclass(frozen=True)
class ReadOptions:
    """Options that decide the static results. The cache's key has every field except `exclude`."""

    root: Path = field(metadata=given_by("the working folder, or `root` of tcready.check"))
    """The working folder: paths in results are relative to it."""
    mode: ModeAsked | None = option(
        "choice",
        "infer: eval() without gradients. train: train() with loss, backward and optimizer. both: one after the other.",
        default="infer",
        choices=get_args(ModeAsked),
        places="project",
    )
    """The assumed value of `self.training`: `both` means one after the other, None means either at once."""
    torch: tuple[int, int] | None = option(
        "version",
        "Predict for this version of torch. Default: the installed version, or the newest known version.",
        name="torch-version",
        metavar="X.Y",
        places="project",
    )
    """The version for which Dynamo is predicted; None for the newest known one."""
    exclude: tuple[str, ...] = option(
        "list", "Files and folders to skip when a folder is read.", metavar="GLOBS", places="project"
    )
    low: bool = option("flag", "Also report low-confidence findings, as notes.", places="project")
    plain_call: bool = option(
        "flag",
        "Assume that a model that takes targets (labels) is called without them and without other optional inputs.",
        places="project",
    )
    """Call a model that takes its targets without them. By default it gets all its arguments."""
    lenient: bool = option(
        "flag",
        "Ignore named files that have no model, or that cannot be parsed and do not mention torch. With --run, "
        "do not fail if there is nothing to run.",
    )
    """Leave out named files without a model, and those that cannot be parsed and do not mention torch, as in a
    folder. By default they are reported as skipped. If a folder is to be run and gives nothing to run, say so
    instead of failing: hooks use this."""
    search_path: tuple[Path, ...] | None = fixed(None, "for programs that read as another interpreter would import")
    """Where installed packages are searched; None for this interpreter's path."""
    dtype: str | None = fixed(None, "`dtype` of the run, which a target's table may give as well")
    """The type that models and their floating inputs are cast to (`float16`); None: no cast, and float32 unless the
    code says otherwise."""
    autocast: str | None = fixed(None, "`autocast` of the run, which a target's table may give as well")
    """The type of `torch.autocast` around the call; None: no autocast."""
    third_party: bool | None = fixed(None, "follows from what is named: --third-party says what is shown and fails")
    """Follow calls into other people's packages; None: only for named classes and functions, not for files."""


STUDIES = ("fullgraph", "shapes", "plan", "backend")
"""Names of the fields for optional stages of a run."""


@dataclass(frozen=True)
class RunOptions:
    """Options that decide a run of one target."""

    inputs: str | None = option(
        "text",
        "Inputs to call the target with: a value, or a callable that returns it.",
        metavar="PATH::NAME",
        takes="a string: path.py::name",
        completes="files",
        places="table worker",
    )
    """`path.py::name` or `pkg.mod::name`; None: by a convention of the file."""
    mode: Mode = option(
        "choice",
        "infer: eval() without gradients. train: train() with loss, backward and optimizer.",
        default="infer",
        choices=get_args(Mode),
        flag=False,
        no_flag="--mode of the sources decides it: with `both` a target is run in one mode after the other",
        places="table worker",
    )
    device: str = option(
        "text",
        "Where to run: cpu, cuda, cuda:1, mps, meta or auto. On meta, tensors have no values and take no memory.",
        default="cpu",
        takes="a string: cpu, cuda, cuda:1, mps, meta or auto",
        places="project table worker",
    )
    """A device of torch (`cpu`, `cuda:1`, `meta`), or `auto`."""
    dtype: str | None = option(
        "text",
        "Cast the model and its floating-point inputs (float16, bfloat16, ...).",
        takes="a string: float16",
        places="project table worker",
    )
    """The model and its floating inputs are cast to it (`float16`); None: no cast."""
    autocast: str | None = option(
        "text",
        "Run under torch.autocast with this dtype (bfloat16).",
        metavar="DTYPE",
        takes="a string: bfloat16",
        places="project table worker",
    )
    """The dtype of `torch.autocast` around every call (`bfloat16`); None: no autocast."""
    weights: tuple[tuple[str, float], ...] = option(
        "weights",
        takes="a table of case names to numbers above 0",
        flag=False,
        no_flag="belongs to the named cases of one target's inputs: a target's table says it",
        places="table",
    )
    """Weights of named cases; they override those of the inputs."""
    sizes: tuple[Sizes, ...] = fixed((), "`tcready bench --lengths` reads them from a file of sizes")
    """The function that provides the inputs is called once with each of these; each is a named case, with its count
    as weight."""
    synthesise: bool = option(
        "flag", flag=False, no_flag="--run generates inputs if none are given, and so does the worker"
    )
    """Generate inputs if none are given."""
    optimizer: bool = option(
        "flag",
        "With --mode train: also compile the step of an optimizer (AdamW), and the whole training step.",
        places="project worker",
    )
    fullgraph: bool = option("flag", "Try fullgraph=True even if the default run has breaks.", places="project worker")
    shapes: bool = option(
        "flag", "Vary the sizes of the inputs. Report what recompiles and what to do about it.", places="project worker"
    )
    """Vary the sizes of the inputs and record what recompiles, under each setting of `dynamic`."""
    plan: bool = option(
        "flag",
        "Find out which parts to compile. Runs and measures every placement of torch.compile.",
        places="project worker",
    )
    """Prove regions and measure placements of `torch.compile`."""
    backend: bool = option("flag", "Also compile with Inductor.", places="project worker")
    budget: float | None = option(
        "number",
        "Time limit for --fullgraph, --shapes, --plan and --backend together. The report lists what was left out.",
        metavar="SECONDS",
        takes="a number of seconds above 0",
        places="project worker",
    )
    """Seconds for fullgraph, shapes, plan and backend together; None: only the time limit of the run."""
    trace_out: str | None = option(
        "text",
        "Write torch's structured trace of the compiled calls to this new or empty folder, for tlparse and for "
        "`tcready report --trace`.",
        metavar="DIR",
        takes="a string: trace",
        completes="files",
        places="worker",
    )
    """A folder for what torch writes under `TORCH_TRACE`, for the stage `capture` and for the first compilation of
    `backend`; None: nothing is written."""
    python: str | None = option(
        "text", "Python interpreter to run the model with.", metavar="EXE", completes="files", places="project worker"
    )
    launcher: tuple[str, ...] = option(
        "command", 'Command that starts the interpreter, such as "srun -n1".', metavar="COMMAND", places="worker"
    )
    """The words before the interpreter on the command line: `srun -n1`."""
    processes: int | None = option(
        "count",
        "Run N processes under torchrun. Report what each process compiles and where they differ.",
        name="nproc-per-node",
        metavar="N",
        places="worker",
    )
    """Run under `torch.distributed.run` with this many processes; the first of them observes. None: a plain run."""
    parallel: Parallelism | None = option(
        "choice",
        "With --nproc-per-node: wrap the model in DistributedDataParallel (default), shard it with "
        "FSDP2 (fully_shard on each block), or apply a tensor-parallel plan.",
        choices=get_args(Parallelism),
        places="worker",
    )
    """How several processes share the model; None: DistributedDataParallel, unless the target sets this up itself."""
    tp_plan: str | None = option(
        "text",
        "With --parallel tp: the dict that parallelize_module takes, or a callable that returns it. "
        "Default: the model's own plan (tp_plan).",
        metavar="PATH::NAME",
        takes="a string: path.py::plan",
        completes="files",
        places="worker",
    )
    timeout: float = option(
        "number",
        "Time limit for the whole run.",
        default=600.0,
        metavar="SECONDS",
        takes="a number of seconds above 0",
        places="project table worker",
    )
    """Seconds for the whole dynamic pass of one target."""
    memory_gb: float | None = option(
        "number",
        "Stop the run if it uses more resident memory than this.",
        name="memory",
        metavar="GB",
        takes="a number of GB above 0",
        places="project table worker",
    )
    """Resident memory of all its processes together, in GB of 10**9 bytes; None: no limit."""
    allow_downloads: bool = option(
        "flag", "Allow the model to download files. Otherwise, the run is offline.", places="worker"
    )
    model: str | None = option(
        "text",
        "Check the model that this Python expression returns: \"timm.create_model('resnet18')\".",
        metavar="EXPRESSION",
    )
    """An expression, or in the run of one target the named library model, such as `hf:bert`."""
    checkpoint: str | None = option(
        "text",
        "Safetensors file with weights to load into the model.",
        metavar="FILE",
        takes="a string: model.safetensors",
        completes="files",
        places="table worker",
    )
    """A file of safetensors, below the working folder; None: the model keeps its initial weights."""
    tiny: bool = option(
        "flag",
        "Build a small version of an hf: or diffusers: model, with few layers, small widths and a small vocabulary.",
    )
    config: tuple[str, ...] = option(
        "texts", "Set a field in the configuration of a library model. May be repeated.", metavar="KEY=VALUE"
    )

    compile_call: CompileCall | None = fixed(None, "the static pass finds the call that compiles the target")
    """The call of the user's code whose options the target is compiled with; None if there is none."""

    def studies(self) -> tuple[str, ...]:
        """Return the names of the optional stages."""
        return tuple(name for name in STUDIES if getattr(self, name))

    def without_studies(self) -> RunOptions:
        """Return the same run without optional stages and without a trace."""
        left_out: dict[str, Any] = dict.fromkeys(STUDIES, False)
        return dataclasses.replace(self, trace_out=None, **left_out)


def validate_parallel(options: RunOptions) -> None:
    """Raise TcreadyError if options for several processes contradict each other."""
    if options.parallel is not None and not options.processes:
        raise TcreadyError(f"--parallel {options.parallel}: add the number of processes, as in --nproc-per-node 2")
    if options.tp_plan is not None and options.parallel != "tp":
        raise TcreadyError(f"--tp-plan {options.tp_plan}: requires --parallel tp")


@dataclass(frozen=True)
class ReportOptions:
    """Options that decide which findings are reported, and which of them fail."""

    select: tuple[str, ...] = option(
        "list",
        "Report only these rules; prefixes are allowed (TCR1).",
        metavar="CODES",
        completes="codes",
        places="project",
    )
    """Prefixes of rule codes; empty for all."""
    ignore: tuple[str, ...] = option(
        "list", "Ignore these rules; prefixes are allowed.", metavar="CODES", completes="codes", places="project"
    )
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = option(
        "globs", "Ignore these rules in matching files.", metavar="GLOB:CODES", places="project"
    )
    """Globs of files, and the prefixes of rule codes that are not reported there."""
    baseline: str | None = option(
        "text", "Report only findings that are not in this baseline.", metavar="FILE", places="project"
    )
    write_baseline: str | None = option(
        "text",
        "Write the findings to this file, for use with --baseline. They do not fail this run.",
        metavar="FILE",
        writes=True,
    )
    diff_base: str | None = option("text", "Report only findings on lines changed since REV (git).", metavar="REV")
    fail_on: Level = option(
        "choice",
        "Exit 1 if there is a finding at this level or above.",
        default="warning",
        choices=LEVELS[::-1],
        keyword=False,
        places="project",
    )
    third_party: bool = option(
        "flag", "Show findings in installed packages one by one, and fail on them too.", keyword=False, places="project"
    )
    serving: Engine | None = option(
        "choice",
        "For each finding, report what the compile pipeline of a serving engine makes of it. The "
        "source of the engine is read. No engine is started.",
        choices=get_args(Engine),
    )
    """Read from this engine's sources how it compiles models."""


@dataclass(frozen=True)
class WorkOptions:
    """Options on which of the named files are skipped, and how the work is done. The findings in a file do not
    depend on them."""

    force_exclude: bool = option(
        "flag", "Also apply --exclude to files that are named on the command line.", places="project"
    )
    cache: bool = option("flag", "Read and write .tcready_cache.", at_command=True, places="project")
    """Cache the static results in `.tcready_cache` below the root, and reuse them while they are valid."""
    jobs: int | None = option(
        "count",
        "Number of processes that read the sources. The default depends on the total size of the sources.",
        default=1,
        metavar="N",
        none_counts=True,
        at_command=None,
    )
    """Number of processes; None for as many as are useful. More than one needs an importable main module."""
    interpreters: tuple[str, ...] = option(
        "texts",
        takes='a list of interpreters: ["../torch-2.14/bin/python"]',
        flag=False,
        keyword=True,
        no_flag="the project's own environments: `tcready sweep --matrix torch=2.14` looks for one with that torch",
        places="project",
    )
    """Interpreters with other versions of torch, in addition to the one that runs models."""
    verify_fixes: bool = option(
        "flag", "For each break and each recompilation, verify a change as `tcready fix --verify` does."
    )
    """Requires a run of the target; each finding says what its change was shown to do."""
    checkout: bool = option(
        "flag", default=True, flag=False, keyword=True, no_flag="the command asks git if the output can hold links"
    )
    """Ask git for the commit of the sources, for links to their lines."""


MATRIX_AXES = ("torch", "python", "device", "mode")
"""Options for which a sweep may run its models with several values."""


@dataclass(frozen=True)
class SweepOptions:
    """How `tcready sweep` does its work, and where it stores results."""

    store: str = option(
        "text",
        "File that stores the results. Results of unchanged models are reused, and an interrupted sweep resumes.",
        default=".tcready_cache/sweep.sqlite",
        metavar="FILE",
        completes="files",
    )
    fresh: bool = option("flag", "Ignore stored results and check everything again.", paired=False)
    matrix: tuple[str, ...] = option(
        "texts",
        "Run each model in every combination of python=EXE,EXE or torch=2.13,2.14, device=cpu,cuda "
        "and mode=infer,train. May be repeated.",
        metavar="AXIS=VALUES",
    )
    engine: str = option(
        "choice",
        "Where to run: on this machine, or on a Ray cluster (requires the extra `ray`).",
        default="local",
        choices=("local", "ray"),
    )
    workers: int | None = option(
        "count",
        "Number of models to check at the same time. Default: one per core, or one per GPU.",
        name="jobs",
        metavar="N",
    )
    export: str | None = option(
        "text",
        "Write all stored results to this Parquet file (requires pyarrow).",
        metavar="FILE",
        writes=True,
        completes="files",
    )


@dataclass(frozen=True)
class BenchOptions:
    """What `tcready bench` measures, and the time limit."""

    arms: tuple[str, ...] = option(
        "texts",
        "A way to run the model: default, reduce-overhead, max-autotune, dynamic, static, plan, "
        "patched, or NAME='torch.compile(model, backend=...)'. May be repeated. Default: `default`, "
        "and `plan` if there is one. `eager` is always measured.",
        name="arm",
        metavar="ARM",
    )
    quick: bool = option(
        "flag",
        "A short bench: eager and `default`, one cold start each, within 120 s unless --budget is given.",
        paired=False,
    )
    bench_budget: float | None = option(
        "number",
        "Time limit for the check and all measurements except --soak. Default: 300, or 120 with "
        "--quick. The report lists what was left out. The check and the first process get at least 20 "
        "s each.",
        name="budget",
        metavar="SECONDS",
        takes="a number of seconds above 0",
    )
    """The time limit in seconds for everything except a soak; None: 300, or 120 with `quick`."""
    at_least: int = option(
        "count",
        "Number of processes that time the arms. Default: 3, or 2 if they settle the verdict. Two "
        "more run if the verdict is close.",
        default=3,
        name="processes",
        metavar="N",
    )
    min_effect: float = option(
        "share", "The smallest gain that counts, such as 2% or 0.02.", default=0.02, metavar="SHARE"
    )
    lengths: str | None = option(
        "text",
        "Sizes of production calls, as CSV or JSON lines. The columns are the parameters of the --inputs callable, "
        "and `count`.",
        metavar="FILE",
        completes="files",
    )
    accumulate: int = option(
        "count", "With --mode train: forward and backward passes per optimizer step.", default=1, metavar="N"
    )
    steps: int = option(
        "count",
        "Time N consecutive calls as one. Each call gets the inputs as the previous call left them, like a growing "
        "cache.",
        default=1,
        metavar="N",
    )
    loop: str | None = option(
        "text",
        "A function that calls the model as your code does. It gets the model and the inputs. Each call is timed.",
        metavar="PATH::NAME",
        completes="files",
    )
    loader: str | None = option(
        "text",
        "A data loader, or a function that returns one. Measures how long the model waits for batches.",
        metavar="PATH::NAME",
        completes="files",
    )
    carry: bool = option(
        "flag",
        "Measure the start of a process that loads the compiled code of another one, after everything else. Not "
        "with --quick.",
        default=True,
    )
    soak: float | None = option(
        "number",
        "Run the best arm for this long, and monitor memory, recompilations and drift.",
        metavar="SECONDS",
        takes="a number of seconds above 0",
    )
    patch: str | None = option(
        "text",
        "Also measure `patched`: the compiled model with this diff applied, or with everything that `tcready fix "
        "--patch-dir` wrote to this folder, including settings.",
        metavar="PATH",
        completes="files",
    )
    plan_from: str | None = option(
        "text",
        "A JSON report of `tcready check --plan`. Its plan becomes the arm `plan`.",
        metavar="FILE",
        completes="files",
    )
    against: str | None = option(
        "text",
        "A JSON report of an earlier bench to compare with. Requires --fail-on-regression.",
        metavar="FILE",
        completes="files",
    )
    fail_on_regression: str | None = option(
        "text", "Exit 1 if an arm is slower than in --against by more than this, or fails now.", metavar="5%"
    )
