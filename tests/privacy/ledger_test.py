"""The ledger under real SQLite and real processes: killed, racing, copied, tampered with."""

from __future__ import annotations

import copy
import errno
import hashlib
import hmac
import json
import multiprocessing
import os
import pickle
import random
import re
import shutil
import signal
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kills import RACERS, ledger_races

from ddssp.privacy import books, cover, ledger_file
from ddssp.privacy import ledger as ledger_module
from ddssp.privacy.budget import BudgetError, epsilon_of, rho_of
from ddssp.privacy.ledger import Kind, Ledger, LedgerError, Reservation

RACES = int(os.environ.get("DDSSP_RACES", "20"))
CEILING = rho_of(1.0, 1e-6)
FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module", autouse=True)
def refusals_compute_each_epsilon_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cover, "epsilon_of", lru_cache(epsilon_of))
        patch.setattr(books, "epsilon_of", lru_cache(epsilon_of))
        patch.setattr(books, "rho_of", lru_cache(rho_of))
        yield


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with the dataset "survey" under CEILING, and nothing spent."""
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    return ledger


def reserve(ledger: Ledger, rho: Fraction, dataset: str = "survey", schema: str = "5c") -> Reservation:
    return ledger.reserve(dataset, rho, epsilon=0.5, delta=1e-6, schema_fingerprint=schema, mechanism="moments")


def sql(path: Path, *statements: str) -> list[Any]:
    """The rows of the last statement, run behind the ledger's back with its triggers off."""
    with closing(sqlite3.connect(path)) as connection, connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        rows = [connection.execute(statement).fetchall() for statement in statements][-1]
        for _, definition in triggers:
            connection.execute(definition)
        return rows


def child(action: Callable[..., object], *arguments: object) -> int | None:
    """The exit code of `action` run in a forked process; negative for a signal."""
    process = FORK.Process(target=action, args=arguments)
    process.start()
    process.join(60)
    return process.exitcode


# --- spending -----------------------------------------------------------------------------------------------------


def test_a_reservation_is_committed_when_reserve_returns(ledger: Ledger) -> None:
    reservation = reserve(ledger, CEILING / 3)
    [row] = sql(ledger.path, "SELECT number, kind, dataset, counter, rho, previous, hash FROM entry WHERE number = 2")
    rho = f"{reservation.rho.numerator}/{reservation.rho.denominator}"
    assert row == (reservation.id, "reserve", "survey", 1, rho, reservation.previous, reservation.hash)
    assert reservation.rho == CEILING / 3
    assert reservation.created.endswith("+00:00")


def test_thirds_do_not_drift(ledger: Ledger) -> None:
    for _ in range(39):
        reserve(ledger, CEILING / 39)
    assert ledger.spent("survey") == CEILING
    assert ledger.remaining("survey") == 0
    with pytest.raises(BudgetError):
        reserve(ledger, Fraction(1, 10**40))


def test_a_refusal_names_what_was_asked_spent_allowed_and_the_remedy(ledger: Ledger) -> None:
    reserve(ledger, rho_of(0.5, 1e-6))
    before = ledger.entries()
    with pytest.raises(BudgetError) as refusal:
        reserve(ledger, CEILING)
    message = str(refusal.value)
    half = epsilon_of(rho_of(0.5, 1e-6), 1e-6)
    for part in ("'survey'", f"{float(CEILING):.9g} (epsilon 1)", f"(epsilon {half:.6g}) spent", "delta 1e-06"):
        assert part in message
    assert f"ddssp ledger budget {ledger.path} --epsilon E --delta D --dataset survey" in message
    assert "\n" not in message
    assert ledger.entries() == before
    ledger.reserve(
        "survey",
        rho_of(float(re.search(r"ask for epsilon (\S+) or less", message)[1]), 1e-6),  # type: ignore[index]
        epsilon=0.5,
        delta=1e-6,
        schema_fingerprint="5c",
        mechanism="moments",
    )


def test_a_dataset_without_a_ceiling_is_refused_with_the_command_that_declares_one(ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match=r"ddssp ledger budget \S+ --epsilon E --delta D --dataset 'other one'"):
        reserve(ledger, Fraction(1, 10**9), dataset="other one")
    assert ledger.spent("other one") == ledger.remaining("other one") == 0


