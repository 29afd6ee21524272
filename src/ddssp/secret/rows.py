"""Rows read again and again: the passes of the task mechanism, over whatever the counting pass read.

A record's contribution must not depend on where in a batch it stands, or removing one record could move the others'.
Scores are therefore summed column by column in a fixed order (no BLAS, whose rounding follows the place in memory), and the
link is a lookup in a table made once (no vectorised transcendental function); everything after that is integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp.coding import Coded, coded, level_codes, numerators
from ddssp.encoding import Block
from ddssp.frame import DataError
from ddssp.privacy.curator import RESIDUAL, Link, Residuals, Working
from ddssp.schema import Schema
from ddssp.secret.counts import MOST, ROWS, Secret
from ddssp.secret.engines import CHANGED, Fold

CACHE_BYTES = 2**29
"""Coded rows up to this size are kept for the next pass instead of being read again."""

WIDE = 2**31
"""From this many records on, sums are taken in Python integers."""

SCORE_STEP, SCORE_END = 2.0**-12, 20.0
_SCORES = np.arange(-SCORE_END, SCORE_END + SCORE_STEP, SCORE_STEP)
_CHANCE = 1 / (1 + np.exp(-_SCORES))

Chunk = dict[str, NDArray[np.int32]]
"""Column → level codes, or numerators of a continuous column."""

Summing = Callable[[Iterable[Chunk]], Iterator[NDArray[np.int64]]]
"""What one pass adds up: vectors, at least one, whose first entry is the number of records."""

LOST = "nothing was released, and what was reserved stays spent."


class Rows(Secret):
    """Coded rows, pass by pass.

    Args:
        read: gives the record batches anew at every call.
        blocks: features and target, in the encoding that is fitted.
        records: how many were counted; a pass that finds another number fails.
        folded: makes a pass where the rows are, if that is not here.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[pa.RecordBatch]],
        schema: Schema,
        blocks: Iterable[Block],
        records: int,
        folded: Callable[[Fold], Iterable[NDArray[np.int64]]] | None = None,
    ) -> None:
        self._read, self._records, self._folded = read, records, folded
        self._coding = Coding(schema=schema, blocks=tuple(b for b in blocks if b.column is not None))
        self._cache: list[Chunk] | None = None

    def answer(self, asked: Residuals) -> tuple[list[NDArray[Any]], NDArray[np.int64]]:
        """Exact integer gradient numerators per block, and the residual histogram."""
        total, features = self.total(partial(sums, asked=asked)), asked.working.features
        ends = np.cumsum([1, *_entries(asked)])
        parts = [total[i:j] for i, j in pairwise(ends)]
        blocks = zip(features, asked.by_level, parts, strict=True)
        gradient = [part if by_level else _projected(b, part) for b, by_level, part in blocks]
        return gradient, total[ends[-1] :].astype(np.int64)

    def total(self, summing: Summing) -> NDArray[Any]:
        """The sum of all vectors of one pass; the first entry of each is the number of its records.

        A failure is told by its type alone, since its message might quote a cell.
        """
        try:
            return self._total(summing)
        except DataError as error:
            why = str(error).rstrip(".")
        except Exception as error:
            why = f"the rows could not be read again ({type(error).__name__})"
        raise DataError(f"{why}; {LOST}")

    def _total(self, summing: Summing) -> NDArray[Any]:
        elsewhere = Pass(coding=self._coding, summing=summing)
        vectors = summing(self._chunks()) if self._folded is None else self._folded(elsewhere)
        exact = object if self._records >= WIDE else np.int64
        total = sum((v.astype(exact) for v in vectors), np.zeros(1, exact))
        if total[0] != self._records:
            self._cache = None
            raise DataError(f"{CHANGED}.")
        return np.asarray(total)

    def _chunks(self) -> Iterator[Chunk]:
        if self._cache is not None:
            yield from self._cache
            return
        kept: list[Chunk] | None = []
        size = 0
        for chunk in self._coding.chunks(self._read()):
            size += sum(v.nbytes for v in chunk.values())
            kept = [*kept, chunk] if kept is not None and size <= CACHE_BYTES else None
            yield chunk
        self._cache = kept


@dataclass(frozen=True, kw_only=True, eq=False)
class Coding:
    """How the blocks of a fit see a record."""

    schema: Schema
    blocks: tuple[Block, ...]

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
        for batch in batches:
            for start in range(0, batch.num_rows, ROWS):
                yield self._chunk(batch.slice(start, ROWS))

    def _chunk(self, batch: pa.RecordBatch) -> Chunk:
        values: Coded = coded(batch, self.schema, [b.column for b in self.blocks if b.column])
        out: Chunk = {}
        for b in self.blocks:
            v = values[b.column or ""]
            codes = numerators(v, b) if b.numerators is None else level_codes(v, self.schema.resolved[b.column or ""])
            out[b.column or ""] = codes.astype(np.int32)
        return out


@dataclass(frozen=True, kw_only=True, eq=False)
class Pass:
    """One pass over rows that are elsewhere, and travels to them; of a perturbed objective it holds a θ that is secret."""

    coding: Coding
    summing: Summing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[NDArray[np.int64]]:
        return self.summing(self.coding.chunks(batches))


