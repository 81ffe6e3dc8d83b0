"""Generate inputs for a module without any: guess them, try them in eager, and correct them by the exceptions of the
forward.

The first guess is what a model of transformers or timm defines itself; else it is based on annotations and parameter
names. A try runs the forward without gradients and records which layer gets a parameter directly: an Embedding wants
indices below its size, a Linear its `in_features`, a convolution its channels. The exception of the forward then
corrects the guess. If there are several corrections, the one with the forward that got farthest is tried first; after
`TRIES` the search ends. Nothing is random: the same module gets the same inputs.
"""

from __future__ import annotations

import contextlib
import heapq
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_origin

import torch
from tcready.dynamic.worker.core.case import NoInputsError
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.inputs.loading import SEED_BUILD, dtype_of
from tcready.dynamic.worker.inputs.stand_ins import tried
from tcready.dynamic.worker.torch_internals import layers
from tcready.dynamic.worker.torch_internals.known_values import keep_values
from torch import nn
from torch.nn.modules import module as hooks

TRIES = 24
"""The most eager calls."""
BATCH, LENGTH, IMAGE, CHANNELS = 2, 8, 32, 3
IMAGE_SIZES = (28, 64, 224, 96, 128, 256, 16)
"""Sizes that are tried in this order if a layer after the convolutions wants another size."""
LENGTHS = (16, 32, 64, 128, 1024, 16000)
SIGNAL = 16000
"""The number of samples: one second of speech."""

Kind = Literal["float", "long", "ones", "bool", "value"]


@dataclass(frozen=True)
class Guess:
    """The value for one parameter: a tensor of `shape`, or a plain `value`."""

    kind: Kind
    shape: tuple[int, ...] = ()
    high: int = LENGTH
    """For `long`: indices are below it."""
    value: Any = None
    several: bool = False
    """True if it is passed in a list."""

    def words(self, name: str, dtype: torch.dtype) -> str:
        if self.kind == "value":
            return f"{name} {self.value!r}"
        kinds = {"float": dtype, "long": torch.int64, "ones": torch.int64, "bool": torch.bool}
        text = f"{str(kinds[self.kind]).removeprefix('torch.')} {self.shape}"
        return f"{name} [{text}]" if self.several else f"{name} {text}"


Guesses = tuple[tuple[str, Guess], ...]
"""By parameter, in the order of the signature."""


@dataclass(frozen=True)
class SynthesizedInputs:
    """Inputs that an eager call accepted: `(args, kwargs)`, and their description."""

    case: tuple[tuple[Any, ...], dict[str, Any]]
    label: str


@dataclass
class Try:
    """The results of one eager call."""

    error: Exception | None = None
    entered: int = 0
    """The number of modules with a forward that began."""
    fed: dict[str, nn.Module] = field(default_factory=dict)
    """By parameter, the first layer with requirements that got it directly."""
    layer: nn.Module | None = None
    """The innermost module with a forward that did not end."""


def init_of(value: Any) -> Callable[[], Any] | None:
    """A function that provides the constructor's arguments of a class of transformers: its configuration's defaults."""
    kind = getattr(value, "config_class", None)
    if not inspect.isclass(value) or kind is None:
        return None
    parameters = list(inspect.signature(value).parameters.values())
    wants = bool(parameters) and parameters[0].name == "config" and parameters[0].default is inspect._empty
    return (lambda: [kind()]) if wants else None


def synthesise(model: Any, work: Work, one_line: Callable[[BaseException], str]) -> SynthesizedInputs:
    """Return inputs that `model` accepts in eager. Raises RunError with the last try, in one line, if none was found.

    `model` is an nn.Module or a function; `one_line` formats an exception in one line.
    """
    search = _Search(model, work)
    failed: tuple[Guesses, Exception] | None = None
    for guesses in search.tries():
        seen = search.attempt(guesses)
        if seen.error is None:
            args, kwargs = search.call_of(guesses)
            return SynthesizedInputs((args, kwargs), search.label(guesses))
        failed = guesses, seen.error
        search.learn(guesses, seen)
    if failed is None:
        raise NoInputsError("inputs could not be made up: the forward names no parameter; give them with --inputs")
    raise NoInputsError(
        f"inputs could not be made up in {search.count} tries, give them with --inputs; the last, "
        f"{search.label(failed[0])}: {one_line(failed[1])}"
    )


