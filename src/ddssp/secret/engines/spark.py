"""Spark: the same kernel inside `mapInArrow`, next to the rows; only vectors of sums come back.

Guarantees: a task that fails is run again by Spark, and of its attempts one alone is taken, so a retry counts nothing twice; if
Spark gives up, there is no answer. The driver never sees a row, but in passes that need all of them in one place (people).
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlparse
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp.frame import DataError, at_least_one, require
from ddssp.secret.counts import Secret, summed
from ddssp.secret.engines import Fold, Tell, quiet

FAN_IN = 32
"""Partial sums that one task, or the driver, adds up: more are added in a tree."""

POLL = 0.5
"""Seconds between two looks at how many tasks are done."""

PATIENCE = 5.0
"""Seconds that a master has to answer."""

MASTERS = r"local|local\[(\d+|\*)(, *\d+)?\]|local-cluster\[[\d, ]+\]|spark://[^/]+:\d+(,[^/,]+:\d+)*|yarn|k8s://.+"
"""How places where Spark runs are written."""

T = TypeVar("T")


class SparkRows(Secret):
    """A Spark DataFrame."""

    engine = "spark"
    rewindable = True

    def __init__(self, data: Any) -> None:
        self._data = data

    def names(self) -> list[str]:
        return list(self._data.columns)

    def stamp(self) -> Hashable:
        """Of files on this machine their sizes and times, of others their names."""
        return _guarded(lambda: tuple(map(_file_stamp, sorted(self._data.inputFiles()))))

    def batches(self, columns: tuple[str, ...], tell: Tell = quiet) -> Iterator[pa.RecordBatch]:
        """All rows, brought to the driver one partition at a time."""
        return at_least_one(self._brought(columns), columns)

    def folded(self, columns: tuple[str, ...], fold: Fold, tell: Tell = quiet) -> Iterator[NDArray[np.int64]]:
        partials = self._chosen(columns).mapInArrow(_partials(fold, columns), "part binary")
        counting = tasks = _guarded(lambda: int(self._data.rdd.getNumPartitions()))
        while tasks > FAN_IN:
            tasks = -(-tasks // FAN_IN)
            partials = partials.repartition(tasks).mapInArrow(_added, "part binary")
        for row in _guarded(lambda: _followed(partials, counting, tell)):
            yield np.frombuffer(row["part"], np.int64)
        tell(1.0)

    def _brought(self, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        rows = _guarded(lambda: self._chosen(columns).mapInArrow(_written, "part binary").toLocalIterator())
        while (row := _guarded(lambda: next(rows, None))) is not None:
            yield from (batch.rename_columns(list(columns)) for batch in pa.ipc.open_stream(row["part"]))

    def _chosen(self, columns: tuple[str, ...]) -> Any:
        """The columns by number, since `mapInArrow` takes a dot in a name for a field."""
        require(columns, self.names())
        quoted = ["`" + c.replace("`", "``") + "`" for c in columns]
        return _guarded(lambda: self._data.select(*quoted).toDF(*(f"c{i}" for i in range(len(columns)))))


def read(path: str, master: str | None, batch_rows: int) -> SparkRows:
    """A Parquet file or folder, read by the Spark of this process."""
    from ddssp.secret.engines.files import CSV, require_no_credentials

    require_no_credentials(path)
    if Path(path).suffix.lower() in CSV:
        raise DataError(
            f"data {path!r} is CSV, which Spark does not read line by line; turn it into Parquet, or use engine arrow."
        )
    if "://" not in path and not Path(path).exists():
        raise DataError(f"data file {path!r} does not exist.")
    spark = session(master, batch_rows)
    return SparkRows(_guarded(lambda: spark.read.parquet(path)))


def session(master: str | None, batch_rows: int) -> Any:
    """The Spark that runs in this process, with the settings it has, or a new one at `master`, by default on all cores here.

    Guarantees: a new one logs nothing, since a task that fails is logged with its message, which may quote a cell.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError("engine spark needs pyspark and Java: pip install 'ddssp[spark]'.") from None
    if (running := SparkSession.getActiveSession()) is not None:
        return _same(running, master)
    master = master or "local[*]"
    _require_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("ddssp")
    for name, value in _settings(master, batch_rows).items():
        builder = builder.config(name, value)
    return _same(_guarded(builder.getOrCreate, f"be started at {master!r}; `ddssp doctor` says what it needs"), master)


