r"""From least squares to a generalised linear model: s = α + k u, where u is the least-squares fit.

Second moments give the linear part of a GLM's likelihood exactly, E[y s]; what is left, E[A(s)], needs the distribution of s,
which is taken as Gaussian (for two classes y = ±1: Gaussian within each, with one covariance). The likelihood then depends on
θ only through the mean and variance of s, so its maximum has the direction of least squares, and (α, k) follow from two numbers
of the release: the response's mean ȳ, and the variance V of u, which is also Cov(u, y).

    chebyshev2   log σ(ys) ≈ b₀ + b₁ys + b₂s² on [−R, R]      k = −b₁/2b₂             α = 0
    exact split  log σ(ys) = ys/2 − log 2cosh(s/2)            k = 2/(1 − ȳ² − V)      α = logit((1+ȳ)/2) − 2ȳ/(1 − ȳ²)
    Poisson      ys − e^s, E e^s = exp(E s + Var s/2)         k = 1/ȳ                 α = log ȳ − 1 − V/2ȳ²

The exact split has a closed form because Gaussian classes with one covariance make the logistic model exact: its maximum is
Fisher's discriminant, and 1 − ȳ² − V is the residual variance of least squares (docs/models.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LARGEST_R2 = 0.98
"""Beyond it Gaussian classes are all but separable, and k says more about the approximation than about the data."""

SMALLEST_SHARE = 1e-6
"""A class is never taken to be rarer than this."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """s = constant + factor · u.

    Args:
        gradient: "2 2", derivatives of (factor, constant), rows, by (ȳ, V), columns.
    """

    factor: float
    constant: float
    gradient: Array


Rule = Callable[[float, float], Calibration]
"""(ȳ, V) → Calibration."""


def chebyshev2(radius: float) -> Rule:
    r"""The paper's degree 2: interpolation of log σ at the three Chebyshev nodes of [−R, R], in monomials.

    The odd part of log σ is s/2, so b₁ = ½; the nodes are 0 and ±R√3/2, so b₂ = (log 2 − log 2cosh(R√3/4)) / (3R²/4).
    At R = 6 the factor −b₁/2b₂ is 3.533.

    >>> round(chebyshev2(6.0)(0.0, 0.0).factor, 3)
    3.533
    """
    if not (radius > 0 and np.isfinite(radius)):
        raise ValueError(f"radius must be positive and finite, got {radius}; the paper's is 6.")
    b2 = (np.log(2) - np.logaddexp(radius * np.sqrt(3) / 4, -radius * np.sqrt(3) / 4)) / (0.75 * radius**2)
    found = Calibration(factor=float(-0.25 / b2), constant=0.0, gradient=np.zeros((2, 2)))
    return partial(_fixed, found)


def _fixed(found: Calibration, _mean: float, _variance: float) -> Calibration:
    return found


def exact_split(mean: float, variance: float, smallest_share: float = SMALLEST_SHARE) -> Calibration:
    """The maximum of E[ys]/2 − E log 2cosh(s/2) for y = ±1.

    Edge cases: R² = V/(1 − ȳ²) is kept within [0, 0.98] and the classes' shares at `smallest_share` or above.

    >>> exact_split(0.0, 0.5).factor  # 2 over the residual variance
    4.0
    """
    m = float(np.clip(mean, 2 * smallest_share - 1, 1 - 2 * smallest_share))
    spread = 1 - m * m
    left = spread - float(np.clip(variance, 0.0, LARGEST_R2 * spread))
    return Calibration(
        factor=2 / left,
        constant=float(np.log((1 + m) / (1 - m)) - 2 * m / spread),
        gradient=np.array([[4 * m / left**2, 2 / left**2], [2 / spread - 2 * (1 + m * m) / spread**2, 0.0]]),
    )


def poisson(unit: float) -> Rule:
    """Of counts with a log link, where the response is y/unit; its mean must be positive."""
    return partial(_poisson, unit)


def _poisson(unit: float, mean: float, variance: float) -> Calibration:
    m, v = mean, max(variance, 0.0)
    return Calibration(
        factor=1 / m,
        constant=float(np.log(unit * m) - 1 - v / (2 * m * m)),
        gradient=np.array([[-1 / m**2, 0.0], [1 / m + v / m**3, -1 / (2 * m * m)]]),
    )
