"""Wrap new lines that are too long, in the style of Black and of Ruff's formatter."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tcready.schema.edit import Edit
from tcready.schema.enums import lines_of
from tcready.source.edits import apply_edits

OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = frozenset(OPENING.values())
SKIPPED = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
STATEMENTS = frozenset({"return", "if", "elif", "while", "assert", "yield", "await"})
UNPARENTHESISED = frozenset("def class with async import from lambda del global raise".split())
"""Statements that are split in existing brackets, and get no parentheses."""
COMMA, COMPREHENSION, TERNARY, LOGIC, COMPARISON, ARITHMETIC = 18, 20, 16, 14, 10, 5
BINARY = {"|": 9, "^": 8, "&": 7, "<<": 6, ">>": 6, "+": 5, "-": 5, "*": 4, "/": 4, "//": 4, "%": 4, "@": 4}
"""Priorities of delimiters: a line is split at those with the highest."""


@dataclass(frozen=True)
class Token:
    text: str
    space: bool
    """A space precedes it."""


def wrap(before: str, after: str, limit: int, step: str) -> str:
    """Return the changed text of a file with new lines wrapped that are longer than `limit`; lines of `before` are
    kept. `step` is one level of indentation. Lines that cannot be wrapped stay long."""
    known = frozenset(lines_of(before))
    lines = lines_of(after)
    long = {n for n, line in enumerate(lines, 1) if len(line) > limit and line not in known}
    if not long:
        return after
    line_end = "\r\n" if "\r\n" in after else "\n"
    edits: list[Edit] = []
    for first, last, tokens in _logical_lines(after):
        if long.isdisjoint(range(first, last + 1)):
            continue
        indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
        new = LineLayout(limit, step).statement(tokens, indent)
        edits.append(Edit("", first, 1, last, len(lines[last - 1]) + 1, line_end.join(new)))
    text = apply_edits(after, edits)
    return text if ast.dump(ast.parse(text)) == ast.dump(ast.parse(after)) else after


def _logical_lines(text: str) -> Iterator[tuple[int, int, list[Token]]]:
    """Yield the first and last line, and the tokens, of each statement or header without comments and multi-line
    strings."""
    found: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            is_plain = not any(each.type == tokenize.COMMENT or (each.start[0] != each.end[0]) for each in found)
            if found and is_plain:
                yield found[0].start[0], found[-1].end[0], _flat(found)
            found = []
        elif token.type not in SKIPPED and (found or token.type != tokenize.COMMENT):
            found.append(token)


def _flat(found: Sequence[tokenize.TokenInfo]) -> list[Token]:
    """Return the tokens on one line."""
    made: list[Token] = []
    for last, token in zip((None, *found), found, strict=False):
        if last is None:
            made.append(Token(token.string, False))
        elif last.end[0] == token.start[0]:
            made.append(Token(token.string, last.end[1] < token.start[1]))
        else:
            if token.string in CLOSING and last.string == "," and not _is_needed(made):
                made.pop()
            made.append(Token(token.string, not (made[-1].text in OPENING or token.string in (*CLOSING, "."))))
    return made


def _is_needed(tokens: Sequence[Token]) -> bool:
    """Return True if the comma at the end makes a tuple: it is the only one in its brackets, and these are not a
    call."""
    depth = 0
    for number in range(len(tokens) - 2, -1, -1):
        text = tokens[number].text
        depth += (text in CLOSING) - (text in OPENING)
        if depth < 0:
            return text == "[" or number == 0 or not _is_operand(tokens[number - 1])
        if depth == 0 and text == ",":
            return False
    return True


def _is_operand(token: Token) -> bool:
    """Return True if an operator after it has it as its left side."""
    text = token.text
    if text in CLOSING or text in ("True", "False", "None"):
        return True
    return (text[0].isalnum() or text[0] in "_\"'." or not text.isascii()) and not keyword.iskeyword(text)


@dataclass(frozen=True)
class LineLayout:
    limit: int
    step: str

    def fits(self, tokens: Sequence[Token], indent: str) -> bool:
        return len(indent) + len(_text(tokens)) <= self.limit

    def statement(self, tokens: Sequence[Token], indent: str) -> list[str]:
        """Return the lines of a statement or of a header."""
        if self.fits(tokens, indent):
            return [indent + _text(tokens)]
        begin, end = self.value(tokens, indent)
        found = _delimiters(tokens[begin:end])
        opened = _opening(tokens, end - 1)
        if not begin or opened == begin or not found:
            return self.part(tokens, indent, end)
        if len(found) == 1 and COMMA not in found.values():
            closed = _closing(tokens, begin)
            if closed is not None and self.fits([Token(")", False), *tokens[closed + 1 :]], indent):
                return self.split(tokens, indent, begin, closed)
            if opened is not None and opened < end - 2 and self.fits(tokens[: opened + 1], indent):
                return self.part(tokens, indent, end)
        head = [*tokens[:begin], Token("(", tokens[begin].space)]
        return [
            indent + _text(head),
            *self.body(_first(tokens[begin:end]), indent + self.step, one_line=COMMA not in found.values()),
            indent + _text([Token(")", False), *tokens[end:]]),
        ]

    def value(self, tokens: Sequence[Token], indent: str) -> tuple[int, int]:
        """Return begin and end of the part that may be put in parentheses: the value of a statement, or the test of
        a header."""
        end = len(tokens) - (tokens[-1].text == ":")
        first = tokens[0].text
        if first in UNPARENTHESISED:
            return 0, end
        begin = 1 if first in STATEMENTS else 0
        depth = 0
        for number, token in enumerate(tokens[:end]):
            depth += (token.text in OPENING) - (token.text in CLOSING)
            if depth:
                continue
            if first == "for" and token.text == "in":
                return number + 1, end
            if first == "assert" and token.text == ",":
                fits = self.fits([*tokens[: number + 1], Token("(", True)], indent)
                return (number + 1, end) if fits else (1, number)
            if token.text == "=" or (token.text[-1] == "=" and token.text[:-1] in {*BINARY, "**"}):
                begin = number + 1
        return begin, end

    def part(self, tokens: Sequence[Token], indent: str, end: int | None = None) -> list[str]:
        """Return the lines of tokens split inside of brackets: the last that close before `end`, or earlier ones if
        the text before them is too long."""
        if self.fits(tokens, indent):
            return [indent + _text(tokens)]
        end = len(tokens) - (tokens[-1].text in (",", ":")) if end is None else end
        closed = end - 1
        chosen: tuple[int, int] | None = None
        while (opened := _opening(tokens, closed)) is not None:
            if opened < closed - 1:
                chosen = opened, closed
                if self.fits(tokens[: opened + 1], indent):
                    break
            closed = opened - 1
            while closed > 0 and (tokens[closed].text == "." or _is_name(tokens[closed])):
                closed -= 1
        return [indent + _text(tokens)] if chosen is None else self.split(tokens, indent, *chosen)

    def split(self, tokens: Sequence[Token], indent: str, opened: int, closed: int) -> list[str]:
        """Return the lines of tokens with the inside of a pair of brackets on its own lines."""
        return [
            indent + _text(tokens[: opened + 1]),
            *self.body(_first(tokens[opened + 1 : closed]), indent + self.step),
            indent + _text(_first(tokens[closed:])),
        ]

    def body(self, tokens: Sequence[Token], indent: str, *, one_line: bool = True) -> list[str]:
        """Return the lines of the inside of brackets; one line if it fits and that is allowed."""
        if one_line and self.fits(tokens, indent):
            return [indent + _text(tokens)]
        found = _delimiters(tokens)
        if not found:
            return self.part(tokens, indent)
        most = max(found.values())
        made: list[str] = []
        begin = 0
        for place in [*(each for each, priority in found.items() if priority == most), len(tokens)]:
            stop = place + 1 if most == COMMA and place < len(tokens) else place
            piece = list(tokens[begin:stop])
            if piece:
                piece = _first(piece)
                if most == COMMA and piece[-1].text != ",":
                    piece.append(Token(",", False))
                is_whole = len(piece) == len(tokens) or most == COMMA
                made += self.part(piece, indent) if is_whole else self.body(piece, indent)
            begin = stop
        return made


def _text(tokens: Sequence[Token]) -> str:
    return "".join(f"{' ' if each.space and number else ''}{each.text}" for number, each in enumerate(tokens))


def _first(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens at the beginning of a line."""
    return [replace(tokens[0], space=False), *tokens[1:]]


