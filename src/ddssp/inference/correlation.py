r"""C, the correlation of blocks, and V, how far each entry is to be trusted: measured products, made into what rows could have.

Entries that were measured one by one need not fit together: two columns that each explain most of a number, taken as
independent of each other, explain more than all of it. So blocks join one after the other, numbers first, then columns of
levels from few to many, and each joins so that C stays positive definite:

1. what was measured of a column of levels is shrunken along the principal axes of all blocks it was measured with, each axis by
   its own signal, since what lies along a weak axis must itself be weak; two numbers by their own;
2. no combination of levels is correlated with what came before by more than MOST;
3. a table that was not measured is  C_uk = C_uK C_KK⁻¹ C_Kk,  K the blocks that k was measured with: u and k are independent
   given these, which is the completion of greatest entropy.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ddssp.inference.geometry import Geometry
from ddssp.inference.positive import positive

Array = NDArray[np.float64]
Places = NDArray[np.intp]

UNMEASURED = 0.2
"""Standard deviation of a correlation between two blocks that was never measured."""

WEAKEST = 0.02
"""Eigenvalues of C are raised to this."""

MOST = 0.98
"""Greatest correlation between a combination of levels and one of earlier columns."""

Cross = dict[tuple[int, int], tuple[Array, float]]
"""Measured Σ z_j z_k' of blocks j < k, and the variance of its entries."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Correlations as measured, and the variance of their noise; `known[j, k]` says which tables those are."""

    value: Array
    noise: Array
    known: NDArray[np.bool_]

    def shrunken(self, p: Places, q: Places) -> tuple[Array, Array]:
        """Mean and variance of a table under a normal prior with its own signal."""
        value, noise = self.value[np.ix_(p, q)], self.noise[np.ix_(p, q)]
        signal = _signal(value, noise, axis=None)
        return np.clip(signal / (signal + noise) * value, -1, 1), signal * noise / (signal + noise)

    def along_axes(self, C: Array, p: Places, q: Places) -> tuple[Array, Array]:
        """The same along the principal axes of `p`, each with its own signal."""
        _, U = np.linalg.eigh(C[np.ix_(p, p)])
        value, noise = U.T @ self.value[np.ix_(p, q)], (U**2).T @ self.noise[np.ix_(p, q)]
        signal = _signal(value, noise, axis=1)
        return U @ (signal / (signal + noise) * value), U**2 @ (signal * noise / (signal + noise))


def correlation(geometry: Geometry, cross: Cross) -> tuple[Array, Array]:
    """C and V."""
    ends = np.cumsum([0, *geometry.sizes])
    places = {j: np.arange(start, end) for j, (start, end) in enumerate(pairwise(ends))}
    order = sorted(places, key=lambda j: (geometry.hot[j], len(places[j])))
    seen = _seen(geometry, cross, places)
    C, V = _alone(geometry, places)
    for i, j in enumerate(order):
        _join(C, V, seen, geometry, places, order[:i], j)
    return C, V


def definite(C: Array) -> Array:
    """C with its eigenvalues raised to WEAKEST."""
    c, U = np.linalg.eigh(C)
    return _built(np.maximum(c, WEAKEST), U)


def likely(C: Array, V: Array) -> Array:
    """C with each eigenvalue λ replaced by its mean given that it is positive, and raised to WEAKEST.

    Entries that are trusted to within V leave λ = u'Cu a variance of at most 2 Σ_ij u_i² u_j² V_ij, which is taken. Where two
    columns say nearly the same, λ of their difference may be mostly that: as it came it would send θ far along the difference,
    or hold it back.
    """
    c, U = np.linalg.eigh(C)
    variance = 2 * np.sum(U**2 * (V @ U**2), axis=0)
    mean, _ = positive(c, np.sqrt(np.maximum(variance, 1e-12)))
    return _built(np.maximum(mean, WEAKEST), U)


def _built(c: Array, U: Array) -> Array:
    C = (U * c) @ U.T
    return np.asarray((C + C.T) / 2)


