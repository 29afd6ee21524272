r"""Objective perturbation (Kifer, Smith, Thakurta 2012) for logistic regression, as printed in the paper's appendix.

θ = argmin Σ log(1 + exp(−y x'θ)) + Δ‖θ‖²/2 + b'θ,   Δ = ‖X‖²/2ε,   b ~ N(0, ‖X‖²(8 log(2/δ) + 4ε)/ε² I)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

Array = NDArray[np.float64]


def objpert(X: Array, y: Array, *, bound: float, epsilon: float, delta: float, rng: np.random.Generator) -> Array:
    """θ for y = ±1 and rows of norm at most `bound`."""
    sigma = bound * np.sqrt(8 * np.log(2 / delta) + 4 * epsilon) / epsilon
    return perturbed_minimiser(X, y, ridge=bound**2 / (2 * epsilon), b=rng.normal(0.0, sigma, X.shape[1]))


def perturbed_minimiser(X: Array, y: Array, *, ridge: float, b: Array) -> Array:
    """argmin of the logistic loss + ridge/2 ‖θ‖² + b'θ."""

    def loss(theta: Array) -> tuple[float, Array]:
        margin = y * (X @ theta)
        value = np.sum(np.logaddexp(0, -margin)) + ridge / 2 * theta @ theta + b @ theta
        return float(value), -X.T @ (y * expit(-margin)) + ridge * theta + b

    return np.asarray(minimize(loss, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500}).x)
