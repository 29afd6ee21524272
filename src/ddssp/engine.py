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
        if self.master is not None and self.kind not in ("auto", "spark"):
            raise ValueError(f"master is for engine spark, got it with {self.kind}; leave one of them out.")
        if self.sql is not None and not self.sql.strip():
            raise ValueError("sql must be a query, got an empty one; leave it out to read all rows.")
        if self.sql is not None and (self.kind not in ("auto", "duckdb") or self.master is not None):
            raise ValueError("sql is for engine duckdb; on Spark pass the frame that spark.sql gives.")
        if not 1 <= self.batch_rows <= 2**24:
            raise ValueError(f"batch_rows must lie between 1 and {2**24}, got {self.batch_rows}.")
        if self.threads is not None and not 1 <= self.threads <= 1024:
            raise ValueError(f"threads must lie between 1 and 1024, got {self.threads}.")
