"""Batches of rows → exact pair counts and integer Gram blocks, in one pass; memory is bounded by the domain."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from ddssp.coding import Coded, coded, fixed_point, level_codes
from ddssp.domain import require_fit
from ddssp.encoding import Block
from ddssp.schema import Schema
from ddssp.secret import kernel
from ddssp.secret.kernel import Codes, Pairs, Tallying
from ddssp.secret.merging import Merging

ROWS = 2**15
"""Rows handled at once: their cells stay in the cache, and sums of 2^15 products of 16-bit integers are exact in float64."""

SMALL = 2**22
"""Integers of a layout of which every thread can have its own."""

MOST = 2**30
"""Rows of one partial sum: sums of 2^30 products of 16-bit integers are exact in 64 bits."""


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

    @cached_property
    def pairs(self) -> Pairs:
        return Pairs.of([m for _, m in self.tables])

    @cached_property
    def merging(self) -> Merging:
        """Which columns are counted together."""
        return Merging.of([m for _, m in self.tables])

    @cached_property
    def width(self) -> int:
        """How many integers are counted in all."""
        levels, q = sum(m for _, m in self.tables), len(self.numbers)
        return 1 + levels + self.pairs.cells + q + q * q + q * levels

    def parts(self, flat: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Views of one long vector of all statistics: n, level counts, pair counts, sums, products, sums by level."""
        levels, q = sum(m for _, m in self.tables), len(self.numbers)
        sizes = {"n": 1, "one": levels, "pair": self.pairs.cells, "sums": q, "gram": q * q, "cross": q * levels}
        ends = np.cumsum([0, *sizes.values()])
        return {name: flat[a:b] for name, a, b in zip(sizes, ends[:-1], ends[1:], strict=True)}

    def check(self) -> None:
        """Refuses a layout too large to hold."""
        require_fit(dict(self.tables) | {name: 1 for name in self.columns if name not in dict(self.tables)})


class Tally(Secret):
    """Sums over the rows seen so far, at most MOST, in 64-bit integers."""

    def __init__(self, layout: Layout, *, tallying: Tallying | None = None, threads: int | None = None) -> None:
        layout.check()
        self._layout, self._tallying, self._threads = layout, tallying, threads
        self._flat: NDArray[np.int64] = np.zeros(layout.width, np.int64)
        self._parts = layout.parts(self._flat)
        merging = layout.merging
        self._tables = self._parts["pair"] if merging.is_plain else np.zeros(merging.pairs.cells, np.int64)
        self._ends = np.cumsum([0, *(m for _, m in layout.tables)])

    @property
    def rows(self) -> int:
        return int(self._parts["n"][0])

    @property
    def flat(self) -> NDArray[np.int64]:
        """All statistics so far; level counts are margins of the first column's pairs."""
        pairs, sizes = self._layout.pairs, self._layout.pairs.sizes
        if not self._layout.merging.is_plain:
            self._layout.merging.margins(self._tables, pairs, self._parts["pair"])
        for k in range(1, len(sizes)):
            table = self._parts["pair"][pairs.start[k - 1] : pairs.start[k]].reshape(sizes[0], sizes[k])
            self._parts["one"][self._ends[k] : self._ends[k + 1]] = table.sum(0)
            self._parts["one"][: sizes[0]] = table.sum(1)
        return self._flat

    def add(self, batch: pa.RecordBatch) -> None:
        """Counts one batch."""
        for start in range(0, batch.num_rows, ROWS):
            part = batch.slice(start, ROWS)
            self._add(coded(part, self._layout.schema, self._layout.columns), part.num_rows)

    def _add(self, values: Coded, rows: int) -> None:
        codes, numbers = _codes(values, self._layout, rows), _numbers(values, self._layout, rows)
        q = len(numbers)
        self._parts["n"] += rows
        self._parts["sums"] += _exact(numbers.sum(1))
        self._parts["gram"].reshape(q, q)[...] += _exact(numbers @ numbers.T)
        for j, (_, m) in enumerate(self._layout.tables):
            a, b = self._ends[j], self._ends[j + 1]
            if len(codes) == 1:
                self._parts["one"][a:b] += np.bincount(codes[j], minlength=m)
            if q:
                indicators = sp.csr_array((np.ones(rows), codes[j], np.arange(rows + 1)), shape=(rows, m))
                self._parts["cross"][q * a : q * b].reshape(m, q)[...] += _exact(indicators.T @ numbers.T)
        if len(codes) > 1:
            merging = self._layout.merging
            self._tally()(merging.codes(codes), merging.pairs, self._tables)

    def _tally(self) -> Tallying:
        earned = self.rows * len(self._layout.merging.pairs.left) >= kernel.EARNED
        if self._tallying is None and (earned or kernel.is_loaded()):
            self._tallying = kernel.compiled(self._threads) or kernel.tallied
        return self._tallying or kernel.tallied


