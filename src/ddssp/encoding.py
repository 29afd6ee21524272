r"""The blocks A_j: how a record becomes a vector z.

z_[j] = A_j ψ_j with ψ_j the one-hot vector of attribute j (paper, section 2). Every A_j is an integer matrix over an integer
denominator, so that every sum over records is an integer and noise can be drawn on that lattice. A continuous column has
no ψ: it is clipped, scaled to [−1, 1] and rounded to 16-bit fixed point, which is its own integer numerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ddssp.column import AnyColumn, Boolean, Categorical, Numeric, Ordinal
from ddssp.domain import require_fit
from ddssp.schema import RESERVED, Schema, SchemaError

FIXED = 2**15 - 1
"""Numerator of 1 in 16-bit fixed point."""

INTERCEPT = RESERVED


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """One A_j.

    Edge cases: `numerators` is None for a continuous column; a scalar block has one row; the intercept has column None.

    Args:
        column: the attribute it encodes.
        numerators: "p m" integers, A = numerators / denominator.
        labels: one per row, the level it stands for; ("",) for a scalar.
        centre, half: a scalar stands for (x − centre) / half of the original value x.
        contrast: what a coefficient of a one-hot block is measured against: "first" level or the "mean" of all levels.
    """

    column: str | None
    numerators: NDArray[np.int64] | None
    denominator: int
    labels: tuple[str, ...] = ("",)
    centre: float = 0.0
    half: float = 1.0
    contrast: str = "none"

    @property
    def rows(self) -> int:
        return 1 if self.numerators is None else len(self.numerators)

    @property
    def is_scalar(self) -> bool:
        """One number per record; a table of levels otherwise, even of a single one."""
        return self.labels == ("",)

    @property
    def is_table(self) -> bool:
        """Whether its first moments are a histogram, from which its second moments follow."""
        return not self.is_scalar and self.contrast != "none"

    def sums(self, counts: NDArray[Any]) -> NDArray[Any]:
        """numerators @ counts, "p …".

        Without a product where one can do without: a centred one-hot block m I − 11' takes away the sum of all levels, and rows
        of the identity are levels.
        """
        assert self.numerators is not None, "a continuous column has no levels to count"
        m = self.numerators.shape[1]
        if self.contrast != "none":
            return np.asarray(m * counts - counts.sum(0))
        if self.denominator == 1 and not self.is_scalar:
            return counts[m - self.rows :]
        return np.asarray(self.numerators.astype(counts.dtype) @ counts)

    @cached_property
    def bound(self) -> int:
        """Largest squared norm of one record's numerators, exact."""
        if self.numerators is None:
            return self.denominator**2
        if self.contrast != "none":  # m − 1 once and −1 for the others
            return self.denominator * (self.denominator - 1)
        return max(sum(int(v) ** 2 for v in column) for column in self.numerators.T)

    @property
    def kappa(self) -> float:
        """Largest squared norm of z_[j]."""
        return self.bound / self.denominator**2

    @property
    def squares(self) -> tuple[int, ...]:
        """The values that numerator² takes (a continuous column: its ends); one value means z² is known."""
        if self.numerators is None:
            return (0, self.denominator**2)
        return tuple(sorted({int(v) ** 2 for v in self.numerators[0]}))

    @property
    def freedom(self) -> int:
        """Dimension of the space that z_[j] spans: m − 1 for a centred one-hot block, whose rows add up to 0."""
        return self.rows if self.contrast == "none" else max(self.rows - 1, 1)

    @property
    def A(self) -> NDArray[np.float64]:
        """ "p m" """
        if self.numerators is None:
            raise SchemaError(f"column {self.column!r} has no bins, so no table to encode: add bins to the schema.")
        return self.numerators / self.denominator


def intercept() -> Block:
    return Block(column=None, numerators=np.ones((1, 1), np.int64), denominator=1)


def indicator(column: str, size: int) -> Block:
    """A = I: the marginal itself."""
    return Block(column=column, numerators=_spread(size, 1, 0), denominator=1, labels=tuple(map(str, range(size))))


def _one_hot(name: str, labels: tuple[str, ...], contrast: str) -> Block:
    """ψ − 1/m: centred, so that one record moves it by κ = 1 − 1/m instead of 1."""
    m = len(labels)
    return Block(column=name, numerators=_spread(m, m - 1, -1), denominator=m, labels=labels, contrast=contrast)


def _spread(m: int, on: int, off: int) -> NDArray[np.int64]:
    """ "m m": `on` along the diagonal and `off` elsewhere, read-only, in the memory of 2m numbers: a file that declares many
    levels must not take the memory of their square."""
    line = np.full(2 * m - 1, off, np.int64)
    line[m - 1] = on
    return np.lib.stride_tricks.sliding_window_view(line, m)[::-1]


def _reduced(name: str, labels: tuple[str, ...]) -> Block:
    return Block(column=name, numerators=_spread(len(labels), 1, 0)[1:], denominator=1, labels=labels[1:])


def _vectors(name: str, column: Categorical) -> Block:
    """Any A_j: the vector that the schema declares for each level, in 16-bit fixed point."""
    numerators = np.rint(np.array(column.values).T * FIXED).astype(np.int64)
    labels = tuple(f"v{i + 1}" for i in range(len(numerators)))
    return Block(column=name, numerators=numerators, denominator=FIXED, labels=labels)