def _settings(master: str, batch_rows: int) -> dict[str, str]:
    here = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    return {
        "spark.log.level": "OFF",
        "spark.executor.syncLogLevel.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(batch_rows),
    } | (here if master.startswith("local") else {})


def _same(session: Any, master: str | None) -> Any:
    """The session; a master that would be ignored is refused, since a process has one Spark."""
    if master not in (None, running := session.sparkContext.master):
        raise DataError(
            f"master must be {running!r}, where this process's Spark runs already, got {master!r}; leave it out or stop that."
        )
    return session


def _require_master(master: str) -> None:
    """Refuses what Spark would take a minute and a hundred lines to refuse."""
    if re.fullmatch(MASTERS, master) is None:
        raise DataError(f"master must be local[*], spark://host:port, yarn or k8s://…, got {master!r}; check the spelling.")
    if master.startswith("spark://") and not any(map(_answers, master.removeprefix("spark://").split(","))):
        raise DataError(
            f"master must be a Spark that runs, got {master!r}, where nothing answers; start it, or check the address."
        )


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PATIENCE):
            return True
    except (OSError, OverflowError):
        return False


def _followed(frame: Any, tasks: int, tell: Tell) -> Any:
    """Its rows; meanwhile the share of the counting tasks that are done is told."""
    context, group = frame.sparkSession.sparkContext, uuid4().hex

    def collect() -> Any:
        context.setJobGroup(group, "ddssp", interruptOnCancel=False)
        return frame.collect()

    with ThreadPoolExecutor(1) as thread:
        coming, share = thread.submit(collect), 0.0
        while wait([coming], POLL).not_done:
            share = max(share, _done(context.statusTracker(), group, tasks))
            tell(share)
        return coming.result()


def _done(tracker: Any, group: str, tasks: int) -> float:
    """The largest share done of a stage of so many tasks; below 1, since what they counted is still to be added up."""
    jobs = filter(None, map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)))
    stages = filter(None, (tracker.getStageInfo(i) for job in jobs for i in job.stageIds))
    return min(max((s.numCompletedTasks / s.numTasks for s in stages if s.numTasks == tasks), default=0.0), 0.99)


def _partials(fold: Fold, columns: tuple[str, ...]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for vector in fold(batch.rename_columns(list(columns)) for batch in batches):
            yield _row(vector.tobytes())

    return run


def _added(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The sum of the partial sums of a task."""
    for vector in summed(np.frombuffer(part.as_py(), np.int64) for batch in batches for part in batch.column(0)):
        yield _row(vector.tobytes())


def _written(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one cell of bytes."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield _row(sink.getvalue().to_pybytes())


def _row(content: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([content], pa.binary())], names=["part"])


def _file_stamp(uri: str) -> tuple[str, int, int]:
    where = urlparse(uri)
    if where.scheme not in ("", "file") or not (path := Path(unquote(where.path))).exists():
        return uri, 0, 0
    return uri, path.stat().st_size, path.stat().st_mtime_ns


def _guarded(run: Callable[[], T], what: str = "finish the pass; try the same in Spark itself, whose log says why") -> T:
    """run(), without Spark's own messages, which may quote a cell."""
    try:
        return run()
    except DataError:
        raise
    except Exception as error:
        could, _, remedy = what.partition("; ")
        raise DataError(f"Spark could not {could} ({type(error).__name__}); {remedy}.") from None
