r"""How much each block matters: a prior variance per block, learned from the block itself and from all blocks together.

Block j explains the share v_j of the target's variance. v_j is a point of a grid, from a distribution over the grid that all
blocks have in common and that is learned from them, a nonparametric empirical Bayes. Where few blocks matter it has two peaks
and the others drop out; where all do it has one, and blocks too weak to speak for themselves are still believed to matter.

With everything else fixed, coordinate i of block j is seen as  q_i ~ N(s_i θ_i, s_i)  and its evidence for a variance t is
½ (q² t / (1 + t s) − log(1 + t s)). The variance that stands for the whole posterior of v_j is the one that shrinks as much.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHARES = 10.0 ** np.arange(-6.0, 1.01, 0.25)
"""Shares of the target's variance that a block may explain. More than 1, since blocks may cancel each other."""

SMOOTH = np.array([1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0]) / 16
"""Kernel of the learned distribution: what is likely for one block is likely for others within three quarters of a decade."""

LOOKS = 3
"""Steps of expectation and maximisation for the common distribution, at each call."""


def variances(s: Array, q: Array, unit: Array, starts: NDArray[np.intp], common: Array) -> tuple[Array, Array]:
    """The prior variance that stands for each block, in shares of the target's variance; and the common distribution.

    Args:
        s, q: what each coordinate says of itself without its own prior, "P".
        unit: prior variance of each coordinate if its block explains all of the target, "P".
        starts: first coordinate of each block.
        common: the common distribution so far, over SHARES.
    """
    t = np.outer(SHARES, unit)
    d = 1 + t * s
    evidence = np.add.reduceat(q**2 * t / d - np.log(d), starts, axis=1) / 2
    kept = np.add.reduceat(t * s / d, starts, axis=1) / np.diff([*starts, len(s)])
    likelihood = np.exp(evidence - evidence.max(axis=0))
    for _ in range(LOOKS):
        weight = likelihood * common[:, None]
        weight /= weight.sum(axis=0)
        common = weight.sum(axis=1) + 1 / len(SHARES)
        common = np.convolve(np.pad(common, len(SMOOTH) // 2, mode="edge"), SMOOTH, "valid")
        common /= common.sum()
    found = np.sum(weight * kept, axis=0)
    sizes = np.log(SHARES)
    return np.exp([np.interp(f, k, sizes) for f, k in zip(found, kept.T, strict=True)]), common
