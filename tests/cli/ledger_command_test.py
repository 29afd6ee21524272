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


def run(*arguments: str):
    return CliRunner().invoke(app, [*arguments])


def test_show_says_for_whom_each_release_is_paid(folder):
    ledger = ["ledger", "budget", str(folder / "l.db"), "-e", "1", "-d", "1e-6", "--dataset"]
    assert "for all rows with one 'who'" in run(*ledger, "people", "--unit", "who").output
    assert "for one row" in run(*ledger, "other").output
    ddssp.release(
        ROWS | {"who": [1, 1]},
        SCHEMA,
        epsilon=0.3,
        delta=1e-6,
        ledger=folder / "l.db",
        dataset="people",
        unit="who",
        max_rows=2,
    )
    rows, other, people = json.loads(run("ledger", "show", str(folder / "l.db"), "--json").stdout)
    assert (rows["unit"], rows["unit_column"], other["unit"], people["unit_column"]) == ("one row", None, "one row", "who")
    assert [(h["unit_column"], h["max_rows"]) for h in people["history"]] == [("who", 2)]
    shown = run("ledger", "show", str(folder / "l.db")).stdout
    assert "all rows with one 'who'" in shown
    assert "one 'who', k = 2" in shown


def test_another_schema_is_pointed_out_before_the_release_and_in_the_ledger(folder):
    (folder / "d.csv").write_text("x,y\n0.1,0\n0.9,1\n")
    wider = ddssp.Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 2}, "y": {"kind": "boolean"}})
    for name, schema in (("same", SCHEMA), ("wider", wider)):
        (folder / f"{name}.toml").write_text(schema.to_toml())
    fixed = ["-e", "0.1", "-d", "1e-6", "--ledger", str(folder / "l.db"), "--json", "-o", str(folder / "r.ddssp")]
    told = {
        (name, *how): run("release", str(folder / "d.csv"), "-s", str(folder / f"{name}.toml"), *fixed, *how)
        for name, *how in (("same", "--dry-run"), ("wider", "--dry-run"), ("wider",))
    }
    assert [json.loads(t.stdout)["schema_changed"] for t in told.values()] == [False, True, True]
    assert ["was made under another schema" in t.stderr for t in told.values()] == [False, True, True]
    [account] = json.loads(run("ledger", "show", str(folder / "l.db"), "--json").stdout)
    assert [h["schema_changed"] for h in account["history"]] == [False, False, True]
    assert run("ledger", "show", str(folder / "l.db")).stdout.count(", changed") == 1
