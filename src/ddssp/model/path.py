r"""Ridge and elastic-net paths from moments.

    minimise  (yy − 2β'b + β'Hβ)/2n + α(λ‖β‖₁ + (1 − λ)/2 ‖β‖²)      over the encoding's coefficients, the intercept free

which is scikit-learn's objective on the encoded records Z; λ is its `l1_ratio`. With an L1 part by coordinate descent on Z'Z,
at λ = 0 from one eigendecomposition. Moments are centred first (the intercept drops out) and projected to h ≥ 0.

Which α: the smallest estimate of the risk β'Hβ − 2β'b of the exact data. The noisy moments understate it for a β that was
fitted to the same noise, by 2 tr[(∂β/∂b) C] with C the covariance of e_y − Eβ; so risk = β'H̃β − 2β'b̃ + 2 tr[(∂β/∂b) C].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.equations import Equations, equations
from ddssp.model.fit import Fit, design_of
from ddssp.model.interval import Intervals
from ddssp.model.linear import scalar_target
from ddssp.model.scale import original_names, original_scale
from ddssp.model.solve import FLOOR_SHARE
from ddssp.moments import Moments
from ddssp.schema import Schema

Array = NDArray[np.float64]

STEPS = 60
"""Penalties of a path."""

SPAN, RIDGE_SPAN = 1e-3, 1e-4
"""The smallest penalty of a path over its largest."""

ROUNDS = 500
"""Of four sweeps each, at most, for one penalty."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PenalisedFit(Fit):
    """One point of a path."""

    model: ClassVar[str] = "elastic-net"
    block: Block
    alpha: float
    l1_ratio: float

    @property
    def title(self) -> str:
        return f"{'Ridge regression' if self.l1_ratio == 0 else 'Elastic net'} of {self.target}"

    @property
    def coef(self) -> dict[str, float]:
        values = self.block.half * (original_scale(self.encoding) @ self.theta)
        out = dict(zip(original_names(self.encoding), values.tolist(), strict=True))
        out["intercept"] += self.block.centre
        return out

    @property
    def not_covered(self) -> str:
        return "no standard errors: a penalised fit is biased on purpose; fit the linear model for intervals."

    @property
    def intervals(self) -> Intervals:
        self._require_intervals()
        raise AssertionError

    @property
    def facts(self) -> dict[str, float | None]:
        n = None if self.equations is None else self.equations.total
        return {"records": n, "alpha": self.alpha, "l1_ratio": self.l1_ratio}

    def predict(self, data: Any) -> Array:
        """The target's expected value for each row of a frame, on the original scale."""
        z = design_of(data, self.encoding, self.schema)
        return np.asarray(self.block.centre + self.block.half * (z @ self.theta))


@dataclass(frozen=True, kw_only=True, eq=False)
class Path:
    """Fits along falling penalties.

    Args:
        alphas: "k", falling.
        thetas: "k p", coefficients of the encoding, for a target on [−1, 1].
        risks: "k", estimated risk per record; None where the noise is not known.
    """

    target: str
    alphas: Array
    thetas: Array
    risks: Array | None
    l1_ratio: float
    encoding: Encoding
    block: Block
    schema: Schema
    equations: Equations
    private: bool = True

    @property
    def best(self) -> int:
        """Where the estimated risk is least; without one, the penalty nearest to the public floor."""
        if self.risks is not None:
            return int(np.argmin(self.risks))
        return int(np.argmin(np.abs(np.log(self.alphas / FLOOR_SHARE))))

    def fit(self, step: int | None = None) -> PenalisedFit:
        """One point of the path; the best by default."""
        i = self.best if step is None else step
        return PenalisedFit(
            target=self.target,
            theta=self.thetas[i],
            encoding=self.encoding,
            schema=self.schema,
            shrinkage=None,
            equations=self.equations,
            block=self.block,
            alpha=float(self.alphas[i]),
            l1_ratio=self.l1_ratio,
            private=self.private,
        )


def path(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    l1_ratio: float = 0.5,
    alphas: Sequence[float] | None = None,
    noise: BlockNoise | None = None,
) -> Path:
    """The elastic-net path of `target` on `features` (default: all other columns); l1_ratio = 0 is ridge, 1 the lasso."""
    if not (_is_penalty(l1_ratio) and l1_ratio <= 1):
        raise ValueError(f"l1_ratio must lie between 0 (ridge) and 1 (lasso), got {l1_ratio!r}.")
    block = scalar_target(moments.encoding, target)
    if None not in moments.encoding.slices:
        raise ValueError("a penalised path needs an intercept, which these moments do not have.")
    e = equations(moments, target, features=features, noise=noise)
    mean, raw, b = centred(e)
    H = _projected(raw)
    grid = _grid(H, b, l1_ratio) if alphas is None else _falling(alphas)
    slopes, gains = _ridge(H, b, grid) if l1_ratio == 0 else _elastic_net(H, b, grid, l1_ratio)
    risks = None if noise is None else np.array([_risk(e, raw, b, mean, s, g) for s, g in zip(slopes, gains, strict=True)])
    constants = e.mean - slopes @ mean
    return Path(
        target=target,
        alphas=grid,
        thetas=np.column_stack([constants, slopes]),
        risks=risks,
        l1_ratio=l1_ratio,
        encoding=e.encoding,
        block=block,
        schema=schema,
        equations=e,
    )


def centred(e: Equations) -> tuple[Array, Array, Array]:
    """Means, covariance and covariance with the response of all features but the intercept, per record."""
    n = e.total
    mean = e.H[0, 1:] / n
    return mean, e.H[1:, 1:] / n - np.outer(mean, mean), e.b[1:] / n - mean * e.mean


