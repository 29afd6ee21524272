r"""Gradual updates: records → records whose pair tables are nearer to a target.

The Burt matrix G of n records is a sum over records, and a target is a quadratic F(G) = ½ Σ w (residual)². Two kinds of step,
each for a random share of the records:

one attribute   each record gets the level b of attribute v that lowers F fastest, argmin of Σ_k ∂F/∂G_vk [b, x_ik]
whole records   of two records the one with the larger ∂F/∂G summed over its cells becomes a copy of the other; this keeps
                what is tied together in a record (education and years of education), which single attributes cannot

Of the moves so proposed only a random share α is carried out, the minimum of F along their sum: many records would make
the same move, and together they would overshoot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Codes = NDArray[np.int32]
"""Records, "n d"."""

SHARE = 0.05
"""Records that a step looks at."""

COPIED = 0.2
"""Of the pairs of records that a step looks at, those that differ most in their scores."""

SWEEPS = 200
"""Passes over all attributes, at most."""

STILL = 1e-4
"""Stop when a pass lowers F by less than this share of what all passes did."""


class Target(Protocol):
    """A quadratic F over Burt matrices."""

    def pull(self, block: Array, v: slice) -> Array:
        """∂F/∂G of the rows `v` of the Burt matrix; both "m_v M"."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class TableTarget:
    """Tables themselves: F = ½ Σ (G − T)² / (T + 0.1). A cell that should be empty weighs most."""

    burt: Array

    def pull(self, block: Array, v: slice) -> Array:
        return (block - self.burt[v]) / (np.maximum(self.burt[v], 0.0) + 0.1)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentsTarget:
    """Encoded second moments: F = ½ Σ W (A G A' − T)².

    Args:
        encode: A, "p M", block diagonal.
        rows: the rows of A that belong to the levels from each start on.
        matrix, weights: T and W, "p p".
    """

    encode: Array
    rows: dict[int, slice]
    matrix: Array
    weights: Array

    def pull(self, block: Array, v: slice) -> Array:
        r = self.rows[v.start]
        A = self.encode[r, v]
        residual = A @ block @ self.encode.T - self.matrix[r]
        return np.asarray(A.T @ (self.weights[r] * residual) @ self.encode)


