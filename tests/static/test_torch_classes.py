"""Classes of torch.nn: what is said of them is what torch says."""

from __future__ import annotations

import inspect
import itertools

import pytest
from tcready.static.library.torch_classes import STEMS, derives


def test_what_is_said_of_classes_of_torch_holds() -> None:
    nn = pytest.importorskip("torch").nn
    classes = {n: c for n, c in vars(nn).items() if inspect.isclass(c) and issubclass(c, nn.Module)}
    # a lazy module becomes one of the class behind its name
    public = {n: c for n, c in classes.items() if not n.startswith("Lazy")}
    private = {b.__name__: b for c in public.values() for b in c.__mro__ if b.__name__.startswith("_")}
    assert len(public) > 100
    assert private.keys() >= STEMS.keys()
    for (name, cls), (base, above) in itertools.product(public.items(), {**public, **private}.items()):
        answer = derives(f"torch.nn.{name}", f"torch.nn.{base}")
        expected = issubclass(cls, above) if base not in private or base in STEMS else answer
        assert answer is expected, (name, base)
    assert derives("torch.nn.MaxPool1d", "torch.nn.modules.pooling._MaxPoolNd") is None
