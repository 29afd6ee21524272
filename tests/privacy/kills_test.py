"""kill -9 at every step of a release: nothing drawn that is not paid for, no half file, and the ledger still adds up.

DDSSP_KILLS sets how many random kills there are, DDSSP_RELEASE_RACES how many races.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import stat
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults import Faults, install, make_release

from ddssp import load
from ddssp.privacy.budget import BudgetError, rho_of
from ddssp.privacy.ledger import Kind, Ledger

KILLS = int(os.environ.get("DDSSP_KILLS", "24"))
RACES = int(os.environ.get("DDSSP_RELEASE_RACES", "3"))
MECHANISMS = ("moments", "aim", "task")
EPSILON = 0.5  # three of them fit under the ceiling, and part of a fourth
FORK = multiprocessing.get_context("fork")
REFUSED = 3


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
    tally.overspent += ledger.spent("survey") > rho_of(1.0, 1e-6)
    for path in folder.glob("*.ddssp"):
        try:
            entry = load(path).entry or {}
            tally.unpaid += not ledger.contains(entry["counter"], entry["hash"], entry["dataset"])
        except ValueError:
            tally.half += 1
    tally.unpaid += len([*folder.glob("*.ddssp")]) > reservations(ledger)


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """How many points a release passes that makes its own ledger, by mechanism."""
    found = {}
    for mechanism in MECHANISMS:
        code, told = run(tmp_path_factory.mktemp("dry"), "r", mechanism)
        assert code == 0
        found[mechanism] = int(told[-1].removeprefix("passed "))
    return found


def test_there_are_points_around_every_ledger_write_draw_and_file_operation(points: dict[str, int]) -> None:
    assert points["moments"] >= 2 * (3 + 7 + 3)  # the ledger's statements, a draw per block, fsync, chmod and replace
    assert all(points[m] > points["moments"] for m in ("aim", "task"))


def test_random_kills(points: dict[str, int], tmp_path: Path) -> None:
    rng, tally = random.Random(KILLS), Tally()
    folder, made, kills = tmp_path / "0", 0, 0
    folder.mkdir()
    while kills < KILLS:
        mechanism = rng.choice(MECHANISMS)
        at = rng.randint(1, points[mechanism])
        paid = reservations(Ledger(folder / "ledger.db"))
        code, told = run(folder, f"r{made}", mechanism, at)
        kills += code == -signal.SIGKILL
        tally.ends["killed" if code == -signal.SIGKILL else "refused" if code == REFUSED else f"ended {code}"] += 1
        inspect(folder, paid, told, tally)
        made += (folder / f"r{made}.ddssp").exists()
        if code == REFUSED:
            folder = tmp_path / str(int(folder.name) + 1)
            folder.mkdir()
    print(tally)
    assert (tally.unpaid, tally.overspent, tally.half, tally.broken) == (0, 0, 0, 0)
    assert set(tally.ends) <= {"killed", "refused", "ended 0"}


def _race(folder: Path, name: str, start: Any) -> None:
    start.wait(60)
    try:
        make_release(folder, name, "moments", 0.9)
    except BudgetError:
        os._exit(REFUSED)


@pytest.mark.parametrize("race", range(RACES))
def test_eight_releases_racing_for_the_last_of_a_budget(race: int, tmp_path: Path) -> None:
    """Whole releases: one is made, and seven draw nothing."""
    Ledger(tmp_path / "ledger.db").set_budget("survey", 1.0, 1e-6)
    start = FORK.Barrier(8)
    racers = [FORK.Process(target=_race, args=(tmp_path, f"r{i}", start)) for i in range(8)]
    for process in racers:
        process.start()
    for process in racers:
        process.join(60)
    assert sorted(process.exitcode or 0 for process in racers) == [0, *[REFUSED] * 7]
    assert len([*tmp_path.glob("*.ddssp")]) == 1
    assert Ledger(tmp_path / "ledger.db").verify().ok


def test_what_a_kill_leaves_is_for_its_owner_only_and_goes_with_the_next_attempt(
    points: dict[str, int], tmp_path: Path
) -> None:
    run(tmp_path, "r", "moments", points["moments"] - 8)  # while the file is being written
    left = [p for p in tmp_path.iterdir() if ".draft-" in p.name]
    assert len(left) == 1
    assert stat.S_IMODE(left[0].stat().st_mode) == 0o600
    assert not (tmp_path / "r.ddssp").exists()
    assert run(tmp_path, "r", "moments")[0] == 0
    assert not [p for p in tmp_path.iterdir() if ".draft-" in p.name]
    assert load(tmp_path / "r.ddssp").private


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0o027, 0o640)])
def test_files_are_open_to_whom_the_umask_lets(mask: int, mode: int, tmp_path: Path) -> None:
    from ddssp.whole import write

    before = os.umask(mask)
    try:
        write(tmp_path / "public", b"")
        write(tmp_path / "own", b"", mode=0o600)
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("public", "own")] == [mode, 0o600]


def test_a_draft_in_use_is_left_alone(tmp_path: Path) -> None:
    from ddssp.whole import draft, write

    with draft(tmp_path / "r") as held:
        write(tmp_path / "r", b"other")
        assert held.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["r"]


def test_the_inspection_finds_what_it_is_there_for(tmp_path: Path) -> None:
    tally = Tally()
    Ledger(tmp_path / "ledger.db").set_budget("survey", 1.0, 1e-6)
    inspect(tmp_path, 0, ["drew"], tally)
    assert tally.unpaid == 1
    (tmp_path / "r.ddssp").write_bytes(b"half")
    inspect(tmp_path, 0, [], tally)
    assert (tally.half, tally.unpaid) == (1, 2)


def test_a_file_system_without_locks_or_folder_syncs_still_gets_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is spent by then must not be lost to what a network disk cannot do."""
    import fcntl

    from ddssp import whole

    def unsupported(*_arguments: object) -> None:
        raise OSError("not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    monkeypatch.setattr(whole, "sync_folder", unsupported)
    whole.write(tmp_path / "r", b"whole")
    assert (tmp_path / "r").read_bytes() == b"whole"
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
