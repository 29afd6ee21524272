"""Reports of the long checks say what their runs found: nothing bad is lost, nothing is counted twice, nothing stale counts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))

import faults  # noqa: E402
import fuzz  # noqa: E402
import mutants  # noqa: E402
import runs  # noqa: E402

HOW = {"command": "python benchmarks/x.py", "commit": "abc", "machine": "2 cores", "load": 1.0, "seconds": 10.0}


def part(kind: str, start: int, inputs: int, bad: int = 0) -> dict[str, Any]:
    figures = {"slowest_s": 0.1, "memory_mb": 1.0}
    return {"kind": kind, "start": start, "inputs": inputs, "bad": [[start, "crash"]] * bad, **figures, **HOW}


def test_runs_come_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = [part("csv", 0, 5), part("csv", 5, 5, bad=1)]
    for run in kept:
        runs.append(tmp_path / "x.jsonl", run)
    assert runs.runs(tmp_path / "x.jsonl") == kept
    assert runs.runs(tmp_path / "none.jsonl") == []


def test_how_a_run_was_made_names_the_command_the_commit_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "fuzz.py"), "--inputs", "5"])
    how = runs.circumstances()
    assert how["command"] == "python benchmarks/fuzz.py --inputs 5"
    assert "cores" in how["machine"]
    assert "| `python benchmarks/x.py` | abc | 20 | 1 to 1 | 2 cores |" in runs.made([HOW, HOW])


def test_a_part_run_again_replaces_the_one_before_and_no_input_counts_twice() -> None:
    found = [
        part("csv", 0, 100, bad=2),
        part("csv", 100, 50),
        part("csv", 0, 100),
        part("csv", 120, 80, bad=1),
        part("schema", 0, 9),
    ]
    standing = fuzz.standing(found)
    assert standing == found[1:]
    text = fuzz.report(standing)
    assert "| csv | 200 | 1 | 0.10 | 1 |" in text
    assert "| all | 209 | 1 | | |" in text


def test_a_finding_about_another_mutant_of_the_same_name_does_not_count() -> None:
    first, second, *others = mutants.catalogue()
    caught = {"verdict": "caught", "said": "FAILED tests/a_test.py::test_a - x", **HOW}
    survived = {"name": second.name, "planted": second.planted} | caught | {"verdict": "survived"}
    found = [
        {"name": first.name, "planted": "other"} | caught,
        {"name": second.name, "planted": second.planted} | caught,
        survived,
    ]
    text = mutants.report(mutants.newest(found))
    assert f"\n0 of {len(others) + 2} planted" in text
    assert f"| {first.name} | `{first.file}` | **not run** |" in text
    assert f"| {second.name} | `{second.file}` | **survived** |" in text
    assert "1 of " in mutants.report(mutants.newest([survived, {"name": first.name, "planted": first.planted} | caught]))


def test_kills_and_races_add_up_and_nothing_wrong_is_lost() -> None:
    wrong = {"unpaid": 0, "overspent": 0, "half": 1, "broken": 0}
    kills = {"what": "kills", "ends": {"killed": 50, "refused": 3, "ended 1": 2}, "wrong": wrong, **HOW}
    races = {"what": "races", "count": 50, "fair": 49, **HOW}
    text = faults.report([kills, kills, races, races])
    for line in ("| kills (SIGKILL) | 100, while 0", "| releases that ended otherwise | 4 |", "| half files | 2 |"):
        assert line in text
    assert "for the last ρ | 100: won by exactly one in 98 |" in text
    assert not faults.clean(kills)
    assert not faults.clean(kills | {"wrong": dict.fromkeys(wrong, 0)})
    assert not faults.clean(races)
    assert faults.clean(races | {"fair": 50})
    assert faults.clean(kills | {"ends": {"killed": 50, "ended 0": 1}, "wrong": dict.fromkeys(wrong, 0)})


def test_the_reports_that_are_kept_are_those_of_their_runs() -> None:
    results = ROOT / "benchmarks" / "results"
    fuzzed, killed = (runs.runs(results / name) for name in ("fuzz.jsonl", "faults.jsonl"))
    assert (results / "fuzz.md").read_text(encoding="utf-8") == fuzz.report(fuzz.standing(fuzzed))
    assert (results / "faults.md").read_text(encoding="utf-8") == faults.report(killed)
