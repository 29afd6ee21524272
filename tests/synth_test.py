"""Synthetic rows: what they must match, how they are decoded, how they are written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ddssp import synth
from ddssp.cli import app
from ddssp.coding import coded, level_codes
from ddssp.curate import curate, plan
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.gradual import Records, TableTarget, updated
from ddssp.model.linear import design_of
from ddssp.released import Release
from ddssp.schema import Schema
from ddssp.synth import greatest_entropy, synthetic, write

N = 4000
SCHEMA = Schema(
    name="survey",
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100, "bins": 10, "indicator": True},
        "plan": {"kind": "categorical", "levels": ["basic", "full", "none"], "other": "other"},
        "sick": {"kind": "boolean"},
        "grade": {"kind": "ordinal", "levels": [1, 2.5, 3]},
        "mixed": {"kind": "categorical", "levels": [0, "x"]},
        "same": {"kind": "categorical", "levels": ["only"]},
    },
    derived={"age2": {"function": "square", "of": "age", "bins": 4}},
)


def people(seed: int = 0, n: int = N) -> dict[str, list[object]]:
    rng = np.random.default_rng(seed)
    age = rng.beta(2, 3, n) * 100
    sick = rng.random(n) < age / 120
    grade = np.array([1, 2.5, 3])[np.clip((age / 40 + rng.normal(0, 0.5, n)).astype(int), 0, 2)]
    return {
        "age": [None if gone else float(a) for a, gone in zip(age, rng.random(n) < 0.1, strict=True)],
        "plan": np.where(sick, "full", np.where(rng.random(n) < 0.5, "basic", "none")).tolist(),
        "sick": sick.tolist(),
        "grade": grade.tolist(),
        "mixed": [0 if s else "x" for s in sick],
        "same": ["only"] * n,
    }


def release(mechanism: str, *, epsilon: float = 4.0, inference: str = "auto", exact: bool = False) -> Release:
    made = plan(SCHEMA, epsilon=epsilon, delta=1e-6, mechanism=mechanism, inference=inference)
    return curate(people(), made, noise=NoNoise() if exact else SeededNoise(0))


def pair_error(table: pa.Table, made: Release) -> float:
    """Mean total variation between the rows' pair tables and the release's, over declared columns; by counting."""
    codes = {c: level_codes(v, SCHEMA.resolved[c]) for c, v in coded(table, SCHEMA, tuple(SCHEMA.columns)).items()}
    errors = []
    for i, j in enumerate(codes):
        for k in list(codes)[i + 1 :]:
            wanted = made.marginals[j, k] / made.marginals.total
            found = np.zeros(wanted.shape)
            np.add.at(found, (codes[j], codes[k]), 1 / table.num_rows)
            errors.append(np.abs(found - wanted).sum() / 2)
    return float(np.mean(errors))


@pytest.mark.parametrize("inference", ["tree", "pgm"])
def test_rows_of_a_table_release_have_its_pairs(inference: str) -> None:
    """Missing ages are null, and read back as the middle of the range: their column is left out by making none missing."""
    made = release("aim", inference=inference)
    table = synthetic(made, rows=5000, seed=0)
    present = table.filter(table["age"].is_valid())
    assert 0.85 < present.num_rows / 5000 < 0.95
    without = table.set_column(0, "age", pa.array(np.nan_to_num(table["age"].to_numpy(), nan=50.0)))
    assert pair_error(without, made) < 0.05
    columns = [c for c in SCHEMA.columns if c != "age"]
    assert set(columns) <= set(table.column_names)


@pytest.mark.parametrize("inference", ["tree", "pgm"])
def test_a_regression_on_rows_of_a_table_release_is_the_releases(inference: str) -> None:
    """For plans with more than a handful of rows: least squares goes through a level's only row, wherever it lies."""
    made = release("aim", inference=inference)
    table = synthetic(made, rows=20_000, seed=0)
    fit = made.linear("sick", features=["grade", "plan"])
    Z = design_of(table, fit.encoding, SCHEMA)
    y = 2.0 * np.array(table["sick"].to_pylist()) - 1
    plans = table["plan"].to_numpy(zero_copy_only=False)
    often = np.isin(plans, [p for p in set(plans) if np.sum(plans == p) >= 20])
    assert often.mean() > 0.999
    assert (Z @ np.linalg.lstsq(Z, y, rcond=None)[0])[often] == pytest.approx((Z @ fit.theta)[often], abs=0.1)


