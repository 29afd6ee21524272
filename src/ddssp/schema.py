"""Schema and its columns: what the owner declares about a table before anything is read from it.

A schema is written by a person (TOML on disk) and is public. Bounds, levels and bins come from here and never from rows:
a value outside what is declared is clamped or goes to `other`, so that no record can change the shape of an answer.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ddssp.domain import Attribute, Domain

Level = bool | int | float | str
Code = Literal["scalar", "one-hot", "reduced"]


class SchemaError(ValueError):
    """A schema that cannot be used, in one sentence."""


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
        raise NotImplementedError


class Numeric(_Column):
    """A number in [low, high]; clamped. `bins` (a count or the inner and outer edges) only where tables are wanted."""

    kind: Literal["numeric"] = "numeric"
    low: float
    high: float
    bins: Annotated[int, Field(ge=2)] | tuple[float, ...] | None = None
    encoding: Literal["scalar", "one-hot", "reduced"] = "scalar"
    fill: float | None = None
    """Stands for a missing value; the middle of the range unless declared."""
    indicator: bool = False
    """Whether a boolean column `NAME:missing` records that the value was missing."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"low must be below high, both finite, got low = {self.low}, high = {self.high}")
        if isinstance(self.bins, tuple):
            edges = self.bins
            rising = len(edges) >= 3 and all(a < b for a, b in itertools.pairwise(edges))
            if not rising or edges[0] != self.low or edges[-1] != self.high:
                raise ValueError("bins must be at least three rising edges from low to high, or a count of at least 2")
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
        edges = self.edges or ()
        return tuple(f"[{a:.6g}, {b:.6g})" for a, b in itertools.pairwise(edges))


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
        return tuple(range(levels)) if isinstance(levels, int) and not isinstance(levels, bool) else levels

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        if not self.levels:
            raise ValueError("levels must name at least one level")
        names = [str(level) for level in self.levels]
        if twice := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"levels must be distinct, got {twice[0]!r} twice")
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
    """Ordered levels (a list, or a count m for 0 … m − 1), evenly spaced unless `values` says otherwise."""

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
        return self


class Categorical(_Discrete):
    """Unordered levels (a list, or a count m for 0 … m − 1); undeclared values go to `other`."""

    kind: Literal["categorical"] = "categorical"
    encoding: Literal["one-hot", "reduced"] = "reduced"
    other: Level | None = None

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


