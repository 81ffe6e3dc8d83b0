"""Sources as they would be, laid over the files: what is imported is the text, and no file is touched."""

from __future__ import annotations

import importlib.machinery
import io
import linecache
import os
from collections.abc import Mapping
from types import CodeType
from typing import Any


def install(sources: Mapping[str, str]) -> None:
    """From here on importing one of these files, by absolute path, gives the text in place of what stands on disk.

    Names, packages and `__file__` stay what they are, and so do the lines that `inspect` and Dynamo show. Bytecode on
    disk is neither read nor written for them. It holds for the rest of the process.
    """
    texts = {os.path.realpath(path): text for path, text in sources.items()}
    if not texts:
        return
    loader: Any = importlib.machinery.SourceFileLoader
    from_disk = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        text = texts.get(os.path.realpath(path))
        if text is None:
            code: CodeType | None = from_disk(self, fullname)
            return code
        lines = io.StringIO(text).readlines()
        linecache.cache[path] = (len(text), None, lines, path)  # no time: it is never held against the file
        return self.source_to_code(text, path)

    loader.get_code = get_code
