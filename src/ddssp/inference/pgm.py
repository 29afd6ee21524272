r"""Private-PGM: the graphical model of greatest entropy that fits noisy marginals (McKenna, Sheldon, Miklau 2019).

    p(x) ∝ exp Σ_c θ_c(x_c)  minimises  f = Σ_c ‖M_c(p) − y_c‖² / 2σ_c²  over all tables of total n̂

f falls along −∇f = (y_c − M_c) / σ_c² taken as a change of θ: mirror descent, which keeps θ in the span of the measured
cliques and so finds, among all minimisers, the one of greatest entropy. Plain steps need thousands of propagations, because
cells that hold many records bend f far more than cells that hold few. So past steps Δθ and the changes Δμ they made are
remembered (Anderson's mixing): the combination of them that would minimise f if μ were linear in θ is taken first, then a
mirror step from there. A step that does not lower f is shortened, so nothing rests on that linearity.

The optimum usually has empty cells, θ = −∞. A cell that holds next to nothing is not pushed down any further: it can then
come back within a few steps when a later round of AIM, which starts from this model, wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique, Domain
from ddssp.inference.junction import Array, JunctionTree, model_size
from ddssp.inference.propagation import Schedule, Table, burt, calibrated, conditionals, joint, product, schedule, tilted
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement, PairMarginals

__all__ = ["GraphicalModel", "Sampling", "estimate", "loss", "model_size"]

TOLERANCE = 3e-3
"""Estimation ends when WINDOW steps together lowered f by less than this for each measured cell ..."""

WINDOW = 10

ITERATIONS = 1000
"""... or after this many propagations."""

MEMORY = 20
"""Steps that the mixing remembers."""

RIDGE = 1e-8
"""Added to the cosines of remembered steps, which are almost dependent near the end."""

SHARES = (1.0, 0.3, 0.09)
"""Shares of a step that are tried; if none lowers f, the memory is cleared and the rate falls, FAILURES times at most."""

FAILURES = 3

FAINT, EMPTY = 1e-4, 0.1
"""A cell with less than FAINT σ counts as empty; a tight tolerance goes on by stages, down to EMPTY · tolerance · σ."""

STRIDE = 10.0
"""Largest change of a cell that is not empty in one step, three times that in each further stage: emptied by mistake, a cell
is slow to return."""

REACH = 30.0
"""Largest change of a potential before conditionals are taken anew."""


class Sampling(Enum):
    """How many records of a group get each level: their expected number rounded at random, or independent draws."""

    ROUNDED = "rounded"
    INDEPENDENT = "independent"


@dataclass(frozen=True, kw_only=True, eq=False)
class GraphicalModel:
    """p(x) ∝ exp Σ_c θ_c(x_c), scaled to `total`; attributes without potential are uniform and independent.

    >>> model = GraphicalModel(domain=Domain.of(a=2, b=2), potentials={("a",): np.log([1.0, 3.0])}, total=8.0)
    >>> model.marginal(("a", "b")).round(9).tolist()
    [[1.0, 1.0], [3.0, 3.0]]
    """

    domain: Domain
    potentials: Mapping[Clique, Array]
    total: float

    @property
    def tree(self) -> JunctionTree:
        return self._plan.tree

    @cached_property
    def _plan(self) -> Schedule:
        return schedule(self.domain, tuple(self.potentials))

    @cached_property
    def tables(self) -> list[Array]:
        """The marginal of each clique of the tree."""
        theta = np.concatenate([np.zeros(0), *(np.ravel(t) for t in self.potentials.values())])
        return calibrated(self._plan, conditionals(self._plan, theta), self.total)[0]

    def marginal(self, clique: Clique) -> Array:
        """The table of any attributes, in the order given."""
        if unknown := set(clique) - set(self.domain.names):
            raise KeyError(f"unknown attributes {sorted(unknown)}; the domain has {list(self.domain.names)}.")
        return joint(self.tree, self.tables, tuple(map(self.domain.names.index, clique)))

    def pair_marginals(self) -> PairMarginals:
        """All one- and two-way marginals.

        Guarantees: those of one joint table, so the Burt matrix is positive semidefinite.
        """
        return PairMarginals(domain=self.domain, burt=burt(self.tree, self.tables))

    def sample(self, rows: int, rng: np.random.Generator, *, method: Sampling = Sampling.ROUNDED) -> NDArray[np.int32]:
        """Codes of records, "rows d": attribute by attribute along the tree, given what its clique already has.

        Guarantees: each record has the model's distribution. ROUNDED: of the records that agree on what is given, each level
        gets its expected number rounded up or down, so marginals are off by rounding and not by sampling.
        """
        codes = np.zeros((rows, len(self.domain)), np.int32)
        for clique, separator, table in zip(self.tree.cliques, self.tree.separators, self.tables, strict=True):
            given = separator
            for a in (a for a in clique if a not in separator):
                p = product([Table(values=table, axes=clique)], (*given, a)).values
                codes[:, a] = _drawn(p, codes[:, given], method, rng)
                given = (*given, a)
        return codes


def _drawn(p: Array, given: NDArray[np.int32], method: Sampling, rng: np.random.Generator) -> NDArray[np.int32]:
    """A level for each record: p's last axis, given its other ones."""
    cell = np.ravel_multi_index(tuple(given.T), p.shape[:-1]) if given.shape[1] else np.zeros(len(given), np.intp)
    cells, sizes = np.unique(cell, return_counts=True)
    cumulative = np.cumsum(p.reshape(-1, p.shape[-1])[cells], axis=1)
    cumulative /= cumulative[:, -1:]
    if method is Sampling.ROUNDED:
        # Systematic sampling: one uniform shift per group keeps every count's mean and its distance to it below 1.
        edges = np.floor(cumulative * sizes[:, None] + rng.random((len(sizes), 1)))
        edges[:, -1] = sizes
        counts = np.diff(edges, axis=1, prepend=0.0).astype(np.intp)
    else:
        counts = rng.multinomial(sizes, np.diff(cumulative, axis=1, prepend=0.0))
    order = rng.permutation(len(cell))
    order = order[np.argsort(cell[order], kind="stable")]
    out = np.empty(len(cell), np.int32)
    out[order] = np.repeat(np.tile(np.arange(p.shape[-1]), len(cells)), counts.ravel())
    return out


