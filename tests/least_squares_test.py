"""Without noise and without shrinkage the whole way from rows to predictions is numpy's least squares."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddssp.curate import curate, plan
from ddssp.experiments.datasets import Dataset, dataset
from ddssp.experiments.noise import NoNoise
from ddssp.model.solve import Shrinkage
from ddssp.schema import Schema

NAMES = (
    "adult", "ACSincome-LIN", "ACSincome", "ACSemployment", "ACSmobility", "fire", "ACSPublicCoverage.test",
    "ACSPublicCoverage-sub", "taxi-sub",
)  # fmt: skip


def test_every_dataset_of_the_manifest_is_tested(data_dir):
    assert set(NAMES) == set(json.loads((data_dir / "MANIFEST.json").read_text())["datasets"])


def obvious_design(data: Dataset, rows, target: str) -> np.ndarray:
    """A column of ones, ordinal codes as they are, one column per level of the others: straight from the codes."""
    columns = [np.ones(rows.num_rows)]
    for name, column in data.schema.columns.items():
        codes = rows.column(name).to_numpy()
        if name == target:
            continue
        columns += [codes.astype(float)] if column.kind == "ordinal" else [(codes == a).astype(float) for a in column.levels]
    return np.column_stack(columns)


@pytest.mark.data
@pytest.mark.parametrize("name", NAMES)
def test_on_the_papers_data(name, data_dir):
    data = dataset(name, data_dir)
    rows = (data.train if data.train.num_rows else data.test).slice(0, 10_000)  # the judge is slow
    for target in sorted(set(data.targets.values())):
        exact = curate(rows, plan(data.schema, epsilon=1, delta=1e-6, mechanism="moments", target=target), noise=NoNoise())
        got = exact.linear(target, shrinkage=Shrinkage.NONE).predict(rows)
        Z, y = obvious_design(data, rows, target), rows.column(target).to_numpy().astype(float)
        expected = Z @ np.linalg.lstsq(Z, y, rcond=None)[0]
        half = (data.schema.columns[target].size - 1) / 2  # on the scale of a target in [−1, 1]
        assert np.abs(got - expected).max() / half < 1e-8


SHAPES = {
    "numbers": {"a": "numeric", "b": "numeric"},
    "levels": {"a": "categorical", "b": "one-hot"},
    "all kinds": {"a": "numeric", "b": "ordinal", "c": "categorical", "d": "one-hot", "e": "boolean", "f": "vectors"},
    "one level": {"a": "single", "b": "numeric"},
    "constant column": {"a": "constant", "b": "categorical"},
    "target alone": {},
}
KINDS = {
    "numeric": {"kind": "numeric", "low": -3, "high": 3},
    "ordinal": {"kind": "ordinal", "levels": [1, 2, 3]},
    "categorical": {"kind": "categorical", "levels": ["p", "q", "r"]},
    "one-hot": {"kind": "categorical", "levels": ["p", "q", "r"], "encoding": "one-hot"},
    "boolean": {"kind": "boolean"},
    "vectors": {"kind": "categorical", "levels": ["p", "q", "r"], "values": [[1, 0], [0, 1], [-0.5, 0.5]]},
    "single": {"kind": "categorical", "levels": ["only"]},
    "constant": {"kind": "numeric", "low": 0, "high": 1},
}


def cells(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if kind in {"numeric", "constant"}:
        # on the lattice of 16-bit fixed point, so that rounding does not enter the comparison
        k = np.zeros(n) if kind == "constant" else rng.integers(-32767, 32768, n)
        low, high = KINDS[kind]["low"], KINDS[kind]["high"]
        return (low + high) / 2 + (high - low) / 2 * k / 32767
    return rng.choice(KINDS[kind].get("levels", [False, True]), n)


def obvious_columns(kind: str, values: np.ndarray) -> list[np.ndarray]:
    if kind in {"numeric", "ordinal", "boolean", "constant"}:
        return [values.astype(float)]
    if kind == "vectors":
        table = dict(zip("pqr", np.array(KINDS[kind]["values"]), strict=True))
        return list(np.array([table[v] for v in values]).T)
    return [(values == level).astype(float) for level in KINDS[kind]["levels"]]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 2, 5, 200]))
def test_on_generated_data(shape, seed, n):
    rng = np.random.default_rng(seed)
    table = {name: cells(kind, n, rng) for name, kind in SHAPES[shape].items()}
    table["y"] = cells("numeric", n, rng)
    schema = Schema(columns={name: KINDS[kind] for name, kind in SHAPES[shape].items()} | {"y": KINDS["numeric"]})
    exact = curate(table, plan(schema, epsilon=1, delta=1e-6, mechanism="moments"), noise=NoNoise())
    fit = exact.linear("y", shrinkage=Shrinkage.NONE)
    Z = np.column_stack([np.ones(n), *(c for name, kind in SHAPES[shape].items() for c in obvious_columns(kind, table[name]))])
    expected = Z @ np.linalg.lstsq(Z, table["y"], rcond=None)[0]
    got = fit.predict(table)
    assert got.shape == (n,)
    # fixed point rounds vectors to 1/32767 of their range, which moves a fit by as little; everything else is exact
    assert np.abs(got - expected).max() < (1e-3 if "vectors" in SHAPES[shape].values() else 1e-8)


def test_a_target_in_words_of_any_other_column():
    """Release once: every column can be the target, of any of the others."""
    rng = np.random.default_rng(5)
    table = {name: cells(kind, 300, rng) for name, kind in SHAPES["all kinds"].items()}
    schema = Schema(columns={name: KINDS[kind] for name, kind in SHAPES["all kinds"].items()})
    exact = curate(table, plan(schema, epsilon=1, delta=1e-6, mechanism="moments"), noise=NoNoise())
    for target, features in (("b", ["a", "c"]), ("a", ["d", "b"]), ("e", ["c"])):
        Z = np.column_stack([np.ones(300), *(c for f in features for c in obvious_columns(SHAPES["all kinds"][f], table[f]))])
        y = table[target].astype(float)
        got = exact.linear(target, features=features, shrinkage=Shrinkage.NONE).predict(table)
        assert np.abs(got - Z @ np.linalg.lstsq(Z, y, rcond=None)[0]).max() < 1e-8
