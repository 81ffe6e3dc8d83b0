"""Reading sources: what was declared is what is decoded, and positions count characters."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tcready.static.frontend.interpreter_settings import SHARED
from tcready.static.frontend.source import Source, UnreadableError, of_text, read


def _read(folder: Path, data: bytes, name: str = "x.py") -> Source:
    path = folder / name
    path.write_bytes(data)
    return read(path)


def _words(source: Source) -> dict[str, tuple[int, int]]:
    """Line and column, 1-based, of every name and string."""
    return {
        ast.unparse(node): (node.lineno, source.column(node.lineno, node.col_offset))
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.Name, ast.Constant))
    }


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"# coding: latin-1\nx = '\xe9'\n", "é"),
        (b"#!/bin/sh\n# -*- coding: cp1252 -*-\nx = '\x80'\n", "€"),
        ("\ufeffx = 'é'\n".encode(), "é"),
        ("x = 'é'\n".encode(), "é"),
        ("# coding: utf-8\nx = '漢'\n".encode(), "漢"),
        (b"# coding: utf-7\nx = '+AOk-'\n", "é"),
    ],
)
def test_decodes_as_declared(data: bytes, text: str, tmp_path: Path) -> None:
    source = _read(tmp_path, data)
    assert repr(text) in _words(source)
    assert source.sha256 == hashlib.sha256(data).hexdigest()
    assert not source.text.startswith("\ufeff")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"x = '\xe9'\n", "cannot be decoded: "),
        ("x = 1\n".encode("utf-16"), "cannot be decoded: "),
        (b"# coding: no-such-encoding\nx = 1\n", "cannot be decoded: unknown encoding: no-such-encoding"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "cannot be decoded: "),
        (b"# coding: base64\n", "cannot be decoded: "),
        (b"# coding: rot13\nx = 1\n", "cannot be decoded: "),
        (b"# coding: zlib\n", "cannot be decoded: "),
        (b"# coding: undefined\n", "cannot be decoded: "),
        (b"# coding: punycode\nx = 1-\xff\n", "cannot be decoded: "),
        (b"x = 1\nif:\n", "syntax error in line 2: "),
        (b"x = 'a\n", "syntax error in line 1: "),
        (b"def f():\nreturn\n", "syntax error in line 2: "),
        (b"print 'python 2'\n", "syntax error in line 1: "),
        (b"return = 1\n", "syntax error in line 1: "),
        (b"x = 1\0\n", ""),
        (b"x = " + b"(" * 5000 + b")" * 5000, ""),
        (b"x = " + b"-" * 100_000 + b"1", ""),
    ],
)
def test_what_cannot_be_read_says_why_in_one_line(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as raised:
        _read(tmp_path, data)
    assert str(raised.value).startswith(reason)
    assert "\n" not in str(raised.value)
    assert str(raised.value)


def test_a_folder_called_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.py").mkdir()
    with pytest.raises(UnreadableError, match="cannot be read: Is a directory"):
        read(tmp_path / "x.py")


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="cannot be read: No such file"):
        read(tmp_path / "x.py")


def test_a_file_without_permission(tmp_path: Path) -> None:
    if os.name != "posix" or os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "x.py"
    path.write_text("x = 1\n", encoding="utf-8")
    path.chmod(0)
    with pytest.raises(UnreadableError, match="cannot be read: Permission denied"):
        read(path)


@pytest.mark.parametrize("data", [b"", b"\n", b"# nothing\n", b"\xef\xbb\xbf", b"\x0c\n"])
def test_a_file_without_statements(data: bytes, tmp_path: Path) -> None:
    assert _read(tmp_path, data).tree.body == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_where_python_ends_them(end: str, tmp_path: Path) -> None:
    text = end.join(["a = 'p\\", "q'", "b = 'u\u2028v\x0cw\x85'", "\x0cc = d", "e = '''f", "g'''; h = 1", ""])
    source = _read(tmp_path, text.encode())
    words = _words(source)
    assert {name: words[name] for name in "abceh"} == {"a": (1, 1), "b": (3, 1), "c": (4, 2), "e": (5, 1), "h": (6, 7)}
    assert source.lines[2] == "b = 'u\u2028v\x0cw\x85'"
    for name, (line, column) in words.items():
        if name.isidentifier():
            start = source.offset(line, column)
            assert source.text[start : start + len(name)] == name


def test_columns_count_characters(tmp_path: Path) -> None:
    source = _read(tmp_path, "x = '漢字', a\ny = '🎉é', b; ñ = c\n".encode())
    words = _words(source)
    assert words["a"] == (1, 11)
    assert words["b"] == (2, 11)
    assert words["ñ"] == (2, 14)
    assert words["c"] == (2, 18)
    for name in "abc":
        line, column = words[name]
        assert source.lines[line - 1][column - 1] == name
        assert source.text[source.offset(line, column)] == name


def test_warnings_about_somebodys_source_stay_silent(tmp_path: Path) -> None:
    """In an interpreter that makes warnings errors and in one that prints them."""
    path = tmp_path / "x.py"
    path.write_text("x = '\\d' if 1 is 1 else 1or 2\nassert (x, 'y')\n", encoding="utf-8")
    script = "import sys, pathlib; from tcready.static.frontend.source import read; read(pathlib.Path(sys.argv[1]))"
    for option in ("error", "always"):
        done = subprocess.run(
            [sys.executable, "-W", option, "-c", script, str(path)], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_reading_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    _read(tmp_path, f"open({str(mark)!r}, 'w')\nraise SystemExit\n".encode())
    assert not mark.exists()


def test_classes_are_found_wherever_statements_stand(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(
        dedent("""\
            class A:
                class B: pass
            def f():
                if 1:
                    class C: pass
                else:
                    class D: pass
                try:
                    class E: pass
                except E:
                    class F: pass
                finally:
                    class G: pass
                with f(), f() as x:
                    for y in x:
                        class H: pass
                match x:
                    case 1:
                        class I: pass
        """)
    )
    found = read(path)
    assert [each.name for each in found.classes] == [
        each.name for each in ast.walk(found.tree) if isinstance(each, ast.ClassDef)
    ]
    assert {each.name for each in found.classes} == set("ABCDEFGHI")


def test_what_a_reading_takes_is_taken_by_whoever_asks() -> None:
    """`fix` reads the text again, after the reading. How deep Python's parser goes depends on its version."""

    def parses() -> bool:
        try:
            of_text(Path("deep.py"), "LIMIT = " + "-" * 3000 + "1\n")
        except UnreadableError:
            return False
        return True

    with SHARED.reading():
        inside = parses()
    assert parses() == inside
