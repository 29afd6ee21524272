"""One release answers hundreds of regressions in a moment."""

from __future__ import annotations

import time

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.datasets import dataset
from ddssp.experiments.noise import SeededNoise


@pytest.mark.data
@pytest.mark.slow
def test_two_hundred_subsets_of_one_release_in_two_seconds(data_dir):
    data = dataset("adult", data_dir)
    release = curate(data.train, plan(data.schema, epsilon=1, delta=1e-5, mechanism="moments"), noise=SeededNoise(0))
    columns = release.encoding.columns
    numbers = [c for c in columns if release.encoding.block(c).is_scalar]

    def seconds(seed: int) -> float:
        rng = np.random.default_rng(seed)
        start, cpu = time.perf_counter(), time.process_time()
        for _ in range(200):
            target = str(rng.choice(numbers))
            release.linear(target, features=[c for c in columns if c != target and rng.random() < 0.5])
        # On a busy machine the processor's own time is the fairer clock.
        return min(time.perf_counter() - start, time.process_time() - cpu)

    assert min(seconds(seed) for seed in range(5)) < 2.0
