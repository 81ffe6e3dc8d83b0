"""Where a number that Python reads from a tensor is used, and whether the tensor does as well there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import is_exact
from tcready.fixes.rewriters.rewrites import Decline, Ways, expression, torch_of
from tcready.fixes.rewriters.statements import is_torch, quote, upwards
from tcready.static.diagnostics.rule import Change, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import CstRegion, Located

CONVERSIONS = {"int": "long", "float": "double", "bool": "bool"}
"""Python's conversion of a number, and the one of a tensor."""
OF_FLOATS = frozenset(
    "sqrt exp expm1 exp2 log log2 log10 log1p sin cos tan sinh cosh tanh asinh acosh atanh erf erfc lgamma isnan "
    "isinf isfinite".split()
)
"""Functions of `math` that torch has under the same name and with the same meaning, for one argument."""
REDUCTIONS = frozenset(
    "sum mean max min amax amin prod std var norm vector_norm any all argmax argmin median count_nonzero".split()
)
ELEMENTWISE = frozenset("abs sqrt exp log clamp clamp_min clamp_max ceil floor round square clone".split())
SAME_TENSOR = frozenset("detach cpu to float double half long int bool contiguous".split())
"""Methods that may return the same memory that they are called on."""
SIZING = frozenset(
    """
    view reshape expand repeat zeros ones empty rand randn randint randperm arange range linspace eye narrow split chunk
    topk unfold new_zeros new_ones new_empty pad unflatten tile roll repeat_interleave resize_ one_hot bincount full
    full_like new_full unsqueeze squeeze flatten transpose permute select interpolate broadcast_to as_strided
    tensor_split split_with_sizes nonzero_static
    """.split()
)
"""Functions of torch that require Python numbers."""
TAKING = frozenset(
    """
    add sub mul div subtract multiply divide true_divide floor_divide fmod remainder pow where masked_fill fill lerp eq
    ne lt le gt ge clamp_min clamp_max
    """.split()
)
"""Functions of torch that take a number or a tensor without dimensions alike, also in place."""
TEXT = frozenset("print str repr format write debug info warning warn error critical exception log".split())
STORING = frozenset("append extend insert setdefault update appendleft put".split())

HOW = "The tensor replaces the number that was read from it"
UNSAFE = (
    "a tensor replaces a number: it may be rounded differently, and with integer tensors or 0-d tensors the result has "
    "another dtype"
)
HANDED = "; it is passed to a function that may need a number"
SETTING = "`torch._dynamo.config.capture_scalar_outputs = True`"
NESTED_INDEX = "The number is used in an index inside of another index. Assign the inner one to a variable first."
BRANCH = "The number decides a branch. Rewrite the branch with `torch.where` or `torch.cond`."
BOUND = (
    f"The number is a size or a bound, for which torch needs a Python number. Set {SETTING} to keep it in the graph."
)
CONTAINER = "The number is put into a container. Store the tensor there, or do that outside of the compiled code."
NOT_ANALYZED = (
    "The code uses the number in a way that tcready does not analyze. Keep it a tensor, or read it after the call."
)
LIST_NOT_ANALYZED = (
    "The code uses the list in a way that tcready does not analyze. Index the tensor instead of the list."
)
SEVERAL_INDICES = "The number is one of several indices in `[...]`. Use `index_select` or `gather` with the tensor."
INNER_FUNCTION = "An inner function uses `{}`. Pass it the tensor as an argument."
ROUNDS = (
    "The number is the length of a loop. Run the maximum number of iterations, and keep old values with "
    f"`torch.where(step < n, new, old)`, or set {SETTING}."
)
REMEDY = "Use a function that takes tensors, or do that outside of the compiled code."
INTO_TEXT = "The number is formatted as text. Do that outside of the compiled code."


