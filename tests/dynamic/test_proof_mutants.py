"""A sample of wrong patches and right refactorings of fixture models. `prove` refuses the first and accepts the others.

`benchmarks/proof_mutants.py` is the long tier.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import right_patches
import witness
import wrong_patches
from rewriting_models import Model, candidates, carried_out, models, patch_between
from tcready import api

pytestmark = [pytest.mark.torch, pytest.mark.slow]
SAMPLE = {model.name: model for model in models()}
TRIES = 10


def patched(model: Model, kind: str, *, wrong: bool) -> str:
    """A patch of one kind for a model, which is as right or wrong as the witness search says."""
    rewrite = (wrong_patches.KINDS if wrong else right_patches.KINDS)[kind]
    possible = list(candidates(model.text, {kind: rewrite}))
    random.Random(kind).shuffle(possible)
    for _, site, other in possible[:TRIES]:
        new = carried_out(site, other)
        if new is not None:
            verdict, _ = witness.search(model.text, new, all_lines_run=not wrong)
            if verdict == ("differs" if wrong else "same"):
                return patch_between(model.text, new)
    raise AssertionError(f"no patch of this kind is {'wrong' if wrong else 'right'}")


def prove(model: Model, patch: str, folder: Path) -> tuple[bool, str | None]:
    """Whether a patch of a model holds, and why it does not."""
    (folder / "model.py").write_text(model.text, "utf-8")
    change = api.prove(patch, model.target, root=folder, inputs="model.py::get_inputs")
    assert not isinstance(change, str), change
    return api.holds(change), change.reason or change.unsafe


WRONG = {
    "change a text": "tricky/clean_classes_given_as_layers",
    "change a dim": "prove/r_argmax_list after",
    "move what is printed": "prove/dropout_p_pinned",
    "drop a call": "prove/list_alias",
    "drop a detach": "prove/r05_numpy_abs_mean",
    "swap and and or": "constructs/346 x.is_cuda / x.device.type == 'cpu'",
    "change a dict": "tricky/clean_size_text",
    "drop a no_grad": "prove/w22_autocast_guard_dropped",
    "change a constant": "constructs/387 p.grad = None / zero_grad",
    "drop a slice": "constructs/177 del / walrus / star-unpack / slicing / set ops",
    "drop a check": "constructs/338 assert on shape / python value",
    "hoist an attribute": "tricky/clean_checks_of_parameters",
    "pin the mode": "tricky/clean_bool_list_any",
    "turn a comparison": "tricky/clean_numpy_constants",
    "alias instead of copy": "tricky/clean_generators",
    "drop a cast": "constructs/459 x.type('torch.FloatTensor') / x.type()",
    "unregister a buffer": "tricky/clean_state_in_place",
    "change a gradient": "constructs/413 dict arg with changing python float value",
    "change a default": "tricky/clean_past_key_values",
    "cache on self": "prove/w49_container_identity",
    "change a container": "prove/w49_container_identity",
    "pin a device": "prove/r06_stack_loop after",
    "swap calls of modules": "tricky/clean_upcast_of_low_types",
    "pin a size": "tricky/clean_size_text",
}
"""The model of each kind."""
RIGHT = {
    "early return or else": "constructs/188 user exception escapes f (raise with static cond, caller catches)",
    "comments and annotations": "constructs/156 itertools chain/product/zip_longest/accumulate",
    "function of another module": "constructs/121 from torch import nn inside forward",
    "turn a comparison around": "constructs/21 torch.where(c,a,b) 3-arg",
    "comprehension to loop": "tricky/clean_rows_stacked_by_name",
    "name the class of super": "tricky/clean_training_branch",
    "unsqueeze or None": "tricky/clean_recurrent_cells",
    "fold a constant": "constructs/115 torch.cuda.amp autocast('cuda', enabled=False)",
    "extract a local": "constructs/275 type(x) is torch.Tensor",
    "conditional expression or statement": "constructs/256 torch.is_grad_enabled()",
}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("kind", "name"), WRONG.items())
def test_a_wrong_patch_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    patch = patched(SAMPLE[name], kind, wrong=True)
    holds, _ = prove(SAMPLE[name], patch, tmp_path)
    assert not holds, patch


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("kind", "name"), RIGHT.items())
def test_a_right_patch_is_accepted(kind: str, name: str, tmp_path: Path) -> None:
    patch = patched(SAMPLE[name], kind, wrong=False)
    holds, why = prove(SAMPLE[name], patch, tmp_path)
    assert holds, f"{why}\n{patch}"
