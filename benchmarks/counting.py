"""Counting all pairs: speed against other engines, memory, growth with n, wide schemas.

    python benchmarks/counting.py table            # 1M rows in memory: pandas, polars, DuckDB, ours with and without numba
    python benchmarks/counting.py stream           # 20M rows from Parquet, against DuckDB
    python benchmarks/counting.py spark            # mapInArrow against grouping sets, local[2]
    python benchmarks/counting.py scale            # 1M … 200M rows from Parquet: memory, and the exponent of time
    python benchmarks/counting.py wide             # 500 numeric columns: a whole moments release
    python benchmarks/counting.py levels           # 100 columns of 50 levels: counts, and a whole release
    python benchmarks/counting.py all              # all of them; about 15 minutes on two idle cores, 3 GB of disk

What each finds is kept in benchmarks/results/counting.json, and counting.md beside it is written anew from that. Ratios are
taken within one run. Seconds are the best of equally many runs for every contender, taken in turn, of wall time and of
processor time (all threads and helper processes): on a busy machine the second is fairer. Memory is that of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from counting_report import DUCKDB, GROUPING, MEMORY, NUMBA, PANDAS, circumstances, kept, promised
from ddssp.encoding import Encoding, indicator
from ddssp.schema import Schema
from ddssp.secret import kernel
from ddssp.secret.counts import Counts, Layout, partials
from ddssp.secret.table import opened
from measuring import best, timed, watched

SIZES = [2, 2, 3, 5, 7, 9, 12, 16, 20, 24, 32, 41, 60, 80, 100]
NAMES = [f"c{i}" for i in range(len(SIZES))]
PAIRS = list(combinations(NAMES, 2))
MILLION = 1_000_000
TIMES = {"table": 5, "stream": 3, "spark": 2, "scale": 3}
"""Runs of every contender, or of every number of rows, of which the best counts."""
RESULTS = Path(__file__).parent / "results" / "counting.md"


def rows(n: int, seed: int = 0) -> pa.Table:
    """Integer columns, as skewed as counts of people are."""
    rng = np.random.default_rng(seed)
    cells = [np.minimum(rng.geometric(min(3 / m, 0.9), n) - 1, m - 1) for m in SIZES]
    return pa.table(dict(zip(NAMES, cells, strict=True)))


def layout(sizes: list[int] = SIZES, names: list[str] = NAMES) -> Layout:
    schema = Schema(columns={name: {"kind": "categorical", "levels": m} for name, m in zip(names, sizes, strict=True)})
    return Layout.of(schema, Encoding(tuple(indicator(name, m) for name, m in zip(names, sizes, strict=True))))


def ours(table: pa.Table) -> Counts:
    what = layout()
    return Counts.of(partials(table.to_batches(max_chunksize=2**18), what), what)


@contextmanager
def without_numba() -> Iterator[None]:
    was, installed = kernel._kernel, kernel.is_installed
    kernel._kernel, kernel.is_installed = lambda: None, lambda: False
    kernel._kernel.cache_info = was.cache_info
    kernel.compiled.cache_clear()
    yield
    kernel._kernel, kernel.is_installed = was, installed
    kernel.compiled.cache_clear()


def in_numpy(table: pa.Table) -> Counts:
    with without_numba():
        return ours(table)


def in_duckdb(connection, source: str) -> list:
    parts = [f"SELECT {i} p, {j} a, {k} b, count(*) n FROM {source} GROUP BY ALL" for i, (j, k) in enumerate(PAIRS)]
    return connection.execute(" UNION ALL ".join(parts)).fetchall()


def table() -> dict[str, object]:
    import duckdb
    import pandas as pd
    import polars as pl

    data = rows(MILLION)
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute("CREATE TABLE data AS SELECT * FROM given")
    frame = data.to_pandas()
    few = PAIRS[:: len(PAIRS) // 15]
    assert kernel.compiled() is not None, "numba is needed"
    lazy = pl.from_arrow(data).lazy()
    contenders = {
        NUMBA: lambda: ours(data),
        "ours, numpy": lambda: in_numpy(data),
        DUCKDB: lambda: in_duckdb(connection, "data"),
        "polars, all pairs at once": lambda: pl.collect_all([lazy.group_by(list(p)).len() for p in PAIRS]),
        PANDAS: lambda: [pd.crosstab(frame[j], frame[k]) for j, k in few],
    }
    seconds = best(contenders, TIMES["table"])
    seconds[PANDAS] = tuple(s * len(PAIRS) / len(few) for s in seconds[PANDAS])
    exact = ours(data)
    assert sum(n for p, _, _, n in in_duckdb(connection, "data") if p == 7) == exact.n == MILLION
    return {"seconds": seconds, "limit": limit(len(data)), "times": TIMES["table"]}


def limit(n: int) -> list[float]:
    """Wall and processor seconds of the increments alone, on codes in the cache, and of one reading of the codes."""
    merging, fast = layout().merging, kernel.compiled()
    codes = merging.pairs.codes(2**14)
    codes[...] = (np.random.default_rng(0).random(codes.shape) * merging.pairs.sizes[:, None]).astype(codes.dtype)
    counted, memory = np.zeros(merging.pairs.cells, np.int64), np.ones(2**27, np.uint8)
    assert fast is not None
    parts = {"chunks": lambda: [fast(codes, merging.pairs, counted) for _ in range(20)], "read": memory.view(np.uint64).sum}
    chunks, read = best(parts, TIMES["table"]).values()
    return [c * n / (20 * codes.shape[1]) + r * n * len(SIZES) / len(memory) for c, r in zip(chunks, read, strict=True)]


@contextmanager
def parquet(millions: int) -> Iterator[Path]:
    """A folder of generated files of a million rows each; removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        kinds = pa.schema([(name, pa.int8()) for name in NAMES])
        pool = pa.concat_tables([rows(MILLION, seed).cast(kinds) for seed in range(3)]).combine_chunks()

        def write(i: int) -> None:
            pq.write_table(pool.slice(i * 7919 % (2 * MILLION), MILLION), Path(folder) / f"{i:04}.parquet")

        with ThreadPoolExecutor(os.cpu_count(), initializer=on_all_cores) as writers:
            list(writers.map(write, range(millions)))
        yield Path(folder)


