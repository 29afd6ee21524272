"""Speed that was promised, measured generously: best of several, processor time where other processes fill the machine."""

from __future__ import annotations

import time

import pyarrow.parquet as pq
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.datasets import dataset


@pytest.mark.data
def test_a_release_of_adult_from_parquet_takes_less_than_two_seconds(data_dir, tmp_path):
    data = dataset("adult", data_dir)
    pq.write_table(data.train, tmp_path / "adult.parquet")
    made = plan(data.schema, epsilon=1.0, delta=1e-6, mechanism="moments")
    assert min(seconds(lambda: curate(tmp_path / "adult.parquet", made)) for _ in range(3)) < 2.0


def seconds(run) -> float:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return min(time.perf_counter() - wall, time.process_time() - processor)
