r"""Chances whose scores are normal: their mean, their mean curvature, and the score that gives a mean.

Scores s = z'θ add up many columns, so they are taken as N(m, v). With σ the logistic curve, F(m, v) = E σ(s) and F'(m, v) =
E σ'(s). Stein's identity E (z − z̄) σ(s) = cov(z) θ F' then ties a gradient taken at θ_t to the minimiser θ without a bend
between them:  Σ (z − z̄)(y − σ(s_t)) = n cov(z) (F'(m, v) θ − F'(m_t, v_t) θ_t).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def mean_chance(mean: Array, variance: Array) -> Array:
    """F: the mean of σ(s)."""
    return np.asarray(expit(_scores(mean, variance)) @ _WEIGHTS)


def mean_curvature(mean: Array, variance: Array) -> Array:
    """F': the mean of σ'(s) = σ(s) (1 − σ(s))."""
    p = expit(_scores(mean, variance))
    return np.asarray((p * (1 - p)) @ _WEIGHTS)


def score_of(chance: float, variance: float, end: float) -> float:
    """The mean score within ± end whose mean chance this is, by bisection."""
    low, high = -end, end
    for _ in range(60):
        middle = (low + high) / 2
        if mean_chance(np.array(middle), np.array(variance)) < chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _scores(mean: Array, variance: Array) -> Array:
    return np.asarray(np.asarray(mean)[..., None] + np.sqrt(variance)[..., None] * _NODES)
