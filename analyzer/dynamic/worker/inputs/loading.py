"""Find, import and build the target and its inputs."""

from __future__ import annotations

import contextlib
import copy
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from tcready.dynamic.worker.core.case import Case, NoInputsError, RunError
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.inputs import meta_build
from tcready.dynamic.worker.inputs.stand_ins import on_meta
from tcready.dynamic.worker.torch_internals import dynamo, pytree
from tcready.dynamic.worker.torch_internals.known_values import keep_values
from tcready.portable.input_conventions import Convention
from tcready.portable.target import Target
from tcready.schema.bench import Items, Sizes
from tcready.schema.display_paths import import_name, source_folders

SEED_BUILD = 0
_Made = TypeVar("_Made")
LONGEST_UNIT = 30
"""The maximum length of a unit of inputs: it is part of a table column."""


def source_path(target: Target, root: str) -> Path:
    """Return the file of a `path.py::Name`."""
    return Path(os.path.join(root, target.place))


def open_path(work: Work, target: Target) -> None:
    """Make importable what `python file.py`, run from the root, could import (and the root itself)."""
    entries = [work.root, *source_folders(work.root)]
    if target.is_file:
        path = source_path(target, work.root)
        top = import_name(path)[1]
        entries = [str(top), work.root, str(path.parent)] if top != path.parent else [str(top), work.root]
    fresh = dict.fromkeys(entries + list(work.python_path))
    sys.path[:0] = [entry for entry in fresh if entry not in sys.path]


def import_target(target: Target, root: str) -> ModuleType:
    """Import the module of the target; a file under the name of its package, or under its own. Raises what the import
    raises.

    Seeded like the build, so that inputs that a module creates at import are the same in every run.
    """
    torch.manual_seed(SEED_BUILD)
    if not target.is_file:
        return importlib.import_module(target.place)
    path = source_path(target, root)
    real = os.path.realpath(path)
    name, top = import_name(path)
    names = {path.name, os.path.basename(real)}
    for module in list(sys.modules.values()):
        # check the name first: the real path takes a while for thousands of modules
        file = getattr(module, "__file__", None) or ""
        if os.path.basename(file) in names and os.path.realpath(file) == real:
            return module
    package = sys.modules.get(name.split(".")[0])
    if "." in name and (package is None or _is_in(package, top)):
        module = importlib.import_module(name)
        if os.path.realpath(module.__file__ or "") == real:
            return module
    # The name of a plain file may be that of a module already loaded (json.py, torch.py): never replace it.
    taken = name in sys.modules or name.split(".")[0] in sys.stdlib_module_names or "." in name
    name = f"_{path.stem}_of_target" if taken else name
    found = importlib.util.spec_from_file_location(name, real)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


def _is_in(package: ModuleType, folder: Path) -> bool:
    """Return whether a package was imported from a folder, or in part if it is a namespace."""
    return any(os.path.realpath(os.path.dirname(path)) == str(folder) for path in getattr(package, "__path__", ()))


def lookup(module: ModuleType, name: str, where: str) -> Any:
    """Return the member `name`, dotted if nested. Raises RunError with the names that exist."""
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = public_names(value)
            near = difflib.get_close_matches(part, names, n=1)
            hint = f"did you mean {near[0]}? It" if near else "it"
            raise RunError(f"{where} has no {name!r}; {hint} defines {', '.join(names) or 'nothing'}")
        value = getattr(value, part)
    return value


def named(text: str, option: str, work: Work) -> Any:
    """Return the object that `path.py::name` or `pkg.mod::name` names. Raises RunError if it names nothing, and what
    the import raises."""
    target = Target.parse(text)
    if target.name is None:
        raise RunError(f"{option} {text}: name what it is in there, as in {text}::name")
    open_path(work, target)
    return lookup(import_target(target, work.root), target.name, target.place)


@dataclass(frozen=True)
class MethodTarget:
    """A method, or an attribute that the constructor sets, as the target: `model.py::GPT.generate`,
    `serve.py::Server.run`."""

    owner: Any
    """The class, or an instance of it."""
    name: str