def test_datasets_do_not_share_a_budget(ledger: Ledger) -> None:
    ledger.set_budget("panel", 2.0, 1e-5)
    reserve(ledger, CEILING)
    assert reserve(ledger, rho_of(2.0, 1e-5), dataset="panel").counter == 1
    panel, survey = ledger.datasets()
    assert (panel.dataset, panel.ceiling, panel.spent) == ("panel", rho_of(2.0, 1e-5), rho_of(2.0, 1e-5))
    assert (survey.dataset, survey.epsilon, survey.delta, survey.remaining) == ("survey", 1.0, 1e-6, 0)


def test_a_ceiling_may_be_raised_and_lowered_and_every_one_is_on_record(ledger: Ledger) -> None:
    reserve(ledger, CEILING)
    ledger.set_budget("survey", 2.0, 1e-6)
    reserve(ledger, CEILING)
    assert ledger.set_budget("survey", 0.5, 1e-6).remaining == 0  # below what is spent: no error, no more spending
    with pytest.raises(BudgetError):
        reserve(ledger, Fraction(1, 10**15))
    ceilings = [entry for entry in ledger.entries() if entry.kind is Kind.CEILING]
    assert [(entry.epsilon, entry.rho) for entry in ceilings] == [(e, rho_of(e, 1e-6)) for e in (1.0, 2.0, 0.5)]
    assert ledger.spent("survey") == 2 * CEILING
    assert ledger.verify().ok


@pytest.mark.parametrize("share", [Fraction(0), Fraction(1, 3), Fraction(9, 10), 1 - Fraction(1, 10**12), Fraction(1)])
def test_the_epsilon_left_can_be_asked_for(ledger: Ledger, share: Fraction) -> None:
    if share:
        reserve(ledger, CEILING * share)
    [account] = ledger.datasets()
    assert account.epsilon_spent == epsilon_of(CEILING * share, 1e-6)
    assert rho_of(account.epsilon_left, 1e-6) <= account.remaining or account.epsilon_left == 0
    if share <= Fraction(9, 10):
        assert rho_of(account.epsilon_left, 1e-6) > account.remaining * (1 - Fraction(1, 10**6))


def test_a_completion_is_appended_and_only_an_open_reservation_can_be_completed(ledger: Ledger) -> None:
    first, second = reserve(ledger, CEILING / 2), reserve(ledger, CEILING / 4)
    before = ledger.entries()
    ledger.complete(second)
    assert ledger.entries()[:-1] == before
    assert (ledger.entries()[-1].kind, ledger.entries()[-1].counter) == (Kind.COMPLETE, second.counter)
    with pytest.raises(LedgerError, match="completed"):
        ledger.complete(second)
    with pytest.raises(LedgerError, match="never held"):
        ledger.complete(replace(first, hash=second.hash))
    assert ledger.spent("survey") == CEILING * 3 / 4  # the first was never completed and stays spent


@pytest.mark.parametrize("rho", [0.01, 1, Fraction(0), Fraction(-1, 3), "1/3"])
def test_rho_must_be_a_positive_fraction(ledger: Ledger, rho: Any) -> None:
    with pytest.raises(ValueError, match="rho must be a positive Fraction, got"):
        reserve(ledger, rho)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\ud800", "a" * 201])
def test_names_must_be_printable(ledger: Ledger, name: str) -> None:
    with pytest.raises(ValueError, match="dataset must be a printable text"):
        ledger.set_budget(name, 1.0, 1e-6)
    if name:  # no column: one row
        with pytest.raises(ValueError, match="unit must be a printable text"):
            ledger.set_budget("survey", 1.0, 1e-6, unit=name)
    with pytest.raises(ValueError, match="schema_fingerprint must be a printable text"):
        reserve(ledger, CEILING, schema=name)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("reserve"), st.fractions(Fraction(1, 99), Fraction(3, 2), max_denominator=99)),
            st.tuples(st.just("ceiling"), st.sampled_from([0.1, 1.0, 2.0])),
            st.tuples(st.just("complete"), st.none()),
        ),
        max_size=12,
    )
)
def test_spent_never_exceeds_the_ceiling_under_any_sequence(actions: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger_module, "refusal", lambda *_: "refused")  # its wording takes long
        ledger = Ledger(f"{folder}/ledger.db")
        ledger.set_budget("survey", 1.0, 1e-6)
        ceiling, spent, pending = CEILING, Fraction(0), []
        for action, value in actions:
            if action == "ceiling":
                ceiling = ledger.set_budget("survey", value, 1e-6).ceiling
            elif action == "complete" and pending:
                ledger.complete(pending.pop())
            elif action == "reserve" and spent + value * CEILING <= ceiling:
                pending.append(reserve(ledger, value * CEILING))
                spent += value * CEILING
            elif action == "reserve":
                with pytest.raises(BudgetError):
                    reserve(ledger, value * CEILING)
            [account] = ledger.datasets()
            assert (account.spent, account.remaining) == (spent, max(0, ceiling - spent))
        assert ledger.verify().ok


