"""Frames: one adapter, the same batches from everything; structure may fail, content never."""

from __future__ import annotations

import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ddssp import frame
from ddssp.frame import DataError, batches

CELLS = {"a": [1, 2, None], "b": ["x", None, "z"], "c": [True, False, True]}


def read(source, columns=("b", "a")) -> dict[str, list]:
    table = pa.Table.from_batches(list(batches(source, columns)))
    return {name: table.column(name).to_pylist() for name in table.column_names}


class Stream:
    """Anything with __arrow_c_stream__."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


SOURCES = {
    "mapping": lambda: CELLS,
    "pandas": lambda: pd.DataFrame(CELLS),
    "polars": lambda: pl.DataFrame(CELLS),
    "lazy polars": lambda: pl.LazyFrame(CELLS),
    "table": lambda: pa.table(CELLS),
    "batch": lambda: pa.RecordBatch.from_pydict(CELLS),
    "reader": lambda: pa.RecordBatchReader.from_batches(pa.table(CELLS).schema, pa.table(CELLS).to_batches()),
    "stream": lambda: Stream(pa.table(CELLS)),
    "duckdb": lambda: duckdb.from_arrow(pa.table(CELLS)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_asked_columns_in_order(kind):
    assert read(SOURCES[kind]()) == {"b": CELLS["b"], "a": CELLS["a"]}


@pytest.mark.parametrize("kind", [k for k in SOURCES if k != "stream"])
def test_names_are_the_columns_names_and_no_content(kind):
    assert frame.names(SOURCES[kind]()) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", SOURCES)
def test_absent_column(kind):
    with pytest.raises(DataError, match="column 'nope' of the schema is absent from the data; rename it in one of the two"):
        list(batches(SOURCES[kind](), ("nope",)))


@pytest.mark.parametrize("source", [{"a": []}, pd.DataFrame({"a": []}), pl.DataFrame({"a": []}), pa.table({"a": []})])
def test_no_rows_is_a_batch_of_none(source):
    got = list(batches(source, ("a",)))
    assert [b.num_rows for b in got] in ([0], [0, 0])
    assert got[0].schema.names == ["a"]


def test_column_twice():
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(DataError, match="column 'a' appears twice in the data; drop one of them"):
        list(batches(twice, ("a",)))
    assert read(pd.DataFrame([[1, 2, 3]], columns=["a", "a", "b"]), ("b",)) == {"b": [3]}


def test_column_names_that_are_not_text():
    assert read(pd.DataFrame({0: [1], 1: [2]}), ("1",)) == {"1": [2]}
    assert read({0: [1]}, ("0",)) == {"0": [1]}


class Mean:
    """A cell that refuses everything."""

    def __ne__(self, other):
        raise RuntimeError("secret cell")

    def __str__(self):
        raise RuntimeError("secret cell")


MIXED = {
    "numbers and text": ([1, "a", None], [1, "a", None]),
    "pandas' NA among text": ([1, "a", pd.NA], [1, "a", None]),
    "NaN among text": ([1, "a", float("nan")], [1, "a", None]),
    "arrays among text": ([np.array([1, 2]), "a", 3], [None, "a", 3]),
    "beyond 64 bits": ([2**70, 1], [str(2**70), 1]),
    "signalling NaN": ([decimal.Decimal("sNaN"), "a"], [None, "a"]),
    "lone surrogate": (["\ud800", "a"], ["?", "a"]),
    "bytes among text": (["a", b"\xff", 1], ["a", "�", 1]),
    "refuses everything": ([Mean(), "a"], [None, "a"]),
}


@pytest.mark.parametrize("case", MIXED)
@pytest.mark.parametrize("build", [lambda c: {"a": c}, lambda c: pd.DataFrame({"a": pd.Series(c, dtype=object)})], ids=["map", "pandas"])  # fmt: skip # noqa: E501
def test_mixed_cells_become_numbers_or_words_and_never_raise(case, build):
    cells, expected = MIXED[case]
    found = read(build(cells), ("a",))["a"]
    words = [(c["number"] if c["word"] is None else c["word"]) if isinstance(c, dict) else c for c in found]
    assert [w.decode("utf-8", "replace") if isinstance(w, bytes) else w for w in words] == expected


def test_structure_fails_in_one_sentence():
    for source in (3, [1, 2], None):
        with pytest.raises(DataError, match="data must be a path, a frame or anything with __arrow_c_stream__"):
            list(batches(source, ("a",)))
    with pytest.raises(DataError, match="must have equal length"):
        list(batches({"a": [1], "b": [1, 2]}, ("a", "b")))
    with pytest.raises(DataError, match="column 'a' must be a sequence of values, got int"):
        list(batches({"a": 5}, ("a",)))
    with pytest.raises(DataError, match="data must be a path or a frame"):
        frame.names(3)


def test_a_query_that_fails_does_not_show_its_cells():
    lazy = pl.LazyFrame({"a": ["secret"]}).with_columns(pl.col("a").cast(pl.Int64))
    with pytest.raises(DataError) as caught:
        list(batches(lazy, ("a",)))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_stream_that_breaks_off_does_not_show_its_cells():
    schema = pa.schema([("a", pa.int64())])

    def broken():
        yield pa.record_batch({"a": [1]}, schema)
        raise pa.ArrowInvalid("secret 17")

    with pytest.raises(DataError, match="broke off") as caught:
        list(batches(pa.RecordBatchReader.from_batches(schema, broken()), ("a",)))
    assert "secret" not in str(caught.value)