def on_all_cores() -> None:
    """Lifts the restriction to some cores from this thread: it is for what is measured."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


@contextmanager
def first(folder: Path, files: int) -> Iterator[Path]:
    """A folder with the first files of another."""
    with tempfile.TemporaryDirectory() as chosen:
        for file in sorted(folder.iterdir())[:files]:
            (Path(chosen) / file.name).symlink_to(file)
        yield Path(chosen)


def alone(what: str, *arguments: object) -> dict[str, float]:
    """Seconds and peak memory of a count in a process of its own, its helpers included."""
    command = [sys.executable, __file__, "alone", what, *map(str, arguments), "--cores", str(len(os.sched_getaffinity(0)))]
    printed, peak = watched(command)
    return json.loads(printed.splitlines()[-1]) | {"MB": peak}


def measured(run: Callable[[], object], **told: float) -> None:
    """Prints what one run took, for the process that asked, and what that process knew before."""
    wall, cpu = timed(run)
    print(json.dumps({"wall": wall, "cpu": cpu} | told))


def count_file(path: str) -> None:
    import pyarrow.dataset  # noqa: F401  (what is measured is the pass, not the loading of libraries)

    what = layout()
    kernel.compiled()
    ours(rows(100))
    measured(lambda: Counts.of(opened(path).folded(tuple(NAMES), lambda b: partials(b, what)), what))


def duckdb_file(path: str) -> None:
    import duckdb

    measured(lambda: in_duckdb(duckdb.connect(), f"'{path}/*.parquet'"))


STREAMED = {NUMBA: "count_file", "DuckDB, UNION ALL": "duckdb_file"}


def stream(millions: int = 20) -> dict[str, object]:
    with parquet(millions) as path:
        rounds = [{name: alone(what, path) for name, what in STREAMED.items()} for _ in range(TIMES["stream"])]
    seconds = {name: [min(found[name][key] for found in rounds) for key in ("wall", "cpu")] for name in STREAMED}
    memory = {name: max(found[name]["MB"] for found in rounds) for name in STREAMED}
    return {"rows": millions, "seconds": seconds, "MB": memory, "times": TIMES["stream"]}


def scale(millions: int = 200) -> dict[str, object]:
    """Time against n, from a million rows to `millions`; compiled beforehand, as after the first run on a machine.

    All sizes in turn, and again: a machine that is slower for some minutes is so for all of them.
    """
    steps = [m for m in (1, 2, 5, 10, 20, 50, 100, 200, 1000) if m <= millions]
    out: dict[int, dict[str, float]] = {}
    with parquet(millions) as folder:
        disk = sum(f.stat().st_size for f in folder.iterdir()) / 2**20
        for _ in range(TIMES["scale"]):
            for m in steps:
                with first(folder, m) as path:
                    found = alone("count_file", path)
                best_so_far = out.get(m, found)
                out[m] = {k: (max if k == "MB" else min)(found[k], best_so_far[k]) for k in ("wall", "cpu", "MB")}
                print(m, json.dumps(found), file=sys.stderr, flush=True)
    slope = {k: float(np.polyfit(np.log(steps), np.log([out[m][k] for m in steps]), 1)[0]) for k in ("wall", "cpu")}
    return {"steps": out, "exponent": slope, "disk MB": disk, "times": TIMES["scale"]}


def spark(millions: int = 1) -> dict[str, object]:
    """One frame, cached in memory, counted twice; the JVM has memory to spare, so that neither spills to disk."""
    from pyspark.sql import SparkSession

    from ddssp.secret.engines.spark import SparkRows

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("counting")
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    session, what = builder.getOrCreate(), layout()
    session.sparkContext.setLogLevel("ERROR")
    with parquet(millions) as path:
        data = session.read.parquet(str(path)).repartition(4).persist()
        data.count()
        data.createOrReplaceTempView("data")
        sets = ", ".join(f"({j}, {k})" for j, k in PAIRS)
        query = f"SELECT {', '.join(NAMES)}, count(*) n FROM data GROUP BY GROUPING SETS ({sets})"
        fold = partial(partials, layout=what, threads=1)

        def mapped() -> Counts:
            return Counts.of(SparkRows(data).folded(tuple(NAMES), fold), what)

        def grouped() -> None:
            found[:] = session.sql(query).collect()

        found: list = []
        table = rows(millions * MILLION)
        starting = timed(mapped)
        contenders = {"ours, mapInArrow": mapped, GROUPING: grouped, MEMORY: lambda: ours(table)}
        seconds = best(contenders, TIMES["spark"]) | {"ours, mapInArrow, the first pass (once)": starting}
        assert len(found) == sum(int((cells > 0).sum()) for cells in mapped().pair.values())
    with parquet(LARGER * millions) as path:
        more = SparkRows(session.read.parquet(str(path)))
        (larger, _) = best({"": lambda: Counts.of(more.folded(tuple(NAMES), fold), what)}, TIMES["spark"])[""]
    session.stop()
    larger_rows = {"rows": LARGER * millions, "wall": larger}
    return {"rows": millions, "seconds": seconds, "settings": SPARK, "larger": larger_rows, "times": TIMES["spark"]}


LARGER = 10
SPARK = {
    "spark.driver.memory": "6g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def wide() -> dict[str, object]:
    return {"whole": alone("wide_release")}


def levels() -> dict[str, object]:
    return {"counts": alone("levels_release", "counts"), "whole": alone("levels_release", "whole")}


def wide_release(columns: int = 500) -> None:
    """A whole moments release of numeric columns, 1M rows."""
    one = np.random.default_rng(0).normal(0, 1, 2 * MILLION)
    data = pa.table({f"x{i}": one[i * 1999 : i * 1999 + MILLION] for i in range(columns)})
    _release(data, Schema(columns={f"x{i}": {"kind": "numeric", "low": -4, "high": 4} for i in range(columns)}), "whole")


def levels_release(what: str, columns: int = 100, of: int = 50) -> None:
    """Counts, or a whole moments release, of columns with many levels, 1M rows."""
    one = np.random.default_rng(0).integers(0, of, 2 * MILLION).astype(np.int8)
    data = pa.table({f"x{i}": one[i * 1999 : i * 1999 + MILLION] for i in range(columns)})
    _release(data, Schema(columns={f"x{i}": {"kind": "categorical", "levels": of} for i in range(columns)}), what)


def _release(data: pa.Table, schema: Schema, what: str) -> None:
    import ddssp
    from ddssp.curate import plan

    made = plan(schema, epsilon=1, delta=1e-6, mechanism="moments")
    told = {"draws": made.cost.draws or 0, "estimated MB": made.cost.bytes / 2**20}
    if what == "counts":
        measured(lambda: Counts.of(partials(data.to_batches(2**18), made.layout), made.layout), **told)
    else:
        measured(lambda: ddssp.release(data, schema, epsilon=1, delta=1e-6, mechanism="moments").to_bytes(), **told)


MEASURED = {f.__name__: f for f in (table, stream, spark, scale, wide, levels)}
ALONE = {f.__name__: f for f in (count_file, duckdb_file, wide_release, levels_release)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*MEASURED, "all", "alone"])
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help="millions of rows, of stream, spark and scale")
    parser.add_argument("--cores", type=int, help="cores to be measured on; default: all")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="the report; what was found is kept beside it")
    given = parser.parse_args()
    os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.gettempdir())
    if given.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    if given.what == "alone":
        ALONE[given.more[0]](*given.more[1:])
        return
    for what in MEASURED if given.what == "all" else [given.what]:
        before, start = circumstances(what, sys.argv[2:]), time.monotonic()
        sized = {"millions": given.rows} if given.rows and what in ("stream", "spark", "scale") else {}
        print(kept(what, before | json.loads(json.dumps(MEASURED[what](**sized))), given.output), flush=True)
        print(f"{what}: {time.monotonic() - start:.0f} s in all", file=sys.stderr, flush=True)
    print(promised(given.output))


if __name__ == "__main__":
    main()
