"""Counts against the judge: rows → integer z → sums of products, one record at a time."""

from __future__ import annotations

import copy
import pickle

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import judge
from ddssp.domain import TooLargeError
from ddssp.encoding import FIXED, Encoding, indicator, intercept
from ddssp.mechanism.moments import queries
from ddssp.schema import Schema
from ddssp.secret import counts as kernel
from ddssp.secret.counts import Counts, Layout, counts
from ddssp.secret.table import batches

SCHEMA = Schema(
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100, "indicator": True},
        "income": {"kind": "numeric", "low": -5, "high": 5, "fill": 0},
        "grade": {"kind": "ordinal", "levels": 4},
        "plan": {"kind": "categorical", "levels": ["a", "b", "c"], "other": "rest"},
        "town": {"kind": "categorical", "levels": ["x", "y"], "encoding": "one-hot"},
        "seat": {"kind": "categorical", "levels": ["n", "e"], "values": [[0.5, 1], [-1, 0]]},
        "sick": {"kind": "boolean"},
    },
    derived={
        "age2": {"function": "square", "of": "age"},
        "age:sick": {"function": "interaction", "of": ["age", "sick"]},
        "town:sick": {"function": "interaction", "of": ["town", "sick"]},
    },
)
BLOCKS = Encoding.centred(SCHEMA).blocks
LAYOUT = Layout.of(SCHEMA, BLOCKS)


def frame(rows: int, seed: int = 0) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    ages = rng.normal(50, 40, rows).round(2).tolist()
    return {
        "age": [None if i % 7 == 0 else a for i, a in enumerate(ages)],
        "income": rng.normal(0, 4, rows).tolist(),
        "grade": rng.integers(0, 6, rows).tolist(),
        "plan": rng.choice(["a", "b", "c", "zz"], rows).tolist(),
        "town": [None if i % 5 == 0 else str(t) for i, t in enumerate(rng.choice(["x", "y"], rows))],
        "seat": rng.choice(["n", "e"], rows).tolist(),
        "sick": rng.integers(0, 2, rows).astype(bool).tolist(),
    }


def counted(source) -> Counts:
    return counts(batches(source, tuple(SCHEMA.columns)), LAYOUT)


def everything(c: Counts) -> dict[str, object]:
    """All exact statistics as plain lists, to compare."""
    return {
        "n": c.n,
        "sums": c.sums.tolist(),
        "gram": [[int(v) for v in row] for row in c.gram],
        "one": {k: v.tolist() for k, v in c.one.items()},
        "pair": {k: v.tolist() for k, v in c.pair.items()},
        "cross": {k: v.tolist() for k, v in c.cross.items()},
    }


def test_every_statistic_equals_the_judges():
    table = frame(400)
    c, rows = counted(table), judge.records(table)
    assert c.n == 400
    numbers = LAYOUT.numbers
    for i, left in enumerate(numbers):
        values = [judge.numerators(r, left, SCHEMA)[0] for r in rows]
        assert c.sums[i] == sum(values)
        for j, right in enumerate(numbers):
            assert c.gram[i, j] == sum(a * judge.numerators(r, right, SCHEMA)[0] for a, r in zip(values, rows, strict=True))
    for name, m in LAYOUT.tables:
        codes = [judge.value(r, name, SCHEMA) for r in rows]
        assert c.one[name].tolist() == [codes.count(a) for a in range(m)]
        for i, block in enumerate(numbers):
            for a in range(m):
                of_level = [judge.numerators(r, block, SCHEMA)[0] for r, code in zip(rows, codes, strict=True) if code == a]
                assert c.cross[name][i, a] == sum(of_level)
        for other, k in LAYOUT.tables:
            if (name, other) in c.pair:
                seen = [(judge.value(r, name, SCHEMA), judge.value(r, other, SCHEMA)) for r in rows]
                assert c.pair[name, other].tolist() == [[seen.count((a, b)) for b in range(k)] for a in range(m)]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "age": st.none() | st.floats(allow_nan=True, width=32),
                "income": st.floats(-6, 6),
                "grade": st.integers(-1, 5),
                "plan": st.sampled_from(["a", "b", "c", "?"]) | st.none(),
                "town": st.sampled_from(["x", "y", "q"]) | st.none(),
                "seat": st.sampled_from(["n", "e"]),
                "sick": st.booleans() | st.none(),
            }
        ),
        max_size=8,
    )
)
def test_any_rows_give_the_judges_answer_to_every_query(rows):
    from fractions import Fraction

    from ddssp.experiments.noise import NoNoise
    from ddssp.secret.vault import Vault

    table = pa.Table.from_pylist(rows, schema=_arrow())
    vault = Vault(counted(table), Fraction(10**9), NoNoise())
    asked = queries(Encoding.centred(SCHEMA))
    for query, got in zip(asked, vault.measure(asked, [1.0] * len(asked)), strict=True):
        expected = np.array(judge.answer(rows, query, SCHEMA), float) / query.lattice
        assert np.array_equal(got, expected), query.clique


def _arrow() -> pa.Schema:
    kinds = [pa.float64(), pa.float64(), pa.int64(), pa.string(), pa.string(), pa.string(), pa.bool_()]
    return pa.schema(list(zip(SCHEMA.columns, kinds, strict=True)))


