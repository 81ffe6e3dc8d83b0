"""Rewrite state that a forward stores or creates: create it before, or store it as a tensor. Imported only for a
rewrite."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import value_of, walk
from tcready.fixes.rewriters.copied_modules import copied_module, is_called
from tcready.fixes.rewriters.locks import is_lock, rewrite_lock
from tcready.fixes.rewriters.numbers import Uses, is_name
from tcready.fixes.rewriters.operators import attention_kernels
from tcready.fixes.rewriters.rewrites import NO_TORCH, Decline, Ways, expression, torch_name, torch_of
from tcready.fixes.rewriters.statements import quote
from tcready.static.diagnostics.cst_view import names_in, torch_in
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import CstRegion, Located

CONVERSIONS = frozenset("to float double half bfloat16 long int bool cpu cuda type contiguous".split())
LARGE = "`self.{}` may exceed 64 bits, the range of an integer tensor. Count outside of the compiled code."
SCOPES = frozenset("no_grad enable_grad inference_mode autocast".split())
"""Context managers of torch that Dynamo traces if they are created in the `with` itself."""


def counter(place: Located) -> Ways:
    """Rewrite `self.n += 1` with a buffer: `self.n = 0` of `__init__` becomes `self.register_buffer(...)`."""
    statement = _small(place)
    if isinstance(statement, cst.AugAssign):
        target: cst.BaseExpression = statement.target
    elif isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if not any(each.deep_equals(target) for each in _below(statement.value)):
            return
    else:
        return
    name = _of_self(target)
    if name is None:
        if isinstance(target, (cst.Attribute, cst.Subscript)):
            yield Declined(
                f"{quote(target)} is not an attribute of the module itself. Count in a buffer of the module."
            )
        return
    around, init, torch = place.class_around, place.method("__init__"), torch_name(place)
    if around is None or init is None:
        raise Decline(f"The class has no `__init__` that could register `{name}` as a buffer. Add one.")
    if torch is None or torch[0] in init[1].bound:
        raise Decline(NO_TORCH)
    start = _start(init[0], name)
    if start is None:
        raise Decline(
            f"`__init__` does not set `self.{name}` to a number after `super().__init__()`, so it cannot become a "
            "buffer. Set it there."
        )
    assigned, value = start
    reason = _why_a_number(place.source.tree, around, name, assigned, isinstance(value, int))
    if reason:
        raise Decline(reason)
    line = _line_of(init[1], assigned)
    if line is None:
        raise Decline(
            f"The line of `__init__` that sets `self.{name}` has another statement. Put each on a line of its own."
        )
    first = f"{torch[0]}.tensor({value}{'' if isinstance(value, int) else f', dtype={torch[0]}.float64'})"
    made = cst.parse_statement(f'self.register_buffer("{name}", {first}, persistent=False)')
    yield Rewrite(
        "The number becomes a non-persistent buffer, which is incremented in the graph",
        (Change((line,), (made,), init[1]),),
        f"code that reads `{name}` from outside gets a tensor, and code that sets it has to fill that tensor"
        + ("" if isinstance(value, int) else ", which `.half()` and its kin round"),
        torch[1],
    )


def _small(place: Located) -> cst.CSTNode:
    node: cst.CSTNode = place.node
    while not isinstance(node, (cst.BaseSmallStatement, cst.BaseStatement)):
        node = place.piece.parents[node]
    return node


def _of_self(node: cst.BaseExpression) -> str | None:
    """Return `n` of `self.n`."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == "self":
        return node.attr.value
    return None


