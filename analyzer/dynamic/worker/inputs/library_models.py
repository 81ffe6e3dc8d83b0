"""Build a model that is given by a library name or an expression, with random weights, and find its inputs."""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch
from tcready.dynamic.worker.core import memory
from tcready.dynamic.worker.core.case import RunError
from tcready.dynamic.worker.core.memory import Size
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.inputs.loading import (
    BUILT_IN_DTYPE,
    cases,
    default_dtype,
    dtype_of,
    import_target,
    target_in,
)
from tcready.dynamic.worker.inputs.stand_ins import on_meta, tried
from tcready.portable.options import RunOptions
from tcready.portable.target import LIGHTNING, LibraryModel, Target, quote
from tcready.schema.bench import Items

SMALL: Mapping[str, int] = {
    **dict.fromkeys("hidden_size d_model n_embd dim embed_dim word_embed_proj_dim embedding_size".split(), 64),
    **dict.fromkeys("intermediate_size ffn_dim d_ff n_inner encoder_ffn_dim decoder_ffn_dim".split(), 128),
    **dict.fromkeys("hidden_dim moe_intermediate_size shared_expert_intermediate_size".split(), 128),
    **dict.fromkeys("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers".split(), 2),
    **dict.fromkeys("num_encoder_layers num_decoder_layers num_single_layers".split(), 2),
    **dict.fromkeys("num_attention_heads n_head n_heads num_heads num_key_value_heads".split(), 4),
    **dict.fromkeys("encoder_attention_heads decoder_attention_heads".split(), 4),
    **dict.fromkeys("num_local_experts num_experts n_routed_experts".split(), 4),
    **dict.fromkeys("head_dim d_kv attention_head_dim".split(), 16),
    **dict.fromkeys("caption_projection_dim pooled_projection_dim".split(), 64),
    **dict.fromkeys("cross_attention_dim joint_attention_dim sample_size".split(), 32),
    **dict.fromkeys("num_experts_per_tok moe_topk top_k".split(), 2),
    **dict.fromkeys("n_group topk_group".split(), 1),
    "norm_num_groups": 8,
    "layers_per_block": 1,
    "vocab_size": 1024,
}
"""The usual fields of a configuration, and the limits that `--tiny` sets for them."""


LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
"""Names of the number of layers in configurations."""
ROOM = 0.8
"""The share of the free memory that a suggested model may take. Activations need the rest."""
LARGE = 1e9
"""Bytes of parameters from which on messages suggest `--tiny`."""
PROMPT, DECODED = 512, 128
"""The number of tokens in the prompt, and of tokens generated after it, if a causal language model is benchmarked."""


@dataclass(frozen=True)
class LibraryInputs:
    """Inputs that a library defines for a model: a function that draws them, and a description of how they were found."""

    give: Callable[[], Any]
    label: str


def command(options: RunOptions) -> str:
    """Return the options that name the model on the command line."""
    assert options.model is not None
    if LibraryModel.parse(options.model) is None:
        return f"--model {quote(options.model)}"
    pairs = [word for pair in options.config for word in ("--config", quote(pair))]
    return " ".join([options.model, *(["--tiny"] if options.tiny else []), *pairs])


def size_to_be(build: Callable[[], Any], work: Work) -> Size | None:
    """Return the size of the model, found on the device `meta`, which holds no values; None if it is built small, if
    its library builds no small models, or if it cannot be built there."""
    model = LibraryModel.parse(work.options.model or "")
    if model is None or not model.from_configuration or work.options.tiny:
        return None
    return _size_on_meta(build, work)


def _size_on_meta(build: Callable[[], Any], work: Work) -> Size | None:
    try:
        with torch.device("meta"):
            model = build()
            return Size.of(model.to(dtype_of(work.options.dtype)) if work.options.dtype else model)
    except Exception:  # it needs values, or cannot be built: the build itself will report that
        return None


