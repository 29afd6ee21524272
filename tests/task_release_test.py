"""Task releases from door to file to command line: what auto chooses, what is refused, what a failure costs."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ddssp
from ddssp.cli import main
from ddssp.curate import curate, plan, release
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import DataError
from ddssp.mechanism import task
from ddssp.mechanism.moments import MomentsMechanism
from ddssp.mechanism.task import ROUNDS, TaskMechanism
from ddssp.model.interval import IntervalError
from ddssp.privacy.curator import Link
from ddssp.privacy.ledger import Ledger
from ddssp.released import Release, ReleaseError, from_bytes
from ddssp.schema import Schema
from ddssp.secret import rows as passes

COLUMNS = {
    "age": {"kind": "numeric", "low": 0, "high": 100},
    "plan": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "sick": {"kind": "boolean"},
    "grade": {"kind": "ordinal", "levels": 4},
}
SCHEMA = Schema(name="survey", unit="person", columns=COLUMNS)
ROWS = {
    "age": [20.0, 30.0, 70.0, 60.0] * 30,
    "plan": ["a", "b", "b", "c"] * 30,
    "sick": [False, False, True, True] * 30,
    "grade": [0, 1, 2, 3] * 30,
}


def made(target: str, **options) -> Release:
    return curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, target=target, **options), noise=SeededNoise(0))


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    out = Ledger(tmp_path / "l.db")
    out.set_budget("survey", 5.0, 1e-6)
    return out


# ---------------------------------------------------------------------------------------------------- what is chosen


def chosen(target: str | None, schema: Schema = SCHEMA, **options):
    return plan(schema, epsilon=1, delta=1e-6, target=target, **options).mechanism


def test_auto_is_task_for_a_target_that_one_regression_explains():
    assert chosen("age") == TaskMechanism(target="age", link=Link.IDENTITY)
    assert chosen("grade") == TaskMechanism(target="grade", link=Link.IDENTITY)
    assert chosen("sick") == TaskMechanism(target="sick", link=Link.LOGIT)
    assert chosen("sick", model="linear") == TaskMechanism(target="sick", link=Link.IDENTITY)


def test_auto_is_moments_for_everything_else():
    assert chosen(None) == MomentsMechanism()
    assert chosen("plan") == MomentsMechanism(target="plan")
    alone = Schema(columns={"age": COLUMNS["age"], "one": {"kind": "categorical", "levels": ["only"]}})
    assert chosen("age", alone) == MomentsMechanism(target="age")
    assert chosen("one", alone) == MomentsMechanism(target="one")
    vectors = Schema(columns=COLUMNS | {"v": {"kind": "categorical", "levels": ["a", "b"], "values": [[1, 0], [0, 1]]}})
    assert chosen("age", vectors) == MomentsMechanism(target="age")
    assert chosen("sick", vectors, model="linear") == MomentsMechanism(target="sick")


REFUSED = {
    "no target": ({"mechanism": "task"}, "target must be declared for mechanism task"),
    "a table as target": ({"mechanism": "task", "target": "plan"}, "must be a number, ordinal or boolean"),
    "logistic of numbers": ({"target": "age", "model": "logistic"}, "'age' must have two levels for model logistic"),
    "unknown model": ({"target": "age", "model": "probit"}, "model must be one of"),
    "linear model of a table": ({"target": "plan", "model": "linear"}, "model linear needs a declared target with numbers"),
    "model of no target": ({"model": "linear"}, "model linear needs a declared target"),
    "model without task": ({"mechanism": "moments", "target": "age", "model": "linear"}, "model is for mechanism task"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_that_cannot_be(case):
    options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        plan(SCHEMA, epsilon=1, delta=1e-6, **options)


# ---------------------------------------------------------------------------------------------------- the file


@pytest.mark.parametrize("target", ["age", "sick"])
def test_what_is_loaded_is_what_was_saved(target, tmp_path):
    one = made(target)
    one.save(tmp_path / "r.ddssp")
    two = ddssp.load(tmp_path / "r.ddssp")
    assert two == one
    assert two.to_bytes() == one.to_bytes()
    assert (two.fitted.target, two.fitted.link) == (one.fitted.target, one.fitted.link)
    assert np.array_equal(two.fitted.theta, one.fitted.theta)
    fit, again = (r.linear("age") if target == "age" else r.logistic("sick") for r in (one, two))
    assert fit.coef == again.coef
    assert np.array_equal(fit.predict(ROWS), again.predict(ROWS))
    assert one != replace(one, fitted=replace(one.fitted, theta=one.fitted.theta * 2))
    assert one != replace(one, fitted=None)


def spoiled(**changes) -> bytes:
    """A sealed file whose fit is not one."""
    one = made("age")
    return replace(one, fitted=replace(one.fitted, **changes)).to_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"theta": np.zeros(5)},
        {"theta": np.zeros(7)},
        {"theta": np.zeros((1, 6))},
        {"theta": np.zeros(0)},
        {"theta": np.array([0, 0, 0, 0, 0, np.nan])},
        {"theta": np.array([0, 0, np.inf, 0, 0, 0])},
        {"link": Link.LOGIT},
    ],
)
def test_a_fit_that_is_none_is_refused(changes):
    assert from_bytes(spoiled()).fitted.theta.shape == (6,)
    with pytest.raises(ReleaseError, match=r"has (coefficients that do not fit its encoding|numbers that are not finite)"):
        from_bytes(spoiled(**changes))


@pytest.mark.parametrize("target", ["wage", None, "plan"])
def test_a_fit_of_another_target_is_refused(target):
    with pytest.raises(ReleaseError):
        from_bytes(replace(made("age"), target=target).to_bytes())


def test_other_regressions_are_refused_with_what_it_does_answer():
    one = made("sick")
    only = r"did not measure .*; it answers the logistic one of 'sick' on all columns\."
    for ask in (
        lambda: one.linear("age"),
        lambda: one.linear("sick"),
        lambda: one.logistic("sick", features=["age"]),
        lambda: one.logistic("sick", approximation="chebyshev2"),
        lambda: one.logistic("sick", radius=4.0),
        lambda: one.poisson("grade"),
        lambda: one.naive_bayes("sick"),
        lambda: one.ridge("age"),
    ):
        with pytest.raises(ReleaseError, match=only):
            ask()
    with pytest.raises(ReleaseError, match="answers the linear one of 'age'"):
        made("age").linear("age", intercept=False)


def test_no_interval_is_printed_for_a_fit_that_has_none():
    for fit in (made("age").linear("age"), made("sick").logistic("sick")):
        assert "no standard errors" in fit.not_covered
        assert "no standard errors" in fit.summary()
        assert fit.to_dict()["not_covered"] == fit.not_covered
        for ask in (fit.conf_int, lambda fit=fit: fit.stderr, lambda fit=fit: fit.wald(["grade"])):
            with pytest.raises(IntervalError, match="no standard errors"):
                ask()
    linear = made("age").linear("age")
    for name in ("rss", "r2", "residual_variance"):
        with pytest.raises(IntervalError, match="no residual sum of squares"):
            getattr(linear, name)
    assert linear.log_likelihood is None


# ---------------------------------------------------------------------------------------------------- one pass is not enough


class Once:
    """What can be read only once, and must not be."""

    def __init__(self):
        self.read = False

    def __iter__(self):
        return self

    def __next__(self):
        self.read = True
        raise StopIteration


@pytest.mark.parametrize("shape", ["reader", "iterator as a column"])
def test_what_can_be_read_only_once_is_refused_before_anything_is_read_or_spent(shape, ledger):
    once = Once()
    data = ROWS | {"age": once}
    if shape == "reader":
        table = pa.table(ROWS)
        data = pa.RecordBatchReader.from_batches(table.schema, (once.read or b for b in table.to_batches()))
    with pytest.raises(DataError, match="data must be readable more than once for mechanism task"):
        release(data, SCHEMA, epsilon=1, delta=1e-6, target="age", ledger=ledger)
    assert ledger.spent("survey") == 0
    assert not once.read
    if shape == "reader":
        assert data.read_all().num_rows == 120  # untouched, and good for moments
        fresh = pa.RecordBatchReader.from_batches(table.schema, table.to_batches())
        assert release(fresh, SCHEMA, epsilon=1, delta=1e-6, mechanism="moments").private


def failing(tmp_path, ledger: Ledger, change, when: str = "first moments", suffix: str = "parquet") -> str:
    """The message of a release whose file `change` alters at a stage; its budget must be spent."""
    path = tmp_path / f"data.{suffix}"
    if suffix == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(pa.table(ROWS), path)
    else:
        pq.write_table(pa.table(ROWS), path)

    def progress(what: str, _share: float) -> None:
        if what == when:
            change(path)

    out = []
    with pytest.raises(DataError) as caught:
        out.append(release(path, SCHEMA, epsilon=1, delta=1e-6, target="age", ledger=ledger, progress=progress))
    assert out == []
    assert ledger.spent("survey") == plan(SCHEMA, epsilon=1, delta=1e-6).budget.rho
    message = str(caught.value)
    assert message.endswith("; nothing was released, and what was reserved stays spent.")
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return message


def test_a_file_that_is_gone(tmp_path, ledger):
    assert "does not exist" in failing(tmp_path, ledger, lambda path: path.unlink())


def test_a_file_that_is_gone_in_a_later_round(tmp_path, ledger, monkeypatch):
    monkeypatch.setattr(passes, "CACHE_BYTES", 0)
    assert "does not exist" in failing(tmp_path, ledger, lambda path: path.unlink(), when=f"round 7 of {ROUNDS[Link.IDENTITY]}")


def test_a_file_with_other_rows(tmp_path, ledger):
    message = failing(tmp_path, ledger, lambda path: pq.write_table(pa.table(ROWS).slice(1), path))
    assert "the data changed while it was being read; " in message


def test_a_file_with_as_many_other_rows(tmp_path, ledger):
    other = pa.table(ROWS | {"age": [99.0] * 120})
    assert "changed" in failing(tmp_path, ledger, lambda path: pq.write_table(other, path))


def test_a_file_without_a_column(tmp_path, ledger):
    fewer = pa.table({k: v for k, v in ROWS.items() if k != "plan"})
    message = failing(tmp_path, ledger, lambda path: pq.write_table(fewer, path))
    assert message.startswith("column 'plan' of the schema is absent")


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_file_that_became_rubbish_quotes_nothing(suffix, tmp_path, ledger):
    message = failing(tmp_path, ledger, lambda path: path.write_bytes(b'"4711,cell\n' * 3), suffix=suffix)
    assert "4711" not in message
    assert "cell" not in message.replace("cannot", "")


def test_rows_that_fail_are_named_by_type_alone(tmp_path, ledger, monkeypatch):
    def fail(*_):
        raise RuntimeError("cell 4711")

    message = failing(tmp_path, ledger, lambda _path: monkeypatch.setattr(passes, "coded", fail))
    assert message.startswith("the rows could not be read again (RuntimeError); ")


# ---------------------------------------------------------------------------------------------------- the command line


RELEASE = ("release", "data.parquet", "--schema", "schema.toml", "--epsilon", "1", "--delta", "1e-6", "-o", "r.ddssp")


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA.to_toml())
    pq.write_table(pa.table(ROWS), "data.parquet")

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["ddssp", *args])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return call


def test_a_perturbed_release_says_so_and_exact_only_makes_none(run, monkeypatch):
    monkeypatch.setattr(task, "QUIET", np.inf)
    ask = (*RELEASE, "--target", "sick", "--force")
    assert "on task (it may end with a perturbed objective); protects" in run(*ask, "--dry-run")[2]
    assert json.loads(run(*ask, "--dry-run", "--json")[1])["perturbed"] is None
    assert "on task with a perturbed objective; protects" in run(*ask)[2]
    assert ddssp.load("r.ddssp").fitted.perturbed
    assert "yes: its coefficients minimise a perturbed objective" in run("info", "r.ddssp")[1]
    assert json.loads(run(*ask, "--json")[1])["perturbed"] is True
    assert "on task; protects" in run(*ask, "--exact-only")[2]
    assert not ddssp.load("r.ddssp").fitted.perturbed
    assert json.loads(run(*ask, "--exact-only", "--dry-run", "--json")[1])["perturbed"] is False


def test_a_model_is_for_task_alone(run):
    for mechanism in ("aim", "moments"):
        code, _, err = run(*RELEASE, "--target", "sick", "--mechanism", mechanism, "--model", "logistic")
        assert code == 2
        assert f"model is for mechanism task, got 'logistic' with {mechanism}; leave it out." in err


def test_release_with_a_target_uses_task_and_says_what_to_do_next(run):
    code, out, err = run(*RELEASE, "--target", "sick")
    assert (code, out) == (0, "")
    assert "on task; protects each person" in err
    assert "next: ddssp fit r.ddssp --target sick --model logistic" in err
    assert ddssp.load("r.ddssp").mechanism == "task"
    code, out, err = run("fit", "r.ddssp", "--target", "sick", "--model", "logistic")
    assert (code, err) == (0, "")
    assert "no standard errors" in out
    assert "plan=b" in out
    assert run("fit", "r.ddssp", "--target", "sick", "--model", "logistic", "--json")[0] == 0
    code, out, _ = run("info", "r.ddssp", "--json")
    assert code == 0
    assert '"logit"' in out


def test_fit_of_another_target_is_one_sentence_and_exit_2(run):
    run(*RELEASE, "--target", "age")
    for arguments in (["--target", "grade"], ["--target", "sick", "--model", "logistic"], ["--target", "age", "-f", "sick"]):
        code, out, err = run("fit", "r.ddssp", *arguments)
        assert (code, out) == (2, "")
        assert err.startswith("error: this task release did not measure the products of all columns")
        assert err.endswith("it answers the linear one of 'age' on all columns.\n")
        assert err.count("\n") == 1


def test_synth_of_a_task_release_is_one_sentence_and_exit_2(run):
    run(*RELEASE, "--target", "age")
    code, out, err = run("synth", "r.ddssp", "--rows", "10", "-o", "s.csv")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert not Path("s.csv").exists()


def test_dry_run_says_task_and_reads_nothing(run):
    code, _, err = run(*RELEASE, "--target", "age", "--dry-run")
    assert code == 0
    assert "on task" in err
    assert not Path("r.ddssp").exists()


def test_a_file_that_goes_away_writes_no_release(run, monkeypatch):
    run("ledger", "budget", "l.db", "-e", "5", "-d", "1e-6", "--dataset", "survey")
    true = passes.Rows.answer
    monkeypatch.setattr(passes.Rows, "answer", lambda self, asked: (Path("data.parquet").unlink(), true(self, asked))[1])
    code, out, err = run(*RELEASE, "--target", "age", "--ledger", "l.db")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == (
        "error: data file 'data.parquet' does not exist; nothing was released, and what was reserved stays spent."
    )
    assert not Path("r.ddssp").exists()
    assert Ledger("l.db").spent("survey") > 0
