r"""The minimiser of a perturbed objective: Newton's steps, one pass over the rows each.

The answer must be the exact minimiser up to a stated error, so what counts is how precise the last gradient is
(docs/objective.md): scores are added up block by block, residuals in slices of SLICE records, and slices as integers. The
curvature only shows where to go next, and is reused while steps go well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ddssp.encoding import Block
from ddssp.frame import DataError
from ddssp.privacy.curator import ERROR_OF_A_RECORD, STEEPEST, Objective, steepness
from ddssp.secret.counts import MOST, Secret
from ddssp.secret.rows import LOST, Chunk, Rows, entries, levels_of, score_of, target_of

Array = NDArray[np.float64]

SLICE = 2**13
"""Records whose residuals are added up in floating point."""

COARSE, FINE = 2.0**20, 2.0**47
"""A slice's sum is kept as multiples of 1/COARSE, and what is left of it as multiples of 1/FINE."""

CURVATURE = 2.0**30
"""A slice's curvature is kept as multiples of 1/CURVATURE."""

PRECISE = 2.0**-38
"""A record's part in the error of a derivative, at most; σ of b counts as so many records. The solver leaves as much again."""

UNDERSTATED = 16
"""The number of records may exceed what the question says so many times."""

FARTHEST = 64.0
"""How far a score may go in one step."""

PASSES = 1000
"""Over the rows, at most; 5 to 8 are usual."""

assert 2 * PRECISE * UNDERSTATED == ERROR_OF_A_RECORD


def minimiser(rows: Rows, asked: Objective, b: Array) -> Array:
    """θ − θ₀ with every derivative of the perturbed objective below `asked.slack`, errors of its evaluation included.

    A step that goes too far, so that the derivative along it is positive and more than a quarter of what it was before, is
    shortened by the secant rule.
    """
    look = _Look(rows, asked, b)
    off, here, slow = np.zeros(len(b)), look(np.zeros(len(b)), curved=True), True
    curvature = np.diag(asked.ridge)
    while not here.settled:
        curvature = curvature if here.curvature is None else here.curvature
        way = look.shortened(np.asarray(-np.linalg.solve(curvature, here.gradient), np.float64))
        there = look(off + way, curved=slow)
        while (ahead := float(there.gradient @ way)) > -(behind := float(here.gradient @ way)) / 4:
            way = way * (behind / (behind - ahead))
            there = look(off + way, curved=True)
        slow = there.size > here.size / 10
        off, here = off + way, there
    return off


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _Place(Secret):
    """The objective at one θ: gradient, how small it can be made, and curvature if it was asked for."""

    gradient: Array
    least: Array
    curvature: Array | None

    @property
    def size(self) -> float:
        return float(np.abs(self.gradient / self.least).max())

    @property
    def settled(self) -> bool:
        return self.size <= 1


