"""`ddssp release --unit --max-rows`: people instead of rows."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import ddssp
from ddssp.cli import app
from ddssp.frame import DataError

SCHEMA = 'name = "visits"\nunit = "patient"\n[columns.x]\nkind = "numeric"\nlow = 0\nhigh = 1\n[columns.y]\nkind = "boolean"\n'


@pytest.fixture
def files(tmp_path):
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "d.csv").write_text("who,x,y\n" + "7,0.5,1\n" * 50 + "8,0.1,0\n")
    return tmp_path


def release(folder, *arguments: str):
    base = [
        "release",
        str(folder / "d.csv"),
        "-s",
        str(folder / "s.toml"),
        "-e",
        "1",
        "-d",
        "1e-6",
        "-o",
        str(folder / "r.ddssp"),
    ]
    return CliRunner().invoke(app, [*base, *arguments])


def test_a_release_of_people(files):
    got = release(files, "--unit", "who", "--max-rows", "3")
    assert got.exit_code == 0
    assert "protects each patient (all rows with one 'who', of which at most 3 count)" in got.output
    assert ddssp.load(files / "r.ddssp").contribution.rows == 3
    shown = CliRunner().invoke(app, ["info", str(files / "r.ddssp"), "--json"])
    assert json.loads(shown.stdout)["contribution"] == {"column": "who", "rows": 3}


def test_a_unit_that_the_data_does_not_have_costs_nothing(files):
    got = release(files, "--unit", "nobody", "--max-rows", "3")
    said = "unit must name one column of the data, got 'nobody', which it has not at all; check the spelling."
    assert str(got.exception) == said
    with pytest.raises(DataError, match="got 'nobody', which it has not at all"):
        ddssp.release(files / "d.csv", files / "s.toml", epsilon=1, delta=1e-6, unit="nobody", max_rows=3)
    assert not (files / "r.ddssp").exists()


def test_one_without_the_other_is_refused(files):
    assert "max_rows needs unit beside it" in str(release(files, "--max-rows", "3").exception)
