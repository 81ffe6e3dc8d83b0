"""Exclude prints, logs and warnings from compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst
from tcready.fixes.rewriters.conditions import value_of
from tcready.fixes.rewriters.hidden_effects import PURE, PURE_METHODS, TAKING_ITEMS, hidden_effect, last_name
from tcready.fixes.rewriters.module_methods import changes_module
from tcready.fixes.rewriters.rewrites import Decline, Ways, attempt, in_parentheses, torch_name, torch_of
from tcready.fixes.rewriters.statements import assignments, block_of, quote, text, values_given
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located
    from tcready.static.frontend.source import Source

LEVELS = frozenset(
    "debug info warning warn error critical exception log fatal warning_once info_once warn_explicit".split()
)
LOGGERS = frozenset("logger log logging warnings _logger LOGGER LOG _log".split())
ASKING = frozenset("isEnabledFor getEffectiveLevel getLevelName hasHandlers".split())
"""Query functions of loggers and of `logging`; other calls on them change settings."""
OF_LOGGERS = frozenset("isEnabledFor getEffectiveLevel setLevel hasHandlers getChild pprint".split())
OF_LIBRARIES = frozenset({"torch", "F", "nn", "math", "np", "numpy"})
BUILT_IN = PURE | frozenset(
    "all any ascii bin bytes chr complex dict divmod enumerate frozenset getattr hasattr hash hex".split()
)
BUILT_IN |= frozenset("oct ord pow print reversed set sorted type vars zip".split())
OF_VALUES = PURE_METHODS | frozenset(
    """
    amax amin aminmax argsort argwhere bincount capitalize ceil clamp clone contiguous copy count cummax cumprod cumsum
    diff dist element_size endswith eq exp expand flatten floor frexp ge get gt half histc index is_contiguous isclose
    kthvalue le ljust log log10 log2 logical_and logical_not logical_or logsumexp lower lt median mode movedim nanmean
    nanmedian nansum ndimension ne nelement new_tensor numpy permute prod quantile replace reshape rjust round rsplit
    sigmoid sign signbit softmax sort split square squeeze startswith stride strip t tanh title to topk trace transpose
    tril triu type unsqueeze untyped_storage upper view zfill
    """.split()
)
"""Methods of tensors, texts, numbers and dicts that only return a value, unless another object has a method of that
name."""
OUTPUTS = frozenset("stdout stderr __stdout__ __stderr__".split())
TAKING_OUTPUT = frozenset("redirect_stdout redirect_stderr".split())
TAKING_MESSAGES = frozenset(
    """
    __warningregistry__ addFilter formatwarning MemoryHandler QueueHandler setLoggerClass setLogRecordFactory showwarning
    """.split()
)
WARNING = frozenset("warn warn_explicit".split())
HARMLESS = frozenset("always all default ignore module once".split())
"""Actions of a filter for warnings that do not raise them."""
FILTERS = frozenset("simplefilter filterwarnings".split())
HANDING = FILTERS | frozenset("catch_warnings StreamHandler basicConfig".split())
HANDED = frozenset("filename handlers stream".split())
"""Arguments of `logging.basicConfig` that decide where records go."""
EFFECT = "{} may have a side effect, and compiled code would skip it. Call it on a line of its own."
SEVERAL = "its condition may be a tensor of several values, for which Python raises an error"
GUARDED = "Runs in eager mode only (guarded by `torch.compiler.is_compiling()`)"
READ = "`{}` in this file may receive the message, and compiled code sends none"
WRITTEN = "code may read its output stream, and compiled code writes nothing to it"
OTHER_MAKER = "`{}` creates the logger, which may do more than log"
MAKERS = frozenset("getLogger get_logger getChild LoggerAdapter".split())
LOST = "{} is a call or an index, and compiled code would skip its side effects"
CAUGHT = "it is in a `try` that may catch an exception of its evaluation"


def unless_compiling(place: Located) -> Ways:
    """Put a call that is a statement, or in the test of an `if` with only such calls, below `if not
    torch.compiler.is_compiling():`."""
    torch = torch_of(place)
    if not isinstance(place.node, cst.Call) or not _speaks(place.node):
        return
    statement = place.piece.parents.get(place.node)
    branch = _branch_around(place)
    whole = [] if branch is None else list(message_branch(place, branch))
    # The same change as that for the test of the `if`, where there is one: no guard within a guard.
    yield from (way for way in whole if way.unsafe is None)
    if isinstance(statement, cst.Expr):
        yield from attempt(_statement(place, statement, torch))
    elif branch is None:
        yield Declined(f"The code uses the value of {quote(place.node)}. Call it on a line of its own.")
    yield from (way for way in whole if way.unsafe is not None)
    if isinstance(statement, cst.Expr) and (function := _reordered(place.node)) is not None:
        yield Rewrite(
            "It is printed after the graph has run",
            (),
            "a tensor that is changed in place before that is printed with its new values; other output may come first",
            settings=(f"reorderable_logging_functions={function}",),
        )


def _reordered(call: cst.Call) -> str | None:
    """Return the function, if Dynamo may call it after a graph: it drops keyword arguments, and takes one text of
    `warnings.warn`. It calls no methods of loggers there (measured on torch 2.13)."""
    if any(arg.star or arg.keyword is not None for arg in call.args):
        return None
    name = cst.Module([]).code_for_node(call.func)
    return name if name == "print" or (name == "warnings.warn" and len(call.args) == 1) else None


def message_branch(place: Located, branch: cst.If) -> Iterator[Rewrite]:
    """Rewrite an `if` that only prints, logs and warns so that neither it nor its test runs in compiled code."""
    torch = torch_name(place)
    if torch is None or branch.orelse is not None or not _only_messages(branch.body):
        return
    if unknown_call(branch) is not None:
        return
    made = _with_guard(_not_compiling(torch[0]), branch.test)
    yield Rewrite(
        "The branch is tested in eager mode only (guarded by `torch.compiler.is_compiling()`)",
        (Change((branch.test,), (made,)),),
        _why_unsafe(place, branch),
        torch[1],
        silences=True,
    )


def _not_compiling(torch: str) -> cst.BaseExpression:
    return cst.parse_expression(f"not {torch}.compiler.is_compiling()")


def _with_guard(guard: cst.BaseExpression, test: cst.BaseExpression) -> cst.BaseExpression:
    """Return `guard and test`; the operands of a test that is an `and` itself are joined without parentheses."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        if len(test.lpar) == 1 and "\n" not in text(test):
            test = test.with_changes(lpar=(), rpar=())
        if not test.lpar:
            return test.with_changes(left=_with_guard(guard, test.left))
    if not isinstance(test, (cst.Comparison, cst.UnaryOperation)):
        test = in_parentheses(test)
    return cst.BooleanOperation(left=guard, operator=cst.And(), right=test)


