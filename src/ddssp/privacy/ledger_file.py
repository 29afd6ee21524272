"""The file of a ledger: made in one step, opened with care, read as books, and appended to under SQLite's write lock.

Guarantees: what is appended to the books is on disk (WAL, synchronous=FULL) when `appending` ends without an error; the file is
as it was when it ends otherwise. Every operation waits for other processes, PATIENCE_S at most.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ddssp.privacy.books import Books
from ddssp.privacy.cover import budget_command
from ddssp.whole import draft, drafted, sync_folder

APPLICATION_ID = 0x64647370  # "ddsp", in the file's header
FORMAT_VERSION = 2
PATIENCE_S = 30.0
"""How long an operation waits for another process to finish its own."""

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
    """A ledger file that cannot be used, or is not the one it should be; nothing was written to it."""


class Broken(LedgerError):
    """A ledger that does not add up: the first row at fault (None: the file as a whole) and why."""

    def __init__(self, reason: str, *, number: int | None = None, rows: int = 0) -> None:
        where = "" if number is None else f" at row {number}"
        remedy = "restore its newest copy and ask `ddssp ledger verify --release` of the newest release whether that is one"
        super().__init__(f"ledger must be intact, got one that is broken{where} ({reason}): {remedy}.")
        self.reason, self.number, self.rows = reason, number, rows


@contextmanager
def appending(path: Path) -> Iterator[Books]:
    """The books under the write lock; what is appended to them is committed on leaving without an error."""
    with opened(path) as connection:
        _patiently(lambda: _require_log(connection, path))
        _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        if _names(path) > 1:
            raise LedgerError(_linked(path))
        _upgrade(connection)
        books = replayed(connection)
        yield books
        for row in books.appended:
            connection.execute(f"INSERT INTO entry ({','.join(row)}) VALUES (:{',:'.join(row)})", row)
        connection.execute("COMMIT")
        # into the file itself: a copy of it without its -wal must not have forgotten
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for one operation; closing it undoes what was not committed."""
    _require_file(path)
    uri = f"{path.as_uri()}?mode=rw"  # never creates the file
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE_S, isolation_level=None)) as connection:
            _patiently(lambda: _prepare(connection, path))
            yield connection
    except sqlite3.Error as error:
        raise _translated(error, path) from error


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


def replayed(connection: sqlite3.Connection) -> Books:
    """The books of all rows in one snapshot; Broken if they do not add up."""
    if not connection.in_transaction:
        connection.execute("BEGIN")
    books = Books(hashlib.sha256(b"ddssp ledger " + key(connection)).hexdigest())
    rows = connection.execute("SELECT * FROM entry ORDER BY number").fetchall()
    for row in rows:
        try:
            books.post(dict(row))
        except ValueError as error:
            raise Broken(str(error), number=len(books.entries) + 1, rows=len(rows)) from error
    written = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entry'").fetchone()
    if (written["seq"] if written else 0) != len(rows):
        raise Broken("rows are missing at the end", number=len(rows) + 1, rows=len(rows))
    return books


def key(connection: sqlite3.Connection) -> bytes:
    """The ledger's own random key."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'key'").fetchone()
    if row is None or not isinstance(row["value"], bytes) or len(row["value"]) != 32:
        raise Broken("its key is missing")
    return bytes(row["value"])


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


_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}


def create(path: Path) -> None:
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
        unlinked = error.errno in _NO_LINKS and error.filename2 is not None  # of these calls only a link has two names
        where = "on a file system that has hard links" if unlinked else "in a folder open to this user"
        raise LedgerError(f"ledger must be {where}, got {path} ({error.strerror}).") from error
    except sqlite3.Error as error:
        raise _translated(error, path) from error


def _translated(error: sqlite3.Error, path: Path) -> LedgerError:
    """What SQLite reports, as a sentence that says what is required."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the other bits are detail
    if code == sqlite3.SQLITE_CORRUPT:
        return Broken(f"the file is damaged: {error}")
    requirement = {
        sqlite3.SQLITE_NOTADB: "be made by `ddssp ledger budget`",
        sqlite3.SQLITE_BUSY: f"be released by other processes within {PATIENCE_S:g} s",
        sqlite3.SQLITE_FULL: "have free space on its disk",
    }.get(code, "be, with its folder, open to this user for reading and writing")
    remedy = ": name another file" if code == sqlite3.SQLITE_NOTADB else ""
    return LedgerError(f"ledger must {requirement}, got {path} ({error}){remedy}.")
