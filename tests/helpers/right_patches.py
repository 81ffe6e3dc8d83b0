"""Kinds of refactoring: each yields what does the same, in the usual case, to write at a place instead.

What they yield may do something else in code that is unusual (an operator that a class defines anew). Such a patch is
left out where `witness.py` finds a difference.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import libcst as cst
from rewriting_models import Rewrite, Site, Whole, call_of, with_line_of_module, with_method

Texts = Iterator[str]
All = Iterator["str | Whole"]
METHODS = frozenset(
    "sum mean abs exp log sqrt sigmoid tanh relu clamp softmax argmax argmin cumsum matmul transpose permute unsqueeze "
    "squeeze flatten reshape where masked_fill gather index_select topk norm var std amax amin square rsqrt neg add mul "
    "sub div pow sin cos logsumexp maximum minimum any all round floor cat stack bmm detach clone nonzero unbind chunk "
    "split isnan isfinite log1p sign sort".split()
)
"""Names that torch has as functions and tensors as methods, with the same arguments."""


def _code(site: Site, node: cst.CSTNode) -> str:
    return site.code_of(node)


def _is_free(site: Site, name: str) -> bool:
    return name not in site.module.code


def rename_local(site: Site) -> Texts:
    node = site.node
    if not isinstance(node, cst.FunctionDef) or site.function is not None or "nonlocal" in site.code:
        return
    inside = Site(node, site.parent, node, site.owner, site.module)
    for name in inside.locals:
        if name in inside.parameters or f"{name}=" in site.code or not _is_free(site, f"{name}_renamed"):
            continue
        if f"global {name}" in site.code or re.search(rf"[\"'{{]{name}\b", site.code):
            continue
        changed = node.visit(_Renaming(name, f"{name}_renamed"))
        yield site.code_of(changed)  # type: ignore[arg-type]


class _Renaming(cst.CSTTransformer):
    """Renames a variable; attributes and keywords of the same name stay."""

    def __init__(self, name: str, other: str) -> None:
        super().__init__()
        self.name, self.other = name, other

    def on_leave(self, original_node: cst.CSTNode, updated_node: Any) -> Any:
        if isinstance(original_node, cst.Attribute):
            return updated_node.with_changes(attr=original_node.attr)
        if isinstance(original_node, cst.Arg):
            return updated_node.with_changes(keyword=original_node.keyword)
        if isinstance(original_node, cst.Name) and original_node.value == self.name:
            return updated_node.with_changes(value=self.other)
        return updated_node


def extract_local(site: Site) -> Texts:
    """Names what is returned, or the right side of an assignment."""
    node = site.node
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1 or not _is_free(site, "named_first"):
        return
    if isinstance(node.body[0], cst.Return) and node.body[0].value is not None:
        yield f"named_first = {_code(site, node.body[0].value)}\nreturn named_first\n"
    if isinstance(node.body[0], cst.Assign) and isinstance(node.body[0].value, cst.BinaryOperation) and site.function:
        value = node.body[0].value
        if isinstance(node.body[0].targets[0].target, cst.Name):
            rest = f"named_first {_code(site, value.operator).strip()} {_code(site, value.right)}"
            yield f"named_first = {_code(site, value.left)}\n{_code(site, node.body[0].targets[0].target)} = {rest}\n"


def extract_method(site: Site) -> All:
    node = site.node
    if not isinstance(node, cst.Return) or node.value is None or site.owner is None or site.function is None:
        return
    if "self" not in site.parameters or "super()" in site.code or "yield" in site.code or "locals()" in site.code:
        return
    names = [each for each in dict.fromkeys((*site.parameters, *site.locals)) if each != "self"]
    used = [each for each in names if re.search(rf"(?<![.\w]){each}\b", site.code)]
    if any(isinstance(each, cst.FunctionDef | cst.For) and each is not site.function for each in site.statements()):
        return
    value = _code(site, node.value)
    text = site.replaced(f"return self._work_out({', '.join(used)})\n")
    method = f"def _work_out({', '.join(('self', *used))}):\n    return {value}\n"
    yield Whole(with_method(text, site.owner.name.value, method))


def inline_local(site: Site) -> All:
    """Writes a value where it is used, if the next statement alone uses it, and once."""
    node = site.node
    if not isinstance(node, cst.IndentedBlock) or site.function is None:
        return
    for at in range(len(node.body) - 1):
        one, other = node.body[at : at + 2]
        if not isinstance(one, cst.SimpleStatementLine) or not isinstance(other, cst.SimpleStatementLine):
            continue
        made = re.fullmatch(r"\s*(\w+) = (.+)\n", _code(site, one))
        if made is None or len(re.findall(rf"\b{made[1]}\b", _code(site, site.function))) != 2:
            continue
        text, count = re.subn(
            rf"(?<![.\w\"']){made[1]}\b(?!\s*=[^=])", lambda _, value=made[2]: f"({value})", _code(site, other)
        )
        if count == 1 and "#" not in made[2]:
            with contextlib.suppress(cst.ParserSyntaxError):
                body = [*node.body[:at], cst.parse_statement(text.lstrip()), *node.body[at + 2 :]]
                yield Whole(site.module.deep_replace(node, node.with_changes(body=body)).code)  # type: ignore[union-attr]


def invert_if(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
        body = "".join(
            "    " + line + "\n" for each in node.orelse.body.body for line in _code(site, each).splitlines()
        )
        rest = "".join("    " + line + "\n" for each in node.body.body for line in _code(site, each).splitlines())
        yield f"if not ({_code(site, node.test)}):\n{body}else:\n{rest}"
    if isinstance(node, cst.IfExp):
        yield f"{_code(site, node.orelse)} if not ({_code(site, node.test)}) else {_code(site, node.body)}"


def use_function(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.module is None and call.name in METHODS and call.subject != "self":
        yield f"torch.{call.name}({', '.join((call.subject, *call.arguments))})"


def use_method(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.module == "torch" and call.name in METHODS - {"cat", "stack", "where"}:
        yield f"({call.subject}).{call.name}({', '.join(call.arguments)})"


def name_operator(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation):
        name = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}.get(_code(site, node.operator).strip())
        if name is not None:
            yield f"torch.{name}({_code(site, node.left)}, {_code(site, node.right)})"


def swap_commutative(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Multiply):
        left, right = _code(site, node.left), _code(site, node.right)
        yield f"({right}) {_code(site, node.operator).strip()} ({left})"


def loop_by_enumerate(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.For) and isinstance(node.target, cst.Name) and node.asynchronous is None:
        iterated = _code(site, node.iter)
        changed = node.with_changes(
            target=cst.parse_expression(f"(_, {node.target.value})"),
            iter=cst.parse_expression(f"enumerate({iterated})"),
        )
        yield site.code_of(changed)
        if re.fullmatch(r"self\.\w+", iterated) and _is_free(site, "position"):
            first = cst.parse_statement(f"{node.target.value} = {iterated}[position]\n")
            body = node.body.with_changes(body=[first, *node.body.body])
            span = cst.parse_expression(f"range(len({iterated}))")
            yield site.code_of(node.with_changes(target=cst.Name("position"), iter=span, body=body))


def comprehension_to_loop(site: Site) -> Texts:
    node = site.node
    if not isinstance(node, cst.SimpleStatementLine) or not _is_free(site, "gathered"):
        return
    for value in [getattr(node.body[0], "value", None)]:
        if (
            isinstance(value, cst.ListComp)
            and value.for_in.inner_for_in is None
            and isinstance(node.body[0], cst.Assign | cst.Return)
        ):
            clause = value.for_in
            indent, condition = "    ", ""
            if clause.ifs:
                condition = f"    if {' and '.join(_code(site, each.test) for each in clause.ifs)}:\n"
                indent = "        "
            loop = (
                f"gathered = []\nfor {_code(site, clause.target)} in {_code(site, clause.iter)}:\n{condition}"
                f"{indent}gathered.append({_code(site, value.elt)})\n"
            )
            if isinstance(node.body[0], cst.Return):
                yield f"{loop}return gathered\n"
            else:
                yield f"{loop}{_code(site, node.body[0].targets[0].target)} = gathered\n"


def loop_to_comprehension(site: Site) -> All:
    node = site.node
    if not isinstance(node, cst.IndentedBlock):
        return
    for at in range(len(node.body) - 1):
        first, loop = node.body[at], node.body[at + 1]
        made = re.fullmatch(r"\s*(\w+) = \[\]\n", _code(site, first))
        if made and isinstance(loop, cst.For) and len(loop.body.body) == 1:
            name = made[1]
            body = re.fullmatch(rf"\s*{name}\.append\((.*)\)\n", _code(site, loop.body.body[0]))
            if body:
                text = f"{name} = [{body[1]} for {_code(site, loop.target)} in {_code(site, loop.iter)}]\n"
                new = cst.parse_statement(text)
                changed = node.with_changes(body=[*node.body[:at], new, *node.body[at + 2 :]])
                yield Whole(site.module.deep_replace(node, changed).code)  # type: ignore[union-attr]


def return_early(site: Site) -> All:
    """Drops an `else` behind a `return` or `raise`, or writes one."""
    node = site.node
    if not isinstance(node, cst.IndentedBlock):
        return
    for at, each in enumerate(node.body):
        if not isinstance(each, cst.If) or not re.match(r"\s*(return|raise)\b", _code(site, each.body.body[-1])):
            continue
        if isinstance(each.orelse, cst.Else):
            body = [*node.body[:at], each.with_changes(orelse=None), *each.orelse.body.body, *node.body[at + 1 :]]
            yield Whole(site.module.deep_replace(node, node.with_changes(body=body)).code)  # type: ignore[union-attr]
        elif each.orelse is None and at + 1 < len(node.body):
            rest = cst.Else(body=cst.IndentedBlock(body=list(node.body[at + 1 :])))
            body = [*node.body[:at], each.with_changes(orelse=rest)]
            yield Whole(site.module.deep_replace(node, node.with_changes(body=body)).code)  # type: ignore[union-attr]


def format_text(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.FormattedString) and node.start in ('f"', "f'"):
        quote = node.start[-1]
        text, values = "", []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringText):
                text += part.value
            else:
                values.append(_code(site, part.expression))
                text += "{" + (f"!{part.conversion}" if part.conversion else "")
                spec = "".join(_code(site, each) for each in part.format_spec or ())
                if "{" in spec or part.equal is not None:
                    return
                text += (f":{spec}" if spec else "") + "}"
        yield f"{quote}{text}{quote}.format({', '.join(values)})"


def index_by_none(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.name == "unsqueeze" and call.arguments:
        parts = {"0": "None", "1": ":, None", "2": ":, :, None", "-1": "..., None"}.get(call.arguments[-1])
        if parts is not None:
            yield f"({call.subject})[{parts}]"
    node = site.node
    if isinstance(node, cst.Subscript):
        dim = {"[:, None]": "1", "[None]": "0", "[..., None]": "-1"}.get(
            site.code.removeprefix(_code(site, node.value))
        )
        if dim is not None:
            yield f"{_code(site, node.value)}.unsqueeze({dim})"


def swap_by_another_name(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.name in ("transpose", "swapaxes", "swapdims") and len(call.arguments) == 2:
        other = "swapaxes" if call.name == "transpose" else "transpose"
        yield call.with_arguments(call.arguments, other)
        yield call.with_arguments((call.arguments[1], call.arguments[0]))
    if call is not None and call.name == "permute" and sorted(call.arguments) == ["0", "1"]:
        yield f"{call.subject}.transpose(0, 1)"
    node = site.node
    if isinstance(node, cst.Attribute) and node.attr.value in ("mT", "T"):
        yield f"{_code(site, node.value)}.transpose(-2, -1)"


DIM_FIRST = (
    "sum",
    "mean",
    "softmax",
    "log_softmax",
    "argmax",
    "argmin",
    "cumsum",
    "amax",
    "amin",
    "unsqueeze",
    "logsumexp",
)


def name_argument(site: Site) -> Texts:
    call = call_of(site)
    if call is None or call.name not in DIM_FIRST or len(call.arguments) < 1:
        return
    first = call.arguments[0]
    if re.fullmatch(r"-?\d", first):
        yield call.with_arguments((f"dim={first}", *call.arguments[1:]))
    elif re.fullmatch(r"dim=-?\d", first) and call.name not in ("softmax", "log_softmax"):
        yield call.with_arguments((first.removeprefix("dim="), *call.arguments[1:]))


def fold_constant(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Integer) and node.value.isdecimal() and site.function is not None and int(node.value) > 1:
        yield f"{int(node.value) - 1} + 1"
    if isinstance(node, cst.Float) and site.function is not None:
        yield f"{2 * float(node.value)!r} / 2"


def use_decorator(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.FunctionDef) and len(node.body.body) == 1 and isinstance(node.body.body[0], cst.With):
        only = node.body.body[0]
        item = _code(site, only.items[0])
        if re.fullmatch(r"torch\.no_grad\(\)", item) and len(only.items) == 1:
            made = node.with_changes(
                body=only.body, decorators=[cst.Decorator(cst.parse_expression(item)), *node.decorators]
            )
            yield site.code_of(made)
    if (
        isinstance(node, cst.With)
        and len(node.items) == 1
        and re.fullmatch(r"torch\.(no_grad|enable_grad)\(\)", _code(site, node.items[0]))
    ):
        value = _code(site, node.items[0])
        yield f"guard = {value}\n" + site.code.replace(value, "guard", 1) if _is_free(site, "guard") else ""


def write_comments(site: Site) -> Texts:
    node = site.node
    if (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Return | cst.Assign)
        and site.function
    ):
        if "#" not in site.code and site.code.count("\n") == 1:
            yield site.code.rstrip() + "  # as the paper has it\n"
    if isinstance(node, cst.FunctionDef) and isinstance(node.body, cst.IndentedBlock) and '"""' not in site.code:
        first = cst.parse_statement('"""Works out the result."""\n')
        yield site.code_of(node.with_changes(body=node.body.with_changes(body=[first, *node.body.body])))
    if isinstance(node, cst.FunctionDef) and node.returns is None and node.name.value == "forward":
        yield site.code_of(node.with_changes(returns=cst.Annotation(cst.parse_expression('"torch.Tensor"'))))


