"""`ddssp ledger verify --release`: an old copy of a ledger put back is found by a release that it does not know."""

from __future__ import annotations

import json
import shutil

import pytest
from typer.testing import CliRunner

import ddssp
from ddssp.cli import app

SCHEMA = ddssp.Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
ROWS = {"x": [0.1, 0.9], "y": [0, 1]}


@pytest.fixture
def folder(tmp_path):
    ddssp.Ledger(tmp_path / "l.db").set_budget("dataset", 1.0, 1e-6)
    for name in ("old", "new"):
        made = ddssp.release(ROWS, SCHEMA, epsilon=0.3, delta=1e-6, ledger=tmp_path / "l.db")
        made.save(tmp_path / f"{name}.ddssp")
        shutil.copy(tmp_path / "l.db", tmp_path / f"{name}.db")
    return tmp_path


def verify(folder, release: str):
    return CliRunner().invoke(app, ["ledger", "verify", str(folder / "l.db"), "--release", str(folder / release)])


def test_a_ledger_holds_its_releases(folder):
    for name in ("old.ddssp", "new.ddssp"):
        got = verify(folder, name)
        assert got.exit_code == 0
        assert "holds the entry" in got.output


def test_an_old_copy_put_back_is_found(folder):
    shutil.copy(folder / "old.db", folder / "l.db")
    assert verify(folder, "old.ddssp").exit_code == 0
    got = verify(folder, "new.ddssp")
    assert got.exit_code == 2
    assert "an old copy" in got.output


def test_a_release_without_a_ledger_is_told(folder):
    ddssp.release(ROWS, SCHEMA, epsilon=0.3, delta=1e-6).save(folder / "none.ddssp")
    assert "was made without a ledger" in str(verify(folder, "none.ddssp").exception)


def test_show_lists_every_reservation_and_whether_it_was_completed(folder):
    ledger = ddssp.Ledger(folder / "l.db")
    ledger.reserve(
        "dataset", ledger.remaining("dataset") / 2, epsilon=0.1, delta=1e-6, schema_fingerprint="ab", mechanism="aim"
    )  # fmt: skip
    [account] = json.loads(CliRunner().invoke(app, ["ledger", "show", str(folder / "l.db"), "--json"]).stdout)
    assert [(h["counter"], h["completed"]) for h in account["history"]] == [(1, "yes"), (2, "yes"), (3, "no, and spent")]
    shown = CliRunner().invoke(app, ["ledger", "show", str(folder / "l.db")]).stdout
    assert "no, and spent" in shown
    assert "moments" in shown
