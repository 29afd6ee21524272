"""(ε, δ) ↔ ρ: against dp-accounting, always on the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from hypothesis import given
from hypothesis import strategies as st

from ddssp.privacy.budget import (
    Budget,
    delta_of,
    epsilon_of,
    gaussian_rho,
    rho_of,
    selection_rho,
)

ORDERS = 1 + np.exp(np.linspace(-8, 14, 4000))
GRID = [(e, d) for e in (0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 8.0) for d in (1e-3, 1e-5, 1e-6, 1e-9)]


def theirs_epsilon(rho: float, delta: float) -> float:
    """dp-accounting's ε of ρ-zCDP, through its RDP accountant with a fine grid of orders."""
    accountant = rdp_privacy_accountant.RdpAccountant(orders=ORDERS)
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(("epsilon", "rho"), [(0.05, 0.000121), (0.1, 0.000433), (0.5, 0.00851), (1.0, 0.0306), (2.0, 0.1083)])
def test_the_documented_table_at_delta_1e_5(epsilon, rho):
    assert float(rho_of(epsilon, 1e-5)) == pytest.approx(rho, rel=2e-3)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_conversion_agrees_with_dp_accounting(epsilon, delta):
    rho = float(rho_of(epsilon, delta))
    assert theirs_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-4, abs=1e-6)
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_conversion_is_on_the_safe_side_of_dp_accountings_exact_gaussian(epsilon, delta):
    """zCDP is looser than the Gaussian's true curve: what we grant must pass the exact (PLD) accountant with room."""
    rho = float(rho_of(epsilon, delta))
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(2 * rho)))
    assert accountant.get_epsilon(delta) <= epsilon


def best_log_delta(rho: float, epsilon: float) -> float:
    """log of Canonne–Kamath–Steinke's δ (Prop. 12), least over a fine grid of orders."""
    a = ORDERS
    return float(np.min((a - 1) * (a * rho - epsilon) + a * np.log1p(-1 / a) - np.log(a - 1)))


@given(rho=st.floats(1e-6, 5), epsilon=st.floats(1e-3, 20))
def test_delta_is_that_of_the_best_order(rho, epsilon):
    best, got = best_log_delta(rho, epsilon), delta_of(rho, epsilon)
    if best >= 0:
        assert got == 1
    elif best > -600:
        assert math.log(got) == pytest.approx(best, abs=2e-3 * (1 + abs(best)))


@given(epsilon=st.floats(1e-3, 20), delta=st.floats(1e-12, 0.1))
def test_what_is_granted_is_certified_and_there_is_hardly_more_to_grant(epsilon, delta):
    rho = float(rho_of(epsilon, delta))
    assert delta_of(rho, epsilon) <= delta
    assert delta_of(rho * (1 + 1e-6), epsilon) > delta or rho > epsilon
    assert delta_of(rho, epsilon_of(rho, delta)) <= delta * (1 + 1e-6)


@given(st.floats(0.01, 5), st.floats(0.01, 5), st.floats(1e-9, 1e-2))
def test_more_epsilon_buys_more_rho(a, b, delta):
    low, high = sorted((a, b))
    assert rho_of(low, delta) <= rho_of(high, delta)


def test_nothing_spent_is_nothing_lost():
    assert delta_of(0.0, 1.0) == 0
    assert epsilon_of(Fraction(0), 1e-6) == 0


@given(st.integers(1, 10**9), st.floats(1e-3, 1e9))
def test_a_gaussian_charge_is_rounded_up_by_less_than_it_matters(sensitivity, sigma):
    exact = Fraction(sensitivity) / (2 * Fraction(sigma) ** 2)
    assert 0 <= gaussian_rho(sensitivity, sigma) - exact < Fraction(1, 10**29)


@given(st.floats(1e-6, 10))
def test_a_selection_charge_is_rounded_up(epsilon):
    assert 0 <= selection_rho(epsilon) - Fraction(epsilon) ** 2 / 8 < Fraction(1, 10**29)


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 3.0])
def test_a_selection_costs_no_less_than_any_two_outcomes_show(epsilon):
    """Exponential mechanism: log-ratios lie within an interval of length ε. Brute force over all two-outcome pairs."""
    p = np.linspace(1e-4, 1 - 1e-4, 2001)
    q = p * np.exp(-epsilon) / (p * np.exp(-epsilon) + 1 - p)
    worst = 0.0
    for alpha in (1.001, 1.5, 2, 5, 50):
        renyi = np.log(p**alpha * q ** (1 - alpha) + (1 - p) ** alpha * (1 - q) ** (1 - alpha)) / (alpha - 1)
        assert renyi.max() <= alpha * float(selection_rho(epsilon)) * (1 + 1e-6)
        worst = max(worst, renyi.max() / alpha)
    assert worst > 0.9 * float(selection_rho(epsilon)) or epsilon > 1  # and the charge is not idle


@pytest.mark.parametrize("sigma", [0, -1, math.nan, math.inf])
def test_no_charge_for_what_is_no_scale(sigma):
    with pytest.raises(ValueError, match="must be positive and finite"):
        gaussian_rho(1, sigma)
    with pytest.raises(ValueError, match="must be positive and finite"):
        selection_rho(sigma)


REFUSED = {
    "epsilon 0": (0, 1e-6, "epsilon must be positive and finite, got 0"),
    "epsilon below 0": (-1, 1e-6, "epsilon must be positive and finite, got -1"),
    "epsilon not a number": (math.nan, 1e-6, "epsilon must be positive and finite"),
    "epsilon infinite": (math.inf, 1e-6, "epsilon must be positive and finite"),
    "epsilon senseless": (101, 1e-6, "epsilon must be at most 100"),
    "epsilon text": ("1", 1e-6, "epsilon must be a number, got '1'"),
    "delta 0": (1, 0, "delta must lie strictly between 0 and 1, got 0; 1e-6 is a usual choice"),
    "delta 1": (1, 1, "delta must lie strictly between 0 and 1, got 1"),
    "delta below 0": (1, -0.1, "delta must lie strictly between 0 and 1"),
    "delta not a number": (1, math.nan, "delta must lie strictly between 0 and 1"),
    "delta none": (1, None, "delta must be a number, got None"),
    "buys nothing": (1e-20, 1e-300, "epsilon must buy something at delta = 1e-300"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_budgets(case):
    epsilon, delta, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as caught:
        Budget(epsilon=epsilon, delta=delta)
    assert str(caught.value).endswith(".")


def test_any_real_number_will_do():
    assert Budget(epsilon=np.float32(1), delta=np.float64(1e-6)) == Budget(epsilon=1, delta=1e-6)
    assert isinstance(Budget(epsilon=np.int64(1), delta=1e-6).epsilon, float)
