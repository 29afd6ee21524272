"""One account, one unit: charges for a row and charges for a person never add up, and old ledgers say so too."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ddssp.curate import release
from ddssp.privacy.budget import BudgetError, rho_of
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.ledger import Kind, Ledger, LedgerError, Reservation
from ddssp.schema import Schema

FORMAT_1 = Path(__file__).with_name("ledger_format_1.sql")
ROWS_OF_ONE = Contribution(column="who", rows=3)
SMALL = Fraction(1, 1000)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with "visits", which bounds what a row may lose, and "people", which bounds what a person may."""
    out = Ledger(tmp_path / "ledger.db")
    out.set_budget("visits", 1.0, 1e-6)
    out.set_budget("people", 1.0, 1e-6, unit="who")
    return out


@pytest.fixture
def old(tmp_path: Path) -> Ledger:
    """A ledger that the first format wrote: "survey" has spent 1/100 and 1/300, "panel" nothing."""
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FORMAT_1.read_text(encoding="utf-8"))
    return Ledger(path)


def reserve(ledger: Ledger, dataset: str, contribution: Contribution | None = None) -> Reservation:
    return ledger.reserve(
        dataset, SMALL, epsilon=0.1, delta=1e-6, schema_fingerprint="5c", mechanism="moments", contribution=contribution
    )


def refused(ledger: Ledger, dataset: str, contribution: Contribution | None = None) -> str:
    """The refusal, the same before and at the reservation, which writes nothing."""
    before = ledger.entries()
    with pytest.raises(BudgetError) as early:
        ledger.require_covered(dataset, SMALL, contribution)
    with pytest.raises(BudgetError) as late:
        reserve(ledger, dataset, contribution)
    assert str(early.value) == str(late.value)
    assert ledger.entries() == before
    assert "\n" not in str(late.value)
    return str(late.value)


def test_a_reservation_records_its_unit(ledger: Ledger) -> None:
    reserve(ledger, "visits")
    reserve(ledger, "people", ROWS_OF_ONE)
    assert [(e.unit, e.max_rows) for e in ledger.entries()] == [("", 0), ("who", 0), ("", 0), ("who", 3)]
    assert [(a.dataset, a.unit, a.protects) for a in ledger.datasets()] == [
        ("people", "who", "all rows with one 'who'"),
        ("visits", "", "one row"),
    ]
    assert ledger.verify().ok


def test_charges_for_a_person_add_up_whatever_k_is(ledger: Ledger) -> None:
    """Each is for all rows of one person, of which k count; k is on record and changes nothing about the sum."""
    reserve(ledger, "people", ROWS_OF_ONE)
    reserve(ledger, "people", Contribution(column="who", rows=1))
    assert ledger.spent("people") == 2 * SMALL


def test_another_unit_is_refused_once_something_is_spent(ledger: Ledger) -> None:
    reserve(ledger, "visits")
    reserve(ledger, "people", ROWS_OF_ONE)
    message = refused(ledger, "visits", ROWS_OF_ONE)
    assert message.startswith(
        "unit must be what the ceiling of dataset 'visits' bounds the loss of, one row, got all rows with"
    )
    assert "release without --unit and --max-rows, or under a dataset name with a ceiling of its own" in message
    assert "release with --unit who and --max-rows" in refused(ledger, "people")
    assert "got all rows with one 'household'" in refused(ledger, "people", Contribution(column="household", rows=3))


def test_before_anything_is_spent_the_ceiling_may_be_declared_again(ledger: Ledger) -> None:
    assert "with `ddssp ledger budget" in (message := refused(ledger, "visits", ROWS_OF_ONE))
    assert "--dataset visits --unit who`" in message
    ledger.set_budget("visits", 1.0, 1e-6, unit="who")
    reserve(ledger, "visits", ROWS_OF_ONE)
    assert re.search(r"--dataset people --unit ''`\.$", refused(ledger, "people"))
    ledger.set_budget("people", 1.0, 1e-6, unit="")
    reserve(ledger, "people")


def test_a_ceiling_declared_again_without_a_unit_keeps_the_one_it_had(ledger: Ledger) -> None:
    assert ledger.set_budget("people", 2.0, 1e-6).unit == "who"
    assert ledger.set_budget("visits", 2.0, 1e-6).unit == ""
    assert ledger.set_budget("new", 2.0, 1e-6).unit == ""


def test_a_raised_ceiling_keeps_its_unit_and_cannot_change_it(ledger: Ledger) -> None:
    reserve(ledger, "people", ROWS_OF_ONE)
    assert ledger.set_budget("people", 2.0, 1e-6).unit == "who"
    before = ledger.entries()
    with pytest.raises(BudgetError, match="unit must stay what the dataset has spent under, all rows with one 'who', got"):
        ledger.set_budget("people", 2.0, 1e-6, unit="household")
    assert ledger.entries() == before