def name_constant(site: Site) -> All:
    node = site.node
    if (
        isinstance(node, cst.Float | cst.Integer)
        and site.function is not None
        and not isinstance(site.parent, cst.Param)
    ):
        if _is_free(site, "NAMED_CONSTANT"):
            yield Whole(with_line_of_module(site.replaced("NAMED_CONSTANT"), f"NAMED_CONSTANT = {site.code}\n"))


def guard_print(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and re.match(r"\s*print\(", site.code) and site.function is not None:
        yield f"if not torch.compiler.is_compiling():\n    {site.code.strip()}\n"


def write_out_update(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.AugAssign):
        update = node.body[0]
        if isinstance(update.target, cst.Attribute):
            return  # of a tensor, whoever holds the object sees another one
        sign = _code(site, update.operator).strip().removesuffix("=")
        target = _code(site, update.target)
        yield f"{target} = {target} {sign} ({_code(site, update.value)})\n"


def turn_comparison(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        (only,) = node.comparisons
        other = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}.get(
            _code(site, only.operator).strip()
        )
        if other is not None:
            yield f"({_code(site, only.comparator)}) {other} ({_code(site, node.left)})"
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 2:
        one, two = node.comparisons
        middle = _code(site, one.comparator)
        first = f"{_code(site, node.left)} {_code(site, one.operator).strip()} {middle}"
        yield f"{first} and {middle} {_code(site, two.operator).strip()} {_code(site, two.comparator)}"


def negate_twice(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Comparison) and (match := re.fullmatch(r"(.+) is not None", site.code)):
        yield f"not ({match[1]} is None)"
    if isinstance(node, cst.BooleanOperation) and isinstance(site.parent, cst.If):
        left, right = _code(site, node.left), _code(site, node.right)
        other = "or" if isinstance(node.operator, cst.And) else "and"
        yield f"not (not ({left}) {other} not ({right}))"


def rename_power(site: Site) -> Texts:
    node = site.node
    if (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Power)
        and _code(site, node.right) == "2"
    ):
        yield f"({_code(site, node.left)}).pow(2)"
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        yield f"({_code(site, node.expression)}).neg()"
    call = call_of(site)
    if call is not None and call.name == "pow" and call.arguments == ("2",):
        yield f"({call.subject}) ** 2"
    if call is not None and call.name == "square":
        yield f"({call.subject}).pow(2)"