def _alone(geometry: Geometry, places: dict[int, Places]) -> tuple[Array, Array]:
    """C and V of each block by itself; levels from their frequencies."""
    n = geometry.total
    root = np.sqrt(n * geometry.variance)
    C, V = np.eye(len(root)), np.zeros((len(root), len(root)))
    for j, p in places.items():
        if geometry.hot[j]:
            share = geometry.share[p]
            C[np.ix_(p, p)] = definite(n * (np.diag(share) - np.outer(share, share)) / np.outer(root[p], root[p]))
        V[p, p] = geometry.doubt[p] / root[p] ** 4
    return C, V


def _seen(geometry: Geometry, cross: Cross, places: dict[int, Places]) -> Seen:
    n, offset = geometry.total, geometry.offset
    root = np.sqrt(n * geometry.variance)
    value, noise = np.zeros((len(root), len(root))), np.zeros((len(root), len(root)))
    known = np.zeros((len(geometry.sizes), len(geometry.sizes)), np.bool_)
    for j, k in combinations(places, 2):
        if (j, k) in cross:
            p, q = places[j], places[k]
            raw, sigma2 = cross[j, k]
            scale = np.outer(root[p], root[q])
            table = (raw - n * np.outer(offset[p], offset[q])) / scale
            value[np.ix_(p, q)], value[np.ix_(q, p)] = table, table.T
            noise[np.ix_(p, q)], noise[np.ix_(q, p)] = sigma2 / scale**2, sigma2 / scale.T**2
            known[j, k] = known[k, j] = True
    return Seen(value=value, noise=noise, known=known)


def _join(C: Array, V: Array, seen: Seen, geometry: Geometry, places: dict[int, Places], before: list[int], j: int) -> None:
    """Fill in the rows and columns of block j in C and V, which hold those of `before`."""
    q = places[j]
    for k in before:
        p = places[k]
        if not seen.known[j, k]:
            V[np.ix_(p, q)] = UNMEASURED**2 / np.sqrt(geometry.sizes[j] * geometry.sizes[k])
        elif not geometry.hot[j]:
            C[np.ix_(p, q)], V[np.ix_(p, q)] = seen.shrunken(p, q)
    known = _all(places, [k for k in before if seen.known[j, k]])
    if geometry.hot[j] and len(known):
        C[np.ix_(known, q)], V[np.ix_(known, q)] = seen.along_axes(C, known, q)
        _complete(C, known, _all(places, [k for k in before if not seen.known[j, k]]), q)
    p = _all(places, before)
    C[np.ix_(q, p)], V[np.ix_(q, p)] = C[np.ix_(p, q)].T, V[np.ix_(p, q)].T
    if not geometry.hot[j]:
        p = _all(places, [*before, j])
        C[np.ix_(p, p)] = definite(C[np.ix_(p, p)])


def _complete(C: Array, known: Places, unknown: Places, q: Places) -> None:
    """Lower canonical correlations of `q` with `known` to MOST; make `q` independent of `unknown` given `known`."""
    L, B = np.linalg.cholesky(C[np.ix_(known, known)]), np.linalg.cholesky(C[np.ix_(q, q)])
    half = solve_triangular(L, C[np.ix_(known, q)], lower=True)
    U, s, Vt = np.linalg.svd(solve_triangular(B, half.T, lower=True).T, full_matrices=False)
    half = (U * np.minimum(s, MOST)) @ Vt @ B.T
    C[np.ix_(known, q)] = L @ half
    C[np.ix_(unknown, q)] = solve_triangular(L, C[np.ix_(known, unknown)], lower=True).T @ half


def _all(places: dict[int, Places], blocks: list[int]) -> Places:
    return np.concatenate([np.zeros(0, np.intp), *(places[k] for k in blocks)])


def _signal(value: Array, noise: Array, axis: int | None) -> Array:
    """Variance of what is behind noisy values, at least 1e-8; the noisier count less."""
    weight = (noise + np.median(noise, axis=axis, keepdims=True)) ** -2.0
    found = np.sum(weight * (value**2 - noise), axis=axis, keepdims=True) / np.sum(weight, axis=axis, keepdims=True)
    return np.maximum(found, 1e-8)
