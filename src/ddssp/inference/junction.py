"""Junction trees: which tables a graphical model must hold, how they hang together, and how to sum them.

Attributes are positions in the domain here. A round of AIM asks for the size of some two hundred candidate trees, so the
elimination works on bit masks, plain integer arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique, Domain

Array = NDArray[np.float64]
Axes = tuple[int, ...]
"""Attributes of a table, in the order of its axes."""

MEGABYTE = 2**20
CELL_BYTES = 8

STRIDE = 8
"""A sum that leaves fewer contiguous cells than this is faster as a product with a 0/1 matrix."""


@dataclass(frozen=True, kw_only=True)
class JunctionTree:
    """A forest of attribute sets in which the sets that hold any one attribute are connected.

    Parents come first, `parents[t]` is −1 for the root of a component, its largest clique. A clique lists the attributes
    that its parent does not have before its separator, so that messages are sums over first axes, and either from most to
    fewest levels.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Axes, ...]
    parents: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Axes, ...]:
        """What each clique shares with its parent, in the clique's order; () for a root."""
        above = [self.cliques[parent] if parent >= 0 else () for parent in self.parents]
        return tuple(tuple(a for a in clique if a in up) for clique, up in zip(self.cliques, above, strict=True))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(c for c, p in enumerate(self.parents) if p == t) for t in range(len(self.cliques)))

    @property
    def cells(self) -> int:
        return sum(math.prod(self.sizes[a] for a in clique) for clique in self.cliques)


def junction_tree(domain: Domain, cliques: Iterable[Clique]) -> JunctionTree:
    """The junction tree of the graph in which every clique is complete; each attribute is in it, measured or not.

    Greedy elimination (see `_elimination_cliques`) and a maximum spanning tree over the separators' widths.

    >>> junction_tree(Domain.of(a=2, b=3, c=4), [("a", "b"), ("b", "c")]).cliques
    ((2, 1), (0, 1))
    """
    sizes = tuple(a.size for a in domain)
    masks = _elimination_cliques(sizes, _masks(domain, cliques))
    cells = [_cells(sizes, mask) for mask in masks]
    order: list[int] = []
    parents: list[int] = []
    # Prim: what is left, with the width of its best separator and the clique across it, the earliest of several: a subtree
    # then hangs as near to the root as it can.
    left = {t: (0, -1) for t in range(len(masks))}
    while left:
        t = max(left, key=lambda t: (left[t][0], cells[t]))
        parents.append(left.pop(t)[1])
        for u, (width, _) in left.items():
            if (shared := (masks[u] & masks[t]).bit_count()) > width:
                left[u] = (shared, len(order))
        order.append(t)
    above = [masks[order[parent]] if parent >= 0 else 0 for parent in parents]
    ordered = (
        tuple(sorted(_bits(masks[t]), key=lambda a: (up >> a & 1, -sizes[a], a))) for t, up in zip(order, above, strict=True)
    )
    return JunctionTree(sizes=sizes, cliques=tuple(ordered), parents=tuple(parents))


def model_size(domain: Domain, cliques: Iterable[Clique]) -> float:
    """Megabytes (2²⁰ bytes) that the tables of a graphical model over `cliques` take, 8 bytes a cell.

    Guarantees: equal to 8 `junction_tree(domain, cliques).cells` / 2²⁰, at the price of the elimination alone.

    >>> model_size(Domain.of(a=1024, b=128), [("a", "b")])
    1.0
    """
    sizes = tuple(a.size for a in domain)
    masks = _elimination_cliques(sizes, _masks(domain, cliques))
    return CELL_BYTES * sum(_cells(sizes, mask) for mask in masks) / MEGABYTE


def _masks(domain: Domain, cliques: Iterable[Clique]) -> set[int]:
    bit = {name: 1 << position for position, name in enumerate(domain.names)}
    return {sum(bit[name] for name in clique) for clique in cliques}


def _elimination_cliques(sizes: Sequence[int], masks: Iterable[int]) -> list[int]:
    """The maximal cliques of a triangulation: eliminate the attribute whose clique has the fewest cells, join the rest."""
    adjacent = [1 << a for a in range(len(sizes))]
    for mask in masks:
        for a in _bits(mask):
            adjacent[a] |= mask
    cost = {a: _cells(sizes, mask) for a, mask in enumerate(adjacent)}
    maximal: list[int] = []
    while cost:
        a = min(cost, key=cost.__getitem__)
        del cost[a]
        clique = adjacent[a]
        rest = clique ^ (1 << a)
        for b in _bits(rest):
            cost[b] = cost[b] // sizes[a] * _cells(sizes, rest & ~adjacent[b])
            adjacent[b] = (adjacent[b] | rest) & ~(1 << a)
        # A later clique never holds an eliminated attribute, so only earlier ones can contain this one.
        if not any(clique & other == clique for other in maximal):
            maximal.append(clique)
    return maximal


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _cells(sizes: Sequence[int], mask: int) -> int:
    cells = 1
    while mask:
        low = mask & -mask
        cells *= sizes[low.bit_length() - 1]
        mask ^= low
    return cells


