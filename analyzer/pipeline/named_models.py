"""Find the sources of models of libraries by name (`hf:bert`, `timm:resnet18`), and of expressions that create a model.

Nothing is imported: files are searched for a `def` or `class`, and tables of names are read with ast.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import glob
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tcready.portable.options import RunOptions
from tcready.portable.target import LIGHTNING, PACKAGES, LibraryModel, Target
from tcready.schema.enums import ModeAsked, TcreadyError
from tcready.schema.value_class import dataclass
from tcready.static.diagnostics import suggestions
from tcready.static.frontend import module_search

TRAINING_STEP = "training_step"
"""The method that Lightning calls on a model in training."""
_DEFINED = re.compile(r"^(?:class|def) (\w+)", re.MULTILINE)
_BY_STRING = {"timm.create_model": "timm", "torchvision.models.get_model": "torchvision"}
"""Functions that return a model for a name."""
_REGISTERED = r"@register_model\b.*\n(?:@.*\n)*def (\w+)"
_MODELS = {"timm": _REGISTERED, "torchvision": _REGISTERED, "diffusers": r"class (\w+)\([^)]*\bModelMixin\b"}
"""Prefixes of the modules of a library that define models. Those of transformers are in a table."""


@dataclass(frozen=True)
class Named:
    """A model that the user named, and its target."""

    text: str
    """The name as given."""
    target: str
    """`pkg.mod::Name`; the given name if the sources were not found."""
    read: bool
    """The sources were found."""

    @property
    def warning(self) -> str:
        """Return a warning if the sources were not found."""
        return f"{self.text}: its sources were not found, so only the run reports on it"


def find_models(names: Sequence[str], options: RunOptions, root: Path, mode: ModeAsked = "infer") -> tuple[Named, ...]:
    """Return the models among `names`, and the one of `--model`. A LightningModule that is only trained is represented
    by its `training_step`.

    Raises TcreadyError for a library that is not installed, an unknown model, and options that need a model.
    """
    models = {text: model for text in names if (model := LibraryModel.parse(text)) is not None}
    if (options.tiny or options.config) and not models:
        flag = "--tiny" if options.tiny else "--config"
        raise TcreadyError(f"{flag} goes with a model of a library, as in hf:bert")
    for text, model in models.items():
        if options.tiny and model.library != LIGHTNING and not model.from_configuration:
            raise TcreadyError(f"{text}: --tiny goes with hf: and diffusers:; of {model.library} name a small model")
        if (options.tiny or options.config) and model.library == LIGHTNING:
            flag = "--tiny" if options.tiny else "--config"
            raise TcreadyError(f"{text}: {flag} goes with a model of a library; this one is built as its class says")
    for pair in options.config:
        if not re.match(r"\w+=", pair):
            raise TcreadyError(f"--config {pair}: write KEY=VALUE, as in hidden_size=64")
    search = module_search.default_search_path(root)
    found = [_of(text, _model_target(model, options, search)) for text, model in models.items()]
    found = [
        replace(each, target=f"{each.target}.{TRAINING_STEP}")
        if mode == "train" and models[each.text].library == LIGHTNING
        else each
        for each in found
    ]
    if options.model is not None:
        found.append(_of(options.model, _expression_target(options.model, search)))
    return tuple(found)


def match_models(text: str, root: Path) -> tuple[str, ...] | None:
    """Return the names that match a glob: for `hf:*` those of every model type. None if the text is not a glob of
    names.

    Raises TcreadyError for a library that is not installed, and if nothing matches.
    """
    prefix, _, pattern = text.partition(":")
    if prefix not in PACKAGES or not glob.has_magic(pattern):
        return None
    model = LibraryModel(prefix, pattern)
    file = module_search.find_module(model.package, module_search.default_search_path(root))
    if file is None:
        raise _not_installed(model)
    models = file.parent / "models"
    if prefix == "hf":
        names = list(_table(models / "auto" / "modeling_auto.py", _OF_TYPES))
    else:
        names = [name for name, _ in _definitions(models, file.parent, _MODELS[prefix])]
    found = sorted(set(fnmatch.filter(names, pattern)))
    if not found:
        raise TcreadyError(f"{text}: no model of {model.package} matches")
    return tuple(f"{prefix}:{name}" for name in found)


def reject_unread(models: Iterable[Named], run: bool | None) -> None:
    """Raise TcreadyError if nothing would be known about a model because it is neither read nor run."""
    for each in models:
        if run is False and not each.read:
            raise TcreadyError(f"{each.text}: its sources were not found, and --no-run forbids the run")


def reject_library_models(names: Iterable[str], root: Path) -> None:
    """Raise TcreadyError for a model of a library if changes to its source are requested."""
    for text in names:
        model = LibraryModel.parse(text)
        if model is not None and model.library == LIGHTNING:
            raise TcreadyError(f"{text}: changes are made in a source: name {model.name}, with --inputs")
        if model is not None:
            target = _model_target(model, RunOptions(), module_search.default_search_path(root))
            raise TcreadyError(
                f"{text}: changes are made in a source: name {target or 'its pkg.mod::Name'} to be shown them; to have "
                "them proved, a function in a file of yours that gives the model (FILE::function), with --inputs"
            )


def _of(text: str, target: str | None) -> Named:
    return Named(text, target or text, target is not None)


def _model_target(model: LibraryModel, options: RunOptions, search: Sequence[Path]) -> str | None:
    if model.library == LIGHTNING:
        if Target.parse(model.name).name is None:
            raise TcreadyError(f"{model}: name the LightningModule, as in {LIGHTNING}:{model.name}::LitModel")
        return model.name
    file = module_search.find_module(model.package, search)
    if file is None:
        if options.python is not None:  # another interpreter, with libraries of its own
            return None
        raise _not_installed(model)
    package = file.parent
    if model.library == "hf":
        return _transformers_class(model, package, options)
    name = model.name.partition(".")[0]  # timm puts the weights behind a dot, and there are none
    begins = r"class (\w+)" if model.from_configuration else r"def (\w+)"
    known = dict(_definitions(package / "models", package, begins))
    if name not in known:
        raise _unknown(model, known)
    return f"{known[name]}::{name}"


def _not_installed(model: LibraryModel) -> TcreadyError:
    return TcreadyError(
        f"{model}: {model.package} is not installed here: python -m pip install {model.package} "
        "(with --no-deps where your torch has to stay)"
    )


def _unknown(model: LibraryModel, known: Iterable[str]) -> TcreadyError:
    near = suggestions.near_name(model.name, (each for each in known if not each.startswith("_")))
    return TcreadyError(f"{model}: {model.package} has no such model{f': {near}' if near else ''}")


def _definitions(folder: Path, package: Path, begins: str) -> tuple[tuple[str, str], ...]:
    """Return the top-level names that files below a folder define, with their modules. `begins`: a pattern with the
    name."""
    return _definitions_as_of(folder, package, begins, _modified_at(folder))


@functools.lru_cache(maxsize=8)
def _definitions_as_of(folder: Path, package: Path, begins: str, _changed: int) -> tuple[tuple[str, str], ...]:
    return tuple(
        (found[1], _module(path, package))
        for path in sorted(folder.rglob("*.py"))
        for found in re.finditer(f"^{begins}", _text(path), re.MULTILINE)
    )


def _module(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


# transformers

_OF_TYPES = "MODEL_MAPPING_NAMES"
"""The table of model types and their classes."""


def _transformers_class(model: LibraryModel, package: Path, options: RunOptions) -> str | None:
    """Look up a model type (`bert`), configuration class, model class, or a repository with a locally cached
    configuration."""
    models = package / "models"
    classes = _table(models / "auto" / "modeling_auto.py", _OF_TYPES)
    configs = _table(models / "auto" / "auto_mappings.py", "CONFIG_MAPPING_NAMES") or _table(
        models / "auto" / "configuration_auto.py", "CONFIG_MAPPING_NAMES"
    )
    name = model.name
    if name in classes:
        return _class_in(models, package, classes[name])
    if name.endswith("Config"):
        types = [kind for kind, config in configs.items() if config == name and kind in classes]
        if types:
            return _class_in(models, package, classes[types[0]])
    elif name.isidentifier() and (found := _class_in(models, package, name)):
        return found
    configuration = _cached_configuration(name)
    if configuration is not None:
        architectures = configuration.get("architectures")
        wanted = [str(each) for each in architectures] if isinstance(architectures, list) else []
        wanted.append(classes.get(str(configuration.get("model_type")), ""))
        return next((at for each in wanted if (at := _class_in(models, package, each))), None)
    if "/" in name or "-" in name:
        if options.allow_downloads:
            return None
        near = suggestions.near_name(name, classes)
        raise TcreadyError(
            f"{model}: no configuration of that name is in the local cache"
            f"{f': {near}' if near else ''} (--allow-downloads fetches it)"
        )
    raise _unknown(model, [*classes, *configs.values(), *classes.values()])


def _table(path: Path, name: str) -> Mapping[str, str]:
    """Read a table of names in a file: `NAME = OrderedDict([("bert", "BertModel"), ...])`. If an entry has several
    values, use the first."""
    return _table_as_of(path, name, _modified_at(path))


def _modified_at(path: Path) -> int:
    """Return when it, or its folder, was last written, in nanoseconds: later changes invalidate what was read."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


