r"""The next clip: how far a residual may count, from a noisy histogram of |r|.

A gradient's noise grows with the clip c and what it cuts off shrinks with it, so c minimises  c² · price + τ(c):  the excess
loss of the noise and τ(c) = E(|r| − c)²₊. The histogram's own tail counts as far as it stands out of its noise, else a
Laplace tail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

EDGES = tuple(float(2 * 2 ** (-k / 2)) for k in range(16, 0, -1))
"""Ends of the bins of |r| for targets in [−1, 1]; the last bin is open and holds what is left up to 2."""

_MIDDLES = 0.85 * np.array([*EDGES, 2.0])
_STEPS = np.array([2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 14, 20])

SLOWEST = 0.85
"""A clip is at least this share of the one before: records left behind by a clip that shrank too fast never catch up."""


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