def _projected(H: Array) -> Array:
    """The nearest H with h ≥ 0."""
    h, U = np.linalg.eigh(H)
    return np.asarray((U * np.maximum(h, 0.0)) @ U.T)


def coordinate_descent(H: Array, b: Array, l1: float, l2: float, start: Array, *, tolerance: float = 1e-12) -> Array:
    """argmin β'Hβ/2 − β'b + l1‖β‖₁ + l2/2‖β‖², from `start`.

    Sweeps find which coefficients are 0; then the others solve a linear system, and if no sign changes and no zero wants to
    leave, that is the minimum. Where H leaves it undetermined, sweeps go on until no step exceeds `tolerance`.
    """
    beta = start.copy()
    for _ in range(ROUNDS):
        if _swept(H, b, l1, l2, beta) <= tolerance:
            break
        if (exact := _solved(H, b, l1, l2, beta)) is not None:
            return exact
    return beta


def _swept(H: Array, b: Array, l1: float, l2: float, beta: Array) -> float:
    """Four sweeps over all coefficients, in place; returns the largest step of the last one."""
    left = b - H @ beta
    for _ in range(4):
        largest = 0.0
        for j, h in enumerate(np.diag(H)):
            pull = left[j] + h * beta[j]
            new = np.sign(pull) * max(abs(pull) - l1, 0.0) / (h + l2) if h + l2 > 0 else 0.0
            if step := new - beta[j]:
                left -= H[:, j] * step
                beta[j] = new
                largest = max(largest, abs(step))
    return largest


def _solved(H: Array, b: Array, l1: float, l2: float, beta: Array) -> Array | None:
    """The minimum if exactly the coefficients with a sign in `beta` have that sign in it, else None."""
    active = np.flatnonzero(beta)
    signs = np.sign(beta[active])
    try:
        found = np.linalg.solve(H[np.ix_(active, active)] + l2 * np.eye(len(active)), b[active] - l1 * signs)
    except np.linalg.LinAlgError:
        return None
    out = np.zeros_like(beta)
    out[active] = found
    gradient = b - H @ out - l2 * out
    holds = np.all(found * signs > 0) and np.abs(gradient).max(initial=0.0) <= l1 * (1 + 1e-9) + 1e-12
    return out if holds else None


def _grid(H: Array, b: Array, l1_ratio: float) -> Array:
    """Penalties from the one that leaves nothing (ridge: ten times the largest eigenvalue) downwards."""
    largest = np.abs(b).max(initial=0.0) / l1_ratio if l1_ratio else 10 * np.linalg.norm(H, 2) if len(b) else 1.0
    return np.asarray(max(float(largest), 1e-9) * np.geomspace(1, SPAN if l1_ratio else RIDGE_SPAN, STEPS))


def penalties(alpha: float | None) -> list[float] | None:
    """The path of one penalty, or None where the release is to choose it."""
    if alpha is None:
        return None
    if not _is_penalty(alpha):
        raise ValueError(
            f"alpha must be a finite number of 0 or more, got {alpha!r}; leave it out for the least estimated risk."
        )
    return [alpha]


def _is_penalty(alpha: object) -> bool:
    return isinstance(alpha, Real) and 0 <= float(alpha) < np.inf


def _falling(alphas: Sequence[float]) -> Array:
    if not np.iterable(alphas) or not len(alphas) or not all(map(_is_penalty, alphas)):
        raise ValueError("alphas must be at least one finite penalty, none below 0.")
    return np.sort(np.asarray(alphas, np.float64))[::-1]


def _ridge(H: Array, b: Array, alphas: Array) -> tuple[Array, list[Array]]:
    """β at each α, and ∂β/∂b = (H + α)⁻¹."""
    h, U = np.linalg.eigh(H)
    live = h > h.max(initial=0.0) * len(h) * 1e-13
    gains = [(U / np.where(live | (a > 0), h + a, np.inf)) @ U.T for a in alphas]
    return np.array([g @ b for g in gains]).reshape(len(alphas), len(b)), gains


def _elastic_net(H: Array, b: Array, alphas: Array, l1_ratio: float) -> tuple[Array, list[Array]]:
    """β at each α, warm started, and ∂β/∂b = (H_AA + α(1 − λ))⁻¹ on the active coefficients A."""
    beta, slopes, gains = np.zeros(len(b)), [], []
    for a in alphas:
        beta = coordinate_descent(H, b, a * l1_ratio, a * (1 - l1_ratio), beta)
        active = np.flatnonzero(beta)
        gain = np.zeros_like(H)
        ix = np.ix_(active, active)
        gain[ix] = np.linalg.pinv(H[ix] + a * (1 - l1_ratio) * np.eye(len(active)), hermitian=True)
        slopes.append(beta)
        gains.append(gain)
    return np.array(slopes).reshape(len(alphas), len(b)), gains


def _risk(e: Equations, H: Array, b: Array, mean: Array, slopes: Array, gain: Array) -> float:
    """Estimated risk per record of one point of the path."""
    assert e.noise is not None
    t = e.residual(np.append(e.mean - mean @ slopes, slopes))
    C = e.basis.T @ e.noise.covariance(np.outer(t, t)) @ e.basis / e.total**2
    centring = np.column_stack([-mean, np.eye(len(mean))])
    return float(slopes @ H @ slopes - 2 * slopes @ b + 2 * np.sum(gain * (centring @ C @ centring.T)))
