"""Logistic fits: both approximations against optimisers, statsmodels where the model holds, and what a release supports."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from model_tables import MIXED, NUMBERS, classes, exact, mixed, noisy
from scipy.optimize import minimize
from scipy.special import expit

from ddssp.curate import curate, plan
from ddssp.experiments.datasets import dataset
from ddssp.experiments.noise import NoNoise
from ddssp.model.fit import design_of
from ddssp.model.logistic import LogisticFit, MulticlassFit
from ddssp.model.solve import Shrinkage, least_squares
from ddssp.schema import Schema

DATA = classes(np.random.default_rng(0))
FEATURES = ["a", "b", "c"]


def plain(approximation: str = "exact-split", **more) -> LogisticFit:
    return exact(DATA, NUMBERS).logistic(
        "sick", features=FEATURES, approximation=approximation, shrinkage=Shrinkage.NONE, **more
    )


def test_chebyshev2_is_the_optimum_of_its_quadratic():
    """Closed form and optimiser agree to 1e-8."""
    fit = plain("chebyshev2")
    e = fit.equations
    b2 = -0.25 / 3.533196054890204

    def objective(theta):
        return -(0.5 * e.b @ theta + b2 * theta @ e.H @ theta) / e.total, -(0.5 * e.b + 2 * b2 * e.H @ theta) / e.total

    curvature = -2 * b2 * e.H / e.total
    judge = minimize(
        objective, np.zeros(len(e.b)), jac=True, hess=lambda _: curvature, method="trust-exact", options={"gtol": 1e-13}
    )
    assert np.abs(fit.theta - judge.x).max() < 1e-8
    assert np.allclose(fit.theta, 3.533196 * least_squares(e.H, e.b), rtol=1e-6)


def test_exact_split_is_the_optimum_of_its_likelihood():
    """All coefficients at once by Newton's method on Gauss–Hermite nodes, class means and covariance from the moments."""
    fit = plain()
    e = fit.equations
    n, p = e.total, len(e.b)
    mu, b, m = e.H[0] / n, e.b / n, e.mean
    share = (1 + m) / 2
    means = {1: (mu + b) / 2 / share, -1: (mu - b) / 2 / (1 - share)}
    weights = {1: share, -1: 1 - share}
    W = e.H / n - sum(weights[y] * np.outer(means[y], means[y]) for y in (1, -1))
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()

    def gradient(theta):
        """b/2 − E[tanh(s/2) x]/2 with E[f(s) x] = E f μ + E f' Wθ."""
        out = b / 2
        for y in (1, -1):
            t = np.tanh((means[y] @ theta + np.sqrt(theta @ W @ theta) * x) / 2)
            out = out - weights[y] / 2 * ((w @ t) * means[y] + (w @ (1 - t**2)) / 2 * (W @ theta))
        return out

    theta = np.full(p, 0.1)
    for _ in range(60):
        J = np.column_stack([(gradient(theta + h) - gradient(theta - h)) / 2e-6 for h in 1e-6 * np.eye(p)])
        theta = theta - np.linalg.solve(J, gradient(theta))
    assert np.abs(gradient(theta)).max() < 1e-12
    assert np.abs(fit.theta - theta).max() < 1e-8


def test_where_the_model_holds_it_is_statsmodels():
    """Gaussian classes: both estimate the same thing, within a third of a standard error; standard errors within 2 %."""
    X = sm.add_constant(np.column_stack([DATA[name] for name in FEATURES]))
    judge = sm.Logit(DATA["sick"], X).fit(disp=0)
    fit = plain()
    assert np.abs((np.array(list(fit.coef.values())) - judge.params) / judge.bse).max() < 1 / 3
    assert np.allclose(fit.intervals.sampling, judge.bse, rtol=0.02)
    assert fit.share == pytest.approx(DATA["sick"].mean(), abs=1e-9)


def test_probabilities_are_calibrated():
    chance = plain().predict_proba(DATA)[:, 1]
    for low in (0.1, 0.3, 0.5):
        rows = (chance >= low) & (chance < low + 0.2)
        assert DATA["sick"][rows].mean() == pytest.approx(chance[rows].mean(), abs=0.02)


def test_noise_does_not_make_it_sure_of_itself():
    """Log-loss of a fit that the noise has all but drowned is that of the class shares, not worse."""
    share = DATA["sick"].mean()
    worst = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    for seed in range(5):
        chance = noisy(DATA, NUMBERS, 0.01, seed).logistic("sick", features=FEATURES).predict_proba(DATA)[:, 1]
        loss = -np.mean(np.where(DATA["sick"], np.log(chance), np.log1p(-chance)))
        assert loss < worst + 0.05


