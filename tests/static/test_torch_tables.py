"""The tables of what torch does: the room that reads them, and that they say what this torch does."""

from __future__ import annotations

import inspect
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tcready.rules import load as rules
from tcready.static.interp.calls import OF_RECURRENT_OF_TORCH
from tcready.static.library import torch_tables as tables
from tcready.static.library import torch_versions
from tcready.static.library.semantics import PARTS
from tcready.static.library.torch_tables import Argument

ROOT = Path(__file__).parents[2]
KNOWN = torch_versions.with_tables()
NEWEST = tables.load()
X = Argument("T")


def test_the_tables_are_of_the_versions_that_were_run() -> None:
    recorded = json.loads((ROOT / "docs" / "torch_versions.json").read_text("utf-8"))
    run = {tuple(map(int, row["torch"].split(".")[:2])) for row in recorded}
    assert run <= set(KNOWN)


@pytest.mark.parametrize(
    ("asked", "given"), [(None, KNOWN[-1]), ((9, 0), KNOWN[-1]), ((2, 12), (2, 12)), ((2, 0), KNOWN[0])]
)
def test_an_unknown_version_is_answered_by_the_newest_before_it(
    asked: tuple[int, int] | None, given: tuple[int, int]
) -> None:
    assert tables.load(asked).version == given


@pytest.mark.parametrize("version", KNOWN, ids=lambda v: f"{v[0]}.{v[1]}")
def test_every_entry_can_be_read(version: tuple[int, int]) -> None:
    table = tables.load(version)
    names = [
        f"{p}.{last}" if p else last for g in table.data["calls"].values() for p, s in g.items() for last in s.split()
    ]
    assert len(names) == len(set(names)) > 4000, "a name has one description"
    assert all(table.call_of(name) is not None for name in names)
    operations = [f"{p}.{last}" for g in table.data["operators"].values() for p, s in g.items() for last in s.split()]
    assert len(operations) > 900
    for operation in operations:
        forms = table.forms_of(operation)
        assert forms, operation
        for form in forms:
            assert form.result.members, operation
            assert all(re.fullmatch(r"[bifcnNs.?]{4}", m.dtypes) for m in form.result.members), operation
    for kind in ("contexts", "decorators", "modules"):
        assert table.data[kind]


def test_a_table_is_small_and_quick_to_load() -> None:
    for version in KNOWN:
        assert (tables.FOLDER / f"torch-{version[0]}.{version[1]}.json").stat().st_size < 400_000
    seconds = []
    for _ in range(20):
        began = time.perf_counter()
        tables.load()
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 0.006


def gives(operation: str, *positional: Argument, **keywords: Argument) -> str:
    """The one result of a call in short: container, kinds, data types of a float tensor's result."""
    result = NEWEST.result_of(operation, positional, keywords)
    if result is None:
        return "?"
    kinds = " ".join(f"{m.kind}:{m.dtype('float') or '-'}" for m in result.members)
    return f"{result.container}[{kinds}]" if result.varies else f"{result.container}({kinds})"


def test_forms_of_an_operation_are_told_apart_by_the_arguments() -> None:
    one, on = Argument("i", 1), Argument("b", True)
    assert gives("torch.max", X) == "(tensor:float)"
    assert gives("torch.max", X, one) == "tuple(tensor:float tensor:int)"
    assert gives("torch.Tensor.max", X, dim=one) == "tuple(tensor:float tensor:int)"
    assert gives("torch.max", X, X) == "(tensor:float)"
    assert gives("torch.unique", X) == "(tensor:float)"
    assert gives("torch.unique", X, return_counts=on) == "tuple(tensor:float tensor:int)"
    assert gives("torch.unique", X, return_counts=Argument("b", False)) == "(tensor:float)"
    assert gives("torch.nonzero", X) == "(tensor:int)"
    assert gives("torch.nonzero", X, as_tuple=on) == "tuple[tensor:int]"
    assert gives("torch.where", X) == "tuple[tensor:int]"
    assert gives("torch.where", X, X, X) == "(tensor:float)"
    assert gives("torch.Tensor.size", X) == "(Size:-)"
    assert gives("torch.Tensor.size", X, one) == "(number:int)"
    assert gives("torch.Tensor.view", X, one, one) == "(tensor:float)"
    assert gives("torch.nothing", X) == "?"


def test_an_unknown_argument_leaves_several_results() -> None:
    assert len(NEWEST.results_of("torch.max", (X, Argument("?")), {})) > 1
    assert NEWEST.result_of("torch.max", (X, Argument("?")), {}) is None
    assert NEWEST.results_of("torch.Tensor.item", (X, X, X), {}) == ()


