"""Contribution: how many records of one person count, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

MOST = 10**6


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """At most `rows` records of each value of `column` count; the guarantee is for all records of one value together.

    A mechanism that is ρ-zCDP for one record is k²ρ-zCDP for k of them (Bun, Steinke 2016, Prop. 1.9), so of a person's ρ the
    mechanism gets ρ / k².

    >>> Contribution(column="patient", rows=3).for_records(Fraction(9, 100))
    Fraction(1, 100)
    """

    column: str
    rows: int

    def __post_init__(self) -> None:
        if not (isinstance(self.column, str) and self.column.strip() and self.column.isprintable() and len(self.column) <= 200):
            raise ValueError(f"unit must name a column in at most 200 printable characters, got {self.column!r:.99}.")
        if not (type(self.rows) is int and 1 <= self.rows <= MOST):
            raise ValueError(f"max_rows must be a number from 1 to {MOST:,}, got {self.rows!r}.")

    @classmethod
    def of(cls, unit: str | None, max_rows: int | None) -> Contribution | None:
        """None if neither is given; both are needed."""
        if unit is None and max_rows is None:
            return None
        if unit is None or max_rows is None:
            given, other = ("unit", "max_rows") if max_rows is None else ("max_rows", "unit")
            raise ValueError(
                f"{given} needs {other} beside it: a column that names the person, and how many rows of each count."
            )
        return cls(column=unit, rows=max_rows)

    def for_records(self, rho: Fraction) -> Fraction:
        """The ρ for one record that makes `rho` for one person."""
        return rho / self.rows**2