class Records:
    """Records under change, with their Burt matrix."""

    def __init__(self, codes: Codes, sizes: Sequence[int]) -> None:
        self.codes = codes.copy()
        ends = np.cumsum([0, *sizes])
        self.slices = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._offsets, self._width = ends[:-1], int(ends[-1])
        Z = self.indicators(self.codes)
        self.burt = (Z.T @ Z).toarray()

    def indicators(self, codes: Codes) -> sp.csr_array:
        """One-hot records, "n M"."""
        n, d = codes.shape
        return sp.csr_array((np.ones(n * d), (codes + self._offsets).ravel(), np.arange(n + 1) * d), shape=(n, self._width))

    def best_levels(self, who: Index, v: int, pull: Array) -> tuple[Index, Index]:
        """Who gains by another level of attribute v, and the level of the least pull."""
        s = self.slices[v]
        others = pull.copy()
        others[:, s] = 0.0
        scores = self.indicators(self.codes[who]) @ others.T + np.diag(pull[:, s]) / 2
        level, rows = scores.argmin(1), np.arange(len(who))
        gains = scores[rows, level] < scores[rows, self.codes[who, v]]
        return who[gains], level[gains]

    def level_change(self, who: Index, v: int, level: Index) -> Array:
        """What it adds to the rows of attribute v in the Burt matrix if records `who` take `level`; "m_v M"."""
        s = self.slices[v]
        n, m, old = len(who), s.stop - s.start, self.codes[who, v]
        signs = sp.csr_array((np.tile([1.0, -1.0], n), np.stack([level, old], 1).ravel(), 2 * np.arange(n + 1)), shape=(n, m))
        change = np.asarray((signs.T @ self.indicators(self.codes[who])).toarray())
        change[:, s] = np.diag(np.bincount(level, minlength=m) - np.bincount(old, minlength=m))
        return change

    def set_levels(self, who: Index, v: int, level: Index, change: Array) -> None:
        s = self.slices[v]
        self.codes[who, v] = level
        self.burt[s] += change
        self.burt[:, s] = self.burt[s].T

    def best_copies(self, who: Index, pull: Array) -> tuple[Index, Index]:
        """Who gains most by becoming a copy, and of whom: `who` is taken two by two."""
        Z = self.indicators(self.codes[who])
        scores = np.asarray((Z * (Z @ pull)).sum(1)).ravel()
        left, right = np.split(np.arange(len(who) // 2 * 2), 2)
        worse = np.where(scores[left] > scores[right], left, right)
        better = left + right - worse
        most = np.argsort(scores[better] - scores[worse])[: round(COPIED * len(worse))]
        return who[worse[most]], who[better[most]]

    def copy_change(self, who: Index, of: Index) -> Array:
        """What it adds to the Burt matrix if records `who` become copies; "M M"."""
        new, old = self.indicators(self.codes[of]), self.indicators(self.codes[who])
        return np.asarray((new.T @ new - old.T @ old).toarray())

    def set_copies(self, who: Index, of: Index, change: Array) -> None:
        self.codes[who] = self.codes[of]
        self.burt += change


def updated(codes: Codes, sizes: Sequence[int], target: Target, rng: np.random.Generator) -> Codes:
    """Records nearer to the target.

    Args:
        codes: "n d"; unchanged.
        sizes: number of levels of each attribute; one of a single level never changes.
    """
    records = Records(codes, sizes)
    free = [v for v, m in enumerate(sizes) if m > 1]
    total = 0.0
    for _ in range(SWEEPS):
        gain = _copy(records, target, rng) + sum(_relabel(records, int(v), target, rng) for v in rng.permutation(free))
        total += gain
        if gain <= STILL * total:
            break
    return records.codes


def _some(records: Records, rng: np.random.Generator) -> Index:
    n = len(records.codes)
    return rng.choice(n, max(min(2, n), round(SHARE * n)), replace=False)


def _relabel(records: Records, v: int, target: Target, rng: np.random.Generator) -> float:
    """Moves some records in attribute v; returns by how much F fell."""
    s = records.slices[v]
    pull = target.pull(records.burt[s], s)
    twice = np.full(pull.shape[1], 2.0)
    twice[s] = 1.0

    def along(change: Array) -> tuple[float, float]:
        bend = target.pull(records.burt[s] + change, s) - pull
        return float(np.sum(pull * change * twice)), float(np.sum(bend * change * twice))

    who, level = records.best_levels(_some(records, rng), v, pull)
    change = records.level_change(who, v, level)
    kept = _kept(len(who), *along(change), rng)
    if not kept.all():
        who, level = who[kept], level[kept]
        change = records.level_change(who, v, level)
    slope, curvature = along(change)
    records.set_levels(who, v, level, change)
    return -slope - curvature / 2


def _copy(records: Records, target: Target, rng: np.random.Generator) -> float:
    """Makes some records copies of others; returns by how much F fell."""
    pull = np.vstack([target.pull(records.burt[s], s) for s in records.slices])

    def along(change: Array) -> tuple[float, float]:
        bend = np.vstack([target.pull(records.burt[s] + change[s], s) for s in records.slices]) - pull
        return float(np.sum(pull * change)), float(np.sum(bend * change))

    who, of = records.best_copies(_some(records, rng), pull)
    kept = _kept(len(who), *along(records.copy_change(who, of)), rng)
    who, of = who[kept], of[kept]
    change = records.copy_change(who, of)
    slope, curvature = along(change)
    records.set_copies(who, of, change)
    return -slope - curvature / 2


def _kept(moves: int, slope: float, curvature: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The share α = −slope / curvature of the moves, at random; none if they do not lower F."""
    alpha = 0.0 if slope >= 0 else 1.0 if curvature <= -slope else -slope / curvature
    return rng.random(moves) < alpha
