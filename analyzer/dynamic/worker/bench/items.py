"""Derive the items that a call processes from its tensors: the rules for units of throughput. This does not load
torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tcready.schema.bench import Items
from tcready.schema.enums import Mode

IMAGE_CHANNELS = (1, 3, 4)
"""Grey, RGB, and RGB with a mask or a latent of an autoencoder."""
MANY_NAMES = 3
"""If more tensors than this share a dimension, messages give their number instead of their names."""


TensorKind = Literal["integer", "floating", "other"]
"""`other`: complex numbers and truth values."""


@dataclass(frozen=True)
class TensorArgument:
    """A tensor among the arguments of a call."""

    name: str
    """The name as the caller would write it: `input_ids`, `batch['input_ids']`."""
    shape: tuple[int, ...]
    kind: TensorKind

    @property
    def is_input_ids(self) -> bool:
        """Return whether the tensor, or its key, is called `input_ids`."""
        return self.name == "input_ids" or self.name.endswith(("['input_ids']", ".input_ids"))


def derive_items(arguments: Sequence[TensorArgument], mode: Mode, accumulate: int = 1) -> tuple[Items, ...]:
    """Return the units in which one call of these arguments is counted, the main one first; empty if no rule applies.

    In training, counts are those of a step, which has `accumulate` forwards, and steps are a unit themselves.
    """
    tensors = [each for each in arguments if each.shape and 0 not in each.shape]
    found = next((found for rule in RULES if (found := rule(tensors))), ())
    return for_a_step(found, mode, accumulate)


def for_a_step(found: Sequence[Items], mode: Mode, accumulate: int) -> tuple[Items, ...]:
    """Convert the items of one forward to those of the timed step: in training a step has `accumulate` forwards."""
    if mode != "train":
        return tuple(found)
    if accumulate > 1:
        forwards = f", {accumulate} forwards a step"
        found = [Items(each.unit, each.count * accumulate, each.label + forwards) for each in found]
    if any(each.unit == "steps" for each in found):
        return tuple(found)
    return (*found, Items("steps", 1.0, "steps: one a call"))


def _count_tokens(tensors: Sequence[TensorArgument]) -> tuple[Items, ...]:
    """Count an integer tensor of 2 dimensions that is called `input_ids` or is the first one: ids, samples by tokens."""
    ids = next((each for each in tensors if each.is_input_ids), tensors[0] if tensors else None)
    if ids is None or ids.kind != "integer" or len(ids.shape) != 2:
        return ()
    batch, length = ids.shape
    return (
        Items("tokens", batch * length, f"tokens: {batch} x {length} {ids.name}"),
        Items("samples", batch, f"samples: {batch}, the first dimension of {ids.name}"),
    )


def _count_images(tensors: Sequence[TensorArgument]) -> tuple[Items, ...]:
    """Count a floating tensor of 4 dimensions that has the channels of an image and is the first one.

    It must be the only one of 4 dimensions: queries, keys and values have as many, and few heads look like channels.
    """
    of_four = [each for each in tensors if each.kind == "floating" and len(each.shape) == 4]
    if len(of_four) != 1 or of_four[0] is not tensors[0] or of_four[0].shape[1] not in IMAGE_CHANNELS:
        return ()
    (images,) = of_four
    shape = " x ".join(map(str, images.shape))
    return (Items("images", images.shape[0], f"images: {shape} {images.name}"),)


def _count_samples(tensors: Sequence[TensorArgument]) -> tuple[Items, ...]:
    """Count the first dimension, if all tensors share it. For vectors alone it is their length, not a batch."""
    sizes = {each.shape[0] for each in tensors}
    if len(sizes) != 1 or all(len(each.shape) == 1 for each in tensors):
        return ()
    (size,) = sizes
    few = len(tensors) <= MANY_NAMES
    of = ", ".join(each.name for each in tensors) if few else f"all {len(tensors)} tensors"
    return (Items("samples", size, f"samples: {size}, the first dimension of {of}"),)


RULES: tuple[Callable[[Sequence[TensorArgument]], tuple[Items, ...]], ...] = (
    _count_tokens,
    _count_images,
    _count_samples,
)
"""The first rule that counts something decides. Each gets the tensors that have dimensions, in the order of the call."""
