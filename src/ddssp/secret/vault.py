"""The Vault: exact counts behind the Curator's verbs; each debits the reservation before it draws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.privacy.budget import BudgetError, gaussian_rho, objective_rho, selection_rho
from ddssp.privacy.curator import Discrepancy, Form, Objective, Query, Residuals
from ddssp.secret.counts import Counts, Secret
from ddssp.secret.minimum import minimiser
from ddssp.secret.noise import Noise
from ddssp.secret.rows import Rows

SCORE_GRID, WEIGHT_GRID = 2**8, 2**12
"""Estimates and penalties of a selection are rounded to 1/256 of a record, weights to 1/4096 of the largest. Both are public,
and what is made of them and of counts is an exact integer."""

LARGEST_ESTIMATE = 2**50
"""Records that an estimated marginal may add up to, so that distances to it stay within 64 bits."""

SAFE = 2**62
"""Answers are clipped to 62 bits before noise is added; clipping never moves neighbours further apart."""

TOGETHER = 2**18
"""Cells that are drawn in one call, at most, if they are of several queries."""

STANDARD = 2.0**52
"""A standard normal number is drawn as an integer, in units of 1/STANDARD."""

WIDE = 2**31
"""From this many records on, products are taken in Python integers."""


class Vault(Secret):
    """A Curator over exact counts.

    Guarantees: what it answers is ρ-zCDP in total for the reserved ρ, neighbours differing by one record. A verb that the
    rest of the reservation does not cover raises BudgetError and draws nothing.
    """

    def __init__(self, counts: Counts, rho: Fraction, noise: Noise, rows: Rows | None = None) -> None:
        self._counts = counts
        self._noise = noise
        self._remaining = rho
        self._rows = rows

    @property
    def remaining(self) -> Fraction:
        return self._remaining

    def measure(self, queries: Sequence[Query], sigmas: Sequence[float]) -> list[NDArray[np.float64]]:
        scales = [s * q.lattice for q, s in zip(queries, sigmas, strict=True)]
        self._debit(sum((gaussian_rho(q.squared_sensitivity, s) for q, s in zip(queries, scales, strict=True)), Fraction(0)))
        return [answer for together, scale in _alike(queries, scales) for answer in self._draw(together, scale)]

    def select(self, candidates: Discrepancy, epsilon: float) -> int:
        most = float(candidates.weights.max())
        if not ((candidates.weights >= 0).all() and 0 < most < math.inf):
            raise ValueError(f"weights of a selection must be at least 0, finite and not all 0, got {candidates.weights}.")
        self._debit(selection_rho(epsilon))
        weights = np.rint(candidates.weights / most * WEIGHT_GRID).astype(np.int64)
        penalties = np.rint(candidates.penalties * SCORE_GRID).astype(np.int64)
        # One record moves a distance by at most SCORE_GRID steps, and nothing is rounded after it. Python's integers are exact.
        scores = weights.astype(object) * (self._distances(candidates) - penalties)
        sensitivity = WEIGHT_GRID * SCORE_GRID
        # The quotient is taken up by one step, so that its own rounding never makes the scale too small for the charge.
        scale = math.nextafter(2 * sensitivity / epsilon, math.inf)
        return self._noise.noisy_max(np.clip(scores, -SAFE, SAFE).astype(np.int64), scale)

    def residuals(self, asked: Residuals) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        if self._rows is None:
            raise TypeError("this vault holds no rows to take residuals of.")
        scales = asked.scales
        charges = [gaussian_rho(q, s) for q, s in zip(asked.squared_sensitivities, scales, strict=True)]
        self._debit(sum(charges, gaussian_rho(1, asked.sigma_bins)))
        gradient, bins = self._rows.answer(asked)
        noisy = [
            self._noise.gaussian(np.clip(g, -SAFE, SAFE).astype(np.int64), s) for g, s in zip(gradient, scales, strict=True)
        ]
        values = [v / lattice for v, lattice in zip(noisy, asked.lattices, strict=True)]
        return values, self._noise.gaussian(bins, asked.sigma_bins).astype(np.float64)

    def minimise(self, asked: Objective) -> NDArray[np.float64]:
        if self._rows is None:
            raise TypeError("this vault holds no rows to fit to.")
        width, steps = len(asked.ridge), asked.steps
        charge = objective_rho(asked.squared_mu, asked.reach, width)
        self._debit(charge + gaussian_rho(asked.squared_steps, asked.sigma_steps))
        drawn = self._noise.gaussian(np.zeros(width, np.int64), STANDARD) / STANDARD
        places = np.rint(minimiser(self._rows, asked, drawn * asked.scales) / steps)
        return asked.anchor + self._noise.gaussian(np.clip(places, -SAFE, SAFE).astype(np.int64), asked.sigma_steps) * steps

    def _debit(self, rho: Fraction) -> None:
        if rho > self._remaining:
            raise BudgetError(
                f"a charge of ρ = {float(rho):.6g} exceeds the ρ = {float(self._remaining):.6g} left of this release."
            )
        self._remaining -= rho

    def _draw(self, queries: Sequence[Query], scale: float) -> list[NDArray[np.float64]]:
        exact = [np.clip(self._answer(q), -SAFE, SAFE).astype(np.int64) for q in queries]
        noisy = self._noise.gaussian(np.concatenate([e.ravel() for e in exact]), scale)
        parts = np.split(noisy, np.cumsum([e.size for e in exact])[:-1])
        return [p.reshape(q.shape) / float(q.lattice) for p, q in zip(parts, queries, strict=True)]

    def _answer(self, query: Query) -> NDArray[np.int64]:
        """Exact numerators of a query, "p_left p_right"."""
        left, right = query.left, query.right
        if query.form is Form.SQUARE:
            i, d = self._number(left.column), left.denominator
            return np.array([[2 * int(self._counts.gram[i, i]) - d * d * self._counts.n]], dtype=object)
        if left.column is None and right.column is None:
            return np.array([[self._counts.n]], dtype=object)
        if left.column is None or right.column is None:
            block = right if left.column is None else left
            if block.is_scalar:
                return np.array([[self._counts.sums[self._number(block.column)]]])
            vector = block.sums(self._wide(self._counts.one[block.column or ""]))
            return vector[None] if left.column is None else vector[:, None]
        return self._product(query)

    def _product(self, query: Query) -> NDArray[np.int64]:
        left, right = query.left, query.right
        if left.is_scalar and right.is_scalar:
            return np.array([[self._counts.gram[self._number(left.column), self._number(right.column)]]])
        if left.is_scalar or right.is_scalar:
            scalar, block = (left, right) if left.is_scalar else (right, left)
            vector = block.sums(self._wide(self._counts.cross[block.column or ""][self._number(scalar.column)]))
            return np.asarray(vector[None] if left.is_scalar else vector[:, None])
        table = self._table(left.column or "", right.column or "")
        return right.sums(left.sums(self._wide(table)).T).T

    def _table(self, j: str, k: str) -> NDArray[np.int64]:
        if j == k:
            return np.diag(self._counts.one[j])
        return self._counts.pair[j, k] if (j, k) in self._counts.pair else self._counts.pair[k, j].T

    def _number(self, column: str | None) -> int:
        return self._numbers[column]

    @cached_property
    def _numbers(self) -> dict[str | None, int]:
        return {b.column: i for i, b in enumerate(self._counts.layout.numbers)}

    def _distances(self, candidates: Discrepancy) -> NDArray[np.int64]:
        """L1 distance between exact and estimated marginals of each candidate, in steps of 1/SCORE_GRID."""
        estimate = candidates.estimate
        starts = np.cumsum([0, *(a.size for a in estimate.domain)])[:-1]
        if not _by_block(np.abs(estimate.burt), starts).max() <= LARGEST_ESTIMATE:
            raise ValueError(f"an estimated marginal must be finite and add up to {LARGEST_ESTIMATE:.3g} records at most.")
        l1 = _by_block(np.abs(self._exact_burt - np.rint(estimate.burt * SCORE_GRID).astype(np.int64)), starts)
        place = {name: i for i, name in enumerate(estimate.domain.names)}
        return np.array([l1[place[c[0]], place[c[-1]]] for c in candidates.cliques])

    @cached_property
    def _exact_burt(self) -> NDArray[np.int64]:
        """All tables of counts, in steps of 1/SCORE_GRID."""
        names = [name for name, _ in self._counts.layout.tables]
        return np.block([[self._table(j, k) for k in names] for j in names]).astype(np.int64) * SCORE_GRID

    def _wide(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Counts, as Python's integers where sums over this many records could outgrow 64 bits."""
        return counts.astype(object) if self._counts.n >= WIDE else counts


def _by_block(cells: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[Any]:
    """Sums of the cells of each table."""
    return np.asarray(np.add.reduceat(np.add.reduceat(cells, starts, 0), starts, 1))


def _alike(queries: Sequence[Query], scales: Sequence[float]) -> Iterator[tuple[list[Query], float]]:
    """Neighbouring queries whose noise has one scale, up to TOGETHER cells at once: a draw costs less than a call."""
    together: list[Query] = []
    cells = 0
    for i, query in enumerate(queries):
        size = query.shape[0] * query.shape[1]
        if together and (scales[i] != scales[i - 1] or cells + size > TOGETHER):
            yield together, scales[i - 1]
            together, cells = [], 0
        together.append(query)
        cells += size
    if together:
        yield together, scales[len(queries) - 1]
