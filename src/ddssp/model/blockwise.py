r"""θ with one prior variance per column, learned from all columns together (inference/prior.py).

The cross moments with the response are a gradient taken at θ = 0, and the moments themselves say what it means: centred and
whitened, b ~ N(Cφ, S), S the noise of b and what the noise of C adds (inference/belief.py). Columns that do not matter drop
out, which a common shrinkage cannot do.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Encoding
from ddssp.inference.belief import Belief, Evidence, believed
from ddssp.inference.correlation import Cross
from ddssp.inference.geometry import Geometry

Array = NDArray[np.float64]

LOOKS = 12
"""How often the belief is formed anew from its own last state."""


def supports(encoding: Encoding) -> bool:
    """Whether every block is a number or one-hot around an intercept."""
    first, *rest = encoding.blocks
    return first.column is None and bool(rest) and all(b.is_scalar or b.contrast != "none" for b in rest)


def blockwise(H: Array, b: Array, var_H: Array, var_b: Array, yy: float, encoding: Encoding) -> Array:
    """θ of the intercept and of every block.

    Args:
        H, b: normal equations, the intercept's first; `var_H` and `var_b` the variances of their noise.
        yy: second moment of the response.
    """
    total = max(float(H[0, 0]), float(np.sqrt(var_H[0, 0])), 1.0)
    g = _geometry(H[1:, 1:], H[0, 1:] / total, var_H, total, encoding)
    mean = float(b[0]) / total
    scale = max(yy / total - mean**2, 1e-6)
    evidence = Evidence(
        gradient=b[1:] - total * mean * g.offset,
        noise=var_b[1:] + g.offset**2 * var_b[0] + mean**2 * var_H[0, 1:],
        at=np.zeros(len(g.offset)),
        centre=mean,
        bias=0.0,
    )
    prior = scale / (len(g.sizes) * g.reach)
    belief = Belief(
        theta=np.zeros(len(g.offset)),
        variance=prior[g.block] * g.live,
        prior=prior,
        unseen=np.zeros(len(prior)),
        spreads=np.zeros(1),
    )
    cross = _cross(H[1:, 1:], var_H[1:, 1:], g)
    for _ in range(LOOKS):
        belief = believed(g, cross, (evidence,), belief, scale=scale)
    return np.asarray(np.r_[mean - g.offset @ belief.theta, belief.theta])


def _geometry(H: Array, mean: Array, var_H: Array, total: float, encoding: Encoding) -> Geometry:
    blocks = encoding.blocks[1:]
    sizes = np.array([b.rows for b in blocks])
    hot = np.array([not b.is_scalar for b in blocks])
    noise = np.sqrt(var_H[0, 1:])
    block = np.repeat(np.arange(len(sizes)), sizes)
    share = np.where(hot[block], mean + 1 / sizes[block], np.clip(mean, -1, 1))
    live = ~hot[block] | (share > 0)
    filled = np.maximum(share, 0.5 * noise / total)
    filled = np.where(hot[block], filled / np.bincount(block, filled, len(sizes))[block], share)
    spread = np.clip(np.diag(H) / total - filled**2, np.minimum(2 * noise / total, 1.0), 1.0)
    doubt = np.array([var_H[0, 1:][block == j].mean() * (1 if h else 2) for j, h in enumerate(hot)])
    return Geometry(
        total=total,
        sizes=sizes,
        hot=hot,
        offset=np.where(hot[block], filled - 1 / sizes[block], filled),
        share=filled,
        variance=np.where(hot[block], np.maximum(filled * (1 - filled), 1e-12), spread),
        doubt=doubt,
        live=live,
    )


def _cross(H: Array, var_H: Array, g: Geometry) -> Cross:
    ends = np.cumsum([0, *g.sizes])
    spans = [slice(a, b) for a, b in pairwise(ends)]
    return {
        (j, k): (H[spans[j], spans[k]], float(var_H[spans[j], spans[k]].mean())) for j, k in combinations(range(len(spans)), 2)
    }