def target_in(module: ModuleType, name: str, where: str) -> Any:
    """Return the target of that name; a MethodTarget if an object has to be built for it. Raises RunError with the names
    that exist."""
    prefix, _, last = name.rpartition(".")
    owner = lookup(module, prefix, where) if prefix else None
    if inspect.isclass(owner) and not hasattr(owner, last):
        return MethodTarget(owner, last)  # set by the constructor, or not there
    value = lookup(module, name, where)
    is_method = inspect.isfunction(value) and not _is_static(owner, last) if inspect.isclass(owner) else False
    is_of_object = inspect.ismethod(value) and value.__self__ is owner and not inspect.isclass(owner)
    return MethodTarget(owner, last) if is_method or is_of_object else value


def _is_static(owner: Any, name: str) -> bool:
    return isinstance(inspect.getattr_static(owner, name), staticmethod)


def public_names(owner: Any) -> list[str]:
    """Return the names that a module defines itself and that can be a target or inputs, in order: classes, functions,
    models, and values of the form of inputs."""
    own = getattr(owner, "__name__", None)
    return [
        name
        for name, value in vars(owner).items()
        if not name.startswith("_")
        and (
            inspect.isclass(value)
            or inspect.isfunction(value)
            or isinstance(value, (torch.nn.Module, torch.Tensor, tuple, list, Mapping))
        )
        and getattr(value, "__module__", own) == own
    ]


def takes_inputs(value: Any) -> bool:
    """Return whether a function itself is to be compiled: it has a parameter without default, or is compiled already."""
    if not inspect.isroutine(value):
        return False
    if dynamo.is_compiled(value):
        return True
    return any(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in inspect.signature(value).parameters.values()
    )


def build(value: Any, init: Callable[[], Any] | None, work: Work, seed: int = SEED_BUILD) -> Any:
    """Build a new module (or return the function or method to compile), on the device, in its mode.

    `value`: an nn.Module class, an instance (copied), a callable that returns one, or a method of it; `init` provides
    arguments. Tensors that the constructor creates are on the default device. Raises what building raises.
    """
    if isinstance(value, MethodTarget):
        value = _method_of_new(value, init, work, seed)
        if not isinstance(value, torch.nn.Module):
            return value
    torch.manual_seed(seed)
    if isinstance(value, torch.nn.Module):
        model: Any = copy.deepcopy(value)
    elif inspect.isclass(value) and issubclass(value, torch.nn.Module):
        with meta_build.constructing(work):
            args, kwargs = _init_arguments(init)
            model = _construct(value, args, kwargs)
    elif callable(value):
        with meta_build.constructing(work):
            model = value if takes_inputs(value) else value()
    else:
        raise RunError(f"{work.target} is a {type(value).__name__}, neither a module nor a callable giving one")
    if isinstance(model, torch.nn.Module):
        if work.options.checkpoint and not on_meta(work.options.device):
            load_weights(model, os.path.join(work.root, work.options.checkpoint), work.options.checkpoint)
        model = model.to(work.options.device)
        if work.options.dtype and not getattr(value, BUILT_IN_DTYPE, False):
            model = model.to(dtype_of(work.options.dtype))
        return model.train(work.options.mode == "train")
    if callable(model) and model is value:
        return model
    raise RunError(f"{work.target}() gives a {type(model).__name__}, not an nn.Module")


