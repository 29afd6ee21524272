"""The kernel and its compiled twin against np.add.at, one increment at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ddssp.encoding import Encoding, indicator
from ddssp.schema import Schema
from ddssp.secret import kernel
from ddssp.secret.counts import Layout, counts
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
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
numba = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed: pip install 'ddssp[speed]'")


def chunk(sizes: list[int], rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    pairs = Pairs.of(sizes)
    codes = pairs.codes(rows)
    for j, m in enumerate(sizes):
        codes[j] = np.minimum(rng.geometric(min(1.0, 3 / m), rows) - 1, m - 1)
        codes[j, :1] = m - 1
    return codes, pairs


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("which", [which if which == "numpy" else pytest.param(which, marks=numba) for which in KERNELS])
@pytest.mark.parametrize("rows", [0, 1, 5000, kernel.STEP + 1])
def test_all_pairs_are_counted(which, shape, rows):
    tally = KERNELS[which]()
    assert tally is not None
    codes, pairs = chunk(SHAPES[shape], rows)
    got = np.full(pairs.cells, 7, np.int64)
    tally(codes, pairs, got)
    expected = np.full(pairs.cells, 7, np.int64)
    for j, k, start in zip(pairs.left, pairs.right, pairs.start[:-1], strict=True):
        np.add.at(expected, start + codes[j].astype(int) * SHAPES[shape][k] + codes[k], 1)
    assert np.array_equal(got, expected)


@numba
def test_a_long_pass_is_counted_by_numba(monkeypatch):
    """In this process, whatever was imported before, and none of its pairs by numpy."""
    monkeypatch.setattr(kernel, "EARNED", 0)
    monkeypatch.setattr(kernel, "tallied", lambda *_given: pytest.fail("numpy was used"))
    schema = Schema(columns={c: {"kind": "categorical", "levels": 3} for c in "abc"})
    layout = Layout.of(schema, Encoding(tuple(indicator(c, 3) for c in "abc")))
    for threads in (1, 2):
        found = counts([pa.record_batch({c: [0, 1, 2, 2] for c in "abc"})], layout, threads=threads)
        assert found.pair["a", "c"].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 2]]


@numba
def test_numba_loads_beside_the_benchmarks():
    """None of their files takes the name of a module that numba imports."""
    script = "from ddssp.secret import kernel; print(kernel.compiled(1) is not None)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=BENCHMARKS, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


@numba
def test_numba_that_does_not_load_is_told(tmp_path):
    (tmp_path / "coverage.py").write_text("Coverage = None\n")
    script = "from ddssp.secret import kernel; print(kernel.compiled(1))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "None\n"
    assert "numba is installed but does not load (AttributeError); numpy counts the same" in done.stderr


LONG_PASS = """
import numpy as np
from ddssp.secret import kernel
import ddssp
kernel.EARNED = 0
schema = ddssp.Schema(columns={c: {'kind': 'categorical', 'levels': 3} for c in 'abc'})
data = {c: np.zeros(100, int) for c in 'abc'}
made = ddssp.release(data, schema, epsilon=1, delta=1e-6)
print(made.private, kernel._kernel() is not None)
"""
NOWHERE = "numba can keep its compiled code nowhere and compiles anew; set NUMBA_CACHE_DIR to a folder that can be written."


@numba
@pytest.mark.parametrize("when", ["before it compiles", "while it compiles"])
def test_a_release_is_made_where_numba_can_keep_nothing(tmp_path, when):
    """A file where the folder should be is a folder that nobody can write, root included."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(blocked), "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    script = LONG_PASS
    if when == "while it compiles":
        folder = tmp_path / "cache"
        environment["NUMBA_CACHE_DIR"] = str(folder)
        lost = f"import shutil; kernel._kernel(); shutil.rmtree({str(folder)!r}); open({str(folder)!r}, 'w').close()"
        script = script.replace("kernel.EARNED = 0", f"kernel.EARNED = 0\n{lost}")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr
    assert done.stderr.count(NOWHERE) == 1


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