def _is_self(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == name
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


def _start(init: ast.FunctionDef, name: str) -> tuple[ast.Assign, int | float] | None:
    """Return the statement of `__init__` that sets `self.NAME` to a number, after `super().__init__()`."""
    ready = False
    for statement in init.body:
        ready = ready or (ast.unparse(statement).startswith("super(") and "__init__(" in ast.unparse(statement))
        if isinstance(statement, ast.Assign) and any(_is_self(each, name) for each in statement.targets):
            value = statement.value.value if isinstance(statement.value, ast.Constant) else None
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not ready or len(statement.targets) != 1 or not number:
                return None
            assert isinstance(value, (int, float))
            return statement, value
    return None


def _why_a_number(tree: ast.Module, around: ast.ClassDef, name: str, start: ast.Assign, whole: bool) -> str | None:
    """Return why an attribute must stay a Python number, by its uses in the file."""
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    within = set(ast.walk(around))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr != name:
            continue
        if node not in within or not _is_self(node, name):
            return (
                f"Code outside of the class reads or writes `{name}`, and would get a tensor. Make it a buffer "
                "yourself."
            )
        parent = parents[node]
        if parent is start:
            continue
        if isinstance(parent, ast.AugAssign) and parent.target is node:
            fraction = isinstance(parent.value, ast.Constant) and isinstance(parent.value.value, float)
            if whole and isinstance(parent.op, ast.Mult):
                return LARGE.format(name)
            if not isinstance(parent.op, (ast.Add, ast.Sub, ast.Mult)) or (whole and fraction):
                return (
                    f"`self.{name}` changes its type, and a buffer keeps its dtype. Start with a float, or count in "
                    "integers."
                )
            continue
        if isinstance(node.ctx, ast.Store):
            computed = parent.value if isinstance(parent, ast.Assign) else None
            own = isinstance(computed, ast.BinOp) and any(_is_self(n, name) for n in ast.walk(computed))
            if not own:
                return (
                    f"`self.{name}` is set to a number again, which would replace the buffer. Use "
                    f"`self.{name}.zero_()` or `.fill_()`."
                )
            grows = (ast.Mult, ast.Pow, ast.LShift)
            if whole and any(isinstance(n, ast.BinOp) and isinstance(n.op, grows) for n in ast.walk(parent)):
                return LARGE.format(name)
            continue
        used: ast.AST = node
        while isinstance(around_it := parents[used], (ast.BinOp, ast.UnaryOp)):
            if isinstance(around_it, ast.BinOp) and isinstance(around_it.op, (ast.Pow, ast.LShift)):
                return (
                    f"A power of `self.{name}` may exceed 64 bits or lose digits as a tensor. Compute it outside of "
                    "the compiled code."
                )
            used = around_it
        if (
            isinstance(parent, ast.BinOp)
            and not isinstance(parent.op, (ast.Add, ast.Sub))
            and not isinstance(parent.left if parent.right is node else parent.right, ast.Constant)
        ):
            return (
                f"`self.{name}` is a factor, so a gradient may need its value, which a later call would overwrite in the "
                f"buffer. Multiply by `self.{name}.clone()`."
            )
        fine = isinstance(used, (ast.BinOp, ast.UnaryOp)) and isinstance(
            parents[used], (ast.Assign, ast.AugAssign, ast.Return, ast.Expr)
        )
        if not fine:
            return (
                f"`self.{name}` is used where Python needs a number, for example in an `if` or as a size. Keep that "
                "code out of `forward`."
            )
        statement = parents[used]
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets
        if not all(isinstance(each, ast.Name) or _is_self(each, name) for each in targets):
            return (
                f"A value computed from `self.{name}` is stored, and would become a tensor too. Compute it where "
                "it is read."
            )
    return None


def _line_of(piece: CstRegion, statement: ast.stmt) -> cst.SimpleStatementLine | None:
    """Return a statement of the file as a libcst node, if it is alone on its line."""
    for node in piece.parents:
        if isinstance(node, cst.SimpleStatementLine) and piece.lines(node)[0] == statement.lineno:
            return node if len(node.body) == 1 else None
    return None


def keep_buffer(place: Located) -> Ways:
    """Rewrite `self.e = self.e.add_(1)` without the assignment; `self.e = self.e.to(d)` as a local name."""
    statement = _small(place)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
        return
    target, value = statement.targets[0].target, statement.value
    name = _of_self(target)
    if name is None or not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return
    if not value.func.value.deep_equals(target):
        return
    method = value.func.attr.value
    line = place.piece.parents[statement]
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        yield Declined("Another statement is on the same line. Put each on a line of its own.")
    elif method.endswith("_"):
        made = line.with_changes(body=[cst.Expr(value=value)])
        yield Rewrite("It is changed in place, without assigning it again", (Change((line,), (made,)),), None)
    elif method in CONVERSIONS:
        yield from _converted_locally(place, line, statement, name)


def _converted_locally(place: Located, line: cst.SimpleStatementLine, statement: cst.Assign, name: str) -> Ways:
    piece = place.piece
    target = statement.targets[0].target
    block = piece.parents[line]
    if name in piece.bound:
        raise Decline(f"The function already has a variable `{name}`, which the rewrite would need. Rename it.")
    changes = [Change((target,), (cst.Name(name),))]
    end = piece.lines(line)[1]
    inside = {*_below(block)}
    for node, parent in piece.parents.items():
        if not isinstance(node, cst.Attribute) or not node.deep_equals(target) or node is target:
            continue
        if isinstance(parent, (cst.AssignTarget, cst.AugAssign)):
            raise Decline(f"`self.{name}` is assigned more than once. Convert it into a local variable once.")
        if piece.lines(node)[0] > end:
            if node not in inside:
                raise Decline(
                    f"`self.{name}` is converted in one branch only, and read outside of it. Convert it in front "
                    "of the branch."
                )
            changes.append(Change((node,), (cst.Name(name),)))
    around: cst.CSTNode | None = block
    while around is not None:
        if isinstance(around, (cst.For, cst.While)):
            raise Decline(f"`self.{name}` is converted in a loop. Convert it in front of the loop.")
        around = piece.parents.get(around)
    yield Rewrite(
        "The converted tensor is a local variable", tuple(changes), "the buffer itself keeps its dtype and its device"
    )


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for child in node.children:
        yield child
        yield from _below(child)


def rewrite_deepcopy(place: Located) -> Ways:
    """Rewrite `copy.deepcopy(t)` of a tensor."""
    node = place.node
    if not isinstance(node, cst.Call) or len(node.args) != 1 or node.args[0].keyword is not None:
        return
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
    what = node.args[0].value
    if name not in ("deepcopy", "copy"):
        return
    if name == "deepcopy" and is_called(place):
        yield from copied_module(place, what)
        return
    made = value_of(place, what.value) if isinstance(what, cst.Name) else None
    classes = {each.name for each in place.source.classes}
    is_object = isinstance(made, cst.Call) and _written(made.func) in classes
    if not isinstance(what, cst.Name) or is_object or isinstance(made, (cst.List, cst.Dict, cst.Set, cst.Tuple)):
        raise Decline(
            f"{quote(what)} may be a container, an object or a module. Copy it in `__init__`, or copy tensors by "
            "`.clone()`."
        )
    copy = ".clone()" if name == "deepcopy" else ""
    how = "The tensor is copied by torch" if copy else "Another tensor is created over the same memory"
    copy_code = f"t.detach(){copy}.requires_grad_(t.requires_grad)"
    only = "it has to be a tensor, and one that was computed with gradients is copied where `copy` raises"
    if name == "copy":
        only = "it has to be a tensor, and not a leaf that requires a gradient"
    yield Rewrite(how, (Change((node,), (expression(copy_code, t=what),)),), only)
    yield Rewrite(
        how,
        (Change((node,), (expression(f"t.detach(){copy}", t=what),)),),
        "it has to be a tensor that requires no gradient",
    )


DRAWS = {
    "random.random": "torch.rand(())",
    "random.uniform": "a + (b - a) * torch.rand(())",
    "random.gauss": "a + b * torch.randn(())",
    "random.normalvariate": "a + b * torch.randn(())",
    "random.randint": "torch.randint(a, b + 1, ())",
    "np.random.rand": "torch.rand(())",
    "np.random.random": "torch.rand(())",
    "np.random.uniform": "a + (b - a) * torch.rand(())",
    "np.random.randn": "torch.randn(())",
    "np.random.normal": "a + b * torch.randn(())",
}
"""Functions of torch for the same distribution; `a` and `b` are the two arguments."""


def rewrite_random(place: Located) -> Ways:
    """Rewrite `random.random()` as `torch.rand(())`, if a tensor does as well."""
    node = place.node
    if not isinstance(node, cst.Call):
        if any(_is_draw(each) for each in _behind(place)):
            yield Declined(
                "The random number decides a branch. Draw it with torch, and rewrite the branch with `torch.where`."
            )
        return
    if not _is_draw(node):
        return
    name = _written(node.func).replace("numpy.", "np.")
    code = DRAWS.get(name)
    wanted = 2 if code is not None and re.search(r"\ba\b", code) else 0
    if code is None or len(node.args) != wanted:
        raise Decline(
            f"torch has no function that draws one number like `{name}`. Draw before the call, and pass the result."
        )
    torch = torch_of(place)
    uses = Uses(place.piece, torch[0])
    reason = uses.of(node)
    made = expression(
        code.replace("torch.", f"{torch[0]}."), **dict(zip("ab", (arg.value for arg in node.args), strict=False))
    )
    if reason:
        raise Decline(reason)
    yield Rewrite(
        "Torch draws it, and it stays a tensor",
        uses.written(node, made),
        "the numbers come from another stream, which `random.seed` does not affect",
        torch[1],
    )


def _written(node: cst.CSTNode) -> str:
    return cst.Module(body=()).code_for_node(node)


def _is_draw(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and _written(node.func).startswith(("random.", "np.random.", "numpy.random."))


def _behind(place: Located) -> Iterator[cst.CSTNode]:
    """Yield the parts of an expression, and of the values of its names."""
    uses = Uses(place.piece, "torch")
    for node in (place.node, *_below(place.node)):
        yield node
        if isinstance(node, cst.Name):
            for value in uses.values_of(node.value):
                yield from (value, *_below(value)) if value is not None else ()


def plain_leaf(place: Located) -> Ways:
    """Rewrite `torch.zeros(1, requires_grad=True)` without the keyword."""
    node = place.node
    if not isinstance(node, cst.Call) or _written(node.func).endswith("Parameter"):
        return
    if any(is_name(arg.value, "False") for arg in node.args if arg.keyword and arg.keyword.value == "requires_grad"):
        return
    yield from _without(
        place,
        "requires_grad",
        "It does not require a gradient itself",
        "what is computed from it alone then has no gradient",
    )


def drop_validation(place: Located) -> Ways:
    """Rewrite `Normal(m, s, validate_args=True)` without the keyword: eager code validates the arguments anyway."""
    yield from _without(
        place,
        "validate_args",
        "The arguments are validated in eager mode only, which is the default",
        "compiled code does not raise an error for arguments that are out of range",
    )


def _without(place: Located, word: str, how: str, unsafe: str) -> Ways:
    node = place.node
    if not isinstance(node, cst.Call):
        return
    remaining = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != word]
    if len(remaining) == len(node.args):
        raise Decline(f"The call does not pass `{word}` by keyword, so other code sets it. Remove it there.")
    if remaining:
        remaining[-1] = remaining[-1].with_changes(
            comma=node.args[-1].comma, whitespace_after_arg=node.args[-1].whitespace_after_arg
        )
    yield Rewrite(how, (Change((node,), (node.with_changes(args=remaining),)),), unsafe)


NORMS = {
    "LayerNorm": ("f.layer_norm(x, (n,))", "f.layer_norm(x, (n,), t.ones(n), t.zeros(n))"),
    "GroupNorm": ("f.group_norm(x, n)", "f.group_norm(x, n, t.ones(c), t.zeros(c))"),
    "RMSNorm": ("f.rms_norm(x, (n,))", "f.rms_norm(x, (n,), t.ones(n))"),
    **dict.fromkeys(
        ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
        (
            "f.batch_norm(x, None, None, training=True)",
            "f.batch_norm(x, None, None, t.ones(n), t.zeros(n), training=True)",
        ),
    ),
}
"""The function of a newly created layer: its weights are one, its biases zero, and it is in training mode. The
second rewrite has these weights, and so raises if their type differs from that of the input."""


def _without_gradients(place: Located, torch: str) -> Iterator[Change]:
    """Rewrite methods of the file's modules below `@torch.no_grad()`, each with that as a block around its body."""
    for owner in place.source.tree.body:
        if not isinstance(owner, ast.ClassDef) or not any(ast.unparse(base).endswith("Module") for base in owner.bases):
            continue
        for method in owner.body:
            if not isinstance(method, ast.FunctionDef) or any(
                isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(method)
            ):
                continue
            around = [ast.unparse(each) for each in method.decorator_list]
            piece = place.file.piece(method.lineno)
            if around != [f"{torch}.no_grad()"] or piece is None:
                continue
            function = next(each for each in walk(piece.tree) if isinstance(each, cst.FunctionDef))
            if not isinstance(function.body, cst.IndentedBlock):
                continue
            first = int(function.get_docstring() is not None)
            body = [*function.body.body]
            item = cst.WithItem(cst.parse_expression(around[0]))
            block = cst.With([item], cst.IndentedBlock(body[first:]))
            if len(body) > first:
                inner = function.body.with_changes(body=[*body[:first], block])
                yield Change((function,), (function.with_changes(decorators=(), body=inner),), piece)


def without_layer(place: Located) -> Ways:
    """Rewrite `nn.LayerNorm(8)(x)` in a forward as `F.layer_norm(x, (8,))`; `nn.Parameter(t)` as `t.detach()`."""
    node = place.node
    if not isinstance(node, cst.Call):
        return
    name = node.func.attr.value if isinstance(node.func, cst.Attribute) else getattr(node.func, "value", "")
    torch = torch_of(place)
    if not _written(node.func).startswith(("nn.", f"{torch[0]}.nn.")) and name not in ("Parameter", "Buffer"):
        return
    parent = place.piece.parents[node]
    target = parent.targets[0].target if isinstance(parent, cst.Assign) and len(parent.targets) == 1 else None
    of_self = _of_self(target) if target is not None else None
    given = [arg for arg in node.args if arg.keyword is None]
    if name == "Buffer" and of_self is not None and len(given) == 1:
        words = "".join(f", {arg.keyword.value}={_written(arg.value)}" for arg in node.args if arg.keyword is not None)
        made = expression(f'self.register_buffer("{of_self}", t{words})', t=given[0].value)
        line = place.piece.parents[parent]
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            registered = Change((line,), (line.with_changes(body=[cst.Expr(value=made)]),))
            inside = tuple(_without_gradients(place, torch[0]))
            if inside:
                yield Rewrite(
                    "It is registered as a buffer, which Dynamo traces, and blocks without gradients take the place of "
                    "decorators, which Dynamo does not take on a method of what is made in compiled code",
                    (registered, *inside),
                    "the buffer is a plain tensor then, and no `nn.Buffer`",
                )
            yield Rewrite(
                "It is registered as a buffer, which Dynamo traces",
                (registered,),
                "the buffer is a plain tensor then, and no `nn.Buffer`",
            )
        return
    used = isinstance(target, cst.Name) or isinstance(parent, (cst.BinaryOperation, cst.Arg))
    if name == "Parameter" and len(given) == 1 and used:
        yield Rewrite(
            "A plain tensor replaces the parameter, which nothing would train",
            (Change((node,), (expression("t.detach()", t=given[0].value),)),),
            "what is computed from it alone then has no gradient",
        )
        return
    code = NORMS.get(name)
    calls = _calls_of(place, node, target) if code is not None else None
    if name == "Parameter":
        raise Decline(
            "The parameter is stored. In `__init__` it would be trained and saved, so only the author can move it."
        )
    if code is None or not given or not calls or any(arg.keyword is not None for arg in node.args):
        raise Decline(
            f"`{name}` gets new weights in each call. In `__init__` they would be kept, trained and saved, so only "
            "the author can move it."
        )
    if len(given) > 1 + (name == "GroupNorm") or any(arg.star for arg in given):
        raise Decline(f"`{name}` gets more arguments than its size. Call `torch.nn.functional` instead.")
    size = given[0].value
    if name in ("LayerNorm", "RMSNorm") and not _is_one_size(size):
        raise Decline(
            f"The code does not show if {quote(size)} is one size or several. Write `x.shape[-1]`, or a number."
        )
    functional = cst.parse_expression(f"{torch[0]}.nn.functional")
    parts = {"f": functional, "t": cst.Name(torch[0]), "n": size, "c": given[-1].value}
    taken = (Change((place.piece.parents[parent],), ()),) if isinstance(parent, cst.Assign) else ()
    for way in code:
        if re.search(r"\bc\b", way) and len(given) != 2:
            continue
        yield Rewrite(
            "The function replaces the layer, whose weights are one and whose biases are zero",
            (*(Change((call,), (expression(way, x=call.args[0].value, **parts),)) for call in calls), *taken),
            "it has to stand for the same device and dtype, and nothing else may ask for the layer",
            torch[1],
        )


def _is_one_size(size: cst.BaseExpression) -> bool:
    """Return True if it is one number, by its form."""
    if isinstance(size, cst.Integer):
        return True
    if isinstance(size, cst.Call):
        return isinstance(size.func, cst.Attribute) and size.func.attr.value == "size" and len(size.args) == 1
    return (
        isinstance(size, cst.Subscript)
        and isinstance(size.value, cst.Attribute)
        and size.value.attr.value == "shape"
        and isinstance(size.slice[0].slice, cst.Index)
    )


def _calls_of(place: Located, node: cst.Call, target: cst.BaseExpression | None) -> list[cst.Call] | None:
    """Return the calls of a layer that is created there; None if it has other uses."""
    parents = place.piece.parents
    if isinstance(parents[node], cst.Call):
        whole = parents[node]
        assert isinstance(whole, cst.Call)
        return [whole] if len(whole.args) == 1 else None
    uses = Uses(place.piece, "torch")
    if not isinstance(target, cst.Name) or len(uses.values_of(target.value)) != 1:
        return None
    found = []
    for load in uses.loads(target.value):
        call = parents[load]
        if not isinstance(call, cst.Call) or call.func is not load or len(call.args) != 1:
            return None
        if uses.function_of(load) is not uses.function_of(node):
            return None
        found.append(call)
    return found


def scope_made_here(place: Located) -> Ways:
    """Rewrite `with self.quiet:` as `with torch.no_grad():`, if `__init__` created that."""
    parent = place.piece.parents[place.node]
    if not isinstance(parent, cst.WithItem):
        if isinstance(place.node, cst.Call) and _written(place.node.func).endswith(".enter_context"):
            yield Declined(
                "An `ExitStack` enters the context manager, and decides when it exits. Use a `with` block for "
                "the context "
                "manager."
            )
        return
    if isinstance(place.node, cst.Call) and _written(place.node.func).endswith("backends.cuda.sdp_kernel"):
        yield from attention_kernels(place, place.node)
        return
    if is_lock(place):
        yield from rewrite_lock(place)
        return
    name, around, init = _of_self(place.node), place.class_around, place.method("__init__")
    if name is None or around is None or init is None:
        raise Decline(UNTRACED_CONTEXT.format(quote(place.node)))
    values = [
        node.value
        for node in ast.walk(around)
        if isinstance(node, ast.Assign) and any(_is_self(each, name) for each in node.targets)
    ]
    torch = torch_name(place)
    if torch is None or len(values) != 1 or values[0] not in set(ast.walk(init[0])):
        raise Decline(
            f"`__init__` does not set `self.{name}` exactly once. Create the context manager in the `with` statement."
        )
    if _is_set_elsewhere(place, name):
        raise Decline(
            f"Code outside of the class may set `{name}`. Create the context manager in the `with` statement."
        )
    made = values[0]
    called = ast.unparse(made.func) if isinstance(made, ast.Call) else ""
    parts = [*made.args, *(word.value for word in made.keywords)] if isinstance(made, ast.Call) else []
    if called.partition(".")[0] != torch[0] or called.rpartition(".")[2] not in SCOPES:
        yield Declined(UNTRACED_CONTEXT.format(quote(place.node)))
    elif not all(isinstance(part, (ast.Constant, ast.Attribute)) for part in parts):
        yield Declined(
            f"`{ast.unparse(made)}` depends on values that only `__init__` has. Create it in the `with` statement."
        )
    else:
        new = cst.parse_expression(ast.unparse(made))
        yield Rewrite("It is created where it is entered", (Change((place.node,), (new,)),), None)


def _is_set_elsewhere(place: Located, name: str) -> bool:
    """Return True if the file assigns an attribute of that name more than once, or may do so by `setattr`."""
    stores = 0
    for node in place.source.nodes:
        if isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load):
            stores += 1
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("setattr", "__setattr__"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            if name in texts or not any(isinstance(each, str) for each in texts):
                return True
    return stores != 1


CHANGING = frozenset("append extend insert pop remove clear sort reverse".split())


def own_list(place: Located) -> Ways:
    """Rewrite `parts = text.split(",")`, which is changed later, as `parts = list(text.split(","))`."""
    node = place.node
    uses = Uses(place.piece, "torch")
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in CHANGING:
        name = node.func.value
    elif isinstance(node, cst.Subscript) and isinstance(place.piece.parents[node], cst.AssignTarget):
        name = node.value
    else:
        return
    values = uses.values_of(name.value) if isinstance(name, cst.Name) else []
    made = values[0] if len(values) == 1 else None
    if not isinstance(made, cst.Call) or not isinstance(made.func, cst.Attribute):
        return
    of_torch = isinstance(made.func.value, cst.Name) and made.func.value.value == place.source.derive(torch_in)
    if not of_torch and made.func.attr.value in ("split", "rsplit", "splitlines"):
        yield Rewrite(
            "It is copied into a list of its own",
            (Change((made,), (expression("list(t)", t=made),)),),
            None if "list" not in place.source.derive(names_in) else "`list` has another meaning here",
        )


UNTRACED_CONTEXT = "Dynamo traces no form of {}. Enter it around the compiled call, or remove it."
UNTRACED = frozenset("globals dir exec compile breakpoint bytes bytearray memoryview object getattr".split())


def power(place: Located) -> Ways:
    """Rewrite `pow(x, 2)` as `x**2`."""
    node = place.node
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Name):
        return
    if node.func.value in UNTRACED:
        yield Declined(
            f"Dynamo traces nothing that does the same as `{node.func.value}`. Call it before the compiled code."
        )
    elif node.func.value == "pow" and (
        len(node.args) != 2 or any(arg.keyword is not None or arg.star for arg in node.args)
    ):
        yield Declined("`pow` with a modulus has no operator. Write `x**n % m`.")
    elif node.func.value == "pow":
        made = expression("a**b", a=node.args[0].value, b=node.args[1].value)
        yield Rewrite("The operator replaces the builtin", (Change((node,), (made,)),), None)