def _why_unsafe(place: Located, branch: cst.If) -> str | None:
    """Return why behavior may change if an `if` that only emits messages is not evaluated."""
    pure_messages = all(call is not None and _pure_arguments(call) for call in _calls(branch.body))
    if is_tried(place, branch) or not is_without_effect(branch.test) or not pure_messages:
        return LOST.format("a part of it")
    for call in filter(None, _calls(branch.body)):
        if reason := why_needed(place, call, branch.test):
            return reason
    return None if _is_one(place, branch.test) else SEVERAL


def why_needed(place: Located, call: cst.Call, *nodes: cst.CSTNode) -> str | None:
    """Return why a message is needed even though its arguments, and the code around them, call nothing with an
    effect."""
    if _is_written_elsewhere(place, call):
        return WRITTEN
    if isinstance(call.func, cst.Attribute) and call.func.attr.value not in LEVELS | ASKING | {"pprint"}:
        return "what it sets is set only in eager mode"
    return (
        hidden_effect(place, *nodes, *call.args, called=call.func)
        or changes_module(place, *nodes, *call.args)
        or _taken(place, call)
        or _made_otherwise(place, call)
    )


def _made_otherwise(place: Located, call: cst.Call) -> str | None:
    """Return why a message may not be from a logger: the file does not create it with a function of logging."""
    tree = place.source.tree
    owner = text(call.func.value) if isinstance(call.func, cst.Attribute) else None
    for value in values_given(place.source.derive(assignments), owner, (ast.Assign, ast.AnnAssign)):
        made = ast.unparse(value.func) if isinstance(value, ast.Call) else ast.unparse(value)
        own = any(isinstance(each, ast.FunctionDef) and each.name == made for each in tree.body)
        if own or made.rpartition(".")[2] not in MAKERS:
            return OTHER_MAKER.format(made)
    return None


