"""The slow, obvious judge: records as Python values → integer z → sums of products, one record at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ddssp.column import Numeric
from ddssp.encoding import Block
from ddssp.privacy.curator import Form, Query
from ddssp.schema import Schema

Record = Mapping[str, Any]


def value(record: Record, name: str, schema: Schema) -> Any:
    """A clamped number or a level's code."""
    if name in schema.derived:
        derived = schema.derived[name]
        parts = [value(record, source, schema) for source in derived.of]
        if derived.function == "log1p":
            return math.log1p(parts[0])
        if not any(isinstance(schema.columns[s], Numeric) for s in derived.of):
            return parts[0] * schema.columns[derived.of[1]].size + parts[1]
        return parts[0] * parts[-1]
    if name not in schema.columns:
        return int(_is_missing(record[name.removesuffix(":missing")]))
    column, cell = schema.columns[name], record[name]
    if isinstance(column, Numeric):
        fill = (column.low + column.high) / 2 if column.fill is None else column.fill
        return fill if _is_missing(cell) else min(max(float(cell), column.low), column.high)
    if _is_missing(cell):
        return column.missing_code
    return column.all_levels.index(cell) if cell in column.all_levels else column.fallback


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def numerators(record: Record, block: Block, schema: Schema) -> list[int]:
    """Integer z_[j] of one record."""
    if block.column is None:
        return [1]
    v, column = value(record, block.column, schema), schema.resolved[block.column]
    if block.numerators is None:
        return [round((v - block.centre) / block.half * block.denominator)]
    if isinstance(column, Numeric):
        edges = column.edges
        v = sum(e <= v for e in edges[1:-1])
    return [int(row[v]) for row in block.numerators]


def contribution(record: Record, query: Query, schema: Schema) -> list[list[int]]:
    """What one record adds to a query's numerators."""
    left, right = (numerators(record, b, schema) for b in (query.left, query.right))
    if query.form is Form.SQUARE:
        return [[2 * left[0] ** 2 - query.left.denominator**2]]
    return [[a * b for b in right] for a in left]


def answer(records: Iterable[Record], query: Query, schema: Schema) -> list[list[int]]:
    """A query's exact numerators over all records."""
    rows, columns = query.shape
    out = [[0] * columns for _ in range(rows)]
    for record in records:
        for i, row in enumerate(contribution(record, query, schema)):
            for j, v in enumerate(row):
                out[i][j] += v
    return out


def squared_norm(matrix: Sequence[Sequence[int]]) -> int:
    return sum(v * v for row in matrix for v in row)


def records(frame: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """A mapping of columns as a list of records."""
    return [dict(zip(frame, cells, strict=True)) for cells in zip(*frame.values(), strict=True)]
