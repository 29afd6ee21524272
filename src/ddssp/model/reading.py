r"""What a release says of β once its noise is taken into account (derivation: docs/intervals.md).

b̃ − H̃β = e_y − Eβ ~ N(0, C(β)) holds exactly, but H̃ itself is noisy: where its eigenvalues are under the noise's own spectral
level it says nothing. So, in coordinates in which the noise of H has one size,

    seen    g = U_S'b̃ = Λ_S U_S'β + noise, for the eigenvectors U_S of H̃ with eigenvalue over √p
    prior   β ~ N(0, τ²), which only fills directions that are not seen; τ² far above the upper 95 % end of its likelihood
    read    c'β for one coefficient c with the prior on c'β itself taken away again: the estimate is not shrunken, and its
            variance is that of the noise and, apart, what rests on the prior for other, unseen directions
    pull    U_S and the noise share E, the noise of H, so that the noise is not 0 on average: its mean is taken off

For prediction the prior is kept instead, one variance per column, learned from what is seen (`shrunken`).

Whether a coefficient is identified is asked at the upper end of τ; its variance, and C at E[tt'] with t = r − Rβ, are taken at
the most likely one. Where everything is seen the prior has no part, and the variance is c'H⁻¹CH⁻¹c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.equations import Equations

Array = NDArray[np.float64]

EDGE = 1.0
"""Eigenvalues of unit noise are under 2√p; a direction is seen from √p, half the noise's spectral level."""

ROUNDS = 3
"""C depends on β and β on C. On Adult, Fire, ACSIncome and the RAND survey at ε from .5 to 8 standard errors are within 1 % of
where further rounds lead, the worst single one within 3 %."""

LIKELIHOOD_DROP = 2.71
"""Twice the log-likelihood ratio at the one-sided 95 % limit of τ²."""

WIDE = 100.0
"""Estimates are taken under a prior variance this many times the upper limit of τ², so that they hardly rest on it."""

FLAT = 10.0
"""Prior variance of the intercept, for a response on [−1, 1]: next to none."""

STEPS, LEAST = 4, 1e-9
"""Steps for the prior variances of columns, from a common one, and the least of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sight:
    """g = A β + noise with covariance C: what is seen of β.

    Args:
        sight: E, "q s": the seen directions, g = E'b̃.
        A: "s q".
        C: "s s".
        eigenvalues: Λ, "s"; sampling error of g has covariance s²Λ.
        gain: of the mean of β given the release under the most likely τ², "q s".
        likely: the prior's variances under that, "q".
    """

    sight: Array
    g: Array
    A: Array
    C: Array
    eigenvalues: Array
    gain: Array
    likely: Array

    @property
    def mean(self) -> Array:
        return np.asarray(self.gain @ self.g)


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """What is seen, and the prior N(0, diag Π).

    Args:
        own: "s s", what an unshrunken estimate's own noise would add to C: not knowing β multiplies the noise of H.
        prior: Π, "q".
        gain: Π A'(AΠA' + C)⁻¹, "q s".
        pull: −E U_S'e, "s": minus the mean of the noise of g, to second order in the noise.
        freed: "s s": w'(g + pull) is (w'freed)g and a constant, since pull follows the estimate.
        V: "q q", covariance of β given the release under this prior.
        likely: the most likely τ² over the prior's.
    """

    seen: Sight
    own: Array
    prior: Array
    gain: Array
    pull: Array
    freed: Array
    V: Array
    likely: float

    def read(self, c: Array) -> Estimates:
        """c'β for each row of c by itself, "k q"."""
        before = np.sum(c * c * self.prior, axis=1)
        rho = np.minimum(np.sum((c @ self.V) * c, axis=1) / np.where(before > 0, before, 1.0), 1 - 1e-12)
        bare = (c @ self.gain) / (1 - rho)[:, None]
        unseen, weights = c - bare @ self.seen.A, bare @ self.freed
        return Estimates(
            estimate=bare @ (self.seen.g + self.pull),
            pull=bare @ self.pull,
            weights=weights,
            noise=np.einsum("ks,st,kt->k", weights, self.seen.C, weights),
            own=np.einsum("ks,st,kt->k", bare, self.own, bare),
            prior=np.sum(unseen**2 * self.prior, axis=1),
            likely=self.likely,
        )

    def read_jointly(self, c: Array) -> tuple[Array, Array, Array]:
        """Estimate, privacy covariance and weights of all rows of c at once, the prior taken away from all of them."""
        shrink = (c @ self.V @ c.T) @ np.linalg.pinv((c * self.prior) @ c.T)
        bare = np.asarray(np.linalg.solve(np.eye(len(c)) - shrink, c @ self.gain), np.float64)
        unseen, weights = c - bare @ self.seen.A, bare @ self.freed
        covariance = weights @ self.seen.C @ weights.T + self.likely * (unseen * self.prior) @ unseen.T
        return bare @ (self.seen.g + self.pull), covariance, weights


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimates:
    """Linear estimates w'g, up to a constant.

    Args:
        pull: how much of them makes up for the mean of the noise.
        noise: their variance through the noise; `own` is what their own noise would add to it.
        prior: what rests on the prior, at its widest; `likely` of it under the most likely τ.
    """

    estimate: Array
    pull: Array
    weights: Array
    noise: Array
    own: Array
    prior: Array
    likely: float

    @property
    def variance(self) -> Array:
        return self.noise + self.likely * self.prior


