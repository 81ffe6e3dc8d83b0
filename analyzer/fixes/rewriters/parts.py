"""Rewrite attention over parts with sizes from a tensor as one over padded parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst
from tcready.fixes.rewriters.conditions import walk
from tcready.fixes.rewriters.rewrites import TIGHT, Decline, Ways, torch_of
from tcready.fixes.rewriters.statements import is_torch, quote, text, times_read
from tcready.static.diagnostics.rule import Change, Declined, Rewrite

if TYPE_CHECKING:
    from tcready.static.diagnostics.cst_view import Located

HOW = "The parts are padded to the longest of them and attended to at once, what was added hidden by a mask"
UNSAFE = (
    "all parts are as long as the longest then, which takes more work and memory where they differ; a product of another "
    "size may be rounded otherwise, dropout draws other numbers, and a mask is taken to be added to the scores"
)
MASKS = ("attention_mask", "attn_mask")
"""Names in attention functions for the mask that is added to the scores, or that hides where it is False."""
DIMENSIONS = {"1": 1, "-3": 1, "2": 2, "-2": 2}
"""The dimensions, of four, that may be the tokens."""
OTHERWISE = Declined(
    "The parts are not used for one attention each that `torch.cat` joins afterwards. Pad the parts to one length, "
    "and mask the padding."
)

CODE = """\
{sizes} = {lengths}.to({query}.device)
{torch}._assert_async(({sizes} >= 0).all() & ({sizes}.sum() == {query}.shape[2]), "the sizes do not sum up")
{torch}._check({key}.shape[2] == {query}.shape[2])
{torch}._check({value}.shape[2] == {query}.shape[2])
{torch}._check_value({sizes}.shape[0] > 0)
{longest} = max({sizes}.max().item(), 2)
{starts} = {sizes}.cumsum(0) - {sizes}
{steps} = {torch}.arange({longest}, device={sizes}.device)
{inside} = {steps} < {sizes}[:, None]
{places} = ({starts}[:, None] + {steps}).masked_fill(~{inside}, {query}.shape[2])
{padded} = [
    {torch}.nn.functional.pad({each}, (0, 0, 0, 1))[:, :, {places}].transpose(1, 2).flatten(0, 1)
    for {each} in ({query}, {key}, {value})
]
{mask} = {query}.new_zeros({inside}.shape).masked_fill(~{inside}, float("-inf"))
{mask} = {mask}[:, None, None].repeat({query}.shape[0], 1, 1, 1)
{part} = {torch}.repeat_interleave({sizes}, output_size={query}.shape[2])
{back} = {part} * {longest} + {torch}.arange({query}.shape[2], device={sizes}.device) - {starts}[{part}]
"""
"""The longest is at least two: with one token, tracing cannot decide comparisons on it."""
NAMES = ("sizes", "longest", "starts", "steps", "inside", "places", "padded", "mask", "part", "back", "each")


@dataclass(frozen=True)
class _Parts:
    """Three tensors, split in the same way along their tokens."""

    tensors: tuple[cst.BaseExpression, ...]
    lengths: cst.BaseExpression
    names: tuple[str, ...]
    """Names of the parts: one name for all of them, or one each."""
    statements: tuple[cst.SimpleStatementLine, ...]


def padded_parts(place: Located) -> Ways:
    """Rewrite `attend(q, k, v, attn_mask=None) for q, k, v in zip(*splits)`, where `splits` are by `sizes.tolist()`."""
    parts = _split(place)
    if parts is None:
        return
    torch = torch_of(place)
    behind = _behind(place, parts.statements[-1])
    together = _together(behind, parts.names)
    if together is None:
        raise Decline(OTHERWISE)
    if any(times_read(place.piece.tree, name) > 2 for name in together.once | {*parts.names}):
        raise Decline("The parts are also used by other code. Compute that from the whole tensors.")
    names = _fresh(place)
    attend = together.attend
    call = _over_all(attend, together.targets, names)
    if isinstance(call, Declined):
        yield call
        return
    query, key, value = (text(each) for each in parts.tensors)
    code = CODE.format(torch=torch[0], lengths=_bracketed(parts.lengths), query=query, key=key, value=value, **names)
    out = cst.Module([]).code_for_node(together.element.deep_replace(attend, call))
    out = f"{out}.unflatten(0, ({query}.shape[0], {names['sizes']}.shape[0]))"
    turned = ".transpose(1, 2)" if together.dimension == 2 else ""
    out += f"{turned}.flatten({together.dimension}, {together.dimension + 1})"
    out += f"[{':, ' * together.dimension}{names['back']}]"
    last = together.statements[-1]
    joined = last.deep_replace(together.cat, cst.parse_expression(out))
    assert isinstance(joined, cst.SimpleStatementLine)
    made = (*cst.parse_module(code).body, joined)
    yield Rewrite(HOW, (Change((*parts.statements, *together.statements), made),), UNSAFE, torch[1])


def _split(place: Located) -> _Parts | None:
    """Return the three tensors that are split, if the place reads sizes for that."""
    sizes = place.node
    if not _is_call_of(sizes, "tolist") or sizes.args:
        return None
    assert isinstance(sizes.func, cst.Attribute)
    parents = place.piece.parents
    split = parents.get(parents[sizes]) if isinstance(parents[sizes], cst.Arg) else None
    if split is None or (found := _split_of(split)) is None:
        return None
    statement = place.statement
    around = parents[split]
    if not isinstance(statement, cst.SimpleStatementLine):
        return None
    if isinstance(around, (cst.ListComp, cst.GeneratorExp)):
        loop = around.for_in
        target = _assigned(statement, around)
        if target is None or loop.ifs or loop.inner_for_in or not isinstance(loop.iter, (cst.Tuple, cst.List)):
            return None
        tensors = tuple(each.value for each in loop.iter.elements)
        if len(tensors) != 3 or text(found[0]) != text(loop.target):
            return None
        return _Parts(tensors, sizes.func.value, (target,), (statement,))
    block = parents[statement]
    body = block.body if isinstance(block, cst.IndentedBlock) else ()
    run: list[tuple[cst.SimpleStatementLine, str, cst.BaseExpression]] = []
    for each in body:  # three lines that follow each other, the place in one of them
        value = _value(each)
        one = _split_of(value) if value is not None else None
        name = _assigned(each, value) if value is not None else None
        if one is None or name is None or text(one[1]) != text(found[1]):
            if any(line is statement for line, _, _ in run):
                break
            run = []
        else:
            assert isinstance(each, cst.SimpleStatementLine)
            run.append((each, name, one[0]))
    if len(run) != 3 or not any(line is statement for line, _, _ in run):
        return None
    return _Parts(
        tuple(tensor for _, _, tensor in run),
        sizes.func.value,
        tuple(name for _, name, _ in run),
        tuple(line for line, _, _ in run),
    )


def _split_of(node: cst.CSTNode) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return the tensor and the sizes of `torch.split(t, sizes, dim=2)` or `t.split(sizes, 2)`, along the third of
    four dimensions."""
    if not _is_call_of(node, "split"):
        return None
    assert isinstance(node.func, cst.Attribute)
    given = {arg.keyword.value: arg.value for arg in node.args if arg.keyword is not None}
    plain = [arg.value for arg in node.args if arg.keyword is None and not arg.star]
    if not is_torch(node.func.value):
        plain.insert(0, node.func.value)
    values = dict(zip(("tensor", "split_size_or_sections", "dim"), plain, strict=False)) | given
    values.setdefault("split_size_or_sections", given.get("split_size", cst.Name("None")))
    known = {"tensor", "split_size_or_sections", "split_size", "dim"}
    if len(plain) > 3 or not values.keys() <= known or "tensor" not in values or "dim" not in values:
        return None
    if DIMENSIONS.get(text(values["dim"])) != 2:
        return None
    return values["tensor"], values["split_size_or_sections"]


