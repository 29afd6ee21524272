"""Columns put together, so that one increment counts several pairs of them at once.

A group of columns with few levels is counted as one column of all their combinations. The table of two groups holds every pair
of their columns as a margin, so 15 columns in 10 groups take 45 increments a row instead of 105. Sums of integers are exact, so
the margins are what counting each pair by itself would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from ddssp.secret.kernel import Codes, Pairs

LARGEST = 2**6
"""Combinations of a group, at most, if it has more than one column: tables of two groups stay in the cache."""

CELLS = 2**21
"""Cells of all groups' tables, at most, if any are put together."""

Group = tuple[int, ...]
Starts = dict[tuple[int, int], int]


@dataclass(frozen=True, kw_only=True, eq=False)
class Merging:
    """Groups of columns with `sizes` levels; the code of a group has its last column's level as the last digit."""

    sizes: tuple[int, ...]
    groups: tuple[Group, ...]
    pairs: Pairs

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Merging:
        """Groups by first fit, the columns with most levels first; each column by itself where that would be too large."""
        for largest in (LARGEST, LARGEST // 4, 0):
            groups = _groups(sizes, largest)
            pairs = Pairs.of([prod(sizes[j] for j in g) for g in groups])
            if pairs.cells <= CELLS:
                break
        return cls(sizes=tuple(sizes), groups=groups, pairs=pairs)

    @property
    def is_plain(self) -> bool:
        """Whether every column stays by itself."""
        return len(self.groups) == len(self.sizes)

    def codes(self, codes: Codes) -> Codes:
        """Codes of the groups, "g rows", from those of the columns, "d rows"."""
        if self.is_plain:
            return codes
        out = self.pairs.codes(codes.shape[1])
        for code, group in zip(out, self.groups, strict=True):
            code[:] = codes[group[0]]
            for j in group[1:]:
                code *= out.dtype.type(self.sizes[j])
                code += codes[j].astype(out.dtype, copy=False)
        return out

    def margins(self, tables: NDArray[np.int64], pairs: Pairs, out: NDArray[np.int64]) -> None:
        """None; `out` holds the tables of all pairs of columns, from those of all pairs of groups."""
        starts = {(int(j), int(k)): int(a) for j, k, a in zip(pairs.left, pairs.right, pairs.start[:-1], strict=True)}
        for p, (g, h) in enumerate(zip(self.pairs.left, self.pairs.right, strict=True)):
            table = tables[self.pairs.start[p] : self.pairs.start[p + 1]].reshape(self.pairs.sizes[g], self.pairs.sizes[h])
            for j in self.groups[g]:
                part = self._along(table, self.groups[g], j)
                for k in self.groups[h]:
                    both = self._along(part.T, self.groups[h], k).T
                    _put(out, starts, j, k, both)
            for inside, axis in ((g, 1), (h, 0)):
                self._within(table.sum(axis), self.groups[inside], starts, out)

    def _along(self, table: NDArray[np.int64], group: Group, j: int) -> NDArray[np.int64]:
        """Sums over all columns of the group, which the rows are combinations of, but j."""
        at = group.index(j)
        before, after = prod(self.sizes[i] for i in group[:at]), prod(self.sizes[i] for i in group[at + 1 :])
        return np.asarray(table.reshape(before, self.sizes[j], after, -1).sum((0, 2)))

    def _within(self, counted: NDArray[np.int64], group: Group, starts: Starts, out: NDArray[np.int64]) -> None:
        """Tables of the pairs inside a group, from how often each of its combinations was counted."""
        cube = counted.reshape([self.sizes[j] for j in group])
        for a, b in combinations(range(len(group)), 2):
            others = tuple(i for i in range(len(group)) if i not in (a, b))
            _put(out, starts, group[a], group[b], cube.sum(others))


def _put(out: NDArray[np.int64], starts: Starts, j: int, k: int, table: NDArray[np.int64]) -> None:
    if j > k:
        j, k, table = k, j, table.T
    start = starts[j, k]
    out[start : start + table.size] = table.ravel()


def _groups(sizes: Sequence[int], largest: int) -> tuple[Group, ...]:
    """Columns whose sizes multiply to no more than `largest`; two groups at least."""
    groups: list[list[int]] = []
    for j in sorted(range(len(sizes)), key=lambda j: -sizes[j]):
        for group in groups:
            if prod(sizes[i] for i in group) * sizes[j] <= largest:
                group.append(j)
                break
        else:
            groups.append([j])
    if len(groups) == 1 and len(sizes) > 1:
        groups.append([groups[0].pop()])
    return tuple(tuple(sorted(g)) for g in sorted(groups, key=min))
