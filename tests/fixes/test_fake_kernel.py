"""Fake kernels of operators: the implementation itself, or what a run saw; a wrong one is refuted."""

from __future__ import annotations

import ast
import itertools
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from rewriting import change, forward, loaded, proposed
from tcready.dynamic import RunRequest, prove
from tcready.fixes.rewriting.fake_kernel_registration import register_fake_kernel
from tcready.fixes.rewriting.suggestions import Proposal
from tcready.portable.options import RunOptions
from tcready.schema.proof import ProofRequest, Variant
from tcready.schema.run import CustomOp, ObservedArgument, ObservedCall, ObservedNumber, ObservedResult
from tcready.source.edits import apply_edits
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend import source

SPACES = itertools.count()
"""An operator is defined once in a process."""
HEAD = dedent("""\
    import numpy
    import torch as t

""")
CALL = "y = x * 2\nz = t.ops.SPACE.op(y)\nreturn z + y"
OF_A_LIBRARY = 'LIBRARY = t.library.Library("SPACE", "FRAGMENT")\nLIBRARY.define("op(Tensor x) -> Tensor")\n'
DEFINED = 't.library.define("SPACE::op", "(Tensor x) -> Tensor")\n'
TOLD = {
    "a lambda": OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: x * 2 + 1, "CPU")  # twice\n',
    "a function": dedent("""\
        def twice(x):
            return x * 2


    """)
    + OF_A_LIBRARY
    + 'LIBRARY.impl("op", twice, "CPU")\n',
    "a decorated function": (
        OF_A_LIBRARY + '@t.library.impl(LIBRARY, "op", "CPU")\ndef twice(x):\n'
        '    """Twice."""\n    # rows first\n    rows = t.cat([x, x])\n    return rows.sum(0, keepdim=True).exp()  # two\n'
    ),
    "another size": DEFINED
    + dedent("""\
        @t.library.impl("SPACE::op", "CPU")
        def rows(x):
            return x.sum(-1, keepdim=True)
    """),
    "below a test": (
        DEFINED
        + dedent("""\
            if t.__version__:
                @t.library.impl("SPACE::op", "CPU")
                def twice(x):
                    return t.relu(x)
        """)
    ),
}
DECLINED = {
    "numpy": (
        OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: t.from_numpy(numpy.sin(x.numpy())), "CPU")\n',
        "may read data, or may return its argument",
    ),
    "a branch": (
        OF_A_LIBRARY
        + dedent("""\
            def f(x):
                if x.sum() > 0:
                    return x[0]
                return x


            LIBRARY.impl("op", f, "CPU")
        """),
        "may read data, or may return its argument",
    ),
    "in place": (
        OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: x.add_(1), "CPU")\n',
        "may read data, or may return its argument",
    ),
    "what it is given": (
        OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: x, "CPU")\n',
        "may read data, or may return its argument",
    ),
    "another operator": (
        OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: t.ops.other.op(x), "CPU")\n',
        "may read data, or may return its argument",
    ),
    "elsewhere": ("", "The implementation of the operator is not in this file"),
    "of another library": (
        'LIBRARY = t.library.Library("other", "FRAGMENT")\nLIBRARY.impl("op", lambda x: x * 2, "CPU")\n',
        "The implementation of the operator is not in this file",
    ),
    "a line of several": (OF_A_LIBRARY + 'LIBRARY.impl("op", lambda x: x * 2, "CPU"); SEEN = 1\n', "shares its line"),
}


def in_a_space(setup: str) -> str:
    return (HEAD + setup + "\n\n" + forward(CALL)).replace("SPACE", f"tcr_told_{next(SPACES)}")


@pytest.mark.torch
@pytest.mark.parametrize("setup", TOLD.values(), ids=TOLD)
def test_an_implementation_that_asks_for_no_data_is_the_fake_kernel(setup: str, tmp_path: Path) -> None:
    import torch

    before = in_a_space(setup)
    after = change(tmp_path, before)
    assert len(after) > len(before)
    assert ast.unparse(ast.parse(before)) in ast.unparse(ast.parse(without_registration(after)))
    model = loaded(after)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for x in (torch.randn(4, 8), torch.randn(3, 5), torch.randn(3, 5).double()):
        torch.testing.assert_close(compiled(x), model(x))


def without_registration(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if "register_fake" not in line)


@pytest.mark.parametrize(("setup", "reason"), DECLINED.values(), ids=DECLINED)
def test_what_may_need_data_is_declined(setup: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, in_a_space(setup))
    assert [each for each in found if isinstance(each, Proposal)] == []
    assert any(reason in each.reason for each in found if isinstance(each, Declined)), found


def operator(
    *results: ObservedResult, parameters: str = "x", several: bool = False, **sizes: tuple[int, ...]
) -> CustomOp:
    given = tuple(ObservedArgument(name, each) for name, each in sizes.items())
    call = ObservedCall(parameters, given, results, several)
    return CustomOp("lib::op", "operator", "model.py", 9, "Model.forward", observed=call)


