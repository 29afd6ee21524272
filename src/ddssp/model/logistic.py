"""Logistic regression of a two-level column, and of a column of several levels one against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from ddssp.column import Level, Numeric
from ddssp.encoding import Block
from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.calibration import SMALLEST_SHARE, Rule, chebyshev2, exact_split
from ddssp.model.equations import Equations, equations, target_block
from ddssp.model.fit import Fit, design_of
from ddssp.model.glm import GlmFit, calibrated, mean_error
from ddssp.model.interval import Intervals, Wald, solved
from ddssp.model.solve import Shrinkage
from ddssp.moments import Moments
from ddssp.schema import Schema

Array = NDArray[np.float64]

APPROXIMATIONS = ("exact-split", "chebyshev2")
NODES = 48
SEEN = 4.0
"""Standard errors by which a class must stand out from the noise: its share enters by its logarithm."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LogisticFit(GlmFit):
    """A fitted logistic regression: P(y = second of `classes`) = σ(s)."""

    model: ClassVar[str] = "logistic"
    classes: tuple[Level, Level]

    def predict_proba(self, data: Any) -> Array:
        """Probability of each class, "n 2"."""
        chance = expit(design_of(data, self.encoding, self.schema) @ self.theta)
        return np.stack([1 - chance, chance], axis=1)

    def predict(self, data: Any) -> NDArray[Any]:
        """The more probable class of each row."""
        return np.asarray(np.asarray(self.classes)[np.argmax(self.predict_proba(data), axis=1)])

    @property
    def share(self) -> float:
        """Share of the second class, from the release."""
        return float(np.clip((1 + self.equations.mean) / 2, 0.0, 1.0))

    @property
    def facts(self) -> dict[str, float | None]:
        return {"records": self.equations.total, "share": self.share}

    @cached_property
    def seen(self) -> bool:
        """Whether the rarer class stands out from the noise; of one that does not, nothing is identified."""
        return bool(1 - abs(self.equations.mean) > SEEN * mean_error(self.equations))

    def response(self, s: Array, variance: float) -> tuple[Array, Array]:
        """E tanh(s/2), a logistic curve over a normal, and its slope."""
        kappa = np.sqrt(1 + np.pi * variance / 8)
        g = np.tanh(s / (2 * kappa))
        return g, (1 - g * g) / (2 * kappa)

    def information(self) -> Array:
        r"""n E[σ'(s) xx'] with x Gaussian within classes (Stein's identity).

        Within a class of mean μ: E[f xx'] = E f (W + μμ') + E f' (Wθμ' + μθ'W) + E f'' Wθθ'W, f = σ'.
        """
        e, found = self.equations, self._calibration
        n, m, V = e.total, e.mean, self.explained
        shares = np.clip([(1 - m) / 2, (1 + m) / 2], 1e-6, 1.0)
        means = [(e.H[0] - e.b) / (2 * n * shares[0]), (e.H[0] + e.b) / (2 * n * shares[1])]
        W = e.H / n - sum(p * np.outer(u, u) for p, u in zip(shares, means, strict=True))
        Wtheta = found.factor * (W @ self.inference.seen.mean)
        r2 = min(V / max(1 - m * m, 1e-6), 1.0)
        x, w = np.polynomial.hermite_e.hermegauss(NODES)
        J = np.zeros_like(W)
        for p, u, centre in zip(shares, means, (m - 2 * r2 * shares[1], m + 2 * r2 * shares[0]), strict=True):
            q = expit(found.constant + found.factor * (centre + np.sqrt(V * (1 - r2)) * x))
            f = q * (1 - q)
            a0, a1, a2 = (float(w @ v) / float(w.sum()) for v in (f, f * (1 - 2 * q), f * (1 - 6 * f)))
            both = np.outer(Wtheta, u)
            J += p * (a0 * (W + np.outer(u, u)) + a1 * (both + both.T) + a2 * np.outer(Wtheta, Wtheta))
        return np.asarray(n * J)