def test_where_a_tensor_is_read_as_a_number() -> None:
    """A function of torch.nn.functional that is torch's, or is written over it, has the forms of that one; an argument of
    which nothing is known leaves what all forms read."""
    number, unknown = Argument("i"), Argument("?")
    functional = "torch.nn.functional."
    for name, positional, keywords, places in (
        ("conv1d", (X, X), {"dilation": X}, ("dilation",)),
        ("conv1d", (X, X), {"dilation": X, "groups": unknown}, ("dilation",)),
        ("conv1d", (X, X), {"dilation": unknown}, ()),
        ("max_pool1d", (X, number), {"dilation": X}, ("dilation",)),
        ("avg_pool1d", (X, X), {}, (1,)),
        ("leaky_relu", (X, number), {}, ()),
    ):
        assert NEWEST.read_as_numbers(functional + name, positional, keywords) == places, name
    assert NEWEST.read_as_numbers("torch.clamp", (X, X, unknown), {}) == ()


def test_data_types() -> None:
    (total,) = NEWEST.results_of("torch.sum", (X,), {})[0].members
    assert [total.dtype(d) for d in ("bool", "int", "float", "complex")] == ["int", "int", "float", "complex"]
    (equal,) = NEWEST.results_of("torch.eq", (X, X), {})[0].members
    assert equal.dtype() == "bool", "whatever the tensors are"
    made = NEWEST.result_of("torch.zeros", (Argument("I"),), {})
    assert made is not None
    assert made.takes_dtype
    assert made.members[0].dtype(without_tensor=True) == "float"


def test_what_depends_on_values() -> None:
    assert NEWEST.needs_data("torch.Tensor.item")
    assert NEWEST.dynamic_shape("torch.nonzero")
    assert not NEWEST.needs_data("torch.add")
    assert not NEWEST.dynamic_shape("torch.add")
    repeated = NEWEST.result_of("torch.repeat_interleave", (X, X), {})
    if repeated is not None:
        assert repeated.unless == ("output_size",)


def test_views_and_writes() -> None:
    assert NEWEST.is_view("torch.Tensor.transpose")
    assert not NEWEST.is_view("torch.Tensor.clone")
    assert NEWEST.is_inplace("torch.Tensor.add_")
    assert not NEWEST.is_inplace("torch.Tensor.add")
    assert not NEWEST.is_view("torch.nothing")


def test_what_dynamo_makes_of_names() -> None:
    assert NEWEST.call_of("torch.abs") == tables.CallEntry("in_graph", False, "")
    clock = NEWEST.call_of("time.time")
    assert clock == tables.CallEntry("skip", True, "GB9193")
    assert NEWEST.call_of("math.sqrt") == tables.CallEntry("fold", False, "")
    assert NEWEST.call_of("torch.nothing") is None
    assert NEWEST.context_of("torch.no_grad") == tables.ContextEntry("", "split", "GB0008")
    assert NEWEST.context_of("torch.autocast") == tables.ContextEntry("", "split", "")
    device = NEWEST.context_of("torch.device")
    assert device is not None
    assert device.gb_id
    assert NEWEST.context_of("torch.nothing") is None
    assert NEWEST.decorator_of("torch.library.custom_op") == tables.Decorator("", "opaque")
    assert NEWEST.decorator_of("torch.compiler.disable") == tables.Decorator("GB0098", "eager")
    assert NEWEST.decorator_of("torch.set_grad_enabled") == tables.Decorator("GB0007", "compiled")
    for marker in ("functools.wraps", "torch.jit.ignore", "torch.jit.unused", "torch.jit.export", "torch.no_grad"):
        assert NEWEST.decorator_of(marker) == tables.Decorator("", "traced")
    lstm = NEWEST.module_of("torch.nn.LSTM")
    assert lstm is not None
    assert (lstm.evaluation, lstm.result) == ("GB0148", "[tuple T [tuple T T]]")
    assert NEWEST.distribution_of("torch.distributions.Normal", "sample", False) == ""
    assert NEWEST.distribution_of("torch.distributions.Normal", "sample", True)
    assert NEWEST.distribution_of("torch.distributions.Normal", "icdf", True) is None
    assert NEWEST.tensor_attribute("shape") == "Size"
    assert NEWEST.tensor_attribute("nothing") is None
    assert NEWEST.config("capture_scalar_outputs") is False
    assert NEWEST.while_tracing("torch.compiler.is_compiling") is True
    assert NEWEST.file_of("random") == "skip"
    assert NEWEST.file_of("torch.nn.modules.linear") == "inline"
    assert NEWEST.file_of("textwrap") is None
    with pytest.raises(KeyError):
        NEWEST.config("nothing")


