"""Intervals: how sure a coefficient is, sampling error and privacy error apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.equations import Equations
from ddssp.model.reading import WIDE, Reading, Sight, reading, shrunken, sight
from ddssp.model.solve import Shrinkage

Array = NDArray[np.float64]

PRIOR_SHARE = 1 / 10
"""A coefficient is identified if what rests on the prior, at the upper limit of τ, adds at most this share to its noise
variance: a bias of one standard deviation of the prior then still leaves 94 % of 95."""

OWN_SHARE = 1 / 6
"""... and if its own noise, which multiplies the noise of H, would add at most this share to it."""

PULL_SHARE = 1 / 2
"""... and if its estimate was moved by at most this share of its standard error to free it of bias."""

FEW = 1 / 20
"""... and if it is not one of fewer than this share of all: which of them pass is then the noise's choice, and it passes where
it happens to be small, so that such intervals cover more often than they say."""


class IntervalError(ValueError):
    """An interval that the release cannot support, in one sentence."""


def require_level(level: Any) -> None:
    """Refuses what is no level of an interval."""
    if not (isinstance(level, Real) and 0 < float(level) < 1):
        raise ValueError(f"level must lie strictly between 0 and 1, got {level!r}; 0.95 is a usual choice.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Intervals:
    """Estimates with both parts of their standard errors, on the original scale.

    Args:
        names: one per coefficient.
        estimate: not shrunken; nan where the noise leaves the coefficient unidentified.
        sampling: standard error of the exact-data coefficient around the population's.
        privacy: standard error of the estimate around the exact-data coefficient; inf where it is not identified.
    """

    names: tuple[str, ...]
    estimate: Array
    sampling: Array
    privacy: Array

    @property
    def identified(self) -> NDArray[np.bool_]:
        return np.isfinite(self.privacy)

    @property
    def stderr(self) -> Array:
        return np.hypot(self.sampling, self.privacy)

    @property
    def z(self) -> Array:
        return np.where(self.identified, self.estimate / np.where(self.stderr > 0, self.stderr, 1.0), np.nan)

    @property
    def p(self) -> Array:
        """P > |z|, two-sided."""
        return np.asarray(2 * ndtr(-np.abs(self.z)))

    def limits(self, level: float = 0.95, *, privacy_only: bool = False) -> Array:
        """Ends of the intervals, "k 2"; ±inf where a coefficient is not identified."""
        require_level(level)
        half = ndtri((1 + level) / 2) * (self.privacy if privacy_only else self.stderr)
        centre = np.where(self.identified, self.estimate, 0.0)
        return np.stack([centre - half, centre + half], axis=1)

    def rescaled(self, factor: float, constant: float) -> Intervals:
        """The same of factor · coefficient, `constant` added to the intercept."""
        shift = np.array([constant if name == "intercept" else 0.0 for name in self.names])
        size = abs(factor)
        return replace(
            self, estimate=factor * self.estimate + shift, sampling=size * self.sampling, privacy=size * self.privacy
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Wald:
    """A joint test that several coefficients are 0."""

    names: tuple[str, ...]
    statistic: float
    df: int

    @property
    def p(self) -> float:
        return float(chdtrc(self.df, self.statistic))

    def __str__(self) -> str:
        return f"Wald test of {', '.join(self.names)} = 0: χ² = {self.statistic:.4g}, df = {self.df}, P > χ² = {self.p:.4g}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """Everything that can be said of one regression's coefficients from the release and its known noise."""

    equations: Equations
    noise: BlockNoise

    @cached_property
    def seen(self) -> Sight:
        return sight(self.equations, self.noise)

    @cached_property
    def reading(self) -> Reading:
        return reading(self.equations, self.noise, self.seen)

    @property
    def shrunken(self) -> Array:
        """β for prediction, each column shrunken by itself."""
        return shrunken(self.equations, self.seen)

    @cached_property
    def explained(self) -> float:
        """Sum of squares that the features explain, β'Hβ: g'Λ⁻¹g less what the noise adds to it, tr Λ⁻¹C."""
        return float(np.sum((self.seen.g**2 - np.diag(self.seen.C)) / self.seen.eigenvalues))

    @property
    def freedom(self) -> float:
        """n̂ less the number of coefficients."""
        return max(self.equations.total - int(np.linalg.matrix_rank(self.equations.readout)), 1.0)

    @cached_property
    def rss(self) -> float:
        """Residual sum of squares, at least one standard deviation of its own noise t'Nt."""
        t = self.equations.residual(self.seen.mean)
        own = float(np.sqrt(max(float(t @ self.noise.covariance(np.outer(t, t)) @ t), 0.0)))
        return max(self.equations.yy - self.explained, own)

    @property
    def residual_variance(self) -> float:
        return self.rss / self.freedom

    @cached_property
    def intervals(self) -> Intervals:
        r"""For each coefficient c'β: privacy w'Cw plus what rests on the prior, sampling s² w'Λw.

        Not identified: the prior adds more than a tenth to the noise variance; its own noise would add more than a sixth;
        its bias was more than half its standard error; the standard error is wider than the coefficient of a feature that
        would move the response over half its range; or under a twentieth of all pass this.
        """
        c = self.equations.readout
        found = self.reading.read(c)
        privacy = np.sqrt(found.variance)
        known = (found.prior <= WIDE * PRIOR_SHARE * found.noise) & (found.own <= OWN_SHARE * found.noise)
        known &= (np.abs(found.pull) <= PULL_SHARE * privacy) & (privacy <= np.linalg.norm(c, axis=1)) & (privacy > 0)
        known &= known.mean() >= FEW
        sampling = np.sqrt(self.residual_variance * (found.weights**2 @ self.seen.eigenvalues))
        return Intervals(
            names=self.equations.names,
            estimate=np.where(known, found.estimate, np.nan),
            sampling=np.where(known, sampling, np.inf),
            privacy=np.where(known, privacy, np.inf),
        )

    def wald(self, names: Sequence[str], *, constant: float = 0.0) -> Wald:
        """Tests that all of `names` are 0, sampling and privacy error together; `constant` is added to the intercept."""
        rows = self.rows(names)
        estimate, privacy, weights = self.reading.read_jointly(self.equations.readout[rows])
        estimate = estimate + np.array([constant if name == "intercept" else 0.0 for name in names])
        covariance = privacy + self.residual_variance * (weights * self.seen.eigenvalues) @ weights.T
        statistic = float(estimate @ np.linalg.solve(covariance, estimate))
        return Wald(names=tuple(names), statistic=statistic, df=len(rows))

    def rows(self, names: Sequence[str]) -> list[int]:
        """Where `names` are among the coefficients; each must be identified."""
        if not names:
            raise ValueError("names must hold at least one coefficient to test.")
        if twice := next((name for name in names if list(names).count(name) > 1), None):
            raise ValueError(f"names must be different coefficients, got {twice!r} more than once; leave the others out.")
        for name in names:
            if name not in self.equations.names:
                has = ", ".join(self.equations.names)
                raise ValueError(f"names must be coefficients of the fit, got {name!r}; it has {has}.")
            if not self.intervals.identified[self.equations.names.index(name)]:
                raise IntervalError(f"coefficient {name!r} is not identified: the noise hides it; leave it out of the test.")
        return [self.equations.names.index(name) for name in names]


def solved(equations: Equations, how: Shrinkage) -> Array:
    """β, shrunken as asked."""
    if how is not Shrinkage.COLUMNS:
        return equations.solution(how)
    assert equations.noise is not None
    return Inference(equations=equations, noise=equations.noise).shrunken