ALIKE = ObservedResult((4, 8), "x")
INTEGERS = ObservedResult((4, 8), "x", "int64")
OBSERVED = {
    "alike": (operator(ALIKE), "t.empty_like(x)", 3),
    "another type": (operator(INTEGERS), "t.empty_like(x, dtype=t.int64)", 1),
    "other strides": (
        operator(replace(ALIKE, other_strides=True)),
        "t.empty_like(x, memory_format=t.contiguous_format)",
        1,
    ),
    "several": (operator(ALIKE, INTEGERS, several=True), "(t.empty_like(x), t.empty_like(x, dtype=t.int64),)", 1),
    "nothing": (operator(), "None", 1),
}


@pytest.mark.parametrize(("observed", "value", "ways"), OBSERVED.values(), ids=OBSERVED)
def test_what_a_run_saw_is_registered_above_what_calls_it(
    observed: CustomOp, value: str, ways: int, tmp_path: Path
) -> None:
    text = (
        dedent("""\
        import torch as t
        from torch import nn

        # the model
    """)
        + forward(CALL).split("\n\n\n")[1]
    )
    of = source.of_text(tmp_path / "model.py", text)
    found = list(register_fake_kernel("model.py", of, 7, observed))
    assert all(isinstance(each, Proposal) and each.unsafe for each in found)
    assert len(found) == ways
    assert isinstance(found[0], Proposal)
    made = f't.library.register_fake("lib::op", lambda x: {value})\n\n\n'
    assert apply_edits(text, found[0].edits) == text.replace("# the model", f"{made}# the model")


WIDE = {"x": (4, 8)}
SIZED = {
    "rows": (ObservedResult((4,)), WIDE, ["x.new_empty((x.shape[0],))"]),
    "columns": (ObservedResult((8,)), WIDE, ["x.new_empty((x.shape[1],))", "x.new_empty((x.shape[-1],))"]),
    "a product": (
        ObservedResult((2, 4, 3)),
        {"x": (2, 4, 8), "w": (8, 3)},
        ["x.new_empty((x.shape[0], x.shape[1], w.shape[1]))", "x.new_empty((x.shape[-3], x.shape[-2], w.shape[-1]))"],
    ),
    "a square": (ObservedResult((4, 4)), {"x": (4, 4), "w": (4,)}, ["x.new_empty((x.shape[0], x.shape[1]))"]),
    "kept": (ObservedResult((4, 1), dtype="int64"), WIDE, ["x.new_empty((x.shape[0], 1), dtype=t.int64)"]),
    "one number": (ObservedResult(()), WIDE, ["x.new_empty(())"]),
}


@pytest.mark.parametrize(("seen", "given", "values"), SIZED.values(), ids=SIZED)
def test_sizes_are_looked_for_among_those_of_the_arguments(
    seen: ObservedResult, given: dict[str, tuple[int, ...]], values: list[str], tmp_path: Path
) -> None:
    of = source.of_text(tmp_path / "model.py", forward(CALL).replace("import torch\n", "import torch as t\n"))
    found = [
        p.edits[0].new_text.strip()
        for p in register_fake_kernel("model.py", of, 7, operator(seen, parameters="x, w=None", **given))
        if isinstance(p, Proposal)
    ]
    for value in values:
        assert f't.library.register_fake("lib::op", lambda x, w=None: {value})' in found


NOT_TOLD = {
    "a number of its own": operator(ObservedResult((3,)), **WIDE),
    "no tensor given": operator(ObservedResult((3,), dtype="float32")),
    "one of several": operator(ALIKE, ObservedResult((3,)), several=True, **WIDE),
    "no result of several": operator(several=True),
    "no call": CustomOp("lib::op", "operator", "model.py", 9, "Model.forward"),
}


@pytest.mark.parametrize("observed", NOT_TOLD.values(), ids=NOT_TOLD)
def test_what_a_run_could_not_tell_is_declined(observed: CustomOp, tmp_path: Path) -> None:
    of = source.of_text(tmp_path / "model.py", forward(CALL))
    (found,) = register_fake_kernel("model.py", of, 7, observed)
    assert isinstance(found, Declined)
    assert "in terms of its arguments" in found.reason


MODEL = """\
import torch
from torch import nn

torch.library.define("tcr_shown::rows", "(Tensor x) -> Tensor")


@torch.library.impl("tcr_shown::rows", "CPU")
def rows(x):
    return (x.float() * 2).contiguous()


class Model(nn.Module):
    def forward(self, x):
        return torch.ops.tcr_shown.rows(x) + 1


def get_inputs():
    return [torch.randn(4, 8)]
"""
CLASS = "class Model"
KERNELS = {
    "x.new_empty(x.shape, dtype=torch.float32)": None,
    "torch.empty_like(x, dtype=torch.float32)": "strides (1, 4), and the operator",
    "torch.empty_like(x, memory_format=torch.contiguous_format)": "returns (4, 8) of torch.float64",
    "x.new_empty((4, 8), dtype=torch.float32)": "returns (4, 8) of torch.float32",
    "x.new_empty(x.shape, dtype=torch.float32), x": "compiled code differs",
}


