"""Columns: what may be declared about one column of a table, and what a value outside of it becomes."""

from __future__ import annotations

import itertools
import math
import sys
import unicodedata
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Level = bool | int | float | str
Code = Literal["scalar", "one-hot", "reduced"]

MAX_LEVELS = 2**16
"""Most levels or bins of one column: their squares, summed over a chunk of rows, are exact in float64."""


def printable(text: str) -> bool:
    """Whether a terminal, a file and a person can all take it: not blank, no control characters, no lone surrogates."""
    return bool(text.strip()) and not any(unicodedata.category(ch) in {"Cc", "Cs"} for ch in text)


class _Column(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
    to_confirm: tuple[str, ...] = ()
    """Settings that a draft read from values; a release refuses the schema until a person has emptied this list."""

    @property
    def size(self) -> int | None:
        """Number of levels; None for a continuous column without bins."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """One per level or bin, as coefficients name it."""
        raise NotImplementedError


class Numeric(_Column):
    """A number in [low, high]; clamped. `bins` (a count or the inner and outer edges) only where tables are wanted."""

    kind: Literal["numeric"] = "numeric"
    low: float
    high: float
    bins: Annotated[int, Field(ge=2, le=MAX_LEVELS)] | Annotated[tuple[float, ...], Field(max_length=MAX_LEVELS)] | None = None
    encoding: Code = "scalar"
    fill: float | None = None
    """Stands for a missing value; the middle of the range unless declared."""
    indicator: bool = False
    """Whether a boolean column `NAME:missing` records that the value was missing."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be below high, both finite, got low = {self.low}, high = {self.high}")
        if not sys.float_info.min <= (self.high - self.low) / 2 < math.inf:
            raise ValueError(f"high − low must be a number that a computer can halve, got low = {self.low}, high = {self.high}")
        if isinstance(self.bins, tuple):
            edges = self.bins
            if len(edges) < 3 or edges[0] != self.low or edges[-1] != self.high:
                raise ValueError("bins must be at least three rising edges from low to high, or a count of at least 2")
        if not all(a < b for a, b in itertools.pairwise(self.edges or ())):
            raise ValueError("bins must have rising edges; declare fewer bins or a wider range")
        if self.encoding != "scalar" and self.bins is None:
            raise ValueError(f"encoding = {self.encoding!r} needs bins; declare bins or use encoding = 'scalar'")
        if self.fill is not None and not self.low <= self.fill <= self.high:
            raise ValueError(f"fill must lie between low and high, got {self.fill}")
        return self

    @property
    def edges(self) -> tuple[float, ...] | None:
        """Bin edges, from low to high."""
        if self.bins is None or isinstance(self.bins, tuple):
            return self.bins
        step = (self.high - self.low) / self.bins
        return (*(self.low + i * step for i in range(self.bins)), self.high)

    @property
    def middle(self) -> float:
        return self.low + (self.high - self.low) / 2

    @property
    def size(self) -> int | None:
        return None if self.edges is None else len(self.edges) - 1

    @property
    def labels(self) -> tuple[str, ...]:
        """`[a, b)`; the last bin is closed. Six digits, or as many as tell the edges apart."""
        edges = self.edges or ()
        ends = [f"{e:.6g}" for e in edges]
        if len(set(ends)) < len(ends):
            ends = [repr(e) for e in edges]
        return tuple(f"[{a}, {b}{']' if i == len(ends) - 2 else ')'}" for i, (a, b) in enumerate(itertools.pairwise(ends)))


