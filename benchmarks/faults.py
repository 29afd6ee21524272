"""Kills of releases at random points, and races for the last of a budget.

    python benchmarks/faults.py                 200 kills, 1,000 races of reservations, 20 of whole releases, and the report
    python benchmarks/faults.py --kills 50 --races 0 --seed 7     more of one sort

Work is done in parts, each kept as a line of results/faults.jsonl; the report is made of all that are kept, and --fresh forgets
them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from ddssp.privacy import books, cover
from runs import RESULTS, ROOT, Run, append, circumstances, made, runs

sys.path.insert(0, str(ROOT / "tests" / "privacy"))

from kills import RACERS, killed, ledger_races, passed, release_race

PART = 50


def timed(check: Callable[[Path], Run]) -> Run:
    """What a check came to in a folder of its own, and how it was made."""
    how, start = circumstances(), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        found = check(Path(name))
    return found | {"seconds": round(time.perf_counter() - start, 1)} | how


def kills(count: int, seed: int) -> Callable[[Path], Run]:
    def check(folder: Path) -> Run:
        tally = killed(count, seed, passed(folder), folder)
        return {"what": "kills", "seed": seed, "ends": tally.ends, "wrong": tally.wrong}

    return check


def races(count: int) -> Callable[[Path], Run]:
    return lambda folder: {"what": "races", "count": count, "fair": ledger_races(count, folder)}


def release_races(count: int) -> Callable[[Path], Run]:
    def check(folder: Path) -> Run:
        folders = [folder / str(race) for race in range(count)]
        for each in folders:
            each.mkdir()
        return {"what": "release races", "count": count, "fair": sum(release_race(each) for each in folders)}

    return check


def checks(given: argparse.Namespace) -> Iterator[Callable[[Path], Run]]:
    """Parts of PART kills or races, each with a seed of its own."""
    for done in range(0, given.kills, PART):
        yield kills(min(PART, given.kills - done), given.seed + done)
    for done in range(0, given.races, PART):
        yield races(min(PART, given.races - done))
    if given.release_races:
        yield release_races(given.release_races)


def report(found: list[Run]) -> str:
    ends, wrong = Counter[str](), Counter[str]()
    for run in found:
        ends.update(run.get("ends", {}))
        wrong.update(run.get("wrong", {}))
    lines = [
        "# Faults",
        "",
        "Made by `make faults` from the lines of `faults.jsonl`: releases by three mechanisms, killed at random among all",
        "points before and after every ledger write, draw and file operation (`tests/privacy/points.py`), each ledger used",
        "until it refuses; and races for the last of a budget (`tests/privacy/kills.py`): each must be won by one, and its",
        "ledger verify.",
        "",
        "| | |",
        "|---|---|",
        f"| kills (SIGKILL) | {ends['killed']}, while {ends['ended 0']} releases ended whole, {ends['refused']} were refused |",
        f"| releases that ended otherwise | {ends.total() - ends['killed'] - ends['ended 0'] - ends['refused']} |",
        f"| drawn without being paid for | {wrong['unpaid']} |",
        f"| spent beyond the ceiling | {wrong['overspent']} |",
        f"| half files | {wrong['half']} |",
        f"| ledgers that do not verify | {wrong['broken']} |",
        f"| races of {RACERS} processes for the last ρ | {_won(found, 'races')} |",
        f"| races of {RACERS} whole releases | {_won(found, 'release races')} |",
    ]
    return "\n".join([*lines, *made(found)]) + "\n"


def _won(found: list[Run], what: str) -> str:
    of = [run for run in found if run["what"] == what]
    return f"{sum(run['count'] for run in of):,}: won by exactly one in {sum(run['fair'] for run in of):,}"


def clean(run: Run) -> bool:
    ended = set(run.get("ends", {})) <= {"killed", "refused", "ended 0"}
    return ended and not any(run.get("wrong", {}).values()) and run.get("fair") == run.get("count")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--races", type=int, default=1000)
    arguments.add_argument("--release-races", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=0, help="of the first part's kills")
    arguments.add_argument("--fresh", action="store_true", help="forget what was kept")
    arguments.add_argument("-o", "--output", type=Path, default=RESULTS / "faults.md")
    given = arguments.parse_args()
    store, all_clean = given.output.with_suffix(".jsonl"), True
    if given.fresh:
        store.unlink(missing_ok=True)
    books.rho_of = lru_cache(books.rho_of)  # a refusal's wording takes longer than the race
    books.epsilon_of = cover.epsilon_of = lru_cache(cover.epsilon_of)
    for check in checks(given):
        append(store, run := timed(check))
        all_clean &= clean(run)
        print({name: run[name] for name in run if name not in ("command", "commit", "machine", "load")}, flush=True)
        given.output.write_text(report(runs(store)), encoding="utf-8")
    print(given.output.read_text(encoding="utf-8"))
    sys.exit(not all_clean)


if __name__ == "__main__":
    main()