@pytest.mark.torch
def test_a_fake_kernel_that_tells_something_else_is_refuted(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    variants = []
    for value in KERNELS:
        made = f'torch.library.register_fake("tcr_shown::rows", lambda x: ({value}))\n\n\n{CLASS}'
        variants.append(Variant(value, ((str(path), MODEL.replace(CLASS, made)),)))
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest(tuple(variants)),
    )
    assert result.failure is None
    for trial, (value, words) in zip(result.trials, KERNELS.items(), strict=True):
        assert (trial.difference is None) == (words is None), (value, trial.difference)
        assert words is None or words in (trial.difference or "")


@pytest.mark.torch
def test_an_operator_that_gives_memory_of_what_it_is_given_has_no_fake_kernel(tmp_path: Path) -> None:
    """Its schema says otherwise: a graph that writes to the result would not write to the argument."""
    before = MODEL.replace("(x.float() * 2).contiguous()", "x.contiguous()").replace("tcr_shown", "tcr_alias")
    path = tmp_path / "model.py"
    path.write_text(before)
    made = f'torch.library.register_fake("tcr_alias::rows", lambda x: x.contiguous())\n\n\n{CLASS}'
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest((Variant("rows", ((str(path), before.replace(CLASS, made)),)),)),
    )
    assert result.failure is None
    assert "`tcr_alias::rows` returns memory of an argument" in (result.trials[0].difference or "")


OF_A_SIZE = """\
import torch
from torch import nn

torch.library.define("tcr_equal::first", "(Tensor x, int k) -> Tensor")


@torch.library.impl("tcr_equal::first", "CPU")
def first(x, k):
    return x.contiguous()[:k] * 2


class Model(nn.Module):
    def forward(self, x):
        return torch.ops.tcr_equal.first(x, 4) + 1


def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.torch
def test_sizes_that_are_equal_by_chance_refute_a_fake_kernel(tmp_path: Path) -> None:
    """The model is called with four rows, and takes four."""
    path = tmp_path / "model.py"
    path.write_text(OF_A_SIZE)
    variants = []
    for value in ("torch.empty_like(x)", "x.contiguous()[:k] * 2", "x.new_empty((4, *x.shape[1:]))"):
        made = f'torch.library.register_fake("tcr_equal::first", lambda x, k: {value})\n\n\n{CLASS}'
        variants.append(Variant(value, ((str(path), OF_A_SIZE.replace(CLASS, made)),)))
    result = prove(
        RunRequest("model.py::Model", RunOptions(inputs="model.py::get_inputs"), str(tmp_path)),
        ProofRequest(tuple(variants)),
    )
    assert result.failure is None
    assert "with other sizes" in (result.trials[0].difference or "")
    assert result.trials[1].difference is None
    assert "returns (4, 8) of torch.float32" in (result.trials[2].difference or "")  # called with another k


@pytest.mark.parametrize(
    ("sizes", "numbers", "value"),
    [
        ((2, 4), (), "x.shape[:-1]"),
        ((4, 8), (), "x.shape[1:]"),
        ((2, 4, 5), (ObservedNumber("k", 5),), "(*x.shape[:-1], k)"),
        ((2, 4, 1), (ObservedNumber("k", 1),), "(*x.shape[:-1], 1)"),
    ],
)
def test_the_rank_stays_open_and_numbers_that_are_given_are_sizes(
    sizes: tuple[int, ...], numbers: tuple[ObservedNumber, ...], value: str, tmp_path: Path
) -> None:
    given = (ObservedArgument("x", (2, 4, 8)),)
    call = ObservedCall("x, k=5", given, (ObservedResult(sizes),), numbers=numbers)
    seen = CustomOp("lib::op", "operator", "model.py", 9, "Model.forward", observed=call)
    of = source.of_text(tmp_path / "model.py", forward(CALL))
    found = next(iter(register_fake_kernel("model.py", of, 7, seen)))
    assert isinstance(found, Proposal)
    assert found.edits[-1].new_text.strip().endswith(f"lambda x, k=5: x.new_empty({value}))")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            dedent("""\
            torch = None


            def f(op, x):
                return op(x)
        """),
            "The name `torch` is assigned to something else here",
        ),
        (
            dedent("""\
            import torch

            CALL = 1



        """),
            "is in no statement of the file",
        ),
    ],
)
def test_where_no_registration_can_stand(text: str, reason: str, tmp_path: Path) -> None:
    call = ObservedCall("x", (ObservedArgument("x", (2, 4)),), (ObservedResult((2, 4)),))
    seen = CustomOp("lib::op", "operator", "model.py", 5, "f", observed=call)
    (found,) = register_fake_kernel("model.py", source.of_text(tmp_path / "model.py", text), 5, seen)
    assert isinstance(found, Declined)
    assert reason in found.reason
