"""Noise: where randomness comes from. The product's comes from OpenDP, on integers, inside the primitive."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ddssp.secret.drawing import drawn


class Noise(Protocol):
    """Draws what a Curator answers.

    `private` is True only for noise that nobody can predict or reproduce; a release made with any other says so.
    """

    @property
    def private(self) -> bool: ...

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        """values + discrete Gaussian noise of scale σ on the integers."""
        ...

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        """Index of the largest score + Gumbel noise of the given scale (the exponential mechanism)."""
        ...


class OpenDPNoise:
    """OpenDP's samplers.

    Guarantees: `gaussian` is Δ²/2σ²-zCDP on integer vectors at L2 distance Δ; `noisy_max` is ε²/8-zCDP at L∞ distance Δ with
    scale 2Δ/ε. Values are 64-bit: OpenDP's plain int would be 32-bit and saturate.
    """

    private = True

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return drawn(values, sigma, draw_here)

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        return int(_noisy_max(scale)([int(s) for s in scores]))


def draw_here(values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
    """values + discrete Gaussian noise, drawn in this process."""
    return np.array(_gaussian(sigma)(values.tolist()), np.int64)


@lru_cache(maxsize=4096)
def _gaussian(sigma: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=sigma)


@lru_cache(maxsize=4096)
def _noisy_max(scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return make_noisy_max(
        vector_domain(atom_domain(T="i64")), linf_distance(T="i64"), zero_concentrated_divergence(), scale=scale
    )
