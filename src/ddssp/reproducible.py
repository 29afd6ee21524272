"""Reproducible noise, for tests and experiments only: whatever it makes is marked NOT PRIVATE, and a ledger refuses it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class SeededNoise:
    """The seeded twin of the product's noise: a rounded Gaussian and Gumbel noise from numpy's generator."""

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return np.asarray(values + np.rint(self._rng.normal(0.0, sigma, values.shape)).astype(np.int64))

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        return int(np.argmax(scores + self._rng.gumbel(0.0, scale, scores.shape)))
