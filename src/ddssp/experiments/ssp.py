"""Sufficient statistic perturbation: Gaussian noise on X'X and X'y, whatever the data are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def symmetric_noise(p: int, sigma: float, rng: np.random.Generator) -> Array:
    """A symmetric matrix whose upper triangle is independent N(0, σ²)."""
    upper = np.triu(rng.normal(0.0, sigma, (p, p)))
    return np.asarray(upper + np.triu(upper, 1).T)


def ssp_tight(XtX: Array, Xty: Array, *, bound: float, rho: float, rng: np.random.Generator) -> Array:
    """θ from one joint release of X'y and the upper triangle of X'X, with exact accounting; |y| ≤ 1.

    One record x moves the pair by at most Δ² = Σ_{i≤j} (x_i x_j)² + ‖x‖² ≤ (‖X‖⁴ + ‖X‖²)/2 + ‖X‖², so σ² = Δ²/2ρ. Ridge at the
    noise's spectral norm 2σ√p.
    """
    sigma = float(np.sqrt(((bound**4 + bound**2) / 2 + bound**2) / (2 * rho)))
    p = len(Xty)
    H = XtX + symmetric_noise(p, sigma, rng)
    return np.asarray(np.linalg.solve(H + 2 * sigma * np.sqrt(p) * np.eye(p), Xty + rng.normal(0.0, sigma, p)))


def ssp(XtX: Array, Xty: Array, *, bound: float, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
    """θ by plain composition: half of (ε, δ) each for X'X and X'y by the classical Gaussian mechanism."""
    p = len(Xty)
    scale = float(np.sqrt(2 * np.log(1.25 / (delta / 2)))) / (epsilon / 2)
    H = XtX + symmetric_noise(p, scale * bound**2, rng)
    return np.asarray(np.linalg.pinv(H) @ (Xty + rng.normal(0.0, scale * bound, p)))
