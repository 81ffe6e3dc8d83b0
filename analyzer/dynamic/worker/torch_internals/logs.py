"""Listen to torch's own logs, and restore them afterwards."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def listening(logger: logging.Logger, handler: logging.Handler, quiet: bool) -> Iterator[None]:
    """Enable a logger that was switched off: a package that configures logging at import (`dictConfig`, by default)
    disables all existing loggers, and `logging.disable` those of the whole process. Otherwise no break would be
    recorded."""
    own, propagate, disabled = logger.level, logger.propagate, logger.disabled
    around = vars(logger).get("isEnabledFor")  # of who listens already
    logger.addHandler(handler)
    logger.disabled = False
    # Only on this logger: the settings of others do not change.
    logger.isEnabledFor = lambda level: level >= logger.getEffectiveLevel()  # type: ignore[method-assign]
    if quiet:
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield
    finally:
        if around is None:
            vars(logger).pop("isEnabledFor", None)
        else:
            logger.isEnabledFor = around  # type: ignore[method-assign]
        logger.removeHandler(handler)
        logger.setLevel(own)
        logger.propagate, logger.disabled = propagate, disabled


def structured() -> logging.Logger:
    """Return the logger of Dynamo's structured trace."""
    found: logging.Logger = torch._logging._internal.trace_log
    return found


def artifact(module: str, name: str) -> logging.Logger:
    """Return the logger of one artifact (`graph_breaks`) of one module of torch."""
    found: logging.Logger = torch._logging.getArtifactLogger(module, name)
    return found
