"""The benchmark of counting measures all processes, gives every contender as many runs, and reports every figure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
if not Path("/proc/self/stat").exists():
    pytest.skip("the benchmark reads /proc, and there is none", allow_module_level=True)

import counting_report  # noqa: E402
import measuring  # noqa: E402

BUSY = "import time\nwhile time.process_time() < {}: pass\n"
HELPED = """
import subprocess, sys, time
with subprocess.Popen([sys.executable, "-c", "held = b'x' * 300_000_000; input()"], stdin=subprocess.PIPE) as helper:
    own = b"x" * 100_000_000
    time.sleep(1)
    helper.communicate(b"go")
print("done")
"""


def test_processor_time_of_a_helper_that_has_ended_counts():
    _, cpu = measuring.timed(lambda: subprocess.run([sys.executable, "-c", BUSY.format(0.4)], check=True))
    assert 0.4 <= cpu < 2


def test_processor_time_of_a_helper_that_still_runs_counts():
    script = BUSY.format(0.4) + "print(flush=True)\ninput()\n"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    before = measuring.of_helpers()
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as helper:
        helper.stdout.readline()
        assert 0.3 <= measuring.of_helpers() - before < 2
        helper.communicate(b"\n")


def test_memory_is_that_of_all_processes():
    printed, peak = measuring.watched([sys.executable, "-c", HELPED])
    assert printed == "done\n"
    assert 380 < peak < 500  # 300 MB there, 100 MB here, and some 10 MB of each Python


def test_a_command_that_fails_is_no_measurement():
    with pytest.raises(subprocess.CalledProcessError):
        measuring.watched([sys.executable, "-c", "raise SystemExit(3)"])


def test_every_contender_runs_as_often_and_in_turn():
    seen = []
    found = measuring.best({name: lambda name=name: seen.append(name) for name in "abc"}, 4)
    assert seen == list("abc") * 4
    assert set(found) == set("abc")


FOUND = {
    "command": "x",
    "commit": "y",
    "machine": "z",
    "load": 0.0,
    "versions": "v",
    "rows": 1,
    "times": 2,
    "settings": {},
    "seconds": {
        "ours, mapInArrow": [2.0, 3.0],
        counting_report.GROUPING: [60.0, 110.0],
        counting_report.MEMORY: [0.1, 0.2],
    },
    "larger": {"rows": 10, "wall": 5.0},
}


def test_the_report_of_spark_has_ratios_of_both_of_ours_to_grouping_sets(tmp_path):
    text = counting_report.kept("spark", FOUND, tmp_path / "r.md")
    assert "| Spark, grouping sets | 60.0 s | 110.0 s | 30 / 37 |" in text
    assert "the same rows take 600 / 550 times less" in text
    assert "Best of 2." in text
    assert "| `mapInArrow`: ≥ 5 × grouping sets | 30 × | kept |" in counting_report.promised(tmp_path / "r.md")
