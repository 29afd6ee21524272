"""Intervals of logistic and Poisson fits where features are not normal: none where the approximation would spoil them."""

from __future__ import annotations

import numpy as np
import pytest
from model_tables import noisy

from ddssp.model.plot import plot
from ddssp.schema import Schema

COLUMNS = {
    "a": {"kind": "numeric", "low": -5, "high": 5},
    "b": {"kind": "numeric", "low": -5, "high": 5},
    "skewed": {"kind": "numeric", "low": 0, "high": 20},
    "rare": {"kind": "boolean"},
    "half": {"kind": "boolean"},
    "plan": {"kind": "categorical", "levels": ["p", "q", "r"]},
}
TARGETS = {"logistic": {"kind": "boolean"}, "poisson": {"kind": "numeric", "low": 0, "high": 30}}
TRUTH = {
    "logistic": {
        "intercept": -1.0,
        "a": 0.5,
        "b": -0.3,
        "skewed": 0.4,
        "rare": 2.0,
        "half": 0.15,
        "plan=q": 0.0,
        "plan=r": 0.6,
    },
    "poisson": {"intercept": 0.3, "a": 0.3, "b": -0.2, "skewed": 0.15, "rare": 0.8, "half": 0.08, "plan=q": 0, "plan=r": 0.4},
}
RUNS = 30


def rows(model: str, rng: np.random.Generator, n: int = 40_000) -> dict[str, np.ndarray]:
    """Two normal numbers, a lognormal one, levels rare and common; the model holds, and what is not normal matters."""
    truth, code = TRUTH[model], rng.choice(3, n, p=[0.5, 0.3, 0.2])
    x = {"a": rng.normal(size=n), "b": rng.normal(size=n), "skewed": np.minimum(rng.lognormal(0, 0.8, n), 20)}
    x |= {"rare": rng.random(n) < 0.02, "half": rng.random(n) < 0.5}
    s = truth["intercept"] + sum(truth[c] * v for c, v in x.items()) + np.array([0.0, truth["plan=q"], truth["plan=r"]])[code]
    y = rng.random(n) < 1 / (1 + np.exp(-s)) if model == "logistic" else np.minimum(rng.poisson(np.exp(s)), 30)
    return x | {"plan": np.array(list("pqr"))[code], "y": y}


@pytest.mark.parametrize("model", TRUTH)
def test_what_is_printed_covers_and_what_would_not_is_withheld(model):
    """Of about 4 × 30 intervals: under 87 % less than once in a thousand runs; with those withheld it was 76 and 47 %."""
    schema, truth = Schema(columns=COLUMNS | {"y": TARGETS[model]}), np.array(list(TRUTH[model].values()))
    inside, printed, withheld = np.zeros(8), np.zeros(8), np.zeros(8)
    for seed in range(RUNS):
        fit = getattr(noisy(rows(model, np.random.default_rng([seed, 5])), schema, 4.0, seed, target="y"), model)("y")
        found = fit.intervals
        assert found.names == tuple(TRUTH[model])
        limits = found.limits()
        inside += found.identified & (limits[:, 0] <= truth) & (truth <= limits[:, 1])
        printed += found.identified
        withheld += [name in fit.not_normal for name in found.names]
    often = dict(zip(TRUTH[model], printed / RUNS, strict=True))
    assert all(often[name] > 0.9 for name in ("a", "b", "half"))
    assert all(often[name] < 0.1 for name in ("skewed", "rare", "plan=r", "intercept"))
    assert (withheld[[0, 3, 4, 7]] > 0.9 * RUNS).all()
    assert inside.sum() / printed.sum() > 0.87


def test_the_table_says_which_and_why():
    fit = noisy(
        rows("logistic", np.random.default_rng(0)), Schema(columns=COLUMNS | {"y": TARGETS["logistic"]}), 4.0, 0
    ).logistic("y")
    assert "not normal" in fit.summary()
    assert "as if features were normal" in fit.summary()
    assert set(fit.to_dict()["not_normal"]) == set(fit.not_normal) >= {"rare", "skewed"}
    assert fit.to_dict()["intervals"]["rare"]["low"] is None


def test_the_plot_says_what_the_table_says(tmp_path):
    pytest.importorskip("matplotlib")
    data, schema = rows("logistic", np.random.default_rng(0)), Schema(columns=COLUMNS | {"y": TARGETS["logistic"]})
    found = {"not normal": 0, "not identified": 0}
    for epsilon in (4.0, 0.05):
        fit = noisy(data, schema, epsilon, 0).logistic("y")
        plot([fit], tmp_path / "plot.svg", force=True)
        drawn = (tmp_path / "plot.svg").read_text()
        table = [line for line in fit.summary().splitlines() if not line.startswith("intercept")]
        for why in ("not normal", "not identified"):
            counted = drawn.count(f">{why}<")
            assert counted == sum(f"  {why}" in line for line in table)
            found[why] += counted
    assert all(found.values())