def _scalar(name: str, column: Numeric | Ordinal | Boolean, *, tables: bool) -> Block:
    """v in [−1, 1]: evenly spaced levels 2k/(m−1) − 1, declared values, bin middles, or the number itself."""
    if isinstance(column, Numeric):
        centre, half = column.middle, (column.high - column.low) / 2
        if not tables or column.edges is None:
            return Block(column=name, numerators=None, denominator=FIXED, centre=centre, half=half)
        edges = np.array(column.edges)
        values = ((edges[1:] + edges[:-1]) / 2 - centre) / half
        return Block(column=name, numerators=_fixed(values), denominator=FIXED, centre=centre, half=half)
    m = column.size
    if isinstance(column, Ordinal) and column.values is not None:
        v = np.array(column.values)
        centre, half = (v.max() + v.min()) / 2, (v.max() - v.min()) / 2
        return Block(
            column=name, numerators=_fixed((v - centre) / half), denominator=FIXED, centre=float(centre), half=float(half)
        )
    first, last = _ends(column)
    numerators = (2 * np.arange(m, dtype=np.int64) - (m - 1))[None]
    return Block(column=name, numerators=numerators, denominator=m - 1, centre=(first + last) / 2, half=(last - first) / 2)


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(values * FIXED).astype(np.int64)[None]


def _ends(column: Ordinal | Boolean) -> tuple[float, float]:
    """First and last level on the original scale: their numbers where those are evenly spaced, else 0 and m − 1."""
    levels = column.all_levels
    if isinstance(column, Ordinal) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in levels):
        v = np.array(levels, float)
        if np.allclose(np.diff(v), (v[-1] - v[0]) / (len(v) - 1), atol=0):
            return float(v[0]), float(v[-1])
    return 0.0, len(levels) - 1.0


@dataclass(frozen=True, eq=False)
class Encoding:
    """The blocks of z, in order.

    >>> s = Schema(columns={"plan": {"kind": "categorical", "levels": ["a", "b", "c"]}, "sick": {"kind": "boolean"}})
    >>> Encoding.centred(s).names
    ('intercept', 'plan=a', 'plan=b', 'plan=c', 'sick')
    >>> Encoding.paper(s).names
    ('plan=b', 'plan=c', 'sick')
    """

    blocks: tuple[Block, ...]

    @classmethod
    def centred(cls, schema: Schema, *, tables: bool = False) -> Encoding:
        """Intercept, scalars and centred one-hot blocks: what is measured and fitted everywhere but in the paper's protocol.

        Edge cases: a column of one level is a constant and gets no block. `tables` encodes a numeric column through its
        bins, where the statistics are tables; otherwise as a fixed-point number.
        """
        return cls((intercept(), *_blocks(schema, tables=tables, reduced=False)))

    @classmethod
    def paper(cls, schema: Schema) -> Encoding:
        """The paper's protocol: no intercept, level 0 of one-hot columns dropped."""
        return cls(tuple(_blocks(schema, tables=True, reduced=True)))

    @cached_property
    def slices(self) -> dict[str | None, slice]:
        """Rows of each column's block; None is the intercept."""
        ends = np.cumsum([0, *(b.rows for b in self.blocks)])
        return {b.column: slice(int(o), int(e)) for b, o, e in zip(self.blocks, ends[:-1], ends[1:], strict=True)}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(b.column for b in self.blocks if b.column is not None)

    @property
    def size(self) -> int:
        return sum(b.rows for b in self.blocks)

    @property
    def names(self) -> tuple[str, ...]:
        """`column`, `column=level` or `intercept`, one per row of z."""
        return tuple(
            INTERCEPT if b.column is None else f"{b.column}={label}" if label else b.column
            for b in self.blocks
            for label in b.labels
        )

    @property
    def norm_bound(self) -> float:
        """‖z‖ ≤ √Σκ_j (paper, proposition on ‖x‖)."""
        return float(np.sqrt(sum(b.kappa for b in self.blocks)))

    def block(self, column: str | None) -> Block:
        for b in self.blocks:
            if b.column == column:
                return b
        raise KeyError(column)

    def keep(self, columns: Iterable[str | None]) -> Encoding:
        """The blocks of `columns`, in this encoding's order."""
        wanted = set(columns)
        return Encoding(tuple(b for b in self.blocks if b.column in wanted))

    def index(self, columns: Iterable[str | None]) -> NDArray[np.intp]:
        """Rows of z that belong to `columns`, in this encoding's order."""
        wanted = set(columns)
        spans = [np.arange(s.start, s.stop) for c, s in self.slices.items() if c in wanted]
        return np.concatenate(spans) if spans else np.zeros(0, np.intp)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)


def _blocks(schema: Schema, *, tables: bool, reduced: bool) -> Iterator[Block]:
    require_fit({name: 1 if _is_number(column) else column.size or 1 for name, column in schema.resolved.items()})
    for name, column in schema.resolved.items():
        if column.size == 1:
            continue
        if _is_number(column):
            yield _scalar(name, column, tables=tables)
        elif isinstance(column, Categorical) and column.values is not None:
            yield _vectors(name, column)
        elif reduced:
            yield _reduced(name, column.labels)
        else:
            yield _one_hot(name, column.labels, "first" if column.encoding == "reduced" else "mean")


def _is_number(column: AnyColumn) -> TypeGuard[Numeric | Ordinal | Boolean]:
    return column.encoding == "scalar"