def sight(equations: Equations, noise: BlockNoise) -> Sight:
    """What is seen of β."""
    R = equations.basis
    unit = 1 / np.sqrt((R**2).T @ noise.level)
    values, U = np.linalg.eigh(equations.H * np.outer(unit, unit))
    free = np.count_nonzero(np.abs(values) > 1e-9 * np.abs(values).max(initial=0.0))
    seen = values > EDGE * np.sqrt(free)
    E, L = unit[:, None] * U[:, seen], values[seen]
    A, g = L[:, None] * U[:, seen].T / unit, E.T @ equations.b
    mean, V = np.zeros(len(unit)), np.zeros((len(unit), len(unit)))
    for _ in range(ROUNDS):
        t = equations.residual(mean)
        C = E.T @ R.T @ noise.covariance(np.outer(t, t) + R @ V @ R.T) @ R @ E
        likely = np.where(_fixed(equations), FLAT, _variance_of_coefficients(equations, A, g, C, 0.0))
        gain, V = _posterior(A, C, likely)
        mean = gain @ g
    return Sight(sight=E, g=g, A=A, C=C, eigenvalues=L, gain=gain, likely=likely)


def reading(equations: Equations, noise: BlockNoise, seen: Sight) -> Reading:
    """What the release says of β, unshrunken."""
    R, E = equations.basis, seen.sight
    upper = _variance_of_coefficients(equations, seen.A, seen.g, seen.C, LIKELIHOOD_DROP)
    widest = np.where(_fixed(equations), FLAT, WIDE * upper)
    gain, V = _posterior(seen.A, seen.C, widest)
    follows = _follows(equations, noise, E, gain)
    return Reading(
        seen=seen,
        own=E.T @ R.T @ noise.covariance(R @ gain @ seen.C @ gain.T @ R.T) @ R @ E,
        prior=widest,
        gain=gain,
        pull=follows @ equations.residual(seen.mean),
        freed=np.eye(len(seen.g)) - follows @ R @ seen.gain,
        V=V,
        likely=float(seen.likely[-1] / widest[-1]),
    )


def shrunken(equations: Equations, seen: Sight) -> Array:
    r"""The mean of β given the release, under a prior variance for each column that the release itself tells.

    MacKay's rule: t_j = Σ mean² / Σ (1 − V_ii / t_j) over the column's coordinates, V their covariance given the release: what
    a column shows, over how much of it is seen. Columns that do not matter drop out.
    """
    fixed, owner, prior = _fixed(equations), equations.owner, seen.likely
    for _ in range(STEPS):
        weighted = seen.A * prior
        gain = np.linalg.solve(weighted @ seen.A.T + seen.C, weighted)
        shown = np.bincount(owner, (gain.T @ seen.g) ** 2)
        told = np.bincount(owner, np.sum(gain * weighted, axis=0) / prior)
        prior = np.where(fixed, FLAT, np.maximum(shown / np.maximum(told, 1e-300), LEAST)[owner])
    return np.asarray(_posterior(seen.A, seen.C, prior)[0] @ seen.g)


def _follows(equations: Equations, noise: BlockNoise, sight: Array, gain: Array) -> Array:
    r"""B with E[U_S'E J e] = Bt, J = gain U_S' ≈ H⁻¹ the way from noise to β: B = U_S'R' E[N RJR' N], "s p".

    H̃⁻¹ = H⁻¹ − H⁻¹EH⁻¹ + …, so β̂ − β = H̃⁻¹e has the mean −H⁻¹E[EH⁻¹e] to second order, with E = R'NR and e = R'Nt.
    """
    R, J = equations.basis, gain @ sight.T
    return np.asarray(sight.T @ R.T @ noise.covariance(R @ ((J + J.T) / 2) @ R.T))


def _posterior(A: Array, C: Array, prior: Array) -> tuple[Array, Array]:
    """Gain and covariance of β ~ N(0, diag prior) after g = Aβ + N(0, C)."""
    gain = np.linalg.solve((A * prior) @ A.T + C, A * prior).T
    return np.asarray(gain), np.asarray(np.diag(prior) - gain @ (A * prior))


def _fixed(equations: Equations) -> NDArray[np.bool_]:
    """The intercept, whose prior is not learned, "q"."""
    return np.arange(equations.basis.shape[1]) < int(equations.has_intercept)


def _variance_of_coefficients(equations: Equations, A: Array, g: Array, C: Array, drop: float) -> float:
    """The largest τ² in g ~ N(constant · anything, τ²AA' + C) whose deviance is within `drop` of the least; 1 for no A."""
    grid, fixed = np.exp(np.linspace(-18, 6, 97)), _fixed(equations)
    free = A[:, ~fixed]
    if not free.size:
        return 1.0
    w, Q = np.linalg.eigh(C)
    white = (Q / np.sqrt(np.maximum(w, w.max() * 1e-14))).T
    constant = np.linalg.qr(white @ A[:, fixed])[0]
    white = white - constant @ (constant.T @ white)
    half = white @ free
    values, U = np.linalg.eigh(half @ half.T)
    variance = np.maximum(values, 0.0) * grid[:, None] + 1
    deviance = np.sum(np.log(variance) + (U.T @ (white @ g)) ** 2 / variance, axis=1)
    return float(grid[np.flatnonzero(deviance <= deviance.min() + drop)[-1]])
