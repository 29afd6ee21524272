"""scikit-learn estimators: scikit-learn's own checks, its own models as judges, and a budget that no clone escapes."""

from __future__ import annotations

import copy
import os
import pickle
import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import linear_model
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

import ddssp
from ddssp import (
    BudgetError,
    DPLinearRegression,
    DPLogisticRegression,
    DPNaiveBayes,
    DPPoissonRegressor,
    DPRidge,
    Ledger,
    Schema,
)
from ddssp.estimators import PrivacyWarning
from ddssp.privacy.budget import epsilon_of, rho_of

ROOT = Path(__file__).resolve().parent.parent
REGRESSORS = [DPLinearRegression, DPRidge, DPPoissonRegressor]
CLASSIFIERS = [DPLogisticRegression, DPNaiveBayes]
ALL = REGRESSORS + CLASSIFIERS
MOMENTS = {"mechanism": "moments", "random_state": 0}
PRECISE = {"epsilon": 100.0, "random_state": 0}

NUMBERS = {name: {"kind": "numeric", "low": -4, "high": 4} for name in ("a", "b", "c")}
WITH_PLAN = {
    "age": {"kind": "numeric", "low": 0, "high": 100, "fill": 30},
    "plan": {"kind": "categorical", "levels": ["basic", "plus", "none"]},
    "sick": {"kind": "boolean", "levels": ["yes", "no"]},
    "visits": {"kind": "numeric", "low": 0, "high": 20},
}


@parametrize_with_checks([estimator() for estimator in ALL])
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        check(estimator)


def test_scikit_learns_check_of_array_inputs_is_not_skipped_for_good():
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from sklearn.utils.estimator_checks import check_array_api_input as check\n"
        "from ddssp import DPLogisticRegression, DPRidge\n"
        "for e in (DPLogisticRegression(), DPRidge()):\n"
        "    check(type(e).__name__, e, array_namespace='numpy', expect_only_array_outputs=False)\n"
        "print('checked')"
    )
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env)
    assert got.stdout.strip() == "checked"


def normal(n: int, seed: int = 0) -> np.ndarray:
    return np.clip(np.random.default_rng(seed).normal(size=(n, 3)), -4, 4)


