"""The bar of a release on a real terminal: what is done, percent a second and the time left, and no number of rows."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddssp.cli.show import pace, progress

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

ROWS = 7919
SCHEMA = 'name = "people"\n[columns.x]\nkind = "numeric"\nlow = 0\nhigh = 1\n[columns.y]\nkind = "boolean"\n'


def on_a_terminal(command: list[str], cwd) -> str:
    """All that a command writes to the terminal it was started from."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, cwd=cwd, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        out = bytearray()
        while chunk := _read(ours):
            out += chunk
    os.close(ours)
    assert process.returncode == 0, out.decode()
    return out.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""


def test_rate_and_time_left_of_a_release(tmp_path):
    rng = np.random.default_rng(0)
    pq.write_table(pa.table({"x": rng.random(ROWS), "y": rng.integers(0, 2, ROWS)}), tmp_path / "people.parquet")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    options = ["release", "people.parquet", "-s", "schema.toml", "-e", "1", "-d", "1e-6", "--batch-rows", "4", "--threads", "1"]
    seen = on_a_terminal([sys.executable, "-m", "ddssp", *options], tmp_path)
    assert re.search(r"counting.*?\d+%.*?\d %/s, \d+:\d\d:\d\d left", seen, re.DOTALL)
    assert str(ROWS) not in seen
    assert f"{ROWS:,}" not in seen


def test_what_a_pace_says():
    assert pace(0.5, 0.1, 5) == "10 %/s, 0:00:05 left"
    assert pace(0.5, 0.0001, 5000) == "0.01 %/s, 1:23:20 left"
    assert pace(0.0, 0.1, 61) == pace(0.3, None, 61) == "0:01:01 so far"


def test_nothing_is_told_where_nobody_looks(capsys):
    with progress() as tell:
        tell("counting", 0.5)
        tell("measuring blocks", 0.1)
    assert capsys.readouterr() == ("", "")
