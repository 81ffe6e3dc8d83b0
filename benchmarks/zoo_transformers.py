"""Builds a small model with random weights, and inputs for it, from nothing but the name of a class of transformers.

`find_recipe(target)` searches for a size of the default configuration and a kind of inputs with which an eager call
runs, and returns the arguments with which `build` makes that model again. No class, model type or package is named here:
the rules are about names and values of configuration fields, and about parameters of `forward`.

Sizes: every width is divided by the same factor, so ratios between widths stay as they are (heads, projections,
rotary sections). Stacks of layers are cut to the first layer of each kind. Vocabularies, experts, tables of positions
and images are reduced, and IDs of special tokens are moved into the vocabulary.

Inputs: an image or audio together with text that has a placeholder for each of its features, if the class takes both;
otherwise what `forward` takes.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

ROWS, TOKENS = 2, 8
VOCABULARY, POSITIONS, EXPERTS, LAYERS = 128, 512, 4, 2
FACTORS = (16, 8, 4, 2, 1)
PATCHES = (4, 8, None)
"""Patches along a side of an image, at most; None leaves images as configured."""
LARGEST = 60_000_000
"""Parameters of the largest model that is tried."""

WIDTH = re.compile(r"(size|sizes|dims?|n_embd|width|channels?|rank|inner|(^|_)d_[a-z]+)$")
NO_WIDTH = re.compile(
    r"vocab|image|img|patch|window|kernel|chunk|batch|group|pad|num_channels|in_chan|num_mel|mel_bins|max_|codebook_size|"
    r"crop|stride|position|grid|pool|input|sampl|frame|block_size|audio_channels|merge|scale|expand|context"
)
STACK = re.compile(r"(layers?|depth|depths|num_blocks|n_blocks?)$")
NO_STACK = re.compile(r"feat|index|indices|shared|feature|select")
EXPERT = re.compile(r"experts$|num_experts|expert_num|n_routed|local_experts")
CHOSEN = re.compile(r"experts_per_tok|top_?k$|num_selected_experts|moe_k$")
TOKEN = re.compile(r"token.*(id|ids|index)$|(^|_)(bos|eos|pad|sep|cls|mask)_id$|patch_id$")


class NotBuiltError(Exception):
    """No small model of a class, or no inputs for it, could be made."""


def load_class(target: str) -> Any:
    """Return the class of `package.module::Name`."""
    module, _, name = target.partition("::")
    return getattr(importlib.import_module(module), name)


# Configurations


def walk(config: Any) -> Iterator[Any]:
    """Yield a configuration and those that it holds, each once."""
    from transformers import PretrainedConfig

    seen, waiting = set(), [config]
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        for value in vars(found).values():
            held = (
                value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
            )
            waiting += [each for each in held if isinstance(each, PretrainedConfig)]


def shrink(config: Any, factor: int, patches: int | None, joined: bool) -> None:
    """Make a configuration and those that it holds small; `joined` fits projections to the width of the text."""
    for each in walk(config):
        _add_attention(each)
        _cut_stacks(each)
        for name, value in list(vars(each).items()):
            small = _small(name, value, factor)
            if small != value:
                setattr(each, name, small)
        if patches:
            _shrink_images(each, patches)
        _fit_heads(each)
        _fit_rotary_sections(each)
    if joined:
        _fit_projections(config)
    _move_tokens(config)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _small(name: str, value: Any, factor: int) -> Any:
    """Return the small value of a field."""
    if isinstance(value, dict):
        return {key: _small(str(key), each, factor) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        is_width = WIDTH.search(name) and not NO_WIDTH.search(name)
        if is_width and value and all(_is_number(each) for each in value):
            return type(value)(max(each // factor, 1) for each in value)
        if STACK.search(name) and value and all(_is_number(each) and each > 0 for each in value):
            return type(value)(min(each, LAYERS) for each in value)
        return value
    if name.startswith("use_pretrained"):
        return False
    if not _is_number(value) or value < 1:
        return value
    for pattern, most in (
        (r"vocab_size|num_embeddings$", VOCABULARY),
        (r"position|n_ctx", POSITIONS),
        (r"offset$", 1),
        (r"period$", 2),
    ):
        if re.search(pattern, name) and "num_conv_pos" not in name:
            return min(value, most)
    if name in ("n_group", "topk_group"):
        return 1
    if CHOSEN.search(name):
        return min(value, EXPERTS // 2)
    if EXPERT.search(name):
        return min(value, EXPERTS)
    if WIDTH.search(name) and not NO_WIDTH.search(name) and value >= 8:
        return max(value // factor, 1)
    return value


def _add_attention(config: Any) -> None:
    """Let the last layer of a hybrid of recurrence and attention attend, if the defaults name no layer that does."""
    count = getattr(config, "num_hidden_layers", None)
    for name, value in list(vars(config).items()):
        if isinstance(value, (list, tuple)) and value and all(each == "mamba" for each in value):
            setattr(config, name, [*value[:-1], "attention"])
        elif value is None and re.search(r"att\w*_layer_ind", name) and _is_number(count):
            setattr(config, name, [count - 1])


def _cut_stacks(config: Any) -> None:
    """Cut each stack of layers, with lists of a value a layer, to the first layer of each kind."""
    fields = vars(config)
    if "depths" in fields:  # of stages: only these are cut
        return
    for name, value in list(fields.items()):
        if not (_is_number(value) and value > LAYERS and STACK.search(name) and not NO_STACK.search(name)):
            continue
        lists = {
            key: each
            for key, each in fields.items()
            if (isinstance(each, (list, tuple)) or (isinstance(each, str) and "pattern" in key)) and len(each) == value
        }
        kept = _one_of_each_kind([tuple(str(each[at]) for each in lists.values()) for at in range(value)])
        kept = (
            [*range(max([len(kept), *(_prefix(each) for each in _computed_lists(config, value))]))]
            if not lists
            else kept
        )
        for key, each in lists.items():
            cut = [each[at] for at in kept]
            setattr(config, key, "".join(cut) if isinstance(each, str) else type(each)(cut))
        setattr(config, name, len(kept))
        for key, each in list(fields.items()):
            if (
                re.search(r"indices|indexes|_layer_ids|layers$", key)
                and "feature" not in key
                and isinstance(each, (list, tuple))
                and key not in lists
            ):
                if each and all(_is_number(one) for one in each) and max(each) >= len(kept):
                    inside = [one for one in each if one < len(kept)] or [len(kept) - 1]
                    setattr(config, key, type(each)(inside))
    for name, value in list(vars(config).items()):
        if re.search(r"feature_layers?$", name) and isinstance(value, (int, list, tuple)):
            inside = [min(max(each, -LAYERS), LAYERS - 1) for each in ([value] if _is_number(value) else value)]
            setattr(config, name, inside[0] if _is_number(value) else type(value)(inside))
        if _is_number(value) and re.search(r"first_k_dense|num_kv_shared|shared_layers|nextn", name):
            setattr(config, name, min(value, 0 if "shared" in name or "nextn" in name else 1))


def _computed_lists(config: Any, length: int) -> Iterator[Sequence[Any]]:
    """Yield the lists of a value a layer that a configuration computes."""
    for name, found in inspect.getmembers(type(config)):
        if isinstance(found, property):
            try:
                value = getattr(config, name)
            except Exception:  # it may need what is not set
                continue
            if isinstance(value, (list, tuple)) and len(value) == length:
                yield value


def _prefix(kinds: Sequence[Any]) -> int:
    """Return how many of the first layers have all kinds; 0 if that is most of a deep stack."""
    count = 1 + max(kinds.index(each) for each in kinds)
    return count if count <= 3 * LAYERS else 0


def _one_of_each_kind(kinds: Sequence[Any]) -> list[int]:
    first = {kind: at for at, kind in reversed(list(enumerate(kinds)))}
    kept = sorted(first.values())[:4]
    kept += [at for at in range(len(kinds)) if at not in kept][: max(LAYERS - len(kept), 0)]
    return sorted(kept)


def _shrink_images(config: Any, patches: int) -> None:
    patch = getattr(config, "patch_size", None) or getattr(config, "spatial_patch_size", None)
    patch = max(patch) if isinstance(patch, (list, tuple)) and patch else patch
    for name in ("image_size", "img_size"):
        size = vars(config).get(name)
        if not _is_number(patch):
            continue
        if _is_number(size):
            setattr(config, name, min(size, patches * patch))
        elif isinstance(size, (list, tuple)) and all(_is_number(each) for each in size):
            setattr(config, name, type(size)(min(each, patches * patch) for each in size))


def _own_width(config: Any) -> tuple[str, int] | None:
    """Return the name and the value of the field with the width of a configuration's layers."""
    names = ("embed_dim", "hidden_size", "d_model", "n_embd")
    return next(((name, vars(config)[name]) for name in names if _is_number(vars(config).get(name))), None)


