"""Rows read again and again: the passes of the task mechanism, over whatever the counting pass read.

A record's contribution must not depend on where in a batch it stands, or removing one record could move the others'.
Scores are therefore summed column by column in a fixed order (no BLAS), and the link is a table lookup (no vectorised
transcendental function); everything after that is integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp.coding import Coded, coded, level_codes, numerators
from ddssp.encoding import Block
from ddssp.privacy.curator import RESIDUAL, Link, Residuals, Working
from ddssp.schema import Schema
from ddssp.secret.counts import ROWS, Secret

CACHE_BYTES = 2**29
"""Coded rows up to this size are kept for the next pass instead of being read again."""

SCORE_STEP, SCORE_END = 2.0**-12, 20.0
_SCORES = np.arange(-SCORE_END, SCORE_END + SCORE_STEP, SCORE_STEP)
_CHANCE = 1 / (1 + np.exp(-_SCORES))

Chunk = dict[str, NDArray[np.int32]]
"""Column → level codes, or numerators of a continuous column."""


class Rows(Secret):
    """Coded rows, pass by pass.

    Args:
        read: gives the record batches anew at every call.
        blocks: features and target, in the encoding that is fitted.
    """

    def __init__(self, read: Callable[[], Iterable[pa.RecordBatch]], schema: Schema, blocks: Iterable[Block]) -> None:
        self._read, self._schema = read, schema
        self._blocks = tuple(b for b in blocks if b.column is not None)
        self._cache: list[Chunk] | None = None

    def answer(self, asked: Residuals) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
        """Exact integer gradient numerators per block, and the residual histogram."""
        working = asked.working
        sums = [np.zeros(1 if b.is_scalar else _width(b), np.int64) for b in working.features]
        bins = np.zeros(len(asked.edges) + 1, np.int64)
        for chunk in self._chunks():
            r = _residual(chunk, working)
            bins += np.bincount(np.searchsorted(asked.edges, np.abs(r)), minlength=len(bins))
            steps = np.trunc(np.clip(r, -asked.clip, asked.clip) * (RESIDUAL / asked.clip))
            for total, block in zip(sums, working.features, strict=True):
                total += _weighted(chunk, block, steps)
        return [_projected(b, s) for b, s in zip(working.features, sums, strict=True)], bins

    def _chunks(self) -> Iterator[Chunk]:
        if self._cache is not None:
            yield from self._cache
            return
        kept: list[Chunk] | None = []
        size = 0
        for batch in self._read():
            for start in range(0, batch.num_rows, ROWS):
                chunk = self._coded(batch.slice(start, ROWS))
                size += sum(v.nbytes for v in chunk.values())
                kept = [*kept, chunk] if kept is not None and size <= CACHE_BYTES else None
                yield chunk
        self._cache = kept

    def _coded(self, batch: pa.RecordBatch) -> Chunk:
        columns = [b.column for b in self._blocks if b.column]
        values: Coded = coded(batch, self._schema, columns)
        out: Chunk = {}
        for b in self._blocks:
            v = values[b.column or ""]
            codes = numerators(v, b) if b.numerators is None else level_codes(v, self._schema.resolved[b.column or ""])
            out[b.column or ""] = codes.astype(np.int32)
        return out


def _residual(chunk: Chunk, working: Working) -> NDArray[np.float64]:
    rows = len(next(iter(chunk.values())))
    score = np.zeros(rows)
    start = 0
    for b in working.features:
        score += _contribution(chunk, b, working.theta[start : start + b.rows])
        start += b.rows
    y = _contribution(chunk, working.target, np.ones(1))
    if working.link is Link.IDENTITY:
        return y - score
    place = np.rint((np.clip(score, -SCORE_END, SCORE_END) + SCORE_END) / SCORE_STEP).astype(np.intp)
    return np.asarray((y + 1) / 2 - _CHANCE[place])


def _contribution(chunk: Chunk, block: Block, theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """z_[j]'θ_j of each record: a product, or a lookup by level."""
    if block.column is None:
        return np.full(len(next(iter(chunk.values()))), theta[0])
    codes = chunk[block.column]
    if block.numerators is None:
        return np.asarray(codes * (theta[0] / block.denominator))
    return np.asarray((theta @ block.numerators / block.denominator)[codes])


def _weighted(chunk: Chunk, block: Block, steps: NDArray[np.float64]) -> NDArray[np.int64]:
    """Σ numerators · steps of a scalar, Σ steps by level of a table; exact in float64 within a chunk."""
    if block.column is None:
        return np.array([steps.sum()]).astype(np.int64)
    codes = chunk[block.column]
    if block.is_scalar:
        values = codes.astype(np.float64) if block.numerators is None else block.numerators[0][codes].astype(np.float64)
        return np.array([(values * steps).sum()]).astype(np.int64)
    return np.rint(np.bincount(codes, weights=steps, minlength=_width(block))).astype(np.int64)


def _projected(block: Block, sums: NDArray[np.int64]) -> NDArray[np.int64]:
    return sums if block.is_scalar or block.numerators is None else np.asarray(block.numerators @ sums)


def _width(block: Block) -> int:
    assert block.numerators is not None
    return int(block.numerators.shape[1])
