"""Naive Bayes on exact statistics against scikit-learn, from moments and from tables."""

from __future__ import annotations

import numpy as np
import pytest
from model_tables import MIXED, exact, mixed, noisy
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import CategoricalNB

from ddssp.marginal import PairMarginals
from ddssp.model.naive_bayes import naive_bayes, tables
from ddssp.moments import moments
from ddssp.schema import Schema

LEVELS = Schema(
    columns={
        "plan": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "area": {"kind": "categorical", "levels": ["n", "s", "w"], "encoding": "one-hot"},
        "smokes": {"kind": "boolean"},
        "grade": {"kind": "ordinal", "levels": 4},
        "sick": {"kind": "boolean"},
    }
)


def rows(rng: np.random.Generator, n: int = 3000) -> dict[str, np.ndarray]:
    sick = rng.random(n) < 0.35
    code = np.where(sick, rng.choice(3, n, p=[0.2, 0.3, 0.5]), rng.choice(3, n, p=[0.5, 0.3, 0.2]))
    return {
        "plan": np.array(list("abc"))[code],
        "area": np.array(list("nsw"))[rng.choice(3, n, p=[0.2, 0.2, 0.6])],
        "smokes": rng.random(n) < np.where(sick, 0.6, 0.3),
        "grade": np.clip(rng.integers(0, 3, n) + sick, 0, 3),
        "sick": sick,
    }


DATA = rows(np.random.default_rng(0))
CODES = {"plan": "abc", "area": "nsw", "smokes": [False, True], "grade": [0, 1, 2, 3]}


def codes(name: str) -> np.ndarray:
    return np.array([list(CODES[name]).index(v) for v in DATA[name]])


def without_noise(release):
    """The same exact moments as if nothing were known of their noise, so that nothing is shrunken."""
    from ddssp.moments import Moments

    return Moments(matrix=release.moments.matrix.copy(), encoding=release.moments.encoding)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_levels_are_scikit_learns_categorical_classifier(alpha):
    names = ["plan", "area", "smokes"]
    X = np.column_stack([codes(name) for name in names])
    judge = CategoricalNB(alpha=alpha).fit(X, DATA["sick"])
    fit = naive_bayes(without_noise(exact(DATA, LEVELS)), LEVELS, "sick", features=names, alpha=alpha)
    assert np.allclose(fit.predict_proba(DATA), judge.predict_proba(X), atol=1e-9)
    assert (fit.predict(DATA) == judge.predict(X)).all()


def test_a_number_is_normal_with_one_variance():
    """One number: the linear discriminant, with the classes' pooled variance over n."""
    data = mixed(np.random.default_rng(1), 5000)
    fit = naive_bayes(without_noise(exact(data, MIXED)), MIXED, "smokes", features=["age"])
    judge = LinearDiscriminantAnalysis(solver="lsqr").fit(data["age"][:, None], data["smokes"])
    assert np.allclose(fit.predict_proba(data), judge.predict_proba(data["age"][:, None]), atol=1e-3)


def test_several_classes():
    names = ["area", "smokes"]
    X = np.column_stack([codes(name) for name in names])
    judge = CategoricalNB().fit(X, DATA["plan"])
    fit = naive_bayes(without_noise(exact(DATA, LEVELS)), LEVELS, "plan", features=names)
    assert fit.classes == ("a", "b", "c")
    assert np.allclose(fit.predict_proba(DATA), judge.predict_proba(X), atol=1e-9)
    assert "b: smokes" in fit.coef


def test_tables_tell_the_levels_of_ordinal_columns_apart():
    names = ["plan", "area", "smokes", "grade"]
    every = {name: codes(name) for name in names} | {"sick": DATA["sick"].astype(int)}
    size = {"plan": 3, "area": 3, "smokes": 2, "grade": 4, "sick": 2}
    pairs = {
        (j, k): np.histogram2d(every[j], every[k], bins=(range(size[j] + 1), range(size[k] + 1)))[0]
        for j, k in LEVELS.domain().pairs
    }
    held = moments(PairMarginals.of(LEVELS.domain(), pairs), tables(LEVELS))
    fit = naive_bayes(held, LEVELS, "sick")
    X = np.column_stack([every[name] for name in names])
    assert np.allclose(fit.predict_proba(DATA), CategoricalNB().fit(X, DATA["sick"]).predict_proba(X), atol=1e-9)


def test_noise_shrinks_what_it_could_have_made_itself():
    release = noisy(DATA, LEVELS, 0.05, 1)
    shrunken = release.naive_bayes("sick")
    blind = naive_bayes(without_noise(release), LEVELS, "sick")
    y = DATA["sick"].astype(int)

    def loss(fit) -> float:
        return float(-np.mean(np.log(fit.predict_proba(DATA)[np.arange(len(y)), y])))

    assert loss(shrunken) < loss(blind)


def test_it_has_no_intervals_and_says_why():
    fit = exact(DATA, LEVELS).naive_bayes("sick")
    assert "independent" in fit.summary()
    with pytest.raises(ValueError, match="no standard errors"):
        fit.conf_int()
    with pytest.raises(ValueError, match="not a class"):
        exact(mixed(np.random.default_rng(0), 200), MIXED).naive_bayes("age")
    with pytest.raises(ValueError, match="alpha must be 0 or more"):
        exact(DATA, LEVELS).naive_bayes("sick", alpha=-1)
