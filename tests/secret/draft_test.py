"""Drafts: kinds, bounds and levels as the data shows them, every one of them TO CONFIRM."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from ddssp.curate import drafted, plan
from ddssp.frame import DataError
from ddssp.schema import SchemaError


def column(cells) -> dict:
    return drafted({"x": cells}).to_dict()["columns"]["x"]


def test_kinds():
    assert column([True, False, None]) == {"kind": "boolean"}
    assert column([0, 1, 1]) == {"kind": "boolean", "to_confirm": ["kind"]}
    assert column(["0", "1"]) == {"kind": "boolean", "to_confirm": ["kind"]}
    assert column([0, 1, None]) == {"kind": "categorical", "levels": 2, "other": "missing", "to_confirm": ["levels"]}
    assert column([1.5, 7.25]) == {"kind": "numeric", "low": 1.5, "high": 7.3, "bins": 20, "to_confirm": ["low", "high"]}
    assert column(["b", "a", None]) == {"kind": "categorical", "levels": ["a", "b"], "other": "other", "to_confirm": ["levels"]}
    assert column(["b", "a"]) == {"kind": "categorical", "levels": ["a", "b"], "to_confirm": ["levels"]}
    assert column([5, 5]) == {"kind": "categorical", "levels": ["5"], "other": "other", "to_confirm": ["levels"]}
    assert column([1234567, 1234567])["levels"] == ["1234567"]
    assert column([0.1 + 0.2] * 2)["levels"] == ["0.30000000000000004"]
    assert column([None, None])["levels"] == ["unknown"]
    assert column([])["levels"] == ["unknown"]


def test_numbers_in_text_are_numbers_if_nearly_all_are():
    assert column([*map(str, range(200)), "?"])["kind"] == "numeric"
    assert column([*map(str, range(10)), "?"])["kind"] == "categorical"


def test_bounds_are_rounded_outward():
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e6):
        cells = rng.normal(0, scale, 100)
        got = column(cells)
        assert got["low"] <= cells.min()
        assert got["high"] >= cells.max()
        assert got["high"] - got["low"] < 1.3 * (cells.max() - cells.min())


def test_at_most_fifty_levels():
    assert len(column([f"w{i}" for i in range(1000)])["levels"]) == 50
    assert column([f"w{i}" for i in range(1000)])["other"] == "other"


def test_what_nobody_could_write_down_is_no_level():
    assert column(["ok", "x" * 10_000, "bell\x07", " "])["levels"] == ["ok"]
    assert column(["ok", "fine", "x" * 10_000])["other"] == "other"
    assert column(pa.array([b"\xff", b"ok"], pa.binary()))["levels"] == ["ok"]


def test_dates_and_lists_are_left_out():
    """By the column's type; cells of a container without one are numbers and words."""
    dates = [datetime.date(2020, 1, 1)] * 2
    schema = drafted(pa.table({"x": [1.5, 2.5], "d": dates, "l": [[1], [2]]}))
    assert list(schema.columns) == ["x"]
    with pytest.raises(DataError, match="no column of numbers or text"):
        drafted(pa.table({"d": dates}))
    assert drafted({"d": dates}).columns["d"].levels == ("2020-01-01",)


def test_a_file_names_the_dataset(tmp_path):
    (tmp_path / "people.csv").write_text("x\n1\n2\n")
    assert drafted(tmp_path / "people.csv").name == "people"
    assert drafted(pa.table({"x": [1, 2]})).name == "dataset"


def test_a_draft_is_refused_until_confirmed():
    with pytest.raises(SchemaError, match="TO CONFIRM"):
        plan(drafted({"x": [1.5, 2.5]}), epsilon=1, delta=1e-6)
