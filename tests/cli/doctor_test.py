"""`ddssp doctor`, `report`, the preview of a release, help and completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ddssp
from ddssp.cli import app, doctor
from ddssp.cli.examples import EXAMPLES
from ddssp.engine import KINDS
from ddssp.report.expectation import expectation
from ddssp.schema import Schema

SCHEMA = """
name = "people"
unit = "person"
[columns.age]
kind = "numeric"
low = 0
high = 100
[columns.plan]
kind = "categorical"
levels = ["basic", "plus"]
[columns.visits]
kind = "numeric"
low = 0
high = 20
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A schema and rows, in the folder where commands run."""
    rng = np.random.default_rng(0)
    age, plan = rng.integers(18, 90, 800), rng.choice(["basic", "plus"], 800)
    lines = [f"{a},{p},{v}" for a, p, v in zip(age, plan, rng.integers(0, 9, 800), strict=True)]
    (tmp_path / "people.csv").write_text("age,plan,visits\n" + "\n".join(lines) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_doctor_says_what_is_there(command_line):
    done = command_line("ddssp doctor --json")
    assert done.code == 0
    found = done.json
    assert found["ok"] is True
    assert found["environment"]["ddssp"] == ddssp.__version__
    assert found["core"]["numpy"] == np.__version__
    assert "All is well" in command_line("ddssp doctor").out


def test_doctor_names_the_remedy_for_what_is_not(command_line, monkeypatch):
    found = {"numba": None, "opendp": None}
    there = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda package: found.get(package, "?") if package in found else there(package))
    done = command_line("ddssp doctor")
    assert done.code == 2
    assert "pip install 'ddssp[speed]'" in done.out
    assert "MISSING" in done.out


def test_doctor_says_which_engines_are_ready_and_what_the_others_lack(command_line, monkeypatch):
    engines = command_line("ddssp doctor --json").json["engines"]
    assert list(engines) == [kind for kind in KINDS if kind != "auto"]
    assert engines["arrow"]["ready"] is True
    options = command_line("ddssp release --help").out
    for option in ("--batch-rows", "--threads", "--sql", "--master"):
        assert any(option in note for note in doctor.ENGINES.values())
        assert option in options
    there = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda package: None if package == "duckdb" else "4" if package == "pyspark" else there(package)
    )
    monkeypatch.setattr(doctor, "which", lambda _name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    engines = command_line("ddssp doctor --json").json["engines"]
    assert engines["duckdb"] == {"ready": False, "note": "pip install 'ddssp[duckdb]'"}
    assert engines["spark"] == {"ready": False, "note": "install Java 17 or set JAVA_HOME"}


def test_every_extra_of_the_project_is_looked_for():
    import tomllib

    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    for name, packages in project["optional-dependencies"].items():
        if name in doctor.EXTRAS:
            assert any(p.startswith(doctor.EXTRAS[name][0]) for p in packages), name
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - {"all"}
    for requirement in project["dependencies"]:
        assert requirement.split(">")[0] in doctor.CORE, requirement


def test_every_example_in_the_help_runs(folder, command_line):
    """In the order a newcomer would use them."""
    order = ("draft", "check", "budget", "release", "show", "verify", "info", "fit", "synth", "report", "doctor", "audit")
    for name in order:
        if name == "draft":
            (folder / "schema.toml").unlink()
        assert command_line(EXAMPLES[name]).code == 0, name
        if name == "draft":
            (folder / "schema.toml").write_text(SCHEMA)
    assert set(EXAMPLES) == {*order, "demo"}


def test_every_command_has_an_example():
    for command in app.registered_commands:
        assert command.name in EXAMPLES or command.name == "reproduce", command.name


def test_report_of_a_release(folder, command_line):
    assert command_line(EXAMPLES["release"]).code == 0
    assert command_line("ddssp report people.ddssp -o r.html --json").json["bytes"] == (folder / "r.html").stat().st_size
    again = command_line("ddssp report people.ddssp -o r.html")
    assert again.code == 2
    assert again.err == "error: output 'r.html' exists; choose another name or pass --force.\n"
    unnamed = command_line("ddssp report people.ddssp -o ''")
    assert unnamed.code == 2
    assert unnamed.err == "error: output must name a file, got '' or '.', which is this folder; name a file in it.\n"
    assert command_line("ddssp report absent.ddssp").code == 2
    assert command_line("ddssp report people.ddssp -o -").out == (folder / "r.html").read_text(encoding="utf-8")
    assert not (folder / "-").exists()
    assert command_line("ddssp report people.ddssp -o - --json").code == 2
    assert "is a folder; name a .ddssp file" in command_line("ddssp info .").err
    assert not (folder / "report.html").exists()


def test_preview_of_a_release_spends_nothing(folder, command_line):
    base = "ddssp release people.csv -s schema.toml -e 1 -d 1e-6 -o p.ddssp"
    assert command_line(f"{base} --dry-run --report preview.html --records 5000").code == 0
    assert "What to expect" in (folder / "preview.html").read_text(encoding="utf-8")
    assert not (folder / "p.ddssp").exists()
    for line in (
        f"{base} --report x.html --records 5000",
        f"{base} --dry-run --report x.html",
        f"{base} --dry-run --records 9",
    ):
        done = command_line(line)
        assert done.code == 2
        assert "--report needs --dry-run and --records" in done.err


def test_expected_errors_are_those_of_releases_of_such_data(folder):
    """Even, unrelated columns, released and fitted: the errors that were announced, within a fifth."""
    schema = Schema.load("schema.toml")
    rng = np.random.default_rng(1)
    n = 20_000
    rows = {"age": rng.uniform(0, 100, n), "plan": rng.choice(["basic", "plus"], n), "visits": rng.uniform(0, 20, n)}
    announced = {r["epsilon"]: r for r in expectation(schema, records=n, epsilon=1, delta=1e-6, target="visits")["rows"]}
    for epsilon in (0.5, 2.0):
        fit = ddssp.release(rows, schema, epsilon=epsilon, delta=1e-6, mechanism="moments", target="visits").linear("visits")
        got = [fit.stderr["age"] * 100 / 10, fit.stderr["plan=plus"] / 10]  # over the ranges; half the target's range is 10
        assert announced[epsilon]["total"] == pytest.approx(np.median(got), rel=0.2)
    totals = [r["total"] for r in announced.values()]
    assert totals == sorted(totals, reverse=True)


def test_a_fit_keeps_within_the_terminal(folder, command_line, monkeypatch):
    """Of eighty letters: columns that do not fit follow below, none is lost."""
    command_line("ddssp release people.csv --schema schema.toml --epsilon 1 --delta 1e-6 -o narrow.ddssp")
    monkeypatch.setenv("COLUMNS", "60")
    narrow = command_line("ddssp fit narrow.ddssp --target visits").out
    monkeypatch.setenv("COLUMNS", "200")
    wide = command_line("ddssp fit narrow.ddssp --target visits").out
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))
    words = {word for word in wide.split() if set(word) - set("=-")}
    assert words <= set(narrow.split())


def test_a_declared_target_with_levels_gets_its_share_in_the_preview(folder):
    """Explained is a number; what is declared takes from its budget, and being declared itself would add to it."""
    schema = Schema.load("schema.toml")

    def error(target):
        found = expectation(schema, records=5000, epsilon=1, delta=1e-6, target=target)
        assert (found["target"], found["declared"]) == ("age", target)
        return next(r["total"] for r in found["rows"] if r["epsilon"] == 1)

    assert error("plan") > 1.02 * error("age")
    assert error(None) > 1.02 * error("age")


def test_expectation_needs_a_number_to_explain():
    schema = Schema(columns={"a": {"kind": "categorical", "levels": 3}, "b": {"kind": "categorical", "levels": 3}})
    with pytest.raises(ValueError, match="must declare a number"):
        expectation(schema, records=10, epsilon=1, delta=1e-6)
    for records in (0, 10**13):
        with pytest.raises(ValueError, match="records must be from 1 to"):
            expectation(
                Schema(columns={"x": {"kind": "boolean"}, "y": {"kind": "boolean"}}), records=records, epsilon=1, delta=1e-6
            )


def shell(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("ddssp"))
    return subprocess.run([command, *words], capture_output=True, text=True, env={**os.environ, **env}, timeout=60)


def test_no_colours_in_a_pipe():
    for words in (("--help",), ("fit", "--help"), ("doctor",)):
        assert "\x1b[" not in shell(*words).stdout


def test_version_and_completion():
    assert shell("--version").stdout == f"ddssp {ddssp.__version__}\n"
    done = shell(_DDSSP_COMPLETE="complete_bash", COMP_WORDS="ddssp rep", COMP_CWORD="1")
    assert "report" in done.stdout.split()