def test_a_release_under_another_unit_reads_no_row_and_spends_nothing(ledger: Ledger) -> None:
    schema = Schema(name="visits", columns={"x": {"kind": "boolean"}, "y": {"kind": "boolean"}})
    with pytest.raises(BudgetError, match="unit must be what the ceiling"):
        release(object(), schema, epsilon=0.1, delta=1e-6, ledger=ledger, unit="who", max_rows=2)
    assert ledger.spent("visits") == 0


# --- ledgers of the first format ----------------------------------------------------------------------------------


def test_an_old_ledger_is_read_as_it_is_and_not_touched(old: Ledger) -> None:
    before = old.path.read_bytes()
    assert old.verify().ok
    assert old.spent("survey") == Fraction(1, 100) + Fraction(1, 300)
    assert {a.unit for a in old.datasets()} == {None}
    assert {(e.unit, e.max_rows) for e in old.entries()} == {(None, None)}
    assert old.path.read_bytes() == before


@pytest.mark.parametrize("contribution", [None, ROWS_OF_ONE])
def test_nothing_is_added_to_an_old_account_before_its_unit_is_stated(old: Ledger, contribution: Contribution | None) -> None:
    message = refused(old, "survey", contribution)
    assert "say what its earlier releases protect with `ddssp ledger budget" in message
    assert "nothing is spent yet" in refused(old, "panel", contribution)


@pytest.mark.parametrize(("unit", "contribution"), [(None, None), ("who", ROWS_OF_ONE)])
def test_an_old_ledger_goes_on_with_its_sums_its_hashes_and_one_unit(
    old: Ledger, unit: str | None, contribution: Contribution | None
) -> None:
    before = old.entries()
    assert old.set_budget("survey", 1.0, 1e-6, unit=unit).spent == Fraction(1, 100) + Fraction(1, 300)
    old.complete(reserve(old, "survey", contribution))
    assert old.entries()[: len(before)] == before
    assert old.spent("survey") == Fraction(1, 100) + Fraction(1, 300) + SMALL
    assert old.verify().ok
    refused(old, "survey", ROWS_OF_ONE if contribution is None else None)
    with closing(sqlite3.connect(old.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


def test_an_open_reservation_of_an_old_ledger_can_be_completed(old: Ledger) -> None:
    entry = next(e for e in old.entries() if (e.kind, e.counter) == (Kind.RESERVE, 2))
    fields = ("dataset", "rho", "counter", "previous", "hash", "created")
    old.complete(Reservation(id=entry.number, **{name: getattr(entry, name) for name in fields}))
    assert old.verify().ok


def test_a_program_of_the_first_format_can_add_nothing_to_a_newer_ledger(old: Ledger) -> None:
    """Should it have looked at the format just before: its row would say nothing of the unit."""
    old.set_budget("survey", 1.0, 1e-6)
    with closing(sqlite3.connect(old.path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(entry)") if row[1] not in ("unit", "max_rows")]
        names = ",".join(columns[1:])
        with pytest.raises(sqlite3.IntegrityError, match="newer format"):
            connection.execute(f"INSERT INTO entry ({names}) SELECT {names} FROM entry WHERE number = 2")
    assert old.verify().ok


class Killed(sqlite3.Connection):
    before = ""

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        if statement.startswith(self.before):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(statement, *arguments)


def _die_at(ledger: Ledger, statement: str) -> None:
    Killed.before = statement
    sqlite3.connect = partial(sqlite3.connect, factory=Killed)  # type: ignore[assignment]
    ledger.set_budget("survey", 1.0, 1e-6)


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE entry ADD COLUMN max", "CREATE TRIGGER", "PRAGMA user_version =", "INSERT", "COMMIT"]
)
def test_killed_while_it_is_brought_to_the_new_format_a_ledger_stays_what_it_was(old: Ledger, statement: str) -> None:
    before = old.entries()
    process = FORK.Process(target=_die_at, args=(old, statement))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert old.entries() == before
    assert old.verify().ok
    with closing(sqlite3.connect(old.path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    old.set_budget("survey", 1.0, 1e-6)
    reserve(old, "survey")


def _state(barrier: Any, ledger: Ledger) -> None:
    barrier.wait(60)
    ledger.set_budget(f"d{os.getpid()}", 1.0, 1e-6)


def test_processes_that_bring_it_to_the_new_format_at_once_lose_nothing(old: Ledger) -> None:
    barrier = FORK.Barrier(6)
    processes = [FORK.Process(target=_state, args=(barrier, old)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 6
    assert len(old.datasets()) == 2 + 6
    assert old.verify().ok


def test_a_newer_ledger_that_claims_the_first_format_is_refused(ledger: Ledger) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(LedgerError):
        reserve(ledger, "visits")
    assert rho_of(1.0, 1e-6) == ledger.remaining("visits")
