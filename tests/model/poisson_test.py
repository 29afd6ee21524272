"""Poisson fits: the closed form against its own likelihood and against statsmodels where the model holds."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from model_tables import MIXED, NUMBERS, classes, exact, mixed, noisy
from scipy.optimize import minimize

from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

FEATURES = ["a", "b", "c"]


def gaussian(rng: np.random.Generator, n: int = 60_000) -> dict[str, np.ndarray]:
    """Gaussian features, so that nothing is approximate."""
    X = rng.multivariate_normal(np.zeros(3), 0.64 * np.array([[1, 0.3, 0], [0.3, 1, 0.2], [0, 0.2, 1]]), n)
    visits = rng.poisson(np.exp(0.5 + 0.3 * X[:, 0] - 0.2 * X[:, 1]))
    return {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "sick": rng.random(n) < 0.5, "visits": visits}


DATA = gaussian(np.random.default_rng(0))


def test_it_is_the_optimum_of_its_likelihood():
    """b'θ/n − exp(μ'θ + θ'Σθ/2) by an optimiser, on the count's own scale: agreement to 1e-8."""
    fit = exact(DATA, NUMBERS).poisson("visits", features=FEATURES, shrinkage=Shrinkage.NONE)
    e = fit.equations
    b, H, mu = fit.block.half * e.b / e.total, e.H / e.total, e.H[0] / e.total

    def objective(theta):
        expected = np.exp(mu @ theta + (theta @ H @ theta - (mu @ theta) ** 2) / 2)
        return expected - b @ theta, expected * (mu + H @ theta - mu * (mu @ theta)) - b

    judge = minimize(objective, np.zeros(len(b)), jac=True, method="BFGS", options={"gtol": 1e-13})
    assert np.abs(objective(fit.theta)[1]).max() < 1e-10
    assert np.abs(fit.theta - judge.x).max() < 1e-7


def test_where_the_model_holds_it_is_statsmodels():
    """Both estimate the same thing: within one standard error; standard errors within 5 %."""
    X = sm.add_constant(np.column_stack([DATA[name] for name in FEATURES]))
    judge = sm.GLM(DATA["visits"], X, family=sm.families.Poisson()).fit()
    fit = exact(DATA, NUMBERS).poisson("visits", features=FEATURES, shrinkage=Shrinkage.NONE)
    assert np.abs((np.array(list(fit.coef.values())) - judge.params) / judge.bse).max() < 1
    assert np.allclose(fit.intervals.sampling, judge.bse, rtol=0.05)
    assert fit.dispersion == pytest.approx(1.0, abs=0.05)
    assert fit.mean == pytest.approx(DATA["visits"].mean(), rel=1e-3)
    assert np.corrcoef(fit.predict(DATA), judge.predict(X))[0, 1] > 0.999


def test_overdispersed_counts_are_said_to_be_so():
    rng = np.random.default_rng(1)
    data = DATA | {"visits": rng.negative_binomial(2, 2 / (2 + DATA["visits"] + 0.5))}
    fit = exact(data, NUMBERS).poisson("visits", features=FEATURES)
    assert fit.dispersion > 1.5


def test_the_privacy_part_covers_the_exact_data_coefficient():
    """Of 4 × 100 intervals: under 89 % less than once in a thousand runs; half as wide they must not pass."""
    data = classes(np.random.default_rng(3))
    truth = np.array(list(exact(data, NUMBERS).poisson("visits", features=FEATURES, shrinkage=Shrinkage.NONE).coef.values()))
    z = []
    for seed in range(100):
        found = noisy(data, NUMBERS, 1.0, seed).poisson("visits", features=FEATURES).intervals
        z.append((found.estimate - truth) / found.privacy)
    assert 0.89 < np.mean(np.abs(z) < 1.96) < 0.995
    assert np.mean(np.abs(z) < 0.98) < 0.8


def test_a_target_that_may_be_negative_is_refused():
    with pytest.raises(ValueError, match="must be a count"):
        exact(mixed(np.random.default_rng(0), 200), MIXED).poisson("cost")


def test_a_mean_that_the_noise_hides_is_refused():
    schema = Schema(columns={"x": {"kind": "boolean"}, "y": {"kind": "numeric", "low": 0, "high": 10}})
    releases = (noisy({"x": [True, False], "y": [0, 0]}, schema, 0.1, seed) for seed in range(50))
    hidden = next(r for r in releases if r.moments.matrix[0, 2] < -r.moments.matrix[0, 0] and r.moments.matrix[0, 0] > 1)
    with pytest.raises(ValueError, match="mean that the noise hides"):
        hidden.poisson("y")
