"""Closed forms against optimisers and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Chebyshev, Polynomial
from scipy.optimize import minimize
from scipy.special import log_expit

from ddssp.model.calibration import chebyshev2, exact_split, poisson


@pytest.mark.parametrize("radius", [1.0, 4.0, 6.0, 10.0])
def test_chebyshev_is_numpys_interpolation_in_monomials(radius):
    series = Chebyshev.interpolate(log_expit, 2, domain=[-radius, radius]).convert(kind=Polynomial)
    _, b1, b2 = series.coef
    found = chebyshev2(radius)(0.1, 0.2)
    assert found.factor == pytest.approx(-b1 / (2 * b2), rel=1e-12)
    assert found.constant == 0


def test_the_papers_factor_and_the_mistake_it_is_not():
    assert chebyshev2(6.0)(0.0, 0.0).factor == pytest.approx(3.533, abs=1e-3)
    in_chebyshev_basis = Chebyshev.interpolate(log_expit, 2, domain=[-6, 6]).coef
    assert -in_chebyshev_basis[1] / (2 * in_chebyshev_basis[2]) == pytest.approx(3.533 / 3, abs=1e-3)


def test_radius_must_be_positive():
    with pytest.raises(ValueError, match="radius must be positive"):
        chebyshev2(0.0)


def quadrature(mean: float, variance: float, at: np.ndarray, nodes: int = 120) -> float:
    """−(E[ys]/2 − E log 2cosh(s/2)) for s = α + k u with u Gaussian within classes, by Gauss–Hermite."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    share, spread = (1 + mean) / 2, 1 - mean**2
    r2 = variance / spread
    within = np.sqrt(variance * (1 - r2))
    value = 0.0
    for p, y, centre in ((share, 1, mean + 2 * r2 * (1 - share)), (1 - share, -1, mean - 2 * r2 * share)):
        s = at[0] + at[1] * (centre + within * x)
        value += p * (w @ (np.logaddexp(s / 2, -s / 2) - y * s / 2))
    return float(value)


@pytest.mark.parametrize(("mean", "r2"), [(0.0, 0.2), (-0.5, 0.3), (-0.5, 0.05), (0.8, 0.4), (0.3, 0.5)])
def test_exact_split_is_the_maximum_of_the_likelihood(mean, r2):
    variance = r2 * (1 - mean**2)
    found = exact_split(mean, variance)
    judge = minimize(lambda at: quadrature(mean, variance, at), np.zeros(2), method="BFGS", options={"gtol": 1e-12})
    at = np.array([found.constant, found.factor])
    assert quadrature(mean, variance, at) <= judge.fun + 1e-10
    gradient = [(quadrature(mean, variance, at + h) - quadrature(mean, variance, at - h)) / 2e-5 for h in 1e-5 * np.eye(2)]
    assert np.abs(gradient).max() < 1e-8
    assert np.allclose(at, judge.x, atol=1e-4)


@given(mean=st.floats(-0.9, 0.9), r2=st.floats(0.01, 0.9))
def test_gradients_are_derivatives(mean, r2):
    for rule, m in ((exact_split, mean), (poisson(3.0), 1 + mean), (chebyshev2(5.0), mean)):
        v = r2 * (1 - mean**2)
        slopes = [(rule(m + a, v + b), rule(m - a, v - b)) for a, b in ((1e-6, 0.0), (0.0, 1e-6))]
        numeric = np.array([[(getattr(u, k) - getattr(d, k)) / 2e-6 for u, d in slopes] for k in ("factor", "constant")])
        assert np.allclose(rule(m, v).gradient, numeric, rtol=1e-4, atol=1e-4)


def test_extremes_stay_finite():
    for mean, variance in ((1.0, 0.0), (-1.2, 0.3), (0.0, 1.5), (0.2, -0.1)):
        found = exact_split(mean, variance)
        assert np.isfinite([found.factor, found.constant]).all()
        assert found.factor > 0
