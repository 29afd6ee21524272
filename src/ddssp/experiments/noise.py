"""Reproducible noise, for experiments and tests only: whatever it makes is marked NOT PRIVATE."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddssp.reproducible import SeededNoise
from ddssp.secret.noise import Noise

__all__ = ["NoNoise", "SeededNoise", "perturbed", "perturbed_symmetric"]

Array = NDArray[np.float64]

GRID = 2**20
"""Baselines state their noise for real numbers; it is drawn on the lattice of multiples of 1/GRID."""


class NoNoise:
    """The exact statistics through the same door: what everything after counting is judged by."""

    private = False

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return values

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        return int(np.argmax(scores))


def perturbed(values: Array, sigma: float, noise: Noise) -> Array:
    """A vector + N(0, σ² I), to the lattice's precision."""
    return np.asarray(noise.gaussian(np.rint(values * GRID).astype(np.int64), sigma * GRID) / GRID)


def perturbed_symmetric(matrix: Array, sigma: float, noise: Noise) -> Array:
    """A symmetric matrix whose upper triangle got independent N(0, σ²)."""
    upper = np.triu_indices(len(matrix))
    out = np.zeros_like(matrix)
    out[upper] = perturbed(matrix[upper], sigma, noise)
    return np.asarray(out + np.triu(out, 1).T)
