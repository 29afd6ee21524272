"""Fuzzing of the four kinds of files that are read: releases, schemas, CSV and Parquet.

    python benchmarks/fuzz.py --inputs 25000      of each kind, and the report
    python benchmarks/fuzz.py --kinds csv --start 25000     more of one kind

Inputs are run in parts, each kept as a line of results/fuzz.jsonl; the report is made of all that are kept. A part that is run
again replaces what was kept of it. --fresh forgets what was kept.

Inputs run in a child process whose memory is limited to 1 GB beyond what it starts with; one that is not done after 2 s is a
hang. The child writes each input down before it reads it, so that a crash leaves its cause behind.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from runs import RESULTS, ROOT, Run, append, circumstances, made, runs

sys.path.insert(0, str(ROOT / "tests" / "hostile"))

from mutations import KINDS, complaint
from mutations import made as hostile

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
        path.write_bytes(hostile(kind, seed))
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


def fuzzed(kind: str, start: int, count: int) -> Run:
    """What `count` inputs of a kind, run in a child, came to."""
    context = multiprocessing.get_context("spawn")
    how, clock = circumstances(), time.perf_counter()
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
    seconds = round(time.perf_counter() - clock, 1)
    return {"kind": kind, "start": start, "inputs": count, "bad": bad, **figures, "seconds": seconds, **how}


def standing(found: list[Run]) -> list[Run]:
    """The runs that no later one of the same kind has run again whole."""

    def again(one: Run, later: Run) -> bool:
        ends = one["start"] + one["inputs"], later["start"] + later["inputs"]
        return one["kind"] == later["kind"] and later["start"] <= one["start"] and ends[0] <= ends[1]

    return [one for i, one in enumerate(found) if not any(again(one, later) for later in found[i + 1 :])]


def report(found: list[Run]) -> str:
    lines = [
        "# Fuzzing",
        "",
        "Inputs made from good files (`tests/hostile/mutations.py`), each by its number. Bad is: a crash, an error that is not",
        f"one clear sentence, more than {SLOW_S:g} s, or more than 1 GB of memory. Cases once found are kept in",
        "`tests/hostile/found_test.py`. Made by `make fuzz` from the lines of `fuzz.jsonl`.",
        "",
        "| kind | inputs | bad | slowest, s | memory grew by, MB |",
        "|---|---|---|---|---|",
    ]
    for kind in KINDS:
        if parts := [run for run in found if run["kind"] == kind]:
            slowest, memory = (max(run[name] for run in parts) for name in ("slowest_s", "memory_mb"))
            lines.append(f"| {kind} | {_inputs(parts):,} | {_bad(parts)} | {slowest:.2f} | {memory:.0f} |")
    total = sum(_inputs([run for run in found if run["kind"] == kind]) for kind in KINDS)
    lines.append(f"| all | {total:,} | {_bad(found)} | | |")
    return "\n".join([*lines, *made(found)]) + "\n"


def _inputs(parts: list[Run]) -> int:
    """How many different inputs of one kind were run."""
    return len(set().union(*(range(run["start"], run["start"] + run["inputs"]) for run in parts)))


def _bad(parts: list[Run]) -> int:
    return sum(len(run["bad"]) for run in parts)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--inputs", type=int, default=25_000, help="of each kind")
    arguments.add_argument("--start", type=int, default=0, help="the first input's number")
    arguments.add_argument("--part", type=int, default=5_000, help="inputs that one process reads")
    arguments.add_argument("--kinds", default=",".join(KINDS))
    arguments.add_argument("--fresh", action="store_true", help="forget what was kept")
    arguments.add_argument("-o", "--output", type=Path, default=RESULTS / "fuzz.md")
    given = arguments.parse_args()
    store, end, bad = given.output.with_suffix(".jsonl"), given.start + given.inputs, 0
    if given.fresh:
        store.unlink(missing_ok=True)
    for kind in given.kinds.split(","):
        for start in range(given.start, end, given.part):
            run = fuzzed(kind, start, min(given.part, end - start))
            append(store, run)
            bad += len(run["bad"])
            print(f"{kind} from {start}: {run['inputs']} inputs, {run['seconds']:.0f} s, bad: {run['bad'][:20]}", flush=True)
            given.output.write_text(report(standing(runs(store))), encoding="utf-8")
    print(given.output.read_text(encoding="utf-8"))
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
