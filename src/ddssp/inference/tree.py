r"""The tree step: noisy tables → pair marginals without a joint model, for wide data and tight time.

1. n̂ and every one-way marginal: all measurements that speak of it, combined by inverse variance; then the nearest vector
   that is non-negative and adds up to n̂.
2. A measured pair: the nearest table that is non-negative and has those margins (Dykstra's alternating projections).
3. Any other pair: the product of conditional tables along the spanning tree of measured pairs with the greatest mutual
   information. That is exact for a tree model, and independence between attributes that no measurement connects. Or the
   product through one attribute measured with both, if that keeps more information: every way loses some.

Every table agrees with the one-way marginals, but no joint table need have them all, so the Burt matrix G, and with it Z'Z,
is not positive semidefinite in general. For a release `semidefinite` moves it to where it is; marginal errors stay as they
are, and regressions gain. `inference.pgm` gives a joint model where the domain allows it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from ddssp.domain import Clique, Domain
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement, PairMarginals

Array = NDArray[np.float64]

STILL = 0.1
"""A warm start keeps its n̂ while the new one is within this many standard errors: all tables hang on it."""

TOLERANCE = 1e-6
"""Dykstra's projections stop when no cell moves by more than this share of n̂ ..."""

ITERATIONS = 200
"""... or after this many rounds."""