class _Look(Secret):
    """Passes over the rows, counted."""

    def __init__(self, rows: Rows, asked: Objective, b: Array) -> None:
        self._rows, self._asked, self._b, self._passes = rows, asked, b, 0

    def __call__(self, off: Array, *, curved: bool) -> _Place:
        self._passes += 1
        theta = self._asked.anchor + off
        if self._passes > PASSES or not steepness(self._asked.features, theta) <= STEEPEST:
            raise DataError(f"the fit did not settle; {LOST}")
        total = self._rows.total(Slopes(asked=self._asked, theta=theta, curved=curved))
        if total[0] > UNDERSTATED * self._asked.total:
            raise DataError(f"the data has far more records than were counted; {LOST}")
        return self._place(total, off)

    def shortened(self, way: Array) -> Array:
        """The way, or as much of it as moves no score too far."""
        largest = sum(float(np.abs(v).max()) for v in levels_of(self._asked.features, way))
        return way * min(FARTHEST / max(largest, 1e-300), 1.0)

    def _place(self, total: NDArray[Any], off: Array) -> _Place:
        features = self._asked.features
        ends = np.cumsum([0, *map(entries, features)])
        coarse, fine = total[1 : 1 + ends[-1]], total[1 + ends[-1] : 1 + 2 * ends[-1]]
        sums = coarse.astype(np.float64) / COARSE + fine.astype(np.float64) / FINE
        slope = np.concatenate([_encoded(b, sums[i:j]) for b, i, j in zip(features, ends[:-1], ends[1:], strict=True)])
        return _Place(
            gradient=self._asked.ridge * off + self._b - slope,
            least=(float(total[0]) + self._asked.scales) * PRECISE,
            curvature=self._curvature(total[1 + 2 * ends[-1] :]),
        )

    def _curvature(self, tail: NDArray[Any]) -> Array | None:
        if not len(tail):
            return None
        width = len(self._asked.ridge)
        found = tail.astype(np.float64).reshape(width, width) / CURVATURE
        return np.asarray((found + found.T) / 2 + np.diag(self._asked.ridge))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Slopes:
    """One pass at θ, which is secret: Σ z r of each block and, if `curved`, Σ p (1 − p) zz'. It travels to the rows."""

    asked: Objective
    theta: Array
    curved: bool

    def __call__(self, chunks: Iterable[Chunk]) -> Iterator[NDArray[np.int64]]:
        """Vectors of: records; sums of each block, coarse and fine; curvature."""
        size = 1 + 2 * sum(map(entries, self.asked.features)) + self.curved * len(self.theta) ** 2
        total, levels = np.zeros(size, np.int64), levels_of(self.asked.features, self.theta)
        for part in (part for chunk in chunks for part in _slices(chunk)):
            vector = self._sums(part, levels)
            if total[0] + vector[0] > MOST:
                yield total.copy()
                total[:] = 0
            total += vector
        yield total

    def _sums(self, part: Chunk, levels: list[Array]) -> NDArray[np.int64]:
        features, target = self.asked.features, self.asked.target
        chance = expit(score_of(part, features, levels, target))
        residual = (target_of(part, target) + 1) / 2 - chance
        sums = np.concatenate([_added(part, b, residual) for b in features])
        coarse = np.rint(sums * COARSE)
        fine = np.rint((sums - coarse / COARSE) * FINE)
        head = np.concatenate([[len(residual)], coarse, fine])
        if not self.curved:
            return head.astype(np.int64)
        Z = np.concatenate([_design(part, b, len(chance)) for b in features], axis=1)
        curvature = np.rint((Z * (chance * (1 - chance))[:, None]).T @ Z * CURVATURE)
        return np.concatenate([head, curvature.ravel()]).astype(np.int64)


def _slices(chunk: Chunk) -> Iterator[Chunk]:
    rows = len(next(iter(chunk.values())))
    for start in range(0, rows, SLICE):
        yield {c: v[start : start + SLICE] for c, v in chunk.items()}


def _added(part: Chunk, block: Block, residual: Array) -> Array:
    """Σ z r of a scalar, Σ r of each level of a table."""
    if block.column is None:
        return np.array([residual.sum()])
    if block.is_scalar:
        return np.array([(_values(part, block) * residual).sum()])
    return np.bincount(part[block.column], weights=residual, minlength=block.rows).astype(np.float64)


def _encoded(block: Block, sums: Array) -> Array:
    """Σ z r from what `_added` gives: a centred one-hot block takes the mean away."""
    return sums if block.is_scalar else np.asarray(sums - sums.mean())


def _design(part: Chunk, block: Block, rows: int) -> Array:
    """z_[j], "n p"."""
    if block.column is None:
        return np.ones((rows, 1))
    if block.is_scalar:
        return _values(part, block)[:, None]
    hot = np.full((rows, block.rows), -1 / block.rows)
    hot[np.arange(rows), part[block.column]] += 1
    return hot


def _values(part: Chunk, block: Block) -> Array:
    codes = part[block.column or ""]
    return np.asarray((codes if block.numerators is None else block.numerators[0][codes]) / block.denominator)