class _Search:
    """The remaining guesses, best first."""

    def __init__(self, model: Any, work: Work) -> None:
        self.model = model
        self.device = work.options.device
        floating = [p.dtype for p in model.parameters() if p.is_floating_point()] if _is_module(model) else []
        self.dtype = dtype_of(work.options.dtype) if work.options.dtype else floating[0] if floating else torch.float32
        self.parameters = _parameters(model)
        self.count = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, Guesses]] = []
        self._known: set[Guesses] = set()
        for guesses in self._first():
            self._add(guesses, 0)

    def tries(self) -> Iterator[Guesses]:
        while self._waiting and self.count < TRIES:
            self.count += 1
            yield heapq.heappop(self._waiting)[2]

    def learn(self, guesses: Guesses, seen: Try) -> None:
        for better in _better_guesses(guesses, seen, self._unused_parameters(guesses)):
            self._add(better, seen.entered)

    def _add(self, guesses: Guesses, reached: int) -> None:
        if guesses and guesses not in self._known:
            self._known.add(guesses)
            heapq.heappush(self._waiting, (-reached, next(self._order), guesses))

    def _first(self) -> Iterator[Guesses]:
        """Yield the first guesses: by the model's own definition, then by its signature."""
        names = self._names()
        config = getattr(self.model, "config", None)
        own = _guess_from_transformers(self.model) if config is not None else {}
        timm = getattr(self.model, "pretrained_cfg", None) or getattr(self.model, "default_cfg", None)
        size = timm.get("input_size") if isinstance(timm, Mapping) else getattr(timm, "input_size", None)
        if size and len(names) == 1:
            own = {names[0]: Guess("float", (BATCH, *map(int, size)))}
        given = {name: own.get(name) or self._guess(name, config) for name in (*own, *names)}
        yield tuple((name, given[name]) for name in self.parameters if name in given)

    def _names(self) -> list[str]:
        """Return the parameters of the first guess: those without a default, else the first of all."""
        needed = [name for name, item in self.parameters.items() if item.default is inspect.Parameter.empty]
        return needed or list(self.parameters)[:1]

    def _unused_parameters(self, guesses: Guesses) -> dict[str, Guess]:
        """Return the parameters that are not passed, with their values."""
        given = dict(guesses)
        config = getattr(self.model, "config", None)
        return {name: self._guess(name, config) for name in self.parameters if name not in given}

    def _guess(self, name: str, config: Any) -> Guess:
        annotation = self.parameters[name].annotation
        plain = inspect.isclass(annotation) and get_origin(annotation) is None
        words = set(re.findall(r"\w+", annotation.__name__ if plain else str(annotation)))
        if "Tensor" not in words:
            for kind, value in (("bool", False), ("int", BATCH), ("float", 1.0), ("str", "")):
                if kind in words:
                    return Guess("value", value=value)
        if "LongTensor" in words and not _by_name(name, config, self.parameters):
            return Guess("long", (BATCH, LENGTH), _smallest_table(self.model))
        found = _by_name(name, config, self.parameters) or Guess("float", (BATCH, LENGTH))
        if found.kind == "long" and found.high == 0:
            found = replace(found, high=_smallest_table(self.model))
        several = bool(words & {"list", "List", "Sequence", "tuple", "Tuple"}) and "Tensor" in words
        return replace(found, several=several)

    def label(self, guesses: Guesses) -> str:
        return ", ".join(guess.words(name, self.dtype) for name, guess in guesses)

    def call_of(self, guesses: Guesses) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments: by position as far as the order of the signature is kept, by name from there on."""
        torch.manual_seed(SEED_BUILD)
        values = {name: self._value(guess) for name, guess in guesses}
        args = []
        for name, item in self.parameters.items():
            if name not in values or item.kind is inspect.Parameter.KEYWORD_ONLY:
                break
            args.append(values.pop(name))
        return tuple(args), values

    def _value(self, guess: Guess) -> Any:
        if guess.kind == "value":
            return guess.value
        if guess.kind == "float":
            made = torch.randn(guess.shape).to(self.dtype)
        elif guess.kind == "long":
            made = torch.randint(0, max(guess.high, 1), guess.shape)
        else:
            made = torch.ones(guess.shape, dtype=torch.bool if guess.kind == "bool" else torch.int64)
        made = keep_values(made.to(self.device), made)
        return [made] if guess.several else made

    def attempt(self, guesses: Guesses) -> Try:
        """Make one eager call without gradients."""
        args, kwargs = self.call_of(guesses)
        positions = dict(zip((name for name, _ in guesses), args, strict=False))
        owners = {id(value): name for name, value in {**positions, **kwargs}.items()}
        seen = Try()
        stack: list[nn.Module] = []

        def enter(module: nn.Module, given: Any) -> None:
            stack.append(module)
            seen.entered += 1
            for value in given:
                name = owners.get(id(value))
                if name is not None and name not in seen.fed and _wish(module, dict(guesses)[name]):
                    seen.fed[name] = module

        def leave(_module: nn.Module, _args: Any, _output: Any) -> None:
            stack.pop()

        handles = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave)]
        try:
            with torch.no_grad(), torch.compiler.set_stance("force_eager"), tried(self.device):
                self.model(*args, **kwargs)
        except Exception as error:
            seen.error = error
            seen.layer = stack[-1] if stack else None
        finally:
            for handle in handles:
                handle.remove()
        return seen


def _is_module(model: Any) -> bool:
    return isinstance(model, nn.Module)


def _parameters(model: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be passed by name, and one that takes any number by position."""
    with contextlib.suppress(TypeError, ValueError):
        signature = inspect.signature(model.forward if _is_module(model) else model)
        kinds = inspect.Parameter
        named = {
            name: item
            for name, item in signature.parameters.items()
            if item.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        }
        if named:
            return named
        return {name: item for name, item in signature.parameters.items() if item.kind is kinds.VAR_POSITIONAL}
    return {}


