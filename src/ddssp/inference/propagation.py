r"""Belief propagation: marginals of p(x) ∝ exp Σ_f θ_f(x_f) on a junction tree.

Clique t of the tree has attributes r besides the separator s to its parent. A pass from the leaves gives

    K_t(r | s) = exp(Σ_f θ_f + Σ_children m_c − m_t(s)),    m_t(s) such that K_t adds up to 1

and a pass from the roots the tables p(r, s) = K_t(r | s) p(s). In logarithms nothing is lost however large θ is, at the price
of one exponential per cell. An optimiser that moves θ by little asks instead for the marginals of K exp(δ): exponentials of
the factors' small tables, products and sums for the large ones.

All that depends on the structure alone (axes, shapes, which table is summed from which) is settled once, by `schedule`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique, Domain
from ddssp.inference.junction import Array, Axes, JunctionTree, Lattice, Part, junction_tree

ROWS = -1
"""Stands for the rows of a Burt matrix among the attributes of a table."""

SCALE = 1e100
"""A sum of K exp(δ) beyond this, or below its inverse, may have lost states that matter."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Slot:
    """The place in a lattice of a table that has its axes in another order, and how to transpose it there and back."""

    place: int
    there: Axes
    back: Axes

    @classmethod
    def of(cls, lattice: Lattice, axes: Axes) -> Slot:
        place = lattice.place[frozenset(axes)]
        there = lattice.parts[place].axes
        return cls(place=place, there=tuple(map(axes.index, there)), back=tuple(map(there.index, axes)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Node:
    """A clique of the tree: the factors that live in it (cells of the flat vector, shape), its children, its separator."""

    lattice: Lattice
    factors: tuple[tuple[Slot, slice, tuple[int, ...]], ...]
    children: tuple[tuple[Slot, int], ...]
    separator: Part

    @classmethod
    def of(cls, tree: JunctionTree, t: int, factors: Sequence[tuple[Axes, slice]]) -> Node:
        axes, below = tree.cliques[t], [tree.separators[c] for c in tree.children[t]]
        lattice = Lattice.of(axes, tree.sizes, {frozenset(part) for part in (*below, *(f for f, _ in factors))})
        return cls(
            lattice=lattice,
            factors=tuple((Slot.of(lattice, f), cells, tuple(tree.sizes[a] for a in f)) for f, cells in factors),
            children=tuple((Slot.of(lattice, s), c) for s, c in zip(below, tree.children[t], strict=True)),
            separator=Part.of(axes, frozenset(tree.separators[t]), tree.sizes),
        )

    def arriving(self, values: Array, messages: Sequence[Array], combine: np.ufunc) -> list[Array]:
        """The factors' tables in `values` and the children's messages, combined to a few that broadcast to the clique."""
        tables: list[Array | None] = [None] * len(self.lattice.parts)
        every = [(slot, values[cells].reshape(shape)) for slot, cells, shape in self.factors]
        for slot, table in every + [(slot, messages[child]) for slot, child in self.children]:
            table = table.transpose(slot.there)
            tables[slot.place] = table if (other := tables[slot.place]) is None else combine(other, table)
        return self.lattice.combined(tables, combine)

    def departing(self, table: Array, out: Array, scale: float = 1.0) -> dict[int, Array]:
        """The marginals of scale · table: the children's separators', and to their cells of `out` the factors'."""
        parts = self.lattice.marginals(table, scale)
        for slot, cells, _ in self.factors:
            out[cells] = parts[slot.place].transpose(slot.back).ravel()
        return {child: parts[slot.place].transpose(slot.back) for slot, child in self.children}


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """A junction tree in which every factor has a home, parents first; `cells` are the factors' parts of a flat vector."""

    tree: JunctionTree
    cells: tuple[slice, ...]
    nodes: tuple[Node, ...]

    @property
    def size(self) -> int:
        return self.cells[-1].stop if self.cells else 0


@lru_cache(maxsize=16)
def schedule(domain: Domain, factors: tuple[Clique, ...]) -> Schedule:
    """The schedule of these factors; each lives in the smallest clique of the tree that contains it."""
    tree = junction_tree(domain, factors)
    position = {name: a for a, name in enumerate(domain.names)}
    axes = [tuple(position[name] for name in factor) for factor in factors]
    ends = np.cumsum([0, *(domain.size(factor) for factor in factors)]).tolist()
    cells = tuple(map(slice, ends[:-1], ends[1:]))
    size = [math.prod(tree.sizes[a] for a in clique) for clique in tree.cliques]
    inside = [[t for t, clique in enumerate(tree.cliques) if set(f) <= set(clique)] for f in axes]
    home = [min(ts, key=size.__getitem__) for ts in inside]
    nodes = (Node.of(tree, t, [(f, c) for f, c, h in zip(axes, cells, home, strict=True) if h == t]) for t in range(len(size)))
    return Schedule(tree=tree, cells=cells, nodes=tuple(nodes))


def conditionals(plan: Schedule, theta: Array) -> list[Array]:
    """K_t(r | s) of each clique.

    Guarantees: finite, and exact to rounding, for any finite θ and every s, however improbable.
    """
    tables = [np.zeros(node.lattice.shape) for node in plan.nodes]
    messages = list(tables)
    for t in reversed(range(len(plan.nodes))):
        node, K = plan.nodes[t], tables[t]
        for table in node.arriving(theta, messages, np.add):
            K += table
        highest = K.max(axis=node.separator.residual, keepdims=True)
        np.exp(np.subtract(K, highest, out=K), out=K)
        mass = node.separator.summed(K)
        K /= mass[node.separator.spread]
        messages[t] = highest.reshape(mass.shape) + np.log(mass)
    return tables


def tilted(plan: Schedule, K: Sequence[Array], delta: Array, total: float, work: Sequence[Array]) -> Array | None:
    """The factors' marginals under K exp(δ), in one flat vector that adds up to `total` for each factor.

    Edge cases: None where the sum of K exp(δ) is out of scale; then take the conditionals at θ + δ.

    Args:
        work: tables as large as K's, to be overwritten: to ask for new memory takes longer than to fill it.
    """
    masses, factors = list(K), np.exp(delta)
    with np.errstate(over="ignore", invalid="ignore"):
        for t in reversed(range(len(plan.nodes))):
            node, table = plan.nodes[t], K[t]
            for factor in node.arriving(factors, masses, np.multiply) or [np.ones(())]:
                table = np.multiply(table, factor, out=work[t])
            masses[t] = node.separator.summed(table)
            if plan.tree.parents[t] < 0 and not 1 / SCALE < masses[t] < SCALE:
                return None
    out = np.empty(plan.size)
    wanted: dict[int, Array] = {}
    for t, node in enumerate(plan.nodes):
        if plan.tree.parents[t] < 0:
            # A root has one mass, so its parts are scaled instead of its table.
            wanted.update(node.departing(work[t], out, total / float(masses[t])))
            continue
        ratio = np.divide(wanted.pop(t), masses[t], out=np.zeros(masses[t].shape), where=masses[t] > 0)
        wanted.update(node.departing(np.multiply(work[t], ratio[node.separator.spread], out=work[t]), out))
    return out


def calibrated(plan: Schedule, K: Sequence[Array], total: float) -> tuple[list[Array], Array]:
    """The marginal table p(r, s) of each clique of the tree, and the factors' marginals, all of them adding up to `total`."""
    tables, out = [], np.empty(plan.size)
    wanted: dict[int, Array] = {}
    for t, node in enumerate(plan.nodes):
        tables.append(K[t] * wanted.pop(t, np.asarray(total))[node.separator.spread])
        wanted.update(node.departing(tables[t], out))
    return tables, out


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """A table that knows its attributes."""

    values: Array
    axes: Axes

    def sizes(self, group: Axes) -> list[int]:
        return [self.values.shape[self.axes.index(a)] for a in group]

    def ordered(self, *groups: Axes) -> Array:
        """The values with one axis for each group of attributes."""
        order = [self.axes.index(a) for group in groups for a in group]
        return self.values.transpose(order).reshape([math.prod(self.sizes(group)) for group in groups])

    def given(self, condition: Table) -> Table:
        """p(rest | condition); 0 where the condition never holds."""
        rest = tuple(a for a in self.axes if a not in condition.axes)
        p, q = self.ordered(rest, condition.axes), condition.ordered((), condition.axes)
        ratio = np.divide(p, q, out=np.zeros(p.shape), where=q > 0)
        return Table(values=ratio.reshape(self.sizes(rest + condition.axes)), axes=rest + condition.axes)


def product(tables: Sequence[Table], axes: Axes) -> Table:
    """The product of tables, summed to `axes`."""
    label = {a: i for i, a in enumerate({a for table in tables for a in table.axes})}
    operands: list[Any] = [x for table in tables for x in (table.values, [label[a] for a in table.axes])]
    return Table(values=np.asarray(np.einsum(*operands, [label[a] for a in axes], optimize=True)), axes=axes)


def joint(tree: JunctionTree, tables: Sequence[Array], wanted: Axes) -> Array:
    """The marginal over any attributes, in the order given, from the clique tables.

    From the leaves: what is wanted below a separator s joins the parent's table as p(wanted | s). Components are independent.
    """
    out = Table(values=np.asarray(total := tables[0].sum()), axes=())
    messages: dict[int, Table] = {}
    for t in reversed(range(len(tables))):
        s = tree.separators[t]
        held = [Table(values=tables[t], axes=tree.cliques[t]), *(messages[c] for c in tree.children[t] if c in messages)]
        below = tuple(a for a in wanted if a not in s and any(a in table.axes for table in held))
        if below and tree.parents[t] >= 0:
            messages[t] = product(held, below + s).given(product(held[:1], s))
        elif below:
            found = product([out, *held], out.axes + below)
            out = Table(values=found.values / total, axes=found.axes)
    return product([out], wanted).values


@dataclass(frozen=True, kw_only=True, eq=False)
class Subtree:
    """What hangs on a separator s: rows of the Burt matrix and p(level | s) of each, "rows cells-of-s".

    A single attribute hangs on itself; its `given`, the identity, is None.
    """

    separator: Axes
    rows: NDArray[np.intp]
    given: Array | None = None

    def joined(self, axes: Axes, table: Table) -> Array:
        """p(level, axes), "rows cells-of-axes": Σ p(level | s) p(s, axes) over what s has and `axes` has not."""
        shared = tuple(a for a in axes if a in self.separator)
        own = tuple(a for a in self.separator if a not in shared)
        other = tuple(a for a in axes if a not in shared)
        T = table.ordered(shared, own, other)
        if self.given is not None:
            U = Table(values=self.given.reshape(-1, *table.sizes(self.separator)), axes=(ROWS, *self.separator))
            T = U.ordered(shared, (ROWS,), own) @ T
        T = T.reshape(*table.sizes(shared), len(self.rows), *table.sizes(other))
        return Table(values=T, axes=(*shared, ROWS, *other)).ordered((ROWS,), axes)


def burt(tree: JunctionTree, tables: Sequence[Array]) -> Array:
    """All pair marginals as one matrix, in domain order, from the clique tables.

    From the leaves, the attributes of a clique and the subtrees that hang on it meet, two at a time: with U = p(level | s),
    two subtrees have the tables U p(s, s') U'. Whole components hang on nothing and meet last.
    """
    ends = np.cumsum([0, *tree.sizes])
    G = np.zeros((ends[-1], ends[-1]))
    attributes = [Subtree(separator=(a,), rows=np.arange(ends[a], ends[a + 1])) for a in range(len(tree.sizes))]
    subtrees: dict[int, Subtree] = {}

    def meet(g: Subtree, h: Subtree, table: Table) -> None:
        block = g.joined(h.separator, table)
        block = block if h.given is None else block @ h.given.T
        G[np.ix_(g.rows, h.rows)], G[np.ix_(h.rows, g.rows)] = block, block.T

    for t in reversed(range(len(tables))):
        s = tree.separators[t]
        inside, hanging = [attributes[a] for a in tree.cliques[t]], [subtrees.pop(c) for c in tree.children[t]]
        new = [g for g in inside if g.separator[0] not in s]
        meetings = [(g, h) for g, h in combinations(inside, 2) if g in new]
        meetings += [(g, h) for g in hanging for h in inside if h.separator[0] not in g.separator]
        meetings += combinations(hanging, 2)
        wanted = {frozenset(s), *(frozenset(g.separator + h.separator) for g, h in meetings + [(g, g) for g in new])}
        parts = _parts(tree, t, tables[t], wanted | {frozenset(g.separator + s) for g in new + hanging})
        for g, h in meetings:
            meet(g, h, parts[frozenset(g.separator + h.separator)])
        for g in new:
            G[g.rows, g.rows] = parts[frozenset(g.separator)].values
        given = [g.joined(s, parts[frozenset(g.separator + s)].given(parts[frozenset(s)])) for g in new + hanging]
        rows = np.concatenate([g.rows for g in new + hanging])
        subtrees[t] = Subtree(separator=s, rows=rows, given=np.concatenate(given))
    for g, h in combinations(subtrees.values(), 2):
        meet(g, h, Table(values=tables[0].sum(), axes=()))
    return G


def _parts(tree: JunctionTree, t: int, table: Array, wanted: set[frozenset[int]]) -> dict[frozenset[int], Table]:
    """Marginals of a clique's table by their attributes."""
    lattice = Lattice.of(tree.cliques[t], tree.sizes, wanted)
    marginals = lattice.marginals(table)
    return {names: Table(values=marginals[i], axes=lattice.parts[i].axes) for names, i in lattice.place.items()}
