"""The books of a ledger: its rows, replayed through the one set of rules that says what makes a ledger sound.

Each row is chained to the one before by SHA-256. Nothing here knows where rows are kept.

A charge bounds what one unit may lose: one row, or all rows with one value of a column. Charges of different units do not add
up (docs/decisions/033-one-unit-an-account.md), so a ceiling states its unit and every reservation under it has the same. Rows
written before units were recorded have none; nothing is added to such an account until a ceiling states its unit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from typing import Any

from ddssp.privacy.budget import epsilon_of, rho_of

Row = Mapping[str, Any]  # as SQLite gives it: nothing is known about a value before `_entry` has looked
_TYPES = {"number": int, "counter": int, "epsilon": float, "delta": float, "max_rows": int} | dict.fromkeys(
    ("kind", "dataset", "rho", "fingerprint", "mechanism", "created", "previous", "hash", "unit"), str
)
_FORMAT_1 = {name: kind for name, kind in _TYPES.items() if name not in ("unit", "max_rows")}
# A BLOB has no place in a row: written as its repr it cannot give the hash of the text that was there.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr)


class Kind(StrEnum):
    """What a row of the ledger records."""

    CEILING = "ceiling"
    RESERVE = "reserve"
    COMPLETE = "complete"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row: a ceiling declared, a reservation made, or a reservation completed."""

    number: int
    kind: Kind
    dataset: str
    counter: int  # the reservation's running number within its dataset; 0 for a ceiling
    rho: Fraction  # granted by a ceiling, charged by a reservation; 0 for a completion
    epsilon: float  # with delta: what rho came from; 0 for a completion
    delta: float
    fingerprint: str  # of the reservation's schema, else empty
    mechanism: str  # of the reservation, else empty
    created: str  # ISO 8601, UTC
    previous: str
    hash: str
    unit: str | None  # the column whose values name the units, empty for one row; None where it was not recorded
    max_rows: int | None  # how many rows of a unit count, 0 where a unit is one row; None where it was not recorded


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where one dataset stands: its ceiling, the ρ granted at (epsilon, delta), and what is spent of it."""

    dataset: str
    epsilon: float
    delta: float
    ceiling: Fraction
    spent: Fraction = Fraction(0)
    unit: str | None = None  # as of an Entry
    reservations: int = 0
    fingerprint: str = ""  # of the latest reservation's schema

    @property
    def protects(self) -> str:
        """Whose loss the ceiling bounds, in words."""
        return protected(self.unit)

    @property
    def remaining(self) -> Fraction:
        """The ρ that may still be reserved; 0 if the ceiling was lowered below what is spent."""
        return max(Fraction(0), self.ceiling - self.spent)

    @property
    def epsilon_spent(self) -> float:
        """The ε that the spent ρ amounts to at the ceiling's δ, rounded up."""
        return epsilon_of(self.spent, self.delta)

    @property
    def epsilon_left(self) -> float:
        """The largest ε that a request at the ceiling's δ may ask for, rounded down.

        Guarantees: a request for it fits, rho_of(epsilon_left, delta) ≤ remaining; 0 if no ε fits. It is ρ that adds
        up: ε spent and ε left are more than the ceiling's ε together.
        """
        if not self.spent:
            return self.epsilon
        epsilon = epsilon_of(self.remaining, self.delta) * (1 - 4e-9)  # epsilon_of rounds up, by 1e-9
        return epsilon if rho_of(epsilon, self.delta) <= self.remaining else 0.0