# --- one file, however the handle travels -------------------------------------------------------------------------


def _clone(ledger: Ledger) -> Ledger:
    base = pytest.importorskip("sklearn.base")
    copied: Ledger = base.clone(ledger, safe=False)
    return copied


def _granted(ledger: Ledger) -> bool:
    try:
        reserve(ledger, CEILING / 2)
    except BudgetError:
        return False
    return True


@pytest.mark.parametrize("travel", [copy.copy, copy.deepcopy, lambda l: pickle.loads(pickle.dumps(l)), _clone])
def test_copies_spend_from_the_same_file(ledger: Ledger, travel: Callable[[Ledger], Ledger]) -> None:
    other = travel(ledger)
    assert other == ledger
    reserve(other, CEILING)
    with pytest.raises(BudgetError):
        reserve(ledger, Fraction(1, 10**15))


def test_a_fork_spends_from_the_same_file(ledger: Ledger) -> None:
    reserve(ledger, CEILING / 2)
    assert child(reserve, ledger, CEILING / 2) == 0
    assert ledger.spent("survey") == CEILING
    with pytest.raises(BudgetError):
        reserve(ledger, Fraction(1, 10**15))


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_workers_spend_from_the_same_file(ledger: Ledger, backend: str) -> None:
    joblib = pytest.importorskip("joblib")
    won = joblib.Parallel(n_jobs=2, backend=backend)(joblib.delayed(_granted)(ledger) for _ in range(4))
    assert sorted(won) == [False, False, True, True]
    assert ledger.spent("survey") == CEILING


def test_a_relative_path_survives_chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    monkeypatch.chdir("/")
    assert ledger.remaining("survey") == CEILING


def test_the_handle_is_frozen(ledger: Ledger) -> None:
    with pytest.raises(AttributeError):
        ledger.path = Path("/elsewhere")  # type: ignore[misc]


# --- durability ---------------------------------------------------------------------------------------------------


STEPS = ("BEGIN IMMEDIATE", "SELECT * FROM entry", "INSERT INTO entry", "COMMIT")


class Spy(sqlite3.Connection):
    """A connection that reports its settings when it is closed, and can kill its process around a statement."""

    seen: ClassVar[list[list[object]]] = []
    statements: ClassVar[list[str]] = []
    before: str | None = None
    after: str | None = None

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        self.statements.append(statement)
        if self.before and statement.startswith(self.before):
            os.kill(os.getpid(), signal.SIGKILL)
        cursor = super().execute(statement, *arguments)
        if self.after and statement.startswith(self.after):
            os.kill(os.getpid(), signal.SIGKILL)
        return cursor

    def close(self) -> None:
        settings = ("journal_mode", "synchronous", "fullfsync")
        self.seen.append([super(Spy, self).execute(f"PRAGMA {name}").fetchone()[0] for name in settings])
        super().close()


def test_a_copy_without_its_log_remembers_also_while_others_have_the_ledger_open(tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ceiling = ledger.set_budget("survey", 1.0, 1e-6).ceiling
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("SELECT count(*) FROM entry").fetchall()
        ledger.reserve("survey", ceiling / 3, epsilon=0.3, delta=1e-6, schema_fingerprint="0f", mechanism="moments")
        shutil.copy(ledger.path, tmp_path / "copy.db")
    assert Ledger(tmp_path / "copy.db").spent("survey") == ceiling / 3


@pytest.mark.parametrize("mode", ["wal", "delete"])  # a backup made with VACUUM INTO comes back as "delete"
def test_reserve_runs_in_wal_with_full_sync_under_the_write_lock(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    with closing(sqlite3.connect(ledger.path)) as other:
        assert other.execute(f"PRAGMA journal_mode = {mode}").fetchone() == (mode,)
    monkeypatch.setattr(Spy, "seen", [])
    monkeypatch.setattr(Spy, "statements", [])
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Spy))
    reserve(ledger, CEILING)
    assert Spy.seen == [["wal", 2, 1]]
    order = [next(i for i, text in enumerate(Spy.statements) if text.startswith(start)) for start in STEPS]
    assert order == sorted(order)


