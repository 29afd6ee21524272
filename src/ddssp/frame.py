"""Any frame in memory → Arrow: pandas, polars, Arrow, DuckDB relations, mappings of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH = 2**18

LONG = 2**53
"""Integers up to this are floats."""

CELLS = pa.struct([("number", pa.float64()), ("word", pa.large_binary())])
"""A column whose cells have no type in common."""


class DataError(ValueError):
    """Data that cannot be read as a table with the declared columns."""


def batches(frame: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches of a frame with exactly `columns`; at least one, if only to carry no rows.

    Guarantees: only structure can fail, and no message quotes a cell, a count or a row.

    Takes a mapping of arrays, a pandas frame, anything with `__arrow_c_stream__` (polars, Arrow, DuckDB) or, lazily, anything
    whose `collect()` gives one of these.
    """
    yield from at_least_one(_batches(frame, columns), columns)


def at_least_one(batches: Iterable[pa.RecordBatch], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The batches, or one without rows if there are none."""
    empty = True
    for batch in batches:
        empty = False
        yield batch
    if empty:
        yield pa.record_batch([pa.nulls(0) for _ in columns], names=list(columns))


def _batches(frame: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    if isinstance(frame, Mapping):
        yield from _columnwise({str(k): v for k, v in frame.items()}, columns, names(frame))
    elif _is_pandas(frame):
        yield from _columnwise({str(c): frame.iloc[:, i] for i, c in enumerate(frame.columns)}, columns, names(frame))
    elif isinstance(frame, pa.RecordBatch):
        yield from _stream(pa.RecordBatchReader.from_batches(frame.schema, [frame]), columns)
    elif hasattr(frame, "__arrow_c_stream__"):
        yield from _stream(pa.RecordBatchReader.from_stream(frame), columns)
    elif hasattr(frame, "collect"):
        yield from _batches(collected(frame.collect), columns)
    else:
        raise DataError(
            f"data must be a path, a frame or anything with __arrow_c_stream__, got {type(frame).__name__}; "
            "pass a pandas or polars frame, an Arrow table, or the path of a Parquet or CSV file."
        )


def names(frame: Any) -> list[str]:
    """The columns that a frame has; structure, not content."""
    if isinstance(frame, Mapping):
        return [str(c) for c in frame]
    if hasattr(frame, "collect_schema"):
        return list(frame.collect_schema().names())
    if isinstance(getattr(frame, "schema", None), pa.Schema):
        return list(frame.schema.names)
    if hasattr(frame, "columns"):
        return [str(c) for c in frame.columns]
    raise DataError(f"data must be a path or a frame with named columns, got {type(frame).__name__}.")


def require(columns: tuple[str, ...], present: list[str]) -> None:
    """Refuses data without the declared columns."""
    for column in columns:
        if column not in present:
            raise DataError(f"column {column!r} of the schema is absent from the data; rename it in one of the two.")
        if present.count(column) > 1:
            raise DataError(f"column {column!r} appears twice in the data; drop one of them.")


def require_unit(column: str, present: list[str]) -> None:
    """Refuses data without the column that names the person; says nothing about those it has."""
    if present.count(column) != 1:
        found = "twice" if column in present else "not at all"
        raise DataError(f"unit must name one column of the data, got {column!r}, which it has {found}; check the spelling.")


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.startswith("pandas") and hasattr(frame, "iloc")


def collected(run: Callable[[], Any]) -> Any:
    """run(), a lazy frame's query."""
    try:
        return run()
    except Exception:  # the engine's own message may quote a cell
        raise DataError("the data could not be collected; its own query fails.") from None


def _stream(reader: pa.RecordBatchReader, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    require(columns, reader.schema.names)
    try:
        for batch in reader:
            yield batch.select(list(columns))
    except (OSError, pa.ArrowException):
        # The library's own message may quote a cell: it is not passed on.
        raise DataError("the data stream broke off; nothing of it was used.") from None


def _columnwise(source: Mapping[str, Any], columns: tuple[str, ...], present: list[str]) -> Iterator[pa.RecordBatch]:
    require(columns, present)
    arrays = [_array(source[c], c) for c in columns]
    if len({len(a) for a in arrays}) > 1:
        raise DataError("the columns of the data must have equal length.")
    yield from pa.table(arrays, names=list(columns)).to_batches(max_chunksize=BATCH)


def _array(values: Any, column: str) -> pa.Array | pa.ChunkedArray:
    """Arrow's own conversion where the container has a type, else cell by cell.

    Guarantees: a cell is read by itself and by the container's declared type, never by what other cells hold; where Arrow has
    one type for all cells, that is a shorter way to the same reading.
    """
    if not hasattr(values, "__iter__"):
        raise DataError(f"column {column!r} must be a sequence of values, got {type(values).__name__}.")
    values = values if hasattr(values, "__len__") else list(values)
    for kind in (None,) if _is_typed(values) else _alike(values):
        try:
            found = pa.array(values, kind, from_pandas=True)
        except Exception:
            continue
        if kind != pa.int64() or not _is_long(found):
            return found
    return cells(values)


def _is_typed(values: Any) -> bool:
    """Whether a container holds numbers or text by its declared type: not lists, objects, categories or times."""
    kind = getattr(values, "dtype", None)
    if isinstance(kind, np.dtype):
        return kind.kind in "biufUS"
    return isinstance(values, pa.Array | pa.ChunkedArray) or (kind is not None and not hasattr(kind, "categories"))


def _alike(values: Iterable[Any]) -> tuple[pa.DataType, ...]:
    """Types that Arrow may give all cells without changing how one of them is read: it would truncate 0.5 to an integer."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {bool}:
        return (pa.bool_(),)
    return (pa.int64(),) if kinds == {int} else (pa.large_string(), pa.float64())


def cells(values: Iterable[Any]) -> pa.StructArray:
    """Each cell as a number or a word, both null where there is none."""
    pairs = [_cell(v) for v in values]
    return pa.StructArray.from_arrays(
        [pa.array([n for n, _ in pairs], pa.float64()), pa.array([w for _, w in pairs], pa.large_binary())],
        fields=[*CELLS],
    )


def _cell(value: Any) -> tuple[float | None, bytes | None]:
    """A cell's number or its text; neither for what is missing, not comparable, or cannot be written."""
    try:
        if value is None or value != value:
            return None, None
        if isinstance(value, Integral) and abs(int(value)) > LONG:
            return None, str(int(value)).encode()
        if isinstance(value, Real | Decimal | np.bool_):
            return float(value), None
        return None, value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")
    except Exception:
        return None, None


def _is_long(integers: pa.Array) -> bool:
    """Whether a float would not hold some of them; as text such a cell keeps all its digits."""
    ends = pc.min_max(integers).as_py()
    return ends["max"] is not None and max(-ends["min"], ends["max"]) > LONG