def rename_size(site: Site) -> Texts:
    node = site.node
    if match := re.fullmatch(r"(.+)\.shape\[(-?\d)\]", site.code):
        if isinstance(node, cst.Subscript):
            yield f"{match[1]}.size({match[2]})"
    call = call_of(site)
    if call is not None and call.name == "size" and len(call.arguments) == 1 and call.module is None:
        yield f"{call.subject}.shape[{call.arguments[0]}]"
    if isinstance(node, cst.Call) and (match := re.fullmatch(r"len\((\w+)\)", site.code)):
        yield f"{match[1]}.shape[0]"
    if call is not None and call.name == "dim" and not call.arguments:
        yield f"{call.subject}.ndim"


def rename_cast(site: Site) -> Texts:
    call = call_of(site)
    dtypes = {"float": "torch.float32", "double": "torch.float64", "long": "torch.int64", "int": "torch.int32", "bool": "torch.bool", "half": "torch.float16"}  # fmt: skip
    if call is not None and call.module is None and not call.arguments and call.name in dtypes:
        yield f"({call.subject}).to({dtypes[call.name]})"
        yield f"({call.subject}).type({dtypes[call.name]})"


def branch_to_statement(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1:
        value = getattr(node.body[0], "value", None)
        if isinstance(value, cst.IfExp):
            begin = "return " if isinstance(node.body[0], cst.Return) else ""
            if isinstance(node.body[0], cst.Assign):
                begin = f"{_code(site, node.body[0].targets[0].target)} = "
            if begin:
                one, other = _code(site, value.body), _code(site, value.orelse)
                yield f"if {_code(site, value.test)}:\n    {begin}{one}\nelse:\n    {begin}{other}\n"
    if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
        one, other = (
            re.fullmatch(r"\s*return (.+)\n", "".join(_code(site, each) for each in block.body))
            for block in (node.body, node.orelse.body)
        )
        if one and other:
            yield f"return {one[1]} if {_code(site, node.test)} else {other[1]}\n"


def name_super(site: Site) -> Texts:
    if (
        site.code == "super()"
        and isinstance(site.node, cst.Call)
        and site.owner is not None
        and "self" in site.parameters
    ):
        yield f"super({site.owner.name.value}, self)"


def rename_function(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.module in ("F", "nn.functional", "torch.nn.functional"):
        if call.name in ("relu", "sigmoid", "tanh"):
            yield f"torch.{call.name}({', '.join((call.subject, *call.arguments))})"
        if call.name in ("softmax", "log_softmax"):
            yield f"({call.subject}).{call.name}({', '.join(call.arguments)})"
    if call is not None and call.name == "matmul" and call.arguments:
        yield f"({call.subject}) @ ({call.arguments[0]})"
    if call is not None and call.name in ("sigmoid", "tanh") and call.module is None and not call.arguments:
        yield f"torch.nn.functional.{call.name}({call.subject})"


def name_module(site: Site) -> Texts:
    """Calls a module by a local name."""
    node = site.node
    if (
        isinstance(node, cst.SimpleStatementLine)
        and isinstance(node.body[0], cst.Assign | cst.Return)
        and _is_free(site, "layer_of_it")
    ):
        match = re.search(r"(?<![\w.])self\.\w+(?=\()", site.code)
        if match and not site.in_init and "lambda" not in site.code and " if " not in site.code:
            yield f"layer_of_it = {match[0]}\n" + site.code.replace(match[0], "layer_of_it", 1).lstrip("\n")


def split_assignment(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assign):
        assign = node.body[0]
        target = assign.targets[0].target
        if (
            isinstance(target, cst.Tuple)
            and isinstance(assign.value, cst.Call | cst.Attribute)
            and len(assign.targets) == 1
        ):
            if not any(isinstance(each, cst.StarredElement) for each in target.elements):
                yield f"several = {_code(site, assign.value)}\n{_code(site, target)} = several\n"


def use_raise(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.SimpleStatementLine) and isinstance(node.body[0], cst.Assert):
        only = node.body[0]
        text = f"AssertionError({_code(site, only.msg)})" if only.msg is not None else "AssertionError"
        yield f"if not ({_code(site, only.test)}):\n    raise {text}\n"


def nest_calls(site: Site) -> Texts:
    """Names the inner one of two calls, one in the other."""
    node = site.node
    if isinstance(node, cst.Return) and isinstance(node.value, cst.Call) and len(node.value.args) == 1:
        inner = node.value.args[0].value
        function = _code(site, node.value.func)
        if (
            isinstance(inner, cst.Call)
            and node.value.args[0].keyword is None
            and re.fullmatch(r"(self|F|torch)\.\w+", function)
        ):
            yield f"inner_one = {_code(site, inner)}\nreturn {function}(inner_one)\n"


def reorder_methods(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.ClassDef):
        methods = [each for each in node.body.body if isinstance(each, cst.FunctionDef)]
        if len(methods) > 1 and not any(each.decorators for each in methods):
            one, other = methods[-2:]
            swapped = {id(one): other, id(other): one}
            body = [swapped.get(id(each), each) for each in node.body.body]
            yield site.code_of(node.with_changes(body=node.body.with_changes(body=body)))


def write_dict_call(site: Site) -> Texts:
    node = site.node
    if isinstance(node, cst.Dict) and node.elements:
        pairs = []
        for each in node.elements:
            if not isinstance(each, cst.DictElement) or not re.fullmatch(r"[\"'][a-z_]+[\"']", _code(site, each.key)):
                return
            pairs.append(f"{_code(site, each.key)[1:-1]}={_code(site, each.value)}")
        yield f"dict({', '.join(pairs)})"


def fill_by_where(site: Site) -> Texts:
    call = call_of(site)
    if call is not None and call.name == "masked_fill" and len(call.arguments) == 2:
        yield f"torch.where({call.arguments[0]}, {call.arguments[1]}, {call.subject})"
    if call is not None and call.name == "where" and call.module == "torch" and len(call.arguments) == 2:
        yield f"({call.arguments[0]}).where({call.subject}, {call.arguments[1]})"


KINDS: Mapping[str, Rewrite] = MappingProxyType(
    {
        "rename a local": rename_local,
        "extract a local": extract_local,
        "extract a method": extract_method,
        "inline a local": inline_local,
        "invert an if": invert_if,
        "method to function": use_function,
        "function to method": use_method,
        "operator to function": name_operator,
        "swap commutative operands": swap_commutative,
        "loop by enumerate or index": loop_by_enumerate,
        "comprehension to loop": comprehension_to_loop,
        "loop to comprehension": loop_to_comprehension,
        "early return or else": return_early,
        "f-string to format": format_text,
        "unsqueeze or None": index_by_none,
        "transpose by another name": swap_by_another_name,
        "keyword or positional argument": name_argument,
        "fold a constant": fold_constant,
        "name a context or decorate": use_decorator,
        "comments and annotations": write_comments,
        "name a constant": name_constant,
        "guard a print": guard_print,
        "write out an update": write_out_update,
        "turn a comparison around": turn_comparison,
        "negate twice": negate_twice,
        "power by another name": rename_power,
        "size by another name": rename_size,
        "cast by another name": rename_cast,
        "conditional expression or statement": branch_to_statement,
        "name the class of super": name_super,
        "function of another module": rename_function,
        "name a module": name_module,
        "split an assignment": split_assignment,
        "assert to raise": use_raise,
        "nested calls to names": nest_calls,
        "reorder methods": reorder_methods,
        "dict display to call": write_dict_call,
        "where by another name": fill_by_where,
    }
)  # fmt: skip
