"""The belief: against dense Gaussian formulae, a numerical optimiser, and truths it has to find."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.inference import belief as module
from ddssp.inference.belief import Belief, Evidence, Loss, believed
from ddssp.inference.chance import mean_curvature
from ddssp.inference.correlation import UNMEASURED
from ddssp.inference.correlation import correlation as blocks_correlation
from ddssp.inference.geometry import Geometry
from ddssp.inference.prior import SHARES, variances


def correlation(d: int, seed: int) -> np.ndarray:
    """A correlation matrix with moderate entries."""
    A = np.random.default_rng(seed).normal(size=(d, 2 * d))
    C = A @ A.T
    return C / np.sqrt(np.outer(np.diag(C), np.diag(C)))


def scalars(d: int, n: float = 1000.0, variance: float = 0.3, doubt: float = 1e-6) -> Geometry:
    """d scalar blocks with mean 0."""
    return Geometry(
        total=n,
        sizes=np.ones(d, np.intp),
        hot=np.zeros(d, bool),
        offset=np.zeros(d),
        share=np.zeros(d),
        variance=np.full(d, variance),
        doubt=np.full(d, doubt),
    )


def hessian(g: Geometry, C: np.ndarray) -> np.ndarray:
    root = np.sqrt(g.total * g.variance)
    return C * np.outer(root, root)


def measured(g: Geometry, C: np.ndarray, sigma2: float = 1e-8) -> dict:
    H = hessian(g, C)
    d = len(g.sizes)
    return {(j, k): (H[j : j + 1, k : k + 1], sigma2) for j in range(d) for k in range(j + 1, d)}


def start(g: Geometry, prior: float | np.ndarray = 1.0) -> Belief:
    prior = np.broadcast_to(np.asarray(prior, float), (len(g.sizes),)).copy()
    none = np.zeros(len(g.sizes))
    return Belief(theta=np.zeros(len(g.offset)), variance=prior[g.block], prior=prior, unseen=none, spreads=np.zeros(1))


def problem(seed: int, d: int = 5, J: int = 2):
    rng = np.random.default_rng(seed)
    block = np.sort(np.r_[np.arange(J), rng.integers(0, J, d - J)])
    return rng.normal(0, 3, d), rng.uniform(0.2, 2, d), correlation(d, seed), rng.uniform(0.3, 1, d), block


def dense(b, S, C, T) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of φ under b ~ N(Cφ, S), φ ~ N(0, T): precisions add."""
    P = np.linalg.inv(np.diag(1 / T) + C.T @ np.diag(1 / S) @ C)
    return P @ C.T @ (b / S), np.diag(P)


@pytest.mark.parametrize("seed", range(5))
def test_posterior_is_the_dense_gaussian_formula(seed):
    b, S, C, w, block = problem(seed)
    share, *_ = module._posterior(b, S, C, block, np.array([1.0, 0.5]), w**-2.0)
    again = module._posterior(b, S, C, block, share, w**-2.0)[0]
    assert np.abs(np.log(again / share)).max() < 1  # close to where it stands still
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "STEPS", 0)
        share, phi, covariance = module._posterior(b, S, C, block, share, w**-2.0)
    mean, variance = dense(b, S, C, share[block] / w**2)
    assert np.allclose(phi, mean, rtol=1e-8, atol=1e-10)
    assert np.allclose(np.diag(covariance), variance, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_what_a_coordinate_says_without_its_own_prior(seed):
    """s and q, as handed to the prior, against a posterior in which that coordinate's prior is flat."""
    b, S, C, w, block = problem(seed)
    share, seen = np.array([1.0, 0.5]), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "variances", lambda s, q, *rest: (seen.append((s, q)), variances(s, q, *rest))[1])
        module._posterior(b, S, C, block, share, w**-2.0)
    s, q = seen[0]
    for i in range(len(b)):
        T = share[block] / w**2
        T[i] = 1e12
        mean, variance = dense(b, S, C, T)
        assert variance[i] == pytest.approx(1 / s[i], rel=1e-6)
        assert mean[i] == pytest.approx(q[i] / s[i], rel=1e-6)


