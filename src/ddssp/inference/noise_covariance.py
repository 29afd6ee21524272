r"""The noise of Z'Z: independent Gaussian blocks, mapped linearly into one symmetric matrix N.

The sources, and where each enters N (P_j = I − 11'/m is the centring of a one-hot block, the identity of any other):

    ν     n̂                       diagonals: ν of the intercept;  ν/2 of a scalar (z² ν where z² is known);  ν P_j/m one-hot
    ξ_j   first moments (0, j)    N_0j = (P_j ξ_j)';  a one-hot block's diagonal, in addition: P_j diag(P_j ξ_j) P_j
    Ξ_jk  cross block (j, k)      N_jk = P_j Ξ_jk P_k and its transpose
    Ξ_jj  own block of a scalar (Σ(z² − ½)) or of declared vectors: N_jj = (Ξ_jj + Ξ_jj')/2

Everything is linear in the sources, so second moments of N are exact; the one thing left out is the clipping of a histogram at
0, which touches only levels that the noise hides anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block, Encoding
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class BlockNoise:
    """How noisy each measured block is.

    Args:
        variance: "K K", σ² of the block (j, k) of the encoding's K blocks, the intercept first; on the diagonal σ² of n̂ and of
            own blocks, and 0 where no such thing was measured.
        encoding: what its rows stand for; it has an intercept.
    """

    variance: Array
    encoding: Encoding

    def __post_init__(self) -> None:
        self.variance.setflags(write=False)

    def keep(self, columns: Iterable[str | None]) -> BlockNoise:
        """The blocks of `columns`; the intercept, whose noise is in all diagonals, always stays."""
        wanted = {None, *columns}
        i = np.array([place for place, b in enumerate(self.encoding) if b.column in wanted])
        return BlockNoise(variance=self.variance[np.ix_(i, i)], encoding=self.encoding.keep(wanted))

    def covariance(self, M: Array) -> Array:
        r"""E[N M N] for symmetric M, "p p"; with M = tt' the covariance of N t.

        Off the diagonal (j ≠ k), with M̃ = P M P:      σ_jk² M̃_jk
        On it:                                          Σ_k≠j σ_jk² tr(M̃_kk) P_j,  plus σ_jj²/2 (M_jj + tr(M_jj) I) if measured
        A one-hot block through ξ_j, in addition:       σ_0j² P(diag(M̃_j0) P + P diag(M̃_j0) + P ∘ M̃_jj)P on the diagonal,
                                                        σ_0j² diag(M̃_jj)'P in the intercept's row
        Through ν:                                      σ_n² cc' ∘ M̃ with c = 1, ½, z², 1/m or 0

        Guarantees: positive semidefinite for positive semidefinite M.
        """
        M = self._projection @ M @ self._projection
        of, off = self._block_of, self.variance * (1 - np.eye(len(self.variance)))
        traces = np.bincount(of, np.diag(M), minlength=len(off))
        C = off[np.ix_(of, of)] * M + self._projection * (off @ traces)[of]
        C += self.variance[0, 0] * np.outer(self._shares, self._shares) * M
        for i, b in enumerate(self.encoding.blocks[1:], 1):
            s = self.encoding.slices[b.column]
            if b.is_table:
                P, D = self._projection[s, s], np.diag(M[s, 0])
                C[s, s] += self.variance[0, i] * P @ (D @ P + P @ D + P * M[s, s]) @ P
                C[0, s] += self.variance[0, i] * (P @ np.diag(M[s, s]))
                C[s, 0] = C[0, s]
            else:
                C[s, s] += self.variance[i, i] / 2 * (M[s, s] + traces[i] * np.eye(b.rows))
        return C

    def influence(self, Q: Array) -> Array:
        r"""ℓ(Q) with Cov(tr QN, tr Q'N) = ℓ(Q) · ℓ(Q') for symmetric Q: what a smooth function of Z'Z with gradient Q feels.

        One entry per source, times its σ: 2 Q̃_jk for Ξ_jk, 2 Q̃_0j for ξ_j (a one-hot block adds diag(Q̃_jj)'P), Q_jj for
        own blocks, Σ_j c_j tr Q̃_jj for ν.
        """
        Q = self._projection @ Q @ self._projection
        of = self._block_of
        weight = np.sqrt(self.variance[np.ix_(of, of)]) * np.where(self._same, 1.0, 2.0) * np.triu(np.ones_like(Q))
        L = Q.copy()
        own = np.sqrt(self.variance[0, 0]) * (self._shares @ np.diag(Q))
        for b in self.encoding.blocks[1:]:
            s = self.encoding.slices[b.column]
            if b.is_table:
                L[0, s] += self._projection[s, s] @ np.diag(Q[s, s]) / 2
            else:
                # Each pair of entries of the symmetrised Ξ_jj shares its variance: 2Q_ab · σ/√2 for a < b.
                weight[s, s] *= np.sqrt(2) * np.triu(np.ones((b.rows, b.rows)), 1) + np.eye(b.rows)
        L[0, 0] = 0.0
        return np.append((weight * L)[np.triu_indices(len(L))], own)

    def draw(self, rng: np.random.Generator) -> Array:
        """One N, "p p"."""
        of = self._block_of
        white = rng.normal(size=(len(of), len(of))) * np.sqrt(self.variance[np.ix_(of, of)])
        upper = np.triu(white * ~self._same)
        N = self._projection @ (upper + upper.T) @ self._projection
        for b in self.encoding.blocks[1:]:
            s = self.encoding.slices[b.column]
            P = self._projection[s, s]
            N[s, s] = P @ np.diag(N[0, s]) @ P if b.is_table else (white[s, s] + white[s, s].T) / 2
        return np.asarray(N + white[0, 0] * self._projection * self._shares)

    @cached_property
    def level(self) -> Array:
        """d with σ_jk² ≈ d_i d_l for rows i, l of different blocks: z_i / √d_i has noise of one size, "p".

        Exact for the allocation of the moments mechanism without a target; least squares of log σ_jk² = a_j + a_k otherwise.
        """
        K = len(self.variance)
        if K < 3:
            return np.full(self.encoding.size, np.sqrt(self.variance[0, -1]))
        rows = np.where(np.eye(K), 0.0, np.log(np.where(np.eye(K), 1.0, self.variance))).sum(1)
        return np.asarray(np.exp((rows - rows.sum() / (2 * K - 2)) / (K - 2))[self._block_of])

    @cached_property
    def _block_of(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.encoding.blocks)), [b.rows for b in self.encoding])

    @cached_property
    def _same(self) -> NDArray[np.bool_]:
        return np.asarray(self._block_of[:, None] == self._block_of)

    @cached_property
    def _projection(self) -> Array:
        """Block-diagonal P, "p p"."""
        rows = np.array([1 / b.rows if b.is_table else 0.0 for b in self.encoding])[self._block_of]
        return np.asarray(np.eye(self.encoding.size) - self._same * rows)

    @cached_property
    def _shares(self) -> Array:
        """c: how much of ν each row's diagonal takes, "p"."""
        return np.array([_share(b) for b in self.encoding])[self._block_of]


def block_noise(measurements: Iterable[Measurement], encoding: Encoding) -> BlockNoise:
    """The noise of `assembled(measurements, encoding)`; KeyError for a cross block that was never measured."""
    sigma = {clique: m.sigma for clique, m in combined(measurements).items()}
    names: list[Clique] = [() if b.column is None else (b.column,) for b in encoding]
    variance = np.array([[_sigma(sigma, j, k) ** 2 for k in names] for j in names])
    return BlockNoise(variance=variance, encoding=encoding)


def _sigma(sigma: dict[Clique, float], j: Clique, k: Clique) -> float:
    if j == k:
        return sigma.get((*j, *k), 0.0)
    return sigma[*j, *k] if (*j, *k) in sigma else sigma[*k, *j]


def _share(block: Block) -> float:
    if block.is_table:
        return 1 / block.rows
    if not block.is_scalar:
        return 0.0
    if block.column is None or len(block.squares) == 1:
        return block.squares[0] / block.denominator**2
    return 0.5