def test_every_source_gives_identical_counts(tmp_path):
    table = frame(3000)
    arrow = pa.table(table, schema=_arrow())
    pq.write_table(arrow, tmp_path / "d.parquet", row_group_size=700)
    pa.csv.write_csv(arrow, tmp_path / "d.csv")
    (tmp_path / "text.csv").write_text(pd.DataFrame(table).to_csv(index=False))
    sources = {
        "pandas": pd.DataFrame(table),
        "pandas categories": pd.DataFrame(table).astype({"plan": "category", "town": "category", "sick": "category"}),
        "pandas objects": pd.DataFrame(table).astype(object),
        "pandas Arrow": pd.DataFrame(table).convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.DataFrame(table),
        "polars categories": pl.DataFrame(table).with_columns(pl.col("plan", "town").cast(pl.Categorical)),
        "lazy": pl.LazyFrame(table),
        "Arrow": arrow,
        "Arrow dictionaries": pa.table(
            {n: c.dictionary_encode() for n, c in zip(arrow.column_names, arrow.columns, strict=True)}
        ),
        "reader": pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=11)),
        "DuckDB": duckdb.from_arrow(arrow),
        "Parquet": tmp_path / "d.parquet",
        "Parquet by name": str(tmp_path / "d.parquet"),
        "CSV": tmp_path / "d.csv",
        "CSV of pandas": tmp_path / "text.csv",
    }
    expected = everything(counted(table))
    for name, source in sources.items():
        assert everything(counted(source)) == expected, name


@pytest.mark.parametrize("size", [1, 63, 64, 199, 200, 5000])
def test_batch_boundaries_do_not_matter(size, monkeypatch):
    table = pa.table(frame(200), schema=_arrow())
    expected = everything(counted(table))
    monkeypatch.setattr(kernel, "ROWS", 64)
    got = counts(table.to_batches(max_chunksize=size), LAYOUT)
    assert everything(got) == expected


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("small", [0, kernel.SMALL])
@pytest.mark.parametrize("most", [100, kernel.MOST])
def test_threads_and_the_size_of_partial_sums_do_not_matter(threads, small, most, monkeypatch):
    table = pa.table(frame(700), schema=_arrow())
    expected = everything(counted(table))
    monkeypatch.setattr(kernel, "ROWS", 64)
    monkeypatch.setattr(kernel, "SMALL", small)
    monkeypatch.setattr(kernel, "MOST", most)
    batches = table.to_batches(max_chunksize=90)
    vectors = list(kernel.partials(batches, LAYOUT, threads=threads))
    assert all(v[0] <= most for v in vectors)
    assert everything(Counts.of(vectors, LAYOUT)) == expected


def test_a_failure_in_a_thread_ends_the_pass():
    with pytest.raises(KeyError):
        counts([pa.record_batch({"other": [1]})] * 5, LAYOUT, threads=2)


def test_order_of_rows_does_not_matter():
    table = pa.table(frame(500), schema=_arrow())
    shuffled = table.take(np.random.default_rng(1).permutation(500))
    assert everything(counted(shuffled)) == everything(counted(table))


def test_no_rows():
    c = counted(pa.table(frame(0), schema=_arrow()))
    assert c.n == 0
    assert not c.sums.any()
    assert not any(t.any() for t in c.pair.values())


def test_large_tables_are_counted_without_walking_through_them():
    schema = Schema(columns={c: {"kind": "categorical", "levels": 1500} for c in "ab"})
    layout = Layout.of(schema, [indicator("a", 1500), indicator("b", 1500)])
    assert 4 * kernel.ROWS < 1500**2
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 1500, (2, 1000))
    got = counts(batches({"a": a, "b": b}, ("a", "b")), layout).pair["a", "b"]
    expected = np.zeros((1500, 1500), np.int64)
    np.add.at(expected, (a, b), 1)
    assert np.array_equal(got, expected)


def test_a_chunk_of_the_largest_products_is_exact_in_float64():
    assert kernel.ROWS * FIXED**2 < 2**53
    assert kernel.ROWS * (2**16 - 1) ** 2 < 2**53  # an ordinal column of the most levels


def test_sums_of_products_do_not_overflow_64_bits():
    schema = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}})
    layout = Layout.of(schema, Encoding.centred(schema))
    c = counts(batches({"x": [1.0]}, ("x",)), layout)
    c.gram *= 2**34  # as if 17 billion rows had been seen
    c.gram += FIXED**2
    assert int(c.gram[0, 0]) == FIXED**2 * (2**34 + 1) > 2**63


def test_a_layout_too_large_is_refused():
    schema = Schema(columns={"x": {"kind": "categorical", "levels": 2}})
    layout = Layout(schema=schema, tables=(("x", 10**6),), numbers=())
    with pytest.raises(TooLargeError):
        Counts.of([], layout)


def test_layout_counts_tables_for_levels_and_numbers_for_scalars():
    assert [name for name, _ in LAYOUT.tables] == ["plan", "town", "seat", "town:sick"]
    assert [b.column for b in LAYOUT.numbers] == ["age", "income", "grade", "sick", "age:missing", "age2", "age:sick"]
    only = Layout.of(SCHEMA, [intercept()])
    assert (only.tables, only.numbers) == ((), ())


def test_counts_do_not_print_pickle_or_copy():
    c = counted(frame(10))
    assert repr(c) == str(c) == f"{c}" == "<Counts: secret>"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds secret data and cannot be pickled or copied"):
            leave(c)
