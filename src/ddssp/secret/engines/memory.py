"""Frames in memory, and whatever gives Arrow batches: pandas, polars, Arrow tables, readers and datasets, NumPy, mappings."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ddssp import frame
from ddssp.frame import at_least_one, require
from ddssp.secret.engines import Local, Tell, cut, followed, quiet, stamps
from ddssp.secret.engines.files import DatasetRows


class Memory(Local):
    """A frame."""

    def __init__(self, data: Any, batch_rows: int) -> None:
        self._data, self._rows = _mapping(data), batch_rows
        parts = (data, *data.values()) if isinstance(data, Mapping) else (data,)
        self.rewindable = not any(hasattr(part, "__next__") for part in parts)

    def names(self) -> list[str]:
        return frame.names(self._data)

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        total, done = _length(self._data), 0
        for batch in cut(frame.batches(self._data, columns), self._rows):
            yield batch
            done += batch.num_rows
            tell(done / total if total else 0.0)


class Lazy(Local):
    """A polars LazyFrame: the declared columns only, batch by batch where this polars can."""

    engine = "polars"

    def __init__(self, data: Any, batch_rows: int) -> None:
        self._data, self._rows = data, batch_rows

    def names(self) -> list[str]:
        return frame.names(self._data)

    def stamp(self) -> Hashable:
        return stamps.of_polars(self._data)

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        require(columns, self.names())
        chosen = self._data.select(list(columns))
        collected = at_least_one(_collected(chosen, columns, self._rows), columns)
        yield from followed(cut(collected, self._rows), _expected(self._data), tell)


def _expected(data: Any) -> int:
    """Rows that the scans of a lazy frame's plan read, as polars estimates them before; 0 where it does not."""
    try:
        return sum(map(int, re.findall(r"ESTIMATED ROWS: (\d+)", data.explain(optimized=False))))
    except Exception:  # a plan that fails will do so when it is collected, and is told there
        return 0


def _collected(chosen: Any, columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
    if not hasattr(chosen, "collect_batches"):
        yield from frame.batches(chosen, columns)
        return
    parts = chosen.collect_batches(chunk_size=rows, maintain_order=True)
    while (part := frame.collected(lambda: next(parts, None))) is not None:
        yield from frame.batches(part, columns)


def of_frame(data: Any, batch_rows: int) -> Local:
    """The source of anything that is neither a path nor an engine's own relation."""
    if hasattr(data, "scanner") and hasattr(data, "count_rows"):
        return DatasetRows(data, batch_rows)
    if hasattr(data, "collect_schema") and not hasattr(data, "__arrow_c_stream__"):
        return Lazy(data, batch_rows)
    return Memory(data, batch_rows)


def _mapping(data: Any) -> Any:
    """A NumPy structured array as its columns."""
    if isinstance(data, np.ndarray) and data.dtype.names:
        return {name: data[name] for name in data.dtype.names}
    return data


def _length(data: Any) -> int:
    try:
        return len(next(iter(data.values()))) if isinstance(data, Mapping) else len(data)
    except (TypeError, StopIteration):
        return 0