def sums(chunks: Iterable[Chunk], asked: Residuals) -> Iterator[NDArray[np.int64]]:
    """Vectors that add up to: records, sums of each block, residual histogram; at least one."""
    working, levels = asked.working, levels_of(asked.working.features, asked.working.theta)
    total = np.zeros(1 + sum(_entries(asked)) + len(asked.edges) + 1, np.int64)
    for chunk in chunks:
        r = _residual(chunk, working, levels)
        steps = _steps(r, asked.clip)
        parts = [
            _weighted(chunk, b, steps) if own is None else _by_own_clip(chunk, b, r, own)
            for b, own in zip(working.features, asked.clips, strict=True)
        ]
        bins = np.bincount(np.searchsorted(asked.edges, np.abs(r)), minlength=len(asked.edges) + 1)
        if total[0] + len(r) > MOST:
            yield total.copy()
            total[:] = 0
        total += np.concatenate([[len(r)], *parts, bins])
    yield total


def _steps(r: NDArray[np.float64], clip: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Clipped residuals in steps of clip / RESIDUAL, rounded towards 0."""
    return np.asarray(np.trunc(np.clip(r / clip, -1, 1) * RESIDUAL))


def _by_own_clip(chunk: Chunk, block: Block, r: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.int64]:
    """As for the clip of all; of levels Σ s, then Σ √(R² − s²) rounded down, so that no record's pair is longer than R.

    The root is correctly rounded, and of an integer below 2³⁰ it comes no closer to the next integer than its spacing: what is
    rounded down is never too large.
    """
    if not block.is_table:
        return _weighted(chunk, block, _steps(r, own[0]))
    steps = _steps(r, own[chunk[block.column or ""]])
    near = np.floor(np.sqrt(RESIDUAL**2 - steps**2))
    return np.concatenate([_weighted(chunk, block, steps), _weighted(chunk, block, near)])


def _residual(chunk: Chunk, working: Working, levels: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    y, score = target_of(chunk, working.target), score_of(chunk, working.features, levels, working.target)
    if working.link is Link.IDENTITY:
        return y - score
    place = np.rint((np.clip(score, -SCORE_END, SCORE_END) + SCORE_END) / SCORE_STEP).astype(np.intp)
    return np.asarray((y + 1) / 2 - _CHANCE[place])


def target_of(chunk: Chunk, target: Block) -> NDArray[np.float64]:
    return np.asarray(_contribution(chunk, target, _of_level(target, np.ones(1))))


def score_of(
    chunk: Chunk, features: Sequence[Block], levels: Sequence[NDArray[np.float64]], target: Block
) -> NDArray[np.float64]:
    """z'θ of each record, added up block by block."""
    score = np.zeros(len(chunk[target.column or ""]))
    for block, of_level in zip(features, levels, strict=True):
        score += _contribution(chunk, block, of_level)
    return score


def levels_of(features: Sequence[Block], theta: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """z_[j]'θ_j of each block's levels."""
    ends = np.cumsum([0, *(b.rows for b in features)])
    return [_of_level(b, theta[i:j]) for b, i, j in zip(features, ends[:-1], ends[1:], strict=True)]


def _of_level(block: Block, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """A'θ, added up row by row; of a continuous column θ over its denominator."""
    if block.numerators is None:
        return np.asarray(theta / block.denominator)
    total = np.zeros(block.numerators.shape[1])
    for weight, row in zip(theta, block.numerators, strict=True):
        total += weight * row
    return np.asarray(total / block.denominator)


def _contribution(chunk: Chunk, block: Block, of_level: NDArray[np.float64]) -> NDArray[np.float64] | np.float64:
    """z_[j]'θ_j of each record: a constant, a product, or a lookup by level."""
    if block.column is None:
        return np.float64(of_level[0])
    codes = chunk[block.column]
    return np.asarray(codes * of_level[0] if block.numerators is None else of_level[codes])


def _weighted(chunk: Chunk, block: Block, steps: NDArray[np.float64]) -> NDArray[np.int64]:
    """Σ numerators · steps of a scalar, Σ steps by level of a table; exact in float64 within a chunk."""
    if block.column is None:
        return np.array([steps.sum()]).astype(np.int64)
    codes = chunk[block.column]
    if block.is_scalar:
        values = codes.astype(np.float64) if block.numerators is None else block.numerators[0][codes].astype(np.float64)
        return np.array([(values * steps).sum()]).astype(np.int64)
    return np.rint(np.bincount(codes, weights=steps, minlength=_width(block))).astype(np.int64)


def _projected(block: Block, sums: NDArray[Any]) -> NDArray[Any]:
    if block.is_scalar or block.numerators is None:
        return sums
    return np.asarray(block.numerators.astype(sums.dtype) @ sums)


def entries(block: Block) -> int:
    return 1 if block.is_scalar else _width(block)


def _entries(asked: Residuals) -> list[int]:
    """Sums of each block: two for each level that has a clip of its own."""
    return [entries(b) * (2 if by_level else 1) for b, by_level in zip(asked.working.features, asked.by_level, strict=True)]


def _width(block: Block) -> int:
    assert block.numerators is not None
    return int(block.numerators.shape[1])