class Derived(BaseModel):
    """A column computed from others before the release, since afterwards only second moments exist."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    function: Literal["log1p", "square", "interaction"]
    of: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)]
    bins: Annotated[int, Field(ge=2)] | None = None

    @field_validator("of", mode="before")
    @classmethod
    def _one(cls, of: Any) -> Any:
        return (of,) if isinstance(of, str) else of


class Schema(BaseModel):
    """A table as declared by its owner.

    >>> s = Schema(name="survey", columns={"age": {"kind": "numeric", "low": 0, "high": 100},
    ...                                    "sick": {"kind": "boolean"}})
    >>> [name for name in s]
    ['age', 'sick']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = "dataset"
    """Names the dataset in the ledger."""
    unit: str = "record"
    """Whose presence is protected: what one row is about."""
    columns: dict[str, Column]
    derived: dict[str, Derived] = {}

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise SchemaError(_sentence(error)) from None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.columns:
            raise ValueError("columns must declare at least one column")
        for name in (*self.columns, *self.derived):
            if not name or any(ord(ch) < 32 for ch in name):
                raise ValueError("column names must not be empty or hold control characters")
        for name in self.derived:
            if name in self.columns:
                raise ValueError(f"derived column {name!r} has the name of a declared column")
        for name, derived in self.derived.items():
            self._resolve(name, derived)
        return self

    @cached_property
    def resolved(self) -> Mapping[str, Numeric | Ordinal | Categorical | Boolean]:
        """Every column a release can speak of: declared, missing-value indicators, derived."""
        out: dict[str, Any] = dict(self.columns)
        for name, column in self.columns.items():
            if isinstance(column, Numeric) and column.indicator:
                out[f"{name}:missing"] = Boolean()
        for name, derived in self.derived.items():
            out[name] = self._resolve(name, derived)
        return out

    def _resolve(self, name: str, derived: Derived) -> Numeric | Categorical:
        """The column that a derivation gives, with bounds or levels that follow from its sources'."""
        arity = 2 if derived.function == "interaction" else 1
        if len(derived.of) != arity:
            raise ValueError(f"derived column {name!r}: {derived.function} takes {arity} column(s)")
        for source in derived.of:
            if source not in self.columns:
                raise ValueError(f"derived column {name!r} needs the declared column {source!r}, which is absent")
        sources = [self.columns[source] for source in derived.of]
        ends = [(c.low, c.high) if isinstance(c, Numeric) else (0.0, 1.0) for c in sources]
        if all(isinstance(c, _Discrete) for c in sources) and arity == 2:
            a, b = sources
            return Categorical(levels=tuple(f"{x}:{y}" for x in a.labels for y in b.labels))
        if not all(isinstance(c, Numeric | Boolean) for c in sources) or not any(isinstance(c, Numeric) for c in sources):
            raise ValueError(
                f"derived column {name!r}: {derived.function} takes numeric columns (an interaction also a boolean with "
                "a numeric one, or two columns with levels); give the numeric column bins as an ordinal instead"
            )
        (low, high) = ends[0]
        if derived.function == "log1p":
            if low <= -1:
                raise ValueError(f"derived column {name!r}: log1p needs low above -1, got {low}")
            return Numeric(low=math.log1p(low), high=math.log1p(high), bins=derived.bins)
        corners = [x * y for x in ends[0] for y in ends[-1]] if arity == 2 else [low * low, high * high]
        if arity == 1 and low < 0 < high:
            corners.append(0.0)
        return Numeric(low=min(corners), high=max(corners), bins=derived.bins)

    def domain(self) -> Domain:
        """The discretised view: every column must have levels or bins."""
        for name, column in self.resolved.items():
            if column.size is None:
                raise SchemaError(f"column {name!r} has no bins, and tables need them: add bins = 20, say, to the schema.")
        return Domain(tuple(Attribute(name=n, size=c.size or 1) for n, c in self.resolved.items()))

    @property
    def to_confirm(self) -> tuple[str, ...]:
        """`column.setting` for everything a draft read from values and nobody has confirmed."""
        return tuple(f"{name}.{item}" for name, c in self.columns.items() for item in c.to_confirm)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the declaration."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.resolved)

    def to_dict(self) -> dict[str, Any]:
        columns = {n: {"kind": c.kind} | c.model_dump(mode="json", exclude_defaults=True) for n, c in self.columns.items()}
        for column in columns.values():
            if column.get("levels") == list(range(len(column.get("levels", ())))) != []:
                column["levels"] = len(column["levels"])
        return self.model_dump(mode="json", exclude_defaults=True) | {"columns": columns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        return cls(**data)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """The schema in a TOML file."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SchemaError(
                f"schema file {str(path)!r} does not exist; `ddssp schema draft DATA -o schema.toml` drafts one."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"schema file {str(path)!r} cannot be read: {type(error).__name__}.") from None
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"schema file {str(path)!r} is not TOML: {error}.") from None
        return cls(**data)

    def to_toml(self) -> str:
        import tomli_w

        return tomli_w.dumps(self.to_dict())


def _sentence(error: ValidationError) -> str:
    """The first of pydantic's complaints as one sentence."""
    first = error.errors()[0]
    place = ".".join(str(p) for p in first["loc"] if p not in {"numeric", "ordinal", "categorical", "boolean"})
    message = first["msg"].removeprefix("Value error, ").rstrip(".")
    return f"schema: {place + ': ' if place else ''}{message}."
