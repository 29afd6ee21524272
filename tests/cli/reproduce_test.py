"""`ddssp reproduce` from the outside: its files, kill and restart, refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "experiments"))
import made_data

from ddssp.whole import draft

METHODS = "nonprivate,ddssp-tree,aim-synth-tree,adassp,objpert"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made_data.folder(tmp_path_factory.mktemp("data"))


def command(data, output, *more):
    return [sys.executable, "-m", "ddssp", "reproduce", "--data", str(data), "-o", str(output), *more]


def call(data, output, *more):
    return subprocess.run(command(data, output, *more), capture_output=True, text=True, check=False)


def scores(folder):
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    return {tuple(map(str, list(r.values())[:7])): (r.get("mse"), r.get("auc")) for r in lines}, len(lines)


def test_quick_writes_page_figures_and_runs_and_a_kill_costs_nothing_that_was_finished(data, tmp_path):
    whole = call(data, tmp_path / "whole", "--quick", "--methods", METHODS, "--json")
    assert whole.returncode == 0, whole.stderr
    told = json.loads(whole.stdout)
    assert told["runs"] == told["made_now"] == 3 + 2 * (3 + 3 + 2 + 1)
    assert len(told["claims"]) == 5
    for name in (
        "runs.parquet",
        "runs.csv",
        "results.html",
        "results/scores.svg",
        "results/scores.png",
        "results/chebyshev.svg",
    ):
        assert (tmp_path / "whole" / name).stat().st_size > 500, name
    page = (tmp_path / "whole" / "results.md").read_text()
    for words in ("other-sub (substitute)", "DD-SSP ≈ AIM-Synth", "Runtime, seconds", "cells of all pairs", "verdict"):
        assert words in page

    killed = tmp_path / "killed"
    process = subprocess.Popen(
        command(data, killed, "--quick", "--methods", METHODS, "--jobs", "1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runs = killed / "runs.jsonl"
    while process.poll() is None and not (runs.exists() and runs.stat().st_size > 2000):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = runs.read_text().splitlines()
    again = call(data, killed, "--quick", "--methods", METHODS, "--jobs", "2", "--json")
    assert json.loads(again.stdout)["made_now"] == told["runs"] - len(before) < told["runs"]
    assert runs.read_text().splitlines()[: len(before)] == before
    assert scores(killed) == scores(tmp_path / "whole")


def test_an_interrupted_run_ends_at_once_with_a_sentence(data, tmp_path):
    process = subprocess.Popen(
        command(data, tmp_path, "--methods", "dpsgd", "--jobs", "1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not (tmp_path / "runs.jsonl").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert told == f"interrupted; finished runs are in {tmp_path / 'runs.jsonl'}: the same command goes on from there.\n"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--protocol", "none"], "protocol must be one of paper, ours, got 'none'."),
        (["--methods", "none"], "methods must be among nonprivate"),
        (["--datasets", "none"], "datasets must be among small, other-sub, got 'none'."),
        (["--epsilons", "1,x"], "epsilons must be numbers separated by commas, got '1,x'."),
        (["--epsilons", "-1"], "epsilons must be positive"),
        (
            ["--methods", "objpert", "--datasets", "other-sub"],
            "methods must fit a dataset's target, got objpert for other-sub;",
        ),
    ],
)
def test_refusals_are_one_sentence(data, tmp_path, more, sentence):
    got = call(data, tmp_path / "o", *more)
    assert got.returncode == 2
    assert sentence in got.stderr
    assert got.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


def test_a_folder_without_data_is_refused(tmp_path):
    got = call(tmp_path, tmp_path / "o")
    assert got.returncode == 2
    assert "must hold MANIFEST.json" in got.stderr


def test_two_runs_do_not_share_an_output(data, tmp_path):
    with draft(tmp_path / "runs.jsonl"):
        refused = call(data, tmp_path, "--quick", "--methods", "nonprivate")
    assert refused.returncode == 2
    assert f"output {str(tmp_path)!r} is in use by another run; wait for it, or give another with -o." in refused.stderr
    assert call(data, tmp_path, "--quick", "--methods", "nonprivate").returncode == 0
