"""The arguments of each tool, with types and descriptions, for the client and for validation."""

from __future__ import annotations

import ast
import inspect
import itertools
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from tcready.integrations.mcp.answer import LEAST, MOST, ROOM
from tcready.schema.enums import TcreadyError

_T = TypeVar("_T")
Seconds = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The arguments that every tool has. The description of each is the text below it."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    max_characters: Annotated[int, Field(ge=LEAST, le=MOST)] = ROOM
    """Maximum number of characters of the answer, for text and data together. The answer says what was left out."""


@dataclass(frozen=True, kw_only=True)
class RunArguments(Arguments):
    """Arguments on how to run a model."""

    inputs: str | None = None
    """Inputs of the model: path.py::name of a value, or of a callable that returns it. Default: the inputs from the
    file or from pyproject.toml; otherwise, inputs are generated."""
    mode: Literal["infer", "train"] | None = None
    """infer (default): eval() without gradients. train: train() with loss, backward and optimizer."""
    device: str | None = None
    """cpu (the default), cuda, cuda:1, mps, meta or auto."""
    timeout: Seconds | None = None
    """Time limit for the run in seconds. Default: 600."""


@dataclass(frozen=True, kw_only=True)
class Check(Arguments):
    target: str
    """What to check: path.py, a folder, path.py::Class, pkg.mod::Class of an installed package, or a library model such
    as hf:bert. Paths are below the folder of the server."""
    run: bool = False
    """Also run the model under Dynamo, in a separate process. This executes the user's code. The answer says which
    predictions hold and what share of the model is captured."""
    inputs: str | None = None
    """Inputs of the model: path.py::name of a value, or of a callable that returns it. Default: the inputs from the
    file or from pyproject.toml; otherwise, inputs are generated."""
    mode: Literal["infer", "train", "both"] | None = None
    """infer (default): eval() without gradients. train: train() with loss and backward. both: one after the other."""
    device: str | None = None
    """cpu (the default), cuda, cuda:1, mps, meta or auto."""
    timeout: Seconds | None = None
    """Time limit for the run in seconds. Default: 600."""
    select: list[str] | None = None
    """Report only these rules. Prefixes are allowed: TCR101, TCR2."""
    third_party: bool = False
    """Also list findings in installed packages."""
    skip: Annotated[int, Field(ge=0)] = 0
    """Skip this number of findings, to continue where an answer was cut."""


@dataclass(frozen=True, kw_only=True)
class RuleArguments(Arguments):
    code: str | None = None
    """The code or name of a rule (TCR101), a type of graph break (GB0170), or the id of a finding or the beginning of
    an id (6c6c83d). Default: the list of rules."""
    target: str | None = None
    """For the id of a finding: where to look for it. Default: the last run; otherwise, the folder."""


@dataclass(frozen=True, kw_only=True)
class OneModel(RunArguments):
    target: str
    """The model: path.py::Class, path.py with one model in it, pkg.mod::Class, or hf:bert."""


@dataclass(frozen=True, kw_only=True)
class PlanArguments(OneModel):
    budget: Seconds | None = None
    """Time limit for all trials in seconds. The answer says what was left out. Default: only the timeout."""


@dataclass(frozen=True, kw_only=True)
class FixArguments(RunArguments):
    target: str
    """What to check: path.py, a folder, path.py::Class, pkg.mod::Class of an installed package, or a library model such
    as hf:bert. Paths are below the folder of the server."""
    prove: bool = False
    """Verify each change by runs of the model before and after it. This executes the user's code, and requires a target
    with one model. Otherwise, only the source is read."""
    unsafe: bool = False
    """Also propose changes that are not known to be safe. With prove, also propose changes for which only one side of a
    branch was exercised."""
    select: list[str] | None = None
    """Report only these rules. Prefixes are allowed: TCR101, TCR2."""


@dataclass(frozen=True, kw_only=True)
class ProveArguments(RunArguments):
    patch: str
    """A unified diff, as written by `git diff`. Its paths are below the folder of the server."""
    target: str
    """The model: path.py::Class, path.py with one model in it, pkg.mod::Class, or hf:bert."""
    settings: list[str] | None = None
    """Settings of torch._dynamo.config that belong to the patch: `capture_scalar_outputs` (set to True),
    `recompile_limit=64`, or a line from the answer of `fix`."""


@dataclass(frozen=True, kw_only=True)
class BenchArguments(OneModel):
    budget: Seconds = 120.0
    """Time limit for everything in seconds, including the run before the measurements. The answer says what was left
    out."""
    quick: bool = True
    """Measure only eager mode and the default of torch.compile, with one cold start."""


def schema_of(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments."""
    found: dict[str, Any] = TypeAdapter(kind).json_schema()
    found.pop("title", None)
    described = _descriptions(kind)
    for name, each in found["properties"].items():
        each.pop("title", None)
        each["description"] = described[name]
    return found


def _descriptions(kind: type[Arguments]) -> dict[str, str]:
    """Return the text below each field, also of the base classes."""
    found: dict[str, str] = {}
    for each in kind.__mro__[:-1]:
        tree = ast.parse(inspect.getsource(each))
        for field, text in itertools.pairwise(tree.body[0].body):  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found.setdefault(ast.unparse(field.target), " ".join(ast.literal_eval(text.value).split()))
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
