"""How much noise each baseline draws, by formulas written down again or by brute force, and a scale that would be too small."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ddssp.experiments.adassp import AS_IN_CODE, adassp
from ddssp.experiments.dpsgd import CLIP, ORDERS, RATE, STEPS, delta_of_steps, dpsgd, noise_multiplier
from ddssp.experiments.noise import GRID, NoNoise, SeededNoise, perturbed, perturbed_symmetric
from ddssp.experiments.objpert import RIDGE_SHARE, minimiser, objpert, objpert_tight, tight_mu, two_sided_delta
from ddssp.experiments.ssp import ssp, ssp_tight
from ddssp.privacy.budget import rho_of
from ddssp.secret.noise import OpenDPNoise

EPSILON, DELTA, BOUND = 0.7, 1e-5, 2.0


class Recorder(NoNoise):
    """Draws nothing and remembers what it was asked: how many numbers, and σ on the scale of the statistics."""

    def __init__(self):
        self.asked = []

    def gaussian(self, values, sigma):
        self.asked.append((values.size, sigma / GRID))
        return values


def statistics(d=4, n=5000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    y = np.clip(X @ np.arange(1, d + 1) / 5 + rng.normal(0, 0.1, n), -1, 1)
    return X, y


def test_perturbed_has_the_stated_spread():
    """Standard error of an estimated σ is σ/√2n: five of them are a false alarm in two million; σ × 0.7 must fail."""
    n, sigma = 20_000, 3.0
    drawn = perturbed(np.full(n, 7.25), sigma, SeededNoise(0))
    allowed = 5 * sigma / math.sqrt(2 * n)
    assert abs(drawn.mean() - 7.25) < 5 * sigma / math.sqrt(n)
    assert abs(drawn.std() - sigma) < allowed
    assert abs(0.7 * drawn.std() - sigma) > allowed


def test_a_symmetric_matrix_gets_one_draw_per_pair():
    drawn = perturbed_symmetric(np.eye(60), 2.0, SeededNoise(1)) - np.eye(60)
    assert np.array_equal(drawn, drawn.T)
    assert np.std(drawn[np.triu_indices(60)]) == pytest.approx(2.0, rel=0.09)


def test_the_products_noise_fits_too():
    values = perturbed(np.zeros(200), 1.0, OpenDPNoise())
    assert values.std() == pytest.approx(1.0, rel=0.3)


def test_ssp():
    X, y = statistics()
    recorder = Recorder()
    theta = ssp(X.T @ X, X.T @ y, bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder)
    classical = math.sqrt(2 * math.log(1.25 / (DELTA / 2))) / (EPSILON / 2)
    assert recorder.asked == [(10, pytest.approx(classical * BOUND**2)), (4, pytest.approx(classical * BOUND))]
    assert np.allclose(theta, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-4)


def test_ssp_tight_covers_every_record():
    """Brute force over the corners and centres of the cube: none moves the joint statistic by more than Δ."""
    X, y = statistics()
    rho, recorder = float(rho_of(EPSILON, DELTA)), Recorder()
    ssp_tight(X.T @ X, X.T @ y, bound=BOUND, rho=rho, noise=recorder)
    (entries, sigma), (numbers, second) = recorder.asked
    assert (entries, numbers) == (10, 4)
    assert sigma == second
    moved = []
    for corner in np.stack(np.meshgrid(*[[-1, -0.5, 0, 0.5, 1]] * 4), -1).reshape(-1, 4):
        upper = np.outer(corner, corner)[np.triu_indices(4)]
        moved.append(np.sum(upper**2) + np.sum(corner**2))
    assert max(moved) / (2 * sigma**2) == pytest.approx(rho)


def test_adassp_as_printed():
    X, y = statistics()
    recorder = Recorder()
    adassp(X.T @ X, X.T @ y, bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder)
    s = math.sqrt(math.log(6 / DELTA)) / (EPSILON / 3)
    assert recorder.asked == [
        (1, pytest.approx(s * BOUND**2)),
        (10, pytest.approx(s * BOUND**2)),
        (4, pytest.approx(s * BOUND)),
    ]


def test_adassp_as_in_code_starves_the_target():
    X, y = statistics()
    recorder = Recorder()
    adassp(X.T @ X, X.T @ y, bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder, shares=AS_IN_CODE)
    assert recorder.asked[2][1] == pytest.approx(math.sqrt(math.log(60 / DELTA)) / (EPSILON / 30) * BOUND)
    assert AS_IN_CODE.smallest + AS_IN_CODE.XtX + AS_IN_CODE.Xty == pytest.approx(1)


def test_adassp_needs_no_ridge_where_the_smallest_eigenvalue_is_large():
    X, y = statistics(n=2_000_000 // 40)
    XtX, Xty = 1000 * X.T @ X, 1000 * X.T @ y
    theta = adassp(XtX, Xty, bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=NoNoise())
    assert np.allclose(theta, np.linalg.solve(XtX, Xty), atol=1e-6)


def test_objpert():
    X, y = statistics(n=500)
    recorder = Recorder()
    found = objpert(X, np.sign(y), bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder)
    assert recorder.asked == [(4, pytest.approx(BOUND * math.sqrt(8 * math.log(2 / DELTA) + 4 * EPSILON) / EPSILON))]
    assert np.allclose(found, minimiser(X, np.sign(y), ridge=BOUND**2 / (2 * EPSILON), b=np.zeros(4)))


@pytest.mark.parametrize("epsilon", [0.045, 0.5, 1.8, 6.0])
def test_tight_delta_is_the_expectation_it_stands_for(epsilon):
    mu = tight_mu(epsilon, DELTA)

    def integrand(u):
        return max(0.0, 1 - math.exp(epsilon - mu * abs(u) - mu**2 / 2)) * norm.pdf(u)

    edge = (epsilon - mu**2 / 2) / mu
    expected = 2 * quad(integrand, max(edge, 0), edge + 12, limit=200)[0]
    assert expected == pytest.approx(DELTA, rel=1e-4)
    assert two_sided_delta(epsilon, mu) <= DELTA
    assert two_sided_delta(epsilon, mu / 0.7) > 2 * DELTA


def test_objpert_tight():
    X, y = statistics(n=500)
    recorder = Recorder()
    objpert_tight(X, np.sign(y), bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder)
    ((numbers, sigma),) = recorder.asked
    assert numbers == 4
    assert sigma == pytest.approx(BOUND / tight_mu((1 - RIDGE_SHARE) * EPSILON, DELTA))
    classical = BOUND * math.sqrt(8 * math.log(2 / DELTA) + 4 * EPSILON) / EPSILON
    assert 2 < classical / sigma < 4


def test_minimiser_is_the_minimum():
    from scipy.optimize import minimize

    X, y = statistics(n=300)
    y, b = np.sign(y), np.array([3.0, -20.0, 5.0, 1.0])

    def loss(theta):
        return np.sum(np.logaddexp(0, -y * (X @ theta))) + 0.8 / 2 * theta @ theta + b @ theta

    expected = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    assert np.allclose(minimiser(X, y, ridge=0.8, b=b), expected, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.05, 2.0])
def test_dpsgd_accounting_against_googles(epsilon):
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.rdp import RdpAccountant

    sigma = noise_multiplier(epsilon, DELTA)
    event = dp_accounting.PoissonSampledDpEvent(RATE, dp_accounting.GaussianDpEvent(sigma))
    accountant = RdpAccountant(ORDERS.tolist()).compose(event, STEPS)
    assert accountant.get_delta(epsilon) == pytest.approx(DELTA, rel=1e-3)
    assert delta_of_steps(0.7 * sigma, epsilon) > 3 * DELTA


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_dpsgd_draws_a_batch_and_a_gradient_a_step(kind):
    X, y = statistics(n=400)
    recorder = Recorder()
    dpsgd(X, y if kind == "linear" else np.sign(y), kind=kind, bound=BOUND, epsilon=EPSILON, delta=DELTA, noise=recorder)
    assert recorder.asked[0::2] == [(400, 1.0)] * STEPS
    assert recorder.asked[1::2] == [(4, pytest.approx(noise_multiplier(EPSILON, DELTA) * CLIP))] * STEPS


def test_dpsgd_without_noise_to_speak_of_finds_the_direction():
    X, y = statistics(n=4000)
    theta = dpsgd(X, y, kind="linear", bound=BOUND, epsilon=1e4, delta=DELTA, noise=SeededNoise(0))
    assert np.allclose(theta, np.linalg.lstsq(X, y, rcond=None)[0], atol=0.05)
