"""Measurements of encoded blocks → Moments."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block, Encoding
from ddssp.marginal import Measurement
from ddssp.moments import Moments


def combined(measurements: Iterable[Measurement]) -> dict[Clique, Measurement]:
    """One measurement per clique: repeated ones averaged by inverse variance."""
    out: dict[Clique, Measurement] = {}
    for m in measurements:
        if (old := out.get(m.clique)) is not None:
            w, v = 1 / old.sigma**2, 1 / m.sigma**2
            m = Measurement(clique=m.clique, values=(w * old.values + v * m.values) / (w + v), sigma=(w + v) ** -0.5)
        out[m.clique] = m
    return out


def assembled(measurements: Iterable[Measurement], encoding: Encoding) -> Moments:
    """Z'Z from measured blocks, with the variance of each entry.

    Off-diagonal blocks are as measured. The diagonal follows: n̂ for the intercept; Σ(z² − ½) + n̂/2 of a scalar, or z² n̂
    where z² is known; C diag(u) C of a centred one-hot block, u = max(first moment + n̂/m, 0) its histogram and C = I − 11'/m;
    of declared vectors as measured, made symmetric.

    Guarantees: linear in the measurements but for the histogram's clipping at 0; not positive semidefinite in general.
    """
    by_clique = combined(measurements)
    matrix, variance = np.zeros((encoding.size, encoding.size)), np.zeros((encoding.size, encoding.size))
    for i, j in enumerate(encoding):
        s = encoding.slices[j.column]
        matrix[s, s], variance[s, s] = _diagonal(j, by_clique)
        for k in encoding.blocks[i + 1 :]:
            t = encoding.slices[k.column]
            m = by_clique[tuple(c for c in (j.column, k.column) if c is not None)]
            matrix[s, t], variance[s, t] = m.values, m.sigma**2
            matrix[t, s], variance[t, s] = m.values.T, m.sigma**2
    return Moments(matrix=matrix, encoding=encoding, variance=variance)


def _diagonal(block: Block, by_clique: dict[Clique, Measurement]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = by_clique[()]
    n, var_n = total.values[0, 0], total.sigma**2
    if block.column is None:
        return total.values, np.array([[var_n]])
    if block.is_scalar:
        if len(block.squares) == 1:
            known = block.squares[0] / block.denominator**2
            return np.array([[known * n]]), np.array([[known**2 * var_n]])
        square = by_clique[block.column, block.column]
        return square.values + n / 2, np.array([[square.sigma**2 + var_n / 4]])
    if not block.is_table:
        outer = by_clique[block.column, block.column]
        return (outer.values + outer.values.T) / 2, outer.sigma**2 * (1 + np.eye(block.rows)) / 2
    first = by_clique[block.column,]
    m = block.rows
    histogram = np.maximum(first.values[0] + n / m, 0.0)
    C = np.eye(m) - 1 / m
    return C @ np.diag(histogram) @ C, np.asarray((C**2 @ np.eye(m) @ C**2) * (first.sigma**2 + var_n / m**2))