def table(n: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, plan = rng.uniform(0, 100, n), rng.choice(["basic", "plus", "none"], n)
    sick = np.where(rng.random(n) < 1 / (1 + np.exp((50 - age) / 10)), "yes", "no")
    return pd.DataFrame({"plan": plan, "age": age, "sick": sick, "visits": rng.poisson(1 + age / 20)})


def schema(**target: object) -> Schema:
    return Schema(columns={**NUMBERS, "y": target})


@pytest.mark.parametrize("mechanism", ["moments", "task"])
def test_linear_agrees_with_scikit_learn_where_noise_is_negligible(mechanism):
    X = normal(20_000)
    y = X @ [1.0, -2.0, 0.5] + 3 + np.random.default_rng(1).normal(size=len(X))
    declared = schema(kind="numeric", low=-20, high=20)
    found = DPLinearRegression(schema=declared, mechanism=mechanism, **PRECISE).fit(X, y)
    judge = linear_model.LinearRegression().fit(X, y)
    assert found.release_.mechanism == mechanism
    np.testing.assert_allclose(found.coef_, judge.coef_, atol=0.02)
    assert found.intercept_ == pytest.approx(judge.intercept_, abs=0.02)
    assert found.score(X, y) == pytest.approx(judge.score(X, y), abs=1e-3)


@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_ridge_agrees_with_scikit_learn_on_the_declared_scale(alpha):
    X = normal(20_000)
    y = X @ [1.0, -2.0, 0.5] + 3 + np.random.default_rng(1).normal(size=len(X))
    found = DPRidge(alpha=alpha, schema=schema(kind="numeric", low=-20, high=20), **PRECISE).fit(X, y)
    judge = linear_model.Ridge(alpha=alpha * len(X)).fit(X / 4, y / 20)
    np.testing.assert_allclose(found.coef_, judge.coef_ * 20 / 4, atol=0.02)
    np.testing.assert_allclose(found.predict(X), judge.predict(X / 4) * 20, atol=0.05)


def test_poisson_agrees_with_scikit_learn():
    X = 0.5 * normal(20_000)
    y = np.random.default_rng(1).poisson(np.exp(X @ [0.5, -0.4, 0.0] + 1))
    found = DPPoissonRegressor(schema=schema(kind="numeric", low=0, high=40), **PRECISE).fit(X, y)
    judge = linear_model.PoissonRegressor(alpha=0).fit(X, y)
    np.testing.assert_allclose(found.coef_, judge.coef_, atol=0.03)
    assert found.intercept_ == pytest.approx(judge.intercept_, abs=0.03)
    assert found.score(X, y) == pytest.approx(judge.score(X, y), abs=0.01)  # both D²


@pytest.mark.parametrize("mechanism", ["moments", "task"])
def test_logistic_agrees_with_scikit_learn(mechanism):
    X = normal(20_000)
    y = np.random.default_rng(1).random(len(X)) < 1 / (1 + np.exp(-(X @ [1.0, -0.5, 0.0] - 0.5)))
    found = DPLogisticRegression(schema=schema(kind="boolean"), mechanism=mechanism, **PRECISE).fit(X, y)
    judge = linear_model.LogisticRegression(C=np.inf).fit(X, y)
    assert found.coef_.shape == (1, 3)
    assert found.intercept_.shape == (1,)
    np.testing.assert_allclose(found.coef_, judge.coef_, atol=0.1)
    np.testing.assert_allclose(found.predict_proba(X), judge.predict_proba(X), atol=0.04)


def blobs(n: int = 9_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, n)
    centres = np.array([[1.5, 0, 0], [0, 1.5, 0], [-1, -1, 0.5]])
    return np.clip(centres[y] + 0.7 * rng.normal(size=(n, 3)), -4, 4), np.array(["red", "green", "blue"])[y]


def test_naive_bayes_agrees_with_scikit_learn():
    X, y = blobs()
    found = DPNaiveBayes(classes=["red", "green", "blue"], **PRECISE).fit(X, y)
    judge = GaussianNB().fit(X, y)
    np.testing.assert_array_equal(found.classes_, judge.classes_)
    np.testing.assert_allclose(found.predict_proba(X).mean(0), judge.predict_proba(X).mean(0), atol=0.01)
    assert np.mean(found.predict(X) == judge.predict(X)) > 0.98


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_several_classes_are_in_sorted_order_and_scores_are_linear(estimator):
    X, y = blobs()
    found = estimator(schema=schema(kind="categorical", levels=["red", "green", "blue"]), **PRECISE).fit(X, y)
    assert found.classes_.tolist() == ["blue", "green", "red"]
    assert found.score(X, y) > 0.9
    score = X @ found.coef_.T + found.intercept_
    np.testing.assert_allclose(found.decision_function(X), score, atol=1e-3)  # 16-bit features
    np.testing.assert_array_equal(found.predict(X), found.classes_[np.argmax(score, axis=1)])
    np.testing.assert_allclose(found.predict_proba(X).sum(axis=1), 1)
    assert np.mean(np.argmax(found.predict_proba(X), axis=1) == np.argmax(score, axis=1)) > 0.999


@pytest.mark.parametrize("mechanism", ["auto", "moments"])
@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_levels_declared_in_another_order_give_the_right_column(estimator, mechanism):
    """Scorers take the last of the sorted classes for the positive one."""
    X = normal(3_000)
    y = np.where(X[:, 0] > 0, "yes", "no")
    declared = schema(kind="boolean", levels=["yes", "no"])
    found = estimator(schema=declared, mechanism=mechanism, epsilon=5.0, random_state=0).fit(X, y)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.coef_[0, 0] > 0
    assert found.predict_proba([[3.0, 0, 0]])[0, 1] > 0.5
    assert found.predict([[3.0, 0, 0], [-3.0, 0, 0]]).tolist() == ["yes", "no"]
    np.testing.assert_allclose(found.decision_function(X), X @ found.coef_[0] + found.intercept_[0], atol=1e-3)


def test_coefficients_follow_the_columns_of_x_and_name_their_levels():
    rows = table(2_000)
    found = DPLinearRegression(schema=Schema(columns=WITH_PLAN), target="visits", **MOMENTS)
    found.fit(rows[["plan", "age"]], rows["visits"])
    assert found.coef_names_ == ("plan=plus", "plan=none", "age")
    assert found.feature_names_in_.tolist() == ["plan", "age"]
    assert found.n_features_in_ == 2
    np.testing.assert_array_equal(found.coef_, [found.fit_.coef[name] for name in found.coef_names_])
    assert list(found.release_.schema) == ["plan", "age", "visits"]  # `sick` is declared but not in X
    assert "age" in found.fit_.summary()


def test_frames_and_arrays_are_fitted_alike():
    X = normal(300)
    y = X[:, 0] + 1
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    coefs = [
        DPLinearRegression(schema=schema(kind="numeric", low=-9, high=9), **MOMENTS).fit(rows, target).coef_
        for rows, target in (
            (X, y),
            (X.tolist(), y.tolist()),
            (frame, pd.Series(y)),
            (frame[["a", "b", "c"]].astype("float64[pyarrow]"), pd.Series(y)),
            (pl.from_pandas(frame), pl.Series(y)),
        )
    ]
    for coef in coefs[1:]:
        np.testing.assert_array_equal(coef, coefs[0])


def test_the_target_is_the_only_column_that_x_does_not_have():
    rows = table()
    declared = Schema(columns={k: v for k, v in WITH_PLAN.items() if k != "sick"})
    found = DPLinearRegression(schema=declared, **MOMENTS).fit(rows[["age", "plan"]], rows["visits"])
    assert found.release_.target == "visits"
    with pytest.raises(ValueError, match="pass target="):
        DPLinearRegression(schema=Schema(columns=WITH_PLAN)).fit(rows[["age", "plan"]], rows["visits"])


def test_a_schema_may_be_a_file(tmp_path):
    (tmp_path / "s.toml").write_text(schema(kind="numeric", low=-9, high=9).to_toml())
    assert DPRidge(schema=tmp_path / "s.toml", **MOMENTS).fit(normal(50), np.ones(50)).release_.target == "y"


@pytest.mark.parametrize("estimator", ALL)
def test_without_a_schema_bounds_are_public_and_values_are_clamped(estimator):
    """Bounds from data would give the wild rows another schema, and other coefficients than the clamped ones."""
    labels = {"classes": [0, 1]} if estimator in CLASSIFIERS else {}
    X = normal(200) * [1, 10, 1e6]
    y = np.arange(200) % 2
    wild = estimator(**MOMENTS, **labels).fit(X, y)
    tame = estimator(**MOMENTS, **labels).fit(np.clip(X, -10, 10), y)
    assert wild.release_.schema == tame.release_.schema == estimator(**MOMENTS, **labels).fit(X * 0, y * 0).release_.schema
    np.testing.assert_array_equal(wild.coef_, tame.coef_)
    assert (wild.release_.schema.columns["x0"].low, wild.release_.schema.columns["x0"].high) == (-10, 10)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_classes_read_from_y_are_announced_and_declared_ones_never_are(estimator):
    X, y = normal(60), np.repeat([1, 2, 3], 20)
    with pytest.warns(PrivacyWarning, match="declare them with classes="):
        assert estimator(**MOMENTS).fit(X, y).classes_.tolist() == [1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = estimator(classes=[3, 1, 7], **MOMENTS).fit(X, y)  # 7 does not occur; 2 is not declared
        assert found.classes_.tolist() == [1, 3, 7]
        assert estimator(classes=[1, 3, 7], **MOMENTS).fit(X, np.ones(60)).classes_.tolist() == [1, 3, 7]
    with pytest.raises(ValueError, match="classes must be left out"):
        estimator(schema=schema(kind="boolean"), classes=[0, 1]).fit(X, y)


def test_missing_values_are_refused_without_a_schema_and_filled_with_one():
    X, y = normal(100), np.ones(100)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        DPLinearRegression().fit(X, y)
    declared = DPLinearRegression(schema=schema(kind="numeric", low=-9, high=9), **MOMENTS)
    assert get_tags(declared).input_tags.allow_nan
    assert not get_tags(DPLinearRegression()).input_tags.allow_nan
    y[5] = np.nan
    filled = X.copy()
    filled[3, 1] = 0.0  # the middle of the range
    np.testing.assert_array_equal(declared.fit(X, y).predict(X), declared.predict(filled))


def test_messages_quote_no_cell():
    rows = table(50)
    rows.loc[7, "age"] = 12.25
    rows["age"] = rows["age"].astype(object)
    rows.loc[9, "age"] = "SECRET"
    with pytest.raises(ValueError, match="must hold numbers") as caught:
        DPRidge().fit(rows[["age"]], rows["visits"])
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__
    declared = DPRidge(schema=Schema(columns=WITH_PLAN), target="visits", **MOMENTS)
    assert np.isfinite(declared.fit(rows[["age"]], rows["visits"]).coef_).all()


def ledger_for(tmp_path: Path, fits: int, epsilon: float = 1.0) -> Ledger:
    """A ledger that covers so many fits and no more."""
    ledger = Ledger(tmp_path / "ledger.db")
    rho = rho_of(epsilon, 1e-6)
    account = ledger.set_budget("d", epsilon=epsilon_of(fits * rho, 1e-6) * (1 + 1e-6), delta=1e-6)
    assert fits * rho <= account.ceiling < (fits + 1) * rho
    return ledger


@pytest.mark.parametrize("copied", [clone, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_copies_spend_from_the_same_ledger(copied, tmp_path):
    first = DPRidge(ledger=ledger_for(tmp_path, 1), dataset="d")
    second = copied(first)
    second.fit(normal(50), np.ones(50))
    with pytest.raises(BudgetError):
        first.fit(normal(50), np.ones(50))


@pytest.mark.parametrize("jobs", [1, 2])
def test_five_folds_cost_five_releases_and_the_sixth_fit_is_refused(jobs, tmp_path):
    ledger = ledger_for(tmp_path, 5)
    model = DPRidge(ledger=ledger, dataset="d")
    X, y = normal(60), np.arange(60.0)
    got = cross_validate(model, X, y, cv=5, error_score="raise", n_jobs=jobs, return_estimator=True)
    assert ledger.spent("d") == 5 * rho_of(1.0, 1e-6)
    assert sorted(fold.release_.entry["counter"] for fold in got["estimator"]) == [1, 2, 3, 4, 5]
    with pytest.raises(BudgetError):
        clone(model).fit(X, y)
    assert ledger.verify().ok


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("estimator", [DPLinearRegression, DPLogisticRegression])
def test_cross_validation_under_a_one_fit_budget_raises_on_the_second_fold(estimator, jobs, tmp_path):
    ledger = ledger_for(tmp_path, 1)
    labels = {"classes": [0, 1]} if estimator is DPLogisticRegression else {}
    model = estimator(ledger=ledger, dataset="d", **labels)
    with pytest.raises(BudgetError):
        cross_val_score(model, normal(60), np.arange(60) % 2, cv=5, error_score="raise", n_jobs=jobs)
    assert ledger.spent("d") == rho_of(1.0, 1e-6)  # the first fold, and only that


def test_reproducible_noise_is_not_private_and_no_ledger_takes_it(tmp_path):
    X, y = normal(80), np.ones(80)
    first, second = (DPLinearRegression(random_state=7).fit(X, y) for _ in range(2))
    assert first.private_ is False
    np.testing.assert_array_equal(first.coef_, second.coef_)
    one, two = (DPLinearRegression(mechanism="moments").fit(X, y) for _ in range(2))
    assert one.private_ is True
    drawn = ([m.values.tolist() for m in fit.release_.measurements] for fit in (one, two))
    assert next(drawn) != next(drawn)  # all of them: one count alone coincides now and then
    ledger = ledger_for(tmp_path, 1)
    with pytest.raises(BudgetError, match="not private"):
        DPRidge(ledger=ledger, dataset="d", random_state=0).fit(X, y)
    assert ledger.spent("d") == 0


def refused(estimator, X, y, tmp_path, **settings):
    """The message of a refusal, which costs nothing."""
    ledger = ledger_for(tmp_path, 1)
    with pytest.raises(ValueError, match=r"\.$") as caught:
        estimator(ledger=ledger, dataset="d", **settings).fit(X, y)
    assert ledger.spent("d") == 0
    return str(caught.value)


def test_what_cannot_be_fitted_is_refused_before_anything_is_spent(tmp_path):
    X, y = normal(50), np.arange(50) % 2
    rows = table(50)
    assert "moments" in refused(DPRidge, X, y, tmp_path, mechanism="task")
    assert "alpha" in refused(DPRidge, X, y, tmp_path, alpha=-1)
    assert "count" in refused(DPPoissonRegressor, X, y, tmp_path, schema=schema(kind="numeric", low=-1, high=5))
    assert "class" in refused(DPNaiveBayes, X, y, tmp_path, schema=schema(kind="ordinal", levels=4))
    assert "class" in refused(DPLogisticRegression, X, y, tmp_path, schema=schema(kind="numeric", low=0, high=1))
    assert "moments" in refused(DPLogisticRegression, X, y, tmp_path, classes=[1, 2, 3], mechanism="task")
    assert "texts" in refused(DPNaiveBayes, X, y, tmp_path, schema=schema(kind="categorical", levels=[1, 2], other="other"))
    assert "categorical" in refused(DPRidge, X, y, tmp_path, schema=schema(kind="categorical", levels=["u", "v", "w"]))
    assert "3 features" in refused(DPRidge, X[:, :2], y, tmp_path, schema=schema(kind="numeric", low=0, high=1))
    plain = Schema(columns=WITH_PLAN)
    assert "'visits' is a column of X" in refused(DPRidge, rows, y, tmp_path, schema=plain, target="visits")
    assert "'z'" in refused(DPRidge, rows[["age"]].assign(z=1), y, tmp_path, schema=plain, target="visits")
    square = Schema(columns=WITH_PLAN, derived={"v2": {"function": "square", "of": "visits"}})
    assert "made of the target" in refused(DPRidge, rows[["age"]], y, tmp_path, schema=square, target="visits")
    assert "a feature too" in refused(DPRidge, rows[["age", "visits"]], y, tmp_path, target="age")


def test_a_mean_that_the_noise_hides_gives_a_constant():
    X = normal(30)
    hidden = [DPPoissonRegressor(epsilon=0.01, random_state=seed) for seed in range(6)]
    with pytest.warns(UserWarning, match="hides the mean"):
        found = [e.fit(X, np.zeros(30)) for e in hidden]
    constants = [e for e in found if not e.coef_.any()]
    assert constants
    for e in constants:
        assert (e.predict(X) > 0).all()
        np.testing.assert_allclose(e.predict(X), np.exp(e.intercept_))


def test_only_a_hidden_mean_gives_a_constant():
    model = DPPoissonRegressor(random_state=0).fit(normal(300), np.ones(300))
    with pytest.raises(ValueError, match="target must be a column of the release"):
        model._fitted(model.release_, "nope")


def test_least_squares_of_a_two_level_target():
    X = normal(3_000)
    y = (X[:, 0] > 0).astype(int)
    found = DPLinearRegression(schema=schema(kind="boolean"), epsilon=20.0, random_state=0).fit(X, y)
    judge = linear_model.LinearRegression().fit(X, y)
    np.testing.assert_allclose(found.coef_, judge.coef_, atol=0.02)


def test_least_squares_of_a_two_level_target_where_a_column_is_encoded_by_vectors():
    """`task` cannot encode vectors, so "auto" takes moments, which answers least squares as well."""
    vectors = {"kind": "categorical", "levels": ["s", "m", "l"], "values": [[-1, 0], [0, 1], [1, 0]]}
    schema = Schema(columns={"size": vectors, "sick": {"kind": "boolean"}})
    size = np.random.default_rng(0).choice(["s", "m", "l"], 2000)
    X, y = pd.DataFrame({"size": size}), size == "l"
    model = DPLinearRegression(schema=schema, target="sick", **PRECISE).fit(X, y)
    assert model.release_.mechanism == "moments"
    assert model.predict(pd.DataFrame({"size": ["s", "m", "l"]})) == pytest.approx([0.0, 0.0, 1.0], abs=0.05)
    with pytest.raises(ValueError, match="mechanism task cannot encode columns by vectors; use moments"):
        DPLinearRegression(schema=schema, target="sick", mechanism="task").fit(X, y)


def test_in_a_pipeline_with_named_columns():
    rows = table(3_000)
    columns = ColumnTransformer([("keep", "passthrough", ["plan", "age"])], verbose_feature_names_out=False)
    columns.set_output(transform="pandas")
    private = DPLogisticRegression(schema=Schema(columns=WITH_PLAN), target="sick", epsilon=3.0, random_state=0)
    model = make_pipeline(columns, private)
    assert cross_val_score(model, rows, rows["sick"], cv=3, scoring="roc_auc", error_score="raise").mean() > 0.9
    assert "DPLogisticRegression" in model._repr_html_()


def test_nothing_of_the_rows_stays_in_a_fitted_estimator():
    X = np.full((200, 3), 3.0625)
    stored = pickle.dumps(DPLinearRegression(**MOMENTS).fit(X, np.full(200, 7.03125)))
    assert len(stored) < 40_000
    assert np.full(200, 7.03125).tobytes()[:64] not in stored


def test_the_estimators_are_loaded_when_first_used():
    script = "import sys, ddssp\nassert 'sklearn' not in sys.modules\nddssp.DPRidge\nassert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert {e.__name__ for e in ALL} <= set(ddssp.__all__)


def test_the_documentation_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "sklearn.md").read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "sklearn.md", "exec"), scope)
    assert "std err" in capsys.readouterr().out
    assert scope["ledger"].spent("visits") == rho_of(1.0, 1e-6)  # four of five folds were refused


def test_the_example_runs(capsys):
    runpy.run_path(str(ROOT / "examples" / "sklearn_pipeline.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert float(out.split("AUC of five folds: ")[1].split()[0]) > 0.8
    assert "refused: " in out
