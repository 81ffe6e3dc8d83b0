"""Replace files by changed sources on import, without touching the files."""

from __future__ import annotations

import ast
import gc
import importlib.machinery
import io
import linecache
import os
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any

Mark = Callable[[str, ast.Module], ast.Module]
"""Returns the tree of a file, given its path, with added calls that record what is run."""


class Overlay:
    """The texts that imports use in place of the files on disk, for the rest of the process.

    Names, packages and `__file__` do not change, nor do the lines that `inspect` and Dynamo show. Bytecode on disk is
    neither read nor written for these modules.
    """

    def __init__(self, sources: Mapping[str, str], mark: Mark | None = None) -> None:
        """`sources`: text by absolute path. `mark` is called for the tree of each imported file, until `unmark`."""
        self._texts = {os.path.realpath(path): (path, text) for path, text in sources.items()}
        self._mark = mark
        self._plain: dict[CodeType, CodeType] = {}
        """Maps marked code to the same code without marks."""
        if self._texts:
            self._install()

    def _install(self) -> None:
        loader: Any = importlib.machinery.SourceFileLoader
        from_disk = loader.get_code

        def get_code(of: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
            path = of.get_filename(fullname)
            found = self._texts.get(os.path.realpath(path))
            if found is None:
                code: CodeType | None = from_disk(of, fullname)
                return code
            given, text = found
            lines = io.StringIO(text).readlines()
            linecache.cache[path] = (len(text), None, lines, path)  # no time: it is never compared with the file
            plain: CodeType = of.source_to_code(text, path)
            if self._mark is None:
                return plain
            marked: CodeType = of.source_to_code(self._mark(given, ast.parse(text)), path)
            self._note(marked, plain)
            return marked

        loader.get_code = get_code

    def _note(self, marked: CodeType, plain: CodeType) -> None:
        self._plain[marked] = plain
        inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (marked, plain)]
        for one, other in zip(*inner, strict=False):
            if one.co_name == other.co_name and one.co_freevars == other.co_freevars:
                self._note(one, other)

    def unmark(self) -> None:
        """From now on, run the code of the text in every function."""
        self._mark = None
        for each in gc.get_objects() if self._plain else ():
            if type(each) is FunctionType and each.__code__ in self._plain:  # a weak proxy says it is one
                each.__code__ = self._plain[each.__code__]
        self._plain.clear()