# First guesses


def _guess_from_transformers(model: Any) -> dict[str, Guess]:
    """Return the guess from `dummy_inputs` for the main input, else from the configuration."""
    main = getattr(model, "main_input_name", None)
    if not isinstance(main, str) or main not in _parameters(model):
        return {}
    config = model.config
    found: dict[str, Guess] = {}
    guess = _by_name(main, config, {})
    dummy: Any = None
    with contextlib.suppress(Exception):  # a property of foreign code
        dummy = model.dummy_inputs.get(main)
    if isinstance(dummy, torch.Tensor) and not dummy.is_floating_point():
        guess = Guess("long", tuple(dummy.shape), _field(config, "vocab_size") or int(dummy.max()) + 1)
    if guess is not None:
        found[main] = guess
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in _parameters(model):
        found["decoder_input_ids"] = Guess("long", (_batch(guess), LENGTH), _field(config, "vocab_size") or 2)
    return found


def _batch(guess: Guess | None) -> int:
    return guess.shape[0] if guess is not None and guess.shape else BATCH


def _field(config: Any, *names: str) -> Any:
    """Return the first of these fields that a configuration, or a part of it, has."""
    parts = [config, *(getattr(config, part, None) for part in ("text_config", "vision_config", "audio_config"))]
    for part, name in itertools.product(parts, names):
        value = part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)
        if value:
            return value
    return None


IDS = frozenset(
    "input_ids ids tokens token_ids src_tokens decoder_input_ids words text indices idx index src tgt".split()
)
MASKS = frozenset("attention_mask decoder_attention_mask encoder_attention_mask".split())
IMAGES = frozenset("pixel_values image images img imgs pixels sample".split())
LABELS = frozenset("labels label target targets".split())
TIMES = frozenset("t time timestep timesteps".split())
SIGNALS = frozenset("audio waveform waveforms wav speech input_values raw_speech".split())
SPECTRA = frozenset("input_features mel mels spec spectrogram".split())


