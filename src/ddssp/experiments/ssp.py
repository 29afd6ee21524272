"""Sufficient statistic perturbation: Gaussian noise on X'X and X'y, whatever the data are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddssp.experiments.noise import perturbed, perturbed_symmetric
from ddssp.secret.noise import Noise

Array = NDArray[np.float64]


def ssp(XtX: Array, Xty: Array, *, bound: float, epsilon: float, delta: float, noise: Noise) -> Array:
    """θ by plain composition: half of (ε, δ) each for X'X and X'y by the classical Gaussian mechanism; |y| ≤ 1.

    σ = Δ √(2 log(1.25/(δ/2))) / (ε/2),   Δ = ‖X‖² for X'X and ‖X‖ for X'y

    Edge cases: nothing meets the noise in X'X but a pseudo-inverse, so θ explodes wherever X'X is weak.
    """
    scale = float(np.sqrt(2 * np.log(1.25 / (delta / 2)))) / (epsilon / 2)
    H = perturbed_symmetric(XtX, scale * bound**2, noise)
    return np.asarray(np.linalg.pinv(H) @ perturbed(Xty, scale * bound, noise))


def ssp_tight(XtX: Array, Xty: Array, *, bound: float, rho: float, noise: Noise) -> Array:
    """θ from one joint release of X'y and the upper triangle of X'X, with exact accounting; |y| ≤ 1.

    One record x moves the pair by at most Δ² = Σ_{i≤j} (x_i x_j)² + ‖x‖² ≤ (‖X‖⁴ + ‖X‖²)/2 + ‖X‖² (all |x_i| ≤ 1), so
    σ² = Δ²/2ρ. Ridge at the noise's spectral norm 2σ√p.
    """
    sigma = float(np.sqrt(((bound**4 + bound**2) / 2 + bound**2) / (2 * rho)))
    p = len(Xty)
    H = perturbed_symmetric(XtX, sigma, noise)
    return np.asarray(np.linalg.solve(H + 2 * sigma * np.sqrt(p) * np.eye(p), perturbed(Xty, sigma, noise)))