@functools.lru_cache(maxsize=8)
def _table_as_of(path: Path, name: str, _changed: int) -> Mapping[str, str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            assert isinstance(node, ast.Assign)
            return dict(_pairs(node.value))
    return {}


def _pairs(value: ast.expr) -> Iterator[tuple[str, str]]:
    for node in ast.walk(value):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(key)), ast.Constant(value=str(name))]):
                yield key, name
            case ast.Tuple(elts=[ast.Constant(value=str(key)), ast.Tuple(elts=[ast.Constant(value=str(name)), *_])]):
                yield key, name


def _class_in(models: Path, package: Path, name: str) -> str | None:
    """Find a model class in a `modeling_*.py`."""
    module = _classes(models, package, _modified_at(models)).get(name)
    return f"{module}::{name}" if module else None


@functools.lru_cache(maxsize=2)
def _classes(models: Path, package: Path, _changed: int) -> Mapping[str, str]:
    """Return the classes of every `modeling_*.py`, and the first module that defines each."""
    found: dict[str, str] = {}
    for path in sorted(models.glob("*/modeling_*.py")):
        for each in re.finditer(r"^class (\w+)", _text(path), re.MULTILINE):
            found.setdefault(each[1], _module(path, package))
    return found


def _cached_configuration(name: str) -> Mapping[str, object] | None:
    """Return the `config.json` of a repository in the local cache of the Hugging Face hub, or of a folder."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    hub = Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
    folder = hub / f"models--{name.replace('/', '--')}"
    revision = _text(folder / "refs" / "main").strip()
    text = _text(folder / "snapshots" / revision / "config.json") if revision else ""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# Expressions


def _expression_target(text: str, search: Sequence[Path]) -> str | None:
    """Find the class or function that an expression calls; None if it cannot be resolved. Raises TcreadyError."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise TcreadyError(f"--model {text}: it is no expression of Python: {error}") from None
    if not isinstance(tree, ast.Call):
        raise TcreadyError(f"--model {text}: write a call that gives a model, as in timm.create_model('resnet18')")
    called = ast.unparse(tree.func)
    if called in _BY_STRING and tree.args and isinstance(tree.args[0], ast.Constant):
        model = LibraryModel.parse(f"{_BY_STRING[called]}:{tree.args[0].value!s}")
        if model is not None and module_search.find_module(model.package, search):
            return _model_target(model, RunOptions(), search)
    module, _, name = called.rpartition(".")
    package = module.partition(".")[0]
    if not re.fullmatch(r"\w+(\.\w+)*", called) or not module or module_search.is_opaque(package):
        return None
    file = module_search.find_module(module, search)
    if file is not None and name in _DEFINED.findall(_text(file)):
        return f"{module}::{name}"
    top = module_search.find_module(package, search)
    if top is None or top.name != "__init__.py":
        return None
    # Of the names that a package hands on, one that a single file of its defines.
    folder = top.parent / "models" if package in PACKAGES.values() else top.parent
    places = [at for each, at in _definitions(folder, top.parent, r"(?:class|def) (\w+)") if each == name]
    return f"{places[0]}::{name}" if len(places) == 1 else None
