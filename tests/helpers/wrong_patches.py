"""Kinds of mistakes that a patch may make: each yields what to write at a place instead.

Some of what they yield does the same as before. `witness.py` finds an input that shows the difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import libcst as cst
from rewriting_models import Rewrite, Site, Whole, arguments_of, call_of, with_line_of_init

Texts = Iterator[str]
All = Iterator["str | Whole"]


def _dropped_call(*names: str) -> Rewrite:
    """Drops a call of one of these methods or functions, but keeps what it is called on."""

    def rewrite(site: Site) -> Texts:
        call = call_of(site)
        if call is not None and call.name in names and not re.fullmatch(r"self(\.\w+)?|[A-Z]\w*", call.subject):
            yield call.subject

    return rewrite


def _renamed_call(pairs: Mapping[str, str]) -> Rewrite:
    """Calls another method or function by the same arguments."""
    both = {**pairs, **{other: name for name, other in pairs.items()}}

    def rewrite(site: Site) -> Texts:
        call = call_of(site)
        if call is not None and call.name in both:
            yield call.with_arguments(call.arguments, both[call.name])

    return rewrite


def _changed_argument(name: str, change: Callable[[str], str | None]) -> Rewrite:
    """Gives a keyword argument another value, or drops it (`change` gives an empty text)."""

    def rewrite(site: Site) -> Texts:
        if not isinstance(site.node, cst.Call):
            return
        given = arguments_of(site, site.node)
        for at, each in enumerate(given):
            key, _, value = each.partition("=")
            if key.strip() == name and (new := change(value.strip())) is not None:
                rest = [*given[:at], *([f"{name}={new}"] if new else []), *given[at + 1 :]]
                yield f"{site.code_of(site.node.func)}({', '.join(rest)})"

    return rewrite


def drop_check(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.If) and node.orelse is None and len(node.body.body) == 1:
        (only,) = node.body.body
        if isinstance(only, cst.SimpleStatementLine) and isinstance(only.body[0], cst.Raise):
            yield ""
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assert):
        yield ""
    if isinstance(node, cst.SimpleStatementLine) and re.match(r"torch\._(assert|check)\w*\(", site.code.strip()):
        yield ""


def change_exception(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Raise) and isinstance(node.exc, cst.Call) and isinstance(node.exc.func, cst.Name):
        name = node.exc.func.value
        other = "RuntimeError" if name != "RuntimeError" else "ValueError"
        yield re.sub(rf"\b{name}\b", other, site.code, count=1) + "\n"


def drop_slice(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Subscript) and any(isinstance(each.slice, cst.Slice) for each in node.slice):
        yield site.code_of(node.value)


def shift_slice(site: Site) -> Texts:
    node = site.node
    if not isinstance(node, cst.Subscript):
        return
    for element in node.slice:
        part = element.slice
        if not isinstance(part, cst.Slice):
            continue
        for name in ("lower", "upper"):
            bound = getattr(part, name)
            if bound is not None:
                later = cst.parse_expression(f"({site.code_of(bound)}) + 1")
                yield site.code_of(node.with_deep_changes(part, **{name: later}))


def drop_eps(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        right = site.code_of(node.right)
        if re.fullmatch(r"\d*\.?\d*e-\d+|0\.0*[1-9]\d*|self\.eps\w*|eps\w*", right):
            yield site.code_of(node.left)


def change_dim(site: Site) -> Texts:
    node = site.node
    if not isinstance(node, cst.Arg) or node.keyword is None or node.keyword.value not in ("dim", "dims", "axis"):
        return
    value = site.code_of(node.value)
    other = {"-1": "0", "1": "0", "0": "-1", "2": "1", "-2": "-1"}.get(value)
    if other is not None:
        yield f"{node.keyword.value}={other}"


def _argument(rewrite: Rewrite) -> Rewrite:
    """Rewrites the call that an argument is one of."""

    def of_call(site: Site) -> Texts:
        node = site.node
        if not isinstance(node, cst.Call):
            return
        given = arguments_of(site, node)
        for at, each in enumerate(node.args):
            inner = Site(each, node, site.function, site.owner, site.module)
            for other in rewrite(inner):
                rest = [*given[:at], str(other), *given[at + 1 :]]
                yield f"{site.code_of(node.func)}({', '.join(rest)})"

    return of_call


WITH_POSITIONAL_DIM = ("sum", "mean", "softmax", "log_softmax", "argmax", "argmin", "max", "min", "cumsum", "cat", "stack",
                       "unsqueeze", "squeeze", "norm", "amax", "amin", "any", "all", "flatten", "chunk", "size")  # fmt: skip


def change_positional_dim(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.name in WITH_POSITIONAL_DIM and call.arguments:
        other = {"-1": "0", "1": "0", "0": "-1", "2": "1"}.get(call.arguments[-1])
        if other is not None:
            yield call.with_arguments((*call.arguments[:-1], other))


def swap_axes(site: Site) -> Texts:
    call = call_of(site)
    if call is None:
        return
    if call.name in ("transpose", "swapaxes") and len(call.arguments) == 2:
        one, other = call.arguments
        changed = {"1": "0", "0": "1", "2": "0", "-1": "-2", "-2": "0"}
        if one in changed and changed[one] != other:
            yield call.with_arguments((changed[one], other))
        yield call.subject
    if call.name == "permute" and len(call.arguments) > 2:
        yield call.with_arguments((*call.arguments[:-2], call.arguments[-1], call.arguments[-2]))
    if call.name in ("view", "reshape") and len(call.arguments) > 2:
        yield call.with_arguments((*call.arguments[:-2], call.arguments[-1], call.arguments[-2]))


def _comparison(pairs: Mapping[str, str]) -> Rewrite:
    def rewrite(site: Site) -> Texts:
        node = site.node
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            (only,) = node.comparisons
            sign = site.code_of(only.operator).strip()
            if sign in pairs:
                yield f"{site.code_of(node.left)} {pairs[sign]} {site.code_of(only.comparator)}"

    return rewrite


def change_arithmetic(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation):
        sign = site.code_of(node.operator).strip()
        other = {"+": "-", "-": "+", "*": "+", "/": "*", "@": "*", "%": "//"}.get(sign)
        if other is not None:
            yield f"{site.code_of(node.left)} {other} {site.code_of(node.right)}"


def swap_operands(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation):
        sign = site.code_of(node.operator).strip()
        if sign in ("-", "/", "@", "//", "%", "**"):
            yield f"({site.code_of(node.right)}) {sign} ({site.code_of(node.left)})"


def change_division(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation):
        sign = site.code_of(node.operator).strip()
        left, right = site.code_of(node.left), site.code_of(node.right)
        if sign == "//":
            yield f"int({left} / {right})"
            yield f"-(-({left}) // ({right}))"
        if sign == "/":
            yield f"{left} // {right}"


def swap_arguments(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Call) and len(node.args) >= 2:
        given = arguments_of(site, node)
        if not any("=" in each or each.startswith("*") for each in given[:2]):
            yield f"{site.code_of(node.func)}({', '.join([given[1], given[0], *given[2:]])})"


def swap_module_calls(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Call) and len(node.args) == 1 and isinstance(node.args[0].value, cst.Call):
        inner = node.args[0].value
        one, other = site.code_of(node.func), site.code_of(inner.func)
        if one.startswith("self.") and other.startswith("self.") and one != other:
            arguments = ", ".join(arguments_of(site, inner))
            yield f"{other}({one}({arguments}))"


def swap_statements(site: Site) -> All:
    node = site.node
    if not isinstance(node, cst.IndentedBlock):
        return
    for at in range(len(node.body) - 1):
        one, other = node.body[at], node.body[at + 1]
        if isinstance(one, cst.SimpleStatementLine) and isinstance(other, cst.SimpleStatementLine):
            if isinstance(other.body[0], cst.Return) or isinstance(one.body[0], cst.Return):
                continue
            body = [*node.body[:at], other, one, *node.body[at + 2 :]]
            changed = site.module.deep_replace(node, node.with_changes(body=body))
            yield Whole(changed.code)  # type: ignore[union-attr]


def drop_statement(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assign | cst.AugAssign):
        if site.function is not None and not site.in_init:
            yield ""


def drop_expression_statement(site: Site) -> Texts:
    """Drops a call whose value is not used: output, warnings, writes, hooks."""
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Expr):
        if isinstance(node.body[0].value, cst.Call) and "super()" not in site.code:
            yield ""


def move_print(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Call) and site.code_of(node.func) == "print":
        given = arguments_of(site, node)
        yield f"print({', '.join([*given, 'end=chr(32)'])})"
        yield f"print({', '.join([*given, 'file=__import__(chr(115) + chr(121) + chr(115)).stderr'])})"


def change_text(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleString) and site.function is not None and len(site.code) > 4:
        if not site.code.startswith(('"""', "'''")) and isinstance(site.parent, cst.Arg | cst.Index | cst.DictElement):
            yield site.code[:-1] + "s" + site.code[-1]