def test_updates_take_sampling_error_out() -> None:
    """Judge: records drawn from the exact joint table and left alone."""
    rng = np.random.default_rng(0)
    sizes = [4, 3, 5]
    p = rng.dirichlet(np.ones(60)).reshape(4, 3, 5)
    draw = np.stack(np.unravel_index(rng.choice(60, 2000, p=p.ravel()), (4, 3, 5)), axis=1).astype(np.int32)
    exact = np.zeros((12, 12))
    ends = [0, 4, 7, 12]
    for j in range(3):
        for k in range(3):
            axes = tuple(a for a in range(3) if a not in (j, k))
            block = np.diag(p.sum(axes)) if j == k else p.sum(axes) if j < k else p.sum(axes).T
            exact[ends[j] : ends[j + 1], ends[k] : ends[k + 1]] = 2000 * block
    after = updated(draw, sizes, TableTarget(burt=exact), rng)
    error = [np.abs(Records(c, sizes).burt - exact).sum() for c in (draw, after)]
    assert error[1] < 0.3 * error[0]


def test_the_burt_matrix_follows_the_records_through_every_update() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (500, 4)).astype(np.int32)
    records = Records(codes, [3, 3, 3, 3])
    target = TableTarget(burt=np.full((12, 12), 20.0))
    for v in range(4):
        s = records.slices[v]
        who, level = records.best_levels(np.arange(0, 500, 3), v, target.pull(records.burt[s], s))
        records.set_levels(who, v, level, records.level_change(who, v, level))
    who, of = records.best_copies(rng.permutation(500), target.pull(records.burt, slice(0, 12)))
    assert len(who) == 50
    records.set_copies(who, of, records.copy_change(who, of))
    Z = np.concatenate([np.eye(3)[records.codes[:, v]] for v in range(4)], axis=1)
    assert np.array_equal(records.burt, Z.T @ Z)
    assert not np.array_equal(records.codes, codes)


def test_rows_of_a_moments_release_have_its_moments() -> None:
    """Exact moments are those of rows, so rows can match them: on the scale of n to two hundredths.

    Null ages read back as the middle of the range, whatever was drawn for them: their rows and columns are left out.
    """
    made = release("moments", exact=True)
    table = synthetic(made, rows=N, seed=0)
    kept = [c for c in made.encoding.columns if c not in {"age", "age2"}]
    Z = design_of(table, made.encoding.keep((None, *kept)), SCHEMA)
    wanted = made.moments.keep((None, *kept)).matrix
    assert np.abs(Z.T @ Z - wanted).max() / N < 0.02


def test_a_regression_on_rows_of_a_moments_release_is_the_releases() -> None:
    made = release("moments", exact=True)
    table = synthetic(made, rows=N, seed=0)
    fit = made.linear("sick", features=["age", "plan"])
    Z = design_of(table, fit.encoding, SCHEMA)
    y = 2.0 * np.array(table["sick"].to_pylist()) - 1
    assert Z @ np.linalg.lstsq(Z, y, rcond=None)[0] == pytest.approx(Z @ fit.theta, abs=0.1)


@pytest.mark.parametrize("mechanism", ["moments", "aim"])
def test_every_value_is_one_the_schema_declares(mechanism: str) -> None:
    table = synthetic(release(mechanism, epsilon=0.5), rows=300, seed=1)
    assert table.column_names == list(SCHEMA.columns)
    assert table.num_rows == 300
    assert table["age"].type == pa.float64()
    ages = table["age"].drop_null().to_numpy()
    assert ((ages >= 0) & (ages <= 100)).all()
    assert len(np.unique(ages)) > 100
    assert table["sick"].type == pa.bool_()
    assert set(table["plan"].to_pylist()) <= {"basic", "full", "none", "other"}
    assert set(table["grade"].to_pylist()) <= {1.0, 2.5, 3.0}
    assert set(table["mixed"].to_pylist()) <= {"0", "x"}
    assert set(table["same"].to_pylist()) == {"only"}