def test_what_constructors_of_modules_set() -> None:
    embedding = NEWEST.constructor_of("torch.nn.Embedding")
    assert embedding is not None
    assert embedding.parameters["padding_idx"] == "None"
    assert embedding.untold == {"_weight"}, "what it takes was not found"
    known = {a.name: a for name in ("Embedding", "Conv1d", "MultiheadAttention") for a in attributes(name)}
    assert known["padding_idx"] == tables.AttributeEntry("padding_idx", passed="padding_idx")
    assert known["transposed"] == tables.AttributeEntry("transposed", value="False")
    assert known["padding"] == tables.AttributeEntry("padding", value="(0,)", unless=("padding",))
    assert known["bias_k"] == tables.AttributeEntry("bias_k", "", "None", ("add_bias_kv",), "Parameter")
    assert known["q_proj_weight"].unless == ("kdim", "vdim")
    assert "stride" not in {a.name for a in attributes("MaxPool2d")}, "it is the size of the kernel by default"
    assert {a.value for a in attributes("Module") if a.name.endswith("hooks")} == {"{}"}
    assert not {"_parameters", "_modules", "training"} & {a.name for a in attributes("Module")}
    assert NEWEST.constructor_of("torch.nn.Nothing") is None


def attributes(module: str) -> tuple[tables.AttributeEntry, ...]:
    constructor = NEWEST.constructor_of(f"torch.nn.{module}")
    return () if constructor is None else constructor.attributes


def test_every_break_is_claimed_by_a_rule_or_listed_with_a_reason() -> None:
    claimed = {gb_id for rule in rules() for gb_id in rule.gb_ids}
    registered = {gb_id for version in KNOWN for gb_id in tables.load(version).registry}
    listed = tables.unclaimed()
    assert sorted(registered - claimed - set(listed)) == [], "neither claimed nor listed"
    assert sorted(set(listed) & claimed) == [], "listed although a rule claims it"
    assert sorted(set(listed) - registered) == [], "no torch has it"
    assert all(len(reason) > 15 and reason.endswith(".") for reason in listed.values())


def generated(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "torch_tables.py"), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.release
def test_a_sample_of_the_table_is_what_this_torch_does() -> None:
    torch = pytest.importorskip("torch")
    version = tuple(map(int, torch.__version__.split(".")[:2]))
    if version not in KNOWN:
        pytest.skip("no table of this torch")
    table = tables.load((version[0], version[1]))
    if table.data["python"] != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip("the table was made with another Python")
    draw = random.Random(7)
    names = [
        name
        for kind, count in (
            ("_calls", 24),
            ("_operators", 14),
            ("_contexts", 4),
            ("_decorators", 4),
            ("_modules", 5),
            ("_arguments", 1),
            ("_constructors", 5),
        )
        for name in draw.sample(sorted(getattr(table, kind)), min(count, len(getattr(table, kind))))
    ]
    uses = "list index", "float", "text method", "tensor equality", "tensor order", "text length"
    run = generated("--processes", "2", "--names", *names, *uses)
    assert run.returncode == 0, run.stderr[-2000:]
    derived = json.loads(run.stdout[run.stdout.index("{") :])
    texts = {
        "calls": (table._calls, "|"),
        "contexts": (table._contexts, "|"),
        "decorators": (table._decorators, "|"),
        "modules": (table._modules, "|"),
        "arguments": (table._arguments, "|"),
        "constructors": (table._constructors, "|"),
        "operators": (table._operators, "; "),
    }
    stale = [
        (name, kind, glue.join(words), stored.get(name))
        for kind, (stored, glue) in texts.items()
        for name, words in derived[kind].items()
        if glue.join(words) != stored.get(name)
    ]
    assert stale == []
    assert derived["members"] == {use: table.member(use) for use in uses if table.member(use)}


def test_the_parts_of_modules_are_what_torch_makes() -> None:
    """Every one that a module makes of itself is there, by the class that is public."""
    nn = pytest.importorskip("torch").nn
    layers = {
        name: getattr(nn, name)(8, 2, batch_first=True)
        for name in ("TransformerEncoderLayer", "TransformerDecoderLayer")
    }
    made = {
        "Transformer": nn.Transformer(8, 2, 1, 1, batch_first=True),
        "TransformerEncoder": nn.TransformerEncoder(layers["TransformerEncoderLayer"], 1),
        "TransformerDecoder": nn.TransformerDecoder(layers["TransformerDecoderLayer"], 1),
        "MultiheadAttention": nn.MultiheadAttention(8, 2),
        **layers,
    }
    found = {
        f"torch.nn.{name}": {
            part: next(c.__name__ for c in type(child).__mro__ if hasattr(nn, c.__name__))
            for part, child in module.named_children()
        }
        for name, module in made.items()
    }
    assert found == {name: dict(parts) for name, parts in PARTS.items()}


def test_no_other_module_takes_what_makes_a_recurrent_one() -> None:
    nn = pytest.importorskip("torch").nn
    modules = [c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module)]
    takers: dict[frozenset[str], set[type]] = {names: set() for names in OF_RECURRENT_OF_TORCH}
    for module in modules:
        recurrent = issubclass(module, nn.RNNBase)
        parameters = inspect.signature((nn.RNNBase if recurrent else module).__init__).parameters
        for names in OF_RECURRENT_OF_TORCH:
            if names <= parameters.keys():
                takers[names].add(module)
    recurrent_ones = {module for module in modules if issubclass(module, nn.RNNBase)}
    assert len(recurrent_ones) == 4
    assert all(found == recurrent_ones for found in takers.values())
