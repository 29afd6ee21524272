"""Engines: who reads the rows. A Source is an iterator of batches and a map over them; a new engine is one short file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp.secret.counts import Secret

Tell = Callable[[float], None]
"""Called with the share of the pass that is done: of bytes, batches or tasks, never a number of rows."""

Fold = Callable[[Iterable[pa.RecordBatch]], Iterable[NDArray[np.int64]]]
"""Batches → vectors whose sum over all batches is wanted, each beginning with the number of its rows. It holds nothing secret,
and on a cluster it travels."""


CHANGED = (
    "data must stay the same until all of it is read, but the data changed while it was being read; "
    "make the release from a copy that nobody writes to"
)
"""Why a pass over data that did not stay as it was is no answer."""


class Source(Protocol):
    """Rows, wherever they are.

    Guarantees of all: only structure can fail, with a DataError that quotes no cell, count or row; a pass that cannot be
    finished gives no answer at all.
    """

    @property
    def engine(self) -> str:
        """Who reads, for the person at the terminal."""
        ...

    @property
    def rewindable(self) -> bool:
        """Whether the rows can be read more than once."""
        ...

    def names(self) -> list[str]:
        """The columns that the data has; structure, not content."""
        ...

    def stamp(self) -> Hashable:
        """Changes whenever the data is known to have changed."""
        ...

    def batches(self, columns: tuple[str, ...], tell: Tell = ...) -> Iterator[pa.RecordBatch]:
        """Record batches with exactly `columns`; at least one, if only to carry no rows."""
        ...

    def folded(self, columns: tuple[str, ...], fold: Fold, tell: Tell = ...) -> Iterator[NDArray[np.int64]]:
        """Partial sums, each record in exactly one of them."""
        ...


def quiet(_share: float) -> None:
    """Tells nobody."""


class Local(Secret):
    """A source that is read in this process."""

    engine = "arrow"
    rewindable = True

    def stamp(self) -> Hashable:
        return None

    def names(self) -> list[str]:
        raise NotImplementedError

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def folded(self, columns: tuple[str, ...], fold: Fold, tell: Tell = quiet) -> Iterator[NDArray[np.int64]]:
        yield from fold(self.batches(columns, tell))


def ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, read by another thread while this one is busy with the one before."""
    stream = iter(batches)
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, stream, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, stream, None)
            yield batch


def followed(batches: Iterable[pa.RecordBatch], expected: int, tell: Tell) -> Iterator[pa.RecordBatch]:
    """The batches; meanwhile the share of the `expected` rows (0: nobody knows) is told, and 1 only when all were read."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.num_rows
        tell(min(done / expected, 0.99) if expected else 0.0)
    tell(1.0)


def cut(batches: Iterable[Any], rows: int) -> Iterator[pa.RecordBatch]:
    """The batches, none longer than `rows`."""
    for batch in batches:
        for start in range(0, max(batch.num_rows, 1), rows):
            yield batch.slice(start, rows)
