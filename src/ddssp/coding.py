"""Frame and schema → numbers and integer codes; on secret rows by the vault, by `predict` on anyone's.

Every function here is total: whatever a cell holds, it becomes a declared level or a number within the declared bounds.
Only structure can fail (a column that is absent).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ddssp.column import AnyColumn, Boolean, Categorical, Level, Numeric, Ordinal
from ddssp.encoding import Block
from ddssp.frame import CELLS
from ddssp.schema import Schema

_NUMBER = r"^[ \t]*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?[ \t]*$"

Coded = dict[str, NDArray[np.float64] | NDArray[np.int32]]
"""Column → float64 values within the declared bounds (numeric) or int32 level codes (all others)."""


def coded(batch: pa.RecordBatch | pa.Table, schema: Schema, columns: Iterable[str] | None = None) -> Coded:
    """The declared, indicator and derived columns of a batch; with `columns`, only those."""
    out: Coded = {}
    wanted = tuple(schema.resolved) if columns is None else tuple(columns)
    for name in sources(schema, wanted):
        column = schema.columns[name]
        array, place = _distinct(batch.column(name))
        if isinstance(column, Numeric):
            values, missing = _numbers(array, column)
            out[name] = values[place]
            if column.indicator:
                out[f"{name}:missing"] = missing[place].astype(np.int32)
        else:
            out[name] = _levels(array, column)[place]
    for name, derived in schema.derived.items():
        if name in wanted:
            column = schema.resolved[name]
            of = [out[source] for source in derived.of]
            if derived.function == "log1p":
                raw = np.log1p(of[0])
            elif isinstance(column, Categorical):
                second = schema.columns[derived.of[1]].size or 1
                out[name] = (of[0] * second + of[1]).astype(np.int32)
                continue
            else:
                raw = of[0] * of[-1].astype(np.float64)
            out[name] = np.clip(raw, column.low, column.high) if isinstance(column, Numeric) else raw
    return {name: out[name] for name in wanted}


def _distinct(array: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, NDArray[np.int32] | slice]:
    """Cells, and where in them each row's is: all of them in order, or those of a dictionary shorter than the column."""
    if not isinstance(array, pa.DictionaryArray) or len(array.dictionary) >= len(array):
        return plain(array), slice(None)
    cells = plain(array.dictionary)
    missing, place = _bits(array.indices.is_null()), _raw(array.indices.cast(pa.int32()), np.int32)
    if not missing.any():
        return cells, place
    return pa.concat_arrays([cells, pa.nulls(1, cells.type)]), np.where(missing, len(cells), place).astype(np.int32)


def sources(schema: Schema, columns: Iterable[str]) -> tuple[str, ...]:
    """The declared columns that must be read for `columns`."""
    needed: set[str] = set()
    for name in columns:
        if name in schema.columns:
            needed.add(name)
        elif name in schema.derived:
            needed.update(schema.derived[name].of)
        else:
            needed.add(name.removesuffix(":missing"))
    return tuple(c for c in schema.columns if c in needed)


def level_codes(values: NDArray[np.float64] | NDArray[np.int32], column: AnyColumn) -> NDArray[np.int32]:
    """Codes 0 … m − 1: levels as they are, numbers by their bin (the last bin is closed)."""
    if not isinstance(column, Numeric):
        return values.astype(np.int32, copy=False)
    inner = np.array(column.edges or (column.low, column.high))[1:-1]
    return np.searchsorted(inner, values, side="right").astype(np.int32)


def numerators(values: NDArray[np.float64] | NDArray[np.int32], block: Block) -> NDArray[np.int64]:
    """Integer numerator of a scalar block for each record."""
    return fixed_point(values, block).astype(np.int64)


def fixed_point(values: NDArray[np.float64] | NDArray[np.int32], block: Block) -> NDArray[np.float64] | NDArray[np.int64]:
    """`numerators`, in whichever type they arise."""
    if block.numerators is not None:
        return np.asarray(block.numerators[0][values])
    scaled: NDArray[np.float64] = values - np.float64(block.centre)
    scaled /= block.half
    scaled *= block.denominator
    np.rint(scaled, out=scaled)
    return np.clip(scaled, -block.denominator, block.denominator, out=scaled)