def loss(model: GraphicalModel, measurements: Iterable[Measurement]) -> float:
    """f = Σ ‖M_c(p) − y_c‖² / 2σ_c²."""
    return float(sum(((model.marginal(m.clique) - m.values) ** 2).sum() / (2 * m.sigma**2) for m in measurements))


def estimate(
    domain: Domain,
    measurements: Sequence[Measurement],
    *,
    start: GraphicalModel | None = None,
    tolerance: float = TOLERANCE,
    max_iterations: int = ITERATIONS,
) -> GraphicalModel:
    """The graphical model of greatest entropy that minimises f; its total is the measured tables' best linear estimate.

    Repeated measurements of a clique count as one, averaged by inverse variance, so the work does not grow with rounds.

    Guarantees: deterministic; ends once WINDOW steps together lowered f by less than `tolerance` for each measured cell, or
    where no step lowers it. What is then left of f − min f is not bounded but was a few times that in trials, so the default
    leaves an error of about a tenth of σ; 1e-12 came within 1e-6 of the optimum where σ was under a tenth of the total.

    Edge cases: nothing measured gives the uniform model of total 1; a negative total becomes 1.

    Args:
        start: a model of nearby measurements, from which the search starts; potentials of other cliques are left out.
        max_iterations: most propagations.
    """
    averaged = combined(
        Measurement(clique=m.clique, values=m.values.reshape(domain.shape(m.clique)), sigma=m.sigma) for m in measurements
    )
    total = _total(averaged.values())
    fit = Fit.of(domain, [m for m in averaged.values() if m.clique], total)
    theta = fit.flat({} if start is None else start.potentials)
    found = _minimised(fit, theta, tolerance, max_iterations) if len(theta) else theta
    return GraphicalModel(domain=domain, potentials=fit.unflat(found), total=total)


