"""Every reason for which a rule declines to write code anew is shown by a sample: here, or beside the rewrites of its family."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import tcready.fixes.rewriters
import tcready.rules
from rewriting import forward, proposed
from tcready import api
from tcready.fixes.rewriting.suggestions import Proposal, at_line
from tcready.static.diagnostics.cst_view import Concrete
from tcready.static.diagnostics.rule import Declined
from tcready.static.frontend import source

HEAD = """\
import contextlib as c
import copy
import threading
import numpy as np
import scipy.optimize
"""
BUFFER = "self.e = nn.Buffer(torch.zeros(8))"
LINEAR = "self.l = nn.Linear(8, 8)"
DECLINED = {
    "a side that is None": (
        "",
        dedent("""\
            z = None
            if x.sum() > 0:
                z = x * 2
            return x if z is None else z"""),
        "A branch returns `None`, and each branch must return tensors",
    ),
    "a list that changes": (
        "",
        dedent("""\
            sizes = [1, 2, 3]
            sizes.append(4)
            i = x.argmax()
            return x * sizes[i]"""),
        "The list may be changed by other code",
    ),
    "a list of more than numbers": (
        "",
        "sizes = [1, x, 3]\ni = x.argmax()\nreturn x * sizes[i]",
        "The list holds more than numbers",
    ),
    "an item of a list for a size": (
        "",
        "sizes = [1, 2, 3]\ni = x.argmax()\nreturn torch.zeros(sizes[i])",
        "a size or a bound",
    ),
    "a check that is mixed": (
        "",
        "if len(x) > 3 or x.sum() > 0 and x.dim() > 1:\n    raise ValueError('a')\nreturn x",
        "neither part can be evaluated alone",
    ),
    "an assert that is mixed": (
        "",
        "assert x.sum() > 0 or (x.dim() > 1 and x.max() > 1), f'{x}'\nreturn x",
        "neither part can be evaluated alone",
    ),
    "an assert beside another statement": (
        "",
        "assert x.sum() > 0 and x.max() < 1, f'{x}'; y = x\nreturn y",
        "Another statement is on the line of the `assert`",
    ),
    "an assert that is caught": (
        "",
        dedent("""\
            try:
                assert x.sum() > 0 and x.max() < 1, f'{x}'
            except AssertionError:
                pass
            return x"""),
        "A `try` around the check may catch its error",
    ),
    "repeats that are unpacked": (
        "",
        "n = [x.long()]\nreturn torch.repeat_interleave(x, *n)",
        "not written as a tensor",
    ),
    "a line of `__init__` that does more": (
        "self.n = 0; self.m = 1",
        "self.n += 1\nreturn x",
        "has another statement. Put each on a line of its own",
    ),
    "a buffer that shares its line": (
        BUFFER,
        "self.e = self.e.add_(1); y = x\nreturn y + self.e",
        "Another statement is on the same line",
    ),
    "a buffer whose name is taken": (
        BUFFER,
        "e = x * 2\nself.e = self.e.to(x.dtype)\nreturn e + self.e",
        "which the rewrite would need. Rename it",
    ),
    "a buffer that is converted on one way": (
        BUFFER,
        "if x.dim() > 1:\n    self.e = self.e.to(x.dtype)\nreturn x + self.e",
        "is converted in one branch only, and read outside of it",
    ),
    "a buffer that is converted in a loop": (
        BUFFER,
        dedent("""\
            for i in range(2):
                self.e = self.e.to(x.dtype)
                x = x + self.e
            return x"""),
        "`self.e` is converted in a loop",
    ),
    "a parameter that is kept": (
        "",
        "self.w = nn.Parameter(x * 2)\nreturn x",
        "In `__init__` it would be trained and saved",
    ),
    "a norm of one size or several": (
        "",
        "n = x.shape[-1:]\nreturn nn.LayerNorm(n)(x)",
        "The code does not show if `n` is one size or several",
    ),
    "a scope that is made twice": (
        "self.quiet = torch.no_grad()\nself.quiet = torch.enable_grad()",
        "with self.quiet:\n    y = x * 2\nreturn y",
        "exactly once. Create the context manager in the `with` statement",
    ),
    "a scope of what is not known": (
        "self.quiet = torch.inference_mode(bool(int('1')))",
        "with self.quiet:\n    y = x * 2\nreturn y",
        "depends on values that only `__init__` has",
    ),
    "a builtin that is not traced": ("", "return x * len(globals())", "Dynamo traces nothing that does the same as `"),
    "a power with a modulus": ("", "return pow(x, 2, 3)", "`pow` with a modulus has no operator"),
    "a truth that is mixed": (
        "",
        "a = x.sum() > 0 or x.dim() > 1\nreturn x * 2 if a is None else x",
        "neither part can be evaluated alone",
    ),
    "any of a generator": ("", "return x * any(t > 0 for t in x)", "stop at the first item that decides"),
    "any of those that are picked": (
        "",
        "return x, any([t > 0 for t in x if t.sum() > 0])",
        "torch has no function for `any([t > 0 for t in x if t.sum() > 0])`",
    ),
    "a chain that picks": (
        "",
        "return [t for t in x if 0 < t.sum() < 3]",
        "The number of items that the comprehension keeps depends on data",
    ),
    "a mask that picks": ("", "return x[x > 0]", "The size of the result depends on the values of the mask"),
    "one of several modules": (
        "self.ls = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])",
        "i = x.argmax()\nreturn self.ls[i](x)",
        "of modules, call each and select one of the results",
    ),
    "a context of a stack": (
        "",
        dedent("""\
            with c.ExitStack() as stack:
                stack.enter_context(threading.Lock())
                y = x * 2
            return y"""),
        "An `ExitStack` enters the context manager, and decides when it exits",
    ),
    "a side that leaves in the middle": (
        "",
        dedent("""\
            if x.sum() > 0:
                if x.dim() > 1:
                    return x
                y = x * 2
            else:
                y = x
            return y"""),
        "A branch contains a `return`, `break` or `continue` before its end",
    ),
    "a chain with an effect": (
        "",
        "return x, 0 < x.add_(1).sum() < 3",
        "`x.add_(1)` changes a tensor in place, and would always be evaluated",
    ),
    "an assertion by keyword": (
        "",
        "torch._assert(x.sum() > 0, message='a')\nreturn x",
        "The condition is passed by keyword",
    ),
    "a loop that writes elsewhere": (
        "self.n = 0",
        dedent("""\
            while x.sum() > 0:
                x = x - 1
                self.n += 1
            return x"""),
        "`self.n += 1` sets an attribute, and the loop body must not do that",
    ),
    "a loop that Python ends": (
        "",
        dedent("""\
            n = 0
            while n < 3 and x.sum() > 0:
                x = x - 1
                n = n + 1
            return x"""),
        "changes in each iteration. Make it a tensor",
    ),
    "a loop with a value of its own": (
        "",
        dedent("""\
            y = x
            while y.sum() > 0:
                y = y - 1
                z = y * 2
            return z"""),
        "has no value before the loop",
    ),
    "a loop whose names are taken": (
        "",
        dedent("""\
            one_round = x
            while x.sum() > 0:
                x = x - 1
            return x + one_round"""),
        "The function already uses the names `is_to_go_on` or `one_round`",
    ),
    "another `bool`": (
        "",
        dedent("""\
        bool = 1
        rows = [x]
        assert rows
        return x * bool"""),
        "The name `bool` is assigned to something else here",
    ),
    "a choice that is mixed": (
        "",
        "a = True if x.dim() > 1 and x.sum() > 0 else False\nreturn x, a",
        "neither part can be evaluated alone",
    ),
    "a copy that is called with a list": (
        LINEAR,
        "args = (x,)\nreturn copy.deepcopy(self.l)(*args)",
        "unpacked arguments",
    ),
    "a copy whose name is taken": (
        LINEAR,
        "y_state = x\ny = copy.deepcopy(self.l)\nreturn y(x) + y_state",
        "which the rewrite would need. Rename it",
    ),
    "another `math`": (
        "",
        "math = 2\nreturn x.reshape(int(np.prod(x.shape))) * math",
        "The name `math` is assigned to something else here",
    ),
    "a list of the file's own": (
        "",
        dedent("""\
            bool = str
            rows = [r for r in x]
            assert rows
            return x"""),
        "The name `bool` is assigned to something else here",
    ),
    "a side that the constructor is given": (
        "self.act = kwargs.get('act') or nn.Tanh()",
        "if x.sum() > 0:\n    x = self.act(x)\nreturn x",
        "whose side effects are not known",
    ),
    "sides whose values nobody reads": (
        "",
        "if x.sum() > 0:\n    y = x * 2\nreturn x",
        "No branch computes a value that is used after the `if`",
    ),
    "more of numpy than a product": (
        "",
        "return x * float(np.sqrt(np.prod(x.shape)))",
        "The expression has other NumPy calls than `np.prod` of sizes",
    ),
    "an array of numpy": ("", "return x * np.unique(x).sum()", "of NumPy returns an array"),
    "a function of SciPy by keyword": (
        "",
        "a, b = scipy.optimize.linear_sum_assignment(cost_matrix=x)\nreturn a",
        "is called with arguments that an operator cannot take",
    ),
    "a scope whose helper's name is taken": (
        "",
        dedent("""\
            _attention_backends = 1
            with torch.backends.cuda.sdp_kernel(enable_flash=False):
                y = x * 2
            return y"""),
        "The file defines another `_attention_backends`",
    ),
    "a lock where contextlib is another": (
        "self.lock = threading.Lock()",
        dedent("""\
            c = x
            with self.lock:
                y = x * 2
            return y + c"""),
        "is assigned to something else here. Rename that",
    ),
}


@pytest.mark.parametrize(("init", "body", "reason"), DECLINED.values(), ids=DECLINED)
def test_it_is_declined(init: str, body: str, reason: str, tmp_path: Path) -> None:
    found = proposed(tmp_path, HEAD + forward(body, init=init))
    assert any(isinstance(each, Declined) and reason in each.reason for each in found), found


SCOPE = forward("with self.quiet:\n    y = x * 2\nreturn y", init="self.quiet = torch.no_grad()")


@pytest.mark.parametrize(
    "elsewhere",
    [
        "def loud(model):\n    model.quiet = c.nullcontext()\n",
        "def loud(model, name):\n    setattr(model, name, c.nullcontext())\n",
        "def loud(model):\n    del model.quiet\n",
    ],
)
def test_a_scope_that_is_set_elsewhere(elsewhere: str, tmp_path: Path) -> None:
    other = "\n\ndef fit(model):\n    setattr(model, 'fitted', True)\n    model.n = 2\n"
    assert [type(each) for each in proposed(tmp_path, HEAD + SCOPE + other)] == [Proposal]
    (found,) = proposed(tmp_path, HEAD + SCOPE + "\n\n" + elsewhere)
    assert isinstance(found, Declined)
    assert "Code outside of the class may set `" in found.reason


@pytest.mark.parametrize("line", ["def math(x):\n    return x\n", "import torch as math\n"])
def test_a_module_whose_name_the_file_has_given(line: str, tmp_path: Path) -> None:
    text = forward("return x.reshape(int(np.prod(x.shape)))")
    assert any(isinstance(each, Proposal) for each in proposed(tmp_path, HEAD + "import math\n" + text))
    (found,) = proposed(tmp_path, HEAD + line + text)
    assert isinstance(found, Declined)
    assert "The name `math` is assigned to something else here" in found.reason


def test_a_side_that_a_class_below_gives_otherwise(tmp_path: Path) -> None:
    text = (
        forward("if x.sum() > 0:\n    x = self.post(x)\nreturn x")
        + "\n    def post(self, x):\n        return x.sort()[0]\n"
    )
    below = "\n\nclass Counted(Model):\n    def post(self, x):\n        self.n += 1\n        return x\n"
    taken = ["torch.cond" in each.how for each in proposed(tmp_path, text) if isinstance(each, Proposal)]
    assert True in taken
    reason = "may define `self.post`, whose side effects are not known"
    found = proposed(tmp_path, text + below)
    assert any(isinstance(each, Declined) and reason in each.reason for each in found)


@pytest.mark.parametrize("given", ["y, False", "y, flag=None", "y, []"])
def test_a_parameter_that_another_call_hands_a_constant_for(given: str, tmp_path: Path) -> None:
    text = forward("return self.pick(x, x.sum() > 0)") + (
        "\n    def pick(self, x, flag):\n        if flag:\n            x = x * 2\n        return x\n"
    )
    assert any(isinstance(each, Proposal) for each in proposed(tmp_path, text))
    found = proposed(tmp_path, text + f"\n\ndef other(model, y):\n    return model.pick({given})\n")
    assert [type(each) for each in found] == [Declined]
    assert isinstance(found[0], Declined)
    assert "a call in this file passes a constant for it" in found[0].reason


def test_a_model_without_init_has_no_place_for_a_buffer(tmp_path: Path) -> None:
    text = forward("self.n += 1\nreturn x").replace(
        "nn.Module):\n",
        dedent("""\
        nn.Module):
            n = 0

    """),
    )
    assert any(isinstance(each, Declined) and "no `__init__`" in each.reason for each in proposed(tmp_path, text))


def test_an_assert_that_a_caller_catches(tmp_path: Path) -> None:
    body = dedent("""\
        try:
            self.check(x)
        except AssertionError:
            return -x
        return x""")
    method = "\n    def check(self, x):\n        assert x.sum() > 0 and x.max() < 1, f'{x}'\n"
    found = proposed(tmp_path, forward(body) + method)
    assert [each for each in found if isinstance(each, Proposal)] == []
    assert any(
        isinstance(each, Declined) and "A `try` in this file calls the function" in each.reason for each in found
    )


@pytest.mark.parametrize(
    ("code", "call", "reason"),
    [
        ("TCR212", "torch._check_tensor_all(cond=x > 0)", "The condition is passed by keyword"),
        ("TCR415", "torch.distributions.Normal(x, 1.0)", "by keyword, so other code sets it"),
        ("TCR206", "torch.repeat_interleave(x, 2)", "not written as a tensor"),
        ("TCR206", "torch.repeat_interleave(input=x)", "not written as a tensor"),
    ],
)
def test_what_no_rule_speaks_of_is_declined_where_dynamo_broke(
    code: str, call: str, reason: str, tmp_path: Path
) -> None:
    text = forward(f"{call}\nreturn x")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if call in each)
    rules = [rule for rule in api.load_rules() if rule.code == code]
    found = at_line(Concrete(source.of_text(tmp_path / "model.py", text)), "model.py", line, rules)
    assert any(isinstance(each, Declined) and reason in each.reason for each in found)


REASONS = {
    "an effect that no rewrite keeps, once": (
        "if x.sum() == 1:\n    return torch.empty(8).bernoulli_(0.5)\nreturn x * 2",
        "`torch.empty(8).bernoulli_(0.5)` draws random numbers into a tensor, but `torch.where` would run both branches, "
        "and `torch.cond` allows no side effects in a branch. Move that in front of the `if`, or after it.",
    ),
    "a reason for each rewrite": (
        "if x.sum() > 0:\n    y = x[:1]\nelse:\n    y = None\nreturn x, y",
        "`torch.where`: The code does not show that `x[:1]` and `None` have the same shape, and `torch.where` would broadcast "
        "them. If they do, write `torch.where` there yourself. `torch.cond`: A branch returns `None`, and each branch must "
        "return tensors. Use a tensor for that.",
    ),
    "one reason for two rewrites": (
        "if x.sum() > 0:\n    y = x * 2\nreturn x",
        "`torch.where` and `torch.cond`: No branch computes a value that is used after the `if`. Remove the `if`, or use its "
        "values.",
    ),
    "of a branch that writes, the one that says more": (
        "if (x > 1).any():\n    x[x.argmax(0)] = 0\nreturn x",
        "`torch.where`: `x[x.argmax(0)]` may select any number of items, so a value of that size is not known. Assign "
        "`torch.where(mask, new, old)` to the whole tensor. `x[x.argmax(0)] = 0` writes to a part of an object, but "
        "`torch.where` would run both branches, and `torch.cond` allows no side effects in a branch. Move that in front of "
        "the `if`, or after it.",
    ),
}


@pytest.mark.parametrize(("body", "reason"), REASONS.values(), ids=REASONS)
def test_each_rewrite_has_one_reason(body: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(forward(body))
    (left,) = api.fix("model.py", root=tmp_path).result.no_fix
    assert left.reason == reason


def test_what_is_nested_deeper_than_the_stack_is_declined(tmp_path: Path) -> None:
    text = forward("print(x.sum())\nreturn x") + f"\n\ndef other(y):\n    y{'[0]' * 400} = 1\n"
    (tmp_path / "model.py").write_text(text)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # libraries that another test loads raise it
    try:
        (left,) = api.fix("model.py", root=tmp_path).result.no_fix
    finally:
        sys.setrecursionlimit(limit)
    assert left.reason == "The code of the file is nested too deeply to rewrite it."


def _reasons() -> dict[str, re.Pattern[str]]:
    """Return the place of each reason in the code, with a pattern of its text: values that are filled in match anything."""
    found = {}
    modules = [
        importlib.import_module(each.name)
        for package in (tcready.rules, tcready.fixes.rewriters)
        for each in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ]
    for module in modules:
        path = Path(str(module.__file__))
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) in ("Declined", "Decline")):
                continue
            (reason,) = node.args
            if isinstance(reason, ast.Name):
                value = getattr(module, reason.id, None)  # a local name is what a function gives
                parts = [value] if isinstance(value, str) else []
            else:
                values = reason.values if isinstance(reason, ast.JoinedStr) else [reason]
                parts = [each.value if isinstance(each, ast.Constant) else None for each in values]
            if parts:
                text = "".join(".*" if part is None else re.escape(part) for part in parts)
                found[f"{path.name}:{node.lineno}"] = re.compile(text)
    return found


def test_every_reason_stands_in_a_test() -> None:
    """Of the words that tests look for, some are part of each reason that a rule gives."""
    words = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
                words.add(node.value)
    reasons = _reasons()
    assert len(reasons) > 80
    missing = {
        place: each.pattern
        for place, each in reasons.items()
        if not any(word in each.pattern.replace("\\", "") or each.fullmatch(word) for word in words)
    }
    assert missing == {}


@pytest.mark.parametrize("test", ["x.numel() > 0", "x.shape[0] == 3", "x.size(0) > x.ndim", "not x.dim()"])
def test_a_test_of_sizes_is_not_chosen_by_torch(test: str, tmp_path: Path) -> None:
    """Dynamo broke on the line without a prediction, so all rules are asked about each expression there."""
    path = tmp_path / "model.py"
    path.write_text(HEAD + forward(f"n = int(x.max()) if {test} else 0\nreturn x * n"))
    concrete = Concrete(source.read(path))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "int(x.max())" in text)
    ways = [each for each in at_line(concrete, "model.py", line, api.load_rules()) if isinstance(each, Proposal)]
    assert not [each for each in ways if any("where(" in edit.new_text for edit in each.edits)]
