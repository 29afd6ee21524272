"""Ridge and elastic-net paths on exact statistics against scikit-learn on the encoded rows."""

from __future__ import annotations

import numpy as np
import pytest
from model_tables import MIXED, exact, mixed, noisy
from sklearn.linear_model import ElasticNet, Ridge

from ddssp.model.fit import design_of
from ddssp.model.path import coordinate_descent
from ddssp.model.solve import Shrinkage

DATA = mixed(np.random.default_rng(0), 2000)
FEATURES = ["age", "hours", "smokes"]


def encoded(release, features):
    x = release.encoding.keep(features)
    y = release.encoding.keep(["cost"])
    return design_of(DATA, x, MIXED), design_of(DATA, y, MIXED)[:, 0]


@pytest.mark.parametrize("alpha", [1e-3, 0.05, 1.0])
def test_ridge_is_scikit_learns(alpha):
    release = exact(DATA, MIXED)
    Z, y = encoded(release, [*FEATURES, "plan", "area"])
    judge = Ridge(alpha=alpha * len(y), solver="svd").fit(Z, y)
    fit = release.path("cost", l1_ratio=0.0, alphas=[alpha]).fit()
    assert np.allclose(fit.theta[1:], judge.coef_, atol=1e-9)
    assert fit.theta[0] == pytest.approx(judge.intercept_)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.1])
def test_elastic_net_is_scikit_learns(l1_ratio):
    release = exact(DATA, MIXED)
    Z, y = encoded(release, FEATURES)
    alphas = [0.05, 0.01, 1e-3, 1e-4]
    path = release.path("cost", features=FEATURES, l1_ratio=l1_ratio, alphas=alphas)
    for alpha, theta in zip(alphas, path.thetas, strict=True):
        judge = ElasticNet(alpha=alpha, l1_ratio=l1_ratio, tol=1e-14, max_iter=100_000).fit(Z, y)
        assert np.allclose(theta[1:], judge.coef_, atol=1e-8)


def test_levels_that_add_up_to_nothing_have_scikit_learns_objective():
    """With an L1 part alone redundant columns leave coefficients free, but not the minimum."""
    release = exact(DATA, MIXED)
    Z, y = encoded(release, ["age", "plan", "area"])
    fit = release.path("cost", features=["age", "plan", "area"], l1_ratio=1.0, alphas=[1e-3]).fit()
    judge = ElasticNet(alpha=1e-3, l1_ratio=1.0, tol=1e-14, max_iter=100_000).fit(Z, y)

    def objective(constant, slopes):
        return np.mean((y - constant - Z @ slopes) ** 2) / 2 + 1e-3 * np.abs(slopes).sum()

    assert objective(fit.theta[0], fit.theta[1:]) == pytest.approx(objective(judge.intercept_, judge.coef_), abs=1e-12)


def test_coordinate_descent_meets_the_optimality_conditions():
    rng = np.random.default_rng(1)
    for rank in (8, 3):
        X = rng.normal(size=(50, rank)) @ rng.normal(size=(rank, 8))
        H, b = X.T @ X / 50, X.T @ rng.normal(size=50) / 50
        beta = coordinate_descent(H, b, 0.02, 0.0, np.zeros(8))
        gradient = b - H @ beta
        assert np.allclose(gradient[beta != 0], 0.02 * np.sign(beta[beta != 0]), atol=1e-8)
        assert np.abs(gradient).max() <= 0.02 + 1e-8


def test_the_largest_penalty_leaves_only_the_intercept_and_the_smallest_next_to_least_squares():
    release = exact(DATA, MIXED)
    path = release.path("cost", features=FEATURES, l1_ratio=0.5)
    assert np.count_nonzero(path.thetas[0, 1:]) == 0
    assert (np.diff(path.alphas) < 0).all()
    straight = release.linear("cost", features=FEATURES, shrinkage=Shrinkage.NONE).theta
    assert np.allclose(path.thetas[-1], straight, atol=0.02)


def test_the_chosen_penalty_meets_the_noise():
    """Mean squared error on the rows themselves, over ten releases: near the best of the path, far from unpenalised."""
    Z, y = encoded(exact(DATA, MIXED), [None, *FEATURES, "plan", "area"])
    errors = []
    for seed in range(10):
        path = noisy(DATA, MIXED, 0.3, seed).path("cost", l1_ratio=0.0)
        own = np.mean((y - (Z @ path.thetas.T).T) ** 2, axis=1)
        errors.append((own[path.best], own.min(), own[-1]))
    chosen, best, unpenalised = np.mean(errors, axis=0)
    assert chosen < 1.6 * best
    assert chosen < unpenalised / 5


def test_release_methods_and_refusals():
    release = noisy(DATA, MIXED, 1.0, 0)
    assert release.ridge("cost").title == "Ridge regression of cost"
    assert release.elastic_net("cost", alpha=0.01).alpha == 0.01
    assert release.ridge("cost").predict(DATA).shape == (2000,)
    assert "biased on purpose" in release.ridge("cost").summary()
    with pytest.raises(ValueError, match="l1_ratio must lie between"):
        release.path("cost", l1_ratio=2.0)
    with pytest.raises(ValueError, match="alphas must be"):
        release.path("cost", alphas=[-1.0])
    with pytest.raises(ValueError, match="must be numeric"):
        release.ridge("plan")
