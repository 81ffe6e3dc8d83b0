"""Parse the text of a target and of `--inputs`. No other module does.

Standard library and the schema only: it travels with the worker.
"""

from __future__ import annotations

import re
import shlex
from types import MappingProxyType
from typing import Literal

from tcready.schema.frozen import dataclass
from tcready.schema.words import TcreadyError

Kind = Literal["path", "module"]
NOTEBOOK = ".ipynb"
PACKAGES = MappingProxyType(
    {"hf": "transformers", "timm": "timm", "torchvision": "torchvision", "diffusers": "diffusers"}
)
"""The package of each library whose models can be named: `hf:bert`."""
FROM_CONFIGURATION = frozenset({"hf", "diffusers"})
"""Those whose models are made of a configuration, so that a small one can be built; of the others functions give them."""
LIGHTNING = "lightning"
"""What stands before a LightningModule of the user's own: `lightning:model.py::LitModel`."""


def quoted(word: str) -> str:
    """A word as a shell takes it, in double quotes where single ones stand in it: `"timm.create_model('resnet18')"`; of
    several lines as bash, zsh and ksh take it, on one: `$'import os\\nmodel = ...'`."""
    if "\n" in word or "\r" in word or "\t" in word:
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        return "$'" + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + "'"
    plain = "'" in word and not set('"$`\\!') & set(word)  # easier to read than the quotes of quotes
    return f'"{word}"' if plain else shlex.quote(word)


@dataclass(frozen=True)
class LibraryModel:
    """A model of a library, by name: `timm:resnet18`, `hf:bert`; or one of the user's own, built as a library would."""

    library: str
    """A key of PACKAGES, or LIGHTNING."""
    name: str
    """With LIGHTNING the text of a target."""

    @classmethod
    def parse(cls, text: str) -> LibraryModel | None:
        """None for text that is no such name."""
        prefix, _, rest = text.partition(":")
        if prefix == LIGHTNING and rest and not rest.startswith(":"):
            return cls(prefix, rest)
        return cls(prefix, rest) if prefix in PACKAGES and re.fullmatch(r"[\w./-]+", rest) else None

    @property
    def package(self) -> str:
        """The package whose models it names. Raises KeyError for LIGHTNING."""
        return PACKAGES[self.library]

    @property
    def from_configuration(self) -> bool:
        """Whether a configuration says how large it is."""
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
    """The class, object or function, dotted if it is nested; None for all that the file holds."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Reads `path`, `path.py::Name` or `pkg.mod::Name`. Nothing is looked up on disk.

        A place without a name, with a slash or backslash, or that ends in `.py` or `.ipynb`, is a path. Raises
        TcreadyError for text that names no place, and for one with nothing behind the `::`.
        """
        place, name = cls.place_in(text), text.partition("::")[2]
        if not place or text == f"{place}::":
            raise TcreadyError(
                f"{text!r} is no target: name a file, a folder, path.py::Name or pkg.mod::Name"
            )
        is_path = not name or "/" in place or "\\" in place or place.endswith((".py", NOTEBOOK))
        return cls("path" if is_path else "module", place, name or None)

    @staticmethod
    def place_in(text: str) -> str:
        """The file, folder or module that a target's text names, however odd the text: reports come from anywhere."""
        return text.partition("::")[0]

    def __str__(self) -> str:
        return f"{self.place}::{self.name}" if self.name else self.place

    @property
    def is_file(self) -> bool:
        """Whether the place is spelled like a Python file."""
        return self.kind == "path" and self.place.endswith(".py")

    @property
    def is_notebook(self) -> bool:
        """Whether the place is spelled like a notebook."""
        return self.kind == "path" and self.place.endswith(NOTEBOOK)

    @property
    def package(self) -> str | None:
        """The top-level package of `pkg.mod::Name`, whose code counts as the user's own; None for a path."""
        return self.place.partition(".")[0] if self.kind == "module" else None
