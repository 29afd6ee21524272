"""Poisson regression of a count, from second moments and the declared bounds of the count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block
from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model import calibration
from ddssp.model.equations import equations
from ddssp.model.fit import design_of
from ddssp.model.glm import GlmFit, calibrated
from ddssp.model.interval import solved
from ddssp.model.linear import scalar_target
from ddssp.model.solve import Shrinkage
from ddssp.moments import Moments
from ddssp.schema import Schema

Array = NDArray[np.float64]


class HiddenMeanError(ValueError):
    """The noisy mean of a count is not positive."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PoissonFit(GlmFit):
    """A fitted Poisson regression: E y = exp(s).

    `equations` are those of y/half, so that the response has the scale of the encoding; the rest goes into the intercept.
    """

    model: ClassVar[str] = "poisson"
    block: Block

    def predict(self, data: Any) -> Array:
        """The expected count of each row, within the declared bounds."""
        s = design_of(data, self.encoding, self.schema) @ self.theta
        low, high = self.block.centre - self.block.half, self.block.centre + self.block.half
        return np.asarray(np.clip(np.exp(np.minimum(s, np.log(high) + 1)), low, high))

    @property
    def mean(self) -> float:
        """The count's mean, from the release."""
        return self.block.half * self.equations.mean

    @property
    def dispersion(self) -> float:
        """φ = E Var(y|x) / ȳ with Var E(y|x) = ȳ²(e^v − 1), v = V/ȳ²; at least 0; for counts of a Poisson model 1."""
        e = self.equations
        variance = e.yy / e.total - e.mean**2
        left = variance - e.mean**2 * float(np.expm1(min(self.explained / e.mean**2, 30.0)))
        return max(self.block.half * left / e.mean, 0.0)

    @property
    def facts(self) -> dict[str, float | None]:
        return {"records": self.equations.total, "mean": self.mean, "dispersion": self.dispersion}

    def response(self, s: Array, variance: float) -> tuple[Array, Array]:
        """E e^s, as a share of half the count's range, and its slope."""
        g = np.exp(np.minimum(s + variance / 2, 50.0)) / self.block.half
        return g, g

    def information(self) -> Array:
        r"""n E[e^s xx'] / φ with x Gaussian: E[e^s xx'] = ȳ(Σ + νν'), ν = μ + Σθ = E[xy]/ȳ; φ the dispersion."""
        e = self.equations
        mu, nu = e.H[0] / e.total, e.b / (e.total * e.mean)
        J = e.H / e.total - np.outer(mu, mu) + np.outer(nu, nu)
        return np.asarray(e.total * self.mean / max(self.dispersion, 1e-3) * J)


def poisson(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    shrinkage: Shrinkage | str | None = None,
    noise: BlockNoise | None = None,
) -> PoissonFit:
    """The Poisson regression of `target` on `features` (default: all other columns); always with an intercept.

    Edge cases: the target's declared bounds must start at 0 or above, and its noisy mean must be positive.
    """
    block = scalar_target(moments.encoding, target)
    low = block.centre - block.half
    if low < -1e-9 * block.half:
        raise ValueError(f"target {target!r} may be negative (declared from {low:g}); a Poisson target must be a count.")
    if None not in moments.encoding.slices:
        raise ValueError("Poisson regression needs an intercept: the mean count is not among these moments.")
    e = equations(moments, target, features=features, response=(np.ones(1), block.centre / block.half), noise=noise)
    if e.mean <= 0:
        raise HiddenMeanError(f"target {target!r} has a mean that the noise hides; a Poisson fit needs a positive one.")
    how, rule = e.shrinkage(shrinkage), calibration.poisson(block.half)
    theta, variance = calibrated(e, solved(e, how), rule)
    return PoissonFit(
        target=target,
        theta=theta,
        encoding=e.encoding,
        schema=schema,
        shrinkage=how,
        equations=e,
        rule=rule,
        variance=variance,
        block=block,
    )
