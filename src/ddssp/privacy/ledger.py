"""The ledger: what each dataset may spend, what it has spent, and nothing drawn before its ρ is on disk.

One SQLite file, append only. Each row is chained to the one before by SHA-256, and every answer, also the decision to
grant a reservation, is a replay of all rows through the same checks (`Books.post`): from a ledger that `verify` calls
broken nothing can be spent. The file holds no data and nothing computed from data.

The chain shows accidents and hand edits. Whoever may write the file can also rewrite it whole or put an old copy back;
that shows against a release, which carries the (dataset, counter, hash) of its row: see `Ledger.contains`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ddssp.privacy.books import Account, Books, Entry, Kind, protected
from ddssp.privacy.budget import Budget, BudgetError
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.cover import Request, budget_command, covers, refusal
from ddssp.whole import draft, drafted, sync_folder

__all__ = ["Account", "Entry", "Kind", "Ledger", "LedgerError", "Reservation", "Verification"]

APPLICATION_ID = 0x64647370  # "ddsp", in the file's header
FORMAT_VERSION = 2
PATIENCE_S = 30.0
"""How long an operation waits for another process to finish its own."""
LONGEST = 200
"""Characters of a name, at most: a release with a longer one could not be read."""

# sqlite_sequence (AUTOINCREMENT) remembers how many rows there were, also after the last ones are deleted.
_TABLES = f"""
PRAGMA journal_mode = WAL;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 1;
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE entry (
  number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, dataset TEXT NOT NULL, counter INTEGER NOT NULL,
  rho TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, fingerprint TEXT NOT NULL, mechanism TEXT NOT NULL,
  created TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER entry_keeps BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append only'); END;
CREATE TRIGGER entry_stays BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append only'); END;
"""
# From format 1 to 2, within one transaction; rows of format 1 keep their hashes. The trigger is for a program of format 1 that
# looked at the format just before.
_UNITS = (
    "ALTER TABLE entry ADD COLUMN unit TEXT",
    "ALTER TABLE entry ADD COLUMN max_rows INTEGER",
    "CREATE TRIGGER entry_states BEFORE INSERT ON entry WHEN NEW.unit IS NULL"
    " BEGIN SELECT RAISE(ABORT, 'the ledger has a newer format'); END",
    "PRAGMA user_version = 2",
)


class LedgerError(ValueError):
    """A ledger file that cannot be used, or is not the one it should be; nothing was spent."""


class _Broken(LedgerError):
    """A ledger that does not add up: the first row at fault (None: the file as a whole) and why."""

    def __init__(self, reason: str, *, number: int | None = None, rows: int = 0) -> None:
        where = "" if number is None else f" at row {number}"
        super().__init__(f"ledger must be intact, got one that is broken{where} ({reason}): restore it from a backup.")
        self.reason, self.number, self.rows = reason, number, rows


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """ρ that is spent from now on, whether or not anything is drawn with it.

    `dataset`, `counter` and `hash` belong into the release: by them `Ledger.contains` knows the row again.
    """

    id: int
    dataset: str
    rho: Fraction
    counter: int
    previous: str
    hash: str
    created: str


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Whether a ledger adds up; if not, the first row at fault (None: the file as a whole) and why."""

    ok: bool
    rows: int
    broken: int | None = None
    reason: str = ""


@dataclass(frozen=True, init=False)
class Ledger:
    """A ledger file, by its path.

    Guarantees: a reservation is on disk (WAL, synchronous=FULL) before `reserve` returns; what is reserved for a
    dataset never exceeds its ceiling of that moment, in exact rational arithmetic and across processes, and bounds the
    loss of one kind of unit; a reservation never completed stays spent. The object holds the path and nothing else, so
    its copies, clones, pickles and forks all spend from the same file. Only `set_budget` creates that file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = Ledger(f"{folder}/ledger.db")
    ...     ceiling = ledger.set_budget("survey", epsilon=1.0, delta=1e-6).ceiling
    ...     reservation = ledger.reserve(
    ...         "survey", ceiling / 3, epsilon=0.5, delta=1e-6, schema_fingerprint="0f1e", mechanism="moments")
    ...     ledger.complete(reservation)
    ...     ledger.remaining("survey") == ceiling * 2 / 3, ledger.verify().ok
    (True, True)
    """

    path: Path

    def __init__(self, path: str | os.PathLike[str]) -> None:
        object.__setattr__(self, "path", Path(path).absolute())  # a later chdir must not change the ledger

    def set_budget(self, dataset: str, epsilon: float, delta: float, unit: str | None = None) -> Account:
        """The account of `dataset` under its new ceiling, rho_of(epsilon, delta); creates the ledger if there is none.

        A ceiling is appended, never replaced, so a raised one is on record. One below what is spent refuses all
        further spending.

        Args: `unit`, the column whose values name the people, if the ceiling bounds what a person may lose with all rows;
        "" is one row; None keeps the unit that the account has, and is one row for a new one.
        What has been spent under one unit cannot be counted for another: BudgetError, and nothing is written.
        """
        _require_text(dataset=dataset, **({"unit": unit} if unit else {}))
        rho = Budget(epsilon=epsilon, delta=delta).rho
        if not os.path.lexists(self.path):
            _create(self.path)
        with self._transaction() as books:
            due = _unit(books.accounts.get(dataset), unit)
            books.append(Kind.CEILING, dataset, rho=_text(rho), epsilon=float(epsilon), delta=float(delta), unit=due)
        return books.accounts[dataset]

    def require_covered(self, dataset: str, rho: Fraction, contribution: Contribution | None = None) -> None:
        """None; BudgetError unless `reserve` would grant this now. Another process may be faster."""
        request = Request(dataset=dataset, rho=rho, unit="" if contribution is None else contribution.column)
        account = self._read().accounts.get(dataset)
        if account is None or not covers(account, request):
            raise BudgetError(refusal(request, account, self.path))

    def reserve(
        self,
        dataset: str,
        rho: Fraction,
        *,
        epsilon: float,
        delta: float,
        schema_fingerprint: str,
        mechanism: str,
        contribution: Contribution | None = None,
    ) -> Reservation:
        """The reservation of `rho`, on disk; to be made before anything is drawn.

        Guarantees: spent + rho ≤ ceiling and the row is durable when this returns; or BudgetError, and nothing is
        written. If the process dies meanwhile the row is there whole or not at all.

        Args: `rho` is what is charged, for one row or for a person's whole `contribution`; (epsilon, delta), the request it
        came from, is for the record.
        """
        _require_text(dataset=dataset, schema_fingerprint=schema_fingerprint, mechanism=mechanism)
        Budget(epsilon=epsilon, delta=delta)
        if not (isinstance(rho, Fraction) and rho > 0):
            raise ValueError(f"rho must be a positive Fraction, got {rho!r}; Budget(epsilon=…, delta=…).rho is one.")
        unit, rows = ("", 0) if contribution is None else (contribution.column, contribution.rows)
        terms: dict[str, str | float] = {"rho": _text(rho), "epsilon": float(epsilon), "delta": float(delta)}
        terms |= {"fingerprint": schema_fingerprint, "mechanism": mechanism, "unit": unit, "max_rows": rows}
        request = Request(dataset=dataset, rho=rho, unit=unit)
        with self._transaction() as books:
            account = books.accounts.get(dataset)
            if account is not None and covers(account, request):
                return _reservation(books.append(Kind.RESERVE, dataset, counter=account.reservations + 1, **terms))
        raise BudgetError(refusal(request, account, self.path))

    def complete(self, reservation: Reservation) -> None:
        """None; appends that `reservation` is complete. LedgerError if it is unknown or was completed before."""
        with self._transaction() as books:
            known = books.open.get((reservation.dataset, reservation.counter))
            if known is None or known.hash != reservation.hash:
                raise LedgerError(
                    f"reservation must be an open one of ledger {self.path}, got number {reservation.counter} of"
                    f" {reservation.dataset!r}, which it has completed or never held: is it an old copy?"
                )
            books.append(Kind.COMPLETE, reservation.dataset, counter=reservation.counter)

    def contains(self, counter: int, hash: str, dataset: str) -> bool:
        """Whether the ledger holds the reservation that a release carries; False after an old copy was put back."""
        wanted = (Kind.RESERVE, dataset, counter, hash)
        return any((entry.kind, entry.dataset, entry.counter, entry.hash) == wanted for entry in self.entries())

    def verify(self) -> Verification:
        """Whether each row is as it was written, in its place, none missing, and each rule was kept at its time.

        An old copy put back is intact in itself: ask `contains` for the newest release. LedgerError if the file is no
        ledger at all.
        """
        try:
            return Verification(ok=True, rows=len(self._read().entries))
        except _Broken as broken:
            return Verification(ok=False, rows=broken.rows, broken=broken.number, reason=broken.reason)

    def entries(self) -> tuple[Entry, ...]:
        """Every row, oldest first."""
        return tuple(self._read().entries)

    def datasets(self) -> tuple[Account, ...]:
        """The account of each dataset with a declared ceiling, by name."""
        return tuple(account for _, account in sorted(self._read().accounts.items()))

    def spent(self, dataset: str) -> Fraction:
        """The ρ reserved for `dataset` so far, completed or not; 0 if it has no ceiling."""
        account = self._read().accounts.get(dataset)
        return account.spent if account else Fraction(0)

    def remaining(self, dataset: str) -> Fraction:
        """The ρ that `dataset` may still reserve; 0 if it has no ceiling."""
        account = self._read().accounts.get(dataset)
        return account.remaining if account else Fraction(0)

    def fingerprint(self, text: str) -> str:
        """HMAC-SHA256 of `text` under this ledger's own random key, in hex: to compare, not to guess from."""
        with self._opened() as connection:
            return hmac.new(_key(connection), text.encode(), hashlib.sha256).hexdigest()

    def _read(self) -> Books:
        with self._opened() as connection:
            return _books(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Books]:
        """The books under the write lock; what is appended to them is committed on leaving without an error."""
        with self._opened() as connection:
            _patiently(lambda: _require_log(connection, self.path))
            _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
            if _names(self.path) > 1:
                raise LedgerError(_linked(self.path))
            _upgrade(connection)
            books = _books(connection)
            yield books
            for row in books.appended:
                connection.execute(f"INSERT INTO entry ({','.join(row)}) VALUES (:{',:'.join(row)})", row)
            connection.execute("COMMIT")
            # into the file itself: a copy of it without its -wal must not have forgotten
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """A connection for one operation; closing it undoes what was not committed."""
        _require_file(self.path)
        uri = f"{self.path.as_uri()}?mode=rw"  # never creates the file
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)) as connection:
                _patiently(lambda: _prepare(connection, self.path))
                yield connection
        except sqlite3.Error as error:
            raise _translated(error, self.path) from error


