"""Fuzzing of the four kinds of files that are read: releases, schemas, CSV and Parquet.

    python benchmarks/fuzz.py --inputs 25000      of each kind, and the report

Inputs run in a child process whose memory is limited to 1 GB beyond what it starts with; one that is not done after 2 s is a
hang. The child writes each input down before it reads it, so that a crash leaves its cause behind.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "hostile"))

from mutations import KINDS, complaint, made  # noqa: E402

SLOW_S, HANG_S = 2.0, 60.0
MEMORY = 2**30


def fuzz(kind: str, start: int, count: int, folder: Path, sender: Any) -> None:
    """Sends (seed, what is wrong) for each bad input, then (None, figures)."""
    warnings.simplefilter("ignore")
    path = folder / f"input{KINDS[kind][0]}"
    path.write_bytes(KINDS[kind][1]()[0])
    assert complaint(kind, path) is None  # everything is imported, and the seed itself is fine
    _limit_memory()
    before, slowest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0
    for seed in range(start, start + count):
        path.write_bytes(made(kind, seed))
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        clock = time.perf_counter(), time.process_time()
        wrong = complaint(kind, path)
        took = min(time.perf_counter() - clock[0], time.process_time() - clock[1])
        slowest = max(slowest, took)
        if wrong or took > SLOW_S:
            sender.send((seed, wrong or f"took {took:.1f} s"))
    faulthandler.cancel_dump_traceback_later()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    sender.send((None, {"slowest_s": slowest, "memory_mb": grown}))


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def fuzzed(kind: str, start: int, count: int) -> dict[str, Any]:
    """Figures of `count` inputs of a kind, run in a child."""
    context = multiprocessing.get_context("spawn")
    bad: list[tuple[int, str]] = []
    figures: dict[str, Any] = {"slowest_s": 0.0, "memory_mb": 0.0}
    with tempfile.TemporaryDirectory() as name:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=fuzz, args=(kind, start, count, Path(name), sender))
        process.start()
        sender.close()
        try:
            while True:
                seed, what = receiver.recv()
                if seed is None:
                    figures = what
                else:
                    bad.append((seed, what))
        except EOFError:
            process.join()
        if process.exitcode:
            bad.append((-1, f"the process ended with {process.exitcode}"))
            kept = ROOT / "build" / "fuzz"
            kept.mkdir(parents=True, exist_ok=True)
            for path in Path(name).glob("input*"):
                (kept / f"crash-{start}{path.suffix}").write_bytes(path.read_bytes())
    return {"kind": kind, "inputs": count, "bad": bad, **figures}


def report(found: list[dict[str, Any]]) -> str:
    lines = [
        "# Fuzzing",
        "",
        "Inputs made from good files (`tests/hostile/mutations.py`). Bad is: a crash, an error that is not one clear sentence,",
        f"more than {SLOW_S:g} s, or more than 1 GB of memory. Cases once found are kept in `tests/hostile/found_test.py`.",
        "Made by `make fuzz`.",
        "",
        "| kind | inputs | bad | slowest, s | memory grew by, MB |",
        "|---|---|---|---|---|",
    ]
    for f in found:
        lines.append(f"| {f['kind']} | {f['inputs']:,} | {len(f['bad'])} | {f['slowest_s']:.2f} | {f['memory_mb']:.0f} |")
    lines.append(f"| all | {sum(f['inputs'] for f in found):,} | {sum(len(f['bad']) for f in found)} | | |")
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--inputs", type=int, default=25_000, help="of each kind")
    arguments.add_argument("--start", type=int, default=0, help="the first input's number")
    arguments.add_argument("--kinds", default=",".join(KINDS))
    arguments.add_argument("-o", "--output", type=Path)
    given = arguments.parse_args()
    found = [fuzzed(kind, given.start, given.inputs) for kind in given.kinds.split(",")]
    print(json.dumps([f["bad"][:20] for f in found], indent=1))
    print(text := report(found))
    if given.output:
        given.output.write_text(text, encoding="utf-8")
    sys.exit(any(f["bad"] for f in found))


if __name__ == "__main__":
    main()
