"""Listen to torch's logs, and restore their configuration afterwards."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def listening(logger: logging.Logger, handler: logging.Handler, quiet: bool) -> Iterator[None]:
    """Whatever was switched off: a package that configures logging when it is imported (`dictConfig`, by default)
    disables all loggers there are, and `logging.disable` those of the whole process. No break would be told.
    """
    own, propagate, disabled = logger.level, logger.propagate, logger.disabled
    around = vars(logger).get("isEnabledFor")  # of who listens already
    logger.addHandler(handler)
    logger.disabled = False
    # On this logger alone: what others have to say stays as the process wants it.
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
    """The logger of Dynamo's structured trace."""
    found: logging.Logger = torch._logging._internal.trace_log
    return found


def artifact(module: str, name: str) -> logging.Logger:
    """The logger of one artifact (`graph_breaks`) of one module of torch."""
    found: logging.Logger = torch._logging.getArtifactLogger(module, name)
    return found
