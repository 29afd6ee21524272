r"""Where a generalised linear model may be read off second moments: the approximation's error is small beside the interval.

θ = kβ + αe₀ is the maximum likelihood if the linear predictor is Gaussian. A column of levels is not: given its level a the
predictor is s_a = E s + θ_a − θ̄ plus the rest, of variance V − Var θ, so the response's mean at that level is

    g_a = E tanh(s/2) ≈ tanh(s_a / 2κ),  κ² = 1 + π(V − Var θ)/8      (logistic)
    g_a = E e^s = exp(s_a + (V − Var θ)/2)                            (Poisson)

while least squares has β_a − β̄ there. The difference, over the slope of g, is by how much θ_a would have to move. A number's
shape is not among second moments; but one whose mean is within two standard deviations of a declared bound is not normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block
from ddssp.model.equations import Equations

Array = NDArray[np.float64]

Response = Callable[[Array, float], tuple[Array, Array]]
"""Mean of the response and its slope where the predictor is N(s, V)."""

TOLERATED = 1 / 3
"""Of a standard error: a bias of this size leaves 94 % of 95."""

ROOM = 2.0
"""Standard deviations between a number's mean and its declared bounds."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
    """The linear predictor s = constant + factor · u of a fit.

    Args:
        beta: coefficients of u in the encoding, "q".
        mean, variance: of s.
        response: of the model.
    """

    beta: Array
    factor: float
    mean: float
    variance: float
    response: Response


def adequate(equations: Equations, s: Predictor, stderr: Array) -> NDArray[np.bool_]:
    """Which coefficients the approximation serves; the intercept only if it serves all, "k"."""
    e, out, at = equations, np.ones(len(stderr), bool), 1
    means, squares = e.H[0] / e.total, np.diag(e.H) / e.total
    for block in e.encoding.blocks[1:]:
        span, shown = e.encoding.slices[block.column], block.rows - (block.contrast == "first")
        own, mean = slice(at, at + shown), means[span]
        if block.is_table or _is_boolean(block):
            out[own] = _moved(s, block, s.beta[span], mean) <= TOLERATED * stderr[own]
        else:
            spread = np.sqrt(np.maximum(squares[span] - mean**2, 0.0))
            out[own] = block.is_scalar & (1 - np.abs(mean) >= ROOM * spread)
        at += shown
    out[0] = out.all()
    return out


def _is_boolean(block: Block) -> bool:
    return block.is_scalar and len(block.squares) == 1


def _moved(s: Predictor, block: Block, beta: Array, mean: Array) -> Array:
    """By how much each shown coefficient of a column of levels would have to move."""
    if _is_boolean(block):
        sides = np.array([-1.0, 1.0])
        off, slope = _off(s, sides * beta[0], (1 + sides * mean[0]) / 2)
        return np.asarray(np.abs(off[1:] - off[:1]) / (2 * block.half * slope.min()))
    off, slope = _off(s, beta, mean + 1 / block.rows)
    if block.contrast == "first":
        return np.asarray(np.abs(off[1:] - off[0]) / slope[1:])
    return np.asarray(np.abs(off - off.mean()) / slope)


def _off(s: Predictor, beta: Array, share: Array) -> tuple[Array, Array]:
    """The response's mean at each level less what least squares has there, and its slope."""
    share = np.maximum(share, 0.0)
    share = share / max(float(share.sum()), 1e-300)
    beta = beta - share @ beta
    rest = max(s.variance - s.factor**2 * float(share @ beta**2), 0.0)
    g, slope = s.response(s.mean + s.factor * beta, rest)
    return g - share @ g - beta, np.maximum(slope, 1e-12)
