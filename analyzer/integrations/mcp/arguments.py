"""The arguments of each tool, with types and descriptions, for the client and for validation."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from tcready.integrations.mcp.answer import LEAST, MOST, ROOM
from tcready.schema.enums import TcreadyError

_T = TypeVar("_T")
TARGET = (
    "What to check: path.py, a folder, path.py::Class, pkg.mod::Class of an installed package, or "
    "a library model such as hf:bert. Paths are below the folder of the server."
)
ONE_TARGET = "The model: path.py::Class, path.py with one model in it, pkg.mod::Class, or hf:bert."
Target = Annotated[str, Field(description=TARGET)]
OneTarget = Annotated[str, Field(description=ONE_TARGET)]
Inputs = Annotated[
    str | None,
    Field(
        description="Inputs of the model: path.py::name of a value, or of a callable that returns it. Default: "
        "the inputs from the file or from pyproject.toml; otherwise, inputs are generated."
    ),
]
OneMode = Annotated[
    Literal["infer", "train"] | None,
    Field(description="infer (default): eval() without gradients. train: train() with loss, backward and optimizer."),
]
Device = Annotated[str | None, Field(description="cpu (the default), cuda, cuda:1, mps, meta or auto.")]
Timeout = Annotated[float | None, Field(description="Time limit for the run in seconds. Default: 600.", gt=0)]
Codes = Annotated[list[str] | None, Field(description="Report only these rules. Prefixes are allowed: TCR101, TCR2.")]
Characters = Annotated[
    int,
    Field(
        description="Maximum number of characters of the answer, for text and data together. The answer says what "
        "was left out.",
        ge=LEAST,
        le=MOST,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments that every tool has."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    max_characters: Characters = ROOM


@dataclass(frozen=True, kw_only=True)
class RunArguments(Arguments):
    """Arguments on how to run a model."""

    inputs: Inputs = None
    mode: OneMode = None
    device: Device = None
    timeout: Timeout = None


@dataclass(frozen=True, kw_only=True)
class Check(Arguments):
    target: Target
    run: Annotated[
        bool,
        Field(
            description="Also run the model under Dynamo, in a separate process. This executes the user's code. The "
            "answer says which predictions hold and what share of the model is captured."
        ),
    ] = False
    inputs: Inputs = None
    mode: Annotated[
        Literal["infer", "train", "both"] | None,
        Field(
            description="infer (default): eval() without gradients. train: train() with loss and backward. both: one "
            "after the other."
        ),
    ] = None
    device: Device = None
    timeout: Timeout = None
    select: Codes = None
    third_party: Annotated[bool, Field(description="Also list findings in installed packages.")] = False
    skip: Annotated[
        int, Field(description="Skip this number of findings, to continue where an answer was cut.", ge=0)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class RuleArguments(Arguments):
    code: Annotated[
        str | None,
        Field(
            description="The code or name of a rule (TCR101), a type of graph break (GB0170), or the id of a finding "
            "or the beginning of an id (6c6c83d). Default: the list of rules."
        ),
    ] = None
    target: Annotated[
        str | None,
        Field(
            description="For the id of a finding: where to look for it. Default: the last run; otherwise, the folder."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanArguments(RunArguments):
    target: OneTarget
    budget: Annotated[
        float | None,
        Field(
            description="Time limit for all trials in seconds. The answer says what was left out. Default: only the "
            "timeout.",
            gt=0,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FixArguments(RunArguments):
    target: Target
    prove: Annotated[
        bool,
        Field(
            description="Verify each change by runs of the model before and after it. This executes the user's code, "
            "and requires a target with one model. Otherwise, only the source is read."
        ),
    ] = False
    unsafe: Annotated[
        bool,
        Field(
            description="Also propose changes that are not known to be safe. With prove, also propose changes for "
            "which only one side of a branch was exercised."
        ),
    ] = False
    select: Codes = None


@dataclass(frozen=True, kw_only=True)
class ProveArguments(RunArguments):
    patch: Annotated[
        str,
        Field(description="A unified diff, as written by `git diff`. Its paths are below the folder of the server."),
    ]
    target: OneTarget
    settings: Annotated[
        list[str] | None,
        Field(
            description="Settings of torch._dynamo.config that belong to the patch: `capture_scalar_outputs` (set to "
            "True), `recompile_limit=64`, or a line from the answer of `fix`."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BenchArguments(RunArguments):
    target: OneTarget
    budget: Annotated[
        float,
        Field(
            description="Time limit for everything in seconds, including the run before the measurements. The answer "
            "says what was left out.",
            gt=0,
        ),
    ] = 120.0
    quick: Annotated[
        bool, Field(description="Measure only eager mode and the default of torch.compile, with one cold start.")
    ] = True


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments."""
    found: dict[str, Any] = TypeAdapter(kind).json_schema()
    found.pop("title", None)
    for each in found["properties"].values():
        each.pop("title", None)
    return found


def parse_arguments(kind: type[_T], tool: str, given: dict[str, Any]) -> _T:
    """Validate the arguments from a client. Raises TcreadyError, in one line, for invalid arguments."""
    try:
        found: _T = TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        if wrong["type"] == "unexpected_keyword_argument":
            takes = ", ".join(each.name for each in fields(kind))  # type: ignore[arg-type]
            raise TcreadyError(f"{tool} takes no argument {name}: it takes {takes}") from None
        raise TcreadyError(f"{tool}: {name}: {wrong['msg']}") from None
    return found
