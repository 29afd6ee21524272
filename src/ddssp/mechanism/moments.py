r"""The moments mechanism: measure the encoded blocks themselves.

AGE × HOURS has 9,405 cells, but a regression needs one number of them. For blocks j ≤ k of the centred encoding the query
Σ_i z_[j] z_[k]' moves by at most √(κ_j κ_k) with one record; the domain is a product, so one record attains all these bounds
at once and the total cost is exactly ρ = Σ_A p_A / 2σ_A². The noise that minimises Σ w_A n_A σ_A² under it is

    σ_A² = √(p_A / (w_A n_A)) · Σ_B √(w_B n_B p_B) / 2ρ,    n_A the free dimension of block A
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.marginal import Measurement
from ddssp.mechanism import Outcome, Progress
from ddssp.privacy.curator import Curator, Form, Query
from ddssp.schema import Schema

TARGET_WEIGHT = 10.0
"""Weight of blocks that touch a declared target (never materially worse than 1 or 30)."""

SLACK = 1 + 1e-9
"""Factor on σ that keeps the exact rational charge within the budget after rounding."""


def queries(encoding: Encoding) -> tuple[Query, ...]:
    """What a moments release asks: n, first moments, cross blocks, and squares of scalars where they are not known.

    Edge cases: a one-hot block needs no square (it is diagonal, and the diagonal is its first moment); neither does a scalar
    of two levels (z² = 1). Declared vectors (any A_j) have no histogram to follow from, so their own block is asked for too.
    """
    blocks = encoding.blocks
    products = [Query(left=j, right=k) for i, j in enumerate(blocks) for k in blocks[i + 1 :]]
    squares = [Query(left=j, right=j, form=Form.SQUARE) for j in blocks if j.column and j.is_scalar and len(j.squares) > 1]
    vectors = [Query(left=j, right=j) for j in blocks if j.column and not j.is_scalar and not j.is_table]
    return (Query(left=blocks[0], right=blocks[0]), *products, *squares, *vectors)


def allocation(queries: Sequence[Query], weights: NDArray[np.float64], rho: float) -> NDArray[np.float64]:
    """σ_A of each query: least Σ w_A n_A σ_A² at cost ρ = Σ p_A / 2σ_A²."""
    p = np.array([q.p for q in queries])
    n = np.array([q.left.freedom * q.right.freedom for q in queries], np.float64)
    return np.asarray(np.sqrt(np.sqrt(p / (weights * n)) * np.sum(np.sqrt(weights * n * p)) / (2 * rho)) * SLACK)


def measured(
    curator: Curator,
    queries: Sequence[Query],
    sigmas: NDArray[np.float64],
    tell: Callable[[float], None] = lambda _share: None,
) -> tuple[Measurement, ...]:
    """The Curator's answers, projected to what is known: a centred block's rows and columns add up to 0."""
    return tuple(
        Measurement(clique=q.clique, values=_centred(q.left, _centred(q.right, a.T).T), sigma=float(s))
        for q, a, s in zip(queries, _answers(curator, queries, sigmas, tell), sigmas, strict=True)
    )


def _answers(
    curator: Curator, queries: Sequence[Query], sigmas: NDArray[np.float64], tell: Callable[[float], None]
) -> Iterator[NDArray[np.float64]]:
    """The answers in batches of about a hundredth of the cells."""
    ends = np.cumsum([q.shape[0] * q.shape[1] for q in queries])
    cuts = np.unique(np.searchsorted(ends, np.linspace(0, ends[-1], 100)[1:]) + 1).tolist()
    for start, end in pairwise([0, *cuts]):
        tell(float(ends[start - 1] / ends[-1]) if start else 0.0)
        yield from curator.measure(queries[start:end], [float(s) for s in sigmas[start:end]])


def _centred(block: Block, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values if block.contrast == "none" else values - values.mean(0, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class MomentsMechanism:
    """One joint Gaussian release of all encoded blocks; blocks that touch `target` get more of the budget."""

    target: str | None = None
    name: ClassVar[str] = "moments"
    passes: ClassVar[int] = 0
    perturbed: ClassVar[bool] = False

    def counted(self, schema: Schema) -> Encoding:
        return Encoding.centred(schema)

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome:
        asked = queries(self.counted(schema))
        weights = np.array([TARGET_WEIGHT if self.target in q.clique else 1.0 for q in asked])
        sigmas = allocation(asked, weights, float(curator.remaining))
        return Outcome(measurements=measured(curator, asked, sigmas, lambda share: progress("measuring blocks", share)))
