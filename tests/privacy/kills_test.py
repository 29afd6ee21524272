"""kill -9 at every step of a release: nothing drawn that is not paid for, no half file, and the ledger still adds up.

DDSSP_KILLS sets how many random kills there are, DDSSP_RELEASE_RACES how many races.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from kills import Tally, inspect, killed, passed, release_race, run

from ddssp import load
from ddssp.privacy.ledger import Ledger

KILLS = int(os.environ.get("DDSSP_KILLS", "24"))
RACES = int(os.environ.get("DDSSP_RELEASE_RACES", "3"))


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    return passed(tmp_path_factory.mktemp("dry"))


def test_there_are_points_around_every_ledger_write_draw_and_file_operation(points: dict[str, int]) -> None:
    assert points["moments"] >= 2 * (
        8 + 7 + 3 + 3
    )  # the ledger's statements, a draw per block, fsync, chmod and replace, twice
    assert all(points[m] > points["moments"] for m in ("aim", "task"))


def test_random_kills(points: dict[str, int], tmp_path: Path) -> None:
    tally = killed(KILLS, KILLS, points, tmp_path)
    assert tally.ends["killed"] == KILLS
    assert tally.wrong == {"unpaid": 0, "overspent": 0, "half": 0, "broken": 0}
    assert set(tally.ends) <= {"killed", "refused", "ended 0"}


@pytest.mark.parametrize("race", range(RACES))
def test_eight_releases_racing_for_the_last_of_a_budget(race: int, tmp_path: Path) -> None:
    """Whole releases: one is made, and seven draw nothing."""
    assert release_race(tmp_path)


def test_what_a_kill_leaves_is_for_its_owner_only_and_goes_with_the_next_attempt(
    points: dict[str, int], tmp_path: Path
) -> None:
    run(
        tmp_path, "r", "moments", points["moments"] - 17
    )  # while the file is being written; nine points belong to its signature
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
    run(tmp_path, "r", "moments")
    (tmp_path / "r.ddssp.sig").write_bytes(b"half")
    inspect(tmp_path, 0, [], tally)
    assert tally.half == 2


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
