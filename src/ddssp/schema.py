"""Schema and its columns: what the owner declares about a table before anything is read from it.

A schema is written by a person (TOML on disk) and is public. Bounds, levels and bins come from here and never from rows:
a value outside what is declared is clamped or goes to `other`, so that no record can change the shape of an answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ddssp.column import (
    MAX_LEVELS,
    AnyColumn,
    Boolean,
    Categorical,
    Column,
    Level,
    Numeric,
    Ordinal,
    declared,
    printable,
)
from ddssp.domain import Attribute, Domain, require_fit

__all__ = ["Boolean", "Categorical", "Column", "Derived", "Level", "Numeric", "Ordinal", "Schema", "SchemaError"]

RESERVED = "intercept"
"""The constant's name among the coefficients; no column may have it."""

MAX_BYTES = 2**24
"""Bytes of the largest schema file that is read."""

MOST_LEVELS = 2**18
"""Levels and bins of all columns together, derived ones included: a short file can declare many."""


class SchemaError(ValueError):
    """A schema that cannot be used, in one sentence."""


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

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise SchemaError(_sentence(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _count(cls, data: Any) -> Any:
        """Refuses more levels than can be held, before they are made."""
        columns = data.get("columns") if isinstance(data, dict) else None
        parts = [c for c in columns.values() if isinstance(c, dict)] if isinstance(columns, dict) else []
        _require_few(sum(_size(c.get("levels")) + _size(c.get("bins")) for c in parts))
        return data

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not (printable(self.name) and printable(self.unit)):
            raise ValueError("name and unit must not be blank or hold control characters")
        if not self.columns:
            raise ValueError("columns must declare at least one column")
        self._check_names()
        total = sum(c.size or 0 for c in self.columns.values())
        for name, derived in self.derived.items():
            total += self._resolve(name, derived).size or 0
            _require_few(total)
        return self

    def _check_names(self) -> None:
        """Every coefficient needs a name of its own: `column`, `column=level`, `column:missing` or `intercept`."""
        names = [*self.columns, *self.derived]
        for name in names:
            if not printable(name):
                raise ValueError("column names must not be blank or hold control characters")
            if name == RESERVED:
                raise ValueError(f"column name {RESERVED!r} is reserved for the regression's constant; rename the column")
            level = name.partition("=")[0]
            if level != name and level in names:
                raise ValueError(f"column name {name!r} reads like a level of column {level!r}; rename one of them")
        for name in self.derived:
            if name in self.columns:
                raise ValueError(f"derived column {name!r} has the name of a declared column")
        for name, column in self.columns.items():
            if isinstance(column, Numeric) and column.indicator and f"{name}:missing" in names:
                raise ValueError(f"column name {name + ':missing'!r} is taken by the indicator of {name!r}; rename the column")

    @cached_property
    def resolved(self) -> Mapping[str, AnyColumn]:
        """Every column a release can speak of: declared, missing-value indicators, derived."""
        out: dict[str, AnyColumn] = dict(self.columns)
        for name, column in self.columns.items():
            if isinstance(column, Numeric) and column.indicator:
                out[f"{name}:missing"] = Boolean()
        for name, derived in self.derived.items():
            out[name] = self._resolve(name, derived)
        return out

    def _resolve(self, name: str, derived: Derived) -> Numeric | Categorical:
        """The column that a derivation gives, with bounds or levels that follow from its sources'."""
        for source in derived.of:
            if source not in self.columns:
                raise ValueError(f"derived column {name!r} needs the declared column {source!r}, which is absent")
        try:
            return _derived(derived, [self.columns[source] for source in derived.of])
        except ValidationError as error:
            raise ValueError(f"derived column {name!r}: {_message(error)}") from None
        except ValueError as error:
            raise ValueError(f"derived column {name!r}: {error}") from None

    def domain(self) -> Domain:
        """The discretised view: every column must have levels or bins, and all pair tables must fit in memory."""
        for name, column in self.resolved.items():
            if column.size is None:
                raise SchemaError(f"column {name!r} has no bins, and tables need them: add bins = 20, say, to the schema.")
        out = Domain(tuple(Attribute(name=n, size=c.size or 1) for n, c in self.resolved.items()))
        require_fit(out.sizes)
        return out

    @property
    def to_confirm(self) -> tuple[str, ...]:
        """`column.setting` for everything a draft read from values and nobody has confirmed."""
        return tuple(f"{name}.{item}" for name, c in self.columns.items() for item in c.to_confirm)

    def waiting(self, most: int = 5) -> str:
        """`to_confirm` for a sentence: the first few and how many more."""
        more = len(self.to_confirm) - most
        return ", ".join(self.to_confirm[:most]) + (f" and {more} more" if more > 0 else "")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the declaration."""
        return hashlib.sha256(json.dumps(self.to_dict()).encode()).hexdigest()

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.resolved)

    def to_dict(self) -> dict[str, Any]:
        """The declaration as plain data, without defaults; `Schema.from_dict` reads it back."""
        columns = {name: declared(column) for name, column in self.columns.items()}
        return self.model_dump(mode="json", exclude_defaults=True) | {"columns": columns}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        return cls(**data)

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """The schema in a TOML file."""
        try:
            if Path(path).stat().st_size > MAX_BYTES:
                raise SchemaError(f"schema file {str(path)!r} must have at most {MAX_BYTES:,} bytes; is it the data?")
            if not (Path(path).is_file() or Path(path).is_dir()):
                raise SchemaError(f"schema file {str(path)!r} must be a file, not a pipe or a device.")
            data = _parsed(Path(path).read_text(encoding="utf-8"))
        except SchemaError:
            raise
        except FileNotFoundError:
            raise SchemaError(
                f"schema file {str(path)!r} does not exist; `ddssp schema draft DATA -o schema.toml` drafts one."
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"schema file {str(path)!r} cannot be read: {type(error).__name__}.") from None
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"schema file {str(path)!r} is not TOML: {error}.") from None
        except (RecursionError, ValueError):
            raise SchemaError(f"schema file {str(path)!r} has names or numbers too deep or too long for a schema.") from None
        return cls(**data)

    def to_toml(self) -> str:
        """The declaration as a TOML file; `Schema.load` reads it back."""
        declaration = self.to_dict()
        lines = [f"name = {_toml(self.name)}", f"unit = {_toml(self.unit)}"]
        for table in ("columns", "derived"):
            for name, settings in declaration.get(table, {}).items():
                key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)
                lines += ["", f"[{table}.{key}]", *(f"{k} = {_toml(v)}" for k, v in settings.items())]
        return "\n".join(lines) + "\n"


_TEXT = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'")
_DEEP = re.compile(r"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){16}")


def _parsed(text: str) -> dict[str, Any]:
    """The content of a TOML file; ValueError for keys of so many parts that Python's parser would take for ever."""
    if any(_DEEP.search(_TEXT.sub("s", line)) for line in text.splitlines()):
        raise ValueError("deep keys")
    return tomllib.loads(text)


def _size(declared: Any) -> int:
    """How many levels or bins are declared, as a count or as a list; 0 for a count that its own column refuses."""
    if isinstance(declared, int):
        return declared if 0 < declared <= MAX_LEVELS else 0
    return len(declared) if isinstance(declared, list | tuple) else 0


def _require_few(levels: int) -> None:
    if levels > MOST_LEVELS:
        raise ValueError(f"columns must have at most {MOST_LEVELS:,} levels and bins together; declare fewer")


def _toml(value: Any) -> str:
    """A text, a number, a boolean or a list of these, as TOML writes it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _derived(derived: Derived, sources: list[AnyColumn]) -> Numeric | Categorical:
    """The column that `derived` makes of its sources' declarations."""
    function = derived.function
    arity = 2 if function == "interaction" else 1
    if len(sources) != arity:
        raise ValueError(f"{function} takes {arity} column{'s' if arity > 1 else ''}, got {len(sources)}")
    numeric = [c for c in sources if isinstance(c, Numeric)]
    if arity == 2 and not numeric:
        a, b = sources
        if (a.size or 1) * (b.size or 1) > MAX_LEVELS:
            raise ValueError(f"levels of an interaction must be at most {MAX_LEVELS}, got {a.size} times {b.size}")
        return Categorical(levels=tuple(f"{x}:{y}" for x in a.labels for y in b.labels))
    if not numeric or not all(isinstance(c, Numeric | Boolean) for c in sources):
        takes = (
            "two numeric columns, a numeric and a boolean one, or two columns with levels" if arity == 2 else "a numeric column"
        )
        raise ValueError(f"{function} takes {takes}, got {' and '.join(c.kind for c in sources)}")
    ends = [(c.low, c.high) if isinstance(c, Numeric) else (0.0, 1.0) for c in sources]
    if function == "log1p":
        low, high = ends[0]
        if low <= -1:
            raise ValueError(f"log1p needs low above -1, got {low}")
        return Numeric(low=math.log1p(low), high=math.log1p(high), bins=derived.bins)
    corners = [x * y for x in ends[0] for y in ends[1]] if arity == 2 else [x * x for x in ends[0]]
    if arity == 1 and ends[0][0] < 0 < ends[0][1]:
        corners.append(0.0)
    return Numeric(low=min(corners), high=max(corners), bins=derived.bins)


_TEACH = {
    "missing": "is required",
    "extra_forbidden": "is not a setting that exists here",
    "union_tag_not_found": "kind is required: numeric, ordinal, categorical or boolean",
    "union_tag_invalid": "kind must be numeric, ordinal, categorical or boolean",
    "dict_type": "must be a table",
    "model_type": "must be a table of settings",
    "model_attributes_type": "must be a table of settings",
    "string_type": "must be a text",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "too_short": "must name at least {min_length}",
    "too_long": "must name at most {max_length}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def _message(error: ValidationError) -> str:
    """The first of pydantic's complaints, without its place."""
    first = error.errors()[0]
    if "levels" in first["loc"][:-1]:
        return "must be texts, numbers, or true and false"
    if (known := _TEACH.get(first["type"])) is None:
        return first["msg"].removeprefix("Value error, ").rstrip(".")
    return known.format(**first.get("ctx", {}))


def _sentence(error: ValidationError) -> str:
    """The first of pydantic's complaints as one sentence: which column, which setting, what is required."""
    place = list(error.errors()[0]["loc"])
    if place[:1] == ["columns"] and len(place) > 1:
        place = [f"column {place[1]!r}", *place[3:4]]  # place[2] is the kind; deeper places are pydantic's own
    elif place[:1] == ["derived"] and len(place) > 1:
        place = [f"derived column {place[1]!r}", *place[2:3]]
    return f"schema: {''.join(f'{p}: ' for p in place)}{_message(error)}."
