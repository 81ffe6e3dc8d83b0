"""`# noqa` comments: what they hide, and which of them hide nothing."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcready.edits import apply_edits
from tcready.options import ReadOptions
from tcready.schema.edit import Edit
from tcready.schema.paths import display_path
from tcready.schema.static import Noqa
from tcready.static import judge, versions
from tcready.static.analyse import Entry, Interpretation
from tcready.static.concrete import Concrete, comments
from tcready.static.engine.interpreter import Interpreter
from tcready.static.engine.values import Function
from tcready.static.index import FunctionInfo, Program
from tcready.static.judge import Claims, Place
from tcready.static.rule import Rule
from tcready.static.source import Source, UnreadableError, of_text

NOQA = re.compile(r"#\s*noqa\b(?::\s*(?P<codes>[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]*)*))?", re.IGNORECASE)


def hidden(interpretation: Interpretation, claims: Claims, root: Path) -> Iterator[tuple[Place, Noqa]]:
    """What comments hide of the claims, whatever their confidence, each with the comment."""
    for place, judged in claims.by_place.items():
        for line, code in _hiding(interpretation.concrete(place[0]), judged.rule.code, *judged.lines):
            yield place, Noqa(display_path(place[0], str(root)), line, code)


def unused(
    program: Program, entry: Entry, rules: Sequence[Rule], options: ReadOptions, hiding: Sequence[Noqa]
) -> tuple[Noqa, ...]:
    """What a `# noqa` of a whole file names though no way to read the file finds it; `hiding` is known to hide.

    The file is read again for that: in both modes at once, with all that is improbable, called with its targets and
    without, for every torch that is known, and each function around such a comment as somebody else might call it.
    Nothing is said of code that the file's models do not reach by default: another caller may.
    """
    source = entry.module.source
    if "noqa" not in source.text.lower():
        return ()
    shown = display_path(str(entry.module.path), str(options.root))
    idle = {Noqa(shown, line, code) for line, code in _codes_named(source.text, "TCR")} - set(hiding)
    if not idle:
        return ()
    functions = [b for found in entry.module.bound().values() for b in found if isinstance(b, FunctionInfo)]
    walked: set[int] = set()
    for torch, plain_call in itertools.product(versions.with_tables(), (False, True)):
        interpreter = Interpreter(program, None, low=True, plain_call=plain_call, walked=walked, torch=torch)
        interpretation = Interpretation(interpreter, [entry])
        for info in functions:
            first, last = info.node.lineno, info.node.end_lineno or info.node.lineno
            if any(first <= noqa.line <= last for noqa in idle):
                interpreter.run_function(Function(info), info)
        claims = judge.claims(interpretation, rules, "own")
        if interpretation.warnings or interpreter.cut:
            return ()
        idle -= {noqa for _, noqa in hidden(interpretation, claims, options.root)}
        if not idle:  # no further reading can name one again
            return ()
    innermost = _Innermost(source.tree)
    reached = (noqa for noqa in idle if id(innermost(noqa.line)) in walked)
    return tuple(sorted(reached, key=lambda noqa: (noqa.line, noqa.code)))


def hiding_edit(source: Source, path: str, first: int, last: int, code: str) -> Edit | None:
    """What makes a comment on one of the lines `first` to `last` hide a rule: a `# noqa` that names others gets its code
    as well, else a new one ends a line. `path` is how the file is named in the edit.

    None if no line can end in a comment: each is inside of a text, or goes on behind a backslash.
    """
    for line in range(first, _joined(Concrete(source), last) + 1):
        for edit in _edits_of_line(source.lines[line - 1], path, line, code):
            try:
                after = of_text(source.path, apply_edits(source.text, (edit,)))
            except UnreadableError:
                continue
            if any(_hiding(Concrete(after), code, line, line)):
                return edit
    return None


def _edits_of_line(text: str, path: str, line: int, code: str) -> Iterator[Edit]:
    """What may do, as far as the text of the line tells; what looks like a comment may stand in quotes."""
    for there in NOQA.finditer(text):
        if there["codes"]:
            column = there.end("codes") + 1
            yield Edit(path, line, column, line, column, f", {code}")
    yield Edit(path, line, len(text.rstrip()) + 1, line, len(text) + 1, f"  # noqa: {code}")


def _hiding(concrete: Concrete, code: str, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Each `# noqa` on the lines, or behind those that they go on with after a backslash, that hides a rule: where it
    stands, and the prefix of the rule's code that it names; empty if it names none."""
    last = _joined(concrete, last)
    if not any("noqa" in text.lower() for text in concrete.source.lines[first - 1 : last]):
        return
    for line, comment in concrete.comments_on(first, last):
        for prefix in _named(comment):
            if code.startswith(prefix):
                yield line, prefix


def _joined(concrete: Concrete, line: int) -> int:
    """The last of the lines that a backslash makes one with this one: only there a comment can stand."""
    lines = concrete.source.lines
    while line < len(lines) and lines[line - 1].endswith("\\") and not any(concrete.comments_on(line, line)):
        line += 1
    return line


def _codes_named(text: str, family: str) -> Iterator[tuple[int, str]]:
    """Every code of a family that a `# noqa` of the file names, with its line."""
    if "noqa" in text.lower() and family.lower() in text.lower():
        for line, comment in comments(text, 1):
            yield from ((line, code) for code in _named(comment) if re.fullmatch(rf"{family}\d*", code))


def _named(comment: str) -> tuple[str, ...]:
    """What a `# noqa` names, upper-case; the empty code if it names nothing; nothing if it is none."""
    match = NOQA.search(comment)
    if match is None:
        return ()
    return tuple(re.split(r"[\s,]+", match["codes"].upper())) if match["codes"] else ("",)


class _Innermost:
    """The smallest statement around a line."""

    def __init__(self, tree: ast.Module) -> None:
        found = (node for node in ast.walk(tree) if isinstance(node, ast.stmt))
        self._spans = [(node.lineno, node.end_lineno or node.lineno, node) for node in found]

    def __call__(self, line: int) -> ast.stmt | None:
        around = [(first, -last, node) for first, last, node in self._spans if first <= line <= last]
        return max(around, key=lambda span: span[:2])[2] if around else None