def _taken(place: Located, call: cst.Call) -> str | None:
    """Return why code of the file may receive the message: it replaces the output, or handles a warning or a record."""
    prints = _prints(call)
    takers = TAKING_OUTPUT if prints else TAKING_OUTPUT | TAKING_MESSAGES
    outputs = place.source.derive(_outputs)
    of_warnings = not isinstance(call.func, cst.Attribute) or call.func.attr.value in WARNING
    if name := next((each for each in place.source.derive(_names) if each in takers), None):
        return READ.format(name)
    for node in place.source.derive(_stored):
        if ast.unparse(node) in outputs or (not prints and node.attr in LEVELS):
            return READ.format(ast.unparse(node))
    for each in () if prints else place.source.derive(_handing):
        given = [*each.args, *(keyword.value for keyword in each.keywords)]
        taker = last_name(each.func)
        of_record = taker == "catch_warnings" and bool(given)
        of_stream = taker == "StreamHandler" and any(ast.unparse(value) not in outputs for value in given)
        of_stream = of_stream or (taker == "basicConfig" and any(keyword.arg in HANDED for keyword in each.keywords))
        is_harmless = bool(given) and isinstance(given[0], ast.Constant) and given[0].value in HARMLESS
        is_raised = of_warnings and taker in FILTERS and not is_harmless
        if of_record or of_stream or is_raised:
            return READ.format(taker)
    return None


def _names(source: Source) -> tuple[str, ...]:
    """Return the names and attributes in a file, each once."""
    return tuple(dict.fromkeys(filter(None, map(last_name, source.nodes))))


def _stored(source: Source) -> tuple[ast.Attribute, ...]:
    """Return the attributes that it assigns or deletes."""
    attributes = (node for node in source.nodes if isinstance(node, ast.Attribute))
    return tuple(node for node in attributes if not isinstance(node.ctx, ast.Load))


def _handing(source: Source) -> tuple[ast.Call, ...]:
    """Return its calls that may change who receives a message."""
    calls = (node for node in source.nodes if isinstance(node, ast.Call))
    return tuple(call for call in calls if last_name(call.func) in HANDING)


def _prints(call: cst.Call) -> bool:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in ("print", "pprint")


def _outputs(source: Source) -> set[str]:
    """Return a file's names for `stdout` and `stderr` of `sys`."""
    return {
        f"{alias.asname or alias.name}.{name}"
        for node in source.nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "sys"
        for name in OUTPUTS
    }


