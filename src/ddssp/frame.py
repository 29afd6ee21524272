"""Any frame in memory → Arrow: pandas, polars, Arrow, DuckDB relations, mappings of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

BATCH = 2**18


class DataError(ValueError):
    """Data that cannot be read as a table with the declared columns."""


def batches(frame: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches of a frame with exactly `columns`.

    Guarantees: only structure can fail, and no message quotes a cell, a count or a row.

    Takes a mapping of arrays, a pandas frame, anything with `__arrow_c_stream__` (polars, Arrow, DuckDB) or, lazily, anything
    whose `collect()` gives one of these.
    """
    if isinstance(frame, Mapping):
        yield from _columnwise(frame, list(frame), columns)
    elif type(frame).__module__.startswith("pandas"):
        yield from _columnwise(frame, [str(c) for c in frame.columns], columns)
    elif hasattr(frame, "__arrow_c_stream__"):
        yield from _stream(pa.RecordBatchReader.from_stream(frame), columns)
    elif hasattr(frame, "collect"):
        yield from batches(frame.collect(), columns)
    else:
        raise DataError(
            f"data must be a path, a frame or anything with __arrow_c_stream__, got {type(frame).__name__}; "
            "pass a pandas or polars frame, an Arrow table, or the path of a Parquet or CSV file."
        )


def require(columns: tuple[str, ...], present: list[str]) -> None:
    """Refuses data without the declared columns."""
    for column in columns:
        if column not in present:
            raise DataError(f"column {column!r} of the schema is absent from the data; rename it in one of the two.")
        if present.count(column) > 1:
            raise DataError(f"column {column!r} appears twice in the data; drop one of them.")


def _stream(reader: pa.RecordBatchReader, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    require(columns, reader.schema.names)
    try:
        for batch in reader:
            yield batch.select(list(columns))
    except (OSError, pa.ArrowException):
        # The library's own message may quote a cell: it is not passed on.
        raise DataError("the data stream broke off; nothing of it was used.") from None


def _columnwise(source: Any, present: list[str], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    require(columns, present)
    arrays = [_array(source[c]) for c in columns]
    if len({len(a) for a in arrays}) > 1:
        raise DataError("the columns of the data must have equal length.")
    yield from pa.table(arrays, names=list(columns)).to_batches(max_chunksize=BATCH)


def _array(values: Any) -> pa.Array | pa.ChunkedArray:
    """Arrow's own conversion, or text where a column mixes types."""
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return pa.array([None if v is None or v != v else str(v) for v in np.asarray(values, dtype=object)], pa.large_string())
