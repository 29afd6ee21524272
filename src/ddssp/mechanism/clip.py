r"""Clips: how far a residual may count.

A gradient's noise grows with the clip c and what it cuts off shrinks with it, so the next c minimises  c² · price + τ(c):  the
excess loss of the noise and τ(c) = E(|r| − c)²₊, from a noisy histogram of |r|. The histogram's own tail counts as far as it
stands out of its noise, else a Laplace tail.

A rare level of a column adds next to nothing to τ, however far off it is: its gradient would be taken for a distance of one
clip, and the level left behind by a clip that shrinks with all the other residuals. So levels have clips of their own.
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

REACH = 3.0
"""Standard deviations of a level's coefficient that its records' residuals count."""


def spread(shares: Array, noise: float, clip: float) -> float:
    """E r², winsorised at four standard deviations and half a standard error to the safe side."""
    top = min(2.0, 1.5 * clip)
    v = top**2
    for _ in range(8):
        square = np.minimum(_MIDDLES, top) ** 2
        v = max(float(shares @ square), 0.0) + 0.5 * noise * float(np.sqrt(np.sum(square**2)))
        top = min(top, 4 * float(np.sqrt(v)))
    return v


def next_clip(shares: Array, noise: float, clip: float, price: float) -> tuple[float, float]:
    """The next clip, never above this one, and the tail E(|r| − c)²₊ that it leaves.

    Args:
        shares: noisy share of records in each bin; `noise` its standard deviation.
        price: excess loss of the gradient's noise for c = 1.
    """
    v = spread(shares, noise, clip)
    clips = np.minimum(np.sqrt(v) * _STEPS, 2.0)
    over = np.maximum(_MIDDLES - clips[:, None], 0) ** 2
    laplace = v * np.exp(-np.sqrt(2) * clips / np.sqrt(v))
    trust = 1 / (1 + (noise * np.sqrt(np.sum(over**2, axis=1)) / (0.3 * v)) ** 2)
    tails = np.maximum(laplace + trust * (over @ shares - laplace), 0)
    best = int(np.argmin(clips**2 * price + tails))
    return float(min(max(clips[best], SLOWEST * clip), clip)), float(tails[best])


def by_level(blocks: Sequence[Block], variance: Array, clip: float) -> tuple[Array | None, ...]:
    """The clips of each one-hot block's levels; None where every coefficient is known to within the clip of all.

    Args:
        variance: of the coefficients, "P".
    """
    parts = np.split(REACH * np.sqrt(variance), np.cumsum([b.rows for b in blocks])[:-1])
    wide = (b.is_table and bool((part > clip).any()) for b, part in zip(blocks, parts, strict=True))
    return tuple(np.clip(part, clip, max(clip, 2.0)) if w else None for part, w in zip(parts, wide, strict=True))
