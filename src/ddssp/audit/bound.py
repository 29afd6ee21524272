r"""From errors of a test to a lower bound on what was lost.

If a release is μ-GDP, no test between two neighbours has errors below the curve of N(0, 1) against N(μ, 1):

    Φ⁻¹(1 − α) − Φ⁻¹(β) ≤ μ,    α the rate of false alarms, β of misses

With Clopper–Pearson upper ends of α and β, each at half the alarm rate, the left side is a lower bound on μ that is wrong no
more often than the alarm rate says. Gaussian noise of ρ is √(2ρ)-GDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What an audit found: `bound` ≤ the true μ, except for a share `alarm` of audits."""

    name: str
    claim: float
    bound: float
    runs: int
    threshold: float
    alarm: float

    @property
    def caught(self) -> bool:
        """Whether more was lost than claimed."""
        return self.bound > self.claim

    @property
    def share(self) -> float:
        return self.bound / self.claim


def clopper_pearson(successes: int, trials: int, alarm: float) -> float:
    """The upper end of a rate: it lies above with probability at most `alarm`.

    >>> round(clopper_pearson(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 if successes >= trials else float(betaincinv(successes + 1, trials - successes, 1 - alarm))


def lower_bound(zeros: NDArray[np.float64], ones: NDArray[np.float64], threshold: float, alarm: float) -> float:
    """Lower bound on μ by the test "world 1 above the threshold"; never below 0."""
    a = clopper_pearson(int(np.sum(zeros > threshold)), len(zeros), alarm / 2)
    b = clopper_pearson(int(np.sum(ones <= threshold)), len(ones), alarm / 2)
    return 0.0 if a + b >= 1 else float(ndtri(1 - a) - ndtri(b))


def threshold(zeros: NDArray[np.float64], ones: NDArray[np.float64]) -> float:
    """Halfway between the worlds' medians: there both errors are near a half, where Clopper and Pearson lose least.

    The best of several on these runs would be the luckiest one; the bound itself must come from other runs.
    """
    return float(np.median(zeros) + np.median(ones)) / 2


def finding(
    name: str, zeros: NDArray[np.float64], ones: NDArray[np.float64], claim: float, *, pilot: int, alarm: float
) -> Finding:
    """The finding of runs of either world: the first `pilot` of them fix the threshold, the others give the bound."""
    fixed = threshold(zeros[:pilot], ones[:pilot])
    bound = lower_bound(zeros[pilot:], ones[pilot:], fixed, alarm)
    return Finding(name=name, claim=claim, bound=bound, runs=len(zeros) - pilot, threshold=fixed, alarm=alarm)


def gaussian_claim(rho: float) -> float:
    """μ = √(2ρ) of Gaussian noise."""
    return math.sqrt(2 * rho)


def selection_claim(epsilon: float) -> float:
    """μ of one exponential-mechanism choice, 2 Φ⁻¹(1 / (1 + e^(−ε/2))).

    Its log-odds move by at most ε in all; Φ⁻¹ of the logistic function is steepest in the middle, so nothing is worse than a
    choice between two that moves from −ε/2 to ε/2.
    """
    return 2 * float(ndtri(1 / (1 + math.exp(-epsilon / 2))))


def mixed_claim(rho: float, selected: float) -> float:
    """μ of a mechanism that spends a share `selected` of ρ on selections: μ² = 2ρ (1 − s + s π/2).

    A selection of ρ_s = ε²/8 has μ² ≤ π ρ_s (selection_claim is largest, relative to ε, at small ε); squares add up.
    """
    return math.sqrt(2 * rho * (1 - selected + selected * math.pi / 2))
