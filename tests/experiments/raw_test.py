"""Loaders of the official raw files, on small files made here; and that what they write can be read back and fitted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddssp.experiments import datasets
from ddssp.experiments.problem import Problem
from ddssp.experiments.protocol import PAPER
from ddssp.experiments.raw import acs, adult, coded, fire, save, taxi

PEOPLE = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, United-States, "
    "<=50K",
    "17, ?, 1484705, 10th, 6, Divorced, ?, Own-child, Black, Female, 0, 4356, 99, ?, <=50K",
    "90, Private, 12285, Doctorate, 16, Married-civ-spouse, Sales, Husband, Other, Male, 99999, 0, 1, Hong, >50K",
]


def written(path, lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_adult(tmp_path):
    data = written(tmp_path / "adult.data", [*PEOPLE[:2], ""])
    test = written(tmp_path / "adult.test", ["|1x3 Cross validator", PEOPLE[2] + "."])
    found = adult.load(data, test)
    codes = {name: values.tolist() for name, values in found.codes.items()}
    assert codes["age"] == [8, 0, 27]
    assert codes["workclass"] == [5, 8, 0]
    assert codes["fnlwgt"] == [1, 31, 0]
    assert codes["education"] == [9, 0, 10]
    assert codes["education-num"] == [12, 5, 15]
    assert codes["capital-gain"] == [0, 0, 31]
    assert codes["capital-loss"] == [0, 27, 0]
    assert codes["hours-per-week"] == [12, 31, 0]
    assert codes["native-country"] == [0, 41, 39]
    assert codes["income>50K"] == [0, 0, 1]


@pytest.mark.data
def test_adults_domain_is_the_papers(data_dir, tmp_path):
    data = written(tmp_path / "adult.data", PEOPLE)
    ours, theirs = adult.load(data, data), datasets.dataset("adult", data_dir)
    assert dict(ours.sizes) == {c: d.size for c, d in theirs.schema.columns.items()}
    assert set(ours.one_hot) == {c for c, d in theirs.schema.columns.items() if d.kind == "categorical"}
    assert ours.targets == theirs.targets


def persons(path, n=3000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 99, n)
    high = {"COW": 9, "SCHL": 24, "MAR": 5, "SEX": 2, "RAC1P": 9, "DIS": 2, "ESP": 8, "CIT": 5, "MIG": 3, "MIL": 4, "ANC": 4}
    high |= {
        "NATIVITY": 2,
        "DEAR": 2,
        "DEYE": 2,
        "DREM": 2,
        "GCL": 2,
        "FER": 2,
        "ESR": 6,
        "PUBCOV": 2,
        "WKHP": 99,
        "JWMNP": 150,
    }
    columns = {c: rng.integers(1, h + 1, n).astype(object) for c, h in high.items()}
    columns |= {"AGEP": age, "RELP": rng.integers(0, 18, n), "PWGTP": rng.integers(1, 99, n)}
    columns["PINCP"] = rng.integers(-5000, 90_000, n).astype(object)
    asked_from = {
        "PINCP": 15,
        "WKHP": 16,
        "MIL": 17,
        "DREM": 5,
        "ESR": 16,
        "COW": 16,
        "JWMNP": 16,
        "SCHL": 3,
        "GCL": 30,
        "ESP": 0,
    }
    for name, youngest in asked_from.items():
        columns[name] = np.where(age < youngest, "", columns[name].astype(str))
    columns["ESP"] = np.where(age > 17, "", columns["ESP"])
    lines = [",".join(columns), *(",".join(str(columns[c][i]) for c in columns) for i in range(n))]
    return written(path, lines), columns


def number(columns, name, keep):
    return np.array([float(v) if v != "" else np.nan for v in columns[name]])[keep]


def test_acs_income(tmp_path):
    path, c = persons(tmp_path / "p.csv")
    everyone = np.ones(3000, bool)
    keep = (c["AGEP"] > 16) & (number(c, "PINCP", everyone) > 100) & (number(c, "WKHP", everyone) > 0)
    linear, logistic = acs.load("ACSincome-LIN", path), acs.load("ACSincome", path)
    assert len(linear.codes["AGEP"]) == keep.sum()
    assert np.array_equal(linear.codes["AGEP"], np.minimum(c["AGEP"][keep], 94))
    assert np.array_equal(linear.codes["SCHL"], number(c, "SCHL", keep) - 1)
    assert np.array_equal(linear.codes["COW"] == coded.OUTSIDE, number(c, "COW", keep) == 9)
    shares = np.bincount(linear.codes["PINCP"]) / keep.sum()
    assert len(shares) == 20
    assert np.ptp(shares) < 0.002
    assert np.array_equal(logistic.codes["PINCP"] == 1, number(c, "PINCP", keep) > 50_000)


def test_acs_answers_that_were_not_asked_for_are_level_0(tmp_path):
    path, c = persons(tmp_path / "p.csv")
    everyone = np.ones(3000, bool)
    found = acs.load("ACSemployment", path)
    young = c["AGEP"] < 17
    assert set(found.codes["MIL"][young]) == {0}
    assert np.array_equal(found.codes["MIL"][~young], number(c, "MIL", ~young))
    assert np.array_equal(found.codes["DREM"] == coded.OUTSIDE, c["AGEP"] < 5)
    assert found.table.num_rows == (c["AGEP"] >= 5).sum()
    assert np.array_equal(found.codes["ESR"] == 1, number(c, "ESR", everyone) == 1)


def test_acs_mobility_and_public_coverage_keep_whom_folktables_keeps(tmp_path):
    path, c = persons(tmp_path / "p.csv")
    mobility, coverage = acs.load("ACSmobility", path), acs.load("ACSPublicCoverage", path)
    assert len(mobility.codes["AGEP"]) == ((c["AGEP"] > 18) & (c["AGEP"] < 35)).sum()
    assert (mobility.codes["AGEP"].min(), mobility.codes["AGEP"].max()) == (0, 15)
    income = number(c, "PINCP", np.ones(3000, bool))
    assert len(coverage.codes["AGEP"]) == ((c["AGEP"] < 65) & (income <= 30_000)).sum()
    assert set(np.unique(coverage.codes["PINCP"])) == set(range(5))
    with pytest.raises(ValueError, match="name must be one of ACSincome-LIN"):
        acs.load("none", path)


@pytest.mark.data
def test_acs_domains_are_the_papers(data_dir, tmp_path):
    path, _ = persons(tmp_path / "p.csv", n=400)
    for name in ("ACSincome-LIN", "ACSincome", "ACSemployment", "ACSmobility", "ACSPublicCoverage"):
        ours = acs.load(name, path)
        theirs = datasets.dataset(name if name != "ACSPublicCoverage" else "ACSPublicCoverage.test", data_dir)
        assert dict(ours.sizes) == {c: d.size for c, d in theirs.schema.columns.items()}, name
        assert set(ours.one_hot) == {c for c, d in theirs.schema.columns.items() if d.kind == "categorical"}, name


def test_fire(tmp_path):
    calls = [
        {"Call Date": "01/02/2016", "Priority": "3", "City": "San Francisco"},
        {"Call Date": "12/31/2015", "Priority": "9", "City": "Elsewhere"},
        {"Call Date": "05/06/2016", "Priority": "E", "City": ""},
        {"Call Date": "05/07/2016", "Priority": "3", "City": "San Francisco"},
    ]
    head = ["Call Number", *fire.COLUMNS, "Call Date"]
    lines = [",".join(head), *(",".join(f'"{call.get(c, "x")}"' for c in head) for call in calls)]
    found = fire.load(written(tmp_path / "calls.csv", lines))
    assert found.codes["Priority"].tolist() == [0, 1, 0]
    assert found.codes["City"].tolist() == [0, 1, 0]
    assert found.sizes["City"] == 2
    assert found.sizes["Battalion"] == 1
    assert "Priority" not in found.one_hot


def trips(path, **changes):
    base = {
        "VendorID": [1, 2, 1], "passenger_count": [1.0, 6.0, 2.0], "trip_distance": [0.49, 0.5, 300.0],
        "RatecodeID": [1.0, 99.0, 6.0], "PULocationID": [1, 265, 7], "DOLocationID": [4, 5, 6],
        "payment_type": [1, 4, 2], "fare_amount": [2.5, 1.99, 500.0],
        "tip_amount": [0.0, 0.5, 1.2], "tolls_amount": [0.0, 5.76, 0.0], "total_amount": [3.3, 10.0, 600.0],
    }  # fmt: skip
    pq.write_table(pa.table(base | changes), path)
    return path


def test_taxi(tmp_path):
    month = trips(tmp_path / "a.parquet")
    broken = trips(tmp_path / "b.parquet", fare_amount=[-2.0, 4.0, 4.0], passenger_count=[1.0, None, 0.0])
    found = taxi.load([month, broken])
    codes = {name: values.tolist() for name, values in found.codes.items()}
    assert codes["tripdistance"][:3] == [0, 1, 31]
    assert codes["RatecodeID"][:3] == [0, 6, 5]
    assert codes["PULocationID"][:3] == [0, 264, 6]
    assert codes["totalamount"][:3] == [1, 4, 31]
    assert codes["tollsamount"][:3] == [0, 5, 0]
    assert found.table.num_rows == 3
    assert "substitute" in found.match


@pytest.mark.data
def test_taxis_domain_is_the_substitutes(data_dir, tmp_path):
    theirs = datasets.dataset("taxi-sub", data_dir)
    assert dict(taxi.load([trips(tmp_path / "a.parquet")]).sizes) == {c: d.size for c, d in theirs.schema.columns.items()}


def test_what_is_saved_can_be_read_and_fitted(tmp_path):
    rng = np.random.default_rng(0)
    ages = rng.integers(17, 90, 1500)
    lines = [PEOPLE[i % 3].replace(PEOPLE[i % 3][:2], str(a), 1) for i, a in enumerate(ages)]
    data = written(tmp_path / "adult.data", lines)
    test = written(tmp_path / "adult.test", PEOPLE)
    save([adult.load(data, test)], tmp_path / "data")
    loaded = datasets.dataset("adult", tmp_path / "data")
    assert (loaded.train.num_rows, loaded.test.num_rows) == (503, 1000)
    assert not loaded.is_substitute
    problem = Problem.of(loaded, "linear", PAPER)
    assert problem.scores(problem.least_squares)["mse"] < 0.01


def test_too_small_a_file_is_refused(tmp_path):
    data = written(tmp_path / "adult.data", PEOPLE)
    with pytest.raises(ValueError, match="dataset 'adult' must have more than 1000 complete rows"):
        save([adult.load(data, data)], tmp_path / "data")


def test_bins():
    values = np.array([0.0, 0.99, 1.0, 9.99, 10.0, -0.1, np.nan])
    assert coded.evenly(values, 0, 10, 10).tolist() == [0, 0, 1, 9, -1, -1, -1]
    assert coded.shifted(np.array([1.0, 3.0, 4.0, np.nan]), 1, 3).tolist() == [0, 2, -1, -1]
    assert coded.quantile_bins(np.arange(10.0), 5).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
