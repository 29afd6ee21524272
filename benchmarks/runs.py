"""Runs of the long checks: one JSON line each, with the command, the commit and the machine; reports are made of them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Run = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def circumstances() -> Run:
    """Of what and where a run is made; to be asked before it starts."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "command": shlex.join(["python", os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]]),
        "commit": _commit(),
        "machine": f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GB, Python {platform.python_version()}",
        "load": round(os.getloadavg()[0], 1),
    }


def append(path: Path, run: Run) -> None:
    """None; the run is the last line of the file, written in one call."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run, ensure_ascii=False) + "\n")


def runs(path: Path) -> list[Run]:
    """All runs, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def made(found: Iterable[Run]) -> list[str]:
    """Lines of a report on how its runs were made: each command once, with the time that it took in all."""
    grouped: dict[tuple[str, ...], list[Run]] = {}
    for run in found:
        grouped.setdefault(tuple(run[name] for name in ("command", "commit", "machine")), []).append(run)
    lines = ["", "| command | commit | seconds, all parts | load before | machine |", "|---|---|---|---|---|"]
    for (command, commit, machine), parts in grouped.items():
        loads = [part["load"] for part in parts]
        seconds, load = sum(part["seconds"] for part in parts), f"{min(loads):g} to {max(loads):g}"
        lines.append(f"| `{command}` | {commit} | {seconds:,.0f} | {load} | {machine} |")
    return lines


def _commit() -> str:
    changed = _git("status", "--porcelain", "--", "src", "tests/hostile", "tests/privacy", "benchmarks/*.py")
    return (_git("rev-parse", "--short", "HEAD") or "no commit") + (" and files changed since" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