@dataclass(frozen=True)
class _Together:
    """An attention over each part, and the call that concatenates the results."""

    statements: tuple[cst.SimpleStatementLine, ...]
    cat: cst.Call
    element: cst.BaseExpression
    """The expression for each part: the attention, or an item of its result."""
    attend: cst.Call
    targets: tuple[str, ...]
    """Names for a part of each of the three tensors."""
    dimension: int
    """The dimension of the tokens in the result."""
    once: frozenset[str]
    """Names that are assigned and read here, and are removed by the rewrite."""


def _together(behind: Sequence[cst.BaseStatement], names: tuple[str, ...]) -> _Together | None:
    """Return how the statements after the split use the parts, if it is one attention over each."""
    comprehension = _value(behind[0]) if behind else None
    once: frozenset[str] = frozenset()
    statements = behind[:1]
    cat = comprehension
    if isinstance(comprehension, (cst.ListComp, cst.GeneratorExp)):
        name = _assigned(behind[0], comprehension)
        cat = _value(behind[1]) if len(behind) > 1 else None
        joined = _joined(cat)
        if joined is None or name is None or text(joined[0]) != name:
            return None
        statements, once = behind[:2], frozenset({name})
    else:
        joined = _joined(cat)
        comprehension = joined[0] if joined is not None else None
    if joined is None or not isinstance(comprehension, (cst.ListComp, cst.GeneratorExp)):
        return None
    loop = comprehension.for_in
    if loop.ifs or loop.inner_for_in or not isinstance(loop.target, cst.Tuple):
        return None
    zipped = f"zip(*{names[0]})" if len(names) == 1 else f"zip({', '.join(names)})"
    element = comprehension.elt
    is_first = isinstance(element, cst.Subscript) and text(element).endswith("[0]")
    attend = element.value if isinstance(element, cst.Subscript) and is_first else element
    if text(loop.iter) != zipped or not isinstance(attend, cst.Call) or not isinstance(cat, cst.Call):
        return None
    lines = tuple(each for each in statements if isinstance(each, cst.SimpleStatementLine))
    targets = tuple(text(each.value) for each in loop.target.elements)
    return _Together(lines, cat, element, attend, targets, joined[1], once)


