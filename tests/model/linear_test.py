"""Linear fits on exact statistics against statsmodels, and what a fit says of itself."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import statsmodels.api as sm
from model_tables import MIXED, exact, mixed, noisy

from ddssp.domain import Domain
from ddssp.encoding import Encoding
from ddssp.marginal import PairMarginals
from ddssp.model.interval import IntervalError
from ddssp.model.linear import linear
from ddssp.model.solve import Shrinkage
from ddssp.moments import moments
from ddssp.schema import Schema

DATA = mixed(np.random.default_rng(0))
FEATURES = ["age", "hours", "smokes", "plan"]


def columns(features, constant: bool = True) -> tuple[list[str], np.ndarray]:
    """A statsmodels design with dummies against the first level."""
    names, cells = (["intercept"], [np.ones(len(DATA["age"]))]) if constant else ([], [])
    for name in features:
        if name == "plan":
            names += ["plan=b", "plan=c"]
            cells += [(DATA["plan"] == level).astype(float) for level in "bc"]
        else:
            names.append(name)
            cells.append(np.asarray(DATA[name], float))
    return names, np.column_stack(cells)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("features", [FEATURES, ["hours"], ["age", "plan"]])
def test_exact_statistics_give_statsmodels_table(features, constant):
    names, X = columns(features, constant)
    judge = sm.OLS(DATA["cost"], X).fit()
    fit = exact(DATA, MIXED).linear("cost", features=features, intercept=constant, shrinkage=Shrinkage.NONE)
    assert list(fit.coef) == names
    assert np.allclose(list(fit.coef.values()), judge.params, rtol=1e-6, atol=1e-8)
    assert np.allclose(fit.intervals.estimate, judge.params, rtol=1e-3, atol=1e-3)
    assert np.allclose(fit.intervals.sampling, judge.bse, rtol=2e-3)
    assert fit.r2 == pytest.approx(judge.rsquared, abs=2e-4)
    assert fit.residual_variance == pytest.approx(judge.mse_resid, rel=2e-3)
    assert fit.facts["aic"] == pytest.approx(judge.aic, rel=1e-4)
    assert fit.facts["bic"] == pytest.approx(judge.bic, rel=1e-4)
    expected = judge.predict(X)
    assert np.allclose(fit.predict(DATA), expected, atol=1e-6)


def test_levels_against_their_mean():
    """A one-hot column's coefficients are measured from the mean of all levels; the intercept is theirs too."""
    fit = exact(DATA, MIXED).linear("cost", features=["area"], shrinkage=Shrinkage.NONE)
    means = {level: DATA["cost"][DATA["area"] == level].mean() for level in "nsw"}
    assert sum(fit.coef[f"area={level}"] for level in "nsw") == pytest.approx(0, abs=1e-8)
    for level in "nsw":
        assert fit.coef["intercept"] + fit.coef[f"area={level}"] == pytest.approx(means[level])


def test_summary_names_every_column_and_coefficient():
    text = noisy(DATA, MIXED, 2.0, 1).linear("cost", features=FEATURES).summary()
    for word in ("Linear regression of cost", "coef", "std err", "sampling", "privacy", "P>|z|", "[0.025", "0.975]", "plan=c"):
        assert word in text
    assert len(next(line for line in text.splitlines() if line.startswith("hours")).split()) == 10


def test_to_dict_is_json_with_null_for_what_is_not_identified():
    fit = noisy(DATA, MIXED, 0.02, 1).linear("cost")
    said = json.loads(json.dumps(fit.to_dict(0.9), allow_nan=False))
    hidden = [name for name, known in zip(fit.intervals.names, fit.intervals.identified, strict=True) if not known]
    assert hidden
    assert all(v is None for name in hidden for v in said["intervals"][name].values())
    assert all(math.isinf(fit.stderr[name]) and fit.conf_int()[name] == (-math.inf, math.inf) for name in hidden)
    assert "not identified" in fit.summary()


def test_tables_without_known_noise_have_coefficients_but_no_intervals():
    domain = Domain.of(a=3, y=2)
    marginals = PairMarginals.of(domain, {("a", "y"): np.array([[10.0, 20], [30, 5], [8, 8]])})
    schema = Schema(columns={"a": {"kind": "categorical", "levels": 3}, "y": {"kind": "boolean"}})
    fit = linear(moments(marginals, Encoding.centred(schema, tables=True)), schema, "y")
    assert fit.shrinkage is Shrinkage.FLOOR
    assert 0 < fit.r2 < 1
    with pytest.raises(IntervalError, match="graphical model"):
        fit.conf_int()
    assert "no standard errors" in fit.summary()
    assert "no standard errors" in fit.to_dict()["not_covered"]


def test_a_table_without_an_intercept_block_is_regressed_as_it_is():
    domain = Domain.of(a=3, y=2)
    marginals = PairMarginals.of(domain, {("a", "y"): np.array([[10.0, 20], [30, 5], [8, 8]])})
    schema = Schema(columns={"a": {"kind": "categorical", "levels": 3}, "y": {"kind": "boolean"}})
    fit = linear(moments(marginals, Encoding.paper(schema)), schema, "y", intercept=False, shrinkage=Shrinkage.NONE)
    assert fit.theta == pytest.approx([(5 - 30) / 35, 0.0])  # mean of y = ±1 in levels 1 and 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": "nope"}, "target must be a column"),
        ({"target": "plan"}, "must be numeric, ordinal or boolean"),
        ({"target": "cost", "features": ["nope"]}, "features must be columns"),
        ({"target": "cost", "features": ["cost"]}, "must not hold the target"),
    ],
)
def test_refusals_are_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence) as error:
        exact(DATA, MIXED).linear(**arguments)
    assert "\n" not in str(error.value)


def test_an_intercept_alone_is_the_mean():
    fit = exact(DATA, MIXED).linear("cost", features=[], shrinkage=Shrinkage.NONE)
    assert fit.coef == {"intercept": pytest.approx(DATA["cost"].mean())}
    assert fit.r2 == pytest.approx(0, abs=1e-6)
