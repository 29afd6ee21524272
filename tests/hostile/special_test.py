"""Pipes and devices in place of files, and a ledger copied without its log."""

from __future__ import annotations

import os
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from ddssp.privacy.ledger import Ledger
from ddssp.released import ReleaseError, load
from ddssp.schema import Schema, SchemaError


@pytest.fixture(params=["pipe", "device"])
def special(request, tmp_path: Path) -> Path:
    path = tmp_path / "special"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def test_neither_a_release_nor_a_schema_is_read_from_a_pipe_or_a_device(special):
    with pytest.raises(ReleaseError, match="must be a file"):
        load(special)
    with pytest.raises(SchemaError, match="must be a file"):
        Schema.load(special)


def test_a_copy_of_the_ledger_alone_remembers(tmp_path):
    """Another connection keeps the log from being folded in by the last close."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("people", 1.0, 1e-6)
    other = sqlite3.connect(tmp_path / "ledger.db")
    other.execute("SELECT count(*) FROM entry").fetchone()
    ledger.reserve("people", Fraction(1, 1000), epsilon=0.1, delta=1e-6, schema_fingerprint="f", mechanism="moments")
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    other.close()
    assert any(entry.counter == 1 for entry in Ledger(tmp_path / "copy.db").entries())
