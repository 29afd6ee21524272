"""`ddssp fit`: tables, JSON, plots, several targets, and refusals in one sentence."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import ddssp
from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise

SCHEMA = ddssp.Schema(
    name="survey",
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "plan, old": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "sick": {"kind": "boolean"},
        "visits": {"kind": "numeric", "low": 0, "high": 20},
    },
)


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    age = np.clip(rng.normal(45, 15, 20_000), 0, 100)
    data = {
        "age": age,
        "plan, old": rng.choice(list("abc"), 20_000),
        "sick": rng.random(20_000) < 0.1 + 0.005 * age,
        "visits": rng.poisson(1 + 0.03 * age),
    }
    path = tmp_path_factory.mktemp("fit") / "survey.ddssp"
    curate(data, plan(SCHEMA, epsilon=2, delta=1e-6, mechanism="moments"), noise=SeededNoise(0)).save(path)
    return path


@pytest.fixture
def run(command_line):
    return partial(command_line, "fit")


def test_a_table_with_both_parts_of_the_error(run, release):
    done = run(release, "--target", "visits")
    assert done.code == 0
    assert "NOT PRIVATE: moments release, ε = 2" in done.out
    for word in ("Linear regression of visits", "sampling", "privacy", "P>|z|", "plan, old=b"):
        assert word in done.out


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("linear", "age"),
        ("logistic", "sick"),
        ("logistic", "plan, old"),
        ("poisson", "visits"),
        ("naive-bayes", "plan, old"),
        ("ridge", "visits"),
        ("elastic-net", "age"),
    ],
)
def test_json_of_every_model_is_what_python_says(run, release, model, target):
    done = run(release, "-t", target, "-m", model, "--json")
    said = done.json
    loaded = ddssp.load(release)
    fit = getattr(loaded, model.replace("-", "_"))(target)
    assert said["coef"] == pytest.approx(fit.coef)
    assert said["model"] == model
    assert said["private"] is False
    assert ("intervals" in said) == (model in {"linear", "logistic", "poisson"})
    if "intervals" in said:
        assert set(said["intervals"]) == set(fit.coef)


def test_several_targets_in_one_call(run, release):
    done = run(release, "-t", "visits,age", "-t", "sick", "-f", "plan, old", "--json")
    assert [fit["target"] for fit in done.json] == ["visits", "age", "sick"]
    assert run(release, "-t", "visits,age", "-f", "sick").out.count("Linear regression") == 2


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_plot(run, release, tmp_path, suffix):
    path = tmp_path / f"plot.{suffix}"
    done = run(release, "-t", "visits,age", "--plot", path)
    assert done.code == 0
    head = path.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in head
    again = run(release, "-t", "age", "--plot", path)
    assert again.code == 2
    assert "exists; choose another name or pass --force" in again.err
    assert path.read_bytes()[:200] == head
    assert run(release, "-t", "visits,age", "--plot", path, "--force").code == 0
    if suffix == "svg":
        text = path.read_text()
        assert "privacy part" in text
        assert "sampling part" in text
        assert "plan, old=c" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-t", "nope"], "target must be a column of the release"),
        (["-t", "visits", "-m", "cubic"], "model must be one of"),
        (["-t", "visits", "-m", "logistic"], "not a class"),
        (["-t", "plan, old"], "must be numeric, ordinal or boolean"),
        (["-t", "sick", "-m", "logistic", "--no-intercept"], "always has an intercept"),
        (["-t", "visits", "-f", "nope"], "features must be columns"),
        (["-t", "visits", "--plot", "plot.txt"], "plot must be a file ending in"),
        (["-t", "visits", "--plot", "absent/plot.svg"], "output folder 'absent' does not exist"),
        (["-t", "visits", "--level", "1.5"], "level must lie strictly between 0 and 1"),
        (["-t", "visits", "-m", "ridge", "--level", "2"], "level must lie strictly between 0 and 1"),
        (["-t", "sick", "-m", "logistic", "--approximation", "taylor"], "approximation must be one of"),
        (["-t", "visits", "-m", "elastic-net", "--l1-ratio", "3"], "l1_ratio must lie between"),
        (["-t", "visits", "-m", "ridge", "--alpha", "-1"], "alpha must be a finite number of 0 or more, got -1.0;"),
        (["-t", "visits", "--alpha", "3"], "--alpha is for ridge and elastic-net, got 3.0 with linear; leave it out"),
        (["-t", "visits", "--approximation", "chebyshev2"], "--approximation is for logistic models, got chebyshev2"),
        (["-t", "sick", "-m", "logistic", "--radius", "4"], "--radius is for logistic models with --approximation chebyshev2"),
        (["-t", "visits", "-m", "ridge", "--l1-ratio", "1"], "--l1-ratio is for elastic-net, got 1.0 with ridge"),
        (["-t", "sick", "-m", "naive-bayes", "--alpha", "2"], "--alpha is for ridge and elastic-net"),
    ],
)
def test_refusals_are_one_sentence_and_exit_2(run, release, arguments, sentence):
    done = run(release, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_options_of_a_model_reach_it(run, release):
    loaded = ddssp.load(release)
    given = run(release, "-t", "sick", "-m", "logistic", "--approximation", "chebyshev2", "--radius", "4", "--json").json
    assert given["coef"] == pytest.approx(loaded.logistic("sick", approximation="chebyshev2", radius=4.0).coef)
    given = run(release, "-t", "visits", "-m", "elastic-net", "--alpha", "0.01", "--l1-ratio", "0.9", "--json").json
    assert given["coef"] == pytest.approx(loaded.elastic_net("visits", alpha=0.01, l1_ratio=0.9).coef)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda r: r.linear("age").conf_int("a"), "level must lie strictly between 0 and 1, got 'a'"),
        (lambda r: r.elastic_net("age", l1_ratio="x"), r"l1_ratio must lie between 0 \(ridge\) and 1 \(lasso\), got 'x'"),
        (lambda r: r.ridge("age", alpha="x"), "alpha must be a finite number of 0 or more, got 'x'"),
        (lambda r: r.path("age", alphas=["x"]), "alphas must be at least one finite penalty"),
        (lambda r: r.path("age", alphas=0.1), "alphas must be at least one finite penalty"),
        (lambda r: r.linear("age", features="sick"), r"features must be a list of columns, got 'sick'; write \['sick'\]"),
        (lambda r: r.naive_bayes("sick", features="age"), "features must be a list of columns, got 'age'"),
        (lambda r: r.linear("age", features=3), "features must be a list of columns, got 3"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(release, ask, sentence):
    with pytest.raises(ValueError, match=sentence):
        ask(ddssp.load(release))


def test_no_plotting_is_loaded_without_a_plot(release):
    code = f"import ddssp, sys; ddssp.load({str(release)!r}).linear('age').summary(); print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
