"""The results of a store as one Parquet file: the only file that needs pyarrow."""

from __future__ import annotations

import os

from tcready.schema import TcreadyError
from tcready.sweeping.store import Store

BATCH = 200
"""Rows that are in memory at a time."""


def refuse_without() -> None:
    """Raises TcreadyError if nothing can be exported here."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise TcreadyError("--export needs pyarrow: python -m pip install pyarrow")


def write(store: Store, path: str) -> None:
    """Writes every finished result of the store, the file as a whole or not at all. Raises TcreadyError if it cannot."""
    import pyarrow as pa
    from pyarrow import parquet

    text, number = pa.string(), pa.float64()
    schema = pa.schema(
        [
            *((name, text) for name in ("key", "stage", "target")),
            *((name, number) for name in ("began", "ended", "seconds")),
            *((name, text) for name in ("ground", "value")),
        ]
    )
    partial = f"{path}.{os.getpid()}.partial"
    try:
        with parquet.ParquetWriter(partial, schema) as file:
            rows: list[dict[str, object]] = []
            for row in store.rows():
                rows.append(dict(zip(schema.names, row, strict=True)))
                if len(rows) == BATCH:
                    file.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                    rows = []
            file.write_batch(pa.RecordBatch.from_pylist(rows, schema))
        os.replace(partial, path)
    except OSError as error:
        raise TcreadyError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        if os.path.exists(partial):
            os.unlink(partial)