def _fit_heads(config: Any) -> None:
    """Change numbers of heads until they divide the width, a multiple of four for each, unless that is set."""
    own, fields = _own_width(config), vars(config)
    if own is None or _is_number(fields.get("head_dim")):
        return
    for name, heads in list(fields.items()):
        if not (_is_number(heads) and re.search(r"(attention_heads|num_heads|n_heads?)$", name)) or "mamba" in name:
            continue
        fits = [each for each in range(1, heads + 1) if own[1] % each == 0 and own[1] // each % 4 == 0]
        if not fits or (own[1] % heads == 0 and own[1] // heads % 4 == 0):
            continue
        setattr(config, name, fits[-1])
        shared = fields.get("num_key_value_heads")
        if _is_number(shared):
            shared = fits[-1] if shared == heads else shared
            config.num_key_value_heads = max(each for each in range(1, shared + 1) if fits[-1] % each == 0)


def _fit_rotary_sections(config: Any) -> None:
    """Set the sections of rotary embeddings, also where only the model's code names them, to the width of a head."""
    rotary = next((each for name, each in vars(config).items() if "rope" in name and isinstance(each, dict)), None)
    own, heads = _own_width(config), getattr(config, "num_attention_heads", None)
    if rotary is None or own is None or not _is_number(heads) or not hasattr(config, "vocab_size"):
        return
    is_used = "mrope_section" in _source_of_models(config)
    if "mrope_section" not in rotary and not is_used:
        return
    share = rotary.get("partial_rotary_factor") or getattr(config, "partial_rotary_factor", None) or 1.0
    half = int((getattr(config, "head_dim", None) or own[1] // heads) * share) // 2
    first = 3 * half // 8
    if first < 1:
        raise NotBuiltError("heads are too narrow for rotary sections")
    rotary["mrope_section"] = [first, first, half - 2 * first]


@functools.cache
def _source_at(module: str) -> str:
    found = importlib.util.find_spec(module)
    return Path(found.origin).read_text("utf-8") if found is not None and found.origin is not None else ""


def _source_of_models(config: Any) -> str:
    """Return the text of the file with the models of a configuration; empty if there is none."""
    return _source_at(type(config).__module__.replace("configuration_", "modeling_"))


def _fit_projections(config: Any) -> None:
    text = next((each for each in walk(config) if each is not config and hasattr(each, "vocab_size")), None)
    own = _own_width(text) if text is not None else None
    if own is None:
        raise NotBuiltError("no text to fit projections to")
    for each in walk(config):
        for name, value in list(vars(each).items()):
            if (
                each is not text
                and _is_number(value)
                and re.search(r"proj\w*(dim|size)$|out\w*(dim|hidden_size)$", name)
            ):
                setattr(each, name, own[1])
        if each is not text and "embed_dim" in vars(each) and "hidden_size" in vars(each):
            each.hidden_size = own[1]  # the width of what leaves it, if another field has that of its layers


def _move_tokens(config: Any) -> None:
    """Move IDs of special tokens into the vocabulary: from its end downwards, a different one for each."""
    size = next((each.vocab_size for each in walk(config) if _is_number(getattr(each, "vocab_size", None))), None)
    if size is None:
        return
    free = size - 1
    for each in walk(config):
        for name, value in list(vars(each).items()):
            if not TOKEN.search(name):
                continue
            if _is_number(value) and value >= size - 16:
                setattr(each, name, _SPECIAL.get(name.partition("_")[0], free))
                free -= name.partition("_")[0] not in _SPECIAL
            elif isinstance(value, (list, tuple)) and value and all(_is_number(one) for one in value):
                setattr(each, name, type(value)(min(one, 2) for one in value))
    _add_tokens(config, free)


def _add_tokens(config: Any, free: int) -> None:
    """Set the IDs of tokens that models read from their configuration and that its defaults lack."""
    for name in sorted({*re.findall(r"self\.config\.(\w+_token_id)\b", _source_of_models(config))}):
        if not hasattr(config, name):
            setattr(config, name, free)
            free -= 1


_SPECIAL = {"pad": 0, "bos": 1, "eos": 2, "sep": 2, "cls": 1, "decoder": 1}


def make_config(cls: Any, factor: int, patches: int | None, joined: bool) -> Any:
    """Return the small default configuration of a class."""
    from transformers import PretrainedConfig

    named = typing.get_type_hints(cls.__init__).get("config")
    kind = named if inspect.isclass(named) and issubclass(named, PretrainedConfig) else cls.config_class
    if kind is None:
        raise NotBuiltError("the class names no configuration")
    config = kind()
    shrink(config, factor, patches, joined)
    return config


def make_model(cls: Any, config: Any) -> Any:
    """Return a model of a class in inference mode, without gradients of parameters."""
    count = 0
    try:
        with torch.device("meta"):
            count = sum(each.numel() for each in cls(config).parameters())
    except Exception:  # not every constructor works without values
        count = 0
    if count > LARGEST:
        raise NotBuiltError(f"{count // 1_000_000} million parameters")
    model = cls(config).float().eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


# Inputs


def first_field(config: Any, *names: str) -> Any:
    """Return the value of the first field that is set, in a configuration or one that it holds."""
    for each in walk(config):
        for name in names:
            value = getattr(each, name, None)
            if value is not None and not isinstance(value, bool):
                return value
    return None


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if _is_number(value) else (value[-2], value[-1]) if len(value) > 1 else (value[0], value[0])


class Inputs:
    """Makes arguments for the `forward` of a model."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.config = model.config
        self.parameters = inspect.signature(model.forward).parameters
        self.main = getattr(model, "main_input_name", "input_ids")
        size = first_field(self.config, "vocab_size")
        self.vocabulary = size if _is_number(size) else VOCABULARY
        special = [getattr(each, name) for each in walk(self.config) for name in vars(each) if TOKEN.search(name)]
        self.special = {each for each in special if _is_number(each)} | {0, 1, 2}

    def has(self, *names: str) -> bool:
        return all(name in self.parameters for name in names)

    def tokens(self, length: int = TOKENS) -> torch.Tensor:
        plain = torch.tensor([each for each in range(self.vocabulary) if each not in self.special])
        return plain[torch.randint(len(plain), (ROWS, length))]

    def text(self, ids: torch.Tensor | None = None) -> dict[str, Any]:
        ids = self.tokens() if ids is None else ids
        found = {"input_ids": ids}
        if self.has("attention_mask"):
            found["attention_mask"] = torch.ones_like(ids)
        if self.has("bbox"):
            found["bbox"] = torch.tensor([1, 2, 5, 7]).expand(*ids.shape, 4).contiguous()
        return found | self.decoder()

    def decoder(self) -> dict[str, Any]:
        if self.has("decoder_input_ids") and getattr(self.config, "is_encoder_decoder", False):
            return {"decoder_input_ids": self.tokens(6)}
        return {}

    def image(self, shape: str) -> dict[str, Any]:
        """Return images: `plain`, `tiles` (several for each row), or `patches`, which are packed with their grid."""
        vision = next((each for each in walk(self.config) if first_own(each, "patch_size", "image_size")), self.config)
        patch = _pair(first_field(vision, "patch_size", "spatial_patch_size") or 16)[0]
        channels = first_own(vision, "num_channels", "in_channels", "in_chans") or 3
        size = _pair(first_field(vision, "image_size", "img_size") or 4 * patch)
        found: dict[str, Any] = {}
        if shape == "plain":
            found["pixel_values"] = torch.randn(ROWS, channels, *size)
        elif shape == "tiles":
            found["pixel_values"] = torch.randn(ROWS, 2, channels, *size)
        else:
            merge = first_field(self.config, "spatial_merge_size", "merge_size") or 1
            across = 2 * merge if _is_number(merge) else 4
            depth = first_field(self.config, "temporal_patch_size") or 1
            count = ROWS * across * across
            inner = channels * patch * patch * depth
            if shape == "patches":
                found["pixel_values" if self.has("pixel_values") else "hidden_states"] = torch.randn(count, inner)
            else:
                found["pixel_values"] = torch.randn(ROWS, across * across, inner)
            grid = torch.tensor([[1, across, across]] * ROWS)
            found |= {name: grid for name in ("image_grid_thw", "grid_thw") if self.has(name)}
            if self.has("spatial_shapes"):
                found["spatial_shapes"] = grid[:, 1:].contiguous()
            if self.has("pixel_attention_mask"):
                found["pixel_attention_mask"] = torch.ones(ROWS, across * across, dtype=torch.long)
            if self.has("image_merge_sizes") or self.has("merge_sizes"):
                sizes = torch.tensor([merge] * ROWS)
                found |= {name: sizes for name in ("image_merge_sizes", "merge_sizes") if self.has(name)}
        if self.has("image_sizes"):
            found["image_sizes"] = torch.tensor([list(size)] * ROWS)
        return found

    def audio(self, shape: str) -> dict[str, Any]:
        """Return sound: a wave in one of two ranks, or features with time last or first."""
        if shape in ("wave", "channel"):
            name = "input_values" if self.has("input_values") else "audio_values" if self.has("audio_values") else None
            if name is None:
                raise NotBuiltError("no parameter for a wave")
            channels = first_field(self.config, "audio_channels") or 1
            return {name: torch.randn(ROWS, 3200) if shape == "wave" else torch.randn(ROWS, channels, 3200)}
        if not self.has("input_features"):
            raise NotBuiltError("no parameter for features of sound")
        bins = first_field(
            self.config,
            "num_mel_bins",
            "feature_projection_input_dim",
            "input_feat_size",
            "input_feat_per_channel",
            "n_mels",
            "d_model",
        )
        positions = first_field(self.config, "max_source_positions")
        frames = 2 * positions if _is_number(positions) else 64
        made = torch.randn(ROWS, bins, frames) if shape == "time last" else torch.randn(ROWS, frames, bins)
        found = {"input_features": made}
        for name in ("feature_attention_mask", "input_features_mask"):
            if self.has(name):
                found[name] = torch.ones(
                    ROWS, frames, dtype=torch.bool if name.endswith("features_mask") else torch.long
                )
        return found

    def with_text(self, made: dict[str, Any], getter: str, *tokens: str) -> dict[str, Any]:
        """Return images or sound with text that holds a placeholder for each of their features."""
        holder = self.model if hasattr(self.model, getter) else getattr(self.model, "model", self.model)
        getting = getattr(holder, getter, None)
        token = first_field(self.config, *tokens)
        if not _is_number(token):
            raise NotBuiltError("no placeholder")
        count = ROWS
        if getting is not None:
            taken = inspect.signature(getting).parameters
            given = {name: value for name, value in made.items() if name in taken}
            for name, parameter in taken.items():
                if parameter.default is parameter.empty and name not in given:
                    given[name] = first_field(self.config, name)
            with torch.no_grad():
                count = _count_rows(getting(**given))
        ids = self.tokens(TOKENS + count // ROWS)
        ids[:, 2 : 2 + count // ROWS] = token
        around = ("vision", "image") if "image" in getter else ("audio",)
        for place, name in ((1, "start"), (2 + count // ROWS, "end")):
            marker = first_field(self.config, *(f"{each}_{name}_token_id" for each in around))
            if _is_number(marker):
                ids[:, place] = marker
        found = made | self.text(ids)
        for name in ("mm_token_type_ids", "token_type_ids"):
            if self.has(name):
                found[name] = (ids == token).long()
        return found

    def complete(self, made: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with a value for each parameter that is required and has none yet."""
        width = first_field(self.config, "hidden_size", "d_model") or 32
        for name, parameter in self.parameters.items():
            if (
                name in made
                or parameter.default is not parameter.empty
                or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            ):
                continue
            if "mask" in name:
                made[name] = torch.ones(ROWS, TOKENS, dtype=torch.long)
            elif "ids" in name:
                made[name] = self.tokens()
            else:
                made[name] = torch.randn(ROWS, TOKENS, width)
        return made


def first_own(config: Any, *names: str) -> Any:
    """Return the value of the first field that a configuration itself sets."""
    return next((vars(config)[name] for name in names if vars(config).get(name)), None)


def _count_rows(features: Any) -> int:
    """Return the number of features of all images or sounds: each takes the place of a token."""
    for name in ("pooler_output", "last_hidden_state"):
        if getattr(features, name, None) is not None:
            features = getattr(features, name)
            break
    if isinstance(features, (list, tuple)):
        if features and all(isinstance(each, torch.Tensor) and each.dim() == 2 for each in features):
            return sum(len(each) for each in features)
        return _count_rows(features[0])
    return features.shape[0] * features.shape[1] if features.dim() == 3 else features.shape[0]


IMAGES = ("image_token_id", "image_token_index", "image_patch_id", "img_context_token_id", "im_patch_id")
SOUNDS = ("audio_token_id", "audio_token_index", "audio_tok_id")
Maker = Callable[[Inputs], dict[str, Any]]


def kinds_of_inputs() -> dict[str, Maker]:
    """Return the ways to make inputs by name, those that reach the most of a model first."""
    found: dict[str, Maker] = {}
    for shape in ("plain", "patches", "tiles", "padded patches"):
        found[f"image {shape}, text"] = lambda of, shape=shape: of.with_text(
            of.image(shape), "get_image_features", *IMAGES
        )
    for shape in ("time last", "time first", "wave"):
        found[f"audio {shape}, text"] = lambda of, shape=shape: of.with_text(
            of.audio(shape), "get_audio_features", *SOUNDS
        )
    for shape in ("plain", "patches", "tiles", "padded patches"):
        found[f"image {shape} beside text"] = lambda of, shape=shape: of.text() | of.image(shape)
    for shape in ("wave", "channel", "time last", "time first"):
        found[f"audio {shape} beside text"] = lambda of, shape=shape: of.text() | of.audio(shape)
    found["text"] = lambda of: of.text()
    for shape in ("plain", "patches", "tiles", "padded patches"):
        found[f"image {shape}"] = lambda of, shape=shape: of.image(shape) | of.decoder()
    for shape in ("wave", "channel", "time last", "time first"):
        found[f"audio {shape}"] = lambda of, shape=shape: of.audio(shape) | of.decoder()
    found["required"] = lambda _: {}
    return found


def make_inputs(model: Any, kind: str) -> dict[str, Any]:
    """Return inputs of a kind for a model.

    Raises NotBuiltError if `forward` does not take them.
    """
    of = Inputs(model)
    made = of.complete(kinds_of_inputs()[kind](of))
    takes_any = any(each.kind is each.VAR_KEYWORD for each in of.parameters.values())
    for name in made:
        if name not in of.parameters and not (takes_any and name in ("attention_mask",)):
            raise NotBuiltError(f"no parameter {name}")
    return made


def build(
    target: str, factor: int, patches: int | None, joined: bool, kind: str
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return a small model of a class, and the arguments and keywords of a call."""
    cls = load_class(target)
    model = make_model(cls, make_config(cls, factor, patches, joined))
    return model, (), make_inputs(model, kind)


def find_recipe(target: str) -> dict[str, Any]:
    """Return arguments of `build` with which the model of a class runs: the richest inputs, then the smallest sizes.

    Raises NotBuiltError with the reasons if there are none.
    """
    cls = load_class(target)
    reasons: dict[str, str] = {}

    @functools.cache
    def model_of(*size: Any) -> Any:
        torch.manual_seed(0)
        try:
            return make_model(cls, make_config(cls, *size))
        except Exception as error:  # whatever a constructor raises
            return error

    for kind in kinds_of_inputs():
        for size in itertools.product(FACTORS, PATCHES, (False, True)):
            model = model_of(*size)
            try:
                if isinstance(model, Exception):
                    raise model
                made = make_inputs(model, kind)
                with torch.no_grad():
                    model(**made)
            except Exception as error:  # whatever a model raises
                where = "not built" if error is model else f"with {kind}"
                reasons.setdefault(where, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
                if isinstance(error, NotBuiltError) and error is not model:
                    break  # it does not depend on sizes
                continue
            return {"target": target, **dict(zip(("factor", "patches", "joined"), size, strict=True)), "kind": kind}
    raise NotBuiltError(
        "; ".join(f"{where}: {why}" for where, why in reasons.items() if "NotBuilt" not in why)[:1200] or str(reasons)
    )