def _by_name(name: str, config: Any, parameters: Mapping[str, Any]) -> Guess | None:
    """The guess for a parameter of this name, with the sizes of a configuration. A `high` of 0 is not known yet."""
    graph = "edge_index" in parameters
    if name == "edge_index":
        return Guess("long", (2, 2 * LENGTH), LENGTH)
    if name in ("edge_attr", "edge_weight"):
        return Guess("float", (2 * LENGTH, LENGTH) if name == "edge_attr" else (2 * LENGTH,))
    if graph and name == "batch":
        return Guess("long", (LENGTH,), 1)
    if graph and name in ("x", "h", "feat", "features", "node_feat"):
        return Guess("float", (LENGTH, LENGTH))
    if name in IDS:
        return Guess("long", (BATCH, LENGTH), _field(config, "vocab_size") or 0)
    if name in ("token_type_ids", "segment_ids"):
        return Guess("long", (BATCH, LENGTH), _field(config, "type_vocab_size") or 2)
    if name == "position_ids":
        return Guess("long", (BATCH, LENGTH), LENGTH)
    if name in MASKS:
        return Guess("ones", (BATCH, LENGTH))
    if name == "mask" or name.endswith("_mask"):
        return Guess("bool", (BATCH, LENGTH))
    if name in IMAGES:
        size = _field(config, "image_size", "sample_size") or IMAGE
        sides = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        channels = _field(config, "num_channels", "in_channels") or CHANNELS
        return Guess("float", (BATCH, int(channels), *map(int, sides)))
    if name in LABELS:
        return Guess("long", (BATCH,), 2)
    if name in TIMES:
        return Guess("long", (BATCH,), 1000)
    if name in ("lengths", "lens", "length", "seq_lens"):
        return Guess("long", (BATCH,), 2)
    if name in SIGNALS:
        return Guess("float", (BATCH, SIGNAL))
    if name in SPECTRA:
        bins = _field(config, "num_mel_bins", "input_feat_per_channel") or 80
        positions = _field(config, "max_source_positions")
        return Guess("float", (BATCH, int(bins), 2 * int(positions) if positions else 128))
    return None


def _smallest_table(model: Any) -> int:
    """Return the size of the smallest table of all Embeddings of the model."""
    kinds = (nn.Embedding, nn.EmbeddingBag)
    sizes = (
        [module.num_embeddings for module in model.modules() if isinstance(module, kinds)] if _is_module(model) else []
    )
    return min(sizes, default=LENGTH)


# Requirements of the first layer


def _wish(layer: nn.Module, guess: Guess) -> Guess | None:
    """Return the guess that a layer requires for its input; None for a layer that accepts anything."""
    if guess.kind == "value":
        return None
    shape = guess.shape
    if isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        ids = shape if guess.kind == "long" and shape else (BATCH, LENGTH)
        return replace(guess, kind="long", shape=ids, high=layer.num_embeddings)
    if isinstance(layer, nn.Linear):
        return _floating(guess, (*(shape[:-1] or (BATCH,)), layer.in_features))
    if isinstance(layer, layers.CONVOLUTION):
        spatial = len(layer.kernel_size)
        sides = shape[2:] if len(shape) == spatial + 2 else _sides(spatial)
        return _floating(guess, (BATCH, layer.in_channels, *sides))
    if isinstance(layer, (layers.BATCH_NORM, nn.GroupNorm)):
        channels = layer.num_channels if isinstance(layer, nn.GroupNorm) else layer.num_features
        wanted = {"BatchNorm1d": 0, "InstanceNorm1d": 1, "BatchNorm3d": 3, "InstanceNorm3d": 3}
        spatial = wanted.get(type(layer).__name__, 2)
        keeps_sides = len(shape) == spatial + 2 or (isinstance(layer, nn.GroupNorm) and len(shape) > 2)
        return _floating(guess, (BATCH, channels, *(shape[2:] if keeps_sides else _sides(spatial))))
    normalized = getattr(layer, "normalized_shape", None)
    if isinstance(normalized, tuple):
        leading = shape[: -len(normalized)] or (BATCH, LENGTH)
        return _floating(guess, (*leading, *normalized))
    if isinstance(layer, nn.RNNBase):
        return _floating(guess, (BATCH, LENGTH, layer.input_size))
    if isinstance(layer, nn.RNNCellBase):
        return _floating(guess, (BATCH, layer.input_size))
    width = getattr(layer, "embed_dim", None) or getattr(layer, "d_model", None)
    attends = (nn.MultiheadAttention, nn.Transformer)
    if isinstance(layer, attends) and isinstance(width, int):
        return _floating(guess, (BATCH, LENGTH, width))
    return None