def function_name(function: cst.BaseExpression) -> str:
    """Return the last name of the callee: `max` of `y.max`."""
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def snapshot(tensor: cst.BaseExpression) -> cst.BaseExpression:
    """Return a tensor without dimensions with the value that `.item()` reads now, detached as that is."""
    while isinstance(tensor, cst.Call) and not tensor.args and function_name(tensor.func) == "cpu":
        assert isinstance(tensor.func, cst.Attribute)
        tensor = tensor.func.value
    cut = isinstance(tensor, cst.Call) and not tensor.args and function_name(tensor.func) == "detach"
    made = tensor if cut else expression("t.detach()", t=tensor)
    if not is_scalar(tensor):
        made = expression("t.reshape(())", t=made)
    return made if is_fresh(tensor) else expression("t.clone()", t=made)


def is_scalar(node: cst.BaseExpression) -> bool:
    """Return True if a tensor has no dimensions, by its form."""
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    if isinstance(node, cst.BinaryOperation):
        return is_scalar(node.left) and is_scalar(node.right)
    if isinstance(node, cst.UnaryOperation):
        return is_scalar(node.expression)
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name, of_torch = node.func.attr.value, is_torch(node.func.value)
    given = [arg for arg in node.args if arg.keyword is None]
    if name in REDUCTIONS:
        named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        return len(given) == of_torch and named <= {"dtype", "unbiased", "p"}
    if name in ELEMENTWISE | SAME_TENSOR:
        return is_scalar(given[0].value if of_torch and given else node.func.value)
    return False


def is_fresh(node: cst.BaseExpression) -> bool:
    """Return True if nothing else may change a tensor, by its form."""
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation)):
        return True
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    name = node.func.attr.value
    return name in REDUCTIONS | ELEMENTWISE or (name in SAME_TENSOR and is_fresh(node.func.value))


