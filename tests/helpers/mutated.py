"""Real sources, notebooks, reports and traces with parts lost, doubled, moved or made up, and what must hold of each.

A case is a kind and a number: the same number makes the same case, from the same files. `wrong_with_case` carries one out
and gives what is wrong. The tests do a few of each kind, benchmarks/mutations.py as many as there is time for.
"""

from __future__ import annotations

import ast
import copy
import gzip
import io
import json
import random
import re
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tcready import api
from tcready.pipeline import report_loading
from tcready.pipeline.registry import rule_set
from tcready.portable.options import ReadOptions
from tcready.reports import FORMATS
from tcready.schema.codec import as_json
from tcready.schema.enums import TcreadyError
from tcready.schema.observation import Observation
from tcready.schema.report import Report
from tcready.static import driver
from tcready.static.session import Session
from tcready.static.units import Unit

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"
ROUNDS = 6
"""A file is changed so often at most until nothing is left to change."""
EDITS = 6
"""Edits in a row of one file that is open."""
MOVING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a text for people shows spelled out."""
FOR_PEOPLE = ("text", "concise", "markdown")
NAMES = ("é", "x\u0301", "名", "\U0001d501", "self", "_", "torch", "item", "x" * 3000)
TEXTS = (
    "'\\N{DASH}'",
    "'''\n'''",
    "f'{x!r:>{n}}'",
    "b'\\xff'",
    "'\ud7ff'",
    "rb''",
    "f'{'",
    "0" * 4400,
    "1_000j",
    "...",
)
COMMENTS = (
    "# noqa",
    "# noqa:",
    "# noqa: TCR",
    "# noqa: TCR201,TCR999 , ,",
    "#noqa:tcr101",
    "# NOQA : TCR3",
    "# noqa: \x0c",
)
PLANTED = ("", "\0", "\n", "\r\nx", "\x1b[2J\x1b]0;x\x07", "\u202e", "\ud800", "<script>alert(1)</script>", "%0A::error::",
           "../../x.py", "/etc/passwd", "a" * 5000, "[link](javascript:x)", "```", "]]>", "&#x0;", "C:\\x", "{path}")  # fmt: skip
NUMBERS = (-1, 0, 1, 2**31, 2**63, -(2**70), 10**400, 1e308, float("nan"), float("inf"), 0.1, True, None)


@dataclass(frozen=True)
class Corpus:
    """What is mutated; `more` are folders of other people's sources."""

    more: tuple[Path, ...] = ()


# sources


@cache
def sources(more: tuple[Path, ...] = ()) -> tuple[str, ...]:
    """The fixture models, the constructs, and every file of `more` that names torch and is no larger than 60 KB."""
    paths = sorted((FIXTURES / "models").rglob("*.py")) + sorted((FIXTURES / "tricky").glob("*.py"))
    paths += sorted((FIXTURES / "constructs").glob("*.py"))
    found = [path.read_text(encoding="utf-8") for path in paths]
    for folder in more:
        for path in sorted(folder.rglob("*.py")):
            if path.stat().st_size <= 60_000:
                text = path.read_text(encoding="utf-8", errors="replace")
                found += [text] if "torch" in text else []
    return tuple(found)


def tokens_of(text: str) -> list[str]:
    """The text in pieces that give it again: its tokens, and what stands between them."""
    pieces: list[str] = []
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    at = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            begin = starts[min(token.start[0] - 1, len(starts) - 1)] + token.start[1]
            end = starts[min(token.end[0] - 1, len(starts) - 1)] + token.end[1]
            if begin < at or end <= begin:
                continue
            pieces += [text[at:begin], text[begin:end]]
            at = end
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return [piece for piece in (*pieces, text[at:]) if piece]


def mutated_source(number: int, more: tuple[Path, ...] = ()) -> str:
    """A source in which a few things were changed; half of these still parse."""
    choose = random.Random(f"source {number}")
    text = choose.choice(sources(more))
    for _ in range(choose.choice((1, 1, 2, 5))):
        text = choose.choice((_lost, _doubled, _swapped, _taken_over, _indented, _named, _nested, _line_moved, _commented))(
            text, choose
        )  # fmt: skip
    return text


def _place(pieces: Sequence[str], choose: random.Random) -> int:
    """A piece that is more than space, if there is one."""
    solid = [at for at, piece in enumerate(pieces) if piece.strip()]
    return choose.choice(solid) if solid else 0


def _lost(text: str, choose: random.Random) -> str:
    pieces = tokens_of(text)
    at = _place(pieces, choose)
    return "".join(pieces[:at] + pieces[at + choose.choice((1, 1, 3, 30)) :])