def _joined(node: cst.BaseExpression | None) -> tuple[cst.BaseExpression, int] | None:
    """Return the operand of `torch.cat`, and the dimension of four along which it concatenates."""
    if node is None or not (_is_call_of(node, "cat") or _is_call_of(node, "concat")) or len(node.args) != 2:
        return None
    first, second = node.args
    dimension = DIMENSIONS.get(text(second.value))
    named = second.keyword is None or second.keyword.value == "dim"
    if dimension is None or not named or first.keyword is not None or first.star or second.star:
        return None
    return first.value, dimension


def _over_all(attend: cst.Call, targets: tuple[str, ...], names: dict[str, str]) -> cst.Call | Declined:
    """Return the attention over all padded parts at once, below the mask."""
    args: list[cst.Arg] = []
    masked = False
    for arg in attend.args:
        name = arg.keyword.value if arg.keyword is not None else ""
        value = text(arg.value)
        if value in targets and not arg.star:
            args.append(arg.with_changes(value=cst.parse_expression(f"{names['padded']}[{targets.index(value)}]")))
            continue
        if any(times_read(arg.value, each) for each in targets):
            return Declined(
                f"The attention gets {quote(arg.value)}, which is computed from the part. Pass it for all parts at once."
            )
        if name in MASKS:
            if value != "None":
                return Declined("Each part has its own mask. Pad the masks too, and pass one for all parts.")
            masked = True
            arg = arg.with_changes(value=cst.Name(names["mask"]))
        elif name == "is_causal" and value != "False":
            return Declined("The attention is causal, and accepts no other mask. Put the causal part into the mask.")
        args.append(arg)
    given = [text(arg.value) for arg in attend.args]
    if any(given.count(each) != 1 for each in targets) or len(targets) != 3:
        return OTHERWISE
    if not masked:
        if not _is_call_of(attend, "scaled_dot_product_attention") or len(attend.args) != 3 + sum(
            arg.keyword is not None and arg.keyword.value not in ("query", "key", "value") for arg in attend.args
        ):
            return Declined(
                f"`{text(attend.func)}` gets no mask, and may accept none. Use `scaled_dot_product_attention`."
            )
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        args.append(cst.Arg(cst.Name(names["mask"]), cst.Name("attn_mask"), equal))
    return attend.with_changes(args=args)


def _fresh(place: Located) -> dict[str, str]:
    """Return names for new values, none of which is used around the place."""
    used = {each.value for each in walk(place.piece.tree) if isinstance(each, cst.Name)}
    found: dict[str, str] = {}
    for name in NAMES:
        fresh = name
        while fresh in used:
            fresh += "_"
        found[name] = fresh
    return found


def _behind(place: Located, statement: cst.BaseStatement) -> Sequence[cst.BaseStatement]:
    block = place.piece.parents[statement]
    body = block.body if isinstance(block, cst.IndentedBlock) else ()
    at = next((i for i, each in enumerate(body) if each is statement), len(body))
    return tuple(body[at + 1 : at + 3])


def _value(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the value that a line of one statement assigns or returns."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return None
    only = statement.body[0]
    return only.value if isinstance(only, (cst.Assign, cst.AnnAssign, cst.Return)) else None


def _assigned(statement: cst.CSTNode, value: cst.CSTNode) -> str | None:
    """Return the only plain name to which a line assigns this value."""
    only = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(only, cst.Assign) or only.value is not value or len(only.targets) != 1:
        return None
    target = only.targets[0].target
    return target.value if isinstance(target, cst.Name) else None


def _is_call_of(node: cst.CSTNode | None, name: str) -> TypeGuard[cst.Call]:
    return isinstance(node, cst.Call) and (
        (isinstance(node.func, cst.Attribute) and node.func.attr.value == name)
        or (isinstance(node.func, cst.Name) and node.func.value == name and name != "split")
    )


def _bracketed(node: cst.BaseExpression) -> str:
    code = text(node)
    return code if isinstance(node, TIGHT) else f"({code})"
