"""DuckDB: its relations, and SQL over files, databases and frames.

Type conversions in a query fail on what cells hold, and DuckDB's messages quote it: they are not passed on, but that a query
fails is known to whoever sees the exit code. A query that casts should say TRY_CAST.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import pyarrow as pa

from ddssp.frame import DataError, at_least_one, require
from ddssp.secret.counts import Secret
from ddssp.secret.engines import Local, Source, Tell, followed, quiet, stamps
from ddssp.secret.engines.files import File, is_database

_ESTIMATE = re.compile(r"~([\d,]+) row", re.IGNORECASE)

T = TypeVar("T")


class Relation(Local):
    """A DuckDB relation; it runs anew at every pass."""

    engine = "duckdb"

    def __init__(self, relation: Any, batch_rows: int, under: Source | None = None) -> None:
        self._relation, self._rows, self._under = relation, batch_rows, under

    def names(self) -> list[str]:
        return list(self._relation.columns)

    def stamp(self) -> Hashable:
        """That of `data`, and of the files that the query names."""
        return None if self._under is None else self._under.stamp(), stamps.of_query(_guarded(self._relation.sql_query))

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        require(columns, self.names())
        return followed(at_least_one(self._stream(columns), columns), self._expected(), tell)

    def _expected(self) -> int:
        """Rows of the longest step of the plan, as DuckDB estimates them before; 0 where it does not."""
        found = _ESTIMATE.findall(_guarded(self._relation.explain))
        return max((int(rows.replace(",", "")) for rows in found), default=0)

    def _stream(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        chosen = ", ".join('"' + c.replace('"', '""') + '"' for c in columns)
        reader = _guarded(lambda: _reader(self._relation.project(chosen), self._rows))
        while (batch := _guarded(lambda: next(reader, None))) is not None:
            yield batch


class Stream(Secret):
    """A file or folder as DuckDB scans it: batch by batch, from the beginning at every scan of a query; CSV is text throughout.

    DuckDB's own reader would take other rows for the same (types of folders' names, bytes that are no text), and Arrow's under
    DuckDB decoded 700 MB of a file of 1.2 GB ahead of a query. All columns are decoded: a query that reads a wide file itself
    (`FROM read_parquet('…')`) is faster.
    """

    def __init__(self, under: File) -> None:
        self._under, self.schema = under, _taken(under.readable())
        self.tell: Tell = quiet

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.RecordBatchReader.from_batches(self.schema, self._read()).__arrow_c_stream__(requested_schema)

    def _read(self) -> Iterator[pa.RecordBatch]:
        for batch in self._under.batches(tuple(self.schema.names), lambda share: self.tell(min(share, 0.99))):
            pairs = zip(batch.columns, self.schema.types, strict=True)
            yield pa.record_batch([c if c.type == kind else c.cast(kind) for c, kind in pairs], schema=self.schema)


class Streamed(Relation):
    """A query over a file or folder; nothing but headers is read before a pass."""

    def __init__(self, relation: Any, batch_rows: int, under: File, stream: Stream) -> None:
        super().__init__(relation, batch_rows, under)
        self._file = stream

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        require(columns, self.names())
        self._file.tell = tell
        yield from at_least_one(self._stream(columns), columns)
        tell(1.0)


def _reader(relation: Any, rows: int) -> Any:
    """Its batches, by the name that this DuckDB has for it."""
    return relation.to_arrow_reader(rows) if hasattr(relation, "to_arrow_reader") else relation.fetch_record_batch(rows)


def queried(under: Source, sql: str, batch_rows: int) -> Relation:
    """The rows that a query gives; `under` is its table `data`, read anew for every pass."""
    _require_select(sql)
    if isinstance(under, File) and is_database(under.path):
        return Relation(_guarded(lambda: _silent(under.path, read_only=True).sql(sql)), batch_rows, under)
    connection = _silent()
    if isinstance(under, File):
        stream = Stream(under)
        _guarded(lambda: connection.register("data", stream))
        return Streamed(_guarded(lambda: connection.sql(sql)), batch_rows, under, stream)
    held = pa.Table.from_batches(list(under.batches(tuple(under.names()))))
    _guarded(lambda: connection.register("data", held.cast(_taken(held.schema))))
    return Relation(_guarded(lambda: connection.sql(sql)), batch_rows, under)


def _taken(schema: pa.Schema) -> pa.Schema:
    """The types in which DuckDB takes these columns: it has no numbers of half the length."""
    return pa.schema([f.with_type(pa.float32()) if pa.types.is_float16(f.type) else f for f in schema])


def _silent(database: str = ":memory:", *, read_only: bool = False) -> Any:
    """A connection that shows no progress of its own, on stdout, which is for data, and writes no rows beside what it reads."""
    import duckdb

    connection = duckdb.connect(database, read_only=read_only)
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET temp_directory = ''")  # what does not fit into memory is refused, not left behind in files
    return connection


def _require_select(sql: str) -> None:
    """Refuses anything but one query: a statement that writes would do so at a dry run too."""
    import duckdb

    kinds = [s.type for s in _guarded(lambda: duckdb.extract_statements(sql))]
    if kinds != [duckdb.StatementType.SELECT]:
        got = " and ".join(kind.name for kind in kinds) or "nothing"
        raise DataError(f"sql must be a single SELECT, got {got}; write one query.")


def _guarded(run: Callable[[], T]) -> T:
    """run(), without DuckDB's own messages, which may quote a cell."""
    import duckdb

    try:
        return run()
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise DataError(f"the query fails in DuckDB ({type(error).__name__}); try it there, and cast with TRY_CAST.") from None
