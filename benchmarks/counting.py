"""Counting all pairs: speed against other engines, memory, growth with n, wide schemas. Prints ratios.

    python benchmarks/counting.py table            # 1M rows in memory: pandas, polars, DuckDB, ours with and without numba
    python benchmarks/counting.py stream           # 20M rows from Parquet, against DuckDB
    python benchmarks/counting.py spark            # mapInArrow against grouping sets, local[2]
    python benchmarks/counting.py scale --rows 200 # 1M … 200M rows from Parquet: memory, and the exponent of time
    python benchmarks/counting.py wide             # 500 numeric columns: a whole moments release
    python benchmarks/counting.py levels           # 100 columns of 50 levels: counts, and a whole release

Seconds are the best of several, of wall time and of processor time (all threads): on a busy machine the second is fairer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ddssp.encoding import Encoding, indicator
from ddssp.schema import Schema
from ddssp.secret import kernel
from ddssp.secret.counts import Counts, Layout, partials
from ddssp.secret.table import opened

SIZES = [2, 2, 3, 5, 7, 9, 12, 16, 20, 24, 32, 41, 60, 80, 100]
NAMES = [f"c{i}" for i in range(len(SIZES))]
PAIRS = list(combinations(NAMES, 2))
MILLION = 1_000_000


def rows(n: int, seed: int = 0) -> pa.Table:
    """Integer columns, as skewed as counts of people are."""
    rng = np.random.default_rng(seed)
    cells = [np.minimum(rng.geometric(min(3 / m, 0.9), n) - 1, m - 1) for m in SIZES]
    return pa.table(dict(zip(NAMES, cells, strict=True)))


def layout(sizes: list[int] = SIZES, names: list[str] = NAMES) -> Layout:
    schema = Schema(columns={name: {"kind": "categorical", "levels": m} for name, m in zip(names, sizes, strict=True)})
    return Layout.of(schema, Encoding(tuple(indicator(name, m) for name, m in zip(names, sizes, strict=True))))


def best(run: Callable[[], object], times: int = 3) -> tuple[float, float]:
    """Least wall and processor seconds."""
    found = []
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(w for w, _ in found), min(c for _, c in found)


def ours(table: pa.Table) -> Counts:
    what = layout()
    return Counts.of(partials(table.to_batches(max_chunksize=2**18), what), what)


@contextmanager
def without_numba() -> Iterator[None]:
    was, kernel._kernel = kernel._kernel, lambda: None
    kernel._kernel.cache_info = was.cache_info
    kernel.compiled.cache_clear()
    yield
    kernel._kernel = was
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

    data = rows(MILLION)
    connection = duckdb.connect()
    connection.register("given", data)
    connection.execute("CREATE TABLE data AS SELECT * FROM given")
    frame = data.to_pandas()
    few = PAIRS[:: len(PAIRS) // 15]
    assert kernel.compiled() is not None, "numba is needed"
    ours(data)
    seconds = {
        "ours, numba": best(lambda: ours(data), 7),
        "ours, numpy": best(lambda: in_numpy(data), 3),
        "DuckDB UNION ALL, a table": best(lambda: in_duckdb(connection, "data"), 5),
        "pandas crosstab (15 of the pairs, scaled)": tuple(
            s * len(PAIRS) / len(few) for s in best(lambda: [pd.crosstab(frame[j], frame[k]) for j, k in few], 1)
        ),
    }
    with suppress(ImportError):
        import polars as pl

        lazy = pl.from_arrow(data).lazy()
        at_once = best(lambda: pl.collect_all([lazy.group_by(list(p)).len() for p in PAIRS]), 2)
        seconds["polars, all pairs at once"] = at_once
    exact = ours(data)
    assert sum(n for p, _, _, n in in_duckdb(connection, "data") if p == 7) == exact.n == MILLION
    return {"seconds": seconds, "limit": limit(len(data)), "ratio to": "ours, numba"}


def limit(n: int) -> float:
    """Seconds that the increments alone take, on codes that are in the cache, and one reading of the codes, by all cores."""
    what, fast = layout(), kernel.compiled()
    codes = what.pairs.codes(2**14)
    codes[...] = (np.random.default_rng(0).random(codes.shape) * np.array(SIZES)[:, None]).astype(codes.dtype)
    counted, memory = np.zeros(what.pairs.cells, np.int64), np.ones(2**27, np.uint8)
    assert fast is not None
    chunk = best(lambda: [fast(codes, what.pairs, counted) for _ in range(20)], 5)[0] / 20
    read = best(lambda: memory.view(np.uint64).sum(), 3)[0] / len(memory)
    return chunk * n / codes.shape[1] + read * n * len(SIZES)


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
    """Seconds and peak memory of a count in a process of its own."""
    command = [sys.executable, __file__, what, *map(str, arguments), "--cores", str(len(os.sched_getaffinity(0)))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def measured(run: Callable[[], object]) -> None:
    """Prints what one run took, for the process that asked."""
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps(took | {"MB": peak / 1024}))


def count_file(path: str) -> None:
    import pyarrow.dataset  # noqa: F401  (what is measured is the pass, not the loading of libraries)

    what = layout()
    kernel.compiled()
    ours(rows(100))
    measured(lambda: Counts.of(opened(path).folded(tuple(NAMES), lambda b: partials(b, what)), what))


def duckdb_file(path: str) -> None:
    import duckdb

    measured(lambda: in_duckdb(duckdb.connect(), f"'{path}/*.parquet'"))


def stream(millions: int = 20) -> dict[str, object]:
    with parquet(millions) as path:
        found = {"ours, numba": alone("count_file", path), "DuckDB UNION ALL": alone("duckdb_file", path)}
    seconds = {name: (f["wall"], f["cpu"]) for name, f in found.items()}
    return {"seconds": seconds, "MB": {name: f["MB"] for name, f in found.items()}, "ratio to": "ours, numba"}


def scale(millions: int = 200) -> dict[str, object]:
    """Time against n, from a million rows to `millions`; compiled beforehand, as after the first run on a machine."""
    steps = [m for m in (1, 2, 5, 10, 20, 50, 100, 200, 1000) if m <= millions]
    out: dict[int, dict[str, float]] = {}
    with parquet(millions) as folder:
        disk = sum(f.stat().st_size for f in folder.iterdir()) / 2**20
        for m in steps:
            with first(folder, m) as path:
                found = [alone("count_file", path) for _ in range(5 if m < 50 else 2)]
            out[m] = {key: min(f[key] for f in found) for key in ("wall", "cpu", "MB")}
            print(m, json.dumps(out[m]), flush=True)
    slope = {k: float(np.polyfit(np.log(steps), np.log([out[m][k] for m in steps]), 1)[0]) for k in ("wall", "cpu")}
    return {"exponent": slope, "disk MB": disk}


def spark(millions: int = 1) -> dict[str, object]:
    from ddssp.engine import Engine
    from ddssp.secret.engines.spark import SparkRows

    with parquet(millions) as path:
        what = layout()
        data = opened(str(path), Engine(master="local[2]", batch_rows=2**16))._data.repartition(4).persist()
        session = data.sparkSession
        data.count()
        data.createOrReplaceTempView("data")
        sets = ", ".join(f"({j}, {k})" for j, k in PAIRS)
        query = f"SELECT {', '.join(NAMES)}, count(*) n FROM data GROUP BY GROUPING SETS ({sets})"

        def mapped() -> Counts:
            return Counts.of(SparkRows(data).folded(tuple(NAMES), lambda b: partials(b, what, threads=1)), what)

        mine, _ = best(mapped, 3)
        theirs, _ = best(lambda: session.sql(query).collect(), 1)
        session.stop()
    return {"seconds": {"ours, mapInArrow": (mine, mine), "grouping sets": (theirs, theirs)}, "ratio to": "ours, mapInArrow"}


def wide(columns: int = 500) -> None:
    """A whole moments release of numeric columns, 1M rows."""
    import ddssp

    rng = np.random.default_rng(0)
    one = rng.normal(0, 1, 2 * MILLION)
    data = pa.table({f"x{i}": one[i * 1999 : i * 1999 + MILLION] for i in range(columns)})
    schema = Schema(columns={f"x{i}": {"kind": "numeric", "low": -4, "high": 4} for i in range(columns)})
    measured(lambda: ddssp.release(data, schema, epsilon=1, delta=1e-6, mechanism="moments").to_bytes())


def levels(columns: int = 100, of: int = 50, counts_only: str = "no") -> None:
    """Counts, or a whole moments release, of columns with many levels, 1M rows."""
    import ddssp
    from ddssp.curate import plan

    rng = np.random.default_rng(0)
    one = rng.integers(0, of, 2 * MILLION).astype(np.int8)
    data = pa.table({f"x{i}": one[i * 1999 : i * 1999 + MILLION] for i in range(columns)})
    schema = Schema(columns={f"x{i}": {"kind": "categorical", "levels": of} for i in range(columns)})
    made = plan(schema, epsilon=1, delta=1e-6, mechanism="moments")
    print(f"estimated: {made.cost}", file=sys.stderr)
    if counts_only == "yes":
        measured(lambda: Counts.of(partials(data.to_batches(2**18), made.layout), made.layout))
    else:
        measured(lambda: ddssp.release(data, schema, epsilon=1, delta=1e-6, mechanism="moments").to_bytes())


def shown(found: dict[str, object]) -> None:
    seconds = found.pop("seconds", {})
    base = seconds.get(found.pop("ratio to", ""))
    for name, (wall, cpu) in seconds.items():
        print(f"{name:45s} {wall:8.3f} s wall {cpu:8.3f} s cpu   {wall / base[0]:6.1f} × / {cpu / base[1]:6.1f} ×")
    if "limit" in found and base:
        print(
            f"limit of increments and memory: {found['limit']:.3f} s; we reach {100 * found.pop('limit') / base[0]:.0f} % of it"
        )
    for name, value in found.items():
        print(name, json.dumps(value))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what")
    parser.add_argument("more", nargs="*")
    parser.add_argument("--rows", type=int, help="millions of rows")
    parser.add_argument("--cores", type=int, help="cores to be measured on; default: all")
    given = parser.parse_args()
    os.environ.setdefault("NUMBA_CACHE_DIR", tempfile.gettempdir())
    if given.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    if given.what in ("table", "stream", "scale", "spark"):
        shown(globals()[given.what](*([given.rows] if given.rows and given.what != "table" else [])))
    elif given.what in ("count_file", "duckdb_file", "wide", "levels"):
        globals()[given.what](*(int(m) if m.isdigit() else m for m in given.more))
    else:
        parser.error(f"what must be table, stream, spark, scale, wide or levels, got {given.what!r}")