def drop_without_gradients(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.With) and re.match(
        r"torch\.(no_grad|inference_mode|autocast|amp|enable_grad)", site.code_of(node.items[0])
    ):
        yield "if True:\n" + "".join("    " + site.code_of(each) for each in node.body.body)
    if isinstance(node, cst.FunctionDef):
        for decorator in node.decorators:
            if "no_grad" in site.code_of(decorator) or "inference_mode" in site.code_of(decorator):
                rest = [each for each in node.decorators if each is not decorator]
                yield site.code_of(node.with_changes(decorators=rest))


def hoist_attribute(site: Site) -> All:
    """Reads an attribute once, in the constructor."""
    node = site.node
    if not isinstance(node, cst.Attribute) or site.owner is None or site.function is None or site.in_init:
        return
    if site.code_of(node.value) != "self" or isinstance(site.parent, cst.AssignTarget | cst.AugAssign | cst.Attribute):
        return
    if isinstance(site.parent, cst.Call) and site.parent.func is node:
        return
    new = site.replaced(f"self._{node.attr.value}_kept")
    made = with_line_of_init(new, site.owner.name.value, f"self._{node.attr.value}_kept = {site.code}\n")
    if made is not None:
        yield Whole(made)


def cache_on_self(site: Site) -> Texts:
    """Works a value out at the first call alone."""
    node = site.node
    if not isinstance(node, cst.SimpleStatementLine) or not isinstance(node.body[0], cst.Assign):
        return
    assign = node.body[0]
    (target, *more) = assign.targets
    if more or not isinstance(target.target, cst.Name) or "self" not in site.parameters or site.in_init:
        return
    value = site.code_of(assign.value)
    yield (
        f'if "_kept" not in self.__dict__:\n    self.__dict__["_kept"] = {value}\n'
        f'{target.target.value} = self.__dict__["_kept"]\n'
    )


