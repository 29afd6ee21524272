"""One prior variance per column: the rule, written out; exact without noise, far better than a common one where few matter."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.model.interval import Inference
from ddssp.model.reading import FLAT, LEAST, STEPS
from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

COLUMNS = {
    "a": {"kind": "numeric", "low": -3, "high": 3, "bins": 8},
    "b": {"kind": "ordinal", "levels": 7},
    "g": {"kind": "categorical", "levels": list("pqrst")},
    "h": {"kind": "categorical", "levels": list("uvwxyz")},
    "k": {"kind": "categorical", "levels": list("ABCDEFGHIJKL")},
    "y": {"kind": "numeric", "low": -8, "high": 8, "bins": 8},
}


def table(seed: int, rows: int = 4000) -> dict[str, object]:
    """Only g matters."""
    rng = np.random.default_rng(seed)
    out = {"a": rng.normal(size=rows), "b": rng.integers(0, 7, rows)}
    out |= {c: rng.choice(COLUMNS[c]["levels"], rows) for c in "ghk"}
    effect = dict(zip("pqrst", (-3.0, -1.0, 0.0, 1.0, 3.0), strict=True))
    return out | {"y": np.array([effect[v] for v in out["g"]]) + rng.normal(0, 0.5, rows)}


def released(seed: int, epsilon: float, data: dict[str, object], mechanism: str = "moments"):
    made = plan(Schema(name="sparse", columns=COLUMNS), epsilon=epsilon, delta=1e-5, mechanism=mechanism)
    return curate(data, made, noise=SeededNoise(seed))


@pytest.mark.parametrize("intercept", [True, False])
def test_the_rule_coordinate_by_coordinate(intercept):
    """The slow twin: dense covariances, loops over columns, names instead of numbers for who owns a coordinate."""
    e = released(0, 1.0, table(0)).linear("y", intercept=intercept).equations
    found = Inference(equations=e, noise=e.noise)
    seen = found.seen
    every = [b.column or "intercept" for b in e.encoding for _ in range(b.rows)]
    owner = every if intercept else [name.partition("=")[0] for name in e.names]
    t = dict.fromkeys(owner, float(seen.likely[-1])) | ({"intercept": FLAT} if intercept else {})
    for step in range(STEPS + 1):
        prior = np.diag([t[name] for name in owner])
        K = seen.A @ prior @ seen.A.T + seen.C
        mean = prior @ seen.A.T @ np.linalg.inv(K) @ seen.g
        V = prior - prior @ seen.A.T @ np.linalg.inv(K) @ seen.A @ prior
        if step == STEPS:
            break
        for name in set(owner) - {"intercept"}:
            at = [i for i, own in enumerate(owner) if own == name]
            t[name] = max(sum(mean[i] ** 2 for i in at) / sum(1 - V[i, i] / t[name] for i in at), LEAST)
    assert found.shrunken == pytest.approx(mean, rel=1e-6, abs=1e-9)
    assert t["g"] > 5 * max(t[name] for name in "abhk")


def test_it_is_the_default_of_linear_fits_where_the_noise_is_known():
    release = released(0, 1.0, table(2, rows=200))
    assert release.linear("y").coef == release.linear("y", shrinkage="columns").coef
    assert release.linear("y", intercept=False).shrinkage is Shrinkage.COLUMNS
    assert release.logistic("g").shrinkage is Shrinkage.EMPIRICAL_BAYES
    assert released(0, 1.0, table(2, rows=200), "aim").linear("y").shrinkage is Shrinkage.FLOOR


def test_without_noise_to_speak_of_it_is_least_squares():
    data = table(0)
    release = released(0, 100.0, data)
    exact = release.linear("y", shrinkage=Shrinkage.NONE).predict(data)
    assert np.abs(release.linear("y").predict(data) - exact).max() < 0.04


def test_where_one_column_matters_it_beats_a_common_shrinkage_by_far():
    """Mean squared distance from the exact fit, five releases."""
    data = table(1)
    exact = released(0, 100.0, data).linear("y", shrinkage=Shrinkage.NONE).predict(data)
    error = {
        how: np.mean(
            [np.mean((released(s, 1.0, data).linear("y", shrinkage=how).predict(data) - exact) ** 2) for s in range(5)]
        )
        for how in (Shrinkage.COLUMNS, Shrinkage.EMPIRICAL_BAYES)
    }
    assert error[Shrinkage.COLUMNS] < error[Shrinkage.EMPIRICAL_BAYES] / 3


def test_no_rows_at_all():
    fit = released(0, 1.0, {c: [] for c in COLUMNS}).linear("y")
    assert all(np.isfinite(v) for v in fit.coef.values())


def test_a_wrong_word_is_refused_and_so_are_columns_where_the_noise_is_not_known():
    release = released(0, 1.0, table(2, rows=200))
    with pytest.raises(ValueError, match="shrinkage must be one of none, floor, empirical-bayes, columns, got 'nonsense'"):
        release.linear("y", shrinkage="nonsense")
    with pytest.raises(ValueError, match='shrinkage "columns" needs moments whose noise is known; leave it out'):
        released(0, 1.0, table(2, rows=200), "aim").linear("y", shrinkage="columns")
