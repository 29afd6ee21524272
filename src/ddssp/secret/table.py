"""Adapters: whatever holds rows, in memory or in files → Arrow record batches of the declared columns.

Guarantees: only structure can fail, and no message quotes a cell, a count or a row. A CSV line that does not parse is left
out; text that is not a number is a missing number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from ddssp import frame
from ddssp.frame import BATCH, DataError, at_least_one, require
from ddssp.secret import lines

CSV = {".csv", ".tsv", ".txt"}


def batches(source: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches with exactly `columns`, of a path to a Parquet or CSV file or of a frame."""
    if isinstance(source, str | Path):
        return at_least_one(_file(Path(source), columns), columns)
    return frame.batches(source, columns)


def names(source: Any) -> list[str]:
    """The columns that the data has; structure, not content."""
    if isinstance(source, str | Path):
        path = Path(source)
        return list(_guarded(path, lambda: _header(path)))
    return frame.names(source)


def _file(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    read = _csv if path.suffix.lower() in CSV else _parquet
    stream = _guarded(path, lambda: read(path, columns))
    while (batch := _guarded(path, lambda: next(stream, None))) is not None:
        yield batch


def _guarded(path: Path, read: Any) -> Any:
    """read(), without the reader's own messages, which may quote a cell."""
    if not path.exists():
        raise DataError(f"data file {str(path)!r} does not exist.")
    try:
        return read()
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        kind = "CSV" if path.suffix.lower() in CSV else "Parquet"
        raise DataError(f"data file {str(path)!r} cannot be read as {kind}; give a .parquet or .csv file.") from None


def _parquet(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    require(columns, file.schema_arrow.names)
    for batch in file.iter_batches(batch_size=BATCH, columns=list(columns)):
        yield batch.select(list(columns))


def _header(path: Path) -> list[str]:
    if path.suffix.lower() in CSV:
        return lines.header(path)
    import pyarrow.parquet as pq

    return list(pq.read_schema(path).names)


def _csv(path: Path, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    names = lines.header(path)
    require(columns, names)
    yield from lines.records(path, columns, names)


def require_rewindable(source: Any) -> None:
    """Refuses what can be read only once (a stream, an iterator as a column), before anything of it is read."""
    parts = (source, *source.values()) if isinstance(source, Mapping) else (source,)
    if any(hasattr(part, "__next__") for part in parts):
        raise DataError("data must be readable more than once for mechanism task or max_rows; pass a table or a file.")


def stamp(source: Any) -> tuple[int, int] | None:
    """Size and time of the last change of a file; None of what is no file, or not there."""
    if not isinstance(source, str | Path) or not Path(source).exists():
        return None
    found = Path(source).stat()
    return found.st_size, found.st_mtime_ns
