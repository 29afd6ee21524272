r"""What noisy gradients say about θ: a Gaussian belief with one prior variance per block.

Gradients taken at public points θ_t all speak of one minimiser θ:  g_t = H (θ − θ_t) + e_t.  In centred and whitened
coordinates φ = θ / w (w² the inverse of the curvature's diagonal) with C the correlation of the blocks,

    b_t = w g_t + C φ_t = C φ + w e_t + (C_true − C)(φ − φ_t)

so each is an observation of Cφ whose variance is the noise's plus V ((φ − φ_t)² + var φ), V the variance of C's entries: what
is not known about C matters less the closer θ_t came, and the gradients themselves tell C along the way they took. Averaged by
inverse variance they are b ~ N(Cφ, S). The prior of block j is θ_j ~ N(0, t_j), t_j by marginal likelihood (MacKay's fixed
point): blocks that do not matter drop out, and wake when the gradients speak for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ddssp.inference.geometry import Geometry

Array = NDArray[np.float64]

UNMEASURED = 0.2
"""Standard deviation of a correlation between two blocks that was never measured."""

CAUTION = 2.0
"""Factor on the variance that an uncertain C adds."""

IDLE = 1e-6
"""A block that explains less than this share of the target's variance is left out until a gradient speaks for it."""

WAKE = 1.5
"""An idle block returns when its unexplained gradient exceeds its own noise by this many standard deviations."""

STEPS, PASSES = 8, 2
"""Fixed-point steps for the prior variances, and how often the evidence is weighed anew, in each round."""

LARGEST = 25.0
"""No block's prior variance exceeds this."""

WEAKEST = 0.02
"""Eigenvalues of C are raised to this."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """One gradient, at θ_t: Σ (z − z̄) r with its noise variance, and the bias that clipping may have left."""

    gradient: Array
    noise: Array
    at: Array
    bias: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Belief:
    """Mean and variance of θ, prior variance of each block, and the size a block must have to be noticed."""

    theta: Array
    variance: Array
    prior: Array
    unseen: Array


Cross = dict[tuple[int, int], tuple[Array, float]]
"""Measured Σ z_j z_k' of blocks j < k, and the variance of its entries."""


def believed(
    geometry: Geometry, cross: Cross, evidence: Sequence[Evidence], old: Belief, *, curvature: float, scale: float, bend: float
) -> Belief:
    """The belief after all evidence.

    Args:
        curvature: mean second derivative of the loss: 1 for least squares.
        scale: variance of the target on the scale of the score; a block that explains less than IDLE of it is idle.
        bend: relative change of the curvature on the way from θ_t to θ; 0 for least squares.
    """
    at = np.flatnonzero(geometry.live)
    block = geometry.block[at]
    w = 1 / np.sqrt(geometry.total * curvature * geometry.variance[at])
    C, V = _correlation(geometry, cross, at)
    C, V = _learned(C, V, evidence, at, w, bend)
    reach = geometry.reach
    prior, phi, doubt = old.prior, old.theta[at] / w, old.variance[at] / w**2
    for _ in range(PASSES):
        b, S = _observation(evidence, at, w, C, V, phi, doubt, bend)
        prior = _awake(b - C @ phi, S + C**2 @ doubt, w, block, prior, prior * reach < IDLE * scale)
        a = np.flatnonzero((prior * reach >= IDLE * scale)[block])
        phi, doubt = np.zeros(len(at)), np.zeros(len(at))
        if len(a):
            prior, phi[a], doubt[a] = _posterior(
                b[a], S[a], _definite(C[np.ix_(a, a)]), w[a], block[a], prior, 10 * IDLE * scale / reach
            )
    theta, variance = np.zeros_like(old.theta), np.zeros_like(old.theta)
    theta[at], variance[at] = phi * w, doubt * w**2
    noise = evidence[-1].noise[at] * w**2
    unseen = np.sqrt(2 * np.bincount(block, noise**2, len(prior))) / (geometry.total * curvature * reach)
    return Belief(theta=theta, variance=variance, prior=prior, unseen=unseen)


def _awake(rest: Array, noise: Array, w: Array, block: NDArray[np.intp], prior: Array, idle: NDArray[np.bool_]) -> Array:
    """Prior variances, raised for idle blocks whose unexplained gradient stands out of its own noise."""
    J = len(prior)
    gain = np.bincount(block, rest**2 - noise, J)
    found = gain > WAKE * np.sqrt(2 * np.bincount(block, noise**2, J))
    return np.where(idle & found, np.minimum(gain / np.bincount(block, w**-2.0, J), LARGEST), prior)


def _definite(C: Array) -> Array:
    """C with its eigenvalues raised to WEAKEST."""
    c, U = np.linalg.eigh(C)
    return np.asarray((U * np.maximum(c, WEAKEST)) @ U.T)


