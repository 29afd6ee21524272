"""Releases in processes of their own, killed at random or racing for the last of a budget, and what is found afterwards."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from points import KEY, Faults, install, make_release

from ddssp import load
from ddssp.privacy.budget import BudgetError, rho_of
from ddssp.privacy.ledger import Kind, Ledger
from ddssp.privacy.signature import require_signed, signature_path

MECHANISMS = ("moments", "aim", "task")
EPSILON = 0.5  # three of them fit under the ceiling, and part of a fourth
FORK = multiprocessing.get_context("fork")
REFUSED = 3
RACERS = 8
CEILING = rho_of(1.0, 1e-6)
LAST = CEILING / 3  # of the half that is left: room for one


def _run(folder: Path, name: str, mechanism: str, kill_at: int | None, told: Any) -> None:
    faults = Faults(kill_at, lambda what: told.send_bytes(what.encode()))
    install(faults)
    try:
        make_release(folder, name, mechanism, EPSILON)
    except BudgetError:
        os._exit(REFUSED)
    told.send_bytes(f"passed {faults.passed}".encode())


def run(folder: Path, name: str, mechanism: str, kill_at: int | None = None) -> tuple[int | None, list[str]]:
    """Exit code of a release in a process of its own, killed at a point, and what it told before."""
    receiver, sender = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_run, args=(folder, name, mechanism, kill_at, sender))
    process.start()
    sender.close()
    told = []
    with suppress(EOFError):
        while True:
            told.append(receiver.recv_bytes().decode())
    process.join(60)
    return process.exitcode, told


@dataclass
class Tally:
    ends: Counter[str] = field(default_factory=Counter)
    unpaid: int = 0
    overspent: int = 0
    half: int = 0
    broken: int = 0

    @property
    def wrong(self) -> dict[str, int]:
        """What must not be."""
        return {"unpaid": self.unpaid, "overspent": self.overspent, "half": self.half, "broken": self.broken}


def reservations(ledger: Ledger) -> int:
    return sum(e.kind is Kind.RESERVE for e in ledger.entries()) if ledger.path.exists() else 0


def inspect(folder: Path, paid: int, told: list[str], tally: Tally) -> None:
    """Counts into `tally` what must not be."""
    ledger = Ledger(folder / "ledger.db")
    if not ledger.path.exists():
        tally.unpaid += "drew" in told
        return
    tally.broken += not ledger.verify().ok
    tally.unpaid += "drew" in told and reservations(ledger) != paid + 1
    tally.overspent += ledger.spent("survey") > CEILING
    for path in folder.glob("*.ddssp"):
        try:
            entry = load(path).entry or {}
            tally.unpaid += not ledger.contains(entry["counter"], entry["hash"], entry["dataset"])
            if signature_path(path).exists():
                require_signed(path.read_bytes(), path, KEY.public_key())
        except ValueError:
            tally.half += 1
    tally.unpaid += len([*folder.glob("*.ddssp")]) > reservations(ledger)


def passed(folder: Path) -> dict[str, int]:
    """How many points a release passes that makes its own ledger, by mechanism."""
    found = {}
    for mechanism in MECHANISMS:
        (folder / mechanism).mkdir()
        code, told = run(folder / mechanism, "r", mechanism)
        assert code == 0
        found[mechanism] = int(told[-1].removeprefix("passed "))
    return found


def killed(kills: int, seed: int, points: dict[str, int], folder: Path) -> Tally:
    """What so many random kills came to; each ledger, in a folder of its own, is used until it refuses."""
    rng, tally = random.Random(seed), Tally()
    used, made = folder / "0", 0
    used.mkdir()
    while tally.ends["killed"] < kills:
        mechanism = rng.choice(MECHANISMS)
        at = rng.randint(1, points[mechanism])
        paid = reservations(Ledger(used / "ledger.db"))
        code, told = run(used, f"r{made}", mechanism, at)
        tally.ends["killed" if code == -signal.SIGKILL else "refused" if code == REFUSED else f"ended {code}"] += 1
        inspect(used, paid, told, tally)
        made += (used / f"r{made}.ddssp").exists()
        if code == REFUSED:
            used = folder / str(int(used.name) + 1)
            used.mkdir()
    return tally


def _racing(folder: Path, name: str, start: Any) -> None:
    start.wait(60)
    try:
        make_release(folder, name, "moments", 0.9)
    except BudgetError:
        os._exit(REFUSED)


def release_race(folder: Path) -> bool:
    """Whether of eight whole releases that race for the last of a budget one was made and seven drew nothing."""
    Ledger(folder / "ledger.db").set_budget("survey", 1.0, 1e-6)
    start = FORK.Barrier(RACERS)
    racers = [FORK.Process(target=_racing, args=(folder, f"r{i}", start)) for i in range(RACERS)]
    for process in racers:
        process.start()
    for process in racers:
        process.join(60)
    ends = sorted(process.exitcode or 0 for process in racers)
    one_made = len([*folder.glob("*.ddssp")]) == 1
    return ends == [0, *[REFUSED] * (RACERS - 1)] and one_made and Ledger(folder / "ledger.db").verify().ok


def _last(barrier: Any, paths: list[Path], outcomes: Any) -> None:
    for race, path in enumerate(paths):
        barrier.wait(60)
        try:
            _reserve(path, LAST)
            outcomes.put((race, "granted"))
        except BudgetError:
            outcomes.put((race, "refused"))


def _reserve(path: Path, rho: Fraction) -> None:
    Ledger(path).reserve("survey", rho, epsilon=0.5, delta=1e-6, schema_fingerprint="5c", mechanism="moments")


def ledger_races(races: int, folder: Path) -> int:
    """Of so many races of eight processes, in how many exactly one got the last ρ, the others none, and the books add up."""
    paths = [folder / f"{race}.db" for race in range(races)]
    for path in paths:
        Ledger(path).set_budget("survey", 1.0, 1e-6)
        _reserve(path, CEILING / 2)
    barrier = FORK.Barrier(RACERS)
    with FORK.Manager() as manager:
        outcomes = manager.Queue()
        racers = [FORK.Process(target=_last, args=(barrier, paths, outcomes)) for _ in range(RACERS)]
        for process in racers:
            process.start()
        for process in racers:
            process.join(600)
        found = Counter(outcomes.get_nowait() for _ in range(races * RACERS))
    fair = [found[race, "granted"] == 1 and found[race, "refused"] == RACERS - 1 for race in range(races)]
    sound = [Ledger(path).spent("survey") == CEILING / 2 + LAST and Ledger(path).verify().ok for path in paths]
    return sum(a and b for a, b in zip(fair, sound, strict=True))
