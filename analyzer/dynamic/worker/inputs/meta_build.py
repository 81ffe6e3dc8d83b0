"""Build a model on the device `meta`, where parameters have shapes and take no memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tcready.dynamic.worker.core.case import NoValuesError, RunError
from tcready.dynamic.worker.core.journal import NO_VALUES, one_line
from tcready.dynamic.worker.core.request import Work
from tcready.dynamic.worker.inputs.stand_ins import on_meta, speaks_of_meta


@contextlib.contextmanager
def constructing(work: Work) -> Iterator[None]:
    """Context for a constructor that runs on the device `meta`. Raises NoValuesError if the constructor reads values."""
    if not on_meta(work.options.device):
        yield
        return
    try:
        yield
    except RunError:
        raise
    except Exception as error:
        if not speaks_of_meta(error):
            raise
        raise NoValuesError(f"the constructor reads values, and {NO_VALUES}: {one_line(error, work.root)}") from error
