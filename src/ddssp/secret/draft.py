"""A schema drafted from values, for the data's owner only: all that it read is marked TO CONFIRM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ddssp.coding import as_float, plain
from ddssp.schema import Schema
from ddssp.secret.table import batches, names

MAX_LEVELS = 50


def draft(source: Any) -> Schema:
    """Kinds, bounds and levels as the data shows them.

    No guarantee at all: publishing a draft, or releasing under it, reveals the smallest and largest values and every level.
    """
    columns = tuple(names(source))
    table = pa.Table.from_batches(list(batches(source, columns)))
    name = Path(source).stem if isinstance(source, str | Path) else "dataset"
    return Schema(name=name, columns={c: _column(plain(table.column(c))) for c in columns})


def _column(array: pa.Array) -> dict[str, Any]:
    values = as_float(array)
    known = values[np.isfinite(values)]
    levels = pc.unique(array.drop_null())
    if pa.types.is_boolean(array.type) or (len(known) and set(np.unique(known)) <= {0.0, 1.0} and len(known) == len(array)):
        return {"kind": "boolean"}
    numeric = len(known) >= 0.99 * (len(array) - array.null_count) and len(known) > 0
    if numeric and known.min() < known.max():
        low, high = _outward(known.min(), known.max())
        return {"kind": "numeric", "low": low, "high": high, "bins": 20, "to_confirm": ["low", "high"]}
    words = sorted(_word(v) for v in levels.to_pylist())[:MAX_LEVELS]
    return {"kind": "categorical", "levels": words or ["unknown"], "other": "other", "to_confirm": ["levels"]}


def _word(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _outward(low: float, high: float) -> tuple[float, float]:
    """Bounds rounded outward to two digits of the range."""
    step = 10.0 ** np.floor(np.log10(high - low) - 1)
    return float(np.floor(low / step) * step), float(np.ceil(high / step) * step)
