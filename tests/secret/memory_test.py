"""Memory of a pass: the peak of a process that counts a file several times larger than what it may take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if not Path("/proc/self/status").exists():
    pytest.skip("peak memory is read from /proc, and there is none", allow_module_level=True)

BOUND = 200
"""MB that a pass over a large file may take beyond a pass over a small one."""

SMALL, LARGE = 48 * 2**20, 2 * BOUND * 2**20
COLUMNS = [f"x{i}" for i in range(10)]

PASS = """
import sys
from pathlib import Path
from ddssp.encoding import Encoding
from ddssp.engine import Engine
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, Layout, partials
from ddssp.secret.table import opened

def peak():
    return next(int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmHWM")) // 1024

small, large, sql = sys.argv[1:]
schema = Schema(columns={f"x{i}": {"kind": "numeric", "low": 0, "high": 1} for i in range(10)})
layout = Layout.of(schema, Encoding.centred(schema))
engine = Engine(batch_rows=2**16, sql=sql or None)

def counted(path):
    return Counts.of(opened(path, engine).folded(layout.columns, lambda b: partials(b, layout, threads=1)), layout).n

counted(small)
before = peak()
print(counted(large), peak() - before)
"""


def chunk(seed: int, rows: int = 2**17) -> pa.Table:
    return pa.table({c: v for c, v in zip(COLUMNS, np.random.default_rng(seed).random((10, rows)), strict=True)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small and a large file, as Parquet, alone and three times in a folder, and as CSV."""
    folder, group = tmp_path_factory.mktemp("memory"), chunk(0)
    lines = b"".join(b",".join(b"%.14f" % v for v in row) + b"\n" for row in chunk(1, 2**13).to_pandas().to_numpy())
    for name, size in (("small", SMALL), ("large", LARGE)):
        with pq.ParquetWriter(folder / f"{name}.parquet", group.schema, compression="none", use_dictionary=False) as file:
            for _ in range(-(-size // group.nbytes)):
                file.write_table(group)
        (folder / name).mkdir()
        for part in range(3):
            (folder / name / f"{part}.parquet").hardlink_to(folder / f"{name}.parquet")
        with (folder / f"{name}.csv").open("wb") as file:
            file.write(",".join(COLUMNS).encode() + b"\n")
            for _ in range(-(-size // len(lines))):
                file.write(lines)
    yield folder
    for path in folder.rglob("*.*"):
        path.unlink()


SOURCES = {
    "one Parquet file": (".parquet", ""),
    "a folder": ("", ""),
    "CSV": (".csv", ""),
    "SQL": (".parquet", "SELECT * FROM data WHERE x0 < 2"),
    "SQL on a folder": ("", "SELECT * FROM data WHERE x0 < 2"),
    "SQL on CSV": (".csv", "SELECT * FROM data WHERE x0 < '2'"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_pass_takes_no_more_memory_than_the_bound_however_large_the_file(folder, name):
    suffix, sql = SOURCES[name]
    small, large = (folder / f"{size}{suffix}" for size in ("small", "large"))
    assert all(path.stat().st_size >= LARGE for path in folder.glob("large.*"))
    command = [sys.executable, "-c", PASS, str(small), str(large), sql]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows, grown = map(int, done.stdout.split())
    assert rows > 2**20
    assert grown < BOUND
