"""A fast start: no engine, no plotting, no sklearn until used."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddssp

HEAVY = ("sklearn", "pandas", "polars", "duckdb", "pyspark", "jax", "matplotlib", "statsmodels", "opendp", "pyarrow", "scipy")


def loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint(*{{m.partition('.')[0] for m in sys.modules}})"
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(got.stdout.split())


def test_import_loads_nothing_heavy():
    assert loaded_by("import ddssp").isdisjoint(HEAVY)
    assert "pandas" in loaded_by("import pandas")  # the test can see what is loaded


def test_a_release_from_parquet_and_a_fit_load_none_of_the_optional_engines(tmp_path):
    pq.write_table(pa.table({"x": [0.5, None], "y": ["1", "0"]}), tmp_path / "d.parquet")
    use = (
        "import ddssp\n"
        "s = ddssp.Schema(columns={'x': {'kind': 'numeric', 'low': 0, 'high': 1}, 'y': {'kind': 'boolean'}})\n"
        f"ddssp.release({str(tmp_path / 'd.parquet')!r}, s, epsilon=1, delta=1e-6).linear('x').coef"
    )
    optional = {"sklearn", "pandas", "polars", "duckdb", "pyspark", "jax", "matplotlib", "statsmodels"}
    assert loaded_by(use) & optional == set()


def test_every_public_name_is_there_and_no_other():
    for name in ddssp.__all__:
        assert getattr(ddssp, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        _ = ddssp.nonsense


def test_help_is_there_at_once():
    """Best of five below 0.6 s: of wall time, or of processor time where other processes fill the machine."""
    command = str(Path(sys.executable).with_name("ddssp"))
    best = min(seconds([command, "--help"]) for _ in range(5))
    assert best < 0.6


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return min(time.perf_counter() - start, usage.ru_utime + usage.ru_stime)


def test_versions_agree():
    assert metadata.version("ddssp") == ddssp.__version__
