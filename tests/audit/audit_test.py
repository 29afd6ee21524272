"""Audits, short: the product's noise keeps its promise, and 0.7 of it is caught.

Each audit draws from the system's randomness and states its alarm rate; the numbers of runs are such that a twin is missed
less than once in ten thousand times. `make audit` runs the long ones.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from ddssp.audit.bound import (
    clopper_pearson,
    finding,
    gaussian_claim,
    lower_bound,
    mixed_claim,
    selection_claim,
    threshold,
)
from ddssp.audit.worlds import AUDITS, TABLES, Weakened, claim
from ddssp.curate import curate, plan, product_noise

EPSILON, DELTA = 8.0, 1e-5  # μ = 1.5: few runs tell much
ALARM = 1e-6
RUNS = {"gaussian": 4000, "selection": 2000, "moments": 900}


def run(name: str, noise: object, runs: int, alarm: float = ALARM):
    sample = AUDITS[name](noise, EPSILON, DELTA)
    pilot = runs // 10
    return finding(
        name, sample(0, runs + pilot), sample(1, runs + pilot), claim(name, EPSILON, DELTA), pilot=pilot, alarm=alarm
    )


@pytest.mark.parametrize("name", ["gaussian", "selection"])
def test_primitives_keep_their_promise_and_the_twin_is_caught(name):
    own, weak = run(name, product_noise(), RUNS[name]), run(name, Weakened(), RUNS[name])
    assert 0.7 * own.claim < own.bound <= own.claim
    assert weak.caught


def test_moments_releases_keep_their_promise_and_the_twin_is_caught():
    own, weak = run("moments", product_noise(), RUNS["moments"], 1e-3), run("moments", Weakened(), RUNS["moments"], 1e-3)
    assert 0.5 * own.claim < own.bound <= own.claim
    assert weak.caught


def squares(noise, releases: int = 30) -> tuple[float, int]:
    """Σ((y − exact)/σ)² over all that AIM releases of four known records hold, and how many numbers that are."""
    rows = {"a": [0, 0, 1, 1], "b": [0, 1, 0, 0]}
    exact = {("a",): np.array([2, 2]), ("b",): np.array([3, 1]), ("a", "b"): np.array([[1, 1], [2, 0]])}
    made = plan(TABLES, epsilon=0.2, delta=DELTA, mechanism="aim", inference="tree")
    held = [m for _ in range(releases) for m in curate(rows, made, noise=noise).measurements]
    return sum(float(np.sum(((m.values - exact[m.clique]) / m.sigma) ** 2)) for m in held), sum(m.values.size for m in held)


def test_the_noise_in_aim_releases_has_the_scale_that_was_charged():
    total, numbers = squares(product_noise())
    assert 2 * stats.chi2(numbers).sf(total) > ALARM
    assert stats.chi2(numbers).cdf(total) > ALARM
    weak, numbers = squares(Weakened())
    assert stats.chi2(numbers).cdf(weak) < ALARM


# ------------------------------------------------------------------------------------------------- the bound itself


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (10, 10), (500, 1000)])
def test_clopper_pearson_is_scipys(successes, trials):
    theirs = stats.binomtest(successes, trials).proportion_ci(1 - 2 * 0.01, method="exact").high
    assert clopper_pearson(successes, trials, 0.01) == pytest.approx(theirs, rel=1e-9)


def test_the_bound_is_above_the_truth_no_more_often_than_the_alarm_rate_says():
    """2,000 audits of true Gaussians at an alarm rate of 0.1: more than 260 alarms have probability 1e-5 under it."""
    rng, mu, alarms = np.random.default_rng(1), 0.5, 0
    for _ in range(2000):
        zeros, ones = rng.normal(0, 1, 300), rng.normal(mu, 1, 300)
        alarms += lower_bound(zeros, ones, mu / 2, 0.1) > mu
    assert alarms <= 260


def test_the_bound_approaches_the_truth():
    rng, mu = np.random.default_rng(2), 0.7
    bound = lower_bound(rng.normal(0, 1, 10**6), rng.normal(mu, 1, 10**6), mu / 2, 1e-3)
    assert 0.98 * mu < bound < mu


def test_a_test_that_tells_nothing_bounds_nothing():
    same = np.random.default_rng(3).normal(0, 1, 1000)
    assert lower_bound(same, same, 0.0, 0.01) == 0.0
    assert lower_bound(same, same, 100.0, 0.01) == 0.0


def test_the_threshold_is_fixed_on_the_pilot_runs_alone():
    rng = np.random.default_rng(4)
    zeros, ones = rng.normal(0, 1, 2000), rng.normal(1, 1, 2000)
    found = finding("x", zeros, ones, 1.0, pilot=500, alarm=0.01)
    assert found.threshold == threshold(zeros[:500], ones[:500])
    assert found.bound == lower_bound(zeros[500:], ones[500:], found.threshold, 0.01)
    assert found.runs == 1500


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_no_choice_between_two_is_easier_to_tell_than_the_claim(epsilon):
    """Log-odds that move by ε from anywhere: the distance of the two probits is largest in the middle."""
    starts = np.linspace(-8, 8, 401)
    apart = stats.norm.ppf(1 / (1 + np.exp(-starts - epsilon))) - stats.norm.ppf(1 / (1 + np.exp(-starts)))
    assert apart.max() <= selection_claim(epsilon) + 1e-9
    assert apart.max() > 0.99 * selection_claim(epsilon)
    assert selection_claim(epsilon) ** 2 <= math.pi * epsilon**2 / 8


def test_claims():
    assert gaussian_claim(0.5) == 1.0
    assert mixed_claim(0.5, 0.0) == 1.0
    assert mixed_claim(0.5, 0.1) == pytest.approx(math.sqrt(0.9 + 0.1 * math.pi / 2))
    assert ndtr(selection_claim(1.0) / 2) == pytest.approx(1 / (1 + math.exp(-0.5)))