def _alias(site: Site) -> Texts:
    node = site.node
    if (
        isinstance(node, cst.Call)
        and len(node.args) == 1
        and site.code_of(node.func) in ("list", "dict", "tuple", "copy.copy", "copy.deepcopy", "set")
    ):
        yield site.code_of(node.args[0].value)
    call = call_of(site)
    if call is not None and call.name in ("clone", "copy", "contiguous") and call.subject not in ("torch", "self"):
        yield call.subject


IN_PLACE = ("relu", "add", "mul", "sub", "div", "clamp", "sigmoid", "tanh", "exp", "masked_fill", "abs", "neg", "sqrt",
            "index_add", "scatter", "scatter_add", "index_fill", "zero", "round", "floor", "clamp_min", "clamp_max")  # fmt: skip


def work_in_place(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.name in IN_PLACE and call.module != "F" and call.subject.isidentifier():
        yield f"({call.subject}).{call.name}_({', '.join(call.arguments)})"
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assign):
        assign = node.body[0]
        if isinstance(assign.value, cst.BinaryOperation):
            target = site.code_of(assign.targets[0].target)
            sign = site.code_of(assign.value.operator).strip()
            if target == site.code_of(assign.value.left) and sign in "+-*/":
                yield f"{target} {sign}= {site.code_of(assign.value.right)}\n"