def _doubled(text: str, choose: random.Random) -> str:
    pieces = tokens_of(text)
    at = _place(pieces, choose)
    some = pieces[at : at + choose.choice((1, 1, 4, 40))]
    return "".join(pieces[:at] + some + [" "] + some + pieces[at + len(some) :])


def _swapped(text: str, choose: random.Random) -> str:
    pieces = tokens_of(text)
    if not pieces:
        return text
    one, other = _place(pieces, choose), _place(pieces, choose)
    pieces[one], pieces[other] = pieces[other], pieces[one]
    return "".join(pieces)


def _taken_over(text: str, choose: random.Random) -> str:
    """A name or word put where another one stands: this mostly parses."""
    pieces = tokens_of(text)
    words = [at for at, piece in enumerate(pieces) if piece.isidentifier()]
    if len(words) > 1:
        pieces[choose.choice(words)] = pieces[choose.choice(words)]
    return "".join(pieces)


def _indented(text: str, choose: random.Random) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = choose.randrange(len(lines))
    by = choose.choice((" ", "    ", "\t", "  \t", -2, -4))
    for number in range(at, min(at + choose.choice((1, 3, 20)), len(lines))):
        lines[number] = lines[number][-by:] if isinstance(by, int) else by + lines[number]
    return "".join(lines)


def _named(text: str, choose: random.Random) -> str:
    pieces = tokens_of(text)
    if pieces:
        pieces[_place(pieces, choose)] = choose.choice((*NAMES, *TEXTS))
    return "".join(pieces)


def _nested(text: str, choose: random.Random) -> str:
    """An expression wrapped again and again, up to far beyond what Python reads."""
    pieces = tokens_of(text)
    words = [at for at, piece in enumerate(pieces) if piece.isidentifier()]
    if not words:
        return text
    at, depth = choose.choice(words), choose.choice((5, 40, 90, 199, 1000, 9000))
    before, after = choose.choice((("(", ")"), ("[", "]"), ("-", ""), ("not ", ""), ("F.relu(", ")"), ("", ".abs()"), ("", "[0]"), ("lambda: ", "")))  # fmt: skip
    pieces[at] = before * depth + pieces[at] + after * depth
    return "".join(pieces)


def _line_moved(text: str, choose: random.Random) -> str:
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(choose.randrange(len(lines)))
    lines.insert(choose.randint(0, len(lines)), line)
    return "".join(lines)


def _commented(text: str, choose: random.Random) -> str:
    """Comments that silence something, in all spellings."""
    lines = text.splitlines() or [""]
    for _ in range(choose.choice((1, 4, 12))):
        at = choose.randrange(len(lines))
        lines[at] += "  " + choose.choice(COMMENTS)
    return "\n".join(lines) + "\n"


def _line_put(text: str, choose: random.Random) -> str:
    """What somebody types: a statement in a function, a class or a module, or one that becomes `pass`."""
    nodes = list(ast.walk(ast.parse(text)))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    owners = [*functions, *(node for node in nodes if isinstance(node, ast.ClassDef))]
    lines = text.splitlines(keepends=True)
    if not functions or choose.random() < 0.15:
        lines += [
            choose.choice(("\nLIMIT = 0\n", "\ntorch = None\n", "\ndef scaled(x): return x.item()\n", "\n# done\n"))
        ]
        return "".join(lines)
    owner = choose.choice(owners)
    statement = choose.choice(owner.body)
    above = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))]) - 1
    margin = " " * statement.col_offset
    if choose.random() < 0.3:
        return "".join([*lines[:above], f"{margin}pass\n", *lines[statement.end_lineno :]])
    name = "self"
    if isinstance(owner, ast.FunctionDef):
        name = choose.choice([each.arg for each in owner.args.args] or ["self"])
    typed = choose.choice(
        ("width = 0", "{0}.item()", "{0} = {0}", "self.kept = {0}", "if {0}: print({0})", "import math", "# {0}", "")
    )
    return "".join([*lines[:above], margin + typed.format(name) + "\n", *lines[above:]])


def _number_changed(text: str, choose: random.Random) -> str:
    """A number or a bool that is another one: what a function does may change with it."""
    pieces = tokens_of(text)
    found = [at for at, piece in enumerate(pieces) if piece.isdigit() or piece in ("True", "False", "None")]
    if found:
        pieces[choose.choice(found)] = choose.choice(("0", "1", "2", "True", "False", "None"))
    return "".join(pieces)


def parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


# what is done with one case


def _read(path: Path, root: Path) -> Any:
    options = ReadOptions(root=root, mode=None, low=True, search_path=(root,))
    return driver.read([str(path)], options, rule_set()).result


def check_source(number: int, folder: Path, corpus: Corpus) -> Iterator[str]:
    """Read without raising, twice with the same result; what this Python reads is read."""
    text = mutated_source(number, corpus.more)
    path = folder / "model.py"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    first = json.dumps(as_json(_read(path, folder)))
    if first != json.dumps(as_json(_read(path, folder))):
        yield "another result the second time"
    if parses(text) and json.loads(first)["skipped"]:
        yield f"skipped, though this Python reads it: {json.loads(first)['skipped']}"


def check_silenced(number: int, folder: Path, corpus: Corpus) -> Iterator[str]:
    """A bare `# noqa` on the lines of a finding hides it, and no finding of another line."""
    choose = random.Random(f"silenced {number}")
    text = mutated_source(number, corpus.more)
    path = folder / "model.py"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    if not parses(text):
        return
    before = _read(path, folder)
    own = [found for found in before.findings if found.path == "model.py"]
    if not own:
        return
    wanted = choose.choice(own)
    lines = re.split(r"\r\n|\r|\n", text)
    line = lines[wanted.end_line - 1]
    if "#" in line or line.rstrip().endswith("\\") or "\x0c" in line:
        return
    lines[wanted.end_line - 1] = line + "  # noqa"
    silenced = "\n".join(lines)
    try:
        if not parses(silenced) or ast.dump(ast.parse(silenced)) != ast.dump(ast.parse(text)):
            return  # the comment stands inside of a text
    except RecursionError:
        return  # `ast.dump` of Python 3.12 does not go as deep as its parser
    path.write_bytes(silenced.encode("utf-8", "surrogatepass"))
    after = {
        (found.rule, found.line, found.column) for found in _read(path, folder).findings if found.path == "model.py"
    }
    if (wanted.rule, wanted.line, wanted.column) in after:
        yield f"{wanted.rule} at line {wanted.line} is still told"
    gone = {
        (found.rule, found.line, found.column)
        for found in own
        if not found.line <= wanted.end_line <= found.end_line and not wanted.line <= found.line <= wanted.end_line
    } - after
    if gone:
        yield f"findings of other lines are gone: {sorted(gone)[:3]}"


def check_edit(number: int, folder: Path, corpus: Corpus) -> Iterator[str]:
    """A file that is open and edited again and again is read each time as if it had just been opened."""
    choose = random.Random(f"edit {number}")
    text = choose.choice(sources(corpus.more))
    path = folder / "model.py"
    options = ReadOptions(root=folder, mode=choose.choice((None, None, "both")), search_path=(folder,))
    unit = Unit("model.py", path, None)

    def read(session: Session, now: str) -> str:
        return json.dumps(as_json(session.check([unit], {path: now}).result))

    opened = Session(options, rule_set())
    read(opened, text)
    for _ in range(EDITS):
        edit = choose.choice((_line_put, _line_put, _number_changed, _taken_over, _line_moved, _doubled, _lost))
        now = edit(text, choose)
        if not parses(now):
            continue
        if read(opened, now) != read(Session(options, rule_set()), now):
            yield f"another result after {edit.__name__} than when it is opened so"
        if choose.random() < 0.7:
            text = now


def check_fix(number: int, folder: Path, corpus: Corpus) -> Iterator[str]:
    """What is written parses, and after a few rounds nothing is left to write."""
    text = mutated_source(number, corpus.more)
    if not parses(text):
        text = random.Random(f"fix {number}").choice(sources(corpus.more))
    path = folder / "model.py"
    seen = {text}
    for round_ in range(ROUNDS):
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        fixed = api.fix("model.py", root=folder, unsafe=True)
        if not fixed.files:
            return
        after = fixed.files[0].after
        if not parses(after):
            yield f"what is written in round {round_ + 1} does not parse:\n{fixed.result.patch}"
            return
        if after in seen:
            yield f"round {round_ + 1} writes what stood there before:\n{fixed.result.patch}"
            return
        seen.add(after)
        text = after
    yield f"after {ROUNDS} rounds there is still something to write:\n{fixed.result.patch}"


MAGICS = ("%matplotlib inline", "!ls {x}", "%%bash\nls", "?torch", "x = !ls", "%%time", "In [1]: x", ">>> x\n... y", "/f x", ",f a b", "%%writefile x")  # fmt: skip


