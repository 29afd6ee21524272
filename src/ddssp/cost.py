"""What a release will take, from its schema alone: draws of noise, and memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ddssp.domain import TooLargeError
from ddssp.encoding import Encoding

DRAW = 20e-6
"""Seconds of one exact draw, measured on a slow core."""

START = 250 * 2**20
"""Bytes that the program itself takes, with its libraries."""

HELD = 48
"""Bytes for each number that is drawn: its answer, and the copies that writing a file makes."""

NUMBER = 16
"""Bytes for each number of the rows that are handled at once: as it came, and in fixed point."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Draws (None where the data's noise decides how many) and bytes at the peak.

    >>> print(Cost(draws=1_000_000, bytes=3 * 2**30))
    1,000,000 draws of noise (20 s), 3.0 GB of memory
    """

    draws: int | None
    bytes: int

    @classmethod
    def of(cls, counted: int, draws: int | None, at_once: int = 0) -> Cost:
        """Of so many exact integers and draws, and of so many numbers of rows in memory at once."""
        held = 8 * counted + HELD * (counted if draws is None else draws) + NUMBER * at_once
        return cls(draws=draws, bytes=START + held)

    @property
    def seconds(self) -> float:
        """Of drawing, on one core."""
        return DRAW * (self.draws or 0)

    def check(self) -> None:
        """Refuses what this machine's memory cannot hold."""
        if (have := memory()) is not None and self.bytes > have:
            raise TooLargeError(
                f"the release needs about {self.bytes / 2**30:.1f} GB of memory and this machine has {have / 2**30:.1f}; "
                "give the widest columns fewer levels or bins, or encode ordered ones as numbers (encoding = 'scalar')."
            )

    def __str__(self) -> str:
        drawing = "" if self.draws is None else f"{self.draws:,} draws of noise ({_spoken(self.seconds)}), "
        return f"{drawing}{self.bytes / 2**30:.1f} GB of memory"


def draws(encoding: Encoding) -> int:
    """Numbers that `moments` draws: n, all products of two blocks, squares of scalars, vectors with themselves."""
    rows = [b.rows for b in encoding]
    own = sum(len(b.squares) > 1 if b.is_scalar else b.rows**2 for b in encoding if b.column and not b.is_table)
    return 1 + (sum(rows) ** 2 - sum(r * r for r in rows)) // 2 + own


def memory() -> int | None:
    """Bytes of this machine, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
