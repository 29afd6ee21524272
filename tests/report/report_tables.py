"""Tables that reports are made of, and where the page's script is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.schema import Schema

ROOT = Path(__file__).resolve().parents[2]
ASSET = ROOT / "src" / "ddssp" / "report" / "explorer.js"

FIRE_SIZES = (2, 11, 15, 31, 5, 9, 11, 42, 46, 12, 10, 28)
"""Levels of the categorical columns of the paper's Fire dataset; with three numbers: 235 encoded columns."""

MIXED = Schema(
    name="mixed",
    unit="person",
    columns={
        "age": {"kind": "numeric", "low": 18, "high": 90},
        "plan": {"kind": "categorical", "levels": ["basic", "plus", "gold"], "other": "none"},
        "region": {"kind": "categorical", "levels": ["n", "e", "s", "w"], "encoding": "one-hot"},
        "sick": {"kind": "boolean"},
        "visits": {"kind": "numeric", "low": 0, "high": 30},
        "grade": {"kind": "ordinal", "levels": [1, 2, 3, 4, 5]},
        "shape": {"kind": "categorical", "levels": ["a", "b", "c"], "values": [[0.5, 0], [0, 0.5], [-0.5, -0.5]]},
    },
    derived={"age2": {"function": "square", "of": "age"}, "sickage": {"function": "interaction", "of": ["age", "sick"]}},
)


def mixed_rows(n: int = 6000) -> dict[str, object]:
    rng = np.random.default_rng(0)
    age, sick = rng.uniform(18, 90, n), rng.random(n) < 0.3
    plan_ = rng.choice(["basic", "plus", "gold", "silver"], n, p=[0.5, 0.3, 0.15, 0.05])
    return {
        "age": age,
        "plan": plan_,
        "region": rng.choice(["n", "e", "s", "w"], n),
        "sick": sick,
        "visits": rng.poisson(1 + age / 30 + 3 * sick + (plan_ == "gold")),
        "grade": rng.integers(1, 6, n),
        "shape": rng.choice(["a", "b", "c"], n),
    }


def wide_release(epsilon: float):
    """Of a table of the size of Fire: 235 encoded columns, so that what takes time there takes time here."""
    rng = np.random.default_rng(5)
    n, columns, rows = 30_000, {}, {}
    for i, m in enumerate(FIRE_SIZES):
        weights = 1 / np.arange(1, m + 1)
        columns[f"c{i}"] = {"kind": "categorical", "levels": m}
        rows[f"c{i}"] = rng.choice(m, n, p=weights / weights.sum())
    for i in range(3):
        columns[f"o{i}"] = {"kind": "ordinal", "levels": 8}
        rows[f"o{i}"] = np.clip(rng.integers(0, 6, n) + (rows[f"c{i}"] == 1) + (rows["c5"] == 0), 0, 7)
    made = plan(Schema(name="wide", columns=columns), epsilon=epsilon, delta=1e-6, mechanism="moments")
    return curate(rows, made, noise=SeededNoise(5))
