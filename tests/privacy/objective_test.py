"""What a perturbed objective costs: against its exact densities, against steep slopes, and record by record."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from ddssp.encoding import Encoding, indicator
from ddssp.privacy.budget import REACH, objective_rho
from ddssp.privacy.curator import Objective
from ddssp.schema import Schema

ORDERS = (1.001, 1.1, 2.0, 5.0, 20.0, 80.0, 400.0)


def divergences(log_p: np.ndarray, log_q: np.ndarray) -> list[float]:
    """D_α(P‖Q)/α of two densities on a grid, for all orders; what the grid misses of their sums is put right."""
    p, q = log_p - logsumexp(log_p), log_q - logsumexp(log_q)
    return [float(logsumexp(a * p + (1 - a) * q)) / (a * (a - 1)) for a in ORDERS]


def one_coefficient(plus: int, minus: int, sigma: float, ridge: float, theta: np.ndarray) -> np.ndarray:
    """log density of θ = argmin of the perturbed objective, an intercept only: φ(b(θ)) |b'(θ)|."""
    b = plus * expit(-theta) - minus * expit(theta) - ridge * theta
    slope = (plus + minus) * expit(theta) * expit(-theta) + ridge
    return -((b / sigma) ** 2) / 2 - np.log(sigma * np.sqrt(2 * np.pi)) + np.log(slope)


@pytest.mark.parametrize("mu", [0.0156, 0.25, 1.0])
@pytest.mark.parametrize(("plus", "minus"), [(0, 0), (0, 1), (2, 3), (0, 60), (500, 500), (0, 5000)])
def test_one_coefficient_costs_no_more_than_is_charged(mu, plus, minus):
    sigma, ridge = 1 / mu, 1 / (1.5 * mu)
    rho = float(objective_rho(Fraction(mu) ** 2, Fraction(1.5 * mu), 1))
    end = (plus + minus + 45 * sigma) / ridge
    theta = np.sinh(np.linspace(-np.arcsinh(end), np.arcsinh(end), 200_001))
    cell = np.gradient(theta)
    p, q = (one_coefficient(k, minus, sigma, ridge, theta) + np.log(cell) for k in (plus + 1, plus))
    assert np.exp(p).sum() == pytest.approx(1, abs=1e-6)
    assert max(*divergences(p, q), *divergences(q, p)) <= rho * (1 + 1e-6)


def test_the_charge_is_nearly_reached():
    theta = np.sinh(np.linspace(-12, 12, 200_001))
    p, q = (one_coefficient(k, 60, 4.0, 1 / 0.375, theta) + np.log(np.gradient(theta)) for k in (1, 0))
    assert 0.98 * float(objective_rho(Fraction(1, 16), Fraction(3, 8), 1)) < max(divergences(q, p))


def test_two_coefficients_cost_no_more_than_is_charged():
    """An intercept and one number ±1: the density on a grid."""
    mu, data = 0.8, [(1, 1), (1, -1), (-1, -1), (-1, -1), (1, -1)]
    sigma, ridge = np.sqrt(2) / mu, 2 / (1.5 * mu)
    line = np.linspace(-22, 22, 1201)
    s, t = np.meshgrid(line, line, indexing="ij")

    def log_density(rows):
        b, H = [-ridge * s, -ridge * t], [ridge, 0.0, ridge]
        for x, y in rows:
            a = expit(-y * (s + x * t))
            b = [b[0] + y * a, b[1] + y * x * a]
            H = [h + a * (1 - a) * f for h, f in zip(H, (1, x, 1), strict=True)]
        return -(b[0] ** 2 + b[1] ** 2) / (2 * sigma**2) - np.log(2 * np.pi * sigma**2) + np.log(H[0] * H[2] - H[1] ** 2)

    rho = float(objective_rho(Fraction(4, 5) ** 2, Fraction(6, 5), 2))
    q = log_density(data)
    assert np.exp(q).sum() * (line[1] - line[0]) ** 2 == pytest.approx(1, abs=1e-4)
    for record in product((-1, 1), (-1, 1)):
        p = log_density([*data, record])
        assert max(*divergences(p, q), *divergences(q, p)) <= rho


