"""The runner: nothing twice, the same numbers whatever the jobs, whole lines only, and a guard on memory."""

from __future__ import annotations

import json
import subprocess
import sys

import made_data
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from ddssp.experiments import datasets, runner
from ddssp.experiments.methods import METHODS
from ddssp.experiments.protocol import PAPER
from ddssp.experiments.records import COLUMNS, Cell, Records


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data.folder(tmp_path_factory.mktemp("data"))


def some(data, *, methods=("nonprivate", "adassp", "objpert", "ddssp-tree", "aim-synth-tree"), trials=2):
    return runner.cells(
        PAPER,
        data,
        names=datasets.names(data),
        methods=[METHODS[m] for m in methods],
        epsilons=(0.5,),
        trials=trials,
        model_size=8.0,
    )


def go(cells, data, path, **options):
    told = []
    options = {"jobs": 1, "memory_mb": 4000.0} | options
    made = runner.run(cells, data, Records(path), tell=lambda what, share: told.append((what, share)), **options)
    return made, told


def numbers(path):
    keep = ("mse", "excess", "auc", "logloss")
    return {Cell.of(r): tuple(r.get(k) for k in keep) for r in Records(path).read()}


def test_cells_are_what_each_method_does(data):
    found = some(data)
    kinds = {(c.dataset, c.kind) for c in found}
    assert kinds == {("small", "linear"), ("small", "logistic"), ("other-sub", "linear")}
    assert len([c for c in found if c.method == "nonprivate"]) == 3
    assert len([c for c in found if c.method == "adassp"]) == 4
    assert {c.kind for c in found if c.method == "objpert"} == {"logistic"}
    assert all((c.model_size is None) != METHODS[c.method].graphical for c in found)
    assert len(some(data, methods=("adassp", "adassp"))) == 4


def test_cells_that_share_a_release_go_together(data):
    groups = runner.grouped(some(data, methods=("ddssp-tree", "aim-synth-tree", "adassp")))
    assert sorted(map(len, groups)) == [1] * 4 + [2] * 6


def test_stopped_and_started_again_gives_the_same_numbers_as_at_once_on_two_jobs(data, tmp_path):
    cells = some(data)
    made, told = go(cells, data, tmp_path / "once.jsonl", jobs=2)
    assert made == len(cells) == len(numbers(tmp_path / "once.jsonl"))
    assert told[-1][1] == pytest.approx(1)
    assert [s for _, s in told] == sorted(s for _, s in told)

    path = tmp_path / "twice.jsonl"
    go(cells[:7], data, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines) + lines[-1][:40])
    made, _ = go(cells, data, path)
    assert made == len(cells) - 7
    assert path.read_bytes().startswith(b"".join(lines))
    assert numbers(path) == numbers(tmp_path / "once.jsonl")
    assert len(path.read_bytes().splitlines()) == len(cells)
    assert go(cells, data, path) == (0, [])


def test_tidy_tables(data, tmp_path):
    records = Records(tmp_path / "runs.jsonl")
    go(some(data, methods=("nonprivate", "ssp")), data, records.path)
    records.tidy(tmp_path)
    table = pq.read_table(tmp_path / "runs.parquet")
    assert table.column_names == list(COLUMNS) == pv.read_csv(tmp_path / "runs.csv").column_names
    rows = table.to_pylist()
    assert len(rows) == 3 + 4
    assert {(r["dataset"], r["substitute"]) for r in rows} == {("small", False), ("other-sub", True)}
    assert all(r["seconds"] >= 0 and 20 < r["peak_mb"] < 4000 for r in rows)


def test_records_that_failed_are_tried_again_and_dropped_ones_forgotten(tmp_path):
    cell = Cell(protocol="paper", kind="linear", dataset="d", method="ssp", epsilon=1.0, seed=0, model_size=None)
    records = Records(tmp_path / "r.jsonl")
    records.append([cell.record(error="memory")])
    assert records.read() == []
    records.append([cell.record(mse=1.0), cell.record(mse=2.0)])
    assert [r["mse"] for r in records.read()] == [2.0]
    records.drop(lambda r: r["method"] == "ssp")
    assert records.read() == []


def test_a_job_may_take_its_share_of_the_memory_only():
    script = (
        "import os, json, numpy as np\n"
        "from ddssp.experiments import runner\n"
        "runner._begin(os.getppid(), 600.0)\n"
        "np.ones(10**7)\n"
        "try:\n    np.ones(10**9)\nexcept MemoryError:\n    print('refused')\n"
    )
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert got.stdout == "refused\n"


def test_runs_that_do_not_fit_are_told(data, tmp_path, monkeypatch):
    cells = some(data, methods=("adassp",), trials=1)
    monkeypatch.setattr(runner, "ProcessPoolExecutor", Failing)
    with pytest.raises(runner.MemoryExceeded, match="2 runs need more than 4000 MB each; start again with fewer --jobs"):
        go(cells, data, tmp_path / "r.jsonl")
    assert [json.loads(line)["error"] for line in (tmp_path / "r.jsonl").read_text().splitlines()] == ["memory"] * 2


class Failing:
    """A pool whose jobs all run out of memory."""

    def __init__(self, *_args, **_options):
        pass

    def submit(self, _run, group, _directory):
        from concurrent.futures import Future

        future = Future()
        future.set_result([c.record(error="memory") for c in group])
        return future

    def shutdown(self, **_options):
        pass
