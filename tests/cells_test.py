"""In a container without a type every cell is read by itself: no cell changes how another one is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import permutations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ddssp.coding import coded
from ddssp.frame import batches
from ddssp.schema import Schema
from ddssp.secret.people import _named

COLUMNS = {
    "numeric": {"kind": "numeric", "low": -10, "high": 10},
    "numbers": {"kind": "categorical", "levels": [0, 1, 2]},
    "words": {"kind": "categorical", "levels": ["01", "1", "true", "x", "2020-01-01"]},
    "truth": {"kind": "boolean"},
    "order": {"kind": "ordinal", "levels": 3},
}
CELLS = [
    True, np.bool_(False), 1, 0.5, 2.0, np.int64(2), np.float32(0.5), Decimal("1"), 2**60 + 1, float("inf"), float("nan"), None,
    pd.NA, pd.NaT, "x", " 1 ", "01", "true", "False", "0.5", b"x", b"\xff", "\ud800", dt.date(2020, 1, 1), [1], object(),
]  # fmt: skip


def read(kind: str, cells: object) -> np.ndarray:
    schema = Schema(columns={"c": COLUMNS[kind]})
    parts = [coded(b, schema)["c"] for b in batches({"c": cells}, ("c",))]
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", COLUMNS)
def test_no_cell_changes_how_another_is_read(kind):
    """All ordered pairs of kinds of cells, as lists, object arrays and pandas' objects."""
    alone = [read(kind, [cell])[0] for cell in CELLS]
    for i, j in permutations(range(len(CELLS)), 2):
        both = [CELLS[i], CELLS[j]]
        assert np.array_equal(read(kind, both), [alone[i], alone[j]]), (CELLS[i], CELLS[j])
    column = np.empty(len(CELLS), object)
    column[:] = CELLS
    for container in (CELLS, column, pd.Series(column)):
        assert np.array_equal(read(kind, container), alone)


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(
    "typed", [np.array([0, 1, 2]), np.array([True, False]), np.array([0.0, 0.5, 7.0]), np.array(["x", "1", "01"])]
)
def test_a_container_with_a_type_is_read_as_its_cells_are(kind, typed):
    assert np.array_equal(read(kind, typed), read(kind, typed.tolist()))
    assert np.array_equal(read(kind, typed), read(kind, [*typed.tolist(), object()])[:-1])


def test_categories_are_read_by_their_cells():
    plain = pd.Series([1, 2, 1], dtype="category")
    mixed = pd.Series(pd.Categorical([1, 2, 1, "x"], categories=[1, 2, "x"]))
    assert np.array_equal(read("numbers", plain), read("numbers", mixed)[:3])


def test_one_person_stays_one_whoever_else_there_is():
    def people(cells: list[object]) -> int:
        found = pa.concat_arrays([_named(b.column(0)) for b in batches({"c": cells}, ("c",))])
        return len(found.drop_null().unique())

    assert people([1, 1.0, 1]) == 1
    assert people([1, 1.0, "x"]) == 2
    assert people([2**60, 2**60 + 1, "x"]) == 3
    assert people([None, float("nan"), "  ", "x"]) == 1
    assert people([dt.date(2020, 1, 1), dt.date(2020, 1, 2)]) == 2