@dataclass(frozen=True, kw_only=True, eq=False)
class Summation:
    """Sums a table over some of its axes, neighbouring ones at once."""

    steps: tuple[tuple[tuple[int, ...], Array | None], ...]
    shape: tuple[int, ...]

    @classmethod
    def over(cls, shape: Sequence[int], keep: Sequence[bool]) -> Summation:
        runs: list[tuple[int, bool]] = []
        for m, kept in zip(shape, keep, strict=True):
            runs = [*runs[:-1], (runs[-1][0] * m, kept)] if runs and runs[-1][1] == kept else [*runs, (m, kept)]
        steps: list[tuple[tuple[int, ...], Array | None]] = []
        if not any(keep):
            return cls(steps=(), shape=())
        while not all(kept for _, kept in runs):
            i = max((i for i, run in enumerate(runs) if not run[1]), key=lambda i: runs[i][0])
            before, m, after = math.prod(n for n, _ in runs[:i]), runs[i][0], math.prod(n for n, _ in runs[i + 1 :])
            if before == 1:
                steps.append(((m, after), np.ones(m)))
            elif after < STRIDE:
                steps.append(((before, m * after), np.tile(np.eye(after), (m, 1))))
            else:
                steps.append(((before, m, after), None))
            del runs[i]
        return cls(steps=tuple(steps), shape=tuple(m for m, kept in zip(shape, keep, strict=True) if kept))

    def __call__(self, table: Array) -> Array:
        if not self.shape:
            return np.asarray(table.sum())
        for shape, matrix in self.steps:
            table = table.reshape(shape)
            if matrix is None:
                table = np.einsum("lmr->lr", table)
                continue
            table = matrix @ table if matrix.ndim == 1 else table @ matrix
        return table.reshape(self.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """A marginal of a table, summed from the whole table or from another part that holds all it needs (`source`)."""

    axes: Axes
    source: int | None
    spread: tuple[slice | None, ...]
    summed: Summation

    @classmethod
    def of(cls, axes: Axes, kept: frozenset[int], sizes: Sequence[int], source: int | None = None) -> Part:
        """The marginal on `kept` of a table with these axes; `spread` is the index that gives it these axes again."""
        keep = [a in kept for a in axes]
        return cls(
            axes=tuple(a for a in axes if a in kept),
            source=source,
            spread=tuple(slice(None) if k else None for k in keep),
            summed=Summation.over([sizes[a] for a in axes], keep),
        )

    @property
    def residual(self) -> tuple[int, ...]:
        """The axes that are summed."""
        return tuple(i for i, s in enumerate(self.spread) if s is None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Lattice:
    """Marginals of a table, each summed from the smallest source, so that few sums touch the whole table.

    Read backwards it combines small tables into the large one. Either way a table and all its pairs take three passes over
    it, however many attributes it has: a pair misses at least one of any three.
    """

    shape: tuple[int, ...]
    parts: tuple[Part, ...]
    place: Mapping[frozenset[int], int]

    @classmethod
    def of(cls, axes: Axes, sizes: Sequence[int], wanted: set[frozenset[int]]) -> Lattice:
        parts: list[Part] = []
        place: dict[frozenset[int], int] = {}

        def extend(source: int | None, axes: Axes, left: set[frozenset[int]]) -> None:
            while left:
                # All that misses one attribute, the largest there is, shares a source without it.
                missing = next(
                    (a for a in sorted(axes, key=sizes.__getitem__, reverse=True) if not all(a in w for w in left)), -1
                )
                kept = frozenset().union(*(w for w in left if missing not in w))
                place[kept] = len(parts)
                parts.append(part := Part.of(axes, kept, sizes, source))
                extend(place[kept], part.axes, {w for w in left if w < kept})
                left = {w for w in left if not w <= kept}

        extend(None, axes, wanted)
        return cls(shape=tuple(sizes[a] for a in axes), parts=tuple(parts), place=place)

    def marginals(self, table: Array, scale: float = 1.0) -> list[Array]:
        """All parts of scale · table, by place."""
        tables: list[Array] = []
        for part in self.parts:
            tables.append(part.summed(table) * scale if part.source is None else part.summed(tables[part.source]))
        return tables

    def combined(self, tables: Sequence[Array | None], combine: np.ufunc) -> list[Array]:
        """The tables at all places (None: nothing there) as a few that broadcast to the whole table."""
        tables, out = list(tables), []
        for place in reversed(range(len(self.parts))):
            if (table := tables[place]) is None:
                continue
            part = self.parts[place]
            if part.source is None:
                out.append(np.ascontiguousarray(table)[part.spread])
            elif (other := tables[part.source]) is None:
                tables[part.source] = np.broadcast_to(table[part.spread], self.parts[part.source].summed.shape)
            else:
                tables[part.source] = combine(other, table[part.spread])
        return out