def is_name(node: cst.CSTNode | None, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def is_number(node: cst.BaseExpression, uses: Uses | None) -> bool:
    """Return True if it is surely a Python number, by its form."""
    if isinstance(node, (cst.Integer, cst.Float, cst.Imaginary)):
        return True
    if isinstance(node, cst.UnaryOperation):
        return is_number(node.expression, uses)
    if isinstance(node, cst.BinaryOperation):
        return is_number(node.left, uses) and is_number(node.right, uses)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "ndim"
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    if isinstance(node, cst.Call):
        sized = isinstance(node.func, cst.Attribute) and (
            node.func.attr.value in ("numel", "dim", "nelement")
            or (node.func.attr.value == "size" and len(node.args) == 1)
        )
        return sized or is_name(node.func, "len")
    if isinstance(node, cst.Name):
        if node.value in ("True", "False"):
            return True
        if uses is not None:
            values = uses.values_of(node.value)
            return node.value in uses.followed or (
                bool(values) and all(value is not None and is_number(value, None) for value in values)
            )
    return False


FAR = 2**16
"""A factor that takes usual values close to the 63 bits of integer tensors."""


@dataclass
class Uses:
    """The uses of a number, if a tensor is to replace it."""

    piece: CstRegion
    torch: str
    handed: bool = False
    """It is passed to an unknown function."""
    changes: list[Change] = field(default_factory=list)
    """Required rewrites at these uses."""
    followed: set[str] = field(default_factory=set)
    """Names that hold it."""
    indexed: dict[cst.Subscript, cst.Index] = field(default_factory=dict)
    """Uses as an index."""
    branches: list[cst.If | cst.IfExp] | None = None
    """The branches that depend on it, if these may be rewritten with it."""

    def of(self, node: cst.CSTNode) -> str | None:
        """Return why the number at `node` must be a number; None if a tensor does as well."""
        parent = self.piece.parents[node]
        if isinstance(parent, cst.Arg):
            call = self.piece.parents[parent]
            return (
                self._argument(call, parent)
                if isinstance(call, cst.Call)
                else "The number is an argument of a class definition. Define the class outside of the compiled code."
            )
        if isinstance(parent, cst.BinaryOperation):
            return self._operand(parent, parent.right if parent.left is node else parent.left)
        if isinstance(parent, cst.UnaryOperation):
            return BRANCH if isinstance(parent.operator, cst.Not) else self.of(parent)
        if isinstance(parent, (cst.ComparisonTarget, cst.Comparison)):
            whole = parent if isinstance(parent, cst.Comparison) else self.piece.parents[parent]
            assert isinstance(whole, cst.Comparison)
            return self._compared(whole, node)
        if isinstance(parent, cst.IfExp) and parent.test is not node:
            return self.of(parent)
        if isinstance(parent, (cst.If, cst.IfExp)) and self.branches is not None:
            self.branches += [] if parent in self.branches else [parent]
            return None
        if isinstance(parent, (cst.If, cst.While, cst.IfExp, cst.Assert, cst.CompIf, cst.BooleanOperation)):
            return BRANCH
        if isinstance(parent, cst.Index):
            return self._indexed(parent)
        if isinstance(parent, cst.Slice):
            return BOUND
        if isinstance(parent, cst.AugAssign):
            if isinstance(parent.target, cst.Name) and is_number(parent.target, self):
                return (
                    f"The number is added to `{parent.target.value}`, a Python number, which would become a "
                    "tensor. Start with a tensor."
                )
            return None
        if isinstance(parent, (cst.Assign, cst.AnnAssign)):
            return self._assigned(parent)
        return self._elsewhere(parent)

    def _indexed(self, index: cst.Index) -> str | None:
        element = self.piece.parents[index]
        whole = self.piece.parents[element]
        if not isinstance(whole, cst.Subscript) or whole in self.indexed:
            return SEVERAL_INDICES
        for each in whole.slice:
            if each is element or isinstance(each.slice, cst.Slice):
                continue
            assert isinstance(each.slice, cst.Index)
            if isinstance(each.slice.value, cst.Ellipsis):
                if whole.slice.index(each) < whole.slice.index(element):
                    return "The number follows `...` in an index. Use `index_select` with the tensor."
            elif not isinstance(each.slice.value, cst.Integer):
                return SEVERAL_INDICES
        self.indexed[whole] = index
        return None

    def written(self, node: cst.BaseExpression, made: cst.BaseExpression) -> tuple[Change, ...]:
        """Return the changes, with `made` in place of `node`. Raises Decline if they are nested."""
        inside = {whole: whole in upwards(self.piece, node) for whole in self.indexed}
        changed = {*self.indexed, *(change.old[0] for change in self.changes)}
        if any(each in changed for whole in self.indexed for each in upwards(self.piece, whole)):
            raise Decline(NESTED_INDEX)
        changes = list(self.changes)
        for whole, index in self.indexed.items():
            value = index.value
            if inside[whole]:
                value = made if value is node else value.deep_replace(node, made)
            assert isinstance(value, cst.BaseExpression)
            # an index of no dimensions is read back, one of one dimension is not
            new = whole.deep_replace(index.value, expression("i.reshape(1)", i=value))
            assert isinstance(new, cst.BaseExpression)
            parent = self.piece.parents[whole]
            stored = isinstance(parent, cst.AssignTarget) or (
                isinstance(parent, cst.AugAssign) and parent.target is whole
            )
            if not stored:
                number = 0
                for each in whole.slice:
                    if each.slice is index:
                        break
                    number += isinstance(each.slice, cst.Slice)
                new = expression(f"t.squeeze({number})", t=new)
            changes.append(Change((whole,), (new,)))
        if not any(inside.values()):
            changes.insert(0, Change((node,), (made,)))
        return tuple(changes)

    def _elsewhere(self, parent: cst.CSTNode) -> str:
        if isinstance(parent, (cst.Return, cst.Yield)):
            return "The function returns the number. Return the tensor, and call `.item()` on the result."
        if isinstance(parent, cst.FormattedStringExpression):
            return INTO_TEXT
        if isinstance(parent, cst.Expr):
            return "The number is read but not used. Remove the line."
        if isinstance(parent, (cst.BaseElement, cst.BaseDictElement)):
            return CONTAINER
        if isinstance(parent, cst.Attribute):
            return (
                f"The code uses an attribute of the number (`.{parent.attr.value}`). Do that outside of the "
                "compiled code."
            )
        return NOT_ANALYZED

    def _operand(self, whole: cst.BinaryOperation, other: cst.BaseExpression) -> str | None:
        if isinstance(other, (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)):
            return INTO_TEXT
        if isinstance(other, (cst.List, cst.Tuple)):
            return "The number says how often a list is repeated. Use a tensor and `repeat_interleave`."
        factor = other.evaluated_value if isinstance(other, cst.Integer) else 1
        is_product = isinstance(whole.operator, cst.Multiply) and factor >= FAR
        if is_product or isinstance(whole.operator, cst.LeftShift):
            return f"{quote(whole)} may exceed 64 bits, where a tensor overflows and a Python integer does not."
        return self.of(whole) if is_number(other, self) else None

    def _compared(self, whole: cst.Comparison, node: cst.CSTNode) -> str | None:
        operators = [target.operator for target in whole.comparisons]
        if any(isinstance(each, (cst.In, cst.NotIn)) for each in operators):
            return "The number is looked up in a container (`in`). Compare with a tensor: `(values == t).any()`."
        if all(isinstance(each, (cst.Is, cst.IsNot)) for each in operators):
            return None
        if len(operators) > 1:
            return BRANCH
        sides = [whole.left, whole.comparisons[0].comparator]
        other = sides[1] if sides[0] is node else sides[0]
        parent = self.piece.parents[whole]
        is_test = isinstance(parent, (cst.If, cst.While, cst.Assert, cst.CompIf, cst.BooleanOperation))
        is_test = is_test or (isinstance(parent, cst.IfExp) and parent.test is whole)
        is_test = is_test or (isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not))
        return self.of(whole) if is_test or is_number(other, self) else None

    def _assigned(self, statement: cst.Assign | cst.AnnAssign) -> str | None:
        targets = (
            [statement.target]
            if isinstance(statement, cst.AnnAssign)
            else [target.target for target in statement.targets]
        )
        if len(targets) == 1 and isinstance(targets[0], cst.Name):
            return self.named(targets[0].value, statement)
        if len(targets) == 1 and isinstance(targets[0], cst.Subscript):
            elements = targets[0].slice
            key = elements[0].slice
            if isinstance(key, cst.Index) and isinstance(key.value, (cst.SimpleString, cst.FormattedString)):
                return CONTAINER
            self.handed = True
            return None
        return (
            "The number is stored in an attribute, or assigned to several names. Store the tensor, and read it "
            "after the call."
        )

    def named(self, name: str, where: cst.CSTNode) -> str | None:
        """Return the same for a name that the number is assigned to."""
        if name in self.followed:
            return None
        self.followed.add(name)
        around = self.function_of(where)
        if around is None:
            return "The number is stored in a global. Return the tensor, and read it after the call."
        for node in self.loads(name):
            if self.function_of(node) is not around:
                return INNER_FUNCTION.format(name)
            parent = self.piece.parents[node]
            if isinstance(parent, (cst.Global, cst.NameItem, cst.Del)):
                return f"`{name}` is global, nonlocal or deleted. Use a local variable."
            if isinstance(parent, cst.AugAssign) and parent.target is node:
                return f"`{name}` is changed in place (`{name} += ...`). Assign a new name."
            reason = self.of(node)
            if reason:
                return reason
        return None

    def loads(self, name: str) -> Iterator[cst.Name]:
        """Yield places where a name is read, or changed in place."""
        parents = self.piece.parents
        for node, parent in parents.items():
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            stored = isinstance(parent, (cst.AssignTarget, cst.Param, cst.AsName, cst.ImportAlias))
            stored = stored or (isinstance(parent, cst.AnnAssign) and parent.target is node)
            stored = stored or (isinstance(parent, (cst.For, cst.CompFor)) and parent.target is node)
            worded = (isinstance(parent, cst.Arg) and parent.keyword is node) or (
                isinstance(parent, cst.Attribute) and parent.attr is node
            )
            in_tuple = isinstance(parent, cst.Element) and self._is_target(parent)
            if not (stored or worded or in_tuple):
                yield node

    def _is_target(self, node: cst.CSTNode) -> bool:
        """Return True if an element belongs to a tuple that values are assigned to."""
        while isinstance(node, (cst.Element, cst.Tuple, cst.List, cst.StarredElement)):
            below, node = node, self.piece.parents[node]
        return isinstance(node, cst.AssignTarget) or (isinstance(node, (cst.For, cst.CompFor)) and node.target is below)

    def values_of(self, name: str) -> list[cst.BaseExpression | None]:
        """Return the values assigned to a name, None for each without an explicit value."""
        found: list[cst.BaseExpression | None] = []
        for node, parent in self.piece.parents.items():
            if not isinstance(node, cst.Name) or node.value != name:
                continue
            if isinstance(parent, cst.AssignTarget):
                statement = self.piece.parents[parent]
                assert isinstance(statement, cst.Assign)
                found.append(statement.value)
            elif isinstance(parent, cst.AnnAssign) and parent.target is node:
                found.append(parent.value)
            elif (
                isinstance(parent, cst.Param)
                or (isinstance(parent, (cst.For, cst.CompFor)) and parent.target is node)
                or (isinstance(parent, cst.Element) and self._is_target(parent))
            ):
                found.append(None)
        return found

    def function_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the innermost function around a node."""
        found: cst.CSTNode | None = node
        while found is not None and not isinstance(found, (cst.FunctionDef, cst.Lambda)):
            found = self.piece.parents.get(found)
        return found

    def _argument(self, call: cst.Call, arg: cst.Arg) -> str | None:
        name = function_name(call.func)
        if arg.star:
            return NOT_ANALYZED
        if isinstance(call.func, cst.Name):
            if name in TEXT:
                return INTO_TEXT
            if name == "range":
                return ROUNDS
            if name == "abs" or (name in ("max", "min") and len(call.args) == 2):
                return self.of(call)
            if name in ("int", "float", "bool", "complex", "round", "len", "isinstance", "sum", "sorted"):
                return (
                    f"`{name}(...)` needs a Python number. Call the function of torch instead, or do that after "
                    "the call."
                )
            if name in SIZING:
                return BOUND
            self.handed = True
            return None
        return self._given_to_method(call, arg, name) if isinstance(call.func, cst.Attribute) else NOT_ANALYZED

    def _given_to_method(self, call: cst.Call, arg: cst.Arg, name: str) -> str | None:
        assert isinstance(call.func, cst.Attribute)
        root: cst.BaseExpression = call.func
        while isinstance(root, (cst.Attribute, cst.Call, cst.Subscript)):
            root = root.func if isinstance(root, cst.Call) else root.value
        of_math = is_name(call.func.value, "math") or is_name(call.func.value, "np")
        if of_math and name in OF_FLOATS and len(call.args) == 1:
            renamed = cst.parse_expression(f"{self.torch}.{name}")
            self.changes.append(Change((call.func,), (renamed,)))
            return self.of(call)
        if name in SIZING:
            return BOUND
        if name in TEXT and not is_name(call.func.value, self.torch):
            return INTO_TEXT
        if name in STORING:
            return CONTAINER
        word = arg.keyword.value if arg.keyword is not None else ""
        if name.rstrip("_") in TAKING:
            return (
                None
                if word in ("", "other", "value", "input", "min", "max")
                else f"`{word}=` of `{name}` needs a Python number. {REMEDY}"
            )
        if name.rstrip("_") in ("clamp", "clip"):
            bounds = len(call.args) - (is_name(call.func.value, self.torch))
            return (
                None
                if bounds == 1
                else f"`{name}` takes no tensor together with a number. Call it once for each bound."
            )
        if is_name(root, "self"):
            self.handed = True
            return None
        return f"`{name}(...)` may need a Python number. {REMEDY}"


def keep_tensors(place: Located) -> Ways:
    """Rewrite `t.tolist()` as the tensor, or as its rows if a loop goes over it."""
    node = place.node
    if (
        not isinstance(node, cst.Call)
        or node.args
        or not isinstance(node.func, cst.Attribute)
        or node.func.attr.value != "tolist"
    ):
        return
    torch = torch_of(place)
    tensor = node.func.value
    cut = isinstance(tensor, cst.Call) and function_name(tensor.func) == "detach"
    tensor_copy = tensor if cut else expression("t.detach()", t=tensor)
    if not is_fresh(tensor):
        tensor_copy = expression("t.clone()", t=tensor_copy)
    uses = Uses(place.piece, torch[0])
    looped = loop_target(place.piece, node)
    if looped is not None:
        made = expression("t.unbind(0)", t=tensor_copy)
        reason = uses.named(looped.value, looped) if isinstance(looped, cst.Name) else ROWS
    else:
        made = tensor_copy
        reason = why_list_needed(uses, node)
    if reason:
        raise Decline(reason)
    changes = uses.written(node, made)
    yield Rewrite(
        "The tensor replaces the list that was read from it", changes, UNSAFE + (HANDED if uses.handed else "")
    )


ROWS = (
    f"The loop unpacks rows of numbers, which are often sizes. If they are integers, set {SETTING}; otherwise "
    "iterate over the tensor."
)


def loop_target(piece: CstRegion, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return a loop's name for the items of `node`, over which it iterates directly, or through `enumerate` or
    `zip`."""
    parent = piece.parents[node]
    if isinstance(parent, (cst.For, cst.CompFor)):
        return parent.target if parent.iter is node else None
    call = piece.parents[parent]
    if not isinstance(parent, cst.Arg) or not isinstance(call, cst.Call):
        return None
    number = next(i for i, arg in enumerate(call.args) if arg is parent)
    if is_name(call.func, "enumerate") and number == 0:
        number = 1
    elif not is_name(call.func, "zip"):
        return None
    target = loop_target(piece, call)
    if isinstance(target, cst.Tuple) and number < len(target.elements):
        return target.elements[number].value
    return None