def layers_that_fit(work: Work) -> str:
    """Return the `--config` with which the model fits into memory, such as `num_hidden_layers=20`; empty if it has no
    such field or does not fit with one layer."""
    name = LibraryModel.parse(work.options.model or "")
    given = dict(pair.partition("=")[::2] for pair in work.options.config)
    if name is None or name.library in ("timm", "torchvision"):
        return ""
    for key in LAYERS:
        sizes = []
        for count in (1, 2):
            config = tuple(f"{field}={value}" for field, value in {**given, key: str(count)}.items())
            changed = replace(work, options=replace(work.options, config=config))
            try:
                sizes.append(_size_on_meta(imported(changed, changed.options.model or "")[1], changed))
            except Exception:
                sizes.append(None)
        one, two = sizes
        if one is None or two is None or two.bytes <= one.bytes or not memory.fits(one, work):
            continue
        free = ROOM * (memory.free_bytes(work.options.device) or 0) / memory.times_needed(work)
        return f"{key}={1 + max(0, int((free - one.bytes) // (two.bytes - one.bytes)))}"
    return ""


def imported(work: Work, text: str) -> tuple[ModuleType, Callable[[], Any]]:
    """Return the library's package, and a function that builds the model. Raises what the import raises, and RunError."""
    model = LibraryModel.parse(text)
    if model is None:
        return _from_expression(text)
    if model.library == LIGHTNING:
        return _from_lightning(model.name, work)
    package = importlib.import_module(model.package)
    if model.library == "timm":
        return package, lambda: package.create_model(model.name, pretrained=False, **_values(work))
    if model.library == "torchvision":
        return package, lambda: _from_torchvision(package, model.name, _values(work))
    if model.library == "diffusers":
        kind = getattr(package, model.name, None) or _class_of(work)
        return package, lambda: _from_diffusers(kind, work)
    build = functools.partial(_from_transformers, package, model.name, work)
    setattr(build, BUILT_IN_DTYPE, True)
    return package, build


def inputs_of(model: Any, work: Work) -> LibraryInputs | None:
    """Return the first inputs defined by the library that the model accepts; None if there are none."""
    if not isinstance(model, torch.nn.Module):
        return None
    for found in _propose_inputs(model, work):
        if _takes(model, found, work):
            return found
    return None


def _takes(model: torch.nn.Module, inputs: LibraryInputs, work: Work) -> bool:
    training = model.training
    try:
        with torch.no_grad(), tried(work.options.device):
            for case in cases(inputs.give(), inputs.label, work):
                model.eval()(*case.args, **case.kwargs)
    except Exception:  # whatever keeps the model from these, others may be right
        return False
    finally:
        model.train(training)
    return True


def _propose_inputs(model: torch.nn.Module, work: Work) -> Iterator[LibraryInputs]:
    """Yield inputs by the package of the model's class, so that the model of an expression gets the same as a named
    one."""
    package = type(model).__module__.partition(".")[0]
    if isinstance(model, TrainingStep):
        yield from _inputs_of_lightning(model.model, training=True)
    elif _is_lightning(type(model), "LightningModule"):
        yield from _inputs_of_lightning(model, training=False)
    elif package == "timm":
        yield from _inputs_of_timm(model)
    elif package == "torchvision":
        yield from _inputs_of_torchvision(work)
    elif hasattr(model, "dummy_inputs") and hasattr(model, "main_input_name"):
        is_timed = (work.stays or work.bench is not None) and work.options.mode == "infer"
        if is_timed and not on_meta(work.options.device):
            yield from _calls_of_a_decoder(model, work)
        yield from _inputs_of_transformers(model)
    elif package == "diffusers":
        yield from _inputs_of_diffusers(model)


def _image(*size: int, label: str) -> LibraryInputs:
    return LibraryInputs(lambda: ((torch.rand(1, *size),), {}), f"{label}, {'x'.join(map(str, size))}")