@dataclass(frozen=True, kw_only=True, eq=False)
class MulticlassFit(Fit):
    """One logistic regression per level of the target, each against the rest; probabilities are scaled to add up to 1.

    Names of coefficients are `level: name`.
    """

    model: ClassVar[str] = "logistic"
    fits: tuple[LogisticFit, ...]
    classes: tuple[Level, ...]

    @property
    def coef(self) -> dict[str, float]:
        return {f"{c}: {n}": v for c, fit in zip(self.classes, self.fits, strict=True) for n, v in fit.coef.items()}

    @cached_property
    def intervals(self) -> Intervals:
        found = [fit.intervals for fit in self.fits]
        return Intervals(
            names=tuple(f"{c}: {n}" for c, i in zip(self.classes, found, strict=True) for n in i.names),
            estimate=np.concatenate([i.estimate for i in found]),
            sampling=np.concatenate([i.sampling for i in found]),
            privacy=np.concatenate([i.privacy for i in found]),
        )

    @property
    def not_normal(self) -> tuple[str, ...]:
        return tuple(f"{c}: {n}" for c, fit in zip(self.classes, self.fits, strict=True) for n in fit.not_normal)

    def wald(self, names: Sequence[str]) -> Wald:
        for c, fit in zip(self.classes, self.fits, strict=True):
            if all(name.startswith(f"{c}: ") for name in names):
                return fit.wald([name.removeprefix(f"{c}: ") for name in names])
        raise ValueError("names of a Wald test must be coefficients of one level of the target, such as 'level: name'.")

    def predict_proba(self, data: Any) -> Array:
        """Probability of each class, "n m"."""
        z = design_of(data, self.encoding, self.schema)
        log_chance = log_expit(np.stack([z @ fit.theta for fit in self.fits], axis=1))
        chance = np.exp(log_chance - log_chance.max(axis=1, keepdims=True))
        return np.asarray(chance / chance.sum(axis=1, keepdims=True))

    def predict(self, data: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        return np.asarray(np.asarray(self.classes)[np.argmax(self.predict_proba(data), axis=1)])

    @property
    def facts(self) -> dict[str, float | None]:
        shares = {f"share of {c}": fit.share for c, fit in zip(self.classes, self.fits, strict=True)}
        return {"records": self.fits[0].equations.total, **shares}


def logistic(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    approximation: str = "exact-split",
    radius: float = 6.0,
    shrinkage: Shrinkage | str | None = None,
    noise: BlockNoise | None = None,
) -> LogisticFit | MulticlassFit:
    """The logistic regression of `target` on `features` (default: all other columns); always with an intercept.

    Args:
        approximation: "exact-split" (calibrated probabilities) or "chebyshev2" (the paper's, on [−radius, radius]).
    """
    if approximation not in APPROXIMATIONS:
        raise ValueError(f"approximation must be one of {', '.join(APPROXIMATIONS)}, got {approximation!r}.")
    split: Rule = exact_split if approximation == "exact-split" else chebyshev2(radius)
    block = target_block(moments.encoding, target)
    if None not in moments.encoding.slices:
        raise ValueError("logistic regression needs an intercept: its class shares are not among these moments.")

    def fit(response: tuple[Array, float], classes: tuple[Level, Level]) -> LogisticFit:
        e = equations(moments, target, features=features, response=response, noise=noise)
        how = e.shrinkage(shrinkage, chance=True)
        rule = partial(exact_split, smallest_share=_told(e)) if split is exact_split else split
        theta, variance = calibrated(e, solved(e, how), rule)
        return LogisticFit(
            target=target,
            theta=theta,
            encoding=e.encoding,
            schema=schema,
            shrinkage=how,
            equations=e,
            rule=rule,
            variance=variance,
            classes=classes,
        )

    responses, levels = indicators(block, schema)
    if len(levels) == 2:
        return fit(responses[1], (levels[0], levels[1]))
    fits = tuple(fit(r, (False, True)) for r in responses)
    first = fits[0]
    return MulticlassFit(
        target=target,
        theta=np.stack([f.theta for f in fits]),
        encoding=first.encoding,
        schema=schema,
        shrinkage=first.shrinkage,
        equations=first.equations,
        fits=fits,
        classes=levels,
    )


def _told(e: Equations) -> float:
    """The smallest share of a class that the release can tell: the standard error of one."""
    return min(max(mean_error(e) / 2, SMALLEST_SHARE), 0.5)


def indicators(block: Block, schema: Schema) -> tuple[list[tuple[Array, float]], tuple[Level, ...]]:
    """For each level of the target, ±1 for having it or not as a linear function of its block's rows; and the levels."""
    column = schema.resolved[block.column or ""]
    if isinstance(column, Numeric) or (block.is_scalar and len(block.squares) > 1):
        raise ValueError(
            f"target {block.column!r} is a number, not a class; a target to classify must be boolean or categorical."
        )
    if block.is_scalar:
        last = float(np.sign(block.A[0, -1]))
        return [(np.array([-last]), 0.0), (np.array([last]), 0.0)], column.all_levels
    if not block.is_table:
        raise ValueError(f"target {block.column!r} is encoded by vectors, which do not tell its levels apart; choose another.")
    m = block.rows
    return [(2 * np.eye(m)[i], 2 / m - 1) for i in range(m)], column.all_levels