class _Discrete(_Column):
    levels: tuple[Level, ...]
    missing: Level | None = None
    """The level that stands for a missing value; `other`, or else the first level, unless declared."""

    def undeclared(self) -> Level | None:
        """The level of its own that takes undeclared values, if there is one."""
        return None

    @field_validator("levels", mode="before")
    @classmethod
    def _count(cls, levels: Any) -> Any:
        if not isinstance(levels, int) or isinstance(levels, bool):
            return levels
        if not 1 <= levels <= MAX_LEVELS:
            raise ValueError(f"levels must be a list, or a count from 1 to {MAX_LEVELS}, got {levels}")
        return tuple(range(levels))

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if not 1 <= len(self.levels) <= MAX_LEVELS:
            raise ValueError(f"levels must name at least one level and at most {MAX_LEVELS}, got {len(self.levels)}")
        if any(not isinstance(v, str) and not (math.isfinite(v) and abs(v) < 2**63) for v in self.all_levels):
            raise ValueError("levels must be texts, booleans or numbers of at most 63 bits")
        if any(isinstance(v, str) and v and not printable(v) for v in self.all_levels):
            raise ValueError("levels must not be mere spaces or hold control characters")
        same = Counter(v if isinstance(v, str) else float(v) for v in self.levels) | Counter(map(str, self.levels))
        if twice := [v for v in self.levels if same[v if isinstance(v, str) else float(v)] > 1 or same[str(v)] > 1]:
            raise ValueError(f"levels must be distinct, got {str(twice[-1])!r} twice")
        if self.missing is not None and str(self.missing) not in self.labels:
            raise ValueError(f"missing must be one of the levels, got {self.missing!r}")
        return self

    @property
    def all_levels(self) -> tuple[Level, ...]:
        """Declared levels, then `other` where that is a level of its own."""
        other = self.undeclared()
        return self.levels if other is None or str(other) in map(str, self.levels) else (*self.levels, other)

    @property
    def size(self) -> int:
        return len(self.all_levels)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(level) for level in self.all_levels)

    @property
    def fallback(self) -> int:
        """Code of an undeclared value: `other`, or else the first level."""
        other = self.undeclared()
        return 0 if other is None else self.labels.index(str(other))

    @property
    def missing_code(self) -> int:
        return self.fallback if self.missing is None else self.labels.index(str(self.missing))


class Ordinal(_Discrete):
    """Ordered levels (a list, or a count m for 0 … m − 1), evenly spaced unless `values` (v_j) says otherwise."""

    kind: Literal["ordinal"] = "ordinal"
    encoding: Code = "scalar"
    values: tuple[float, ...] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.values is not None:
            if len(self.values) != len(self.levels):
                raise ValueError(f"values must give one number per level, got {len(self.values)} for {len(self.levels)}")
            if not all(map(math.isfinite, self.values)) or (len(self.values) > 1 and len(set(self.values)) == 1):
                raise ValueError("values must be finite and not all equal")
            if self.encoding != "scalar":
                raise ValueError(f"values need encoding = 'scalar', got {self.encoding!r}")
            if not (sys.float_info.min <= (max(self.values) - min(self.values)) / 2 < math.inf or len(self.values) == 1):
                raise ValueError("values must span a range that a computer can halve")
        return self


class Categorical(_Discrete):
    """Unordered levels (a list, or a count m for 0 … m − 1); undeclared values go to `other`.

    `values` gives each level (the last: `other`, where that is a level of its own) a vector: the columns of any A_j.
    """

    kind: Literal["categorical"] = "categorical"
    encoding: Literal["one-hot", "reduced"] = "reduced"
    other: Level | None = None
    values: tuple[tuple[float, ...], ...] | None = None

    @model_validator(mode="after")
    def _check_values(self) -> Self:
        if self.values is not None:
            if len(self.values) != self.size or len({len(v) for v in self.values}) != 1 or not self.values[0]:
                raise ValueError(f"values must give each of the {self.size} levels a vector, all of one length")
            if not 0.01 <= max(abs(x) for v in self.values for x in v) <= 1 or any(
                math.isnan(x) for v in self.values for x in v
            ):
                raise ValueError("values of a categorical column must lie in [-1, 1] and not all near 0; divide by the largest")
        return self

    def undeclared(self) -> Level | None:
        return self.other


class Boolean(_Discrete):
    """Two levels, the second is true."""

    kind: Literal["boolean"] = "boolean"
    levels: tuple[Level, ...] = (False, True)
    encoding: Code = "scalar"

    @model_validator(mode="after")
    def _check_two(self) -> Self:
        if len(self.levels) != 2:
            raise ValueError(f"levels of a boolean column must be two, got {len(self.levels)}")
        return self


Column = Annotated[Numeric | Ordinal | Categorical | Boolean, Field(discriminator="kind")]
AnyColumn = Numeric | Ordinal | Categorical | Boolean


def declared(column: AnyColumn) -> dict[str, Any]:
    """A column as it is written down: its kind and what differs from the defaults; levels 0 … m − 1 as their count.

    Python holds 0, 0.0 and False equal; a declaration does not, since they are named differently.
    """
    out = {"kind": column.kind} | column.model_dump(mode="json", exclude_defaults=True)
    if isinstance(column, _Discrete):
        out.pop("levels", None)
        if not (isinstance(column, Boolean) and column.levels[0] is False and column.levels[1] is True):
            counted = all(type(v) is int and v == i for i, v in enumerate(column.levels))
            out["levels"] = len(column.levels) if counted else list(column.levels)
    waiting = out.pop("to_confirm", None)
    return out | ({"to_confirm": waiting} if waiting else {})
