"""What the report says about columns, pairs and the budget, against the exact rows and the mechanism's own accounts."""

from __future__ import annotations

import errno
import json
import os
import time

import numpy as np
import pytest
from report_tables import MIXED, mixed_rows

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.released import ReleaseError
from ddssp.report.association import association
from ddssp.report.contract import contract
from ddssp.report.distributions import distributions
from ddssp.report.page import inert, page, write
from ddssp.report.spending import spending
from ddssp.schema import Schema


def released(mechanism: str = "moments", *, epsilon: float = 4.0, seed: int = 0, schema: Schema = MIXED, rows=None, **more):
    made = plan(schema, epsilon=epsilon, delta=1e-6, mechanism=mechanism, **more)
    return curate(mixed_rows() if rows is None else rows, made, noise=SeededNoise(seed))


TABLES = Schema(
    columns={
        "x": {"kind": "numeric", "low": 0, "high": 1, "bins": 5},
        "y": {"kind": "boolean"},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
    }
)


def table_rows():
    rng = np.random.default_rng(2)
    return {"x": rng.random(4000), "y": rng.random(4000) < 0.25, "c": rng.choice(["a", "b", "c"], 4000, p=[0.6, 0.3, 0.1])}


def test_shares_means_and_spreads_are_those_of_the_rows(mixed):
    rows = mixed_rows()
    found = {d["column"]: d for d in distributions(mixed)}
    for label, share in (("basic", 0.5), ("plus", 0.3), ("gold", 0.15), ("none", 0.05)):
        (bar,) = [b for b in found["plan"]["bars"] if b["label"] == label]
        assert abs(bar["share"] - share) < 0.02
        assert 0 < bar["error"] < 0.01
    assert [b["label"] for b in found["sick"]["bars"]] == ["False", "True"]
    assert abs(found["sick"]["bars"][1]["share"] - np.mean(rows["sick"])) < 4 * found["sick"]["bars"][1]["error"]
    assert abs(found["visits"]["mean"] - np.mean(np.clip(rows["visits"], 0, 30))) < 4 * found["visits"]["meanError"]
    assert abs(found["visits"]["spread"] - np.std(rows["visits"])) < 4 * found["visits"]["spreadError"]


@pytest.mark.slow
def test_errors_of_shares_means_and_spreads_are_right():
    """Over 60 releases the stated standard errors are the actual ones, within 35 % (a false alarm in a thousand runs)."""
    rows, found = mixed_rows(4000), []
    for seed in range(60):
        d = {e["column"]: e for e in distributions(released(seed=seed, rows=rows))}
        found.append([d["plan"]["bars"][1], d["sick"]["bars"][1], d["visits"]])
    for i in (0, 1):
        actual = np.std([f[i]["share"] for f in found])
        assert abs(actual / np.mean([f[i]["error"] for f in found]) - 1) < 0.35
    for value, error in (("mean", "meanError"), ("spread", "spreadError")):
        assert abs(np.std([f[2][value] for f in found]) / np.mean([f[2][error] for f in found]) - 1) < 0.35


def test_association_of_two_numbers_is_their_correlation(mixed):
    rows = mixed_rows()
    found = {(p["left"], p["right"]): p for p in association(mixed)}
    exact = np.corrcoef(rows["age"], np.clip(rows["visits"], 0, 30))[0, 1]
    assert abs(found["age", "visits"]["value"] - exact) < 4 * found["age", "visits"]["error"]
    assert abs(found["region", "grade"]["value"]) < 3 * found["region", "grade"]["error"]


