"""Engines: the same release to the bit, whoever reads the rows; refusals in one sentence; changes noticed."""

from __future__ import annotations

import os
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ddssp.curate import columns_of, curate, engine_of, plan
from ddssp.engine import Engine
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import DataError
from ddssp.privacy.ledger import Ledger
from ddssp.schema import Schema
from ddssp.secret import lines
from ddssp.secret.table import opened

SCHEMA = Schema(
    name="survey",
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100, "bins": 10, "indicator": True},
        "grade": {"kind": "ordinal", "levels": 4},
        "plan": {"kind": "categorical", "levels": ["a", "b", "c"], "other": "rest"},
        "sick": {"kind": "boolean"},
    },
)
ROWS = 1500


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    age = [None if i % 7 == 0 else a for i, a in enumerate(rng.normal(50, 30, ROWS).round(2).tolist())]
    columns = {"age": age, "grade": rng.integers(0, 5, ROWS), "plan": rng.choice(["a", "b", "c", "?"], ROWS)}
    return pa.table(columns | {"sick": rng.integers(0, 2, ROWS).astype(bool), "year": rng.choice([2019, 2020], ROWS)})


def released(data, mechanism: str = "moments", engine: Engine | None = None, target: str | None = None) -> bytes:
    made = plan(SCHEMA, epsilon=1.0, delta=1e-6, mechanism=mechanism, target=target)
    return curate(data, made, noise=SeededNoise(3), engine=engine).to_bytes()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Name → data and engine."""
    folder, arrow = tmp_path_factory.mktemp("data"), table()
    pq.write_table(arrow, folder / "d.parquet", row_group_size=400)
    pyarrow.csv.write_csv(arrow, folder / "d.csv")
    (folder / "parts").mkdir()
    for i in range(3):
        pq.write_table(arrow.slice(i * 500, 500), folder / "parts" / f"{i}.parquet")
    ds.write_dataset(arrow, folder / "years", format="parquet", partitioning=["year"], partitioning_flavor="hive")
    with duckdb.connect(str(folder / "d.duckdb")) as connection:
        connection.register("given", arrow)
        connection.execute("CREATE TABLE survey AS SELECT * FROM given")
    return {
        "pandas": (arrow.to_pandas(), Engine()),
        "polars": (pl.from_arrow(arrow), Engine()),
        "lazy polars": (pl.from_arrow(arrow).lazy(), Engine(batch_rows=100)),
        "lazy polars of a file": (pl.scan_parquet(folder / "d.parquet"), Engine()),
        "Arrow": (arrow, Engine(batch_rows=7)),
        "Arrow reader": (arrow.to_reader(max_chunksize=64), Engine()),
        "Arrow dataset": (ds.dataset(folder / "parts"), Engine()),
        "NumPy structured": (arrow.to_pandas().fillna({"age": np.nan}).to_records(index=False), Engine()),
        "Parquet": (folder / "d.parquet", Engine(batch_rows=33)),
        "Parquet folder": (folder / "parts", Engine()),
        "Parquet folder by year": (folder / "years", Engine()),
        "URI": ((folder / "d.parquet").as_uri(), Engine()),
        "URI of a folder": ((folder / "parts").as_uri(), Engine()),
        "CSV": (folder / "d.csv", Engine(batch_rows=33)),
        "URI of CSV": ((folder / "d.csv").as_uri(), Engine()),
        "DuckDB relation": (duckdb.from_arrow(arrow), Engine()),
        "DuckDB on Parquet": (folder / "d.parquet", Engine(kind="duckdb")),
        "DuckDB on a folder": (folder / "parts", Engine(sql="SELECT age, grade, plan, sick FROM data")),
        "SQL on CSV": (folder / "d.csv", Engine(sql="SELECT * FROM data")),
        "SQL on pandas": (arrow.to_pandas(), Engine(sql="SELECT * FROM data")),
        "SQL on a database": (folder / "d.duckdb", Engine(sql="SELECT * FROM survey")),
    }


def test_moments_and_aim_are_the_same_to_the_bit(sources):
    for mechanism in ("moments", "aim"):
        expected = released(table(), mechanism)
        for name, (data, engine) in sources.items():
            if name != "Arrow reader" or mechanism == "moments":  # it can be read once
                assert released(data, mechanism, engine) == expected, (name, mechanism)


def test_task_is_the_same_to_the_bit(sources):
    expected = released(table(), "task", target="sick")
    for name in ("pandas", "lazy polars", "Parquet folder", "CSV", "DuckDB relation"):
        data, engine = sources[name]
        assert released(data, "task", engine, "sick") == expected, name


def test_threads_do_not_matter():
    assert released(table(), engine=Engine(threads=1)) == released(table(), engine=Engine(threads=3))


@pytest.mark.parametrize(
    "sql", ["COPY data TO 'out.csv'; SELECT * FROM data", "CREATE TABLE t AS SELECT * FROM data", "SELECT 1; SELECT 2"]
)
def test_sql_must_be_one_query(sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="sql must be a single SELECT"):
        opened(table(), Engine(sql=sql))
    assert not list(tmp_path.iterdir())


def test_files_that_sql_cannot_open_are_told_in_one_sentence(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name in ("absent.parquet", "none", "cut.parquet"):
        with pytest.raises(DataError, match=name):
            opened(tmp_path / name, Engine(sql="SELECT * FROM data"))


def test_sql_chooses_rows_and_columns(sources):
    path = sources["Parquet"][0]
    recent = table().filter(pa.compute.equal(table()["year"], 2020))
    assert released(path, engine=Engine(sql="SELECT * FROM data WHERE year = 2020")) == released(recent)
    named = 'SELECT grade + 0 AS grade, age, plan, sick, 1 AS "a""b" FROM data'
    assert 'a"b' in columns_of(path, Engine(sql=named))
    assert released(path, engine=Engine(sql=named)) == released(table())


QUERY = Engine(sql="SELECT * FROM data")


def test_a_query_over_a_folder_reads_the_columns_in_its_names_and_takes_no_name_for_a_pattern(tmp_path):
    rows = table()
    for name in ("rows[1]*", "rows1"):
        ds.write_dataset(rows, tmp_path / name, format="parquet", partitioning=["year"], partitioning_flavor="hive")
    query = Engine(sql="SELECT * FROM data WHERE year = 2020")
    assert released(tmp_path / "rows[1]*", engine=query) == released(rows.filter(ds.field("year") == 2020))


@pytest.mark.parametrize("plan", [("01", "10"), ("2020-01-01", "2021-01-01"), ("a", "b")])
def test_a_query_takes_folders_names_for_what_a_pass_without_takes_them(tmp_path, plan):
    rows = table().drop_columns("plan").append_column("plan", pa.array([plan[i % 2] for i in range(ROWS)]))
    ds.write_dataset(rows, tmp_path / "rows", format="parquet", partitioning=["plan"], partitioning_flavor="hive")
    assert released(tmp_path / "rows", engine=QUERY) == released(tmp_path / "rows")


@pytest.mark.parametrize("name", ["d.parquet", "parts"])
def test_folders_above_the_data_are_no_columns(tmp_path, name):
    place = tmp_path / "grade=3"
    (place / "parts").mkdir(parents=True)
    pq.write_table(table(), place / "d.parquet")
    pq.write_table(table(), place / "parts" / "0.parquet")
    assert released(place / name, engine=QUERY) == released(place / name) == released(table())


def test_a_query_reads_bytes_that_are_no_text_and_files_with_a_name_twice(tmp_path):
    plans = pa.array([b"a", b"\xff", b"b"] * (ROWS // 3), pa.binary()).view(pa.string())
    rows = table().drop_columns("plan").append_column("plan", plans)
    pq.write_table(rows, tmp_path / "odd.parquet")
    twice = pa.table([*rows.columns, rows["year"]], names=[*rows.column_names, "year"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    expected = released(tmp_path / "odd.parquet")
    assert released(tmp_path / "odd.parquet", engine=QUERY) == released(tmp_path / "twice.parquet", engine=QUERY) == expected


@pytest.mark.parametrize("ages", [[1.0, 2.0], [1.0, 2.5]])
def test_a_folder_whose_files_differ_in_a_type_is_refused_whatever_its_cells_hold(tmp_path, ages):
    pq.write_table(pa.table({"age": [1, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"age": ages}), tmp_path / "1.parquet")
    with pytest.raises(DataError, match="column 'age' must have one type in all files of a folder, got int64 and double"):
        list(opened(tmp_path).batches(("age",)))
    pq.write_table(pa.table({"age": pa.array([3, None], pa.int32())}), tmp_path / "1.parquet")
    assert sum(batch.num_rows for batch in opened(tmp_path).batches(("age",))) == 4


def test_a_query_reads_numbers_of_half_the_length(tmp_path):
    rows = table()
    half = rows.set_column(0, "age", rows["age"].cast(pa.float32()).cast(pa.float16()))
    pq.write_table(half, tmp_path / "half.parquet")
    assert released(tmp_path / "half.parquet", engine=QUERY) == released(half, engine=QUERY) == released(half)


def test_a_query_leaves_out_columns_whose_cells_are_too_long_to_read(tmp_path):
    rows = table().append_column("notes", pa.array(["x" * 2**19] * ROWS))
    pq.write_table(rows, tmp_path / "d.parquet", use_dictionary=False, compression="zstd")
    assert "notes" not in columns_of(tmp_path / "d.parquet", QUERY)
    assert released(tmp_path / "d.parquet", engine=QUERY) == released(table())


@pytest.mark.parametrize("name", ["SQL on pandas", "SQL on CSV", "SQL on a database"])
def test_duckdb_writes_no_rows_of_its_own_to_disk(sources, name):
    """What does not fit into memory is refused, where DuckDB would leave it in files that anybody can read."""
    asked = Engine(sql="SELECT current_setting('temp_directory') AS place")
    (batch,) = opened(sources[name][0], asked).batches(("place",))
    assert batch["place"].to_pylist() == [""]


def test_a_query_on_csv_reads_the_header_first_and_the_lines_once_for_each_scan(sources, monkeypatch):
    path, reads, records = sources["CSV"][0], [], lines.records
    monkeypatch.setattr(lines, "records", lambda *given: reads.append(given) or records(*given))
    query = Engine(sql="SELECT * FROM data WHERE year = '2020'")
    assert columns_of(path, query) == table().column_names
    assert (engine_of(path, query), reads) == ("duckdb", [])
    assert released(path, engine=query) == released(table().filter(pa.compute.equal(table()["year"], 2020)))
    assert len(reads) == 1
    twice = Engine(sql="SELECT x.* FROM data x SEMI JOIN data y ON x.year = y.year")
    assert released(path, engine=twice) == released(table())
    assert len(reads) == 3


def test_progress_of_a_query_on_csv_is_the_share_of_bytes(sources, monkeypatch):
    monkeypatch.setattr(lines, "BLOCK", 2**12)
    path, told = sources["CSV"][0], []
    list(opened(path, Engine(sql="SELECT * FROM data")).batches(("age",), told.append))
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert sum(0.05 < share < 0.95 for share in told) > 2


def test_who_reads(sources):
    chosen = {name: engine_of(data, engine) for name, (data, engine) in sources.items()}
    assert chosen["Parquet"] == chosen["pandas"] == chosen["CSV"] == "arrow"
    assert chosen["DuckDB relation"] == chosen["SQL on CSV"] == "duckdb"
    assert chosen["lazy polars"] == "polars"


BAD = {
    "engine": ({"kind": "ibis"}, "engine must be one of auto, arrow, duckdb, spark, got 'ibis'"),
    "master without spark": ({"kind": "arrow", "master": "local"}, "master is for engine spark"),
    "empty sql": ({"sql": "  "}, "sql must be a query, got an empty one"),
    "sql with spark": ({"kind": "spark", "sql": "SELECT 1"}, "sql is for engine duckdb"),
    "no rows": ({"batch_rows": 0}, "batch_rows must be a whole number from 1 to"),
    "no threads": ({"threads": 0}, "threads must be a whole number from 1 to 1024, got 0"),
    "half a row": ({"batch_rows": 1.5}, "batch_rows must be a whole number from 1 to 16777216, got 1.5"),
    "a number for a query": ({"sql": 5}, "sql must be a query, got 5"),
    "sql with arrow": ({"kind": "arrow", "sql": "SELECT 1"}, "leave the engine out"),
}


@pytest.mark.parametrize("case", BAD)
def test_settings_that_cannot_be(case):
    settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        Engine(**settings)


def test_a_query_that_fails_quotes_nothing_and_costs_nothing(tmp_path):
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    bad = Engine(sql="SELECT age, grade, CAST(plan AS INTEGER) AS plan, sick FROM data")
    with pytest.raises(DataError, match=r"the query fails in DuckDB \(\w+\); try it there, and cast with TRY_CAST") as caught:
        curate(table(), plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger), engine=bad)
    assert caught.value.__suppress_context__
    assert ledger.spent("survey") == 0
    with pytest.raises(DataError, match="fails in DuckDB"):
        columns_of(table(), Engine(sql="SELEC"))
    with pytest.raises(DataError, match="a DuckDB relation already"):
        opened(duckdb.sql("SELECT 1 a"), Engine(sql="SELECT 1"))


@pytest.mark.parametrize("name", ["d.parquet", "d.csv", "parts"])
@pytest.mark.parametrize("mechanism", ["moments", "task"])
def test_a_file_that_changes_during_the_count_ends_the_release_with_nothing_spent(tmp_path, name, mechanism):
    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    path = changed = tmp_path / name
    if name == "parts":
        path.mkdir()
        changed = path / "0.parquet"
    pyarrow.csv.write_csv(table(), path) if name == "d.csv" else pq.write_table(table(), changed)

    def change(what, share):
        if what == "counting" and share > 0:
            os.utime(changed, ns=(1, 1))

    made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism=mechanism, target="sick", ledger=ledger)
    sentence = r"^data must stay the same .* but the data changed while it was being read; make the release from a copy .*\.$"
    with pytest.raises(DataError, match=sentence):
        curate(path, made, progress=change)
    assert ledger.spent("survey") == 0


def test_progress_is_a_share_and_never_a_number_of_rows(sources):
    for name in ("pandas", "Arrow", "Parquet", "Parquet folder", "CSV"):
        data, engine = sources[name]
        told = []
        made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments")
        curate(data, made, noise=SeededNoise(0), engine=engine, progress=lambda *given, told=told: told.append(given))
        shares = [share for what, share in told if what == "counting"]
        assert shares == sorted(shares), name
        assert (shares[0], shares[-1]) == (0.0, 1.0), name
        assert {what for what, _ in told} == {"counting", "measuring blocks", "done"}


ESTIMATED = ("lazy polars of a file", "DuckDB relation", "DuckDB on Parquet", "DuckDB on a folder", "SQL on pandas")


@pytest.mark.parametrize("name", ESTIMATED)
def test_progress_follows_what_the_plan_of_a_query_expects(sources, name):
    data, engine = sources[name]
    told = []
    rows = sum(b.num_rows for b in opened(data, replace(engine, batch_rows=150)).batches(("age", "plan"), told.append))
    assert rows == ROWS
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert sum(0.05 < share < 0.95 for share in told) > 2, told


@pytest.mark.parametrize("engine", [None, Engine(kind="duckdb")])
def test_a_database_without_a_query_is_told_to_bring_one(sources, tmp_path, engine):
    renamed = tmp_path / "survey.db"
    renamed.write_bytes(sources["SQL on a database"][0].read_bytes())
    for path in (sources["SQL on a database"][0], renamed):
        with pytest.raises(DataError, match=r"is a DuckDB database, .*; say which with --sql \(in Python sql=\), as 'SELECT"):
            columns_of(path, engine)
        assert released(path, engine=Engine(sql="SELECT * FROM survey")) == released(table())


def test_a_folder_without_files_and_a_place_that_is_none(tmp_path):
    for path in (tmp_path, "s3:///", "nowhere://x/y.parquet", "file:///none/none.parquet"):
        with pytest.raises(DataError, match=r"cannot be read as Parquet|does not exist"):
            columns_of(path)


def test_data_that_can_be_read_once_is_refused_by_the_name_of_what_reads_it_twice():
    schema = Schema(columns={"x": {"kind": "boolean"}, "y": {"kind": "boolean"}})
    rows = pa.table({"x": [0, 1], "y": [1, 0], "who": [1, 2]})
    asked = {"epsilon": 1.0, "delta": 1e-6, "target": "y"}
    with pytest.raises(DataError, match=r"more than once for unit 'who'; .* or leave the unit out"):
        curate(rows.to_reader(), plan(schema, mechanism="moments", unit="who", max_rows=1, **asked), noise=SeededNoise(1))
    with pytest.raises(DataError, match=r"more than once for mechanism task; .* or use moments"):
        curate(rows.to_reader(), plan(schema, mechanism="task", **asked), noise=SeededNoise(1))


def test_the_name_of_an_engine_is_not_one():
    with pytest.raises(ValueError, match="engine must be an Engine, got 'duckdb'; pass ddssp"):
        opened({"a": [1]}, "duckdb")
