r"""Objective perturbation for logistic regression, y = ±1:

    θ = argmin Σ log(1 + exp(−y x'θ)) + λ‖θ‖²/2 + b'θ,   b ~ N(0, σ² I)

Kifer, Smith, Thakurta 2012, as printed in the paper's appendix:  λ = ‖X‖²/2ε,  σ² = ‖X‖² (8 log(2/δ) + 4ε) / ε².

Tight, after Redberg, Koskela, Wang 2023: the map b ↦ θ is one to one, so the privacy loss is exact but for two bounds, apart:
one record multiplies the Jacobian by at most 1 + β/λ (β = ‖X‖²/4 bounds its curvature) and moves b by at most ‖X‖. With
μ = ‖X‖/σ and u ~ N(0, 1) the loss is at most log(1 + β/λ) + μ|u| + μ²/2, whichever of two neighbours is the true one, so

    δ(ε) ≤ E[1 − exp(ε̃ − μ|u| − μ²/2)]₊ = 2 [Φ(−t) − e^ε̃ Φ(−t − μ)],   ε̃ = ε − log(1 + β/λ),   t = ε̃/μ − μ/2 ≥ 0

A tenth of ε pays for the ridge: log(1 + β/λ) = ε/10.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from ddssp.experiments.noise import perturbed
from ddssp.secret.noise import Noise

Array = NDArray[np.float64]

RIDGE_SHARE = 0.1
"""Part of ε that the tight version spends on its ridge."""

STEPS = 50
"""Newton's steps at most; five to fifteen are taken."""


def objpert(X: Array, y: Array, *, bound: float, epsilon: float, delta: float, noise: Noise) -> Array:
    """θ by Kifer et al.'s noise, for y = ±1 and rows of norm at most `bound`."""
    sigma = bound * float(np.sqrt(8 * np.log(2 / delta) + 4 * epsilon)) / epsilon
    return minimiser(X, y, ridge=bound**2 / (2 * epsilon), b=perturbed(np.zeros(X.shape[1]), sigma, noise))


def objpert_tight(X: Array, y: Array, *, bound: float, epsilon: float, delta: float, noise: Noise) -> Array:
    """θ by the tight noise, for y = ±1 and rows of norm at most `bound`."""
    ridge = bound**2 / 4 / np.expm1(RIDGE_SHARE * epsilon)
    sigma = bound / tight_mu((1 - RIDGE_SHARE) * epsilon, delta)
    return minimiser(X, y, ridge=ridge, b=perturbed(np.zeros(X.shape[1]), sigma, noise))


def tight_mu(epsilon: float, delta: float) -> float:
    """The largest μ with δ(ε̃) ≤ δ, rounded down; t ≥ 0 there."""
    largest = float(np.sqrt(2 * epsilon))
    if two_sided_delta(epsilon, largest) <= delta:
        return largest
    return float(brentq(lambda mu: two_sided_delta(epsilon, mu) - delta, 1e-9, largest, xtol=1e-14)) * (1 - 1e-9)


def two_sided_delta(epsilon: float, mu: float) -> float:
    """2 [Φ(−t) − e^ε Φ(−t − μ)], t = ε/μ − μ/2."""
    t = epsilon / mu - mu / 2
    return float(2 * (ndtr(-t) - np.exp(epsilon) * ndtr(-t - mu)))


def minimiser(X: Array, y: Array, *, ridge: float, b: Array) -> Array:
    """argmin of the logistic loss + ridge/2 ‖θ‖² + b'θ, by Newton's steps, halved until the loss falls.

    Guarantees: stops at a gradient of norm 1e-6 √n; the ridge makes the minimum unique.
    """

    def loss(theta: Array) -> float:
        return float(np.sum(np.logaddexp(0, -y * (X @ theta))) + ridge / 2 * theta @ theta + b @ theta)

    theta, value = np.zeros(X.shape[1]), len(y) * np.log(2)
    for _ in range(STEPS):
        chance = expit(-y * (X @ theta))
        gradient = -X.T @ (y * chance) + ridge * theta + b
        if np.linalg.norm(gradient) <= 1e-6 * np.sqrt(len(y)):
            break
        H = X.T @ (X * (chance * (1 - chance))[:, None]) + ridge * np.eye(len(theta))
        step = np.linalg.solve(H, gradient)
        while (after := loss(theta - step)) > value and np.linalg.norm(step) > 1e-12:
            step = step / 2
        theta, value = theta - step, after
    return theta