def test_association_is_root_rv_and_has_no_bias_from_noise():
    """A pair with levels against Escoufier's RV of the exact rows; unrelated ones come out near 0, not at the noise's size."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 4, 20_000)
    rows = {"a": a, "b": np.where(rng.random(20_000) < 0.5, a, rng.integers(0, 4, 20_000)), "c": rng.integers(0, 30, 20_000)}
    schema = Schema(columns={n: {"kind": "categorical", "levels": m} for n, m in (("a", 4), ("b", 4), ("c", 30))})
    Z = {n: np.eye(m)[rows[n]] - np.eye(m)[rows[n]].mean(0) for n, m in (("a", 4), ("b", 4), ("c", 30))}
    S = lambda j, k: Z[j].T @ Z[k] / 20_000  # noqa: E731
    exact = np.linalg.norm(S("a", "b")) / np.sqrt(np.linalg.norm(S("a", "a")) * np.linalg.norm(S("b", "b")))
    found = [
        {(p["left"], p["right"]): p for p in association(released(seed=s, schema=schema, rows=rows, epsilon=1))}
        for s in range(5)
    ]
    for f in found:
        assert abs(f["a", "b"]["value"] - exact) < 4 * f["a", "b"]["error"]
        assert f["a", "c"]["value"] < 3 * f["a", "c"]["error"]


def test_spending_adds_up(mixed):
    found = spending(mixed)
    assert abs(sum(s["share"] for s in found) - 1) < 1e-6
    assert {s["kind"] for s in found} == {"total", "one column", "squares", "pairs"}
    aim = spending(released("aim", schema=TABLES, rows=table_rows()))
    assert abs(sum(s["share"] for s in aim) - 1) < 1e-6
    assert aim[-1]["label"] == "choosing which tables to measure"
    assert 0.02 < aim[-1]["share"] < 0.3


def test_a_release_of_tables_shows_bins(mixed):
    found = contract(released("aim", schema=TABLES, rows=table_rows()))
    shapes = {d["column"]: d for d in found["distributions"]}
    assert len(shapes["x"]["bars"]) == 5
    assert abs(shapes["x"]["mean"] - 0.5) < 0.05
    assert found["noise"] is None
    assert "no standard errors" in found["whyNoIntervals"]
    assert all(p["error"] is None for p in found["association"])


def test_a_task_release_shows_its_one_fit():
    release = released("task", target="y", schema=TABLES, rows=table_rows())
    found = contract(release)
    assert found["ready"]["model"] == "logistic"
    assert found["ready"]["coefficients"] == release.logistic("y").coef
    assert found["moments"] is None
    assert "did not measure" in found["whyNoMoments"]
    with pytest.raises(ReleaseError):
        _ = release.moments


def test_the_contract_is_plain_json_without_nan(mixed):
    json.dumps(contract(mixed), allow_nan=False)


HOSTILE = '</script><script>alert(1)</script><!--\u2028 & "'


def test_markup_in_labels_stays_inside_the_json():
    text = inert({"label": HOSTILE})
    assert "<" not in text
    assert json.loads(text) == {"label": HOSTILE}


def test_the_page_is_one_file_that_asks_for_nothing(mixed):
    text = page(mixed)
    assert text.count("<script") == 2
    assert text.count("</script>") == 2
    assert "default-src 'none'" in text
    for word in ('src="http', 'href="http', "@import", "url(http"):
        assert word not in text


def test_it_does_not_overwrite(mixed, tmp_path):
    write(mixed, tmp_path / "r.html")
    with pytest.raises(ReleaseError, match=r"exists; choose another name or pass force=True\.$"):
        write(mixed, tmp_path / "r.html")
    assert write(mixed, tmp_path / "r.html", force=True) == (tmp_path / "r.html").stat().st_size


@pytest.mark.parametrize("name", ["r.ddssp", "rows.csv", "schema.toml", "ledger.db"])
def test_a_page_replaces_nothing_but_a_page(mixed, tmp_path, name):
    (tmp_path / name).write_bytes(b"dear")
    with pytest.raises(ReleaseError, match=r"exists and is no \.html file; no other kind is ever replaced, choose"):
        write(mixed, tmp_path / name, force=True)
    assert (tmp_path / name).read_bytes() == b"dear"


def test_a_page_that_cannot_be_written_leaves_the_one_before(mixed, tmp_path, monkeypatch):
    write(mixed, tmp_path / "r.html")
    before = (tmp_path / "r.html").read_bytes()

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReleaseError, match="cannot be written: No space left on device"):
        write(mixed, tmp_path / "r.html", force=True)
    assert (tmp_path / "r.html").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


@pytest.mark.data
def test_adult_is_small_and_quick(data_dir, tmp_path):
    """Under 2 MB, and under 3 s to write, of processor time where others use the machine."""
    from ddssp.experiments.datasets import dataset

    found = dataset("adult", data_dir)
    release = released(schema=found.schema, rows=found.train, epsilon=1)
    start, clock = time.process_time(), time.perf_counter()
    size = write(release, tmp_path / "adult.html")
    assert size < 2e6
    assert min(time.process_time() - start, time.perf_counter() - clock) < 3
