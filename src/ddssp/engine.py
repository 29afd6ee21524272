"""How rows are read: nothing here touches privacy, and none of it is in a release."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("auto", "arrow", "duckdb", "spark")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Who reads the rows, and in what portions.

    Guarantees: every choice gives the same counts, so the same release but for its noise.

    Args:
        kind: `auto` is what the data is made for: Spark for its frames, DuckDB for its relations and SQL, Arrow for all else.
        master: where Spark runs, `local[*]` or `spark://host:port`; a Spark frame brings its own.
        sql: a query in DuckDB's SQL that gives the rows; the data is its table `data`.
        batch_rows: rows in memory at once.
        threads: of the counting kernel; all cores by default.

    >>> Engine(kind="sparc")
    Traceback (most recent call last):
    ValueError: engine must be one of auto, arrow, duckdb, spark, got 'sparc'.
    """

    kind: str = "auto"
    master: str | None = None
    sql: str | None = None
    batch_rows: int = 2**18
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"engine must be one of {', '.join(KINDS)}, got {self.kind!r}.")
        if not isinstance(self.sql, str | None):
            raise ValueError(f"sql must be a query, got {self.sql!r}; leave it out to read all rows.")
        if self.master is not None and self.kind not in ("auto", "spark"):
            raise ValueError(f"master is for engine spark, got it with {self.kind}; leave one of them out.")
        if self.sql is not None and not self.sql.strip():
            raise ValueError("sql must be a query, got an empty one; leave it out to read all rows.")
        if self.sql is not None and (self.kind not in ("auto", "duckdb") or self.master is not None):
            remedy = "leave the engine out" if self.kind == "arrow" else "on Spark pass the frame that spark.sql gives"
            raise ValueError(f"sql is for engine duckdb, got it with another; {remedy}.")
        if type(self.batch_rows) is not int or not 1 <= self.batch_rows <= 2**24:
            raise ValueError(f"batch_rows must be a whole number from 1 to {2**24}, got {self.batch_rows!r}.")
        if self.threads is not None and (type(self.threads) is not int or not 1 <= self.threads <= 1024):
            raise ValueError(f"threads must be a whole number from 1 to 1024, got {self.threads!r}.")
