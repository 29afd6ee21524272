"""The kernel: batches of codes → exact pair counts and integer Gram blocks, in one pass; memory is bounded by the domain."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from ddssp.coding import Coded, coded, level_codes, numerators
from ddssp.domain import require_fit
from ddssp.encoding import Block
from ddssp.schema import Schema

ROWS = 2**16
"""Rows handled at once: sums of 2^16 products of 16-bit integers are exact in float64."""


class Secret:
    """Base of all that holds rows or exact counts: it does not print, copy to disk or travel."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: secret>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds secret data and cannot be pickled or copied.")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What to count: level tables of some columns, integer numbers of others.

    Guarantees: the memory that a pass needs follows from the schema alone.
    """

    schema: Schema
    tables: tuple[tuple[str, int], ...]
    numbers: tuple[Block, ...]

    @classmethod
    def of(cls, schema: Schema, blocks: Iterable[Block]) -> Layout:
        """A scalar block needs one number per record, any other block the table of its column."""
        blocks = [b for b in blocks if b.column is not None]
        tables = tuple(
            (b.column, b.numerators.shape[1]) for b in blocks if b.column and b.numerators is not None and not b.is_scalar
        )
        return cls(schema=schema, tables=tables, numbers=tuple(b for b in blocks if b.is_scalar))

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(name for name, _ in self.tables), *(b.column for b in self.numbers if b.column))

    def check(self) -> None:
        """Refuses a layout too large to hold."""
        require_fit(dict(self.tables) | {name: 1 for name in self.columns if name not in dict(self.tables)})


@dataclass(eq=False, repr=False)
class Counts(Secret):
    """Exact statistics of the rows seen so far: int64, and Python integers for sums of products, which outgrow it first."""

    layout: Layout
    n: int = 0
    one: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    pair: dict[tuple[str, str], NDArray[np.int64]] = field(default_factory=dict)
    sums: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    gram: NDArray[Any] = field(default_factory=lambda: np.zeros((0, 0), object))
    cross: dict[str, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def zero(cls, layout: Layout) -> Counts:
        layout.check()
        q = len(layout.numbers)
        size = dict(layout.tables)
        return cls(
            layout=layout,
            one={j: np.zeros(m, np.int64) for j, m in layout.tables},
            pair={(j, k): np.zeros((size[j], size[k]), np.int64) for j, k in combinations(size, 2)},
            sums=np.zeros(q, np.int64),
            gram=np.zeros((q, q), object),
            cross={j: np.zeros((q, m), np.int64) for j, m in layout.tables},
        )

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts one batch."""
        for start in range(0, batch.num_rows, ROWS):
            values = coded(batch.slice(start, ROWS), self.layout.schema, self.layout.columns)
            self._add_codes(_codes(values, self.layout), _numbers(values, self.layout), min(ROWS, batch.num_rows - start))

    def _add_codes(self, codes: dict[str, NDArray[np.int32]], numbers: NDArray[np.float64], rows: int) -> None:
        self.n += rows
        self.sums += _exact(numbers.sum(0))
        self.gram += _exact(numbers.T @ numbers).astype(object)
        for j, m in self.layout.tables:
            self.one[j] += np.bincount(codes[j], minlength=m)
            if numbers.shape[1]:
                indicators = sp.csr_array((np.ones(rows), codes[j], np.arange(rows + 1)), shape=(rows, m))
                self.cross[j] += _exact((indicators.T @ numbers).T)
        for (j, k), table in self.pair.items():
            b = table.shape[1]
            _tally(table, codes[j] * np.int32(b) + codes[k])


def counts(batches: Iterable[pa.RecordBatch], layout: Layout) -> Counts:
    """Exact counts of all rows, one pass."""
    total = Counts.zero(layout)
    for batch in batches:
        total.add(batch)
    return total


def _tally(table: NDArray[np.int64], cells: NDArray[np.int32]) -> None:
    """Adds 1 to each of the table's `cells`; a table far larger than the chunk is not walked through."""
    if table.size <= 4 * ROWS:
        table += np.bincount(cells, minlength=table.size).reshape(table.shape)
    else:
        where, times = np.unique(cells, return_counts=True)
        table.reshape(-1)[where] += times


def _codes(values: Coded, layout: Layout) -> dict[str, NDArray[np.int32]]:
    return {j: level_codes(values[j], layout.schema.resolved[j]) for j, _ in layout.tables}


def _numbers(values: Coded, layout: Layout) -> NDArray[np.float64]:
    """ "n q" integers in float64, for BLAS."""
    columns: Sequence[NDArray[np.int64]] = [numerators(values[b.column], b) for b in layout.numbers if b.column]
    if not columns:
        return np.zeros((functools.reduce(max, map(len, values.values()), 0), 0))
    return np.stack(columns, axis=1).astype(np.float64)


def _exact(sums: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(sums).astype(np.int64)