def why_list_needed(uses: Uses, node: cst.CSTNode) -> str | None:
    """Return why a list of numbers must be one; None if a tensor does as well."""
    parent = uses.piece.parents[node]
    if isinstance(parent, cst.Subscript) and parent.value is node:
        if isinstance(uses.piece.parents[parent], cst.AssignTarget):
            return "The list is changed later. Change the tensor instead."
        return uses.of(parent)
    if isinstance(parent, cst.Arg):
        call = uses.piece.parents[parent]
        if isinstance(call, cst.Call) and is_name(call.func, "len"):
            return None
        return f"The list is passed to another function. If it holds sizes, set {SETTING}; otherwise pass the tensor."
    if isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node:
        if isinstance(parent.target, cst.Name):
            return uses.named(parent.target.value, parent.target)
        return ROWS
    if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return LIST_NOT_ANALYZED
    target = parent.targets[0].target
    around = uses.function_of(node)
    if not isinstance(target, cst.Name) or around is None or target.value in uses.followed:
        return LIST_NOT_ANALYZED
    uses.followed.add(target.value)
    for each in uses.loads(target.value):
        if uses.function_of(each) is not around:
            return INNER_FUNCTION.format(target.value)
        reason = why_list_needed(uses, each)
        if reason:
            return reason
    return None