def _total(measurements: Iterable[Measurement]) -> float:
    """n̂: the tables' sums averaged by inverse variance, cells · σ² of each; at least 1."""
    sums = [(float(m.values.sum()), 1 / (m.values.size * m.sigma**2)) for m in measurements]
    return max(1.0, sum(s * w for s, w in sums) / sum(w for _, w in sums)) if sums else 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Point:
    """Potentials θ, their marginals μ and loss, and the conditionals K at nearby potentials `base`."""

    theta: Array
    mu: Array
    loss: float
    base: Array
    K: list[Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Fit:
    """The loss on flat vectors: θ, μ and y hold the tables of all measured cliques one after the other.

    Each clique's y is shifted to add up to `total`, which changes f by a constant.
    """

    plan: Schedule
    shapes: Mapping[Clique, tuple[int, ...]]
    y: Array
    sigma: Array
    total: float

    @classmethod
    def of(cls, domain: Domain, measurements: Sequence[Measurement], total: float) -> Fit:
        shifted = [np.ravel(m.values - (m.values.sum() - total) / m.values.size) for m in measurements]
        return cls(
            plan=schedule(domain, tuple(m.clique for m in measurements)),
            shapes={m.clique: m.values.shape for m in measurements},
            y=np.concatenate([np.zeros(0), *shifted]),
            sigma=np.repeat([m.sigma for m in measurements], [m.values.size for m in measurements]),
            total=total,
        )

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        return np.array([cells.start for cells in self.plan.cells], np.intp)

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The clique that each cell belongs to."""
        return np.repeat(np.arange(len(self.plan.cells)), [cells.stop - cells.start for cells in self.plan.cells])

    @cached_property
    def least(self) -> Array:
        """What an empty cell's content is measured by: σ, or the total where that is less."""
        return np.minimum(self.sigma, self.total)

    @cached_property
    def work(self) -> list[Array]:
        return [np.empty(node.lattice.shape) for node in self.plan.nodes]

    def flat(self, tables: Mapping[Clique, Array]) -> Array:
        """The tables as one vector, 0 for a clique that has none."""
        return np.concatenate([np.zeros(0), *(np.ravel(tables.get(c, np.zeros(s))) for c, s in self.shapes.items())])

    def unflat(self, values: Array) -> dict[Clique, Array]:
        values.setflags(write=False)
        return {c: values[cells].reshape(s) for (c, s), cells in zip(self.shapes.items(), self.plan.cells, strict=True)}

    def point(self, theta: Array, near: Point | None = None) -> Point:
        """The model at θ, by way of the conditionals of a near point where they reach."""
        mu = None
        if near is not None and np.abs(theta - near.base).max() <= REACH:
            base, K = near.base, near.K
            mu = tilted(self.plan, K, theta - base, self.total, self.work)
        if mu is None:
            base, K = theta, conditionals(self.plan, theta)
            mu = calibrated(self.plan, K, self.total)[1]
        r = (mu - self.y) / self.sigma
        return Point(theta=theta, mu=mu, loss=0.5 * float(r @ r), base=base, K=K)

    def slope(self, residual: Array, mu: Array, live: NDArray[np.bool_]) -> Array:
        """∇f of a residual (μ − y) / σ, with mean 0 under μ in each clique, and nowhere positive in an empty cell."""
        G = residual / self.sigma
        G -= (np.add.reduceat(G * mu, self.starts) / self.total)[self.owner]
        return np.where(live, G, np.minimum(G, 0.0))


class Mixing:
    """The last MEMORY steps Δθ with the changes Δμ / σ that they made."""

    def __init__(self, size: int) -> None:
        self._steps, self._changes = np.zeros((MEMORY, size)), np.zeros((MEMORY, size))
        self._products = np.zeros((MEMORY, MEMORY))
        self._seen = 0

    def add(self, step: Array, change: Array) -> None:
        i = self._seen % MEMORY
        self._steps[i], self._changes[i] = step, change
        self._products[i] = self._products[:, i] = self._changes @ change
        self._seen += 1

    def forget(self) -> None:
        self._seen = 0
        self._changes[:] = 0.0

    def best(self, residual: Array) -> tuple[Array, Array]:
        """The combination Σ γ Δθ of steps whose Σ γ Δμ / σ brings the residual nearest to 0, and what is left of it."""
        k = min(self._seen, MEMORY)
        changes, size = self._changes[:k], np.sqrt(np.diag(self._products)[:k])
        cosines = self._products[:k, :k] / np.outer(size, size) + RIDGE * np.eye(k)
        gamma = -np.linalg.solve(cosines, changes @ residual / size) / size
        return gamma @ self._steps[:k], residual + gamma @ changes


def _minimised(fit: Fit, theta: Array, tolerance: float, max_iterations: int) -> Array:
    """Potentials near the minimum of f: mirror descent with Anderson's mixing and backtracking."""
    point = best = fit.point(theta)
    mixing, last = Mixing(len(theta)), max(EMPTY * tolerance, 1e-14)
    # The first rate suits cells in which four cliques meet; it adapts from there.
    first = rate = 0.25 / float((point.mu / fit.sigma**2).max())
    empty, stride, lows, recent, failures, done = max(FAINT, last), STRIDE, [point.loss], [point.loss], 0, 1
    while done < max_iterations:
        step, residual = mixing.best((point.mu - fit.y) / fit.sigma)
        live = point.mu >= empty * fit.least
        step = step - rate * fit.slope(residual, point.mu, live)
        step *= min(1.0, stride / float(np.abs(step[live]).max(initial=stride)))
        for share in SHARES:
            found = fit.point(point.theta + share * step, near=point)
            done += 1
            if accepted := found.loss <= max(recent[-3:]):
                break
        change = (found.mu - point.mu) / fit.sigma
        bend = float(change @ change)
        if accepted and bend > 1e-200:
            step = found.theta - point.theta
            mixing.add(step, change)
            secant = float(step @ (found.mu - point.mu)) / bend
            rate = 0.5 * rate if share < 1 else min(1.5 * rate, secant) if secant > rate else 1.1 * rate
            point, failures = found, 0
            best = min(best, point, key=lambda p: p.loss)
            recent.append(point.loss)
            lows.append(best.loss)
        else:
            mixing.forget()
            rate, failures = 0.15 * min(rate, first), failures + 1
        still = len(lows) > WINDOW and lows[-1 - WINDOW] - lows[-1] <= tolerance * len(theta)
        if still or failures == FAILURES:
            if empty == last:
                break
            empty, stride, rate, lows, failures = max(empty / 100, last), 3 * stride, max(rate, first), [best.loss], 0
    return best.theta
