"""Problems: exact statistics, predictions and scores against slow, obvious ones; the methods on them."""

from __future__ import annotations

import made_data
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from ddssp.coding import coded, design
from ddssp.experiments import datasets
from ddssp.experiments.methods import METHODS, Trial, chosen
from ddssp.experiments.nonprivate import nonprivate
from ddssp.experiments.problem import Coefficients, Problem, predictions
from ddssp.experiments.protocol import OURS, PAPER


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return datasets.dataset("small", made_data.folder(tmp_path_factory.mktemp("data")))


@pytest.mark.parametrize("protocol", [PAPER, OURS], ids=lambda p: p.name)
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_statistics_are_those_of_the_rows(small, kind, protocol):
    p = Problem.of(small, kind, protocol)
    XtX, Xty = p.exact
    X = design(coded(p.rows.train, small.schema), p.encoding.blocks, small.schema)
    assert np.allclose(XtX, X.T @ X)
    assert np.allclose(Xty, X.T @ p.y)
    assert p.encoding.size == (7 + protocol.intercept)
    assert p.X.shape[1] == (10 if protocol.intercept else 7)
    assert np.linalg.norm(X, axis=1).max() <= p.encoding.norm_bound + 1e-12
    assert np.linalg.norm(p.X, axis=1).max() <= p.row_encoding.norm_bound + 1e-12 <= p.encoding.norm_bound + 1e-12
    assert set(np.unique(p.y)) <= {-1, 1} if kind == "logistic" else np.abs(p.y).max() == 1


def test_the_papers_split_and_ours(small):
    paper, ours = Problem.of(small, "logistic", PAPER).rows, Problem.of(small, "logistic", OURS).rows
    assert (paper.train.num_rows, paper.test.num_rows) == (1500, 300)
    assert (ours.train.num_rows, ours.test.num_rows) == (1200, 600)
    assert Problem.of(small, "linear", OURS).rows.train.num_rows == 1500


def test_predictions_are_the_designs(small):
    p = Problem.of(small, "linear", OURS)
    theta = np.random.default_rng(0).normal(size=p.encoding.size)
    values = coded(p.rows.test, small.schema)
    expected = design(values, p.encoding.blocks, small.schema) @ theta
    assert np.allclose(predictions(Coefficients(theta=theta, encoding=p.encoding), values), expected)


def test_linear_scores(small):
    p = Problem.of(small, "linear", PAPER)
    theta = p.least_squares.theta + 0.1
    ols = np.linalg.lstsq(p.X, p.y, rcond=None)[0]
    assert np.allclose(p.least_squares.theta, ols)
    scores = p.scores(Coefficients(theta=theta, encoding=p.encoding))
    assert scores["excess"] == pytest.approx((theta - ols) @ (p.X.T @ p.X / len(p.y)) @ (theta - ols))
    test = coded(p.rows.test, small.schema)
    y = 2 * p.rows.test.column("y").to_numpy() / 5 - 1
    assert scores["mse"] == pytest.approx(np.mean((design(test, p.encoding.blocks, small.schema) @ theta - y) ** 2))


def test_logistic_scores_and_fit_against_sklearn(small):
    p = Problem.of(small, "logistic", PAPER)
    found = nonprivate(p)
    judge = LogisticRegression(C=1000.0, fit_intercept=False, tol=1e-8, max_iter=1000).fit(p.X, p.y)
    assert np.allclose(found.theta, judge.coef_[0], atol=1e-3)
    X = design(coded(p.rows.test, small.schema), p.encoding.blocks, small.schema)
    y = p.rows.test.column("z").to_numpy()
    scores = p.scores(found)
    assert scores["auc"] == pytest.approx(roc_auc_score(y, X @ found.theta))
    assert scores["logloss"] == pytest.approx(log_loss(y, 1 / (1 + np.exp(-X @ found.theta))))


LOOSE = Trial(epsilon=100.0, seed=0, model_size=8.0)


@pytest.mark.parametrize("name", [m for m in METHODS if m not in {"diffprivlib", "nonprivate"}])
def test_with_little_noise_every_method_is_near_the_exact_fit(small, name):
    method = METHODS[name]
    for kind in method.kinds:
        for protocol in (PAPER, OURS):
            p = Problem.of(small, kind, protocol)
            found, seconds = method.fit(p, LOOSE)
            ours, exact = p.scores(found), p.scores(nonprivate(p))
            assert seconds > 0
            if kind == "linear":
                assert ours["mse"] < exact["mse"] + 0.03, protocol.name
            else:
                assert ours["auc"] > exact["auc"] - 0.03, protocol.name


def test_the_same_seed_gives_the_same_coefficients_and_another_does_not(small):
    p = Problem.of(small, "linear", PAPER)
    for name in ("adassp", "ddssp-tree", "moments"):
        fits = [METHODS[name].fit(p, Trial(epsilon=0.5, seed=s, model_size=8.0))[0].theta for s in (0, 0, 1)]
        assert np.array_equal(fits[0], fits[1])
        assert not np.allclose(fits[0], fits[2])


def test_methods_by_name():
    assert "diffprivlib" not in {m.name for m in chosen(None)}
    assert [m.name for m in chosen(["task", "ssp"])] == ["task", "ssp"]
    with pytest.raises(ValueError, match=r"methods must be among nonprivate, ddssp, .* got 'none'"):
        chosen(["none"])


def test_a_peer_that_is_not_installed_is_told_in_one_sentence(small):
    try:
        import diffprivlib  # noqa: F401
    except ImportError:
        with pytest.raises(ValueError, match="make peers"):
            METHODS["diffprivlib"].fit(Problem.of(small, "linear", PAPER), LOOSE)
    else:
        found, _ = METHODS["diffprivlib"].fit(Problem.of(small, "logistic", PAPER), LOOSE)
        assert found.theta.shape == (7,)
