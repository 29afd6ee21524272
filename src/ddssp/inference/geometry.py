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
    """Counts of levels that came with gradients, as sums over rounds, "P"; 0 where none came.

    Noise averages over rounds. What is guessed may be wrong the same way in all of them, and does not.

    Args:
        weight: of all counts; `weighted` they times their weights.
        noise: variance of `weighted`; `guessed` what of it may be wrong besides.
    """

    weight: Array
    weighted: Array
    noise: Array
    guessed: Array

    @classmethod
    def none(cls, size: int) -> Counts:
        nothing = np.zeros(size)
        return cls(weight=nothing, weighted=nothing, noise=nothing, guessed=nothing)

    def plus(self, counts: Array, precision: Array, guessed: Array) -> Counts:
        """With one round's counts, of this precision (0: none came), and what is guessed in each."""
        kept = 1 / (1 + precision * guessed**2)
        w = precision * kept
        return Counts(
            weight=self.weight + w,
            weighted=self.weighted + w * counts,
            noise=self.noise + w * kept,
            guessed=self.guessed + w * guessed,
        )

    @property
    def mean(self) -> Array:
        return _ratio(self.weighted, self.weight)

    @property
    def precision(self) -> Array:
        return _ratio(self.weight**2, self.noise + self.guessed**2)


def _ratio(a: Array, b: Array) -> Array:
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


def geometry(blocks: tuple[Block, ...], known: Mapping[Clique, Measurement], counts: Counts | None = None) -> Geometry:
    """Means, variances and frequencies from measured n̂, first moments and squares; kept within what is possible."""
    total = max(float(known[()].values[0, 0]), known[()].sigma, 1.0)
    places = np.cumsum([0, *(b.rows for b in blocks)])
    counts = counts or Counts.none(int(places[-1]))
    mean, precision = counts.mean, counts.precision
    parts = [
        _scalar(b, total, known) if b.is_scalar else _levels(b, total, known, mean[i:j], precision[i:j])
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


def _levels(block: Block, total: float, known: Mapping[Clique, Measurement], mean: Array, precision: Array) -> Part:
    """Frequencies: the histogram and what came with gradients, by inverse variance, given that every level has some rows."""
    first = known[block.column or "",]
    weight = 1 / first.sigma**2
    count = ((first.values[0] + total / block.rows) * weight + mean * precision) / (weight + precision)
    count, doubt = positive(count, (weight + precision) ** -0.5)
    share = count / count.sum()
    return share - 1 / block.rows, share, share * (1 - share), doubt