@pytest.mark.parametrize("mu", [0.0156, 0.3])
def test_no_slope_that_a_record_may_have_costs_more(mu):
    """Along the record's own direction its slope a(v) falls at a rate of at most a (1 − a) q/μ: at random, and at the limit."""
    rng, v = np.random.default_rng(0), np.linspace(-13, 13, 20_001)
    dv, q = v[1] - v[0], float(REACH) * mu
    log_phi = -(v**2) / 2 - np.log(np.sqrt(2 * np.pi))
    for trial in range(60):
        rate = np.where((v > (left := rng.uniform(-6, 4))) & (v < left + rng.choice([0.3, 1, 3, 20])), q, 0.0)
        if trial % 3 == 0:
            rate = q * rng.uniform(size=41).repeat(488)[: len(v)]
        fall = np.cumsum(rate) * dv / mu
        a = expit(fall[np.searchsorted(v, rng.uniform(-5, 5))] + rng.uniform(-2, 8) - fall)
        loss = -mu * a * v + (mu * a) ** 2 / 2 - np.log1p(a * (1 - a) * rate)  # log density ratio, without to with the record
        found = (*divergences(log_phi, log_phi - loss), *divergences(log_phi - loss, log_phi))
        assert max(found) <= float(objective_rho(Fraction(mu) ** 2, Fraction(q), 1)) * (1 + 1e-5)


@pytest.mark.parametrize("mu", [0.0156, 0.3])
def test_a_ridge_far_beyond_reach_would_cost_more(mu):
    v = np.linspace(-13, 13, 20_001)
    q = 30 * mu
    a = expit(-q / mu * v)
    loss = -mu * a * v + (mu * a) ** 2 / 2 - np.log1p(a * (1 - a) * q)
    assert max(divergences(-(v**2) / 2, -(v**2) / 2 - loss)) > 1.2 * mu**2 / 2


def test_the_charge_is_an_exact_fraction_and_a_ridge_out_of_reach_is_refused():
    exact = Fraction(1, 200) * Fraction(141, 140) + 7 * Fraction(1, 2**40)
    assert 0 <= objective_rho(Fraction(1, 100), Fraction(15, 100), 7) - exact < Fraction(1, 10**29)
    for reach in (Fraction(151, 1000), Fraction(0), Fraction(-1)):
        with pytest.raises(ValueError, match="must keep sup"):
            objective_rho(Fraction(1, 100), reach, 7)


SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1},
        "o": {"kind": "ordinal", "levels": 4},
        "g": {"kind": "categorical", "levels": list("abcd")},
        "h": {"kind": "categorical", "levels": list("ab")},
        "y": {"kind": "boolean"},
    }
)


def question(**changes) -> Objective:
    blocks = Encoding.centred(SCHEMA).blocks
    width = sum(b.rows for b in blocks[:-1])
    rng = np.random.default_rng(1)
    made = dict(
        features=blocks[:-1],
        target=blocks[-1],
        anchor=np.zeros(width),
        ridge=rng.uniform(1, 90, width),
        sigmas=(3.0, 5.0, 7.0, 11.0, 13.0),
        sigma_steps=1e5,
        total=100.0,
    )
    return Objective(**(made | changes))


def test_reach_and_slope_are_the_largest_of_all_records():
    asked = question()
    z = [[b.A[:, k] for k in range(b.A.shape[1])] if b.numerators is not None else [np.array([v]) for v in (-1.0, 0.3, 1.0)]
         for b in asked.features]  # fmt: skip
    records = np.array([np.concatenate(parts) for parts in product(*z)])
    sigma = np.repeat(asked.sigmas, [b.rows for b in asked.features])
    assert float(asked.reach) == pytest.approx((records**2 / asked.ridge).sum(1).max(), rel=1e-8)
    assert asked.reach >= Fraction(float((records**2 / asked.ridge).sum(1).max()))
    assert float(asked.squared_mu) == pytest.approx((records**2 / sigma**2).sum(1).max(), rel=1e-12)


def test_steps_hide_twice_the_solvers_error_and_the_rounding():
    """In steps, two answers with the same exact minimiser lie within twice the error and one rounding each."""
    asked = question()
    error = asked.slack / asked.ridge  # at worst, in a coordinate that nothing else holds
    apart = 2 * np.sqrt(np.sum((error / asked.steps) ** 2)) + np.sqrt(len(asked.ridge))
    assert apart**2 <= asked.squared_steps
    assert apart**2 > 0.5 * asked.squared_steps


@pytest.mark.parametrize(
    "wrong",
    [
        {"ridge": np.zeros(9)},
        {"ridge": np.full(9, np.nan)},
        {"ridge": np.full(9, 1e16)},
        {"ridge": np.ones(8)},
        {"anchor": np.full(9, np.inf)},
        {"anchor": np.full(9, 1e6)},
        {"sigmas": (1.0, 1.0, -1.0, 1.0, 1.0)},
        {"sigmas": (1.0, 1.0, np.inf, 1.0, 1.0)},
        {"features": (*Encoding.centred(SCHEMA).blocks[:3], indicator("g", 4), Encoding.centred(SCHEMA).blocks[4])},
        {"target": Encoding.centred(SCHEMA).blocks[2]},
        {"target": Encoding.centred(SCHEMA).blocks[1]},
        {"total": 0.0},
        {"total": np.nan},
    ],
)
def test_questions_that_no_solver_could_answer_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        question(**wrong)
