"""How many dimensions operations and modules give, and which values Dynamo keeps, beside what torch does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tcready.static.domain.values import Const, Tensor
from tcready.static.library import shape_semantics

torch = pytest.importorskip("torch")
F = torch.nn.functional
SHAPES = {0: (), 1: (6,), 2: (4, 6), 3: (2, 4, 6), 4: (2, 4, 6, 6), 5: (1, 4, 6, 6, 6)}
ARGUMENTS: dict[str, tuple[Callable[[Any], tuple[Any, ...]], ...]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), (lambda x: (torch.rand(3, x.shape[1], *(1,) * (x.dim() - 2)),),)),
    **dict.fromkeys(
        ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
        (lambda x: (torch.rand(x.shape[1], 3, *(1,) * (x.dim() - 2)),),),
    ),
    "batch_norm": (lambda x: (torch.zeros(x.shape[1]), torch.ones(x.shape[1])),),
    **dict.fromkeys(("layer_norm", "rms_norm"), (lambda x: (x.shape[-1:],),)),
    "linear": (lambda x: (torch.rand(2, x.shape[-1]),),),
    "embedding": (lambda x: (torch.rand(9, 3),),),
    "prelu": (lambda x: (torch.ones(1),),),
    "interpolate": (lambda x: (None, 2),),
    "pad": (lambda x: ((1, 1),),),
    "scaled_dot_product_attention": (lambda x: (x, x),),
    "renorm": (lambda x: (2, 0, 1.0),),
    "addmm": (lambda x: (torch.rand(4, 6), torch.rand(6, 6)),),
    "mm": (lambda x: (x.t(),),),
    "lp_pool1d": (lambda x: (1.0, 2),),
    "lp_pool2d": (lambda x: (1.0, 2),),
    "masked_select": (lambda x: (x > 0.5,),),
    "squeeze": (lambda x: (list(x.shape).index(1),),),
    "upsample": (lambda x: (None, 2),),
    **dict.fromkeys(("det", "logdet", "inverse"), (lambda x: (),)),
    "cartesian_prod": (lambda x: (torch.rand(3),),),
    "combinations": (lambda x: (2,),),
}
"""What an operation is given beside a tensor `x`."""
GENERAL: tuple[Callable[[Any], tuple[Any, ...]], ...] = (
    lambda x: (),
    lambda x: (x,),
    lambda x: (0,),
    lambda x: (1,),
    lambda x: (2,),
    lambda x: (x, x),
    lambda x: (0, 0, 1),
    lambda x: (0, torch.zeros(x.shape, dtype=torch.int64)),
    lambda x: (0, torch.zeros(1, dtype=torch.int64)),
    lambda x: (0.0, 1.0),
    lambda x: (x > 0.5, 1.0),
)
"""What any other may be given; what torch refuses is passed over."""
NAMES = sorted(
    shape_semantics.SAME
    | shape_semantics.REDUCING
    | shape_semantics.ROWS
    | shape_semantics.TABLES
    | shape_semantics.NUMBERS
    | {name for name in shape_semantics.OPERATORS if name.islower()}
    | {name for name in shape_semantics.OTHERS if name.islower()}
)


def value_of(given: Any) -> Any:
    """What the engine has for an argument."""
    if isinstance(given, torch.Tensor):
        return Tensor("int" if given.dtype == torch.int64 else "float", rank=given.dim())
    return Const(given) if given is None or isinstance(given, (int, float)) else None


@pytest.mark.parametrize("name", NAMES)
def test_operations_give_so_many_dimensions(name: str) -> None:
    """Each that is listed, as a method and as a function, on tensors of up to five dimensions."""
    asked = 0
    places = {"torch.Tensor": torch.Tensor, "torch": torch, "torch.nn.functional": F}
    for place, whole in places.items():
        function = getattr(whole, name, None)
        for shape in SHAPES.values() if callable(function) else ():
            for give in ARGUMENTS.get(name, GENERAL):
                x = torch.zeros(shape, dtype=torch.int64) if name in OF_WHOLE else torch.rand(shape)
                try:
                    more = give(x)
                    made = function(x, *more)
                except Exception:  # torch takes no such arguments
                    continue
                operands = [value_of(each) for each in (x, *more)]
                if None in operands and name not in ARGUMENTS:
                    continue
                given = tuple(each for each in operands if each is not None)
                for each in (made,) if isinstance(made, torch.Tensor) else tuple(made)[:1]:
                    told = shape_semantics.laid_out(f"{place}.{name}", given, Tensor())
                    assert isinstance(told, Tensor)
                    if isinstance(each, torch.Tensor) and told.rank is not None:
                        assert told.rank == each.dim(), (function, shape, more)
                        asked += 1
    assert asked or name in UNASKED


OF_WHOLE = frozenset({"bitwise_not", "embedding"})
"""Operations of whole numbers."""
UNASKED = frozenset(
    "Buffer Parameter cuda type upsample arange bartlett_window bincount blackman_window concat cat concatenate dot einsum eye ger "
    "hamming_window hann_window index_add index_copy kl_div linspace logspace mv nonzero_static one_hot range randperm "
    "scatter scatter_add stack tril_indices triu_indices view_as vdot histc index_fill nonzero".split()
)
"""Names that are asked elsewhere, or need other arguments than are given here."""


def modules() -> list[tuple[str, Any, Any]]:
    """Modules of torch.nn that are made of few numbers, each with an input that it takes."""
    found = []
    for name, cls in vars(torch.nn).items():
        if not (inspect.isclass(cls) and issubclass(cls, torch.nn.Module)) or name.startswith("Lazy"):
            continue
        for given in ((), (4,), (6,), (4, 4), (6, 3), (2, 4), (4, 3, 1), (2, 4, 4), (4, 2)):
            for shape in SHAPES.values():
                for x in (torch.rand(shape), torch.zeros(shape, dtype=torch.int64)):
                    try:
                        made = cls(*given)
                        result = made(x) if "Distance" not in name and "Similarity" not in name else made(x, x)
                    except Exception:  # it is not made of these, or takes no such input
                        continue
                    if isinstance(result, torch.Tensor):
                        found.append((f"{name}{given} of {x.dim()}", (name, x), result))
    return found


def test_modules_give_so_many_dimensions() -> None:
    torch.manual_seed(0)
    asked = set()
    for shown, (name, x), result in modules():
        told = shape_semantics.module_result(f"torch.nn.{name}", (value_of(x), value_of(x)), Tensor())
        assert isinstance(told, Tensor)
        if told.rank is not None:
            assert told.rank == result.dim(), shown
            asked.add(name)
    assert len(asked) > 80
    assert asked >= {"Linear", "Conv2d", "LayerNorm", "BatchNorm2d", "Embedding", "CosineSimilarity", "GELU", "Dropout"}
