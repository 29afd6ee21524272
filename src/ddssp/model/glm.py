r"""Generalised linear models from second moments: least squares, calibrated (see `calibration`).

θ = k β + α e₀ with β the least-squares coefficients. For prediction β is the shrunken one and V = β'Σβ its own variance, so
that a fit that knows little also says little. For intervals β is not shrunken, and the noise of ȳ and V enters through (α, k):

    d(c'θ) = k a'Nt + Σ_m (c'β ∂k/∂m + c₀ ∂α/∂m) dm,   m = ȳ, V

with a'Nt the noise of c'β, dȳ = (r − ȳe₀)'Ne₀/n and dV = [(r − ȳe₀)'N(r − ȳe₀) − t'Nt − V e₀'Ne₀]/n: all linear in N.
Sampling error is that of maximum likelihood: the inverse information, with features Gaussian (within classes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.adequacy import Predictor, adequate
from ddssp.model.calibration import Calibration, Rule
from ddssp.model.equations import Equations
from ddssp.model.fit import Fit
from ddssp.model.interval import Inference, Intervals, Wald

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class GlmFit(Fit):
    """A generalised linear model; `theta` gives the linear predictor s of an encoded record.

    Args:
        rule: how least squares was calibrated.
        variance: V of the shrunken least-squares fit.
    """

    equations: Equations
    rule: Rule
    variance: float

    @property
    def coef(self) -> dict[str, float]:
        return dict(zip(self.equations.names, (self.equations.scale @ self.theta).tolist(), strict=True))

    @cached_property
    def inference(self) -> Inference:
        """What the release says of the least-squares coefficients behind it."""
        self._require_intervals()
        assert self.equations.noise is not None
        return Inference(equations=self.equations, noise=self.equations.noise)

    @cached_property
    def intervals(self) -> Intervals:
        found, linear = self.inference.reading.read(self.equations.readout), self.inference.intervals
        calibration = self._calibration
        estimate = calibration.factor * found.estimate + calibration.constant * self._constants
        privacy = np.sqrt(np.maximum(self._privacy_variance(found.estimate, found.variance, found.weights), 0.0))
        sampling = np.sqrt(np.sum(self._sampling_roots() ** 2, axis=1))
        known = linear.identified & adequate(self.equations, self._predictor, np.hypot(sampling, privacy)) & self.seen
        return Intervals(
            names=linear.names,
            estimate=np.where(known, estimate, np.nan),
            sampling=np.where(known, sampling, np.inf),
            privacy=np.where(known, privacy, np.inf),
        )

    @property
    def not_normal(self) -> tuple[str, ...]:
        unserved = self.inference.intervals.identified & ~self.intervals.identified & self.seen
        return tuple(name for name, is_so in zip(self.equations.names, unserved, strict=True) if is_so)

    @property
    def seen(self) -> bool:
        """Whether the release tells the response's mean well enough for any coefficient to be read."""
        return True

    def response(self, s: Array, variance: float) -> tuple[Array, Array]:
        """Mean of the response and its slope where the predictor is N(s, variance)."""
        raise NotImplementedError

    @property
    def _predictor(self) -> Predictor:
        c, e = self._calibration, self.equations
        return Predictor(
            beta=self.inference.seen.mean,
            factor=c.factor,
            mean=c.constant + c.factor * e.mean,
            variance=c.factor**2 * self.explained,
            response=self.response,
        )

    def information(self) -> Array:
        """Information about β-space coefficients in n̂ records, "q q"."""
        raise NotImplementedError

    def _sampling_roots(self) -> Array:
        """B with BB' the sampling covariance of the coefficients: the inverse information in the seen directions, "k s"."""
        sight = self.inference.seen.sight
        J = sight.T @ self.information() @ sight
        w, Q = np.linalg.eigh((J + J.T) / 2)
        return np.asarray(self.equations.readout @ sight @ Q / np.sqrt(np.maximum(w, 1e-9 * w.max(initial=1.0))))

    def wald(self, names: Sequence[str]) -> Wald:
        """Tests that all of `names` are 0: that they are 0 in least squares, whose multiple they are."""
        if "intercept" in names:
            raise ValueError("names of a Wald test must not hold the intercept of this model; leave it out.")
        return self.inference.wald(names)

    @cached_property
    def explained(self) -> float:
        """V of the least-squares fit, unshrunken where the noise is known."""
        e = self.equations
        return self.variance if self.not_covered else max(self.inference.explained / e.total - e.mean**2, 0.0)

    @cached_property
    def _calibration(self) -> Calibration:
        return self.rule(self.equations.mean, self.explained)

    @property
    def _constants(self) -> Array:
        """c₀: how much of a constant in s each coefficient takes."""
        return self.equations.scale[:, self.equations.encoding.slices[None].start]

    def _privacy_variance(self, estimate: Array, variance: Array, weights: Array) -> Array:
        e, calibration, seen = self.equations, self._calibration, self.inference.seen
        noise = self.inference.noise
        first = np.eye(len(e.response))[0]
        t, y, n = e.residual(seen.mean), e.response - e.mean * first, e.total
        moved = np.array(
            [
                _influence_on_mean(e, noise),
                noise.influence((np.outer(y, y) - np.outer(t, t) - self.explained * np.outer(first, first)) / n),
            ]
        )
        shift = (np.outer(estimate, calibration.gradient[0]) + np.outer(self._constants, calibration.gradient[1])) @ moved
        own = np.array([noise.influence(_symmetric(a, t)) for a in weights @ (e.basis @ seen.sight).T])
        k = calibration.factor
        return np.asarray(k * k * variance + 2 * k * np.sum(own * shift, axis=1) + np.sum(shift**2, axis=1))


def calibrated(equations: Equations, beta: Array, rule: Rule) -> tuple[Array, float]:
    """θ in the encoding's coordinates, β calibrated by its own variance V = β'Σβ; and V."""
    n = equations.total
    centre = float(equations.moments.matrix[0] @ equations.basis @ beta) / n
    variance = max(float(beta @ equations.H @ beta) / n - centre**2, 0.0)
    found = rule(equations.mean, variance)
    theta = found.factor * equations.theta(beta)
    theta[equations.encoding.slices[None]] += found.constant
    return theta, variance


def mean_error(equations: Equations) -> float:
    """Standard error that the noise gives the response's mean; 0 where the noise is not known."""
    return 0.0 if equations.noise is None else float(np.linalg.norm(_influence_on_mean(equations, equations.noise)))


def _influence_on_mean(e: Equations, noise: BlockNoise) -> Array:
    first = np.eye(len(e.response))[0]
    return noise.influence(_symmetric(e.response - e.mean * first, first) / e.total)


def _symmetric(a: Array, b: Array) -> Array:
    """Q with tr QN = a'Nb."""
    return np.asarray((np.outer(a, b) + np.outer(b, a)) / 2)
