"""Stamps: a file behind a dataset, a lazy frame, a relation or a query that changes during a pass ends the release."""

from __future__ import annotations

import os

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ddssp.curate import curate, plan
from ddssp.engine import Engine
from ddssp.frame import DataError
from ddssp.privacy.ledger import Ledger
from ddssp.schema import Schema
from ddssp.secret.engines import stamps
from ddssp.secret.table import opened

SCHEMA = Schema(name="survey", columns={"a": {"kind": "categorical", "levels": 3}, "b": {"kind": "boolean"}})
ROWS = pa.table({"a": [0, 1, 2, 2] * 50, "b": [0, 1] * 100})

SOURCES = {
    "Arrow dataset": lambda folder: (ds.dataset(folder / "parts"), None),
    "union of datasets": lambda folder: (ds.dataset([ds.dataset(folder / "parts"), ds.dataset(folder / "more")]), None),
    "lazy polars": lambda folder: (pl.scan_parquet(folder / "parts" / "*.parquet").filter(pl.col("a") < 9), None),
    "lazy polars of a folder": lambda folder: (pl.scan_parquet(folder / "parts"), None),
    "lazy polars of two": lambda folder: (pl.concat([pl.scan_csv(folder / "d.csv"), scan(folder)]), None),
    "DuckDB relation": lambda folder: (duckdb.read_parquet(str(folder / "parts" / "0.parquet")).filter("a < 9"), None),
    "DuckDB query": lambda folder: (duckdb.sql(f"SELECT * FROM '{folder}/parts/*.parquet' WHERE a < 9"), None),
    "SQL naming a file": lambda folder: (ROWS, Engine(sql=f"SELECT * FROM read_parquet(['{folder}/parts/0.parquet'])")),
    "SQL within a query": lambda folder: (
        folder / "d.csv",
        Engine(
            sql=f"WITH r AS (SELECT a FROM '{folder}/parts/0.parquet') SELECT * FROM data WHERE a IN (SELECT a::VARCHAR FROM r)"
        ),
    ),
}


def scan(folder):
    return pl.scan_parquet(folder / "parts" / "0.parquet")


@pytest.fixture
def folder(tmp_path):
    for name in ("parts", "more"):
        (tmp_path / name).mkdir()
        pq.write_table(ROWS, tmp_path / name / "0.parquet")
    pyarrow.csv.write_csv(ROWS, tmp_path / "d.csv")
    return tmp_path


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_behind_it_that_changes_ends_the_release_with_nothing_spent(folder, name):
    ledger = Ledger(folder / "l.db")
    ledger.set_budget("survey", 2.0, 1e-6)
    data, engine = SOURCES[name](folder)
    made = plan(SCHEMA, epsilon=0.1, delta=1e-7, mechanism="moments", ledger=ledger)

    def change(what, share):
        if what == "counting" and share > 0:
            os.utime(folder / "parts" / "0.parquet", ns=(1, 1))

    with pytest.raises(DataError, match="changed while it was being read"):
        curate(data, made, engine=engine, progress=change)
    assert ledger.spent("survey") == 0
    assert curate(data, made, engine=engine).private  # unchanged meanwhile, it is released


def test_a_file_added_to_a_pattern_is_a_change(folder):
    source = opened(duckdb.sql(f"SELECT * FROM '{folder}/parts/*.parquet'"))
    before = source.stamp()
    assert before == source.stamp()
    pq.write_table(ROWS, folder / "parts" / "1.parquet")
    assert source.stamp() != before


def test_what_has_no_files_has_no_stamp_and_is_read(folder):
    for data in (pl.from_arrow(ROWS).lazy(), duckdb.from_arrow(ROWS), ds.dataset(ROWS)):
        source = opened(data)
        assert source.stamp() in (None, (None, None))
        assert sum(b.num_rows for b in source.batches(("a",))) == 200
    assert stamps.of_query("SELECT 'a' FROM t WHERE b = 'no file'") is None
    assert stamps.of_query("no SQL") is None


def test_constants_that_are_no_files_do_not_matter(folder):
    written = f"SELECT * FROM read_csv('{folder}/d.csv', delim = ',', nullstr = '{folder}/none', comment = '\0x')"
    assert stamps.of_query(written.replace("\0", "")) == stamps.of_names([str(folder / "d.csv")])
    assert stamps.of_names(["x" * 5000, "a\0b", "[", "**\0"]) is None


def test_a_ledger_beside_the_rows_is_not_taken_for_them(folder):
    """It changes with the release itself, and `task` reads the rows again after that."""
    hidden = folder / "parts" / ".ledger.db"
    ledger = Ledger(hidden)
    ledger.set_budget("survey", 2.0, 1e-6)
    made = plan(SCHEMA, epsilon=1.0, delta=1e-6, mechanism="task", target="b", ledger=ledger)
    assert curate(folder / "parts", made).fitted is not None


def test_options_of_a_reader_are_no_files(folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = stamps.of_query("SELECT * FROM read_csv('d.csv', decimal_separator='.')")
    assert [os.path.basename(path) for path, _, _ in found] == ["d.csv"]


def test_a_new_file_in_a_folder_is_noticed(folder):
    source = opened(folder / "parts", None)
    before = source.stamp()
    pq.write_table(ROWS, folder / "parts" / "1.parquet")
    assert source.stamp() != before