def index_numbers(place: Located) -> Ways:
    """Rewrite `numbers[t]` on a list of numbers as `torch.tensor(numbers, device=t.device)[t]`."""
    piece, node = place.piece, place.node
    if not isinstance(node, cst.Subscript):
        return
    bounds = [
        b
        for each in node.slice
        if isinstance(each.slice, cst.Slice)
        for b in (each.slice.lower, each.slice.upper, each.slice.step)
        if b is not None
    ]
    if not all(is_number(bound, None) for bound in bounds):
        raise Decline("The length of the slice depends on the value of a tensor. Use a mask over the full length.")
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return
    index = node.slice[0].slice
    torch = torch_of(place)
    uses = Uses(piece, torch[0])
    given: list[cst.BaseExpression | None] = [node.value]
    if isinstance(node.value, cst.Name):
        given = uses.values_of(node.value.value)
    if not isinstance(index.value, (cst.Name, cst.Attribute)) or len(given) != 1:
        raise Decline(
            "The function does not show what the list holds, or indexes it by an expression. Store its numbers "
            "in a tensor."
        )
    values = given[0]
    if not isinstance(values, (cst.List, cst.Tuple)) or not values.elements:
        raise Decline(
            "The function does not show what the list holds. Store numbers in a tensor; of modules, call each and "
            "select one of the results."
        )
    if isinstance(node.value, cst.Name) and any(
        not isinstance(piece.parents[each], cst.Subscript) for each in uses.loads(node.value.value)
    ):
        raise Decline("The list may be changed by other code. Use a tensor.")
    if not all(isinstance(each, cst.Element) and is_number(each.value, None) for each in values.elements):
        raise Decline("The list holds more than numbers. Stack its items into a tensor, and index that.")
    if reason := uses.of(node):
        raise Decline(reason)
    numbers = [each.value for each in values.elements]
    dtype = "" if all(map(is_exact, numbers)) else f"dtype={torch[0]}.float64, "
    made = expression(
        f"{torch[0]}.tensor(values, {dtype}device=index.device)[index.reshape(1)].squeeze(0)",
        values=node.value,
        index=index.value,
    )
    yield Rewrite(
        "The list of numbers becomes a tensor, which the tensor indexes",
        uses.written(node, made),
        UNSAFE + (HANDED if uses.handed else ""),
        torch[1],
    )