class Interrupted(sqlite3.Connection):
    """A connection in the middle of whose reading something else happens."""

    pending: ClassVar[list[Callable[[], object]]] = []

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
        if statement.startswith("SELECT seq") and self.pending:
            self.pending.pop()()
        return super().execute(statement, *arguments)


def test_a_reader_sees_one_moment_of_a_ledger_in_use(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interrupted, "pending", [lambda: reserve(ledger, CEILING / 4)])
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Interrupted))
    assert [(v.ok, v.rows) for v in (ledger.verify(), ledger.verify())] == [(True, 1), (True, 2)]
    assert Interrupted.pending == []


def _die_while_reserving(ledger: Ledger, moment: dict[str, str]) -> None:
    for name, statement in moment.items():
        setattr(Spy, name, statement)
    sqlite3.connect = partial(sqlite3.connect, factory=Spy)  # type: ignore[assignment]
    reserve(ledger, CEILING / 2)


@pytest.mark.parametrize("statement", STEPS)
def test_killed_before_the_commit_nothing_is_spent(ledger: Ledger, statement: str) -> None:
    reserve(ledger, CEILING / 4)
    assert child(_die_while_reserving, ledger, {"before": statement}) == -signal.SIGKILL
    assert ledger.verify().ok
    assert ledger.spent("survey") == CEILING / 4
    reserve(ledger, CEILING * 3 / 4)


def test_killed_right_after_the_commit_all_is_spent(ledger: Ledger) -> None:
    reserve(ledger, CEILING / 4)
    assert child(_die_while_reserving, ledger, {"after": "COMMIT"}) == -signal.SIGKILL
    assert ledger.path.with_name("ledger.db-wal").stat().st_size > 0  # what was committed is still in the log only
    assert ledger.verify().ok
    assert ledger.spent("survey") == CEILING * 3 / 4
    with pytest.raises(BudgetError):
        reserve(ledger, CEILING / 2)


def _reserve_for_ever(ledger: Ledger, acknowledgements: Any) -> None:
    while True:
        acknowledgements.send_bytes(reserve(ledger, CEILING / 10**6).hash.encode())


def _received(receiver: Any) -> Iterator[str]:
    with suppress(EOFError):
        while True:
            yield receiver.recv_bytes().decode()


def test_killed_at_any_moment_no_acknowledged_reservation_is_lost(ledger: Ledger) -> None:
    rng = random.Random(0)
    acknowledged: list[str] = []
    for round_ in range(1, 9):
        receiver, sender = FORK.Pipe(duplex=False)
        process = FORK.Process(target=_reserve_for_ever, args=(ledger, sender))
        process.start()
        sender.close()
        acknowledged.append(receiver.recv_bytes().decode())
        time.sleep(rng.uniform(0, 0.03))
        process.kill()
        process.join()
        acknowledged.extend(_received(receiver))
        held = [entry.hash for entry in ledger.entries() if entry.kind is Kind.RESERVE]
        assert ledger.verify().ok
        assert set(acknowledged) <= set(held)
        assert len(held) <= len(acknowledged) + round_  # at most the one in flight, per kill


# --- races --------------------------------------------------------------------------------------------------------


