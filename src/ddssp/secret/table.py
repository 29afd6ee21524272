"""Which engine reads the rows: whatever holds them, in memory, in files or on a cluster → a Source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ddssp.engine import Engine
from ddssp.frame import DataError
from ddssp.secret.engines import Source
from ddssp.secret.engines.files import File, require_no_database
from ddssp.secret.engines.memory import of_frame


def opened(data: Any, engine: Engine | None = None) -> Source:
    """The source that reads `data`; what it is made for, unless `engine` says otherwise."""
    engine = Engine() if engine is None else engine
    if not isinstance(engine, Engine):
        raise ValueError(f"engine must be an Engine, got {engine!r}; pass ddssp.Engine(kind=…).")
    if engine.kind == "spark" or engine.master is not None or _is_of("pyspark", data):
        return _spark(data, engine)
    if _is_of("duckdb", data) or _is_of("_duckdb", data):
        from ddssp.secret.engines.duck import Relation

        under: Source = Relation(data, engine.batch_rows)
    else:
        under = File(data, engine.batch_rows) if isinstance(data, str | Path) else of_frame(data, engine.batch_rows)
    if engine.sql is None and isinstance(under, File):
        require_no_database(under.path)
    if engine.sql is None and engine.kind != "duckdb":
        return under
    return _duckdb(under, engine.sql or "SELECT * FROM data", engine.batch_rows)


def batches(data: Any, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Record batches with exactly `columns`."""
    return opened(data).batches(columns)


def names(data: Any) -> list[str]:
    """The columns that the data has; structure, not content."""
    return opened(data).names()


def require_rewindable(source: Source, why: str, instead: str) -> None:
    """Refuses what can be read only once (a stream, an iterator as a column), before anything of it is read."""
    if not source.rewindable:
        raise DataError(f"data must be readable more than once for {why}; pass a table or a file, or {instead}.")


def _spark(data: Any, engine: Engine) -> Source:
    from ddssp.secret.engines import spark

    if _is_of("pyspark", data):
        if engine.kind not in ("auto", "spark") or engine.sql is not None:
            raise DataError(f"data is a Spark frame, which engine {engine.kind} does not read; leave engine and sql out.")
        return spark.SparkRows(data)
    if not isinstance(data, str | Path):
        raise DataError(f"engine spark reads Spark frames and Parquet files, got {type(data).__name__}.")
    return spark.read(str(data), engine.master, engine.batch_rows)


def _duckdb(under: Source, sql: str, batch_rows: int) -> Source:
    try:
        from ddssp.secret.engines.duck import Relation, queried
    except ImportError:
        raise DataError("engine duckdb needs DuckDB: pip install 'ddssp[duckdb]'.") from None
    if isinstance(under, Relation):
        raise DataError("data is a DuckDB relation already; put the query into it, and leave engine and sql out.")
    return queried(under, sql, batch_rows)


def _is_of(package: str, data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == package