def check_notebook(number: int, folder: Path, corpus: Corpus) -> Iterator[str]:
    """A notebook of mutated code, of odd cells, or of damaged JSON is read without raising, twice with the same result."""
    choose = random.Random(f"notebook {number}")
    text = mutated_source(number, corpus.more)
    lines = text.splitlines(keepends=True)
    cuts = sorted(choose.sample(range(len(lines) + 1), min(choose.choice((1, 3, 8)), len(lines) + 1)))
    cells: list[dict[str, Any]] = []
    for start, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        code: Any = "".join(lines[start:end])
        code = code.splitlines(keepends=True) if choose.random() < 0.5 else code
        cells.append({"cell_type": "code", "metadata": {}, "source": code, "outputs": [], "execution_count": None, "id": str(start)})  # fmt: skip
        if choose.random() < 0.3:
            cells.append({**cells[-1], "source": choose.choice(MAGICS), "id": f"m{start}"})
    book: Any = {"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    if choose.random() < 0.5:
        book = mutated_value(book, choose)
    data = json.dumps(book).encode()
    if choose.random() < 0.2:
        data = cut(data, choose)
    path = folder / "model.ipynb"
    path.write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = json.dumps(as_json(_read(path, folder)))
        if first != json.dumps(as_json(_read(path, folder))):
            yield "another result the second time"


# reports and traces


@cache
def reports() -> tuple[Any, ...]:
    """Reports and runs, as JSON data: of checks, benches, plans, several processes, a sweep and a serving engine."""
    paths = [
        path
        for folder in ("reports", "cuda", "cuda/several", "mutated")
        for path in sorted((FIXTURES / folder).glob("*.json"))
    ]
    return tuple(json.loads(path.read_text(encoding="utf-8")) for path in paths)


def cut(data: bytes, choose: random.Random) -> bytes:
    """Truncated, or with bytes lost, doubled or changed."""
    action, at = choose.randrange(4), choose.randrange(len(data) + 1)
    end = min(at + choose.choice((1, 3, 50, 5000)), len(data))
    if action == 0:
        return data[:at]
    if action == 1:
        return data[:at] + data[end:]
    if action == 2:
        return data[:end] + data[at:]
    return data[:at] + choose.randbytes(end - at) + data[end:]


def mutated_value(value: Any, choose: random.Random, times: int | None = None) -> Any:
    """JSON data in which some values are others: of another type, another value, gone, doubled, nested."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else list(range(len(each))) if isinstance(each, list) else []
        places += [(each, key) for key in keys]
        waiting += [each[key] for key in keys]
    if not places:
        return value
    for _ in range(times or choose.choice((1, 1, 3, 12))):
        holder, key = choose.choice(places)
        try:
            old = holder[key]
        except (LookupError, TypeError):
            continue
        action = choose.randrange(6)
        if action == 0:
            del holder[key]
        elif action == 1:
            holder[key] = choose.choice(PLANTED)
        elif action == 2:
            holder[key] = choose.choice(NUMBERS)
        elif action == 3:
            holder[key] = choose.choice(([], {}, [old], {"a": old}, [old, old], [[]] * 50))
        elif action == 4:
            other, there = choose.choice(places)
            with_value = other[there] if (isinstance(other, dict) and there in other) or (isinstance(other, list) and there < len(other)) else old  # fmt: skip
            holder[key] = copy.deepcopy(with_value)
        elif isinstance(old, str):
            at = choose.randrange(len(old) + 1)
            holder[key] = old[:at] + choose.choice(PLANTED) + old[at:]
        elif isinstance(old, (int, float)) and not isinstance(old, bool):
            holder[key] = old * choose.choice((-1, 0, 1000, 1e9)) if abs(old) < 1e300 else 0
    return value


def other_values(value: Any, choose: random.Random) -> Any:
    """JSON data in which some texts, numbers and lists have another value of their own type: nothing refuses most of it."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        for key in list(each) if isinstance(each, dict) else range(len(each)):
            places.append((each, key))
            if isinstance(each[key], (dict, list)):
                waiting.append(each[key])
    for _ in range(choose.choice((1, 3, 12))):
        holder, key = choose.choice(places)
        old = holder[key]
        if isinstance(old, bool):
            holder[key] = not old
        elif isinstance(old, str):
            holder[key] = choose.choice((old, "")) + choose.choice(PLANTED)
        elif isinstance(old, (int, float)):
            holder[key] = choose.choice([each for each in NUMBERS if type(each) is type(old)])
        elif isinstance(old, list):
            holder[key] = choose.choice(([], [*old, *old]))
    return value


def check_report(number: int, folder: Path, _corpus: Corpus) -> Iterator[str]:
    """A forged or damaged report is refused in one line, or told in every format; what people read moves no cursor."""
    choose = random.Random(f"report {number}")
    value = choose.choice(reports())
    part = choose.choice([None, "sweep", "serving", "parallel", "targets"])
    change = choose.choice((mutated_value, other_values))
    if isinstance(value, dict) and value.get(part):
        value = {**value, part: change(value[part], choose)}
    else:
        value = change(value, choose)
    data = json.dumps(value).encode()
    if choose.random() < 0.1:
        data = cut(data, choose)
    path = folder / "report.json"
    path.write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is made up is full of odd escapes
            found = api.combine([str(path)], root=folder)
    except TcreadyError as error:
        if len(str(error)) > 2000:
            yield f"refused in {len(str(error))} characters"
        return
    yield from told(found, choose.random() < 0.3)
    if found.sweep is not None:
        for name, of_model in api.pages_of_models(found):
            if "/" in name or len(name) > 255:
                yield f"the page of a model is {name!r}"
            api.render(of_model, "html")


def told(found: Report, verbose: bool) -> Iterator[str]:
    """What is wrong with how a report is told in all formats."""
    for name in FORMATS:
        options: dict[str, Any] = {"verbose": verbose, "width": 100} if name == "text" else {}
        text = api.render(found, name, **options)
        if name in FOR_PEOPLE and (moving := MOVING.search(text)):
            around = text[max(moving.start() - 60, 0) : moving.end() + 20]
            yield f"{name} holds {moving[0]!r} in {around!r}"
        if name in ("json", "sarif", "gitlab"):
            json.loads(text)
        if name == "jsonl":
            for line in text.split("\n"):
                json.loads(line or "null")
        try:
            text.encode("utf-8", "backslashreplace")
        except UnicodeError as error:
            yield f"{name} cannot be written: {error}"
    again = report_loading.parse_report(api.render(found, "json"), "again")
    if not isinstance(again, (Report, Observation)):
        yield "its JSON is not read back"


@cache
def traces() -> tuple[tuple[bytes, ...], ...]:
    """The lines of each trace."""
    paths = sorted((FIXTURES / "traces").glob("*/*.log.gz"))
    return tuple(tuple(gzip.decompress(path.read_bytes()).splitlines(keepends=True)) for path in paths)


def check_trace(number: int, folder: Path, _corpus: Corpus) -> Iterator[str]:
    """The trace of a job, damaged or forged, is refused in one line or told."""
    choose = random.Random(f"trace {number}")
    lines = list(choose.choice(traces()))
    for _ in range(choose.choice((1, 5, 50))):
        at = choose.randrange(len(lines))
        head, brace, rest = lines[at].partition(b"{")
        action = choose.randrange(5)
        if action == 0:
            del lines[at : at + choose.choice((1, 1, 20))]
        elif action == 1:
            lines.insert(at, choose.choice(lines))
        elif action == 2:
            lines[at] = cut(lines[at], choose)
        elif brace and not lines[at].startswith(b"\t"):
            try:
                event = json.loads(brace + rest)
            except ValueError:
                continue
            lines[at] = head + json.dumps(mutated_value(event, choose, 2)).encode() + b"\n"
        if not lines:
            return
    data = b"".join(lines)
    if choose.random() < 0.1:
        data = cut(data, choose)
    if choose.random() < 0.2:
        data = gzip.compress(data, 1)
        data = cut(data, choose) if choose.random() < 0.5 else data
    trace = folder / "trace"
    trace.mkdir(exist_ok=True)
    (trace / "dedicated_log_torch_trace_job.log").write_bytes(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = api.check_trace(str(trace), root=folder)
    except TcreadyError as error:
        if len(str(error)) > 2000:
            yield f"refused in {len(str(error))} characters"
        return
    yield from told(found, choose.random() < 0.3)


KINDS: dict[str, Callable[[int, Path, Corpus], Iterator[str]]] = {
    "source": check_source,
    "silenced": check_silenced,
    "edit": check_edit,
    "fix": check_fix,
    "notebook": check_notebook,
    "report": check_report,
    "trace": check_trace,
}


def wrong_with_case(kind: str, number: int, folder: Path, corpus: Corpus) -> list[str]:
    """What is wrong with how one case is taken. What it raises is wrong too, and is left to the caller."""
    return list(KINDS[kind](number, folder, corpus))
