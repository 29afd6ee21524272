r"""DP-SGD (Abadi et al. 2016): T steps on Poisson batches, per-record gradients clipped to norm C, Gaussian noise of σC.

    g̃ = Σ_batch clip_C(∇ℓ_i) + N(0, σ²C² I),   θ ← θ − η g̃ / (qn)

Rows are divided by their public bound first, so that ‖x‖ ≤ 1 and η = 1/β, one over the loss's largest curvature, is stable.

Accounting: Rényi divergence of the sampled Gaussian at integer orders (Mironov, Talwar, Zhang 2019), composed over T steps,

    (α − 1) D_α ≤ log Σ_k C(α, k) (1 − q)^{α−k} q^k exp(k(k − 1)/2σ²),

and turned into δ(ε) at the best α (Canonne, Kamath, Steinke 2020).

Tuning costs nothing here because there is none: q, T, C and η are fixed below for all datasets and ε. Whoever tries k settings
on the same rows and keeps the best pays for all of them, about √k times the noise; published figures often do not. n is taken
to be public, as is usual there.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, gammaln, logsumexp, ndtri

from ddssp.experiments.noise import perturbed
from ddssp.secret.noise import Noise

Array = NDArray[np.float64]

RATE, STEPS, CLIP = 0.02, 500, 0.5
"""q, T and C: ten passes over the rows; gradients have norm at most 1 for logistic regression, and for residuals up to 1."""

STEP_SIZE = {"linear": 1.0, "logistic": 4.0}
"""η = 1/β."""

ORDERS = np.unique(np.concatenate([np.arange(2, 64), np.geomspace(64, 4096, 60).astype(int)]))


def dpsgd(X: Array, y: Array, *, kind: str, bound: float, epsilon: float, delta: float, noise: Noise) -> Array:
    """θ averaged over the last half of the steps; least squares for `linear`, y = ±1 for `logistic`."""
    sigma, n = noise_multiplier(epsilon, delta), len(y)
    norms = np.linalg.norm(X, axis=1) / bound
    theta, average = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for step in range(STEPS):
        batch = np.flatnonzero(perturbed(np.zeros(n), 1.0, noise) < ndtri(RATE))
        rows = X[batch] / bound
        slope = slopes(rows, y[batch], theta, kind)
        clipped = slope * np.minimum(1.0, CLIP / np.maximum(np.abs(slope) * norms[batch], 1e-12))
        theta = theta - STEP_SIZE[kind] / (RATE * n) * perturbed(rows.T @ clipped, sigma * CLIP, noise)
        average += theta * (2 / STEPS) * (step >= STEPS // 2)
    return np.asarray(average / bound)


def slopes(X: Array, y: Array, theta: Array, kind: str) -> Array:
    """∇ℓ_i = slope_i x_i."""
    score = X @ theta
    return np.asarray(score - y if kind == "linear" else -y * expit(-y * score))


@lru_cache(maxsize=64)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest σ, rounded up, for which T steps are (ε, δ)-DP."""
    low, high = 0.1, 1e4
    while high / low > 1 + 1e-6:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if delta_of_steps(middle, epsilon) <= delta else (middle, high)
    return high


def delta_of_steps(sigma: float, epsilon: float, *, rate: float = RATE, steps: int = STEPS) -> float:
    """δ(ε) of all steps together, an upper bound."""
    alpha = ORDERS.astype(np.float64)
    renyi = steps * np.array([_renyi(int(a), sigma, rate) for a in ORDERS])
    log_delta = (alpha - 1) * (renyi - epsilon) + alpha * np.log1p(-1 / alpha) - np.log(alpha - 1)
    return float(np.exp(min(0.0, log_delta.min())))


def _renyi(order: int, sigma: float, rate: float) -> float:
    k = np.arange(order + 1)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    terms = choose + k * np.log(rate) + (order - k) * np.log1p(-rate) + k * (k - 1) / (2 * sigma**2)
    return float(logsumexp(terms)) / (order - 1)
