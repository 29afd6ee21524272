"""The command line: stdout is data, stderr is for the person, and the exit code says how it ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddssp
from ddssp.mechanism.moments import MomentsMechanism
from ddssp.privacy.ledger import Ledger

SCHEMA = """
name = "survey"
unit = "person"

[columns.age]
kind = "numeric"
low = 0
high = 100

[columns.plan]
kind = "categorical"
levels = ["a", "b"]

[columns.sick]
kind = "boolean"
"""
ROWS = {"age": [20.0, 30.0, 70.0, 60.0] * 50, "plan": ["a", "b", "b", "a"] * 50, "sick": [0, 0, 1, 1] * 50}
RELEASE = ("release", "data.parquet", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA)
    pq.write_table(pa.table(ROWS), "data.parquet")
    return tmp_path


@pytest.fixture
def run(folder, command_line):
    """The command line in this process, in the folder."""
    return command_line


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


# ---------------------------------------------------------------------------------------------------- the good way


def test_release_writes_one_file_and_says_what_it_spent(run, folder):
    got = run(*RELEASE, "-o", "r.ddssp")
    assert got.code == 0
    assert got.out == ""
    assert "spent ε = 1 at δ = 1e-06" in got.err
    assert "protects each person (add or remove one record)" in got.err
    assert "wrote r.ddssp" in got.err
    assert files(folder) == {"schema.toml", "data.parquet", "r.ddssp"}
    assert ddssp.load("r.ddssp").private


def test_release_as_json(run):
    got = run(*RELEASE, "-o", "r.ddssp", "--json", "--target", "age")
    assert (got.code, got.err) == (0, "")
    assert got.json["epsilon"] == 1.0
    assert got.json["target"] == "age"
    assert got.json["output"] == "r.ddssp"
    assert 0 < got.json["rho"] < 1
    assert got.json["dry_run"] is False


def test_dry_run_reads_draws_and_writes_nothing(run, folder):
    before = files(folder)
    got = run(*RELEASE, "--dry-run")
    assert (got.code, got.out) == (0, "")
    assert "would spend ε = 1" in got.err
    assert run(*RELEASE, "--dry-run", "--json").json["dry_run"] is True
    assert files(folder) == before


def test_release_from_csv(run):
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(ROWS), "data.csv")
    assert run("release", "data.csv", *RELEASE[2:], "-o", "r.ddssp").code == 0


def test_the_engine_is_chosen_and_told(run):
    assert "read by arrow" in run(*RELEASE, "-o", "r.ddssp").err
    got = run(*RELEASE, "-o", "s.ddssp", "--sql", "SELECT * FROM data WHERE age > 25", "--threads", "1", "--batch-rows", "50")
    assert got.code == 0
    assert "read by duckdb" in got.err
    told = run(*RELEASE, "--dry-run", "--engine", "duckdb", "--mechanism", "moments")
    assert "would take 1" in told.err
    assert "draws of noise" in told.err
    assert "read by duckdb" in told.err
    facts = run(*RELEASE, "--dry-run", "--json").json
    assert facts["engine"] == "arrow"
    assert facts["memory"] > 2**27


def test_fit_prints_coefficients_by_name(run):
    run(*RELEASE, "-o", "r.ddssp")
    got = run("fit", "r.ddssp", "--target", "age")
    assert (got.code, got.err) == (0, "")
    for name in ("intercept", "plan=b", "sick", "ε = 1"):
        assert name in got.out
    as_json = run("fit", "r.ddssp", "--target", "age", "--features", "sick", "--json")
    assert set(as_json.json["coef"]) == {"intercept", "sick"}
    assert as_json.json["private"] is True
    assert as_json.err == ""


def test_info_says_what_a_release_is(run):
    run(*RELEASE, "-o", "r.ddssp")
    got = run("info", "r.ddssp")
    assert got.code == 0
    for word in ("moments", "person", "add or remove one record", "age"):
        assert word in got.out
    as_json = run("info", "r.ddssp", "--json").json
    assert as_json["epsilon"] == 1.0
    assert as_json["schema"]["columns"]["age"]["high"] == 100.0


def test_schema_draft_check_confirm_release(run, folder):
    Path("schema.toml").unlink()
    got = run("schema", "draft", "data.parquet")
    assert (got.code, got.out) == (0, "")
    assert "for the owner only" in got.err
    text = Path("schema.toml").read_text()
    assert text.startswith("# Drafted from the data, for its owner only.")
    assert Path("schema.toml").stat().st_mode & 0o777 == 0o600
    got = run("schema", "check", "schema.toml", "data.parquet")
    assert got.code == 0
    assert "TO CONFIRM" in got.err
    got = run(*RELEASE, "-o", "r.ddssp")
    assert got.code == 2
    assert "still TO CONFIRM in age.low, age.high" in got.err
    assert "r.ddssp" not in files(folder)
    Path("schema.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("to_confirm")))
    assert run("schema", "check", "schema.toml", "data.parquet", "--json").json["to_confirm"] == []
    assert run(*RELEASE, "-o", "r.ddssp").code == 0


def test_a_draft_as_json_names_what_it_left_out(run):
    import datetime

    pq.write_table(pa.table({"x": [1.5, 2.5], "when": [datetime.date(2020, 1, 1)] * 2}), "dates.parquet")
    got = run("schema", "draft", "dates.parquet", "-o", "d.toml", "--json").json
    assert got["left_out"] == ["when"]
    assert got["to_confirm"] == ["x.low", "x.high"]


def test_schema_help_says_owner_only(run):
    assert "owner only" in run("schema", "--help").out


def test_ledger_from_budget_to_refusal(run, folder):
    assert run("ledger", "budget", "l.db", "--epsilon", "1.2", "--delta", "1e-6", "--dataset", "survey").code == 0
    got = run(*RELEASE, "-o", "one.ddssp", "--ledger", "l.db")
    assert got.code == 0
    shown = run("ledger", "show", "l.db", "--json").json
    assert shown[0]["dataset"] == "survey"
    assert shown[0]["epsilon_spent"] == pytest.approx(1.0, rel=1e-6)
    assert "survey" in run("ledger", "show", "l.db").out
    refused = run(*RELEASE, "-o", "two.ddssp", "--ledger", "l.db")
    assert refused.code == 3
    assert refused.err.startswith("error: rho must fit under the ceiling of dataset 'survey'")
    assert refused.err.count("\n") == 1
    assert "ask for epsilon 0.6169 or less" in refused.err
    assert "two.ddssp" not in files(folder)
    assert run("ledger", "show", "l.db", "--json").json[0]["rho_spent"] == shown[0]["rho_spent"]
    assert run("ledger", "verify", "l.db").code == 0
    assert run("ledger", "verify", "l.db", "--json").json["ok"] is True
    assert run("ledger", "budget", "l.db", "-e", "3", "-d", "1e-6", "--dataset", "survey", "--json").json["epsilon"] == 3.0


def test_a_dry_run_says_what_the_ledger_would_leave(run):
    run("ledger", "budget", "l.db", "--epsilon", "1.2", "--delta", "1e-6", "--dataset", "survey")
    before = run(*RELEASE, "--ledger", "l.db", "--dry-run", "--json").json["ledger"]["epsilon_left"]
    assert "would leave ε = 0.6172 for dataset 'survey' in the ledger" in run(*RELEASE, "--ledger", "l.db", "--dry-run").err
    assert "left: ε = 0.6172 for dataset 'survey'" in run(*RELEASE, "--ledger", "l.db").err
    assert run("ledger", "show", "l.db", "--json").json[0]["epsilon_left"] == before
    assert "no ledger keeps count" in run(*RELEASE, "--dry-run", "-o", "other.ddssp").err


def test_a_name_in_no_ledger_is_refused(run, folder):
    got = run(*RELEASE, "--dataset", "survey", "-o", "r.ddssp")
    assert (got.code, got.err) == (
        2,
        "error: dataset is a name in a ledger, got 'survey' without one; add --ledger, or leave --dataset out.\n",
    )
    assert "r.ddssp" not in files(folder)


def test_a_dry_run_asks_the_ledger_too(run):
    run("ledger", "budget", "l.db", "--epsilon", "0.5", "--delta", "1e-6", "--dataset", "survey")
    assert run(*RELEASE, "--ledger", "l.db", "--dry-run").code == 3


def test_version_and_help(run):
    assert run("--version").out == f"ddssp {ddssp.__version__}\n"
    text = run("--help").out
    for word in ("release", "fit", "info", "schema", "ledger", "demo", "Exit codes"):
        assert word in text
    assert run().code in (0, 2)


@pytest.mark.parametrize("command", [["release"], ["fit"], ["info"], ["demo"], ["schema", "draft"], ["schema", "check"],
                                     ["ledger", "show"], ["ledger", "verify"], ["ledger", "budget"]])  # fmt: skip
def test_every_command_prints_json_and_explains_itself(run, command):
    got = run(*command, "--help")
    assert got.code == 0
    assert "--json" in got.out


# ---------------------------------------------------------------------------------------------------- bad input


def spoiled(text: str, replacement: str) -> str:
    assert text in SCHEMA
    return SCHEMA.replace(text, replacement)


BAD_SCHEMAS = {
    "level twice": (spoiled('["a", "b"]', '["a", "a"]'), "column 'plan': levels must be distinct, got 'a' twice"),
    "low = high": (spoiled("high = 100", "high = 0"), "column 'age': low must be below high"),
    "low > high": (spoiled("high = 100", "high = -1"), "column 'age': low must be below high"),
    "not TOML": ("[columns", "is not TOML"),
    "unknown column": (SCHEMA + '\n[columns.wage]\nkind = "boolean"\n', "column 'wage' of the schema is absent from the data"),
    "too large": (spoiled('levels = ["a", "b"]', "levels = 60000"), "more than the 268,435,456 that are held at once"),
    "absurdly large": (spoiled('levels = ["a", "b"]', "levels = 99999999999"), "a count from 1 to 65536"),
    "to confirm": (spoiled("high = 100", 'high = 100\nto_confirm = ["high"]'), "still TO CONFIRM in age.high"),
    "unknown setting": (spoiled("high = 100", "high = 100\nunits = 3"), "column 'age': units: is not a setting"),
}
BAD_ARGUMENTS = {
    "epsilon 0": (["--epsilon", "0"], "epsilon must be positive and finite, got 0"),
    "epsilon below 0": (["--epsilon", "-1"], "epsilon must be positive and finite, got -1"),
    "epsilon nan": (["--epsilon", "nan"], "epsilon must be positive and finite, got nan"),
    "delta 1": (["--delta", "1"], "delta must lie strictly between 0 and 1, got 1"),
    "delta 0": (["--delta", "0"], "delta must lie strictly between 0 and 1, got 0"),
    "target": (["--target", "wage"], "target must be a column of the schema, got 'wage'; it has age, plan, sick"),
    "mechanism": (["--mechanism", "magic"], "mechanism must be one of"),
    "no schema": (["--schema", "none.toml"], "schema file 'none.toml' does not exist"),
    "no folder": (["--output", "none/r.ddssp"], "output folder 'none' does not exist"),
    "a folder": (["--output", ".."], "output '..' is a folder; name a file in it"),
    "no name": (["--output", ""], "output must name a file, got ''"),
    "no ledger": (["--ledger", "none.db"], "ledger must be an existing file"),
    "no engine": (["--engine", "ibis"], "engine must be one of auto, arrow, duckdb, spark, got 'ibis'"),
    "no query": (["--sql", "SELEC"], "the query fails in DuckDB"),
    "no rows at once": (["--batch-rows", "0"], "batch_rows must be a whole number from 1 to"),
}


@pytest.fixture
def budgeted(run) -> Ledger:
    run("ledger", "budget", "l.db", "--epsilon", "50", "--delta", "1e-6", "--dataset", "survey")
    return Ledger("l.db")


def assert_refused(got: Any, message: str, folder: Path, ledger: Ledger, before: set[str]) -> None:
    """One sentence, exit 2, nothing written, nothing spent."""
    assert got.code == 2
    assert got.out == ""
    assert got.err.startswith("error: ")
    assert got.err.count("\n") == 1
    assert got.err.endswith(".\n")
    assert message in got.err
    assert files(folder) == before
    assert ledger.spent("survey") == 0


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schema(case, run, folder, budgeted):
    content, message = BAD_SCHEMAS[case]
    Path("schema.toml").write_text(content)
    before = files(folder)
    got = run(*RELEASE, "--ledger", "l.db", "-o", "r.ddssp")
    assert_refused(got, message, folder, budgeted, before)
    if case not in {"unknown column", "too large", "to confirm"}:
        assert run("schema", "check", "schema.toml").code == 2


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_argument(case, run, folder, budgeted):
    arguments, message = BAD_ARGUMENTS[case]
    before = files(folder)
    output = [] if "--output" in arguments else ["-o", "r.ddssp"]
    assert_refused(run(*RELEASE, "--ledger", "l.db", *output, *arguments), message, folder, budgeted, before)


def test_a_domain_too_large_is_refused_before_the_data_is_looked_at(run, folder, budgeted):
    Path("schema.toml").write_text(spoiled('levels = ["a", "b"]', "levels = 60000"))
    Path("data.parquet").unlink()
    before = files(folder)
    got = run(*RELEASE, "--ledger", "l.db", "-o", "r.ddssp")
    assert_refused(got, "schema has 60,002 levels in all", folder, budgeted, before)


@pytest.mark.parametrize(
    ("name", "content"), [("none.parquet", None), ("text.parquet", b"a,b\n"), ("empty.csv", b""), ("noise.bin", b"\0\1")]
)
def test_unreadable_data(name, content, run, folder, budgeted):
    if content is not None:
        Path(name).write_bytes(content)
    before = files(folder)
    got = run("release", name, *RELEASE[2:], "--ledger", "l.db", "-o", "r.ddssp")
    assert_refused(got, f"data file '{name}' ", folder, budgeted, before)


def meanwhile(monkeypatch, happen):
    """Lets something happen to the files after the reservation, while the noise is drawn."""
    run = MomentsMechanism.run

    def drawn(self, *given):
        happen()
        return run(self, *given)

    monkeypatch.setattr(MomentsMechanism, "run", drawn)


@pytest.mark.parametrize("gone", [False, True], ids=["the file appears", "the folder goes away"])
def test_a_release_that_cannot_be_written_where_it_should_is_kept_elsewhere(gone, run, folder, budgeted, monkeypatch):
    Path("out").mkdir()
    meanwhile(monkeypatch, Path("out").rmdir if gone else lambda: Path("out/r.ddssp").write_text("mine"))
    got = run(*RELEASE, "--ledger", "l.db", "-o", "out/r.ddssp")
    kept = Path("r-2.ddssp" if gone else "out/r-2.ddssp")
    assert got.code == 2
    assert "its budget stays spent" in got.err
    assert ("does not exist" if gone else "output 'out/r.ddssp' exists by now; the release is made") in got.err
    assert kept.name in got.err
    assert ddssp.load(kept).private
    assert gone or Path("out/r.ddssp").read_text() == "mine"
    assert budgeted.spent("survey") > 0


@pytest.mark.filterwarnings("default")
def test_a_release_is_not_lost_where_the_ledger_cannot_note_its_end(run, folder, budgeted, monkeypatch):
    meanwhile(monkeypatch, lambda: os.link("l.db", "copy.db"))
    got = run(*RELEASE, "--ledger", "l.db", "-o", "r.ddssp")
    assert got.code == 0
    assert got.err.startswith("warning: the release is made and paid for, but the ledger could not note that it is complete")
    assert ddssp.load("r.ddssp").private
    os.unlink("copy.db")
    assert budgeted.spent("survey") > 0
    assert budgeted.verify().ok


def test_existing_output_is_kept_without_force(run, folder, budgeted):
    Path("r.ddssp").write_text("mine")
    before = files(folder)
    got = run(*RELEASE, "--ledger", "l.db", "-o", "r.ddssp")
    assert_refused(got, "output 'r.ddssp' exists; choose another name or pass --force", folder, budgeted, before)
    assert Path("r.ddssp").read_text() == "mine"
    assert run(*RELEASE, "-o", "r.ddssp", "--force").code == 0
    assert ddssp.load("r.ddssp").private


def test_existing_schema_is_kept_without_force(run):
    got = run("schema", "draft", "data.parquet", "-o", "schema.toml")
    assert got.code == 2
    assert "exists" in got.err
    assert Path("schema.toml").read_text() == SCHEMA
    assert run("schema", "draft", "data.parquet", "-o", "schema.toml", "--force").code == 0


@pytest.mark.parametrize("output", ["data.parquet", "./schema.toml", "l.db", "link.ddssp", "hard.ddssp", "notes.txt"])
def test_force_never_replaces_an_input_or_another_kind_of_file(output, run, folder, budgeted):
    Path("notes.txt").write_text("mine")
    Path("link.ddssp").symlink_to("data.parquet")
    Path("hard.ddssp").hardlink_to("data.parquet")
    content = {p: p.read_bytes() for p in folder.iterdir()}
    got = run(*RELEASE, "--ledger", "l.db", "-o", output, "--force")
    assert got.code == 2
    assert ("no other kind is ever replaced" if output == "notes.txt" else "would replace the") in got.err
    assert {p: p.read_bytes() for p in folder.iterdir()} == content
    assert budgeted.spent("survey") == 0
    assert run("schema", "draft", "data.parquet", "-o", "data.parquet", "--force").code == 2
    assert {p: p.read_bytes() for p in folder.iterdir()} == content


def test_an_unforeseen_failure_is_told_by_its_type_alone(run, monkeypatch):
    def fail(*_args, **_options):
        raise RuntimeError("secret 4711")

    monkeypatch.setattr("ddssp.curate.columns_of", fail)
    got = run(*RELEASE, "-o", "r.ddssp")
    assert (got.code, got.out) == (1, "")
    assert "RuntimeError" in got.err
    assert "4711" not in got.err
    assert got.err.count("\n") == 1


@pytest.mark.parametrize("command", [("fit", "r.ddssp", "--target", "age"), ("info", "r.ddssp")])
def test_a_damaged_release(command, run):
    run(*RELEASE, "-o", "r.ddssp")
    content = Path("r.ddssp").read_bytes()
    for damaged in (content[:-1], content[: len(content) // 2], content[:100] + b"!" + content[101:]):
        Path("r.ddssp").write_bytes(damaged)
        got = run(*command)
        assert (got.code, got.out) == (2, "")
        assert got.err == (
            "error: release 'r.ddssp' is damaged or not a release: its checksum does not match; "
            "fetch it again from its owner.\n"
        )
    Path("r.ddssp").unlink()
    assert run(*command).err == "error: release 'r.ddssp' does not exist; check its name and folder.\n"


@pytest.mark.parametrize("given", ["rows.csv", "data.parquet", "schema.toml", "empty.ddssp"])
def test_another_file_is_not_taken_for_a_release(given, run):
    Path("rows.csv").write_text("age,plan\n40,plus\n" * 50)
    Path("empty.ddssp").touch()
    got = run("info", given)
    assert (got.code, got.out) == (2, "")
    said = "is not a ddssp release; name a .ddssp file, or fetch it again from its owner."
    assert got.err == f"error: release {given!r} {said}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "wage"], "'wage'"),
        (["--target", "plan"], "'plan' is categorical"),
        (["--target", "age", "--features", "wage"], "'wage'"),
        (["--target", "age", "--features", "age"], "'age'"),
        (["--target", "age", "--model", "magic"], "model must be one of"),
    ],
)
def test_a_fit_that_cannot_be(run, arguments, message):
    run(*RELEASE, "-o", "r.ddssp")
    got = run("fit", "r.ddssp", *arguments)
    assert (got.code, got.out) == (2, "")
    assert message in got.err
    assert got.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [("release",), ("release", "data.parquet", "--epsilon", "one"), ("nonsense",), ("fit",), ("release", "--what")]
)
def test_usage_errors_are_one_sentence_and_2(run, arguments):
    got = run(*arguments)
    assert (got.code, got.out) == (2, "")
    assert got.err.startswith("error: ")
    assert got.err.endswith(" --help`.\n")
    assert got.err.count("\n") == 1


def test_ledger_that_is_none(run):
    Path("l.db").write_text("no ledger")
    for command in (("show",), ("verify",), ("budget", "-e", "1", "-d", "1e-6")):
        got = run("ledger", command[0], "l.db", *command[1:])
        assert got.code == 2
        assert got.err.startswith("error: ledger must")


# ---------------------------------------------------------------------------------------------------- as a process


def process(*args: str, **options) -> subprocess.CompletedProcess[str]:
    command = str(Path(sys.executable).with_name("ddssp"))
    return subprocess.run([command, *args], capture_output=True, text=True, encoding="utf-8", **options)


def test_streams_and_exit_codes_as_a_process(folder):
    got = process(*RELEASE, "-o", "r.ddssp", "--json")
    assert (got.returncode, got.stderr) == (0, "")
    assert json.loads(got.stdout)["mechanism"]
    got = process(*RELEASE, "-o", "r.ddssp")
    assert (got.returncode, got.stdout) == (2, "")
    assert got.stderr.startswith("error: output 'r.ddssp' exists")


def test_a_terminal_without_greek_does_not_turn_a_spent_budget_into_an_error(folder):
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    got = process(*RELEASE, "-o", "r.ddssp", env=plain)
    assert got.returncode == 0
    assert "spent ? = 1" in got.stderr
    assert process("fit", "r.ddssp", "--target", "age", env=plain).returncode == 0


def test_a_reader_that_has_enough_makes_no_noise(folder):
    process(*RELEASE, "-o", "r.ddssp")
    command = f"'{Path(sys.executable).with_name('ddssp')}' info r.ddssp --json | head -c 10"
    got = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (got.returncode, got.stderr) == (0, "")


def test_python_minus_m(folder):
    got = subprocess.run([sys.executable, "-m", "ddssp", "--version"], capture_output=True, text=True)
    assert (got.returncode, got.stdout) == (0, f"ddssp {ddssp.__version__}\n")