def _require_log(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise LedgerError(f"ledger must be where SQLite can keep a WAL, got {path}: use a local disk.")


def _patiently(run: Callable[[], object]) -> None:
    """None; run(), again while others hold the file: SQLite itself does not wait where a log is recovered or taken away."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            run()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _books(connection: sqlite3.Connection) -> Books:
    """The books of all rows in one snapshot; _Broken if they do not add up."""
    if not connection.in_transaction:
        connection.execute("BEGIN")
    books = Books(hashlib.sha256(b"ddssp ledger " + _key(connection)).hexdigest())
    rows = connection.execute("SELECT * FROM entry ORDER BY number").fetchall()
    for row in rows:
        try:
            books.post(dict(row))
        except ValueError as error:
            raise _Broken(str(error), number=len(books.entries) + 1, rows=len(rows)) from error
    written = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    if (written["seq"] if written else 0) != len(rows):
        raise _Broken("rows are missing at the end", number=len(rows) + 1, rows=len(rows))
    return books


def _key(connection: sqlite3.Connection) -> bytes:
    row = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if row is None or not isinstance(row["value"], bytes) or len(row["value"]) != 32:
        raise _Broken("its key is missing")
    return bytes(row["value"])


def _text(rho: Fraction) -> str:
    return f"{rho.numerator}/{rho.denominator}"


def _unit(account: Account | None, stated: str | None) -> str:
    """The unit of a dataset's next ceiling; BudgetError if it has spent under another."""
    held = None if account is None else account.unit
    if account is not None and account.reservations and held is not None and stated not in (None, held):
        raise BudgetError(
            f"unit must stay what the dataset has spent under, {protected(held)}, got {protected(stated)}: the two do not add"
            " up, so declare the ceiling under another dataset name."
        )
    return stated if stated is not None else held or ""


def _reservation(entry: Entry) -> Reservation:
    return Reservation(
        id=entry.number,
        dataset=entry.dataset,
        rho=entry.rho,
        counter=entry.counter,
        previous=entry.previous,
        hash=entry.hash,
        created=entry.created,
    )


def _require_text(**arguments: str) -> None:
    for name, value in arguments.items():
        if not (isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= LONGEST):
            raise ValueError(f"{name} must be a printable text, not blank, of at most {LONGEST} characters, got {value!r:.99}.")


def _require_file(path: Path) -> None:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        command = budget_command(path, "NAME")
        raise LedgerError(f"ledger must be an existing file, got {path}: create it with {command}.") from error
    except OSError as error:
        raise LedgerError(f"ledger must be a file this user may read, got {path} ({error.strerror}).") from error
    if not stat.S_ISREG(mode):
        raise LedgerError(f"ledger must be a file, got {path}, which is a folder or a device: name a file in it.")
    _require_one_name(path)


def _require_one_name(path: Path) -> None:
    """None; LedgerError if the file has a hard link: SQLite keeps its log and locks by name, so two names would both spend.

    Edge cases: a new ledger is also named as its draft for a moment, which is waited for; a draft left behind is removed.
    """
    until = time.monotonic() + PATIENCE_S
    while _names(path) > 1:
        wait = drafted(path.resolve()) and time.monotonic() < until
        if not wait and _names(path) > 1:
            raise LedgerError(_linked(path))
        time.sleep(0.01)


def _names(path: Path) -> int:
    """How many names the file has; 0 if it is gone, which SQLite reports."""
    try:
        return path.stat().st_nlink
    except OSError:
        return 0


def _linked(path: Path) -> str:
    return (
        f"ledger must have one name, got {path}, which has hard links: keep the name in use, remove the others, copy nothing."
    )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """None; makes `connection` durable, and raises LedgerError unless it is to a ledger of a format known here."""
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda text: text.decode(errors="replace")  # damaged text fails its hash, not the reader
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # on macOS a plain fsync stops at the drive's cache
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise LedgerError(f"ledger must be made by `ddssp ledger budget`, got {path}, another SQLite file: name another.")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if not 1 <= version <= FORMAT_VERSION:
        raise LedgerError(f"ledger must have format 1 to {FORMAT_VERSION}, got {path} with format {version}: upgrade ddssp.")


def _upgrade(connection: sqlite3.Connection) -> None:
    """None; a ledger of format 1 has the columns of format 2 once the transaction is committed."""
    if connection.execute("PRAGMA user_version").fetchone()[0] == 1:
        for statement in _UNITS:
            connection.execute(statement)


def _create(path: Path) -> None:
    """None; a complete, empty ledger appears at `path` in one step, mode 0600, unless another process was first."""
    try:
        with draft(path) as new:
            with closing(sqlite3.connect(new, isolation_level=None)) as connection:
                connection.executescript(_TABLES)
                _upgrade(connection)
                connection.execute("INSERT INTO meta VALUES ('key', ?)", (secrets.token_bytes(32),))
            with suppress(FileExistsError):
                os.link(new, path)  # unlike a rename, never replaces
        sync_folder(path.parent)  # a ledger that a power cut could unlink would forget what was spent
    except OSError as error:
        raise LedgerError(f"ledger must be in a folder open to this user, got {path} ({error.strerror}).") from error
    except sqlite3.Error as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.Error, path: Path) -> LedgerError:
    """What SQLite reports, as a sentence that says what is required."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the other bits are detail
    if code == sqlite3.SQLITE_CORRUPT:
        return _Broken(f"the file is damaged: {error}")
    requirement = {
        sqlite3.SQLITE_NOTADB: "be made by `ddssp ledger budget`",
        sqlite3.SQLITE_BUSY: f"be released by other processes within {PATIENCE_S:g} s",
        sqlite3.SQLITE_FULL: "have free space on its disk",
    }.get(code, "be, with its folder, open to this user for reading and writing")
    remedy = ": name another file" if code == sqlite3.SQLITE_NOTADB else ""
    return LedgerError(f"ledger must {requirement}, got {path} ({error}){remedy}.")
