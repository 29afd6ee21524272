r"""What noisy gradients say about θ: a Gaussian belief with one prior variance per block.

Gradients taken at public points θ_t all speak of one minimiser θ:  g_t = H (θ − θ_t) + e_t.  In centred and whitened
coordinates φ = θ / w (w² the inverse of the curvature's diagonal) with C the correlation of the blocks,

    b_t = w g_t + C φ_t = C φ + w e_t + (C_true − C)(φ − φ_t)

so each is an observation of Cφ whose variance is the noise's plus V ((φ − φ_t)² + var φ), V the variance of C's entries: what
is not known about C matters less the closer θ_t came, and the gradients themselves tell C along the way they took. Averaged by
inverse variance they are b ~ N(Cφ, S). The prior of block j is θ_j ~ N(0, t_j), t_j learned (inference/prior.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from ddssp.inference.correlation import Cross, correlation, likely
from ddssp.inference.geometry import Geometry
from ddssp.inference.prior import SHARES, variances

Array = NDArray[np.float64]

CAUTION = 2.0
"""Factor on the variance that an uncertain C adds."""

BEND = 0.3
"""Relative change of the curvature between two points that is not explained: a logistic loss bends more than normal scores say,
and a clip cuts off most where θ_t is far. A gradient is trusted the less the longer its way to θ."""

STEPS, PASSES = 8, 2
"""Steps for the prior variances, and how often the evidence is weighed anew, in each round."""

SETTLED = 0.1
"""Prior variances have settled when none of their logarithms would move further."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """One gradient, at θ_t: Σ (z − z̄) r with its noise variance, and the score at z̄."""

    gradient: Array
    noise: Array
    at: Array
    centre: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """Mean and variance of θ, prior variance of each block, and the size a block must have to be noticed.

    `spreads` is the variance of the scores where each gradient was taken, and last at θ itself.
    """

    theta: Array
    variance: Array
    prior: Array
    unseen: Array
    spreads: Array


Curvature = Callable[[Array, Array], Array]
"""Mean second derivative of the loss where scores have these means and variances."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """How the loss curves; least squares as it stands.

    Args:
        curvature: mean second derivative at θ.
        centre: the score at the features' mean.
        stretch: how the curvature changes with θ; None if it does not.
    """

    curvature: float = 1.0
    centre: float = 0.0
    stretch: Curvature | None = None


SQUARES = Loss()


def believed(
    geometry: Geometry, cross: Cross, evidence: Sequence[Evidence], old: Belief, *, scale: float, loss: Loss = SQUARES
) -> Belief:
    """The belief after all evidence; `scale` is the variance of the target on the scale of the score."""
    block = geometry.block
    unit = geometry.total * loss.curvature
    w = 1 / np.sqrt(unit * geometry.variance)
    full = scale / geometry.reach
    share, phi, doubt = old.prior / full, old.theta / w, old.variance / w**2
    way = Way(points=np.array([e.at for e in evidence]) / w, centres=np.array([e.centre for e in evidence]), unit=unit)
    C, V = correlation(geometry, cross)
    C, V = _learned(C, V, evidence, way.stretched(C, phi, loss), w)
    C = likely(C, V)
    for _ in range(PASSES):
        b, S = _observation(evidence, way.stretched(C, phi, loss), w, C, V, phi, doubt)
        share, phi, covariance = _posterior(b, S, C, block, share, full[block] / w**2)
        doubt = _doubt(covariance, geometry, w)
    noise = evidence[-1].noise * w**2
    unseen = np.sqrt(2 * np.bincount(block, noise**2, len(share))) / (unit * geometry.reach)
    return Belief(theta=phi * w, variance=doubt * w**2, prior=share * full, unseen=unseen, spreads=way.spreads(C, phi))


@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """Where gradients were taken: φ_t and the score at the features' mean; `unit` is n̂ times the curvature."""

    points: Array
    centres: Array
    unit: float

    def spreads(self, C: Array, phi: Array) -> Array:
        """Variance of the scores at each φ_t, and last at φ."""
        points = np.vstack([self.points, phi])
        return np.asarray(np.maximum(np.sum((points @ C) * points, axis=1), 0) / self.unit)

    def stretched(self, C: Array, phi: Array, loss: Loss) -> Array:
        """φ_t times the curvature there over that at φ: a gradient speaks of their difference (inference/chance.py).

        Where scores saturate, the curvature at φ is hardly known and the ratio could run away: it exceeds 1 no more than the
        measured curvature allows.
        """
        if loss.stretch is None:
            return self.points
        curvature = loss.stretch(np.r_[self.centres, loss.centre], self.spreads(C, phi))
        there, here = curvature[:-1], curvature[-1]
        ratio = np.minimum(there / here, np.maximum(there / loss.curvature, 1))
        return np.asarray(self.points * ratio[:, None])


