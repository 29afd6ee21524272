r"""How strongly each pair of columns goes together, with the noise taken off and its error kept.

For blocks j, k of the centred encoding with covariances S = Z'Z/n̂ − zz' the measure is Escoufier's

    RV_jk = ‖S_jk‖² / (‖S_jj‖ ‖S_kk‖)

whose root is the absolute correlation for two numbers, and for columns with levels weighs each level by how common it is, so
that a rare level, of which a private release knows nothing, cannot dominate. Noise of variance σ² in each of the ν free entries
of S_jk adds σ²ν/n̂² to ‖S_jk‖² on average, and rows that are a sample of unrelated columns add b = tr S_jj tr S_kk / n̂; both are
subtracted. The variance of what is left is about 4(σ²/n̂² + ‖S_jj‖‖S_kk‖/n̂)‖S_jk‖² + 2σ⁴ν/n̂⁴ + 4σ²b/n̂² + 2‖S_jj‖²‖S_kk‖²/n̂².
Noise of the diagonal blocks moves the root by half of their relative errors each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.released import Release

Array = NDArray[np.float64]


def association(release: Release) -> list[dict[str, Any]]:
    """One entry per pair of columns: `value` in [−1, 1], signed for two numbers, and its standard error where that is known.

    The error is that of noise and of sampling together.
    """
    encoding, noise = release.encoding, release.noise
    n = max(float(release.moments.matrix[0, 0]), 1.0)
    S = _covariance(release.moments.matrix, n)
    blocks = tuple(enumerate(encoding))[1:]
    sizes = {i: _size(S, encoding, b) for i, b in blocks}
    traces = {i: max(float(np.trace(S[encoding.slices[b.column], encoding.slices[b.column]])), 0.0) for i, b in blocks}
    doubts = {i: 0.0 if noise is None else _doubt(release, b, n, sizes[i]) for i, b in blocks}
    out = []
    for i, j in blocks:
        for l, k in blocks[i:]:
            cross = S[encoding.slices[j.column], encoding.slices[k.column]]
            sigma2 = 0.0 if noise is None else float(noise.variance[i, l]) / n**2
            if cross.size == 1:
                value, error = _correlation(float(cross[0, 0]), sizes[i] * sizes[l], sigma2, n)
            else:
                chance = traces[i] * traces[l] / n
                value, error = _root_rv(cross, sizes[i] * sizes[l], sigma2, j.freedom * k.freedom, chance, n)
            error = float(np.linalg.norm([error, value * doubts[i] / 2, value * doubts[l] / 2]))
            out.append({"left": j.column, "right": k.column, "value": value, "error": None if noise is None else error})
    return out


def _covariance(G: Array, n: float) -> Array:
    mean = G[0] / n
    return np.asarray(G / n - np.outer(mean, mean))


def _size(S: Array, encoding: Encoding, block: Block) -> float:
    """‖S_jj‖, kept away from 0."""
    s = encoding.slices[block.column]
    return max(float(np.linalg.norm(S[s, s])), 1e-4)


def _doubt(release: Release, block: Block, n: float, size: float) -> float:
    """Relative standard error of ‖S_jj‖, that of its noisiest entry on the diagonal."""
    moments = release.moments
    assert moments.variance is not None
    s = release.encoding.slices[block.column]
    mean = moments.matrix[0, s] / n
    variance = np.diag(moments.variance[s, s]) + 4 * mean**2 * moments.variance[0, s]
    return float(np.sqrt(variance.max())) / n / size


def _correlation(covariance: float, scale: float, sigma2: float, n: float) -> tuple[float, float]:
    """Of two numbers, and its standard error."""
    r = float(np.clip(covariance / np.sqrt(scale), -1.0, 1.0))
    return r, float(np.hypot(np.sqrt(sigma2 / scale), (1 - r * r) / np.sqrt(n)))


def _root_rv(cross: Array, scale: float, sigma2: float, free: int, chance: float, n: float) -> tuple[float, float]:
    """√RV with noise and chance taken off, and its standard error."""
    signal = max(float(np.sum(cross**2)) - sigma2 * free - chance, 0.0)
    r = float(np.clip(np.sqrt(signal / scale), 0.0, 1.0))
    variance = 4 * (sigma2 + scale / n) * signal + 2 * sigma2**2 * free + 4 * sigma2 * chance + 2 * (scale / n) ** 2
    spread = float(np.sqrt(variance)) / scale
    # half the way from r to where two standard errors of RV take it, the longer of both: near 0 a root has no slope to go by
    down, up = np.sqrt(max(r * r - 2 * spread, 0.0)), np.sqrt(r * r + 2 * spread)
    return r, float(max(r - down, up - r) / 2)