def _learned(
    C: Array, V: Array, evidence: Sequence[Evidence], at: NDArray[np.intp], w: Array, bend: float
) -> tuple[Array, Array]:
    """C and V after what successive gradients say of C: w (g_t − g_s) = C (φ_s − φ_t) + noise, row by row."""
    C, V = C.copy(), V.copy()
    for s, t in pairwise(evidence):
        x = (s.at[at] - t.at[at]) / w
        noise = (s.noise[at] + t.noise[at]) * w**2 + s.bias + t.bias + (bend * (C @ x)) ** 2
        spread = V * x
        total = spread @ x + noise
        C += ((t.gradient[at] - s.gradient[at]) * w - C @ x)[:, None] * (spread / total[:, None])
        V -= spread**2 / total[:, None]
    return (C + C.T) / 2, (V + V.T) / 2


def _correlation(geometry: Geometry, cross: Cross, at: NDArray[np.intp]) -> tuple[Array, Array]:
    """C and the variance V of its entries: measured blocks shrunk by their own signal, others 0 ± UNMEASURED."""
    n, block, variance = geometry.total, geometry.block[at], geometry.variance[at]
    root = np.sqrt(n * variance)
    C, V = np.eye(len(at)), np.zeros((len(at), len(at)))
    places = {j: np.flatnonzero(block == j) for j in np.unique(block)}
    starts = np.cumsum([0, *geometry.sizes])
    for j, p in places.items():
        if geometry.hot[j]:
            share = geometry.share[at[p]]
            C[np.ix_(p, p)] = n * (np.diag(share) - np.outer(share, share)) / np.outer(root[p], root[p])
        V[p, p] = geometry.doubt[j] / root[p] ** 4
    for j, k in combinations(places, 2):
        p, q = places[j], places[k]
        value, doubt = (
            np.zeros((len(p), len(q))),
            np.full((len(p), len(q)), UNMEASURED**2 / np.sqrt(geometry.sizes[j] * geometry.sizes[k])),
        )
        if (j, k) in cross:
            raw, sigma2 = cross[j, k]
            scale = np.outer(root[p], root[q])
            noise = sigma2 / scale**2
            offset = n * np.outer(geometry.offset[at[p]], geometry.offset[at[q]])
            found = (raw[np.ix_(at[p] - starts[j], at[q] - starts[k])] - offset) / scale
            weight = (noise + np.median(noise)) ** -2.0
            signal = max(float(np.sum(weight * (found**2 - noise)) / np.sum(weight)), 1e-8)
            value, doubt = np.clip(signal / (signal + noise) * found, -1, 1), signal * noise / (signal + noise)
        C[np.ix_(p, q)], C[np.ix_(q, p)] = value, value.T
        V[np.ix_(p, q)], V[np.ix_(q, p)] = doubt, doubt.T
    return C, V


def _observation(
    evidence: Sequence[Evidence], at: NDArray[np.intp], w: Array, C: Array, V: Array, phi: Array, doubt: Array, bend: float
) -> tuple[Array, Array]:
    """b and S: all gradients averaged by inverse variance."""
    b, S, weights = np.zeros(len(at)), np.zeros(len(at)), np.zeros(len(at))
    for e in evidence:
        way = phi - e.at[at] / w
        variance = e.noise[at] * w**2 + CAUTION * V @ (way**2 + doubt) + (bend * (C @ way)) ** 2
        weight = 1 / (variance + e.bias)
        b += weight * (e.gradient[at] * w + C @ (e.at[at] / w))
        S += weight**2 * variance
        weights += weight
    return b / weights, S / weights**2


def _posterior(
    b: Array, S: Array, C: Array, w: Array, block: NDArray[np.intp], prior: Array, small: Array
) -> tuple[Array, Array, Array]:
    """Prior variances by MacKay's fixed point, then mean and variance of φ under b ~ N(Cφ, S), φ ~ N(0, T)."""
    J = len(prior)
    active = np.bincount(block, minlength=J) > 0
    for step in range(STEPS + 1):
        T = prior[block] / w**2
        root = C * np.sqrt(T)
        L = np.linalg.cholesky(root @ root.T + np.diag(S))
        X = solve_triangular(L, C, lower=True, check_finite=False)
        q, h = X.T @ solve_triangular(L, b, lower=True, check_finite=False), np.sum(X**2, axis=0)
        gain = np.bincount(block, (q / w) ** 2, J) / np.maximum(np.bincount(block, h / w**2, J), 1e-30)
        new = np.where(active, np.clip(prior * np.clip(gain, 0.05, 20), 1e-9, LARGEST), prior)
        if step == STEPS or np.all((np.abs(np.log(new / prior)) < 0.02) | (new < small)):
            break
        prior = new
    return prior, T * q, np.maximum(T - T**2 * h, 0.0)