def pin_dtype(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Attribute) and node.attr.value == "dtype" and not isinstance(site.parent, cst.AssignTarget):
        if site.code_of(node.value) != "torch":
            yield "torch.float32"
    if (
        isinstance(node, cst.Return)
        and node.value is not None
        and isinstance(node.value, cst.BinaryOperation | cst.Call | cst.Name)
    ):
        yield f"return ({site.code_of(node.value)}).float()\n"


def pin_device(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Attribute) and node.attr.value == "device" and site.code_of(node.value) != "torch":
        if not isinstance(site.parent, cst.AssignTarget):
            yield 'torch.device("cpu")'


def change_default(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.FunctionDef):
        for each in (*node.params.params, *node.params.kwonly_params):
            if each.default is None:
                continue
            value = site.code_of(each.default)
            other = {"True": "False", "False": "True", "None": "0"}.get(value)
            if re.fullmatch(r"\d+", value):
                other = str(int(value) + 1)
            elif re.fullmatch(r"\d+\.\d*|\d*\.?\d*e-?\d+", value):
                other = f"{float(value) * 1.5}"
            if other is not None:
                changed = node.with_deep_changes(each, default=cst.parse_expression(other))
                yield site.code_of(changed)


def _constant(change: Callable[[float], float], whole: Callable[[int], int] | None) -> Rewrite:
    def rewrite(site: Site) -> Texts:
        node = site.node
        if site.function is None or isinstance(site.parent, cst.Param):
            return
        if isinstance(node, cst.Float):
            yield repr(change(float(node.value)))
        if isinstance(node, cst.Integer) and whole is not None and node.value.isdecimal():
            yield str(whole(int(node.value)))

    return rewrite


def change_correction(site: Site) -> Texts:
    call = call_of(site)
    if call is None or call.name not in ("var", "std", "var_mean", "std_mean"):
        return
    for name, change in (("unbiased", {"True": "False", "False": "True"}), ("correction", {"0": "1", "1": "0"})):
        value = call.keyword(name)
        if value is not None:
            rest = tuple(each for each in call.arguments if not each.startswith(name))
            yield call.with_arguments((*rest, f"{name}={change.get(value, '1')}"))
            return
    yield call.with_arguments((*call.arguments, "unbiased=False"))


def drop_keepdim(site: Site) -> Texts:
    yield from _changed_argument("keepdim", lambda value: "")(site)  # type: ignore[misc]
    call = call_of(site)
    if (
        call is not None
        and call.name in ("sum", "mean", "norm", "amax", "amin")
        and call.keyword("dim")
        and not call.keyword("keepdim")
    ):
        yield call.with_arguments((*call.arguments, "keepdim=True"))


def swap_and_or(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BooleanOperation):
        other = "or" if isinstance(node.operator, cst.And) else "and"
        yield f"{site.code_of(node.left)} {other} {site.code_of(node.right)}"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd | cst.BitOr):
        other = "|" if isinstance(node.operator, cst.BitAnd) else "&"
        yield f"{site.code_of(node.left)} {other} {site.code_of(node.right)}"


def drop_condition(site: Site) -> Texts:
    """Drops one operand of `and` and `or`, and `not`."""
    node = site.node
    if isinstance(node, cst.BooleanOperation):
        yield site.code_of(node.left)
        yield site.code_of(node.right)
    if isinstance(node, cst.UnaryOperation):
        yield site.code_of(node.expression)


def _raises(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.IndentedBlock) and "raise" in cst.Module(body=list(node.body)).code


def drop_branch(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.If) and not _raises(node.body):
        yield "".join(site.code_of(each) for each in node.body.body)
        if isinstance(node.orelse, cst.Else):
            yield "".join(site.code_of(each) for each in node.orelse.body.body)
        elif node.orelse is None:
            yield ""
    if isinstance(node, cst.IfExp):
        yield site.code_of(node.body)
        yield site.code_of(node.orelse)


def pin_type(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Call) and site.code_of(node.func) in (
        "isinstance",
        "hasattr",
        "torch.is_tensor",
        "callable",
    ):
        yield "True"
        yield "False"
    if isinstance(node, cst.Comparison) and re.search(r" is (not )?None$", site.code):
        yield "True"
        yield "False"


PINNED = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32)


