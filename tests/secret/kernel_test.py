"""The kernel and its compiled twin against np.add.at, one increment at a time."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ddssp.secret import kernel
from ddssp.secret.kernel import Pairs

SHAPES = {
    "one column": [3],
    "two columns": [2, 3],
    "one level each": [1, 1, 1],
    "15 columns": [2, 2, 3, 5, 7, 9, 12, 16, 20, 24, 32, 41, 60, 80, 100],
    "256 levels": [256, 2, 256],
    "257 levels": [257, 2],
    "wide": [3] * 40,
    "a table larger than a chunk": [1000, 900],
}
KERNELS = {"numpy": lambda: kernel.tallied, "compiled": lambda: kernel.compiled(1), "two threads": lambda: kernel.compiled(2)}


def chunk(sizes: list[int], rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    pairs = Pairs.of(sizes)
    codes = pairs.codes(rows)
    for j, m in enumerate(sizes):
        codes[j] = np.minimum(rng.geometric(min(1.0, 3 / m), rows) - 1, m - 1)
        codes[j, :1] = m - 1
    return codes, pairs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", KERNELS)
@pytest.mark.parametrize("rows", [0, 1, 5000, kernel.STEP + 1])
def test_all_pairs_are_counted(which, shape, rows):
    tally = KERNELS[which]()
    if tally is None:
        pytest.skip("numba is not installed")
    codes, pairs = chunk(SHAPES[shape], rows)
    got = np.full(pairs.cells, 7, np.int64)
    tally(codes, pairs, got)
    expected = np.full(pairs.cells, 7, np.int64)
    for j, k, start in zip(pairs.left, pairs.right, pairs.start[:-1], strict=True):
        np.add.at(expected, start + codes[j].astype(int) * SHAPES[shape][k] + codes[k], 1)
    assert np.array_equal(got, expected)


def test_codes_are_as_small_as_can_be():
    assert Pairs.of([256, 2]).codes(1).dtype == np.uint8
    assert Pairs.of([2**16, 2]).codes(1).dtype == np.uint16


def test_a_short_pass_does_not_load_the_compiler():
    script = (
        "import sys, numpy as np\n"
        "import ddssp\n"
        "schema = ddssp.Schema(columns={c: {'kind': 'categorical', 'levels': 3} for c in 'abc'})\n"
        "ddssp.release({c: np.zeros(1000, int) for c in 'abc'}, schema, epsilon=1, delta=1e-6)\n"
        "print('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "False\n"
