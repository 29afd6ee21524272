"""One prior variance per column: exact without noise, far better than a common one where few columns matter."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

COLUMNS = {
    "a": {"kind": "numeric", "low": -3, "high": 3},
    "b": {"kind": "ordinal", "levels": 7},
    "g": {"kind": "categorical", "levels": list("pqrst")},
    "h": {"kind": "categorical", "levels": list("uvwxyz")},
    "k": {"kind": "categorical", "levels": list("ABCDEFGHIJKL")},
    "y": {"kind": "numeric", "low": -8, "high": 8},
}


def table(seed: int, rows: int = 4000) -> dict[str, object]:
    """Only g matters."""
    rng = np.random.default_rng(seed)
    out = {"a": rng.normal(size=rows), "b": rng.integers(0, 7, rows)}
    out |= {c: rng.choice(COLUMNS[c]["levels"], rows) for c in "ghk"}
    effect = dict(zip("pqrst", (-3.0, -1.0, 0.0, 1.0, 3.0), strict=True))
    return out | {"y": np.array([effect[v] for v in out["g"]]) + rng.normal(0, 0.5, rows)}


def released(seed: int, epsilon: float, data: dict[str, object]):
    made = plan(Schema(name="sparse", columns=COLUMNS), epsilon=epsilon, delta=1e-5, mechanism="moments")
    return curate(data, made, noise=SeededNoise(seed))


def test_without_noise_to_speak_of_it_is_least_squares():
    data = table(0)
    release = released(0, 100.0, data)
    exact = release.linear("y", shrinkage=Shrinkage.NONE).predict(data)
    assert np.abs(release.linear("y", shrinkage=Shrinkage.BLOCKS).predict(data) - exact).max() < 0.04


def test_where_one_column_matters_it_beats_a_common_shrinkage_by_far():
    """Mean squared distance from the exact fit, five releases."""
    data = table(1)
    exact = released(0, 100.0, data).linear("y", shrinkage=Shrinkage.NONE).predict(data)
    error = {
        how: np.mean(
            [np.mean((released(s, 1.0, data).linear("y", shrinkage=how).predict(data) - exact) ** 2) for s in range(5)]
        )
        for how in (Shrinkage.BLOCKS, Shrinkage.EMPIRICAL_BAYES)
    }
    assert error[Shrinkage.BLOCKS] < error[Shrinkage.EMPIRICAL_BAYES] / 3


def test_through_the_origin_it_is_refused_in_one_sentence():
    release = released(0, 1.0, table(2, rows=200))
    with pytest.raises(ValueError, match="needs an intercept and columns encoded as numbers or one-hot"):
        release.linear("y", intercept=False, shrinkage=Shrinkage.BLOCKS)


def test_no_rows_at_all():
    fit = released(0, 1.0, {c: [] for c in COLUMNS}).linear("y", shrinkage=Shrinkage.BLOCKS)
    assert all(np.isfinite(v) for v in fit.coef.values())


def test_shrinkage_may_be_said_in_words_and_a_wrong_word_is_refused():
    release = released(0, 1.0, table(2, rows=200))
    by_word = release.linear("y", shrinkage="blocks")
    assert by_word.coef == release.linear("y", shrinkage=Shrinkage.BLOCKS).coef
    with pytest.raises(ValueError, match="shrinkage must be one of none, floor, empirical-bayes, blocks, got 'nonsense'"):
        release.linear("y", shrinkage="nonsense")