def _learned(C: Array, V: Array, evidence: Sequence[Evidence], points: Array, w: Array) -> tuple[Array, Array]:
    """C and V after what successive gradients say of C: w (g_t − g_s) = C (φ_s − φ_t) + noise, row by row."""
    C, V = C.copy(), V.copy()
    for (s, here), (t, there) in pairwise(zip(evidence, points, strict=True)):
        x = here - there
        noise = (s.noise + t.noise) * w**2 + (BEND * (C @ x)) ** 2
        spread = V * x
        total = spread @ x + noise
        C += ((t.gradient - s.gradient) * w - C @ x)[:, None] * (spread / total[:, None])
        V -= spread**2 / total[:, None]
    return (C + C.T) / 2, (V + V.T) / 2


def _observation(
    evidence: Sequence[Evidence], points: Array, w: Array, C: Array, V: Array, phi: Array, doubt: Array
) -> tuple[Array, Array]:
    """b and S: all gradients averaged by inverse variance."""
    b, weights = np.zeros_like(phi), np.zeros_like(phi)
    for e, point in zip(evidence, points, strict=True):
        way = phi - point
        variance = e.noise * w**2 + CAUTION * V @ (way**2 + doubt) + (BEND * (C @ way)) ** 2
        weight = 1 / variance
        b += weight * (e.gradient * w + C @ point)
        weights += weight
    return b / weights, 1 / weights


def _posterior(b: Array, S: Array, C: Array, block: NDArray[np.intp], share: Array, unit: Array) -> tuple[Array, Array, Array]:
    """Shares of the target's variance that blocks explain; mean and covariance of φ under b ~ N(Cφ, S), φ ~ N(0, share · unit).

    With T = share · unit, R = T^½ and B = I + R C'S⁻¹C R the variance of φ is R B⁻¹ R; without its own prior a coordinate
    has precision s = (1 / B⁻¹_ii − 1) / T and says q = mean / (T B⁻¹_ii).
    """
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    A, a = (C / S) @ C, C @ (b / S)
    common = np.full(len(SHARES), 1 / len(SHARES))
    for step in range(STEPS + 1):
        T = share[block] * unit
        R = np.sqrt(T)
        inverse = _inverse(np.eye(len(T)) + A * np.outer(R, R))
        kept = np.diag(inverse)
        mean = R * (inverse @ (R * a))
        if step == STEPS:
            break
        new, common = variances((1 / kept - 1) / T, mean / (T * kept), unit, starts, common)
        if np.abs(np.log(new / share)).max() < SETTLED:
            break
        share = np.sqrt(share * new)
    return share, mean, inverse * np.outer(R, R)


def _doubt(covariance: Array, geometry: Geometry, w: Array) -> Array:
    """Variance of each coordinate of φ; of a level's, that of its difference from its column's mean.

    Adding a constant to all levels of a column changes no score that the intercept does not take back, so no gradient ever sees
    it and its variance stays the prior's.
    """
    out = np.diag(covariance).copy()
    for j in np.flatnonzero(geometry.hot):
        p = geometry.block == j
        share, scale = geometry.share[p], np.outer(w[p], w[p])
        theta = covariance[np.ix_(p, p)] * scale
        with_mean = theta @ share
        out[p] = np.maximum(np.diag(theta) - 2 * with_mean + share @ with_mean, 1e-9 * np.diag(theta)) / w[p] ** 2
    return out


def _inverse(B: Array) -> Array:
    """Of a positive definite matrix."""
    L, _ = lapack.dpotrf(B, lower=1, overwrite_a=1)
    half, _ = lapack.dpotri(L, lower=1, overwrite_c=1)
    return np.asarray(np.tril(half) + np.tril(half, -1).T)
