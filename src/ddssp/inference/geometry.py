"""Geometry: what noisy first moments say of the features, before any of their products is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block
from ddssp.inference.positive import positive
from ddssp.marginal import Measurement

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Geometry:
    """Means and variances of P coordinates in J blocks, the intercept left out.

    Args:
        total: number of records, at least its own noise.
        sizes: rows of each block; `hot` says which are one-hot.
        offset: mean of z, "P"; `share` the frequencies of one-hot levels (the mean of a scalar).
        variance: of z, "P"; `doubt` how far n times it is off, as a variance, "P".
    """

    total: float
    sizes: NDArray[np.intp]
    hot: NDArray[np.bool_]
    offset: Array
    share: Array
    variance: Array
    doubt: Array

    @cached_property
    def block(self) -> NDArray[np.intp]:
        """Block of each coordinate."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def reach(self) -> Array:
        """Total variance of each block: a prior variance t of its coefficients explains t · reach."""
        return np.maximum(self.by_block(self.variance), 1e-12)

    @cached_property
    def typical(self) -> Array:
        """Geometric mean of n̂ · variance over each block's coordinates."""
        return np.asarray(np.exp(self.by_block(np.log(self.total * self.variance)) / self.sizes))

    def by_block(self, values: Array) -> Array:
        """Sum over each block."""
        return np.asarray(np.bincount(self.block, values, len(self.sizes)), np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """Counts of levels that came with gradients: their precision, and they weighted by it; 0 where none came, "P"."""

    weighted: Array
    precision: Array

    @classmethod
    def none(cls, size: int) -> Counts:
        return cls(weighted=np.zeros(size), precision=np.zeros(size))

    def plus(self, counts: Array, precision: Array) -> Counts:
        return Counts(weighted=self.weighted + precision * counts, precision=self.precision + precision)


def geometry(blocks: tuple[Block, ...], known: Mapping[Clique, Measurement], counts: Counts | None = None) -> Geometry:
    """Means, variances and frequencies from measured n̂, first moments and squares; kept within what is possible."""
    total = max(float(known[()].values[0, 0]), known[()].sigma, 1.0)
    places = np.cumsum([0, *(b.rows for b in blocks)])
    counts = counts or Counts.none(int(places[-1]))
    parts = [
        _scalar(b, total, known) if b.is_scalar else _levels(b, total, known, counts.weighted[i:j], counts.precision[i:j])
        for b, (i, j) in zip(blocks, pairwise(places), strict=True)
    ]
    offset, share, variance, doubt = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Geometry(
        total=total,
        sizes=np.array([b.rows for b in blocks]),
        hot=np.array([not b.is_scalar for b in blocks]),
        offset=offset,
        share=share,
        variance=variance,
        doubt=doubt,
    )


Part = tuple[Array, Array, Array, Array]


def _scalar(block: Block, total: float, known: Mapping[Clique, Measurement]) -> Part:
    name = block.column or ""
    first, square = known[name,], known.get((name, name))
    mean = np.clip(first.values[0] / total, -1, 1)
    second = block.kappa if square is None else square.values[0, 0] / total + 0.5
    variance = np.clip(second - mean**2, min(2 * first.sigma / total, 1.0), 1.0)
    return mean, mean, variance, np.array([2 * first.sigma**2])


def _levels(block: Block, total: float, known: Mapping[Clique, Measurement], weighted: Array, precision: Array) -> Part:
    """Frequencies: the histogram and what came with gradients, by inverse variance, given that every level has some rows."""
    first = known[block.column or "",]
    weight = 1 / first.sigma**2
    count = ((first.values[0] + total / block.rows) * weight + weighted) / (weight + precision)
    count, doubt = positive(count, (weight + precision) ** -0.5)
    share = count / count.sum()
    return share - 1 / block.rows, share, share * (1 - share), doubt
