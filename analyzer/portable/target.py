"""Parse names of targets: the only code that reads the text of a target, and of `--inputs`.

Standard library and the schema only: the worker includes this file.
"""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import Literal

from tcready.schema.enums import TcreadyError
from tcready.schema.value_class import dataclass

Kind = Literal["path", "module"]
NOTEBOOK = ".ipynb"
PACKAGES = MappingProxyType(
    {"hf": "transformers", "timm": "timm", "torchvision": "torchvision", "diffusers": "diffusers"}
)
"""The package of each library with models that can be named: `hf:bert`."""
FROM_CONFIGURATION = frozenset({"hf", "diffusers"})
"""Libraries that build models from a configuration, so that a small one can be built; the others have functions."""
LIGHTNING = "lightning"
"""Prefix of a LightningModule of the user's own: `lightning:model.py::LitModel`."""


def quote(word: str) -> str:
    """Quote a word for a shell, in double quotes if it contains single ones: `"timm.create_model('resnet18')"`;
    several lines in the form of bash, zsh and ksh, on one line: `$'import os\\nmodel = ...'`."""
    if "\n" in word or "\r" in word or "\t" in word:
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"
    plain = "'" in word and not set('"$`\\!') & set(word)  # easier to read than the quotes of quotes
    return f'"{word}"' if plain else shlex.quote(word)


@dataclass(frozen=True)
class LibraryModel:
    """A model of a library, by name: `timm:resnet18`, `hf:bert`; or one of the user's own, built in the same way."""

    library: str
    """A key of PACKAGES, or LIGHTNING."""
    name: str
    """For LIGHTNING the text of a target."""

    @classmethod
    def parse(cls, text: str) -> LibraryModel | None:
        """Parse a name; None for any other text."""
        prefix, _, rest = text.partition(":")
        if prefix == LIGHTNING and rest and not rest.startswith(":"):
            return cls(prefix, rest)
        return cls(prefix, rest) if prefix in PACKAGES and re.fullmatch(r"[\w./-]+", rest) else None

    @property
    def package(self) -> str:
        """Return the package with the models. Raises KeyError for LIGHTNING."""
        return PACKAGES[self.library]

    @property
    def from_configuration(self) -> bool:
        """Return True if a configuration determines its size."""
        return self.library in FROM_CONFIGURATION

    def __str__(self) -> str:
        return f"{self.library}:{self.name}"


@dataclass(frozen=True)
class Target:
    """A file or folder, a name in a file (`path.py::Name`), or a name in an importable module (`pkg.mod::Name`)."""

    kind: Kind
    place: str
    """The file or folder as written, or the dotted module."""
    name: str | None = None
    """The class, object or function, dotted if it is nested; None for everything in the file."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Parse `path`, `path.py::Name` or `pkg.mod::Name`. Nothing is looked up on disk.

        A place without a name, with a slash or backslash, or that ends in `.py` or `.ipynb`, is a path. Raises
        TcreadyError for text without a place, and with nothing after the `::`.
        """
        place, name = cls.place_in(text), text.partition("::")[2]
        if not place or text == f"{place}::":
            raise TcreadyError(f"{text!r} is no target: name a file, a folder, path.py::Name or pkg.mod::Name")
        is_path = not name or "/" in place or "\\" in place or place.endswith((".py", NOTEBOOK))
        return cls("path" if is_path else "module", place, name or None)

    @staticmethod
    def place_in(text: str) -> str:
        """Return the file, folder or module in a target's text, however odd the text: reports come from anywhere."""
        return text.partition("::")[0]

    def __str__(self) -> str:
        return f"{self.place}::{self.name}" if self.name else self.place

    @property
    def is_file(self) -> bool:
        """Return True if the place is spelled like a Python file."""
        return self.kind == "path" and self.place.endswith(".py")

    @property
    def is_notebook(self) -> bool:
        """Return True if the place is spelled like a notebook."""
        return self.kind == "path" and self.place.endswith(NOTEBOOK)

    @property
    def package(self) -> str | None:
        """Return the top-level package of `pkg.mod::Name`, which counts as own code; None for a path."""
        return self.place.partition(".")[0] if self.kind == "module" else None
