r"""Clips: how far a residual may count.

A gradient's noise grows with the clip c and what it cuts off shrinks with it, so the next c minimises  c² · price + τ(c):  the
excess loss of the noise and τ(c) = E(|r| − c)²₊, from a noisy histogram of |r|. The histogram's own tail counts as far as it
stands out of its noise, else a Laplace tail.

A rare level of a column adds next to nothing to τ, however far off it is: its gradient would be taken for a distance of one
clip, and the level left behind by a clip that shrinks with all the other residuals. The same goes for a number that is the same
in nearly all records and far from it in a few. So levels and numbers have clips of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block

Array = NDArray[np.float64]

EDGES = tuple(float(2 * 2 ** (-k / 2)) for k in range(16, 0, -1))
"""Ends of the bins of |r| for targets in [−1, 1]; the last bin is open and holds what is left up to 2."""

_MIDDLES = 0.85 * np.array([*EDGES, 2.0])
_STEPS = np.array([2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 14, 20])

SLOWEST = 0.85
"""A clip is at least this share of the one before: records left behind by a clip that shrank too fast never catch up."""

REACH, FIRST_REACH = 2.0, 3.0
"""A level's residuals count up to so many standard deviations of its coefficient, a number's up to those of what it may be
wrong by in the record farthest from its mean; where the noise is low more in the first rounds."""

GUESSING, SETTLED = 8, 12
"""Rounds that must be over before the first reach begins to fall, and before the last one holds. At first standard deviations
rest on guesses of prior variances and frequencies."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()

LEAST_WITHIN = 0.3
"""A level's records count as no less than this, however wide its residuals may be."""


def spread(shares: Array, noise: float, clip: float) -> float:
    """E r², winsorised at four standard deviations and half a standard error to the safe side."""
    top = min(2.0, 1.5 * clip)
    v = top**2
    for _ in range(8):
        square = np.minimum(_MIDDLES, top) ** 2
        v = max(float(shares @ square), 0.0) + 0.5 * noise * float(np.sqrt(np.sum(square**2)))
        top = min(top, 4 * float(np.sqrt(v)))
    return v


def next_clip(shares: Array, noise: float, clip: float, price: float) -> float:
    """The next clip, never above this one.

    Args:
        shares: noisy share of records in each bin; `noise` its standard deviation.
        price: excess loss of the gradient's noise for c = 1.
    """
    v = spread(shares, noise, clip)
    clips = np.minimum(np.sqrt(v) * _STEPS, 2.0)
    tails = _tails(shares, noise, clips, v)
    best = clips[np.argmin(clips**2 * price + tails)]
    return float(min(max(best, SLOWEST * clip), clip))


def _tails(shares: Array, noise: float, clips: Array, v: float) -> Array:
    """E(|r| − c)²₊ of each clip c, v being E r²."""
    over = np.maximum(_MIDDLES - clips[:, None], 0) ** 2
    laplace = v * np.exp(-np.sqrt(2) * clips / np.sqrt(v))
    trust = 1 / (1 + (noise * np.sqrt(np.sum(over**2, axis=1)) / (0.3 * v)) ** 2)
    return np.asarray(np.maximum(laplace + trust * (over @ shares - laplace), 0))


def reach_of(over: int) -> float:
    """Standard deviations that own clips are wide after so many rounds, where the noise is low."""
    return float(np.interp(over, [GUESSING, SETTLED], [FIRST_REACH, REACH]))


def own_clips(
    blocks: Sequence[Block], offset: Array, variance: Array, clip: float, *, reach: float
) -> tuple[Array | None, ...]:
    """Clips of each one-hot block's levels, and of each number; None where all is known to within the clip of all.

    Args:
        offset: means of the blocks' rows, "P".
        variance: of the coefficients, "P".
        reach: standard deviations that count.
    """
    sd, ends = np.sqrt(variance), np.cumsum([0, *(b.rows for b in blocks)])
    out: list[Array | None] = []
    for b, i, j in zip(blocks, ends[:-1], ends[1:], strict=True):
        far = reach * sd[i:j] * (1 + np.abs(offset[i:j]) if b.is_scalar else 1)
        wide = (b.is_scalar or b.is_table) and bool((far > clip).any())
        out.append(np.clip(far, clip, max(clip, 2.0)) if wide else None)
    return tuple(out)


def within(variance: Array, clip: Array) -> Array:
    """E √(1 − (x/c)²)₊ of normal x: what a record counts where levels tell how many of theirs are well within their clip."""
    x = np.sqrt(variance)[:, None] * _NODES / clip[:, None]
    return np.asarray(np.maximum(np.sqrt(np.maximum(1 - x**2, 0)) @ _WEIGHTS, LEAST_WITHIN))