def _statement(place: Located, expr: cst.Expr, torch: tuple[str, tuple[str, ...]]) -> Ways:
    line = place.piece.parents[expr]
    assert isinstance(expr.value, cst.Call)
    call = unknown_call(*expr.value.args)
    if call is not None:
        raise Decline(EFFECT.format(quote(call)))
    test = _not_compiling(torch[0])
    unsafe = _why_needed(place, expr)
    if isinstance(line, cst.SimpleStatementSuite):
        whole = place.piece.parents[line]
        if len(line.body) != 1 or not isinstance(whole, cst.If) or whole.body is not line:
            yield Declined("Another statement is on the same line. Put each on a line of its own.")
        return  # on a line of its own with its `if`: that is guarded
    assert isinstance(line, cst.SimpleStatementLine)
    if unsafe is None and (lines := _neighbours(place, line, test)):
        body = [each for one in lines for each in (block_of(one.body) if isinstance(one, cst.If) else [one])]
        body[0] = body[0].with_changes(leading_lines=())
        together = cst.If(test=test, body=cst.IndentedBlock(body=body))
        yield Rewrite(GUARDED, (Change(lines, (together,)),), None, torch[1], silences=True)
        return
    number = next(i for i, each in enumerate(line.body) if each is expr)
    only = cst.SimpleStatementLine(
        body=[expr.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
        trailing_whitespace=line.trailing_whitespace if number == len(line.body) - 1 else cst.TrailingWhitespace(),
    )
    guarded: cst.BaseStatement = cst.If(test=test, body=cst.IndentedBlock(body=[only]))
    made: list[cst.BaseStatement] = [guarded]
    if number:
        made.insert(0, _line(line.body[:number]))
    if number + 1 < len(line.body):
        made.append(_line(line.body[number + 1 :]).with_changes(trailing_whitespace=line.trailing_whitespace))
    yield Rewrite(GUARDED, (Change((line,), tuple(made)),), unsafe, torch[1], silences=True)


def _why_needed(place: Located, expr: cst.Expr) -> str | None:
    """Return why a message that is a statement may be needed in compiled code too."""
    assert isinstance(expr.value, cst.Call)
    if not _pure_arguments(expr.value):
        return LOST.format("an argument")
    if (reason := why_needed(place, expr.value)) is not None:
        return reason
    return CAUGHT if is_tried(place, expr) else None


def _neighbours(
    place: Located, line: cst.SimpleStatementLine, guard: cst.BaseExpression
) -> tuple[cst.BaseStatement, ...]:
    """Return the messages next to the one on `line`, and the blocks below `guard`, that can share a guard with it;
    nothing if there are none. A blank line or a comment separates them."""
    block = place.piece.parents[line]
    if not isinstance(block, (cst.IndentedBlock, cst.Module)):
        return ()

    def is_joined(each: cst.CSTNode) -> bool:
        if isinstance(each, cst.If):
            is_block = isinstance(each.body, cst.IndentedBlock) and each.orelse is None
            return is_block and text(each.test) == text(guard)
        only = each.body[0] if isinstance(each, cst.SimpleStatementLine) and len(each.body) == 1 else None
        call = only.value if isinstance(only, cst.Expr) else None
        if not isinstance(only, cst.Expr) or not isinstance(call, cst.Call) or not is_message(call):
            return False
        return unknown_call(*call.args) is None and _why_needed(place, only) is None

    body = [each for each in block.body if isinstance(each, cst.BaseStatement)]
    first = last = body.index(line)
    while first and not getattr(body[first], "leading_lines", ()) and is_joined(body[first - 1]):
        first -= 1
    while last + 1 < len(body) and not getattr(body[last + 1], "leading_lines", ()) and is_joined(body[last + 1]):
        last += 1
    return tuple(body[first : last + 1]) if first < last and is_joined(line) else ()


def _is_written_elsewhere(place: Located, call: cst.Call) -> bool:
    """Return True if `print` has, or may have, a `file` that is not `stdout` or `stderr` of `sys`."""
    if not _prints(call):
        return False
    outputs = place.source.derive(_outputs)
    of_pprint = not (isinstance(call.func, cst.Name) and call.func.value == "print")
    others = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in ("file", "stream")]
    others += [arg for arg in call.args[1:] if of_pprint and arg.keyword is None]
    return any(arg.star == "**" for arg in call.args) or any(
        cst.Module([]).code_for_node(arg.value) not in outputs for arg in others
    )


def is_tried(place: Located, node: cst.CSTNode) -> bool:
    """Return True if an exception raised there may be caught: in the same function, or where the file calls it by
    name."""
    above: cst.CSTNode | None = node
    while above is not None and not isinstance(above, cst.FunctionDef):
        inner, above = above, place.piece.parents.get(above)
        if isinstance(above, (cst.Try, cst.TryStar)) and above.body is inner:
            return True
        if isinstance(above, cst.With) and any(_suppresses(item.item) for item in above.items):
            return True
    return above is not None and above.name.value in place.source.tried


def _suppresses(node: cst.BaseExpression) -> bool:
    func = node.func if isinstance(node, cst.Call) else node
    name = func.attr if isinstance(func, cst.Attribute) else func
    return isinstance(name, cst.Name) and name.value == "suppress"


def _line(body: Sequence[cst.BaseSmallStatement]) -> cst.SimpleStatementLine:
    last = body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return cst.SimpleStatementLine(body=[*body[:-1], last])


