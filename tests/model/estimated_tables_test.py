"""Chances from estimated tables are shrunken by what stands for their noise; numbers by a floor."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

SCHEMA = Schema(
    name="classes",
    columns={
        "y": {"kind": "boolean"},
        **{c: {"kind": "categorical", "levels": list("abcdefgh")} for c in ("p", "q", "r", "s", "t")},
    },
)


def table(seed: int, rows: int = 4000) -> dict[str, object]:
    """Two columns matter a little."""
    rng = np.random.default_rng(seed)
    codes = {c: rng.integers(0, 8, rows) for c in "pqrst"}
    score = 0.25 * (codes["p"] - 3.5) + 0.15 * (codes["q"] - 3.5)
    return {"y": rng.random(rows) < 1 / (1 + np.exp(-score)), **{c: np.array(list("abcdefgh"))[v] for c, v in codes.items()}}


def released(seed: int, data: dict[str, object], mechanism: str = "aim"):
    return curate(data, plan(SCHEMA, epsilon=0.3, delta=1e-5, mechanism=mechanism), noise=SeededNoise(seed))


def test_chances_from_tables_are_better_than_through_a_floor():
    """Mean squared distance of log-odds from the true ones, ten releases."""
    data, fresh = table(0), table(1)
    truth = 0.25 * (np.array([ord(v) - 97 for v in fresh["p"]]) - 3.5) + 0.15 * (
        np.array([ord(v) - 97 for v in fresh["q"]]) - 3.5
    )

    def error(fit) -> float:
        chance = np.clip(fit.predict_proba(fresh)[:, 1], 1e-9, 1 - 1e-9)
        return float(np.mean((np.log(chance / (1 - chance)) - truth) ** 2))

    releases = [released(s, data) for s in range(10)]
    assert releases[0].logistic("y").shrinkage is Shrinkage.EMPIRICAL_BAYES
    assert releases[0].linear("y").shrinkage is Shrinkage.FLOOR
    ours = np.mean([error(r.logistic("y")) for r in releases])
    assert ours < 0.8 * np.mean([error(r.logistic("y", shrinkage="floor")) for r in releases])


def test_what_stands_for_the_noise_is_that_of_tables_measured_one_by_one():
    """By simulation: noise of σ in every cell of every table, through the encoding."""
    release = released(0, table(0, rows=200))
    held, rng = release.moments, np.random.default_rng(0)
    j, k = held.encoding.blocks[2], held.encoding.blocks[4]
    noise = held.sigma * rng.normal(size=(20_000, j.A.shape[1], k.A.shape[1]))
    seen = np.var(j.A @ noise @ k.A.T, axis=0)
    rows = held.encoding.slices
    assert held.doubt[rows[j.column], rows[k.column]] == pytest.approx(seen, rel=0.06)
    assert held.sigma == min(m.sigma for m in release.measurements)
    assert held.variance is None
