"""Listening to torch's own logs, which are given back as they were."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def listening(logger: logging.Logger, handler: logging.Handler, quiet: bool) -> Iterator[None]:
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    if quiet:
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def structured() -> logging.Logger:
    """The logger of Dynamo's structured trace."""
    found: logging.Logger = torch._logging._internal.trace_log
    return found


def artifact(module: str, name: str) -> logging.Logger:
    """The logger of one artifact (`graph_breaks`) of one module of torch."""
    found: logging.Logger = torch._logging.getArtifactLogger(module, name)
    return found