def _in_parallel(action: Callable[..., None], *arguments: object) -> list[int | None]:
    barrier = FORK.Barrier(RACERS)
    processes = [FORK.Process(target=action, args=(barrier, *arguments)) for _ in range(RACERS)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(600)
    return [process.exitcode for process in processes]


def test_racing_for_the_last_rho_exactly_one_wins(tmp_path: Path) -> None:
    assert ledger_races(RACES, tmp_path) == RACES


def _declare(barrier: Any, paths: list[Path]) -> None:
    for path in paths:
        barrier.wait(60)
        Ledger(path).set_budget(f"d{os.getpid()}", 1.0, 1e-6)


def test_racing_to_create_the_ledger_makes_one_and_loses_nothing(tmp_path: Path) -> None:
    paths = [tmp_path / f"{race}.db" for race in range(5)]
    assert _in_parallel(_declare, paths) == [0] * RACERS
    assert [len(Ledger(path).datasets()) for path in paths] == [RACERS] * len(paths)
    assert all(Ledger(path).verify().ok for path in paths)
    assert sorted(tmp_path.iterdir()) == paths  # and no drafts left behind


def test_a_ledger_in_use_is_waited_for_and_then_given_up(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "PATIENCE_S", 0.05)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ledger.remaining("survey") == CEILING  # reading needs no lock
        with pytest.raises(LedgerError, match=r"within 0\.05 s"):
            reserve(ledger, CEILING)
    assert ledger.spent("survey") == 0


def test_patience_is_generous() -> None:
    assert ledger_file.PATIENCE_S >= 30


# --- tampering ----------------------------------------------------------------------------------------------------


@pytest.fixture
def used(ledger: Ledger) -> Ledger:
    """A ledger of six rows: ceiling, reserve, complete, reserve, ceiling, reserve."""
    ledger.complete(reserve(ledger, CEILING / 4))
    reserve(ledger, CEILING / 4)
    ledger.set_budget("survey", 0.9, 1e-6)
    reserve(ledger, CEILING / 5)
    return ledger


def refuses(ledger: Ledger) -> bool:
    """Whether nothing more is answered from, or written to, `ledger`."""
    for operation in (
        lambda: reserve(ledger, Fraction(1, 10**15)),
        lambda: ledger.set_budget("survey", 50.0, 1e-6),
        lambda: ledger.remaining("survey"),
    ):
        with pytest.raises(LedgerError):
            operation()
    return True


def test_an_untouched_ledger_verifies(used: Ledger) -> None:
    verification = used.verify()
    assert (verification.ok, verification.rows, verification.broken, verification.reason) == (True, 6, None, "")


EDITS = {
    "kind": "'complete'",
    "dataset": "'panel'",
    "counter": "3",
    "rho": "'1/1000000'",
    "epsilon": "0.25",
    "delta": "1e-7",
    "fingerprint": "'5d'",
    "mechanism": "'aim'",
    "created": "'2020-01-01T00:00:00.000000+00:00'",
    "unit": "'who'",
    "max_rows": "NULL",
    "previous": "hash",
    "hash": "previous",
}


@pytest.mark.parametrize("column", EDITS)
def test_an_edited_row_is_found(used: Ledger, column: str) -> None:
    sql(used.path, f"UPDATE entry SET {column} = {EDITS[column]} WHERE number = 4")
    assert (used.verify().ok, used.verify().broken, used.verify().rows) == (False, 4, 6)
    assert "edited" in used.verify().reason
    assert refuses(used)


@pytest.mark.parametrize("value", ["x'ff00'", "CAST(x'ff00' AS TEXT)", "7.5"])
def test_a_value_of_another_type_is_found(used: Ledger, value: str) -> None:
    sql(used.path, f"UPDATE entry SET mechanism = {value} WHERE number = 2")
    assert used.verify().broken == 2
    assert refuses(used)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_a_deleted_row_is_found(used: Ledger, number: int) -> None:
    sql(used.path, f"DELETE FROM entry WHERE number = {number}")
    assert (used.verify().ok, used.verify().broken) == (False, number)
    assert "missing" in used.verify().reason
    assert refuses(used)


def test_a_deleted_row_whose_gap_was_closed_is_found(used: Ledger) -> None:
    sql(
        used.path,
        "DELETE FROM entry WHERE number = 4",
        "UPDATE entry SET number = number - 1 WHERE number > 4",
        "UPDATE sqlite_sequence SET seq = 5",
    )
    assert used.verify().broken == 4
    assert refuses(used)


def test_exchanged_rows_are_found(used: Ledger) -> None:
    sql(
        used.path,
        "UPDATE entry SET number = 99 WHERE number = 2",
        "UPDATE entry SET number = 2 WHERE number = 4",
        "UPDATE entry SET number = 4 WHERE number = 99",
        "UPDATE sqlite_sequence SET seq = 6",
    )
    assert used.verify().broken == 2
    assert refuses(used)


def test_another_key_is_found(used: Ledger) -> None:
    sql(used.path, "UPDATE meta SET value = zeroblob(32) WHERE name = 'key'")
    assert used.verify().broken == 1
    sql(used.path, "DELETE FROM meta")
    assert "key" in used.verify().reason
    assert refuses(used)


def test_the_database_itself_refuses_updates_and_deletions(used: Ledger) -> None:
    with closing(sqlite3.connect(used.path)) as connection:
        for statement in ("UPDATE entry SET rho = '0/1'", "DELETE FROM entry"):
            with pytest.raises(sqlite3.IntegrityError, match="append only"):
                connection.execute(statement)


def _forge(path: Path) -> None:
    """Makes every row's hash right again, by the documented recipe and without the ledger's code."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        [[key]] = connection.execute("SELECT value FROM meta WHERE name = 'key'")
        rows = [dict(row) for row in connection.execute("SELECT * FROM entry ORDER BY number")]
    previous = hashlib.sha256(b"ddssp ledger " + key).hexdigest()
    updates = []
    for row in rows:
        content = {k: v for k, v in row.items() if v is not None and k != "hash"} | {"previous": previous}
        own = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        updates.append(f"UPDATE entry SET previous='{previous}', hash='{own}' WHERE number={row['number']}")
        previous = own
    sql(path, *updates)


def test_the_documented_recipe_gives_the_hashes(used: Ledger) -> None:
    before = used.entries()
    _forge(used.path)
    assert used.entries() == before


FORGERIES = {
    "negative": ("UPDATE entry SET rho = '-1/3' WHERE number = 4", 4, "fraction"),
    "zero": ("UPDATE entry SET rho = '0/1' WHERE number = 4", 4, "positive"),
    "division by zero": ("UPDATE entry SET rho = '1/0' WHERE number = 4", 4, "fraction"),
    "decimal": ("UPDATE entry SET rho = '0.001' WHERE number = 4", 4, "fraction"),
    "number": ("UPDATE entry SET counter = 'two' WHERE number = 4", 4, "no ledger writes"),
    "kind": ("UPDATE entry SET kind = 'refund' WHERE number = 4", 4, "refund"),
    "beyond the ceiling": (f"UPDATE entry SET rho = '{CEILING}' WHERE number = 4", 4, "beyond the ceiling"),
    "ceiling of its time": ("UPDATE entry SET rho = '1/1000000' WHERE number = 5", 6, "beyond the ceiling"),
    "no ceiling": ("UPDATE entry SET dataset = 'panel' WHERE number = 4", 4, "without a ceiling"),
    "counter": ("UPDATE entry SET counter = 3 WHERE number = 4", 4, "where 2 is due"),
    "completion of nothing": ("UPDATE entry SET counter = 2 WHERE number = 3", 3, "not open"),
    "unit": ("UPDATE entry SET unit = 'who', max_rows = 1 WHERE number = 4", 4, "not that of its dataset's ceiling"),
    "unit of the ceiling": ("UPDATE entry SET unit = 'who' WHERE number = 5", 5, "changes the unit"),
    "rows without a unit": ("UPDATE entry SET max_rows = 3 WHERE number = 4", 4, "does not go with its unit"),
    "no unit": ("UPDATE entry SET unit = NULL, max_rows = NULL WHERE number = 4", 4, "does not say its unit"),
    "half a unit": ("UPDATE entry SET unit = NULL WHERE number = 4", 4, "no ledger writes"),
    "completed twice": ("UPDATE entry SET kind = 'complete', counter = 1 WHERE number = 4", 4, "not open"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_broken_rule_is_found_although_every_hash_is_right(used: Ledger, forgery: str) -> None:
    statement, number, reason = FORGERIES[forgery]
    sql(used.path, statement)
    _forge(used.path)
    verification = used.verify()
    assert (verification.ok, verification.broken) == (False, number)
    assert reason in verification.reason
    assert refuses(used)


def _sound(ledger: Ledger) -> bool:
    try:
        return ledger.verify().ok
    except LedgerError:
        return False


def test_a_truncated_file_is_found(used: Ledger, tmp_path: Path) -> None:
    content = used.path.read_bytes()
    for size in (*range(0, len(content), 2048), 50, 101, len(content) - 1):
        short = Ledger(tmp_path / f"{size}.db")
        short.path.write_bytes(content[:size])
        assert not _sound(short), size
        assert refuses(short)


def test_a_file_without_its_last_page_is_called_damaged(used: Ledger) -> None:
    os.truncate(used.path, used.path.stat().st_size - 4096)
    assert (used.verify().ok, used.verify().broken) == (False, None)
    assert "damaged" in used.verify().reason


def test_a_flipped_bit_is_found_or_harmless(used: Ledger, tmp_path: Path) -> None:
    content, entries, rng = used.path.read_bytes(), used.entries(), random.Random(1)
    found = 0
    for position in rng.sample(range(len(content)), 80):
        flipped = Ledger(tmp_path / "flipped.db")
        flipped.path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        sound = _sound(flipped)
        found += not sound
        assert not sound or flipped.entries() == entries, position
    assert found >= 5


def test_an_old_copy_put_back_does_not_hold_the_newest_release(ledger: Ledger, tmp_path: Path) -> None:
    first = reserve(ledger, CEILING / 4)
    shutil.copy(ledger.path, tmp_path / "old.db")
    second = reserve(ledger, CEILING / 4)
    assert ledger.contains(second.counter, second.hash, "survey")
    shutil.copy(tmp_path / "old.db", ledger.path)
    assert ledger.verify().ok  # the copy is sound in itself
    assert ledger.contains(first.counter, first.hash, "survey")
    assert not ledger.contains(second.counter, second.hash, "survey")
    again = reserve(ledger, CEILING / 4)  # the same counter, and even the same charge
    assert again.counter == second.counter
    assert not ledger.contains(second.counter, second.hash, "survey")
    with pytest.raises(LedgerError, match="old copy"):
        ledger.complete(second)


def test_contains_asks_for_all_three(ledger: Ledger) -> None:
    ledger.set_budget("panel", 1.0, 1e-6)
    reservation = reserve(ledger, CEILING / 4)
    ceiling = ledger.entries()[0]
    assert not ledger.contains(reservation.counter + 1, reservation.hash, "survey")
    assert not ledger.contains(reservation.counter, reservation.previous, "survey")
    assert not ledger.contains(reservation.counter, reservation.hash, "panel")
    assert not ledger.contains(ceiling.counter, ceiling.hash, "survey")


# --- fingerprints -------------------------------------------------------------------------------------------------


def test_a_fingerprint_is_keyed_by_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    [[key]] = sql(ledger.path, "SELECT value FROM meta WHERE name = 'key'")
    assert len(key) == 32
    assert ledger.fingerprint("age: 0–99") == hmac.new(key, "age: 0–99".encode(), hashlib.sha256).hexdigest()
    other = Ledger(tmp_path / "other.db")
    other.set_budget("survey", 1.0, 1e-6)
    assert other.fingerprint("age: 0–99") != ledger.fingerprint("age: 0–99")


# --- files --------------------------------------------------------------------------------------------------------


def test_the_file_and_its_log_are_for_their_owner_only(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "ledger.db")
        ledger.set_budget("survey", 1.0, 1e-6)
        child(_die_while_reserving, ledger, {"after": "COMMIT"})  # leaves the log behind
    finally:
        os.umask(mask)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_the_name_of_a_new_ledger_is_synced_to_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, bool]] = []
    path = tmp_path / "ledger.db"
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, path.exists())))
    Ledger(path).set_budget("survey", 1.0, 1e-6)
    assert synced == [(tmp_path.stat().st_ino, True)]


READS: dict[str, Callable[[Ledger], object]] = {
    "verify": Ledger.verify,
    "entries": Ledger.entries,
    "datasets": Ledger.datasets,
    "spent": lambda ledger: ledger.spent("survey"),
    "contains": lambda ledger: ledger.contains(1, "00", "survey"),
    "fingerprint": lambda ledger: ledger.fingerprint("schema"),
    "reserve": lambda ledger: reserve(ledger, CEILING),
}


@pytest.mark.parametrize("operation", READS)
def test_a_missing_file_is_reported_and_not_created(tmp_path: Path, operation: str) -> None:
    for path in (tmp_path / "none.db", tmp_path / "nowhere" / "none.db"):
        with pytest.raises(LedgerError, match=r"must be an existing file, got .*none\.db: create it with `ddssp ledger"):
            READS[operation](Ledger(path))
    assert list(tmp_path.iterdir()) == []


def test_reading_leaves_nothing_behind(used: Ledger, tmp_path: Path) -> None:
    before = used.path.read_bytes()
    for name in READS.keys() - {"reserve"}:
        READS[name](used)
    assert list(tmp_path.iterdir()) == [used.path]
    assert used.path.read_bytes() == before


def _text(path: Path) -> None:
    path.write_text("name,age\nAda,36\n" * 100)


def _other_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE entry (number INTEGER)")


def _newer(path: Path) -> None:
    Ledger(path).set_budget("survey", 1.0, 1e-6)
    sql(path, f"PRAGMA user_version = {ledger_file.FORMAT_VERSION + 1}")


STRANGERS = {
    "text": (_text, "made by `ddssp ledger budget`"),
    "empty": (Path.touch, "another SQLite file"),
    "other database": (_other_database, "another SQLite file"),
    "newer": (_newer, "upgrade ddssp"),
    "directory": (Path.mkdir, "folder"),
    "device": (lambda path: path.symlink_to("/dev/null"), "device"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path: Path, stranger: str) -> None:
    make, reason = STRANGERS[stranger]
    path = tmp_path / "file.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    for operation in (*READS.values(), lambda ledger: ledger.set_budget("survey", 1.0, 1e-6)):
        with pytest.raises(LedgerError, match=reason) as refusal:
            operation(Ledger(path))
        assert str(refusal.value).startswith("ledger must ")
        assert "\n" not in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_ledger_is_not_created_where_there_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "ledger.db", tmp_path / "file" / "ledger.db"):
        with pytest.raises(LedgerError, match="must be in a folder"):
            Ledger(path).set_budget("survey", 1.0, 1e-6)


def _as_someone_else(ledger: Ledger) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)
    for operation in (*READS.values(), lambda ledger: ledger.set_budget("survey", 1.0, 1e-6)):
        with pytest.raises(LedgerError, match="user"):
            operation(ledger)


@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o000, 0o600), (0o755, 0o000)])
def test_a_ledger_closed_to_the_user_is_reported(folder_mode: int, file_mode: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        ledger = Ledger(f"{name}/ledger.db")
        ledger.set_budget("survey", 1.0, 1e-6)
        ledger.path.chmod(file_mode)
        Path(name).chmod(folder_mode)
        try:
            assert child(_as_someone_else, ledger) == 0
        finally:
            Path(name).chmod(0o700)


def _writes_without_permission(ledger: Ledger) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)
    with pytest.raises(LedgerError, match="open to this user"):
        reserve(ledger, CEILING)
    with pytest.raises(LedgerError, match="in a folder open to this user"):
        Ledger(ledger.path.with_name("new.db")).set_budget("survey", 1.0, 1e-6)


def test_a_ledger_that_cannot_be_written_is_reported_and_spends_nothing() -> None:
    with tempfile.TemporaryDirectory() as name:
        ledger = Ledger(f"{name}/ledger.db")
        ledger.set_budget("survey", 1.0, 1e-6)
        ledger.path.chmod(0o444)
        Path(name).chmod(0o555)
        try:
            assert child(_writes_without_permission, ledger) == 0
            assert ledger.spent("survey") == 0
        finally:
            Path(name).chmod(0o700)


def test_a_path_with_odd_characters_is_taken_literally(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a b?mode=memory#%41.db")
    ledger.set_budget("survey", 1.0, 1e-6)
    assert list(tmp_path.iterdir()) == [ledger.path]
    assert ledger.remaining("survey") == CEILING


def test_a_ledger_under_two_names_spends_under_neither(ledger: Ledger) -> None:
    other = Ledger(ledger.path.with_name("other.db"))
    os.link(ledger.path, other.path)
    for one in (ledger, other):
        with pytest.raises(LedgerError, match=r"must have one name, got .* which has hard links: keep the name in use"):
            reserve(one, CEILING)
        with pytest.raises(LedgerError, match="must have one name"):
            one.remaining("survey")
    other.path.unlink()
    assert reserve(ledger, CEILING).counter == 1


def test_a_name_added_after_the_ledger_was_opened_is_found_under_the_lock(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ledger.path.with_name("other.db")
    prepare = ledger_file._prepare

    def prepared(connection: sqlite3.Connection, path: Path) -> None:
        prepare(connection, path)
        os.link(path, other)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "_prepare", prepared)
        with pytest.raises(LedgerError, match="must have one name"):
            reserve(ledger, CEILING)
    other.unlink()
    assert ledger.spent("survey") == 0


def test_a_draft_left_behind_under_a_second_name_is_removed(ledger: Ledger) -> None:
    """Its maker was killed between giving the ledger its name and removing the draft's."""
    left = ledger.path.with_name(f".{ledger.path.name}.draft-abcd1234")
    os.link(ledger.path, left)
    (link := ledger.path.with_name("link.db")).symlink_to(ledger.path)
    assert reserve(Ledger(link), CEILING).counter == 1
    assert not left.exists()


def test_a_file_system_without_links_is_named_as_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), str(source), None, str(target))

    monkeypatch.setattr(os, "link", unsupported)
    with pytest.raises(LedgerError, match=r"ledger must be on a file system that has hard links, got .*new\.db \(Operation"):
        Ledger(tmp_path / "new.db").set_budget("survey", 1.0, 1e-6)
    assert not [*tmp_path.iterdir()]
