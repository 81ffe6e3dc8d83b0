"""Write the results of a store to one Parquet file. Only this file needs pyarrow."""

from __future__ import annotations

from pathlib import Path

from tcready.schema.enums import TcreadyError
from tcready.source import files
from tcready.sweep.store import ResultStore

BATCH = 200
"""Rows in memory at a time."""
OF_SQLITE = ("", "-wal", "-shm")
"""Suffixes that SQLite adds to the name of a database for the files beside it."""


def refuse(path: str, store: Path) -> None:
    """Raise TcreadyError if nothing can be exported here, or `path` must not be written, for example because it is
    the store."""
    from importlib.util import find_spec

    files.refuse(path, "--export", [f"{store}{ending}" for ending in OF_SQLITE])
    if find_spec("pyarrow") is None:
        raise TcreadyError("--export needs pyarrow: install tcready[parquet]")


def write(store: ResultStore, path: str) -> None:
    """Write every finished result of the store, the file as a whole or not at all. Raises TcreadyError if that
    fails."""
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
    with files.open_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        rows: list[dict[str, object]] = []
        for row in store.rows():
            rows.append(dict(zip(schema.names, row, strict=True)))
            if len(rows) == BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                rows = []
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