class Books:
    """A ledger's rows, replayed: the one place that knows what makes a ledger sound."""

    def __init__(self, genesis: str) -> None:
        self.head = genesis
        self.entries: list[Entry] = []
        self.accounts: dict[str, Account] = {}
        self.open: dict[tuple[str, int], Entry] = {}  # reservations not completed yet
        self.appended: list[Row] = []

    def append(self, kind: Kind, dataset: str, **values: str | float) -> Entry:
        """The entry of a new last row, held to the same rules as every row read back."""
        row: dict[str, Any] = {"number": len(self.entries) + 1, "kind": kind.value, "dataset": dataset}
        row |= {"counter": 0, "rho": "0/1", "epsilon": 0.0, "delta": 0.0, "fingerprint": "", "mechanism": ""}
        row |= {"unit": "", "max_rows": 0} | values
        row |= {"created": datetime.now(UTC).isoformat(timespec="microseconds"), "previous": self.head}
        row["hash"] = _hash(row)
        self.appended.append(row)
        return self.post(row)

    def post(self, row: Row) -> Entry:
        """The entry of the next row; ValueError with the reason if a sound ledger cannot have this row here."""
        due = len(self.entries) + 1
        if row["number"] != due:
            raise ValueError(f"row {row['number']} stands where row {due} is due: rows are missing")
        if row["hash"] != _hash(row):
            raise ValueError("its content does not give its hash: it was edited")
        if row["previous"] != self.head:
            raise ValueError("it does not follow from the row before it: rows were removed, exchanged or rewritten")
        entry = _entry(row)
        if entry.unit is None and any(e.unit is not None for e in self.entries[-1:]):
            raise ValueError("it does not say its unit, and the row before it does")
        {Kind.CEILING: self._ceiling, Kind.RESERVE: self._reserve, Kind.COMPLETE: self._complete}[entry.kind](entry)
        self.head = entry.hash
        self.entries.append(entry)
        return entry

    def _ceiling(self, entry: Entry) -> None:
        terms: dict[str, Any] = {"epsilon": entry.epsilon, "delta": entry.delta, "ceiling": entry.rho, "unit": entry.unit}
        known = self.accounts.get(entry.dataset)
        if known and known.reservations and known.unit not in (None, entry.unit):
            raise ValueError("it changes the unit of an account that has spent")
        self.accounts[entry.dataset] = replace(known, **terms) if known else Account(dataset=entry.dataset, **terms)

    def _reserve(self, entry: Entry) -> None:
        account = self.accounts.get(entry.dataset)
        if account is None:
            raise ValueError("it reserves for a dataset without a ceiling")
        counter, spent = account.reservations + 1, account.spent + entry.rho
        if entry.counter != counter:
            raise ValueError(f"it is reservation {entry.counter} of its dataset where {counter} is due")
        if entry.rho <= 0:
            raise ValueError("its rho is not positive")
        if entry.unit != account.unit:
            raise ValueError("its unit is not that of its dataset's ceiling")
        if bool(entry.unit) != ((entry.max_rows or 0) > 0):
            raise ValueError("its number of rows does not go with its unit")
        if spent > account.ceiling:
            raise ValueError("it spends beyond the ceiling of its time")
        self.open[entry.dataset, counter] = entry
        self.accounts[entry.dataset] = replace(account, spent=spent, reservations=counter, fingerprint=entry.fingerprint)

    def _complete(self, entry: Entry) -> None:
        if self.open.pop((entry.dataset, entry.counter), None) is None:
            raise ValueError("it completes a reservation that is not open")


def protected(unit: str | None) -> str:
    """Whose loss a charge bounds, in words."""
    if unit is None:
        return "a unit that was not recorded"
    return f"all rows with one {unit!r}" if unit else "one row"


def _hash(row: Row) -> str:
    """SHA-256 of the row, the previous row's hash included, as canonical JSON; what is NULL is left out."""
    content = {name: value for name, value in row.items() if name != "hash" and value is not None}
    return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()


def _entry(row: Row) -> Entry:
    """The row as an Entry; ValueError if a value is not of the kind that `Books.append` writes."""
    if {name: type(value) for name, value in row.items() if value is not None} not in (_TYPES, _FORMAT_1):
        raise ValueError("it holds a value that no ledger writes")
    if not re.fullmatch(r"[0-9]+/[1-9][0-9]*", row["rho"]):
        raise ValueError(f"its rho, {row['rho']!r}, is not a fraction of natural numbers")
    return Entry(**{"unit": None, "max_rows": None, **row, "kind": Kind(row["kind"]), "rho": Fraction(row["rho"])})