def without_number(place: Located) -> Ways:
    """Rewrite functions of torch to take a tensor in place of a number."""
    node = place.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return
    torch = torch_of(place)
    name, of_torch = node.func.attr.value, is_name(node.func.value, torch[0])
    given = [arg.value for arg in node.args if arg.keyword is None]
    words = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    operands = given if of_torch else [node.func.value, *given]
    made: cst.BaseExpression | None = None
    if name in ("clamp", "clip", "clamp_", "clip_") and operands:
        low = words.get("min") or (operands[1] if len(operands) > 1 else None)
        high = words.get("max") or (operands[2] if len(operands) > 2 else None)
        if low is None or high is None or (is_number(low, None) and is_number(high, None)):
            return
        else:
            last = "clamp_" if name.endswith("_") else "clamp"
            made = expression(f"x.{last}(min=a).{last}(max=b)", x=operands[0], a=_as_bound(low), b=_as_bound(high))
    elif name in ("add", "sub") and len(operands) == 2 and set(words) == {"alpha"}:
        sign = "+" if name == "add" else "-"
        made = expression(f"x {sign} n * y", x=operands[0], y=operands[1], n=_as_bound(words["alpha"]))
    elif name == "new_full" and len(operands) == 3 and not words:
        made = expression("x.new_empty(s).fill_(v)", x=operands[0], s=operands[1], v=_as_bound(operands[2]))
    elif name == "full_like" and len(operands) == 2 and not words:
        made = expression(f"{torch[0]}.empty_like(x).fill_(v)", x=operands[0], v=_as_bound(operands[1]))
    elif name not in SIZING:
        return
    if made is None:
        raise Decline(BOUND)
    yield Rewrite(
        "The tensor is passed where torch accepts one",
        (Change((node,), (made,)),),
        "a tensor replaces the number: it must be 0-d, and may be rounded differently",
        torch[1] if name == "full_like" else (),
    )


def _as_bound(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a number unchanged, a tensor detached."""
    return node if is_number(node, None) else expression("t.detach()", t=node)
