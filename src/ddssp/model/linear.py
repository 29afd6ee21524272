"""Linear regression of any column on any others, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.equations import equations, target_block
from ddssp.model.fit import Fit, design_of
from ddssp.model.interval import Inference, Intervals, Wald
from ddssp.model.scale import original_names, original_scale
from ddssp.model.solve import Shrinkage
from ddssp.moments import Moments
from ddssp.schema import Schema

__all__ = ["LinearFit", "design_of", "linear", "scalar_target"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit(Fit):
    """A fitted linear regression.

    Args:
        theta: coefficients of the encoding, for a target on [−1, 1].
        block: the target's block.
        known: what the release says of the coefficients unshrunken, for a target on [−1, 1]; None where the noise is not known.
    """

    model: ClassVar[str] = "linear"
    block: Block
    known: Inference | None = None

    @property
    def coef(self) -> dict[str, float]:
        names, T = (
            (original_names(self.encoding), original_scale(self.encoding))
            if self.equations is None
            else (self.equations.names, self.equations.scale)
        )
        out = dict(zip(names, (self.block.half * (T @ self.theta)).tolist(), strict=True))
        if "intercept" in out:
            out["intercept"] += self.block.centre
        return out

    @property
    def inference(self) -> Inference:
        self._require_intervals()
        assert self.known is not None
        return self.known

    @cached_property
    def intervals(self) -> Intervals:
        return self.inference.intervals.rescaled(self.block.half, self.block.centre)

    def wald(self, names: Sequence[str]) -> Wald:
        return self.inference.wald(names, constant=self.block.centre / self.block.half)

    @cached_property
    def rss(self) -> float:
        """Residual sum of squares on the original scale, from the release: t'Gt, corrected for noise where that is known."""
        if self.not_covered is None:
            return self.block.half**2 * self.inference.rss
        assert self.equations is not None
        t = self.equations.response.copy()
        t[self.equations.features] = -self.theta
        return self.block.half**2 * max(float(t @ self.equations.moments.matrix @ t), 0.0)

    @property
    def residual_variance(self) -> float:
        """s² on the original scale."""
        assert self.equations is not None
        return self.rss / max(self.equations.total - self._parameters, 1.0)

    @property
    def r2(self) -> float:
        """1 − RSS/TSS, within [0, 1]; TSS around the mean if there is an intercept, around 0 if not."""
        assert self.equations is not None
        e = self.equations
        tss = e.yy - (e.total * e.mean**2 if e.has_intercept else 0.0)
        return float(np.clip(1 - self.rss / (self.block.half**2 * tss), 0.0, 1.0)) if tss > 0 else 0.0

    @property
    def log_likelihood(self) -> float | None:
        """Of normal residuals; None where nothing is left of the residual, or no intercept block tells n."""
        assert self.equations is not None
        n = self.equations.total
        if self.rss <= 0 or None not in self.encoding.slices:
            return None
        return float(-n / 2 * (np.log(2 * np.pi * self.rss / n) + 1))

    @property
    def facts(self) -> dict[str, float | None]:
        if self.equations is None:
            return {"records": None}
        found, k = self.log_likelihood, self._parameters
        return {
            "records": self.equations.total,
            "r2": self.r2,
            "residual_variance": self.residual_variance,
            "aic": None if found is None else 2 * k - 2 * found,
            "bic": None if found is None else float(np.log(self.equations.total)) * k - 2 * found,
        }

    @cached_property
    def _parameters(self) -> int:
        assert self.equations is not None
        return int(np.linalg.matrix_rank(self.equations.readout))

    def predict(self, data: Any) -> Array:
        """The target's expected value for each row of a frame, on the original scale."""
        z = design_of(data, self.encoding, self.schema)
        return np.asarray(self.block.centre + self.block.half * (z @ self.theta))


def linear(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    intercept: bool = True,
    shrinkage: Shrinkage | str | None = None,
    noise: BlockNoise | None = None,
) -> LinearFit:
    """The regression of `target` on `features` (default: all other columns).

    Edge cases: `shrinkage` defaults to one of its own for each column where the noise is known, to a public eigenvalue floor
    where it is not. Without an intercept the regression goes through the origin of the original scale.

    Args:
        noise: the noise of `moments`, for intervals.
    """
    block = scalar_target(moments.encoding, target)
    constant = 0.0 if intercept else block.centre / block.half
    e = equations(moments, target, features=features, intercept=intercept, response=(np.ones(1), constant), noise=noise)
    how, known = e.shrinkage(shrinkage, linear=True), None if e.noise is None else Inference(equations=e, noise=e.noise)
    beta = known.shrunken if known and how is Shrinkage.COLUMNS else e.solution(how)
    return LinearFit(
        target=target,
        theta=e.theta(beta) - e.response[e.features],
        encoding=e.encoding,
        block=block,
        schema=schema,
        shrinkage=how,
        equations=e,
        known=known,
    )


def scalar_target(encoding: Encoding, target: str) -> Block:
    """The target's block, which must be a number."""
    block = target_block(encoding, target)
    if not block.is_scalar:
        raise ValueError(f"target {target!r} is categorical; it must be numeric, ordinal or boolean.")
    return block
