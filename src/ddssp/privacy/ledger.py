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
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from ddssp.privacy.books import Account, Books, Entry, Kind, protected
from ddssp.privacy.budget import Budget, BudgetError
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.cover import Request, covers, refusal
from ddssp.privacy.ledger_file import Broken, LedgerError, appending, create, key, opened, replayed

__all__ = ["Account", "Entry", "Kind", "Ledger", "LedgerError", "Reservation", "Verification"]

LONGEST = 200
"""Characters of a name, at most: a release with a longer one could not be read."""


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
            create(self.path)
        with appending(self.path) as books:
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
        with appending(self.path) as books:
            account = books.accounts.get(dataset)
            if account is not None and covers(account, request):
                return _reservation(books.append(Kind.RESERVE, dataset, counter=account.reservations + 1, **terms))
        raise BudgetError(refusal(request, account, self.path))

    def complete(self, reservation: Reservation) -> None:
        """None; appends that `reservation` is complete. LedgerError if it is unknown or was completed before."""
        with appending(self.path) as books:
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
        except Broken as broken:
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
        with opened(self.path) as connection:
            return hmac.new(key(connection), text.encode(), hashlib.sha256).hexdigest()

    def _read(self) -> Books:
        with opened(self.path) as connection:
            return replayed(connection)


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
