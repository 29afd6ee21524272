"""A schema drafted from values, for the data's owner only: all that it read is marked TO CONFIRM."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ddssp.coding import as_float, plain
from ddssp.column import printable
from ddssp.frame import CELLS, DataError
from ddssp.schema import Schema
from ddssp.secret.table import batches, names

MAX_LEVELS = 50
"""A drafted column has at most so many levels; the rest is `other`."""

MAX_LENGTH = 100
"""Longer texts are no levels."""


def draft(source: Any) -> Schema:
    """Kinds, bounds and levels as the data shows them.

    No guarantee at all: publishing a draft, or releasing under it, reveals the smallest and largest values and every level.
    Edge cases: columns that are neither numbers nor text (dates, lists) are left out.
    """
    columns = tuple(names(source))
    table = pa.Table.from_batches(list(batches(source, columns)))
    arrays = {c: _one_type(plain(table.column(c))) for c in columns if printable(c)}
    drafted = {c: _column(a) for c, a in arrays.items() if not (pa.types.is_nested(a.type) or pa.types.is_temporal(a.type))}
    if not drafted:
        raise DataError("the data has no column of numbers or text, so there is nothing to draft.")
    name = Path(source).stem if isinstance(source, str | Path) else "dataset"
    return Schema(name=name, columns=drafted)


def _one_type(array: pa.Array) -> pa.Array:
    """Cells without a type in common as text."""
    if array.type != CELLS:
        return array
    number, word = array.flatten()
    return pc.coalesce(plain(word), number.cast(pa.large_string()))


def _column(array: pa.Array) -> dict[str, Any]:
    if pa.types.is_boolean(array.type):
        return {"kind": "boolean"}
    values = as_float(array)
    known = values[np.isfinite(values)]
    is_number = len(known) > 0 and len(known) >= 0.99 * (len(array) - array.null_count)
    if is_number and set(np.unique(known)) <= {0.0, 1.0}:
        if len(known) == len(array):
            return {"kind": "boolean", "to_confirm": ["kind"]}
        return {"kind": "categorical", "levels": [0, 1], "other": "missing", "to_confirm": ["levels"]}
    if is_number and known.min() < known.max():
        low, high = _outward(known.min(), known.max())
        bins = {"bins": 20} if high - low > 1e-9 * max(abs(low), abs(high)) else {}
        return {"kind": "numeric", "low": low, "high": high} | bins | {"to_confirm": ["low", "high"]}
    levels = _words(array)[:MAX_LEVELS] or ["unknown"]
    other = {} if len(levels) > 1 and _all_within(array, levels) else {"other": "other"}
    return {"kind": "categorical", "levels": levels} | other | {"to_confirm": ["levels"]}


def _all_within(array: pa.Array, levels: list[str]) -> bool:
    """Whether each cell has a level: a level without any cell would only hide coefficients behind noise."""
    return array.null_count == 0 and len(pc.unique(array)) == len(levels)


def _words(array: pa.Array) -> list[str]:
    """The distinct cells that can be written down, in order."""
    distinct = pc.unique(array.drop_null())
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        distinct = distinct.cast(pa.large_string()).view(pa.large_binary())
    words = (v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in distinct.to_pylist())
    return sorted({word for word in words if len(word) <= MAX_LENGTH and printable(word) and "\ufffd" not in word})


def _outward(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outward to two digits of the range; within what a schema accepts."""
    low, high = max(low, -1e300), min(high, 1e300)
    digits = 1 - math.floor(math.log10(max(high - low, 1e-300)))
    step = 10.0**-digits
    places = max(digits, 0)
    return round(float(np.floor(low / step) * step), places), round(float(np.ceil(high / step) * step), places)
