"""Types of parameters in documentation, in its three styles."""

from __future__ import annotations

import ast
import re

OF_NUMPY = re.compile(r"^[ \t]*(\w+(?:[ \t]*,[ \t]*\w+)*)[ \t]*:[ \t]*(.+)$", re.MULTILINE)
"""`adjacency : torch.sparse, shape = (n, n)`"""
OF_GOOGLE = re.compile(r"^[ \t]*(\w+)[ \t]*\(([^)\n]+)\)[ \t]*:", re.MULTILINE)
"""`adjacency (torch.sparse.Tensor): of the graph`"""
OF_SPHINX = re.compile(r"^[ \t]*:type[ \t]+(\w+)[ \t]*:[ \t]*(.+)$", re.MULTILINE)
OF_SPHINX_AT_ONCE = re.compile(r"^[ \t]*:param[ \t]+([^:\n]+?)[ \t]+(\w+)[ \t]*:", re.MULTILINE)
"""`:param torch.Tensor x: of the nodes`"""
MARKED = re.compile(r":\w+:`~?\.?([^`]*)`")
"""`:class:`~package.Name``"""
MAX_LENGTH = 120
"""Characters of what is read as a type; more are a sentence."""


def types_in(text: str, names: frozenset[str]) -> dict[str, str]:
    """For each of these parameters that the text gives a type of, its words."""
    found: dict[str, str] = {}
    for pattern in (OF_SPHINX, OF_NUMPY, OF_GOOGLE):
        for listed, words in pattern.findall(text):
            for name in listed.split(","):
                if name.strip() in names:
                    found.setdefault(name.strip(), words.strip())
    for words, name in OF_SPHINX_AT_ONCE.findall(text):
        if name in names:
            found.setdefault(name, words.strip())
    return found


def as_annotation(words: str) -> ast.expr | None:
    """Return the annotation for the words of a type; None if they are a sentence.

    `int or str, optional` is `int | str`; text after a comma outside of brackets is left out.
    """
    if len(words) > MAX_LENGTH:
        return None
    text = _first_part(MARKED.sub(r"\1", words).replace("`", "")).rstrip(" .;")
    text = re.sub(r"\s+or\s+", " | ", text)
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return node if _is_type(node) else None


def _first_part(text: str) -> str:
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            return text[:place]
    return text


def _is_type(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.BitOr) and _is_type(node.left) and _is_type(node.right)
    if isinstance(node, ast.Subscript):
        return _is_type(node.value)
    if isinstance(node, ast.Attribute):
        return _is_type(node.value)
    return isinstance(node, ast.Name) or (isinstance(node, ast.Constant) and node.value is None)