def test_the_privacy_part_covers_the_exact_data_coefficient():
    """Of 4 × 100 intervals: under 90 % less than once in a thousand runs; half as wide they must not pass."""
    truth = np.array(list(plain().coef.values()))
    z = []
    for seed in range(100):
        found = noisy(DATA, NUMBERS, 0.3, seed).logistic("sick", features=FEATURES).intervals
        z.append((found.estimate - truth) / found.privacy)
    assert 0.9 < np.mean(np.abs(z) < 1.96) < 0.99
    assert np.mean(np.abs(z) < 0.98) < 0.8


def test_two_levels_in_words_and_predictions_in_the_same_words():
    schema = Schema(
        columns={"x": {"kind": "numeric", "low": -4, "high": 4}, "y": {"kind": "categorical", "levels": ["no", "yes"]}}
    )
    rng = np.random.default_rng(1)
    x = rng.normal(size=3000)
    y = np.where(rng.random(3000) < expit(2 * x), "yes", "no")
    fit = exact({"x": x, "y": y}, schema).logistic("y")
    assert isinstance(fit, LogisticFit)
    assert fit.classes == ("no", "yes")
    assert fit.coef["x"] > 0
    assert np.mean(fit.predict({"x": x}) == y) > 0.75


def test_several_levels_are_one_against_the_rest():
    rng = np.random.default_rng(2)
    data = mixed(rng, n=8000)
    release = exact(data, MIXED)
    fit = release.logistic("plan", features=["age", "hours"], shrinkage=Shrinkage.NONE)
    assert isinstance(fit, MulticlassFit)
    chance = fit.predict_proba(data)
    assert chance.shape == (8000, 3)
    assert np.allclose(chance.sum(1), 1)
    assert set(fit.predict(data)) <= {"a", "b", "c"}
    for i, level in enumerate("abc"):
        own = Schema(columns={name: MIXED.columns[name] for name in ("age", "hours")} | {"is": {"kind": "boolean"}})
        table = {"age": data["age"], "hours": data["hours"], "is": data["plan"] == level}
        alone = exact(table, own).logistic("is", shrinkage=Shrinkage.NONE)
        assert np.allclose(fit.fits[i].theta, alone.theta, atol=1e-8)
    assert list(fit.coef)[:3] == ["a: intercept", "a: age", "a: hours"]
    assert fit.intervals.names == tuple(fit.coef)
    assert "b: age" in fit.summary()
    assert fit.wald(["b: age", "b: hours"]).df == 2
    with pytest.raises(ValueError, match="one level of the target"):
        fit.wald(["a: age", "b: age"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": "age"}, "not a class"),
        ({"target": "smokes", "approximation": "taylor"}, "approximation must be one of"),
        ({"target": "smokes", "approximation": "chebyshev2", "radius": -1.0}, "radius must be positive"),
        ({"target": "nope"}, "target must be a column"),
    ],
)
def test_refusals_are_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        exact(mixed(np.random.default_rng(0), 200), MIXED).logistic(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.data
def test_on_adult(data_dir):
    """θ is 3.533 × least squares; log-loss on the paper's test rows .366, .368 with the paper's approximation."""
    data = dataset("adult", data_dir)
    made = plan(data.schema, epsilon=1.0, delta=1e-5, mechanism="moments", target="income>50K")
    release = curate(data.train, made, noise=NoNoise())
    rough = release.logistic("income>50K", approximation="chebyshev2", shrinkage=Shrinkage.NONE)
    straight = release.linear("income>50K", shrinkage=Shrinkage.NONE)
    assert np.abs(rough.theta - 3.533 * straight.theta).max() < 1e-3
    y = data.test.column("income>50K").to_numpy() == 1

    def loss(fit) -> float:
        chance = fit.predict_proba(data.test)[:, 1]
        return float(-np.mean(np.where(y, np.log(chance), np.log1p(-chance))))

    assert loss(release.logistic("income>50K", shrinkage=Shrinkage.NONE)) <= 0.366
    assert loss(rough) == pytest.approx(0.368, abs=1e-3)
    reference = design_of(data.test, rough.encoding, data.schema) @ (rough.theta / 3)
    assert np.mean(np.logaddexp(0, -np.where(y, 1, -1) * reference)) == pytest.approx(0.477, abs=2e-3)