NEGATIVE, ALTERNATIONS = 1e-4, 10
"""`semidefinite` stops at eigenvalues above −NEGATIVE n̂, or after this many rounds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """Sums over measurements: Σ w y and Σ w with w the inverse variance of y, for n and for each one-way marginal."""

    total: Array
    one: dict[str, Array]
    weight: dict[str, float]
    tables: dict[Clique, Measurement]

    @classmethod
    def none(cls, domain: Domain) -> Evidence:
        return cls(
            total=np.zeros(2),
            one={a.name: np.zeros(a.size) for a in domain},
            weight=dict.fromkeys(domain.names, 0.0),
            tables={},
        )

    def plus(self, measurements: Iterable[Measurement], domain: Domain) -> Evidence:
        """This and more: the sum of a table's cells over other attributes has their number times its variance."""
        new = tuple(measurements)
        total, one, weight = self.total.copy(), dict(self.one), dict(self.weight)
        for m in new:
            y = m.values.reshape(domain.shape(m.clique))
            w = 1 / (m.sigma**2 * y.size)
            total += w * np.array([y.sum(), 1.0])
            for axis, j in enumerate(m.clique):
                w = y.shape[axis] / (m.sigma**2 * y.size)
                one[j] = one[j] + w * (y if y.ndim == 1 else y.sum(1 - axis))
                weight[j] += w
        return Evidence(total=total, one=one, weight=weight, tables=combined((*self.tables.values(), *new)))


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeModel:
    """One-way marginals, the tables of measured pairs, and their mutual information.

    Guarantees: `tables[j, k]` is non-negative and has the margins `one[j]` and `one[k]`, all of total `total`.
    """

    domain: Domain
    evidence: Evidence
    measured: int
    total: float
    one: dict[str, Array]
    tables: dict[Clique, Array]
    information: dict[Clique, float]

    @cached_property
    def tree(self) -> tuple[tuple[str, str | None], ...]:
        """Each attribute with its parent in the spanning tree of greatest mutual information, parents first.

        Edge cases: a pair that was not measured has no information and may still join the tree: its table is independence.
        """
        names, d = self.domain.names, len(self.domain)
        cost = np.full((d, d), -1.0)
        place = {name: i for i, name in enumerate(names)}
        for (j, k), bits in self.information.items():
            cost[place[j], place[k]] = cost[place[k], place[j]] = -1.0 - bits
        order, parent = breadth_first_order(minimum_spanning_tree(cost), 0, directed=False)
        return tuple((names[i], None if i == 0 else names[parent[i]]) for i in order)

    def table(self, j: str, k: str) -> Array:
        """<mu_jk> of a measured pair, independence otherwise; "m_j m_k"."""
        if (j, k) in self.tables:
            return self.tables[j, k]
        return self.tables[k, j].T if (k, j) in self.tables else np.outer(self.one[j], self.one[k]) / self.total

    def conditional(self, child: str, parent: str) -> Array:
        """p(child | parent), "m_parent m_child"; the child's own distribution where the parent never occurs."""
        joint = self.table(parent, child)
        rows = joint.sum(1, keepdims=True)
        return np.where(rows > 0, joint / np.where(rows > 0, rows, 1.0), self.one[child] / self.total)

    def pair_marginals(self) -> PairMarginals:
        """All pairs: in tree order, an attribute's tables with all earlier ones are one product with p(child | parent)."""
        sizes = self.domain.sizes
        ends = np.cumsum([0, *(sizes[j] for j, _ in self.tree)])
        slices = {j: slice(a, b) for (j, _), a, b in zip(self.tree, ends[:-1], ends[1:], strict=True)}
        G = np.zeros((ends[-1], ends[-1]))
        for j, parent in self.tree:
            s = slices[j]
            if parent is not None:
                G[: s.start, s] = G[: s.start, slices[parent]] @ self.conditional(j, parent)
                G[s, : s.start] = G[: s.start, s].T
            G[s, s] = np.diag(self.one[j])
        for (j, k), table in (self.tables | self._mediated(G, slices)).items():
            G[slices[j], slices[k]], G[slices[k], slices[j]] = table, table.T
        back = np.concatenate([np.arange(slices[j].start, slices[j].stop) for j in self.domain.names])
        return PairMarginals(domain=self.domain, burt=G[np.ix_(back, back)])

    def _mediated(self, G: Array, slices: dict[str, slice]) -> dict[Clique, Array]:
        """Tables of pairs that were not measured but each with some third attribute: of those ways, and G's, the best."""
        beside: dict[str, set[str]] = defaultdict(set)
        for j, k in self.tables:
            beside[j].add(k)
            beside[k].add(j)
        given = {(k, i): self.conditional(k, i) for i, others in beside.items() for k in others}
        found: dict[Clique, Array] = {}
        for j, k in self.domain.pairs:
            between = beside[j] & beside[k]
            if k not in beside[j] and between:
                T = np.stack([G[slices[j], slices[k]], *(self.table(j, i) @ given[k, i] for i in sorted(between))])
                rows, columns = (np.broadcast_to(self.one[c], (len(T), len(self.one[c]))) for c in (j, k))
                found[j, k] = T[int(np.argmax(mutual_information(T, rows, columns)))]
        return found

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Codes of records of the tree model, "rows d"."""
        codes = np.zeros((rows, len(self.domain)), np.int32)
        place = {name: i for i, name in enumerate(self.domain.names)}
        for j, parent in self.tree:
            if parent is None:
                codes[:, place[j]] = _drawn((self.one[j] / self.total)[None], np.zeros(rows, np.int32), rng)
            else:
                codes[:, place[j]] = _drawn(self.conditional(j, parent), codes[:, place[parent]], rng)
        return codes


def estimate(domain: Domain, measurements: Sequence[Measurement], *, start: TreeModel | None = None) -> TreeModel:
    """The tree model of noisy one- and two-way marginals; every attribute must be in at least one of them.

    Args:
        start: the model of a prefix of `measurements`; only what the new ones touch is estimated again. The answer differs
            from a cold one by at most STILL standard errors of n̂.
    """
    old = start or TreeModel(
        domain=domain, evidence=Evidence.none(domain), measured=0, total=0.0, one={}, tables={}, information={}
    )
    new = measurements[old.measured :]
    evidence = old.evidence.plus(new, domain)
    total, still = _total(evidence, old)
    touched = {j for m in new for j in m.clique} if still else set(domain.names)
    one = old.one | {j: nearest_simplex(evidence.one[j] / evidence.weight[j], total) for j in touched}
    stale = [c for c in evidence.tables if len(c) == 2 and not touched.isdisjoint(c)]
    tables, information = dict(old.tables), dict(old.information)
    for group in _by_shape(stale, domain):
        Y = np.stack([evidence.tables[c].values.reshape(domain.shape(c)) for c in group])
        rows, columns = np.stack([one[j] for j, _ in group]), np.stack([one[k] for _, k in group])
        T = nearest_tables(Y, rows, columns)
        tables |= zip(group, T, strict=True)
        information |= zip(group, mutual_information(T, rows, columns), strict=True)
    return TreeModel(
        domain=domain,
        evidence=evidence,
        measured=len(measurements),
        total=total,
        one=one,
        tables=tables,
        information=information,
    )


def _total(evidence: Evidence, old: TreeModel) -> tuple[float, bool]:
    """n̂, at least 1, and whether it is the old one."""
    n, weight = evidence.total[0] / evidence.total[1], evidence.total[1]
    if old.measured and abs(n - old.total) <= STILL * weight**-0.5:
        return old.total, True
    return max(1.0, float(n)), False


def _by_shape(cliques: Iterable[Clique], domain: Domain) -> Iterable[list[Clique]]:
    groups: dict[tuple[int, ...], list[Clique]] = defaultdict(list)
    for c in cliques:
        groups[domain.shape(c)].append(c)
    return groups.values()


def nearest_simplex(y: Array, total: float) -> Array:
    """The nearest non-negative vector that adds up to `total`."""
    falling = np.sort(y)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(y) + 1)
    return np.asarray(np.maximum(y - excess[np.nonzero(falling > excess)[0][-1]], 0.0))


def nearest_tables(Y: Array, rows: Array, columns: Array, *, iterations: int = ITERATIONS) -> Array:
    r"""The nearest non-negative tables with the given margins, by Dykstra's alternating projections.

    Margins are an affine set, so only the projection to T ≥ 0 carries a correction Q. What is left of the margins' error at
    the end is removed by proportional fitting.

    Args:
        Y: "p a b", rows: "p a", columns: "p b", with equal totals.
    """
    _, a, b = Y.shape
    n = rows.sum(1)[:, None, None]
    r, c = rows[:, :, None], columns[:, None, :]
    T, Q = Y, np.zeros_like(Y)
    for _ in range(iterations):
        X = T + (r - T.sum(2, keepdims=True)) / b
        X += (c - X.sum(1, keepdims=True)) / a + Q
        T, old = np.maximum(X, 0.0), T
        Q = X - T
        if (np.abs(T - old) <= TOLERANCE * n).all():
            break
    T = np.asarray(T + 1e-12 * r * c / n)
    for _ in range(10):
        T = T * _ratio(r, T.sum(2, keepdims=True))
        T = T * _ratio(c, T.sum(1, keepdims=True))
    return T


def semidefinite(marginals: PairMarginals) -> PairMarginals:
    """Tables near the given ones, with their one-way marginals, whose Burt matrix is positive semidefinite.

    Alternating projections: eigenvalues below 0 become 0; then each table goes back to its margins and to T ≥ 0.

    Guarantees: non-negative tables with the same one-way marginals; no eigenvalue below −NEGATIVE n̂, or ALTERNATIONS rounds.
    """
    domain, slices = marginals.domain, marginals.slices
    one = {j: marginals.one_way(j) for j in domain.names}
    G, groups = marginals.burt, list(_by_shape(domain.pairs, domain))
    for _ in range(ALTERNATIONS):
        h, U = np.linalg.eigh(G)
        if h[0] >= -NEGATIVE * marginals.total:
            break
        G = (U * np.maximum(h, 0.0)) @ U.T
        for group in groups:
            Y = np.stack([G[slices[j], slices[k]] for j, k in group])
            margins = (np.stack([one[c[axis]] for c in group]) for axis in (0, 1))
            for (j, k), table in zip(group, nearest_tables(Y, *margins, iterations=5), strict=True):
                G[slices[j], slices[k]], G[slices[k], slices[j]] = table, table.T
        for j, s in slices.items():
            G[s, s] = np.diag(one[j])
    return PairMarginals(domain=domain, burt=G)


def _ratio(wanted: Array, found: Array) -> Array:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


def mutual_information(T: Array, rows: Array, columns: Array) -> list[float]:
    """Σ p log(p / p_j p_k) of each table, in nats; "p a b"."""
    n = rows.sum(1)[:, None, None]
    P, Q = T / n, rows[:, :, None] * columns[:, None, :] / n**2
    ratio = np.divide(P, Q, out=np.ones_like(P), where=(P > 0) & (Q > 0))
    return [max(0.0, float(bits)) for bits in (P * np.log(ratio)).sum((1, 2))]


def _drawn(p: Array, given: NDArray[np.int32], rng: np.random.Generator) -> NDArray[np.int32]:
    """One level for each record, of the distribution p[given]; "q m" and "n"."""
    cumulative = np.cumsum(p, axis=1)[:, :-1]
    return np.asarray((rng.random(len(given))[:, None] > cumulative[given]).sum(1), np.int32)
