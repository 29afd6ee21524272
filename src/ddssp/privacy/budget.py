"""What a guarantee costs: (ε, δ) ↔ ρ (zero-concentrated DP), always rounded to the safe side.

One currency: every charge, ceiling and ledger row is ρ, an exact rational. A request (ε, δ) becomes ρ at its own δ.
Neighbours differ by adding or removing one record, so the number of records is itself a secret.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from numbers import Real

GRID = 10**30
"""ρ is kept on the grid 1/GRID, rounded down when it is granted and up when it is charged; so fine that the roundings of a
thousand charges do not show in a small budget."""


class BudgetError(Exception):
    """A charge that the budget does not cover; nothing was drawn for it."""


class Neighbours(Enum):
    """The relation between two datasets that a guarantee speaks about."""

    ADD_REMOVE = "add or remove one record"
    ADD_REMOVE_UNIT = "add or remove all records of one unit"


def delta_of(rho: float, epsilon: float) -> float:
    r"""The δ for which ρ-zCDP implies (ε, δ)-DP, an upper bound.

    δ = min over α > 1 of exp((α−1)(αρ−ε)) / (α−1) · (1 − 1/α)^α   (Canonne, Kamath, Steinke 2020, Prop. 12)

    Guarantees: valid for whatever α the search ends on, so an inexact search is only pessimistic; 1 if nothing better.
    """
    if rho <= 0:
        return 0.0

    # The log of the bound is quasi-convex in log(α − 1): golden-section search.
    def log_bound(t: float) -> float:
        return _log_delta(rho, epsilon, 1.0 + math.exp(t))

    low, high = -12.0, 20.0
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(80):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if log_bound(a) < log_bound(b) else (a, high)
    return min(1.0, math.exp(min(0.0, log_bound((low + high) / 2) + 1e-9)))


def _log_delta(rho: float, epsilon: float, alpha: float) -> float:
    return (alpha - 1) * (alpha * rho - epsilon) + alpha * math.log1p(-1 / alpha) - math.log(alpha - 1)


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> Fraction:
    """The largest ρ on the grid that is certified to imply (ε, δ)-DP.

    >>> float(rho_of(1.0, 1e-5))
    0.030...
    """
    low, high = 0.0, epsilon + 1.0 + epsilon**2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, epsilon) <= delta else (low, middle)
    return Fraction(math.floor(Fraction(low) * GRID), GRID)


def epsilon_of(rho: Fraction | float, delta: float) -> float:
    """The smallest ε (rounded up by 1e-9) for which ρ-zCDP implies (ε, δ)-DP."""
    if rho <= 0:
        return 0.0
    low, high = 0.0, float(rho) + 2 * math.sqrt(float(rho) * math.log(1 / delta)) + 1e-9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(float(rho), middle) <= delta else (middle, high)
    return high * (1 + 1e-9)


def gaussian_rho(squared_sensitivity: Fraction | int, sigma: float) -> Fraction:
    """ρ = Δ²/2σ² of Gaussian (also discrete Gaussian) noise, rounded up to the grid."""
    if not (sigma > 0 and math.isfinite(sigma)):
        raise ValueError(f"sigma must be positive and finite, got {sigma}.")
    exact = Fraction(squared_sensitivity) / (2 * Fraction(sigma) ** 2)
    return Fraction(math.ceil(exact * GRID), GRID)


REACH = Fraction(3, 2)
"""The largest sup z'Λ⁻¹z of a perturbed objective, in units of μ = sup √(z'Σ⁻¹z)."""


def objective_rho(squared_mu: Fraction, reach: Fraction, width: int) -> Fraction:
    """ρ of the minimiser of a perturbed logistic objective with `width` coefficients, rounded up (docs/objective.md).

    Hardly more than the μ²/2 of one Gaussian draw: the ridge is free up to REACH, but for 1/140; 2⁻⁴⁰ for each coefficient is
    for drawing b on a lattice.
    """
    if not 0 < reach**2 <= REACH**2 * squared_mu:
        raise ValueError(
            f"the ridge of a perturbed objective must keep sup z'Λ⁻¹z above 0 and below {float(REACH):g} μ, "
            f"got {float(reach):.6g} with μ² = {float(squared_mu):.6g}."
        )
    exact = squared_mu / 2 * Fraction(141, 140) + width * Fraction(1, 2**40)
    return Fraction(math.ceil(exact * GRID), GRID)


def selection_rho(epsilon: float) -> Fraction:
    """ρ = ε²/8 of one exponential-mechanism choice, rounded up to the grid."""
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise ValueError(f"epsilon of a selection must be positive and finite, got {epsilon}.")
    return Fraction(math.ceil(Fraction(epsilon) ** 2 / 8 * GRID), GRID)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A request (ε, δ) and the ρ it buys.

    >>> Budget(epsilon=1.0, delta=1e-5).rho < 1
    True
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = getattr(self, name)
            if not isinstance(value, Real):
                raise ValueError(f"{name} must be a number, got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not (self.epsilon > 0 and math.isfinite(self.epsilon)):
            raise ValueError(f"epsilon must be positive and finite, got {self.epsilon:g}.")
        if self.epsilon > 100:
            raise ValueError(f"epsilon must be at most 100, got {self.epsilon:g}: beyond that nothing is private.")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {self.delta:g}; 1e-6 is a usual choice.")
        if not self.rho:
            raise ValueError(f"epsilon must buy something at delta = {self.delta:g}, got {self.epsilon:g}; ask for more.")

    @property
    def rho(self) -> Fraction:
        return rho_of(self.epsilon, self.delta)