def drawn(truth: list[float], seed: int, size: int = 4, s: float = 1e4) -> tuple[np.ndarray, ...]:
    """Blocks of `size` coordinates that explain the shares `truth`, each seen with precision s."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(0, np.sqrt(np.repeat(truth, size)))
    q = s * theta + rng.normal(0, np.sqrt(s), len(theta))
    return np.full(len(theta), s), q, np.ones(len(theta)), np.arange(0, len(theta), size)


def flat() -> np.ndarray:
    return np.full(len(SHARES), 1 / len(SHARES))


def test_prior_variances_follow_the_blocks_own_evidence_where_it_is_strong():
    truth = [0.3, 0.03, 1e-5, 1e-5]
    found, _ = variances(*drawn(truth, 0, size=200, s=1e6), flat())
    assert np.abs(np.log(found / truth)).max() < np.log(2)


def test_weak_blocks_are_believed_to_be_like_the_others():
    """Nine blocks that clearly matter lend their size to a tenth too weak to speak; nine that do not, take it away."""
    s, q, unit, starts = drawn([0.1] * 9 + [0.1], 1, s=1e4)
    s[-4:], q[-4:] = 1.0, 0.0
    like_the_others, _ = variances(s, q, unit, starts, flat())
    s2, q2, *_ = drawn([1e-6] * 9 + [0.1], 1, s=1e4)
    s2[-4:], q2[-4:] = 1.0, 0.0
    alone, _ = variances(s2, q2, unit, starts, flat())
    assert like_the_others[-1] > 0.02
    assert alone[-1] < like_the_others[-1] / 3


def test_the_common_distribution_is_a_distribution_and_has_two_peaks_where_few_blocks_matter():
    _, common = variances(*drawn([0.2] * 4 + [1e-6] * 12, 2, size=20), flat())
    assert common.sum() == pytest.approx(1)
    middle = (SHARES > 2e-3) & (SHARES < 2e-2)
    assert common[SHARES > 2e-2].sum() > 0.15
    assert common[SHARES < 2e-3].sum() > 0.5
    assert common[middle].mean() < common[SHARES < 2e-3].mean()


@pytest.fixture
def no_bend(monkeypatch):
    """Gradients that are what they would be if the loss were quadratic and nothing clipped."""
    monkeypatch.setattr(module, "BEND", 0.0)


def test_a_known_curvature_and_quiet_gradients_give_newtons_step(no_bend):
    g, C = scalars(4), correlation(4, 1)
    truth, at = np.array([0.3, -0.2, 0.1, 0.5]), np.array([0.1, 0.1, -0.1, 0.0])
    H = hessian(g, C)
    e = Evidence(gradient=H @ (truth - at), noise=np.full(4, 1e-6), at=at, centre=0.0)
    found = believed(g, measured(g, C), (e,), start(g), scale=1.0)
    assert np.allclose(found.theta, truth, atol=1e-4)
    assert (found.variance < 1e-6).all()


def test_one_loud_gradient_gives_the_posterior_mean(no_bend):
    """Everything known but θ: believed is the dense formula with the prior it ends on."""
    g, C = scalars(3), correlation(3, 2)
    truth = np.array([0.2, -0.1, 0.3])
    H, noise = hessian(g, C), np.array([400.0, 900.0, 100.0])
    gradient = H @ truth + np.random.default_rng(0).normal(0, np.sqrt(noise))
    e = Evidence(gradient=gradient, noise=noise, at=np.zeros(3), centre=0.0)
    found = believed(g, measured(g, C), (e,), start(g), scale=1.0)
    P = np.linalg.inv(np.diag(1 / found.prior) + H @ np.diag(1 / noise) @ H)
    assert np.allclose(found.theta, P @ H @ (gradient / noise), rtol=1e-3)
    assert np.allclose(found.variance, np.diag(P), rtol=1e-2)


def test_many_gradients_say_as_much_as_one_with_all_the_budget(no_bend):
    """Sixteen gradients with sixteen times the variance, at different points, end like one."""
    g, C = scalars(3), correlation(3, 3)
    H, truth, rng = hessian(g, C), np.array([0.4, -0.3, 0.1]), np.random.default_rng(1)
    places = rng.normal(0, 0.2, (16, 3))
    errors = rng.normal(0, 1, (16, 3))
    noise = np.full(3, 100.0)
    many = tuple(
        Evidence(gradient=H @ (truth - p) + np.sqrt(16 * noise) * e, noise=16 * noise, at=p, centre=0.0)
        for p, e in zip(places, errors, strict=True)
    )
    one = (Evidence(gradient=H @ truth + np.sqrt(16 * noise) * errors.mean(0), noise=noise, at=np.zeros(3), centre=0.0),)
    cross, old = measured(g, C, 1e-12), start(g)
    a, b = (believed(g, cross, e, old, scale=1.0) for e in (many, one))
    assert np.allclose(a.theta, b.theta, atol=2e-3)
    assert np.allclose(a.variance, b.variance, rtol=0.05)


def test_what_is_not_known_of_the_curvature_makes_far_gradients_count_less():
    w, C = np.ones(2), np.eye(2)
    near = Evidence(gradient=np.array([1.0, 1.0]), noise=np.ones(2), at=np.zeros(2), centre=0.0)
    far = Evidence(gradient=np.array([-5.0, -5.0]), noise=np.ones(2), at=np.full(2, 10.0), centre=0.0)
    places = np.array([near.at, far.at])
    sure, S = module._observation((near, far), places, w, C, np.zeros((2, 2)), np.zeros(2), np.zeros(2))
    weight = 1 / (1 + (module.BEND * 10) ** 2)
    assert np.allclose(sure, (1.0 + 5.0 * weight) / (1 + weight))  # b_t = w g_t + C φ_t, averaged
    assert np.allclose(S, 1 / (1 + weight))
    V = np.array([[0.0, 0.04], [0.04, 0.0]])
    unsure, wider = module._observation((near, far), places, w, C, V, np.zeros(2), np.zeros(2))
    weight = 1 / (1 / weight + module.CAUTION * 0.04 * 100)
    assert np.allclose(unsure, (1.0 + 5.0 * weight) / (1 + weight))
    assert (wider > S).all()


def test_a_way_along_which_the_gradient_does_not_change_leaves_no_doubt_about_it():
    """A gradient may be wrong by a share of C (φ − φ_t), not of φ − φ_t."""
    w, C, none = np.ones(2), np.array([[1.0, 0.5], [0.5, 1.0]]), np.zeros(2)
    heard = Evidence(gradient=none, noise=np.ones(2), at=none, centre=0.0)
    doubt = [
        module._observation((heard,), np.array([way]), w, C, 0 * C, none, none)[1] for way in ([10.0, -10.0], [10.0, 10.0])
    ]
    assert np.allclose(doubt[0], 1 + (module.BEND * 5) ** 2)
    assert np.allclose(doubt[1], 1 + (module.BEND * 15) ** 2)


def test_a_gradient_that_falls_short_does_not_hold_back_those_that_come_after():
    """Clips that let a third of the way through: each round goes on from the last, and first ones do not hold it back."""
    g, C = scalars(2), correlation(2, 1)
    H, truth, noise = hessian(g, C), np.array([0.4, -0.3]), np.ones(2)
    now, evidence = start(g), ()
    for _ in range(30):
        e = Evidence(gradient=H @ (truth - now.theta) / 3, noise=noise, at=now.theta, centre=0.0)
        evidence = (*evidence, e)
        now = believed(g, measured(g, C), evidence, now, scale=1.0)
    assert np.abs(now.theta - truth).max() < 0.03


def levels(share: list[float]) -> Geometry:
    """A number and a column of levels."""
    p = np.array(share)
    return Geometry(
        total=1000.0,
        sizes=np.array([1, len(p)]),
        hot=np.array([False, True]),
        offset=np.r_[0.0, p - 1 / len(p)],
        share=np.r_[0.0, p],
        variance=np.r_[0.3, p * (1 - p)],
        doubt=np.full(1 + len(p), 1e-6),
    )


def test_the_doubt_about_a_level_is_that_of_its_difference_from_the_columns_mean():
    g, rng = levels([0.7, 0.2, 0.1]), np.random.default_rng(0)
    w = 1 / np.sqrt(g.total * g.variance)
    root = rng.normal(size=(4, 4))
    theta = rng.normal(size=(400_000, 4)) @ root.T
    differences = np.c_[theta[:, 0], theta[:, 1:] - (theta[:, 1:] @ g.share[1:])[:, None]]
    found = module._doubt(root @ root.T / np.outer(w, w), g, w)
    assert np.allclose(found * w**2, differences.var(axis=0), rtol=0.02)
    constant = np.r_[0.0, np.ones(3)] * 50
    assert np.allclose(module._doubt((root @ root.T + np.outer(constant, constant)) / np.outer(w, w), g, w), found, rtol=1e-6)


def learned(C: np.ndarray, places: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """C and V before and after gradients at `places`."""
    d = len(C)
    g = scalars(d)
    H, truth = hessian(g, C), np.linspace(-0.3, 0.3, d)
    evidence = [Evidence(gradient=H @ (truth - p), noise=np.full(d, noise), at=p, centre=0.0) for p in places]
    w = 1 / np.sqrt(g.total * g.variance)
    first, V = blocks_correlation(g, {})
    return first, V, *module._learned(first, V, evidence, places / w, w)


def test_curvature_is_learned_from_the_way_the_gradients_took(no_bend):
    """Noiseless gradients along every axis tell C entirely, from nothing but an identity that is off by 0.2."""
    d = 5
    C, off = correlation(d, 4), ~np.eye(d, dtype=bool)
    along = np.cumsum(np.r_[np.zeros((1, d)), 0.2 * np.eye(d)], axis=0)
    first, V, found, left = learned(C, along, 1e-9)
    assert np.array_equal(first, np.eye(d))
    assert np.allclose(V[off], UNMEASURED**2)
    assert np.abs(first - C).max() > 0.2
    assert np.abs(found - C).max() < 1e-6
    assert (left[off] < 1e-6 * UNMEASURED**2).all()


def test_any_way_teaches_something_and_loud_gradients_teach_nothing(monkeypatch):
    d = 5
    C, places = correlation(d, 4), np.random.default_rng(2).normal(0, 0.3, (d + 4, d))
    first, V, doubted, left = learned(C, places, 1e-9)
    assert (left <= V).all()
    monkeypatch.setattr(module, "BEND", 0.0)
    _, _, found, _ = learned(C, places, 1e-9)
    assert np.linalg.norm(found - C) < 0.5 * np.linalg.norm(first - C)
    assert np.linalg.norm(found - C) < np.linalg.norm(doubted - C) < np.linalg.norm(first - C)
    _, _, unmoved, _ = learned(C, places, 1e9)
    assert np.abs(unmoved - first).max() < 1e-3


def test_a_block_left_out_returns_when_a_gradient_speaks_for_it(no_bend):
    g = scalars(3)
    H, noise = hessian(g, np.eye(3)), np.full(3, 25.0)
    now = start(g, np.array([1.0, 1e-6, 1e-6]))
    e = Evidence(gradient=H @ np.array([0.3, 0.4, 0.0]), noise=noise, at=np.zeros(3), centre=0.0)
    now = believed(g, measured(g, np.eye(3), 1e-12), (e,), now, scale=1.0)
    assert now.theta[1] == pytest.approx(0.4, abs=0.03)
    assert abs(now.theta[2]) < 0.01


def test_a_block_that_explains_nothing_loses_its_prior():
    g = scalars(2)
    H = hessian(g, np.eye(2))
    evidence = tuple(
        Evidence(gradient=H @ np.array([0.3, 0.0]), noise=np.full(2, 100.0), at=np.zeros(2), centre=0.0) for _ in range(4)
    )
    now = start(g)
    for _ in range(12):
        now = believed(g, measured(g, np.eye(2), 1e-12), evidence, now, scale=1.0)
    assert now.theta[0] == pytest.approx(0.3, abs=0.02)
    assert now.prior[1] < 0.05 * now.prior[0]
    assert abs(now.theta[1]) < 1e-9


def test_normal_scores_need_no_bend():
    """Gradients of a logistic loss with normal features, far from θ: the stretched points give θ, plain ones do not."""
    g, C = scalars(2, n=1e6), correlation(2, 5)
    root = np.sqrt(g.variance)
    cov = C * np.outer(root, root)
    truth, places = np.array([1.5, -2.0]), np.array([[0.0, 0.0], [0.8, -0.4], [2.0, -2.0]])

    def curved(theta):
        return mean_curvature(np.array(0.0), np.array(theta @ cov @ theta))

    evidence = tuple(
        Evidence(gradient=1e6 * cov @ (curved(truth) * truth - curved(p) * p), noise=np.ones(2), at=p, centre=0.0)
        for p in places
    )
    errors = []
    for stretch in (mean_curvature, None):
        now = start(g)
        for _ in range(30):
            loss = Loss(curvature=float(curved(truth)), stretch=stretch)
            now = believed(g, measured(g, C, 1e-12), evidence, now, scale=1.0, loss=loss)
        errors.append(np.abs(now.theta - truth).max())
    assert errors[0] < 0.01
    assert errors[1] > 0.04