def _is_name(token: Token) -> bool:
    return token.text.isidentifier() and not keyword.iskeyword(token.text)


def _opening(tokens: Sequence[Token], closing: int) -> int | None:
    """Return the position of the bracket that this one closes; None if there is none."""
    if tokens[closing].text not in CLOSING:
        return None
    depth = 0
    for number in range(closing, -1, -1):
        depth += (tokens[number].text in CLOSING) - (tokens[number].text in OPENING)
        if depth == 0:
            return number
    return None


def _closing(tokens: Sequence[Token], opening: int) -> int | None:
    """Return the position of the bracket that closes this one; None if there is none."""
    if tokens[opening].text not in OPENING:
        return None
    return next(n for n in range(opening, len(tokens)) if _opening(tokens, n) == opening)


def _delimiters(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the priority of each position, outside of brackets, at which a line may be split: before an operator,
    after a comma."""
    found: dict[int, int] = {}
    depth, looped, pending, in_lambda = 0, False, False, False
    for number, token in enumerate(tokens):
        text = token.text
        depth += (text in OPENING) - (text in CLOSING)
        if depth or text in CLOSING or number == 0:
            if number == 0:
                in_lambda, looped, pending = text == "lambda", text == "for", text == "for"
            continue
        behind = _is_operand(tokens[number - 1])
        following = tokens[number + 1].text if number + 1 < len(tokens) else ""
        if text == ",":
            found[number] = COMMA
            in_lambda = False
        elif text == "lambda":
            in_lambda = True
        elif in_lambda:
            continue
        elif text == "for" and behind:
            found[number], looped, pending = COMPREHENSION, True, True
        elif text == "in" and pending:
            pending = False
        elif text in ("if", "else"):
            found[number] = COMPREHENSION if looped and text == "if" else TERNARY
        elif text in ("and", "or"):
            found[number] = LOGIC
        elif behind and (text in ("<", ">", "==", "!=", "<=", ">=", "in", "is") or (text, following) == ("not", "in")):
            found[number] = COMPARISON
        elif behind and text in BINARY:
            found[number] = BINARY[text]
    # the trailing comma separates nothing
    if len(tokens) - 1 in found and list(found.values()).count(COMMA) == 1:
        del found[len(tokens) - 1]
    return found
