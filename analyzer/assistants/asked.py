"""What each tool is asked: its arguments, typed and described, as the client is told them and as they are checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from tcready.assistants.answer import LEAST, MOST, ROOM
from tcready.schema.words import TcreadyError

_T = TypeVar("_T")
TARGET = (
    "What to look at: path.py, a folder, path.py::Class, pkg.mod::Class of an installed package, or a "
    "library's model as in hf:bert. Paths are below the folder that the server was started for."
)
ONE_TARGET = "The model: path.py::Class, path.py with one model in it, pkg.mod::Class, or hf:bert."
Target = Annotated[str, Field(description=TARGET)]
OneTarget = Annotated[str, Field(description=ONE_TARGET)]
Inputs = Annotated[
    str | None,
    Field(
        description="What the model is called with, as path.py::name of a value or of a callable that "
        "gives it; left out, what the file or pyproject.toml says, else inputs are made up."
    ),
]
OneMode = Annotated[
    Literal["infer", "train"] | None,
    Field(
        description="infer: eval() without gradients, the default; train: train() with loss, backward and optimiser."
    ),
]
Device = Annotated[str | None, Field(description="cpu (the default), cuda, cuda:1, mps, meta or auto.")]
Timeout = Annotated[
    float | None, Field(description="Seconds after which the run is ended; 600 by default.", gt=0)
]
Codes = Annotated[
    list[str] | None, Field(description="Only these rules, by codes or their beginnings: TCR101, TCR2.")
]
Characters = Annotated[
    int,
    Field(
        description="The answer has at most so many characters, text and data together; what is left out is said.",
        ge=LEAST,
        le=MOST,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What every tool takes."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    max_characters: Characters = ROOM


@dataclass(frozen=True, kw_only=True)
class Running(Asked):
    """How a model is run."""

    inputs: Inputs = None
    mode: OneMode = None
    device: Device = None
    timeout: Timeout = None


@dataclass(frozen=True, kw_only=True)
class Check(Asked):
    target: Target
    run: Annotated[
        bool,
        Field(
            description="Execute the model as well, under Dynamo, in a process of its own: this executes "
            "the user's code, and tells which predictions hold and what share of the model is captured."
        ),
    ] = False
    inputs: Inputs = None
    mode: Annotated[
        Literal["infer", "train", "both"] | None,
        Field(
            description="infer: eval() without gradients, the default; train: train() with loss and "
            "backward; or both."
        ),
    ] = None
    device: Device = None
    timeout: Timeout = None
    select: Codes = None
    third_party: Annotated[bool, Field(description="List findings in installed packages too.")] = False
    skip: Annotated[
        int, Field(description="Pass by so many findings, to go on where an answer was cut.", ge=0)
    ] = 0


@dataclass(frozen=True, kw_only=True)
class RuleAsked(Asked):
    code: Annotated[
        str | None,
        Field(
            description="A rule's code or name (TCR101), a type of graph break (GB0170), or the id of a "
            "finding or its beginning (6c6c83d). Left out: the list of rules."
        ),
    ] = None
    target: Annotated[
        str | None,
        Field(
            description="For the id of a finding: what to read to find it; left out, the last run, else the folder."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlanAsked(Running):
    target: OneTarget
    budget: Annotated[
        float | None,
        Field(description="Seconds for all trials; what it cuts is said. By default only the timeout.", gt=0),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FixAsked(Running):
    target: Target
    prove: Annotated[
        bool,
        Field(
            description="Put each change to the proof, by runs of the model before and after it: this "
            "executes the user's code, and names one model. Without it the source alone is read."
        ),
    ] = False
    unsafe: Annotated[
        bool,
        Field(
            description="Propose as well what may do something else; with prove, what was shown on one "
            "side of a branch alone."
        ),
    ] = False
    select: Codes = None


@dataclass(frozen=True, kw_only=True)
class ProveAsked(Running):
    patch: Annotated[
        str,
        Field(
            description="A unified diff, as `git diff` writes it; its paths are below the server's folder."
        ),
    ]
    target: OneTarget
    settings: Annotated[
        list[str] | None,
        Field(
            description="Settings of torch._dynamo.config that belong to the patch: `capture_scalar_outputs`, which "
            "becomes True, `recompile_limit=64`, or a line as `fix` gives it."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class BenchAsked(Running):
    target: OneTarget
    budget: Annotated[
        float,
        Field(description="Seconds for everything, the run before it included; what it cuts is said.", gt=0),
    ] = 120.0
    quick: Annotated[
        bool, Field(description="Eager and the default of torch.compile alone, with one cold start.")
    ] = True


def schema_of(asked: type[Asked]) -> dict[str, Any]:
    """The arguments as JSON Schema."""
    found: dict[str, Any] = TypeAdapter(asked).json_schema()
    found.pop("title", None)
    for each in found["properties"].values():
        each.pop("title", None)
    return found


def checked(asked: type[_T], tool: str, given: dict[str, Any]) -> _T:
    """The arguments that a client gave. Raises TcreadyError, in one line, for what the tool does not take."""
    try:
        found: _T = TypeAdapter(asked).validate_python(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in wrong["loc"])
        if wrong["type"] == "unexpected_keyword_argument":
            takes = ", ".join(each.name for each in fields(asked))  # type: ignore[arg-type]
            raise TcreadyError(f"{tool} takes no argument {name}: it takes {takes}") from None
        raise TcreadyError(f"{tool}: {name}: {wrong['msg']}") from None
    return found
