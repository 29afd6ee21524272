"""Seconds and memory of a whole process tree, helpers included, and the best of equally many runs for every contender.

Linux only: it reads /proc.
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

SAMPLE = 0.05
"""Seconds between two looks at the memory of a process tree."""

Seconds = tuple[float, float]
"""Wall and processor time."""


def timed(run: Callable[[], object]) -> Seconds:
    """Seconds of one run; processor time is that of this process and of all its helpers."""
    others, own, wall = of_helpers(), time.process_time(), time.perf_counter()
    run()
    wall, own = time.perf_counter() - wall, time.process_time() - own
    return wall, own + of_helpers() - others


def of_helpers() -> float:
    """Processor seconds so far of processes started here, whether they ended or still run (a JVM, its workers)."""
    ended, tick = resource.getrusage(resource.RUSAGE_CHILDREN), os.sysconf("SC_CLK_TCK")
    running = sum(sum(map(int, _stat(pid)[11:15])) for pid in descendants(os.getpid())) / tick
    return ended.ru_utime + ended.ru_stime + running


def best(runs: Mapping[str, Callable[[], object]], times: int) -> dict[str, Seconds]:
    """Least wall and processor seconds of each contender, all of them run `times` times, in turn."""
    found: dict[str, list[Seconds]] = {name: [] for name in runs}
    for _ in range(times):
        for name, run in runs.items():
            found[name].append(timed(run))
    return {name: (min(w for w, _ in took), min(c for _, c in took)) for name, took in found.items()}


def watched(command: list[str]) -> tuple[str, float]:
    """What a command printed, and the peak memory in MB of it and all its helpers at the same time.

    Each process counts with its own peak so far (VmHWM), so that nothing between two looks is missed, and pages that processes
    share count once for each: rather too much than too little.
    """
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_peak, [process.pid, *descendants(process.pid)])))
            time.sleep(SAMPLE)
        assert process.stdout is not None
        printed = process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed, peak / 1024


def descendants(pid: int) -> list[int]:
    """Processes that `pid` started, and those that these did."""
    parents = {int(p.name): _stat(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found, coming = [], [pid]
    while coming:
        parent = coming.pop()
        children = [child for child, stat in parents.items() if stat and int(stat[1]) == parent]
        found += children
        coming += children
    return [child for child in found if _stat(child)]


def _stat(pid: int) -> list[str]:
    """/proc/PID/stat after the name: state, parent, … from 11 on user and system ticks, own and of ended children."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _peak(pid: int) -> int:
    """Peak memory of a process in kB; 0 of one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
