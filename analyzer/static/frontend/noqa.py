"""`# noqa` comments: what they hide, and which of them hide nothing."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tcready.portable.options import ReadOptions
from tcready.schema.display_paths import display_path
from tcready.schema.edit import Edit
from tcready.schema.static import Noqa
from tcready.source.edits import apply_edits
from tcready.static.diagnostics import diagnose
from tcready.static.diagnostics.cst_view import Concrete, comments
from tcready.static.diagnostics.diagnose import Claims, Place
from tcready.static.diagnostics.rule import Rule
from tcready.static.domain.values import Function
from tcready.static.entry_analysis import Entry, Interpretation
from tcready.static.frontend.index import FunctionInfo, Program
from tcready.static.frontend.source import Source, UnreadableError, of_text
from tcready.static.interp.interpreter import Interpreter
from tcready.static.library import torch_versions

NOQA = re.compile(r"#\s*noqa\b(?::\s*(?P<codes>[A-Z]+[0-9]*(?:[\s,]+[A-Z]+[0-9]*)*))?", re.IGNORECASE)


def hidden(interpretation: Interpretation, claims: Claims, root: Path) -> Iterator[tuple[Place, Noqa]]:
    """Return the claims that comments hide, whatever their confidence, each with the comment."""
    for place, judged in claims.by_place.items():
        for line, code in _hiding_comments(interpretation.concrete(place[0]), judged.rule.code, *judged.lines):
            yield place, Noqa(display_path(place[0], str(root)), line, code)


def unused(
    program: Program, entry: Entry, rules: Sequence[Rule], options: ReadOptions, hiding: Sequence[Noqa]
) -> tuple[Noqa, ...]:
    """Return the codes in each `# noqa` of a file that no way to read the file finds; `hiding` is known to hide.

    The file is read again for that: in both modes at once, with all unlikely code, called with its targets and without,
    for every known torch, and each function around such a comment as another caller might call it. Code that the file's
    models do not reach by default is ignored: another caller may reach it.
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
    for torch, plain_call in itertools.product(torch_versions.with_tables(), (False, True)):
        interpreter = Interpreter(program, None, low=True, plain_call=plain_call, walked=walked, torch=torch)
        interpretation = Interpretation(interpreter, [entry])
        for info in functions:
            first, last = info.node.lineno, info.node.end_lineno or info.node.lineno
            if any(first <= noqa.line <= last for noqa in idle):
                interpreter.entries.run_function(Function(info), info)
        claims = diagnose.claims(interpretation, rules, "own")
        if interpretation.warnings or interpreter.cut:
            return ()
        idle -= {noqa for _, noqa in hidden(interpretation, claims, options.root)}
        if not idle:  # no further reading can name one again
            return ()
    innermost = _Innermost(source.tree)
    reached = (noqa for noqa in idle if id(innermost(noqa.line)) in walked)
    return tuple(sorted(reached, key=lambda noqa: (noqa.line, noqa.code)))


def hiding_edit(source: Source, path: str, first: int, last: int, code: str) -> Edit | None:
    """Return the edit by which a comment on one of the lines `first` to `last` hides a rule: a `# noqa` with other codes
    gets its code as well, else a new one ends a line. `path` is the file's name in the edit.

    None if no line can end in a comment: each is inside of a string, or continues after a backslash.
    """
    for line in range(first, _last_joined_line(Concrete(source), last) + 1):
        for edit in _edits_of_line(source.lines[line - 1], path, line, code):
            try:
                after = of_text(source.path, apply_edits(source.text, (edit,)))
            except UnreadableError:
                continue
            if any(_hiding_comments(Concrete(after), code, line, line)):
                return edit
    return None


def _edits_of_line(text: str, path: str, line: int, code: str) -> Iterator[Edit]:
    """Return possible edits, by the text of the line; an apparent comment may be in quotes."""
    for there in NOQA.finditer(text):
        if there["codes"]:
            column = there.end("codes") + 1
            yield Edit(path, line, column, line, column, f", {code}")
    yield Edit(path, line, len(text.rstrip()) + 1, line, len(text) + 1, f"  # noqa: {code}")


def _hiding_comments(concrete: Concrete, code: str, first: int, last: int) -> Iterator[tuple[int, str]]:
    """Return the position of each `# noqa` that hides a rule, on the lines or on those that continue them after a
    backslash, and its prefix of the rule's code; empty if it has none."""
    last = _last_joined_line(concrete, last)
    if not any("noqa" in text.lower() for text in concrete.source.lines[first - 1 : last]):
        return
    for line, comment in concrete.comments_on(first, last):
        for prefix in _codes_in(comment):
            if code.startswith(prefix):
                yield line, prefix


def _last_joined_line(concrete: Concrete, line: int) -> int:
    """Return the last of the lines that backslashes join with this one: only that one can have a comment."""
    lines = concrete.source.lines
    while line < len(lines) and lines[line - 1].endswith("\\") and not any(concrete.comments_on(line, line)):
        line += 1
    return line


def _codes_named(text: str, family: str) -> Iterator[tuple[int, str]]:
    """Yield every code of a family that a `# noqa` of the file names, with its line."""
    if "noqa" in text.lower() and family.lower() in text.lower():
        for line, comment in comments(text, 1):
            yield from ((line, code) for code in _codes_in(comment) if re.fullmatch(rf"{family}\d*", code))


def _codes_in(comment: str) -> tuple[str, ...]:
    """Return the codes of a `# noqa`, upper-case; the empty code if it has none; nothing if it is none."""
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
