"""Spark for real: the same release to the bit, retries that count nothing twice, and a cluster that loses a worker."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddssp.curate import curate, plan
from ddssp.engine import Engine
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import DataError
from ddssp.privacy.ledger import Ledger
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, Layout, partials
from ddssp.secret.engines import spark
from ddssp.secret.table import opened

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'ddssp[spark]'")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, and there is none", allow_module_level=True)

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Options of Java for processes that live for seconds: no time is spent on optimising."""

SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}
"""Settings of Spark for tables of a few hundred rows."""

ROWS = 600
SCHEMA = Schema(
    name="survey",
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100, "bins": 10, "indicator": True},
        "grade": {"kind": "ordinal", "levels": 4},
        "plan.b": {"kind": "categorical", "levels": ["a", "b", "c"], "other": "rest"},
        "sick": {"kind": "boolean"},
    },
)


def table(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(0)
    age = [None if i % 7 == 0 else a for i, a in enumerate(rng.normal(50, 30, rows).round(2).tolist())]
    columns = {"age": age, "grade": rng.integers(0, 5, rows), "plan.b": rng.choice(["a", "b", "c", "?"], rows)}
    return pa.table(columns | {"sick": rng.integers(0, 2, rows).astype(bool)})


def released(data, mechanism: str, target: str | None = None, engine: Engine | None = None) -> bytes:
    made = plan(SCHEMA, epsilon=1.0, delta=1e-6, mechanism=mechanism, target=target)
    return curate(data, made, noise=SeededNoise(3), engine=engine).to_bytes()


@pytest.mark.slow
def test_in_this_process(tmp_path, monkeypatch, capfd):
    """One Spark for all of it, since starting one takes longer than the rest."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", QUICK)
    path = tmp_path / "d.parquet"
    pq.write_table(table(), path, row_group_size=100)
    source = opened(path, Engine(master="local[2,4]"))
    session = source._data.sparkSession
    try:
        for name, value in SMALL.items():
            session.conf.set(name, value)
        rows = session.read.parquet(str(path))
        _same_release(table(), rows.repartition(2).persist(), path)
        frame = rows.repartition(3).persist()
        with monkeypatch.context() as few:
            few.setattr(spark, "FAN_IN", 2)  # so that three partial sums are added in a tree
            assert released(frame, "moments") == released(table(), "moments")
            _no_retry_counts_twice(frame)
        _progress_is_the_share_of_tasks(frame, monkeypatch)
        _a_pass_that_fails_costs_nothing(frame, tmp_path)
        assert "4711" not in "".join(capfd.readouterr())
        _people_too(frame)
        _a_file_that_changes(path, session)
        _refusals(frame, tmp_path)
    finally:
        session.stop()


def _same_release(arrow, frame, path):
    for mechanism, target in (("moments", None), ("aim", None), ("task", "sick")):
        expected = released(arrow, mechanism, target)
        assert released(frame, mechanism, target) == expected
    assert released(frame.limit(0), "moments") == released(arrow.slice(0, 0), "moments")
    assert released(path, "moments", engine=Engine(kind="spark")) == released(path, "moments")


def _no_retry_counts_twice(frame):
    layout = Layout.of(SCHEMA, plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="aim").mechanism.counted(SCHEMA))

    def dying(batches):
        import os

        from pyspark import TaskContext

        vectors = list(partials(batches, layout, threads=1))
        task = TaskContext.get()
        if task.attemptNumber() == 0 and task.partitionId() == 1:
            os._exit(1)  # after all rows were counted, before anything was handed over
        return vectors

    columns = tuple(SCHEMA.columns)
    source = opened(frame)
    exact = Counts.of(source.folded(columns, partial(partials, layout=layout, threads=1)), layout)
    again = Counts.of(source.folded(columns, dying), layout)
    assert exact.n == again.n == ROWS
    assert all(np.array_equal(exact.pair[k], again.pair[k]) for k in exact.pair)
    assert sum(b.num_rows for b in source.batches(columns)) == ROWS


def _progress_is_the_share_of_tasks(frame, monkeypatch):
    monkeypatch.setattr(spark, "POLL", 0.05)
    told = []

    def slow(batches):
        import time

        rows = sum(batch.num_rows for batch in batches)
        time.sleep(0.3)
        yield np.array([rows])

    found = opened(frame.repartition(6)).folded(("age",), slow, told.append)
    assert sum(int(vector[0]) for vector in found) == ROWS
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert any(0 < share < 1 for share in told)


def _a_pass_that_fails_costs_nothing(frame, tmp_path):
    from pyspark.sql import functions as f

    ledger = Ledger(tmp_path / "l.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    broken = frame.withColumn("age", f.expr("CASE WHEN age > 0 THEN raise_error('secret 4711') ELSE age END"))
    with pytest.raises(DataError, match="Spark could not finish the pass") as caught:
        curate(broken, plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger))
    assert "4711" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert ledger.spent("survey") == 0


def _people_too(frame):
    from pyspark.sql import functions as f

    one = frame.coalesce(1).withColumn("person", f.lit(1))
    made = plan(SCHEMA, epsilon=1, delta=1e-6, unit="person", max_rows=1, mechanism="moments")
    assert curate(one, made, noise=SeededNoise(0)).contribution is not None


def _a_file_that_changes(path, session):
    made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments")
    content = path.read_bytes()

    def change(_what, share):
        if share > 0:
            os.utime(path, ns=(1, 1))

    with pytest.raises(DataError, match="changed while it was being read"):
        curate(session.read.parquet(str(path)), made, noise=SeededNoise(0), progress=change)
    path.write_bytes(content)


def _refusals(frame, tmp_path):
    (tmp_path / "d.csv").write_text("age\n1\n")
    with pytest.raises(DataError, match="is CSV, which Spark does not read line by line"):
        opened(tmp_path / "d.csv", Engine(kind="spark"))
    with pytest.raises(DataError, match="does not exist"):
        opened(tmp_path / "none.parquet", Engine(kind="spark"))
    pq.write_table(table(), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"must be 'local\[2,4\]', where .* already, got 'local\[1\]'; leave it out"):
        opened(tmp_path / "d.parquet", Engine(master="local[1]"))
    with pytest.raises(DataError, match="a Spark frame, which engine arrow does not read"):
        opened(frame, Engine(kind="arrow"))
    with pytest.raises(DataError, match=r"column 'plan\.b' of the schema is absent"):
        released(frame.select("age", "grade", "sick"), "moments")


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:{}", "spark://nowhere.invalid:7077", "spark://127.0.0.1:{0},127.0.0.1:{0}"]
)
def test_a_master_that_does_not_answer_is_told_in_one_sentence_and_soon(tmp_path, master):
    pq.write_table(table(), tmp_path / "d.parquet")
    start = time.monotonic()
    with pytest.raises(
        DataError, match=r"^master must be a Spark that runs, got 'spark://.*', where nothing answers; start it"
    ):
        opened(tmp_path / "d.parquet", Engine(master=master.format(free_port())))
    assert time.monotonic() - start < 15


@pytest.mark.parametrize("master", ["host:7077", "spark://host", "local[", "http://host:1", "spark://host:1/x"])
def test_a_master_that_is_none(tmp_path, master):
    pq.write_table(table(), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=r"^master must be local\[\*\], spark://host:port, yarn or k8s://…, got '"):
        opened(tmp_path / "d.parquet", Engine(master=master))


DRIVER = """
import os, sys
from ddssp.engine import Engine
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, Layout, partials
from ddssp.encoding import Encoding
from ddssp.secret.table import opened

master, path, marks = sys.argv[1:]
schema = Schema(columns={"a": {"kind": "categorical", "levels": 3}, "b": {"kind": "categorical", "levels": 4}})
layout = Layout.of(schema, Encoding.centred(schema))

def slow(batches):
    import os, time
    from pathlib import Path
    from pyspark import TaskContext

    vectors = list(partials(batches, layout, threads=1))
    task = TaskContext.get()
    Path(marks, f"{task.partitionId()}-{task.attemptNumber()}-{os.getppid()}").touch()
    time.sleep(0.3)
    return vectors

source = opened(path, Engine(master=master))
source._data.sparkSession.sparkContext.setLogLevel("OFF")
from ddssp.secret.engines.spark import SparkRows
source = SparkRows(source._data.repartition(8))
counted = Counts.of(source.folded(("a", "b"), slow), layout)
print(counted.n, counted.pair["a", "b"].tolist(), flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_in_the_middle(tmp_path):
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 3, 5000), rng.integers(0, 4, 5000)
    pq.write_table(pa.table({"a": a, "b": b}), tmp_path / "d.parquet")
    expected = np.zeros((3, 4), int)
    np.add.at(expected, (a, b), 1)
    marks = tmp_path / "marks"
    marks.mkdir()
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        command = [sys.executable, "-c", DRIVER, cluster.master, str(tmp_path / "d.parquet"), str(marks)]
        driver = cluster.driver(command)
        wait(lambda: len(list(marks.iterdir())) >= 3 or driver.poll() is not None, 400)
        assert driver.poll() is None, driver.stderr.read()[-2000:]
        cluster.kill_a_worker()
        out, err = driver.communicate(timeout=150)
        assert driver.returncode == 0, err[-2000:]
    finally:
        cluster.stop()
    assert out.strip() == f"5000 {expected.tolist()}"
    attempts = [m.name.split("-") for m in marks.iterdir()]
    assert len(attempts) > 8 or any(number != "0" for _, number, _ in attempts), "no task was run again"


class Cluster:
    """A standalone master and two workers on this machine, each in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder, self.port = folder, free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.environment = os.environ | {
            "SPARK_HOME": str(self.home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "JAVA_TOOL_OPTIONS": QUICK,
        }
        self.processes: list[subprocess.Popen] = []

    def start(self) -> None:
        log = self._run("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        wait(lambda: "I have been elected leader" in log.read_text(), 120)
        options = ("--host", "127.0.0.1", "-c", "1", "-m", "1536m", "--webui-port", "0")
        workers = [self._run("worker.Worker", *options, "-d", str(self.folder / f"work{i}"), self.master) for i in (1, 2)]
        wait(lambda: all("Successfully registered with master" in worker.read_text() for worker in workers), 120)

    def driver(self, command: list[str]) -> subprocess.Popen:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.processes.insert(0, subprocess.Popen(command, env=self.environment, start_new_session=True, **pipes))
        return self.processes[0]

    def kill_a_worker(self) -> None:
        os.killpg(self.processes[-1].pid, signal.SIGKILL)

    def stop(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()

    def _run(self, what: str, *arguments: str) -> Path:
        log = self.folder / f"{what}{len(self.processes)}.log"
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        with log.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=self.environment, start_new_session=True)
        self.processes.append(process)
        return log


def wait(until, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
