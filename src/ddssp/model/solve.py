r"""Noisy normal equations → θ.

Noise makes H = X'X indefinite, so plain least squares explodes where H is weak. Four answers, by what is known of the noise:

NONE             least squares through the pseudo-inverse; for exact moments
FLOOR            eigenvalues of H raised to a public floor; where the noise is not known (graphical models)
EMPIRICAL_BAYES  with H = U h U' projected to h ≥ 0 and g = U'b, g_i ~ N(h_i δ_i, s_i²), where s² is the variance of e_y − Eθ
                 rotated into U, and the prior δ_i ~ N(0, t), t by marginal likelihood: δ_i = h_i t g_i / (h_i² t + s_i²)
COLUMNS          one prior variance per column, with the whole covariance of the noise (model/reading.py): sharper where few
                 columns matter
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR_SHARE = 1e-3
"""Public floor of FLOOR, as a share of the number of records."""


class Shrinkage(Enum):
    NONE = "none"
    FLOOR = "floor"
    EMPIRICAL_BAYES = "empirical-bayes"
    COLUMNS = "columns"


def least_squares(H: Array, b: Array) -> Array:
    """θ of least norm with Hθ = b; directions in which H vanishes get 0."""
    h, U = np.linalg.eigh((H + H.T) / 2)
    live = h > h.max(initial=0.0) * len(h) * 1e-13
    return np.asarray(U[:, live] @ ((U[:, live].T @ b) / h[live]))


def floored(H: Array, b: Array, total: float) -> Array:
    """θ with the eigenvalues of H raised to FLOOR_SHARE · n̂."""
    h, U = np.linalg.eigh((H + H.T) / 2)
    return np.asarray(U @ ((U.T @ b) / np.maximum(h, FLOOR_SHARE * max(total, 1.0))))


def empirical_bayes(H: Array, b: Array, var_H: Array, var_b: Array, *, rounds: int = 3) -> Array:
    """θ by empirical-Bayes shrinkage; h is floored at half the noise's spectral level.

    Edge cases: directions that no record can take (all rows of a centred one-hot block moved alike) have h = 0, and any basis
    of them is as good as another; they get 0 and have no part in the likelihood, so that the fit does not depend on the basis.

    Args:
        var_H, var_b: variance of each entry's noise, "p p" and "p".
    """
    h, U = np.linalg.eigh((H + H.T) / 2)
    live = np.abs(h) > 1e-9 * np.abs(h).max(initial=0.0)
    h, U = h[live], U[:, live]
    level = float(np.sqrt(var_H.sum(1).max(initial=0.0)))
    h = np.maximum(h, max(level / 2, h.max(initial=0.0) * 1e-12))
    g = U.T @ b
    theta = np.zeros_like(b)
    for _ in range(rounds):
        s2 = (U * U).T @ (var_b + var_H @ theta**2)
        theta = U @ _posterior(h, g, s2)
    return theta


def _posterior(h: Array, g: Array, s2: Array) -> Array:
    """Posterior means under the prior variance t that maximises the marginal likelihood, on a grid and then within it."""
    grid = np.exp(np.linspace(-18, 6, 97))
    variance = h**2 * grid[:, None] + s2
    t = grid[np.argmin(np.sum(np.log(variance) + g**2 / variance, axis=1))]
    return np.asarray(h * t * g / (h**2 * t + s2))