def _branch_around(place: Located) -> cst.If | None:
    """Return the `if` that has the call in its test, or as part of its only work."""
    node: cst.CSTNode | None = place.statement
    if isinstance(node, cst.SimpleStatementLine):
        block = place.piece.parents[node]
        node = place.piece.parents.get(block)
        if not isinstance(node, cst.If) or node.body is not block:
            return None
    return node if isinstance(node, cst.If) and _only_messages(node.body) and node.orelse is None else None


def _only_messages(body: cst.BaseSuite) -> bool:
    return all(call is not None and is_message(call) for call in _calls(body))


def _calls(body: cst.BaseSuite) -> list[cst.Call | None]:
    """Return the statements of a block, None for each that is not a call."""
    found: list[cst.Call | None] = []
    for line in [body] if isinstance(body, cst.SimpleStatementSuite) else body.body:
        small = line.body if isinstance(line, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else [None]
        found += [
            each.value if isinstance(each, cst.Expr) and isinstance(each.value, cst.Call) else None for each in small
        ]
    return found


def is_message(call: cst.Call) -> bool:
    """Return True if it prints, logs or warns, by its form."""
    if isinstance(call.func, cst.Name):
        return call.func.value in ("print", "pprint", "warn")
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in LEVELS | {"pprint"}:
        return False
    owner = call.func.value
    name = owner.attr if isinstance(owner, cst.Attribute) else owner
    return isinstance(name, cst.Name) and name.value in LOGGERS | {"pprint"}


def _speaks(call: cst.Call) -> bool:
    """Return True if it may print, log or warn, or belongs to something that does."""
    if is_message(call) or not isinstance(call.func, cst.Attribute):
        return is_message(call)
    name, owner = call.func.attr.value, call.func.value
    of_module = isinstance(owner, cst.Name) and owner.value in ("logging", "warnings")
    return of_module or (name in (LEVELS - {"log"}) | OF_LOGGERS)


def _pure_arguments(call: cst.Call) -> bool:
    return all(is_without_effect(arg) for arg in call.args)


def unknown_call(*nodes: cst.CSTNode) -> cst.Call | None:
    """Return a call there that may have an effect by its name, except those that print, log and warn."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        pending += node.children
        if (
            isinstance(node, cst.Call)
            and not is_message(node)
            and not _speaks(node)
            and not (_only_gives(node.func) and not _waits(node))
        ):
            return node
    return None


def _waits(call: cst.Call) -> bool:
    """Return True if a method `join` or `get` may be that of a thread or a queue, not of a text or a dict."""
    if not isinstance(call.func, cst.Attribute):
        return False
    if call.func.attr.value == "join":
        return not isinstance(call.func.value, cst.BaseString)
    keys = (cst.BaseString, cst.Name, cst.Attribute)
    has_key = bool(call.args) and call.args[0].keyword is None and isinstance(call.args[0].value, keys)
    is_truth = has_key and text(call.args[0].value) in ("True", "False")
    return call.func.attr.value == "get" and (not has_key or is_truth)


def _only_gives(func: cst.BaseExpression) -> bool:
    if isinstance(func, cst.Name):
        return func.value in BUILT_IN
    if not isinstance(func, cst.Attribute):
        return False
    root = func.value
    while isinstance(root, cst.Attribute):
        root = root.value
    if isinstance(root, cst.Name) and root.value in OF_LIBRARIES:
        name = func.attr.value
        return not (name.endswith("_") or "rand" in name or "seed" in name or name in ("dropout", "normal"))
    return func.attr.value in OF_VALUES


ONE = frozenset(
    "any all sum mean min max std var norm prod numel count_nonzero item dim median size isEnabledFor".split()
)
"""Methods that return one number or truth value without arguments, or for a level, or for one dimension of a size."""


def _is_one(place: Located, node: cst.BaseExpression, deep: int = 3) -> bool:
    """Return True if a test has one truth value by its form: Python raises for a tensor of several."""
    if isinstance(node, cst.BooleanOperation):
        return _is_one(place, node.left, deep) and _is_one(place, node.right, deep)
    if isinstance(node, cst.UnaryOperation):
        return _is_one(place, node.expression, deep)
    if isinstance(node, cst.BinaryOperation):
        return _is_one(place, node.left, deep) and _is_one(place, node.right, deep)
    if isinstance(node, cst.Comparison):
        if all(isinstance(c.operator, (cst.Is, cst.IsNot)) for c in node.comparisons):
            return True
        return all(_is_number(place, each, deep) for each in (node.left, *(c.comparator for c in node.comparisons)))
    if isinstance(node, cst.Name):
        value = value_of(place, node.value) if deep else None
        return value is not None and _is_one(place, value, deep - 1)
    return isinstance(node, cst.Attribute) or _is_number(place, node, deep)


def _is_number(place: Located, node: cst.BaseExpression, deep: int) -> bool:
    if isinstance(node, (cst.BaseNumber, cst.BaseString, cst.UnaryOperation, cst.BinaryOperation)):
        return isinstance(node, (cst.BaseNumber, cst.BaseString)) or _is_one(place, node, deep)
    if isinstance(node, cst.Subscript):
        return _is_of_sizes(node.value)
    if isinstance(node, cst.Attribute):
        return isinstance(node.value, cst.Name) and node.value.value in ("self", "cls")
    if isinstance(node, cst.Name):
        value = value_of(place, node.value) if deep else None
        return value is not None and _is_number(place, value, deep - 1)
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Name):
        if node.func.value in ("float", "int", "bool", "abs", "round"):
            return all(_is_number(place, arg.value, deep) for arg in node.args)
        return node.func.value in ("len", "isinstance", "hasattr", "callable")
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in ONE:
        return False
    if node.func.attr.value in ("size", "isEnabledFor"):
        return len(node.args) == 1
    of_torch = isinstance(node.func.value, cst.Name) and node.func.value.value == "torch"
    return len(node.args) == int(of_torch)


def _is_of_sizes(value: cst.BaseExpression) -> bool:
    """Return True if it is a shape, by its form."""
    func = value.func if isinstance(value, cst.Call) else value
    return isinstance(func, cst.Attribute) and func.attr.value in ("shape", "size", "stride")


def is_without_effect(value: cst.CSTNode) -> bool:
    """Return True if evaluating it changes nothing: no assignment, and only calls that are known to have no effect."""
    if isinstance(value, (cst.Await, cst.Yield, cst.NamedExpr)):
        return False
    if isinstance(value, cst.Subscript) and not _is_of_sizes(value.value):
        return False  # an item may be made by being asked for
    if isinstance(value, cst.Call):
        known = (isinstance(value.func, cst.Name) and value.func.value in PURE) or (
            isinstance(value.func, cst.Attribute) and value.func.attr.value in PURE_METHODS and not _waits(value)
        )
        if not known or (_takes_items(value.func) and any(_may_be_used_up(arg.value) for arg in value.args)):
            return False
    if isinstance(value, cst.Arg) and value.keyword is not None and value.keyword.value in ("key", "out"):
        return False  # a function that is called, a tensor that is written to
    of_items = value.iter if isinstance(value, cst.CompFor) else None
    if isinstance(value, cst.StarredElement) or (isinstance(value, cst.Arg) and value.star == "*"):
        of_items = value.value
    elif isinstance(value, cst.ComparisonTarget) and isinstance(value.operator, (cst.In, cst.NotIn)):
        of_items = value.comparator
    if of_items is not None and _may_be_used_up(of_items):
        return False
    return all(is_without_effect(child) for child in value.children)


def _takes_items(func: cst.BaseExpression) -> bool:
    """Return True if a pure function iterates over its argument."""
    name = func.attr if isinstance(func, cst.Attribute) and func.attr.value == "join" else func
    return isinstance(name, cst.Name) and name.value in TAKING_ITEMS


def _may_be_used_up(value: cst.BaseExpression) -> bool:
    """Return True if it may be an iterator created elsewhere, which iterating would consume."""
    if isinstance(value, cst.Attribute):
        return value.attr.value not in ("shape", "__dict__")
    return isinstance(value, (cst.Name, cst.Subscript))