def _values(work: Work) -> dict[str, Any]:
    """Return the values of `--config`. Raises RunError for an invalid size or number."""
    found = {}
    for pair in work.options.config:
        key, _, text = pair.partition("=")
        try:
            found[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[key] = {"true": True, "false": False, "null": None}.get(text, text)
        if key in SMALL and isinstance(found[key], (int, float)) and found[key] < 1:
            raise RunError(f"--config {pair}: it counts or measures something that a model has, so write 1 or more")
    return found


def _small(name: str, value: Any) -> Any:
    """Return the value of a field in a small model; the original value if it is not a size."""
    if name in SMALL and isinstance(value, int) and not isinstance(value, bool):
        return min(value, SMALL[name])
    if name == "block_out_channels" and isinstance(value, (tuple, list)):
        return tuple(min(each, 32 if at == 0 else 64) for at, each in enumerate(value))
    return value


def _class_of(work: Work) -> Any:
    """Return the class that the target's text names. Raises RunError if it names none."""
    target = Target.parse(work.target)
    if target.kind != "module" or target.name is None:
        raise RunError(f"{work.options.model}: there is no such model in this version of the library")
    return getattr(importlib.import_module(target.place), target.name)


def _refuse_unknown(given: Mapping[str, Any], known: list[str], where: str) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise RunError(f"--config {name}: {where} has no such field{f', did you mean {near[0]}?' if near else ''}")


# torchvision and timm


def _from_torchvision(package: Any, name: str, given: Mapping[str, Any]) -> Any:
    builder = package.models.get_model_builder(name)
    # The backbone of a detector has weights of its own, which it would fetch.
    none = {each: None for each in ("weights", "weights_backbone") if each in inspect.signature(builder).parameters}
    return builder(**{**none, **given})


def _inputs_of_torchvision(work: Work) -> Iterator[LibraryInputs]:
    named = LibraryModel.parse(work.options.model or "")
    size, label = 224, "torchvision's usual image"
    if named is not None:
        models = importlib.import_module("torchvision.models")
        try:
            transforms = models.get_model_weights(named.name).DEFAULT.transforms()
            size, label = transforms.crop_size[0], "the crop of its weights' transforms"
        except (AttributeError, IndexError, TypeError, ValueError):
            pass  # it has no weights, or they crop nothing
    yield _image(3, size, size, label=label)
    yield LibraryInputs(lambda: (([torch.rand(3, size, size)],), {}), f"a list of one image, 3x{size}x{size}")
    yield _image(3, 16, 112, 112, label="a clip of 16 frames")


def _inputs_of_timm(model: torch.nn.Module) -> Iterator[LibraryInputs]:
    settings = getattr(model, "default_cfg", None) or getattr(model, "pretrained_cfg", None) or {}
    if size := settings.get("input_size"):
        yield _image(*size, label='default_cfg["input_size"]')


# diffusers


def _from_diffusers(kind: Any, work: Work) -> Any:
    parameters = inspect.signature(kind.__init__).parameters
    given = _values(work)
    _refuse_unknown(given, list(parameters), kind.__name__)
    small = {}
    if work.options.tiny:
        small = {
            name: _small(name, each.default) for name, each in parameters.items() if each.default is not each.empty
        }
    return kind(**{**small, **given})


def _inputs_of_diffusers(model: Any) -> Iterator[LibraryInputs]:
    config = model.config
    size = config.get("sample_size") or 32
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    context = config.get("joint_attention_dim") or config.get("cross_attention_dim")
    context = context[0] if isinstance(context, (list, tuple)) else context
    channels = config.get("in_channels") or 3

    def image() -> torch.Tensor:
        return torch.randn(1, channels, height, width)

    draws: dict[str, Callable[[], Any]] = {
        "sample": image,
        "hidden_states": image,
        "timestep": lambda: torch.tensor([1]),
    }
    if context:
        draws["encoder_hidden_states"] = lambda: torch.randn(1, 8, context)
    if pooled := config.get("pooled_projection_dim"):
        draws["pooled_projections"] = lambda: torch.randn(1, pooled)
    names = [name for name in inspect.signature(model.forward).parameters if name in draws]

    def give() -> Any:
        return (), {name: draws[name]() for name in names}

    yield LibraryInputs(give, f"{', '.join(names)} of the sizes in its config, {channels}x{height}x{width}")


# transformers


def _from_transformers(package: Any, name: str, work: Work) -> Any:
    """Return the target's class with a configuration: that of its class, or of the named repository."""
    target = Target.parse(work.target)
    known = name in package.CONFIG_MAPPING or (name.isidentifier() and hasattr(package, name))
    if known:
        kind = _class_of(work) if target.kind == "module" else _class_by_name(package, name)
        config = kind.config_class()
    else:
        config = package.AutoConfig.from_pretrained(
            name, local_files_only=not work.options.allow_downloads, trust_remote_code=False
        )
        kind = _class_of(work) if target.kind == "module" else package.MODEL_MAPPING[type(config)]
    given = _values(work)
    changed = _smaller(config) if work.options.tiny else {}
    _refuse_unknown(given, [*config.to_dict(), *config.attribute_map], type(config).__name__)
    changed |= {config.attribute_map.get(key, key): value for key, value in given.items()}
    if changed:
        config = type(config)(**({} if known else _shorten_lists(config, changed)), **changed)
    with default_dtype(dtype_of(work.options.dtype) if work.options.dtype else None):
        return kind(config)


def _class_by_name(package: Any, name: str) -> Any:
    if name in package.CONFIG_MAPPING:
        return package.MODEL_MAPPING[package.CONFIG_MAPPING[name]]
    found = getattr(package, name)
    return package.MODEL_MAPPING[found] if name.endswith("Config") else found


def _smaller(config: Any) -> dict[str, Any]:
    """Return the fields of a configuration that change for a small model, including those of nested configurations."""
    changed: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        part: Any = getattr(config, name, None)
        if hasattr(part, "to_dict") and hasattr(part, "attribute_map"):
            changed[name] = {"model_type": part.model_type} | _smaller(part)
        elif (small := _small(name, value)) != value:
            changed[name] = small
    if words := changed.get("vocab_size"):
        for name, value in config.to_dict().items():
            if name.endswith("_token_id") and isinstance(value, int) and value >= words:
                changed[name] = value % words
    return changed


def _shorten_lists(config: Any, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other fields of a configuration; a list with one entry per layer is cut to the number of layers."""
    rest = {name: value for name, value in config.to_dict().items() if name not in changed}
    for name in LAYERS:
        if name in changed:
            layers = getattr(config, name)
            rest = {
                key: value[: changed[name]] if isinstance(value, list) and len(value) == layers else value
                for key, value in rest.items()
            }
    return rest


def _inputs_of_transformers(model: Any) -> Iterator[LibraryInputs]:
    config, main = model.config, model.main_input_name
    parameters = inspect.signature(model.forward).parameters
    vision = getattr(config, "vision_config", config)

    def pixels() -> torch.Tensor:
        size = getattr(vision, "image_size", None) or 224
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.rand(1, getattr(vision, "num_channels", 3), height, width)

    if main == "input_ids":
        words = dict(model.dummy_inputs)
        yield LibraryInputs(lambda: ((), words), "model.dummy_inputs")
        ids = words.get("input_ids")
        if ids is not None and "decoder_input_ids" in parameters:
            both = {**words, "decoder_input_ids": ids}
            yield LibraryInputs(lambda: ((), both), "model.dummy_inputs, and its input_ids as decoder_input_ids")
        if ids is not None and "pixel_values" in parameters:
            yield LibraryInputs(
                lambda: ((), {"input_ids": ids[:1], "pixel_values": pixels()}),
                "model.dummy_inputs, and pixel_values of the sizes in its config",
            )
    elif main == "pixel_values":
        label = f"main_input_name, pixel_values, {'x'.join(map(str, pixels().shape[1:]))} by its config"
        yield LibraryInputs(lambda: ((), {"pixel_values": pixels()}), label)
    elif main == "input_values":
        yield LibraryInputs(lambda: ((), {main: torch.randn(1, 16000)}), "main_input_name, a second of input_values")
    elif main == "input_features" and getattr(config, "num_mel_bins", None):
        bins, length = config.num_mel_bins, 2 * getattr(config, "max_source_positions", 500)

        def sound() -> Any:
            drawn = {main: torch.randn(1, bins, length)}
            if "decoder_input_ids" in parameters:
                drawn["decoder_input_ids"] = torch.ones(1, 5, dtype=torch.long)
            return (), drawn

        yield LibraryInputs(sound, f"main_input_name, input_features, {bins}x{length} by its config")


def _calls_of_a_decoder(model: Any, work: Work) -> Iterator[LibraryInputs]:
    """Return the inputs for a bench of a model with a cache: prefill, and one decoding step with a static cache. If
    consecutive calls are timed as one, decoding with a static and with a growing cache; the model takes the positions
    from the cache. Empty for other models."""
    config, parameters = model.config, inspect.signature(model.forward).parameters
    keeps = model.main_input_name == "input_ids" and "past_key_values" in parameters
    if not keeps or not _is_causal(config):
        return
    length = min(PROMPT, (getattr(config, "max_position_embeddings", None) or 2 * PROMPT) // 2)

    calls = work.bench.calls if work.bench is not None else work.steps
    capacity = length + max(length, calls)

    def prompt() -> torch.Tensor:
        return torch.randint(0, config.vocab_size, (1, length), device=torch.device(work.options.device))

    def filled(cache: Any, ids: torch.Tensor) -> Any:
        with torch.no_grad():
            model.eval()(**_step(parameters, ids, 0, cache))
        if int(cache.get_seq_length()) != length:
            raise RunError(f"{type(model).__name__} keeps no keys and values in the cache that it is given")
        return cache

    def give_loops() -> Any:
        ids = prompt()
        caches = {
            "decode": (_static_cache(model, capacity), "a static cache"),
            "growing cache": (importlib.import_module("transformers.cache_utils").DynamicCache(), "a cache"),
        }
        steps = {
            name: {"input_ids": ids[:, -1:], "past_key_values": filled(cache, ids), "use_cache": True}
            for name, (cache, _) in caches.items()
        }
        items = {
            name: Items("tokens", 1.0, f"tokens: 1, with {length} and more in {text}")
            for name, (_, text) in caches.items()
        }
        return {"cases": steps, "items": items}

    if calls > 1:
        yield LibraryInputs(give_loops, f"decoding after {length} tokens, with a static cache and with one that grows")
        return

    def give() -> Any:
        ids = prompt()
        cache = filled(_static_cache(model, capacity), ids)
        steps = {"prefill": {"input_ids": ids}, "decode": _step(parameters, ids[:, -1:], length, cache)}
        items = {
            "prefill": Items("tokens", length, f"tokens: 1 x {length}; a call is the time to the first token"),
            "decode": Items("tokens", 1.0, f"tokens: 1, with {length} in a static cache"),
        }
        return {"cases": steps, "weights": {"prefill": 1, "decode": DECODED}, "items": items}

    label = f"prefill of 1 x {length} tokens, and a step of decoding with a static cache for {capacity}"
    yield LibraryInputs(give, label)


def _is_causal(config: Any) -> bool:
    """Return whether the models of a configuration are causal language models; if they can also be masked ones, only if
    configured as a decoder."""
    package = importlib.import_module("transformers")
    if config.is_encoder_decoder or type(config) not in package.MODEL_FOR_CAUSAL_LM_MAPPING:
        return False
    return type(config) not in package.MODEL_FOR_MASKED_LM_MAPPING or bool(getattr(config, "is_decoder", False))


def _step(parameters: Mapping[str, Any], ids: torch.Tensor, first: int, cache: Any) -> dict[str, Any]:
    """Return the arguments of a call with a cache that holds `first` tokens."""
    places = torch.arange(first, first + ids.shape[1], device=ids.device)
    found = {"input_ids": ids, "position_ids": places[None], "cache_position": places}
    known = {name: value for name, value in found.items() if name in parameters}
    return {**known, "past_key_values": cache, "use_cache": True}


def _static_cache(model: Any, length: int) -> Any:
    """A cache of keys and values of a fixed size. Older versions of transformers require its batch, dtype and device."""
    kind = importlib.import_module("transformers.cache_utils").StaticCache
    known = {
        "config": model.config.get_text_config(),
        "max_cache_len": length,
        "max_batch_size": 1,
        "device": model.device,
        "dtype": model.dtype,
    }
    parameters = inspect.signature(kind.__init__).parameters
    return kind(**{name: value for name, value in known.items() if name in parameters})


# Lightning


def _from_lightning(text: str, work: Work) -> tuple[ModuleType, Callable[[], Any]]:
    """Return the module's file, and a function that builds the model; in training mode a call of that model is its
    `training_step`."""
    target = Target.parse(text)
    module = import_target(target, work.root)
    kind = target_in(module, target.name or "", target.place)
    if not inspect.isclass(kind) or not _is_lightning(kind, "LightningModule"):
        raise RunError(f"{text} is no LightningModule: leave {LIGHTNING}: out")

    return module, lambda: TrainingStep(kind()) if work.options.mode == "train" else kind()


class TrainingStep(torch.nn.Module):  # type: ignore[misc]
    """Calls a LightningModule as a trainer does."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any, number: int) -> Any:
        return self.model.training_step(batch, number)


def _is_lightning(kind: type, name: str) -> bool:
    """Return whether a class is Lightning's, by name: it may come from `lightning` or from `pytorch_lightning`."""
    return any(base.__name__ == name for base in kind.__mro__)


def _inputs_of_lightning(model: Any, *, training: bool) -> Iterator[LibraryInputs]:
    """Return a batch for `training_step`; else `example_input_array`, else the part of a batch that the forward accepts.

    Raises RunError if a model is to be trained and nothing provides a batch.
    """
    example = getattr(model, "example_input_array", None)
    if example is not None and not training:
        yield LibraryInputs(lambda: example, "example_input_array")
    failures = []
    for label, loader in _loaders(model):
        try:
            batch = next(iter(loader()))
        except Exception as error:  # whatever it lacks, such as data to be fetched: another may have it
            failures.append(f"{label}: {type(error).__name__}: {error}")
        else:
            yield from _inputs_from_batch(batch, f"the first batch of {label}", training)
    if training:
        why = "; ".join(failures) or "no data module stands beside it that is made of nothing"
        raise RunError(f"no batch for {type(model).__name__}.training_step ({why}): --inputs names (batch, 0)")


def _inputs_from_batch(batch: Any, where: str, training: bool) -> Iterator[LibraryInputs]:
    """Yield the batch with its number, as a step takes it; for a forward the batch, or its first items."""
    if training:
        yield LibraryInputs(lambda: ((batch, 0), {}), f"{where}, to training_step")
        return
    yield LibraryInputs(lambda: ((batch,), {}), where)
    for count in range(len(batch) - 1, 0, -1) if isinstance(batch, (tuple, list)) else ():
        part = tuple(batch[:count])
        words = "its first item" if count == 1 else f"its first {count} items"
        yield LibraryInputs(functools.partial(lambda part: (part, {}), part), f"{where}, {words}")


def _loaders(model: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield providers of batches: the data modules of the model's file that need no arguments, then the model itself."""
    file = type(model).__module__
    for name, kind in vars(sys.modules[file]).items():
        if inspect.isclass(kind) and kind.__module__ == file and _is_lightning(kind, "LightningDataModule"):
            yield f"{name}.train_dataloader()", functools.partial(_loader_of, kind)
    if _overrides(type(model), "train_dataloader"):
        yield f"{type(model).__name__}.train_dataloader()", model.train_dataloader


def _loader_of(kind: Any) -> Any:
    """Return the data loader. `prepare_data` is not called, because it downloads."""
    data = kind()
    data.setup("fit")
    return data.train_dataloader()


def _overrides(kind: type, method: str) -> bool:
    """Return whether the class defines the method itself instead of inheriting Lightning's."""
    owner = next((base for base in kind.__mro__ if method in vars(base)), kind)
    return owner.__module__.partition(".")[0] not in ("lightning", "pytorch_lightning")


# Expressions


def _from_expression(text: str) -> tuple[ModuleType, Callable[[], Any]]:
    """Import the modules that an expression names. It is evaluated again for every model."""
    tree = ast.parse(text, mode="eval")
    scope: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (dotted := ast.unparse(node)).replace(".", "").isidentifier():
            _import_longest(dotted)
    bound = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    bound |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in bound and not hasattr(builtins, node.id):
            scope[node.id] = importlib.import_module(node.id)
    code = compile(tree, "--model", "eval")
    module = next((each for each in scope.values()), builtins)
    return module, lambda: eval(code, scope)  # noqa: S307 - the user's own line, to be run as a file of his would be


def _import_longest(dotted: str) -> None:
    """Import the longest prefix of a dotted name that is a module."""
    parts = dotted.split(".")
    for count in range(1, len(parts) + 1):
        try:
            importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            return