def _method_of_new(value: MethodTarget, init: Callable[[], Any] | None, work: Work, seed: int) -> Any:
    """Return the method, function or module of a new object, without the `torch.compile` around it. Raises RunError if it
    has none of that name."""
    is_model = isinstance(value.owner, torch.nn.Module) or (
        inspect.isclass(value.owner) and issubclass(value.owner, torch.nn.Module)
    )
    owner = build(value.owner, init, work, seed) if is_model else _build_plain(value.owner, init, work, seed)
    if not hasattr(owner, value.name):
        names = [name for name in dir(owner) if not name.startswith("__") and callable(getattr(owner, name, None))]
        near = difflib.get_close_matches(value.name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise RunError(f"an object of the class {type(owner).__name__} has no attribute {value.name!r}{hint}")
    found = dynamo.uncompiled(getattr(owner, value.name))
    if not callable(found):
        raise RunError(f"{work.target} is a {type(found).__name__}, which cannot be called")
    return found


def _build_plain(owner: Any, init: Callable[[], Any] | None, work: Work, seed: int) -> Any:
    """Build an object of a class that is not an nn.Module (or copy the object), with its modules on the device, in their
    mode."""
    torch.manual_seed(seed)
    with meta_build.constructing(work):
        if inspect.isclass(owner):
            args, kwargs = _init_arguments(init)
            made = _construct(owner, args, kwargs)
        else:
            made = copy.deepcopy(owner)
    for module in modules_of(made):
        module.to(work.options.device)
        if work.options.dtype:
            module.to(dtype_of(work.options.dtype))
        module.train(work.options.mode == "train")
    return made


def modules_of(owner: Any) -> list[torch.nn.Module]:
    """Return the modules in the attributes of an object that is none itself, and in lists and dicts of these."""
    leaves = pytree.tree_leaves(list(getattr(owner, "__dict__", {}).values()))
    modules = (dynamo.uncompiled(leaf) for leaf in leaves)
    return list({id(each): each for each in modules if isinstance(each, torch.nn.Module)}.values())


BUILT_IN_DTYPE = "tcready_built_in_dtype"
"""Attribute of a callable that builds its model in the dtype of the run. The model is not cast afterwards, because that
would also cast buffers that the library keeps in float32 (the frequencies of rotary embeddings)."""


def make_on(device: str, make: Callable[[], _Made]) -> tuple[_Made, str | None]:
    """Return the result of `make` with `device` as the default device. If it raises, return its result on the CPU, and
    why it raised. Raises what it raises on the CPU, and immediately if the device has too little memory."""
    if device == "cpu":
        return make(), None
    if on_meta(device):
        with torch.device(device):
            return make(), None
    try:
        with torch.device(device):
            return make(), None
    except (RunError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".rstrip(": ")
    return make(), failure


def _construct(cls: type[_Made], args: Any, kwargs: Any) -> _Made:
    """Construct an object of the class. Raises NoInputsError if required arguments of the constructor are missing."""
    try:
        return cls(*args, **kwargs)
    except TypeError as error:
        if not (args or kwargs) and not _takes_nothing(cls):
            how = "define get_init_inputs() in its file, which returns the arguments"
            raise NoInputsError(f"{type(error).__name__}: {error}; {how}") from error
        raise


def _takes_nothing(cls: type[Any]) -> bool:
    """Return whether the constructor can be called without arguments, according to its signature."""
    try:
        inspect.signature(cls).bind()
    except ValueError:
        return True
    except TypeError:
        return False
    return True


def load_weights(model: torch.nn.Module, path: str, shown: str) -> None:
    """Load a safetensors file into a model. It must contain every weight; of tied weights, one.

    Raises RunError if the file cannot be read, or is one of another model.
    """
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise RunError("--checkpoint needs safetensors: python -m pip install safetensors") from None
    try:
        found = load_file(path)
    except Exception as error:  # the library's own error derives from Exception alone
        raise RunError(f"--checkpoint {shown}: it cannot be read as safetensors: {error}") from None
    own = model.state_dict()
    foreign = [name for name in found if name not in own]
    others = [name for name in found if name in own and found[name].shape != own[name].shape]
    given = {own[name].data_ptr() for name in found if name in own}
    missing = [name for name in own if name not in found and own[name].data_ptr() not in given]
    for names, what in (
        (foreign, "of the file are not in the model"),
        (others, "have another shape in the model"),
        (missing, "of the model are not in the file"),
    ):
        if names:
            raise RunError(f"--checkpoint {shown}: weights {what} ({len(names)}): {', '.join(names[:3])}")
    model.load_state_dict(found, strict=False)


def _init_arguments(init: Callable[[], Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if init is None:
        return (), {}
    value = init()
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return (), {}
    case = as_case(None, list(value) if isinstance(value, tuple) and not _is_pair(value) else value)
    return case.args, case.kwargs


def dtype_of(name: str) -> torch.dtype:
    found = getattr(torch, name.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise RunError(f"torch {torch.__version__} has no dtype {name}")
    return found


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    """Create floating tensors in that dtype within the context, as `from_pretrained(dtype=...)` does; None changes
    nothing."""
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def cases(value: Any, where: str, work: Work) -> tuple[Case, ...]:
    """Return the named cases in the value of `--inputs` or of a convention, moved to the device. Raises RunError."""
    given: Mapping[str, Any] = {}
    items: dict[str, Items] = {}
    if _names_cases(value):
        found = tuple(as_case(str(name), item, where) for name, item in value["cases"].items())
        if not found:
            raise RunError(f"{where} gives no case")
        given = value.get("weights") or {}
        items = _items(value.get("items", {}), found)
    else:
        found = (as_case(None, value, where),)
    weights = _weights({**given, **dict(work.options.weights)}, found)

    def ready(case: Case) -> Case:
        args, kwargs = placed((case.args, case.kwargs), work)
        name = case.name or ""
        return Case(case.name, args, kwargs, weights.get(name, 1.0), items.get(name))

    return tuple(map(ready, found))


def _names_cases(value: Any) -> bool:
    """Return whether a value is `{"cases": {name: ...}}`, optionally with `"weights": {name: number}` and `"items":
    {...}`.

    `items` that are a number or a text count too: no model takes them beside a mapping `cases`, and `_items` reports
    what is expected.
    """
    if not isinstance(value, Mapping) or not {"cases"} <= set(value) <= {"cases", "weights", "items"}:
        return False
    return all(
        isinstance(part, Mapping) or (key == "items" and isinstance(part, (int, float, str)))
        for key, part in value.items()
    )


def _weights(given: Mapping[str, Any], found: tuple[Case, ...]) -> dict[str, float]:
    """Return the weights by the name of their case. Raises RunError for a missing case, or a weight that is not a
    number above 0."""
    names = [case.name for case in found if case.name]
    for name, weight in given.items():
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(names) or 'no named case'}"
            raise RunError(f"a weight names the case {name}, which the inputs do not: {hint}")
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 < weight < float("inf"):
            raise RunError(f"the weight of the case {name} is {weight!r}: expected a number above 0")
    return {str(name): float(weight) for name, weight in given.items()}


def _items(given: Any, found: tuple[Case, ...]) -> dict[str, Items]:
    """The items by the name of their case, from one `{"unit": ..., "count": ...}` for all or from one for each case.

    Raises RunError for a missing case, an unknown key, a unit that is not a short text, or a count that is not a number
    above 0.
    """
    names = [case.name for case in found if case.name]
    if not isinstance(given, Mapping):
        raise RunError(
            f"items is {_format_value(given)}: expected {{'unit': 'tokens', 'count': 2048}}, or one such mapping"
            " for each case"
        )
    if not all(isinstance(each, (Mapping, Items)) for each in given.values()):
        item = _item(given, "items")
        return dict.fromkeys(names, item)
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there is {', '.join(names)}"
            raise RunError(f"items names the case {name}, which the inputs do not: {hint}")
    return {str(name): _item(each, f"items of the case {name}") for name, each in given.items()}


def _item(given: Mapping[str, Any] | Items, where: str) -> Items:
    """Parse one `{"unit": ..., "count": ...}`. Raises RunError."""
    if isinstance(given, Items):
        return given
    if set(given) != {"unit", "count"}:
        keys = ", ".join(map(str, given)) or "none"
        raise RunError(f"{where}: the keys are {keys}: expected unit and count")
    unit, count = given["unit"], given["count"]
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable() or len(unit) > LONGEST_UNIT:
        raise RunError(f"{where}: the unit is {_format_value(unit)}: expected a short text such as 'tokens'")
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not 0 < count < float("inf"):
        raise RunError(f"{where}: the count is {_format_value(count)}: expected a number above 0")
    return Items(unit.strip(), float(count), f"{unit.strip()}: {count:,}, given with the inputs")


def _format_value(value: Any) -> str:
    """Return a number or text as Python writes it; for anything else its type, because the text of a tensor has several
    lines."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    return f"a {type(value).__name__}"


def as_case(name: str | None, value: Any, where: str = "the inputs") -> Case:
    """Convert a value to a case: a tensor or other object is the only argument; tuples and lists are arguments; a
    mapping is keywords."""
    if isinstance(value, tuple) and _is_pair(value):
        return Case(name, tuple(value[0]), dict(value[1]))
    if isinstance(value, (tuple, list)):
        return Case(name, tuple(value), {})
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return Case(name, (), dict(value))
    if value is None or isinstance(value, (str, bytes)):
        raise RunError(
            f"{where} gives a {type(value).__name__}: expected a tensor, a tuple of arguments, a dict of "
            "keyword arguments, (args_tuple, kwargs_dict) or {'cases': {name: one of these}}"
        )
    return Case(name, (value,), {})


def _is_pair(value: tuple[Any, ...]) -> bool:
    """Return whether the tuple is `(args_tuple, kwargs_dict)`."""
    if len(value) != 2 or not isinstance(value[0], (tuple, list)) or not isinstance(value[1], Mapping):
        return False
    return all(isinstance(key, str) for key in value[1])


def placed(value: Any, work: Work) -> Any:
    """Move the tensors in a value to the device, in the requested dtype."""

    def place(tensor: torch.Tensor) -> torch.Tensor:
        if work.options.dtype and tensor.is_floating_point():
            tensor = tensor.to(dtype_of(work.options.dtype))
        moved = tensor.to(work.options.device)
        return keep_values(moved, tensor) if on_meta(work.options.device) else moved

    if work.options.device == "cpu" and not work.options.dtype:
        return value
    return pytree.tree_map_only(torch.Tensor, place, value)


def fresh(case: Case) -> Case:
    """Copy a case for one call, because models change their inputs. Aliases remain aliases if possible."""
    try:
        args, kwargs = copy.deepcopy((case.args, case.kwargs))
    except Exception:  # a tensor that is no leaf, or an object that refuses: copy the tensors alone
        args, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda tensor: tensor.detach().clone().requires_grad_(tensor.requires_grad),
            (case.args, case.kwargs),
        )
    return Case(case.name, args, kwargs)


def inputs_of(
    value: Any,
    module: ModuleType,
    convention: Convention | None,
    built: Callable[[], Any],
    seed: int = SEED_BUILD,
    sizes: Sequence[Sizes] = (),
) -> tuple[Any, str]:
    """The inputs, from calling `value` if it is callable, and their name in messages. Raises what the callable raises.

    `value` is the object that `--inputs` named, or None: then by `convention`. `built` returns a new model. With `sizes`
    it is called once with each of them, which gives named cases.
    """
    if value is not None:
        return _call_provider(value, "--inputs", seed, sizes), "--inputs"
    if convention is None:
        raise NoInputsError("no inputs: name them with --inputs, or define get_inputs() or get_example_inputs()")
    if convention.source == "function":
        give = getattr(module, convention.inputs)
    else:
        give = getattr(built(), convention.inputs, None)
    found = _call_provider(give, convention.label, seed, sizes)
    if found is None:
        raise RunError(f"{convention.label}: it is None")
    return found, convention.label


def _call_provider(give: Any, where: str, seed: int, sizes: Sequence[Sizes]) -> Any:
    """Return `give`, or its result if it is callable. Raises RunError if it does not take the sizes."""
    wanted = callable(give) and not isinstance(give, torch.Tensor)
    if not sizes:
        if not wanted:
            return give
        torch.manual_seed(seed)
        return give()
    if not wanted:
        raise RunError(f"{where} is no function: --lengths calls it with {sizes[0].name}")
    try:
        inspect.signature(give).bind(**dict(sizes[0].values))
    except TypeError as error:
        raise RunError(f"{where} cannot be called with {sizes[0].name}: {error}") from None
    found = {}
    for each in sizes:
        torch.manual_seed(seed)
        found[each.name] = give(**dict(each.values))
    return {"cases": found, "weights": {each.name: each.count for each in sizes}}