def pin_size(site: Site) -> Texts:
    """Writes a size as a number; that of the inputs as given is among those tried."""
    node = site.node
    is_size = (isinstance(node, cst.Subscript) and re.search(r"\.shape\[-?\d\]$", site.code)) or (
        isinstance(node, cst.Call)
        and (re.search(r"\.(size\(-?\d\)|dim\(\)|numel\(\))$", site.code) or re.match(r"len\(\w+\)$", site.code))
    )
    if is_size:
        yield from map(str, PINNED)


def change_container(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Return) and isinstance(node.value, cst.Tuple):
        inner = ", ".join(
            site.code_of(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in node.value.elements
        )
        yield f"return [{inner}]\n"
    if isinstance(node, cst.Return) and isinstance(node.value, cst.List):
        inner = ", ".join(
            site.code_of(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in node.value.elements
        )
        yield f"return ({inner},)\n"
    if isinstance(node, cst.Call) and site.code_of(node.func) in ("tuple", "list") and len(node.args) == 1:
        other = "list" if site.code_of(node.func) == "tuple" else "tuple"
        yield f"{other}({arguments_of(site, node)[0]})"
    if (
        isinstance(node, cst.Attribute)
        and node.attr.value == "shape"
        and isinstance(site.parent, cst.Return | cst.Element | cst.DictElement)
    ):
        yield f"tuple({site.code})"


def change_dict(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Dict) and len(node.elements) > 1:
        items = [site.code_of(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in node.elements]
        yield "{" + ", ".join(reversed(items)) + "}"
        yield "{" + ", ".join(items[:-1]) + "}"


def unregister_buffer(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Expr):
        call = node.body[0].value
        if not isinstance(call, cst.Call) or site.code_of(call.func) != "self.register_buffer" or len(call.args) < 2:
            return
        given = arguments_of(site, call)
        if any("persistent" in each for each in given):
            yield f"self.register_buffer({given[0]}, {given[1]})\n"
        else:
            yield f"self.register_buffer({given[0]}, {given[1]}, persistent=False)\n"
        if re.fullmatch(r"[\"']\w+[\"']", given[0]):
            yield f"self.{given[0][1:-1]} = {given[1]}\n"
            yield f"self.{given[0][1:-1]} = nn.Parameter({given[1]}, requires_grad=False)\n"


def pin_training(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Attribute) and site.code == "self.training" and site.function is not None:
        yield "True"
        yield "False"
        yield "torch.is_grad_enabled()"


def change_activation(site: Site) -> Texts:
    call = call_of(site)
    if call is None:
        return
    other = {"relu": "gelu", "gelu": "relu", "silu": "gelu", "softmax": "log_softmax"}.get(call.name)
    if other is not None and call.module in ("F", "torch.nn.functional"):
        yield call.with_arguments(call.arguments, other)
    dropped = (
        "relu",
        "gelu",
        "silu",
        "tanh",
        "sigmoid",
        "softmax",
        "layer_norm",
        "dropout",
        "nan_to_num",
        "abs",
        "normalize",
    )
    if call.name in dropped and call.subject != "self":
        yield call.subject
    if (
        call.module is None
        and call.subject == "self"
        and call.arguments
        and call.name.startswith(("norm", "act", "drop", "relu", "ln", "bn"))
    ):
        yield call.arguments[0]


def drop_module_call(site: Site) -> Texts:
    node = site.node
    if (
        isinstance(node, cst.Call)
        and len(node.args) == 1
        and re.fullmatch(r"self\.\w+(\[\w+\])?", site.code_of(node.func))
    ):
        yield arguments_of(site, node)[0]


def shorten_loop(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.For):
        iterated = site.code_of(node.iter)
        yield site.code_of(node.with_changes(iter=cst.parse_expression(f"list({iterated})[:-1]")))
        yield site.code_of(node.with_changes(iter=cst.parse_expression(f"list({iterated})[::-1]")))


def change_update(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.AugAssign):
        update = node.body[0]
        target, value = site.code_of(update.target), site.code_of(update.value)
        sign = site.code_of(update.operator).strip().removesuffix("=")
        yield f"{target} = {value}\n"
        yield f"{target} = {target} {sign} {value}\n"
        yield f"{target} {'-' if sign == '+' else '+'}= {value}\n"


def change_rounding(site: Site) -> Texts:
    other = {'"floor"': '"trunc"', '"trunc"': '"floor"'}
    yield from _changed_argument("rounding_mode", other.get)(site)  # type: ignore[misc]
    yield from _renamed_call({"floor": "trunc", "round": "floor", "ceil": "round"})(site)  # type: ignore[misc]


def use_python_extremum(site: Site) -> Texts:
    call = call_of(site)
    other = {"maximum": "fmax", "minimum": "fmin", "logical_and": "logical_or", "nanmean": "mean", "nansum": "sum"}
    if call is not None and call.name in other:
        yield call.with_arguments(call.arguments, other[call.name])
    node = site.node
    if isinstance(node, cst.Call) and site.code_of(node.func) in ("max", "min") and len(node.args) == 2:
        one, two = arguments_of(site, node)
        yield f"{'min' if site.code_of(node.func) == 'max' else 'max'}({one}, {two})"
        yield one


def change_gradient(site: Site) -> Texts:
    """Takes a value out of the graph, or freezes it."""
    node = site.node
    if isinstance(node, cst.Return) and isinstance(node.value, cst.BinaryOperation | cst.Name | cst.Call):
        yield f"return ({site.code_of(node.value)}).detach()\n"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.right, cst.Call):
        yield f"{site.code_of(node.left)} {site.code_of(node.operator).strip()} ({site.code_of(node.right)}).detach()"


KINDS: Mapping[str, Rewrite] = MappingProxyType(
    {
        "drop a clamp": _dropped_call("clamp", "clamp_min", "clamp_max", "clip", "nan_to_num"),
        "drop a cast": _dropped_call("to", "float", "double", "long", "int", "half", "bool", "type_as", "type", "bfloat16"),
        "drop a slice": drop_slice,
        "shift a slice": shift_slice,
        "drop a check": drop_check,
        "change an exception": change_exception,
        "drop a detach": _dropped_call("detach"),
        "drop a no_grad": drop_without_gradients,
        "alias instead of copy": _alias,
        "drop an eps": drop_eps,
        "change a dim": _argument(change_dim),
        "change a positional dim": change_positional_dim,
        "swap axes": swap_axes,
        "change a boundary": _comparison({">": ">=", ">=": ">", "<": "<=", "<=": "<"}),
        "turn a comparison": _comparison({">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "!=", "!=": "==", "in": "not in"}),
        "change a reduction": _renamed_call({"mean": "sum", "amax": "amin", "max": "min", "argmax": "argmin", "any": "all", "cumsum": "cumprod", "logsumexp": "amax"}),
        "change arithmetic": change_arithmetic,
        "swap operands": swap_operands,
        "change a division": change_division,
        "swap arguments": swap_arguments,
        "swap calls of modules": swap_module_calls,
        "swap statements": swap_statements,
        "drop a statement": drop_statement,
        "drop a call": drop_expression_statement,
        "move what is printed": move_print,
        "change a text": change_text,
        "hoist an attribute": hoist_attribute,
        "cache on self": cache_on_self,
        "work in place": work_in_place,
        "pin a dtype": pin_dtype,
        "pin a device": pin_device,
        "change a default": change_default,
        "change a constant a little": _constant(lambda value: value * 1.01, None),
        "change a constant": _constant(lambda value: value * 10 + 1, lambda value: value + 1),
        "change a correction": change_correction,
        "drop keepdim": drop_keepdim,
        "swap and and or": swap_and_or,
        "drop a condition": drop_condition,
        "drop a branch": drop_branch,
        "pin a type": pin_type,
        "pin a size": pin_size,
        "change a container": change_container,
        "change a dict": change_dict,
        "unregister a buffer": unregister_buffer,
        "pin the mode": pin_training,
        "change an activation": change_activation,
        "drop a call of a module": drop_module_call,
        "shorten a loop": shorten_loop,
        "change an update": change_update,
        "change a rounding": change_rounding,
        "change an extremum": use_python_extremum,
        "change a gradient": change_gradient,
    }
)  # fmt: skip