def _floating(guess: Guess, shape: tuple[int, ...]) -> Guess:
    return replace(guess, kind="float", shape=shape)


def _sides(spatial: int) -> tuple[int, ...]:
    return {0: (), 1: (2 * IMAGE,), 2: (IMAGE, IMAGE), 3: (IMAGE // 2,) * 3}.get(spatial, (LENGTH,) * spatial)


# Errors of the forward


def _better_guesses(guesses: Guesses, seen: Try, offered: Mapping[str, Guess]) -> Iterator[Guesses]:
    """Yield better guesses, the more likely ones first."""
    wanted = tuple(
        (name, (_wish(seen.fed[name], guess) or guess) if name in seen.fed else guess) for name, guess in guesses
    )
    if wanted != guesses:
        yield wanted
    text = str(seen.error)
    yield from _add_missing(guesses, text, offered)
    for name, guess in guesses:
        for better in _repairs(guess, text, seen, name in seen.fed):
            yield tuple((n, better if n == name else g) for n, g in guesses)
    if "None" in text:
        for name, guess in offered.items():
            yield _with(guesses, name, guess)


def _add_missing(guesses: Guesses, text: str, offered: Mapping[str, Guess]) -> Iterator[Guesses]:
    """Yield guesses with each parameter that the error names and that was not passed: all of them, then one by one."""
    named = [name for name in offered if len(name) > 2 and re.search(rf"\b{re.escape(name)}\b", text)]
    if named:
        together = guesses
        for name in named:
            together = _with(together, name, offered[name])
        yield together
    for name in named if len(named) > 1 else ():
        yield _with(guesses, name, offered[name])


def _with(guesses: Guesses, name: str, guess: Guess) -> Guesses:
    return (*guesses, (name, guess))


RANK = re.compile(r"(\d) ?-?(?:D\b|d\b|dim)")
UNPACK = re.compile(r"values to unpack \(expected (\d+)")
OUT_OF_RANGE = re.compile(r"Dimension out of range \(expected to be in range of \[-(\d+)")
BOUND = re.compile(r"out of bounds for dimension \d+ with size (\d+)")
PAIRS = (
    (re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)"), (1, 2)),
    (re.compile(r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)"), (2, 1)),
    (re.compile(r"shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)"), (1, 2)),
    (re.compile(r"to have (\d+) channels, but got (\d+) channels"), (2, 1)),
    (re.compile(r"should contain (\d+) elements not (\d+)"), (1, 2)),
    (re.compile(r"expected input with shape \[\*, (\d+)\], but got input of size\s*\[(?:\d+, )*(\d+)\]"), (2, 1)),
    (re.compile(r"(?i)expect(?:ed|ing)\D*(\d+)\D+got \D*(\d+)"), (2, 1)),
    (re.compile(r"\((\d+)\D+?\((\d+)"), (1, 2)),
)
"""Errors that name the actual and the expected size, and the regex groups of both."""
WANTS_INDICES = re.compile(r"scalar types?:? Long|used as indices|indices must|int64|tensors? of type long", re.I)
WANTS_FLOAT = re.compile(
    r"same dtype|scalar type (?:Float|Half|BFloat16)|not implemented for '(?:Long|Int|Bool)'|floating.?point|"
    r"Input type \(.*(?:Long|Int|Bool)",
    re.I,
)
WANTS_BOOL = re.compile(r"bool", re.I)
WANTS_NUMBER = re.compile(
    r"Python scalar|converted to Scalar|interpreted as an integer|must be (?:int|a number|real)|not Tensor|"
    r"only integer tensors|must be tuple of ints|unhashable|Boolean value of Tensor"
)


def _repairs(guess: Guess, text: str, seen: Try, fed: bool) -> Iterator[Guess]:
    if guess.kind == "value":
        return
    shape = guess.shape
    yield from _ranks(guess, text)
    pairs = [(int(match[got]), int(match[want])) for wording, (got, want) in PAIRS if (match := wording.search(text))]
    for got, want in pairs:
        places = [place for place, size in enumerate(shape) if size == got and place > 0]
        if len(places) > 1:
            yield replace(guess, shape=tuple(want if place in places else size for place, size in enumerate(shape)))
        for place in reversed(places):
            yield replace(guess, shape=(*shape[:place], want, *shape[place + 1 :]))
    if guess.kind == "long" and "out of " in text:
        yield from _in_range(guess, text, seen)
    if guess.kind != "long" and not fed and WANTS_INDICES.search(text):
        yield replace(guess, kind="long", shape=shape if len(shape) < 3 else (BATCH, LENGTH))
    if guess.kind != "float" and WANTS_FLOAT.search(text):
        yield replace(guess, kind="float")
    if guess.kind != "bool" and not fed and WANTS_BOOL.search(text):
        yield replace(guess, kind="bool")
    if not fed and WANTS_NUMBER.search(text):
        yield Guess("value", value=BATCH)
        yield replace(guess, shape=())
    if guess.kind == "float" and len(shape) >= 3:
        yield from _other_sizes(guess, pairs)
    if guess.kind == "float" and not fed:
        for other in ((BATCH, LENGTH, LENGTH), (BATCH, CHANNELS, IMAGE, IMAGE)):
            yield replace(guess, shape=other)
        yield Guess("long", (BATCH, LENGTH), guess.high)


def _ranks(guess: Guess, text: str) -> Iterator[Guess]:
    """Return the guess with as many dimensions as the error requires; the most if it allows several."""
    have = len(guess.shape)
    wanted = [int(match[1]) for match in UNPACK.finditer(text)]
    wanted += sorted((int(number) for number in RANK.findall(text)), reverse=True)
    if any(int(match[1]) == have for match in OUT_OF_RANGE.finditer(text)) or "index out of range" in text:
        wanted.append(have + 1)
    last = guess.shape[-1] if guess.shape else LENGTH
    for rank in dict.fromkeys(wanted):
        if rank == have or not 0 < rank < 6:
            continue
        shapes = {
            1: (BATCH,),
            2: (BATCH, last),
            3: (BATCH, LENGTH, last),
            4: (BATCH, CHANNELS, IMAGE, IMAGE),
            5: (BATCH, CHANNELS, LENGTH, IMAGE, IMAGE),
        }
        yield replace(guess, shape=shapes[rank])


def _in_range(guess: Guess, text: str, seen: Try) -> Iterator[Guess]:
    """Yield lower indices, and a shorter row if the table is one of positions."""
    match = BOUND.search(text)
    table = int(match[1]) if match else getattr(seen.layer, "num_embeddings", None)
    if isinstance(table, int):
        if guess.shape and table < guess.shape[-1]:
            yield replace(guess, shape=(*guess.shape[:-1], table))
        if table < guess.high:
            yield replace(guess, high=table)
    if guess.high > 2:
        yield replace(guess, high=2)


def _other_sizes(guess: Guess, pairs: list[tuple[int, int]]) -> Iterator[Guess]:
    """Yield other sides of an image, or other lengths: first those derived from a layer that got `got` features for
    `want`."""
    shape = guess.shape
    spatial = len(shape) - 2
    sizes = list(IMAGE_SIZES if spatial > 1 else LENGTHS)
    for got, want in reversed(pairs):
        side = round(shape[-1] * math.pow(want / got, 1 / spatial)) if got else 0
        if 0 < side <= 1024:
            sizes.insert(0, side)
    for size in sizes:
        yield replace(guess, shape=(*shape[:2], *([size] * spatial)))