def design(values: Coded, blocks: Iterable[Block], schema: Schema, rows: int | None = None) -> NDArray[np.float64]:
    """Z: the encoded records, "n p"; `rows` is n where there may be no column to tell it (an intercept alone)."""
    if rows is None:
        rows = len(next(iter(values.values()))) if values else 0
    parts = []
    for block in blocks:
        if block.column is None:
            parts.append(np.ones((rows, 1)))
            continue
        v = values[block.column]
        if block.numerators is None:
            parts.append((numerators(v, block) / block.denominator)[:, None])
        else:
            parts.append(block.A.T[level_codes(v, schema.resolved[block.column])])
    return np.hstack(parts) if parts else np.zeros((rows, 0))


def plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array without dictionary, view, run-end or extension types; text and bytes as text that nobody has validated."""
    if isinstance(array, pa.ChunkedArray):
        return pa.concat_arrays([plain(c) for c in array.chunks]) if array.num_chunks else plain(pa.array([], array.type))
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.large_binary()).view(pa.large_string())
    if pa.types.is_binary(kind):
        return array.view(pa.string())
    return array.view(pa.large_string()) if pa.types.is_large_binary(kind) else array


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_float(array: pa.Array) -> NDArray[np.float64]:
    """Numbers with NaN for whatever is not one; takes what `plain` gives."""
    kind = array.type
    out = np.full(len(array), np.nan)
    if kind == CELLS:
        number, word = (plain(part) for part in array.flatten())
        return np.where(_bits(word.is_valid()), as_float(word), as_float(number))
    if _is_text(kind):
        match = pc.match_substring_regex(array, _NUMBER)
        spelled = _bits(match) & ~_bits(match.is_null())
        out[spelled] = _raw(pc.ascii_trim_whitespace(array.filter(match)).cast(pa.float64()), np.float64)
        return out
    if pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return out
    values = _raw(array.cast(pa.float64(), safe=False), np.float64) + 0.0  # −0 is 0
    if array.null_count:
        values[_bits(array.is_null())] = np.nan
    return np.asarray(values)


def _raw(array: pa.Array, kind: Any) -> NDArray[Any]:
    """The numbers of an array, whatever stands under its nulls.

    Arrow's own conversions, in both directions, would import pandas wherever that is installed, which takes longer than
    counting does.
    """
    data = array.buffers()[1] or b""
    return np.frombuffer(data, kind, count=len(array), offset=array.offset * np.dtype(kind).itemsize if len(array) else 0)


def _bits(array: pa.BooleanArray) -> NDArray[np.bool_]:
    return np.asarray(_raw(array.cast(pa.uint8()), np.uint8) != 0)


def _numbers(array: pa.Array, column: Numeric) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values = as_float(array)
    missing = np.isnan(values)
    np.clip(values, column.low, column.high, out=values)
    values[missing] = column.middle if column.fill is None else column.fill
    return values, missing


def _levels(array: pa.Array, column: Ordinal | Categorical | Boolean) -> NDArray[np.int32]:
    """Code of each cell: its level, `missing` for nulls and NaN, the fallback for what is not declared.

    Text is compared as it stands, then without surrounding spaces, then, for levels that are numbers, by its value.
    """
    if array.type == CELLS:
        number, word = (plain(part) for part in array.flatten())
        return np.where(_bits(word.is_valid()), _levels(word, column), _levels(number, column))
    if _is_text(array.type):
        words = {word: code for code, level in reversed([*enumerate(column.all_levels)]) for word in spellings(level)}
        codes = _by_text(array, words)
        codes = np.where(codes < 0, _by_text(pc.ascii_trim_whitespace(array), words), codes)
        codes = np.where(codes < 0, _by_value(as_float(array), _values(column, text=True)), codes)
        missing = _bits(array.is_null())
    elif (table := _consecutive(array.type, column)) is not None:
        return _by_integer(array, *table, column.missing_code)
    else:
        values = as_float(array)
        codes = _by_value(values, _values(column, text=False))
        missing = np.isnan(values)
    codes = np.where(codes < 0, np.int32(column.fallback), codes)
    return np.where(missing, np.int32(column.missing_code), codes)


def _by_text(array: pa.Array, codes: Mapping[str, int]) -> NDArray[np.int32]:
    """The code of each cell, −1 where it has none."""
    words = [word.encode() for word in codes]
    offsets = np.cumsum([0, *map(len, words)], dtype=np.int64 if pa.types.is_large_string(array.type) else np.int32)
    known = pa.Array.from_buffers(array.type, len(words), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(words))])
    position = pc.index_in(array, known)
    found = np.where(_bits(position.is_null()), len(words), _raw(position, np.int32))
    return np.asarray(np.array([*codes.values(), -1], np.int32)[found])


@lru_cache(maxsize=2**12)
def _consecutive(kind: pa.DataType, column: Ordinal | Categorical | Boolean) -> tuple[int, NDArray[np.int32], bool] | None:
    """The number before the first level, codes from there to the one after the last, both ends the fallback's, and whether
    those between are 0, 1, …; None unless levels are numbers one apart and cells integers, which floats hold exactly there."""
    known = _values(column, text=False)
    low = min(known, default=0.5)
    if not pa.types.is_integer(kind) or pa.types.is_uint64(kind) or not low.is_integer() or abs(low) > 2**52:
        return None
    if set(known) != {low + i for i in range(len(known))}:
        return None
    codes = [known[low + i] for i in range(len(known))]
    return int(low) - 1, np.array([column.fallback, *codes, column.fallback], np.int32), codes == [*range(len(codes))]


def _by_integer(array: pa.Array, before: int, codes: NDArray[np.int32], in_order: bool, missing: int) -> NDArray[np.int32]:
    """The code of each integer; what is before the first level or after the last, also by wrapping around, falls on an end."""
    place = np.subtract(_raw(array, str(array.type)), before, dtype=np.int64)
    if in_order and len(place) and place.min() > 0 and place.max() < len(codes) - 1:
        out: NDArray[np.int32] = place.astype(np.int32)
        out -= 1
    else:
        out = codes.take(place, mode="clip")
    if array.null_count:
        out[_bits(array.is_null())] = missing
    return out


def _by_value(values: NDArray[np.float64], codes: Mapping[float, int]) -> NDArray[np.int32]:
    """The code of each number, −1 where it has none."""
    known = np.array(sorted(codes), np.float64)
    if not len(known):
        return np.full(len(values), -1, np.int32)
    if np.array_equal(known, known[0] + np.arange(len(known))):  # codes 0 … m − 1, say: no search
        position = np.clip(np.nan_to_num(values - known[0]), 0, len(known) - 1).astype(np.intp)
    else:
        position = np.minimum(np.searchsorted(known, values), len(known) - 1)
    found = np.array([codes[v] for v in known.tolist()], np.int32)[position]
    return np.where(known[position] == values, found, np.int32(-1))


def _values(column: Ordinal | Categorical | Boolean, *, text: bool) -> dict[float, int]:
    """The number that stands for each level; in text only for levels declared as numbers, since "01" and "1" may be two."""
    levels = reversed([*enumerate(column.all_levels)])
    out = {n: code for code, v in levels if not (text and isinstance(v, str)) and (n := _number(v)) is not None}
    return {0.0: 0, 1.0: 1} if isinstance(column, Boolean) and not text and not out else out


def spellings(level: Level) -> tuple[str, ...]:
    """How a level may be written in text: 1 also as 1.0, true also as True, TRUE and 1."""
    if isinstance(level, bool):
        word = str(level)
        return (word, word.lower(), word.upper(), str(int(level)), f"{int(level)}.0")
    if isinstance(level, int):
        return (str(level), f"{level}.0")
    if isinstance(level, float) and level.is_integer():
        return (str(level), str(int(level)))
    return (level,) if isinstance(level, str) else (str(level),)


def _number(level: Level) -> float | None:
    """The finite number that a level is or spells, if any; true is 1."""
    try:
        value = float(level) + 0.0
    except ValueError:
        return {"true": 1.0, "false": 0.0}.get(str(level).lower())
    return value if np.isfinite(value) else None
