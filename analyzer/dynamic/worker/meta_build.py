"""A model is built on the device `meta`: its parameters have shapes and take no memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from tcready.dynamic.worker.case import NoValuesError, RunError
from tcready.dynamic.worker.journal import NO_VALUES, one_line
from tcready.dynamic.worker.request import Work
from tcready.dynamic.worker.stand_ins import on_meta, speaks_of_meta
from tcready.target import LibraryModel


@contextlib.contextmanager
def constructing(work: Work) -> Iterator[None]:
    """Around a constructor: on `meta` it makes its tensors there, in the dtype that `takes_default_dtype` is about.

    Raises NoValuesError where it reads values.
    """
    options = work.options
    if not on_meta(options.device):
        yield
        return
    usual = torch.get_default_dtype()
    if takes_default_dtype(work):
        torch.set_default_dtype(getattr(torch, str(options.dtype).removeprefix("torch.")))
    try:
        with torch.device("meta"):
            yield
    except RunError:
        raise
    except Exception as error:
        if not speaks_of_meta(error):
            raise
        raise NoValuesError(
            f"the constructor reads values, and {NO_VALUES}: {one_line(error, work.root)}"
        ) from error
    finally:
        torch.set_default_dtype(usual)


def takes_default_dtype(work: Work) -> bool:
    """Whether a model gets its dtype while it is built: buffers that transformers keeps in float32 stay so."""
    named = LibraryModel.parse(work.options.model or "")
    floating = getattr(torch, str(work.options.dtype).removeprefix("torch."), None)
    return (
        on_meta(work.options.device)
        and named is not None
        and named.library == "hf"
        and isinstance(floating, torch.dtype)
        and floating.is_floating_point
    )