@dataclass(eq=False, repr=False, kw_only=True)
class Counts(Secret):
    """Exact statistics of all rows: int64, and Python integers for sums of products, which outgrow it first."""

    layout: Layout
    n: int
    one: dict[str, NDArray[np.int64]]
    pair: dict[tuple[str, str], NDArray[np.int64]]
    sums: NDArray[np.int64]
    gram: NDArray[Any]
    cross: dict[str, NDArray[np.int64]]

    @classmethod
    def of(cls, partials: Iterable[NDArray[np.int64]], layout: Layout) -> Counts:
        """The sum of partial sums, each record in exactly one of them."""
        layout.check()
        flat, q = np.zeros(layout.width, np.int64), len(layout.numbers)
        gram = np.zeros((q, q), object)
        for partial in partials:
            flat += partial
            gram += layout.parts(flat)["gram"].reshape(q, q)
            layout.parts(flat)["gram"][:] = 0
        parts, pairs = layout.parts(flat), layout.pairs
        names, ends = [name for name, _ in layout.tables], np.cumsum([0, *(m for _, m in layout.tables)])
        shapes = pairs.sizes[np.stack([pairs.left, pairs.right])].T
        return cls(
            layout=layout,
            n=int(parts["n"][0]),
            one={name: parts["one"][a:b] for name, a, b in zip(names, ends[:-1], ends[1:], strict=True)},
            pair={
                (names[j], names[k]): parts["pair"][a:b].reshape(shape)
                for j, k, a, b, shape in zip(pairs.left, pairs.right, pairs.start[:-1], pairs.start[1:], shapes, strict=True)
            },
            sums=parts["sums"],
            gram=gram,
            cross={
                name: parts["cross"][q * a : q * b].reshape(b - a, q).T
                for name, a, b in zip(names, ends[:-1], ends[1:], strict=True)
            },
        )


def partials(batches: Iterable[pa.RecordBatch], layout: Layout, *, threads: int | None = None) -> Iterator[NDArray[np.int64]]:
    """Sums over all rows, in as few vectors as are safe from overflow; at least one.

    Small tables are counted by several threads, each into its own; large ones into one, whose pairs the threads share.
    """
    if (workers := tallies(layout, threads)) > 1:
        yield from summed(_by_threads(batches, layout, workers))
        return
    tally = Tally(layout, threads=threads)
    for batch in batches:
        if tally.rows + batch.num_rows > MOST:
            yield tally.flat
            tally = Tally(layout, threads=threads)
        tally.add(batch)
    yield tally.flat


def tallies(layout: Layout, threads: int | None = None) -> int:
    """How many threads count, each into its own vector; numpy's increments would only wait for each other."""
    return (threads or kernel.cores()) if layout.width <= SMALL and kernel.is_installed() else 1


def at_once(layout: Layout) -> int:
    """Numbers of the rows that are handled at the same time, by all threads; codes of levels are bytes and do not matter."""
    return tallies(layout) * ROWS * len(layout.numbers)


def _by_threads(batches: Iterable[pa.RecordBatch], layout: Layout, workers: int) -> Iterator[NDArray[np.int64]]:
    """Sums of each thread; a thread that has seen MOST rows begins anew."""
    free = [Tally(layout, threads=1) for _ in range(workers)]
    full: list[Tally] = []

    def count(chunk: pa.RecordBatch) -> None:
        tally = free.pop()
        if tally.rows + chunk.num_rows > MOST:
            full.append(tally)
            tally = Tally(layout, threads=1)
        tally.add(chunk)
        free.append(tally)

    with ThreadPoolExecutor(workers) as pool:
        coming: deque[Future[None]] = deque()
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                coming.append(pool.submit(count, batch.slice(start, ROWS)))
                if len(coming) > 2 * workers:
                    coming.popleft().result()
        for last in coming:
            last.result()
    yield from (tally.flat for tally in (*full, *free))


def summed(vectors: Iterable[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """Sums of vectors whose first number says of how many rows each is; as few as are safe from overflow."""
    total: NDArray[np.int64] | None = None
    for vector in vectors:
        if total is not None and total[0] + vector[0] > MOST:
            yield total
            total = None
        total = vector if total is None else total + vector
    if total is not None:
        yield total


def counts(batches: Iterable[pa.RecordBatch], layout: Layout, *, threads: int | None = None) -> Counts:
    """Exact counts of all rows, one pass."""
    return Counts.of(partials(batches, layout, threads=threads), layout)


def _codes(values: Coded, layout: Layout, rows: int) -> Codes:
    """ "d rows" """
    out = layout.pairs.codes(rows)
    for j, (name, _) in enumerate(layout.tables):
        out[j] = level_codes(values[name], layout.schema.resolved[name])
    return out


def _numbers(values: Coded, layout: Layout, rows: int) -> NDArray[np.float64]:
    """ "q rows" integers in float64, for BLAS."""
    out = np.empty((len(layout.numbers), rows))
    for i, block in enumerate(layout.numbers):
        out[i] = fixed_point(values[block.column or ""], block)
    return out


def _exact(sums: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(sums).astype(np.int64)