def test_rows_can_be_released_again_and_come_back_to_the_same_bins() -> None:
    made = release("aim", inference="tree")
    table = synthetic(made, rows=2000, seed=2)
    again = curate(table, plan(SCHEMA, epsilon=4.0, delta=1e-6, mechanism="aim"), noise=NoNoise())
    assert again.marginals.total == pytest.approx(2000, rel=0.01)
    share = again.marginals["age", "sick"] / again.marginals.total - made.marginals["age", "sick"] / made.marginals.total
    assert np.abs(share).sum() / 2 < 0.15


def test_a_seed_makes_the_same_rows_and_another_other_ones() -> None:
    made = release("aim", inference="tree")
    assert synthetic(made, rows=100, seed=5).equals(synthetic(made, rows=100, seed=5))
    assert not synthetic(made, rows=100, seed=5).equals(synthetic(made, rows=100, seed=6))


def test_by_default_there_are_as_many_rows_as_the_release_estimates() -> None:
    made = release("moments")
    assert synthetic(made, seed=0).num_rows == round(made.moments.matrix[0, 0])
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, got 0"):
        synthetic(made, rows=0)


def test_greatest_entropy_has_the_wanted_means_and_survives_impossible_ones() -> None:
    f = np.linspace(-1, 1, 21)[None]
    features = np.vstack([f, f**2])
    p = greatest_entropy(features, np.array([0.2, 0.3]))
    assert features @ p == pytest.approx([0.2, 0.3], abs=5e-3)
    assert greatest_entropy(features, np.array([0.0, (f**2).mean()])) == pytest.approx(np.full(21, 1 / 21), abs=1e-4)
    impossible = greatest_entropy(features, np.array([1.7, -0.4]))
    assert np.isfinite(impossible).all()
    assert impossible.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_command_writes_what_the_function_gives(tmp_path: Path, ending: str) -> None:
    made = release("aim", inference="tree")
    made.save(tmp_path / "r.ddssp")
    out = tmp_path / f"rows{ending}"
    arguments = ["synth", str(tmp_path / "r.ddssp"), "--rows", "200", "-o", str(out), "--seed", "3"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    read = pv.read_csv(out) if ending == ".csv" else pq.read_table(out)
    expected = synthetic(made, rows=200, seed=3)
    assert read.column_names == expected.column_names
    assert read["age"].to_pylist() == pytest.approx(expected["age"].to_pylist(), nan_ok=True)
    assert read["plan"].to_pylist() == expected["plan"].to_pylist()
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, ValueError)
    assert "exists" in str(refused.exception)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"seed": -1}, "seed must be a whole number of 0 or more, got -1"),
        ({"seed": "a"}, "seed must be a whole number of 0 or more, got 'a'"),
        ({"rows": 0}, "rows must be a whole number of at least 1, got 0"),
        ({"rows": "7"}, "rows must be a whole number of at least 1, got '7'"),
        ({"rows": 2.5}, "rows must be a whole number of at least 1, got 2.5"),
        ({"rows": 10**15}, r"rows must be at most [\d,]+, got 1,000,000,000,000,000: this machine's memory"),
    ],
)
def test_what_is_asked_for_is_checked_before_any_row_is_drawn(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        synthetic(release("moments"), **asked)


def test_the_most_rows_follow_from_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = release("moments")
    monkeypatch.setattr(synth, "memory", lambda: 50 * len(made.schema.resolved) * synth.CELL)
    assert synthetic(made, rows=np.int64(50), seed=0).num_rows == 50
    with pytest.raises(ValueError, match="rows must be at most 50, got 51"):
        synthetic(made, rows=51)


def test_the_command_refuses_in_one_sentence(tmp_path: Path, command_line: Callable[..., Any]) -> None:
    release("moments").save(tmp_path / "r.ddssp")
    for option, sentence in (("--seed=-1", "seed must be"), ("--rows=1000000000000000", "rows must be at most")):
        done = command_line("synth", tmp_path / "r.ddssp", option, "-o", tmp_path / "rows.csv")
        assert done.code == 2
        assert done.err.startswith(f"error: {sentence}")
        assert len(done.err.splitlines()) == 1


def test_an_unknown_ending_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"output must end in \.csv or \.parquet, got 'rows\.xlsx'"):
        write(pa.table({"a": [1]}), tmp_path / "rows.xlsx")
    assert not list(tmp_path.iterdir())
