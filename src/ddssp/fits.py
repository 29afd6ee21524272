"""Fits: the models that can be read off a release; post-processing, so they cost nothing, as often as one likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ddssp.inference.noise_covariance import BlockNoise
from ddssp.marginal import PairMarginals
from ddssp.mechanism import Fitted
from ddssp.moments import Moments, moments
from ddssp.privacy.curator import Link
from ddssp.schema import Schema

if TYPE_CHECKING:
    from ddssp.model.fit import Fit
    from ddssp.model.linear import LinearFit
    from ddssp.model.logistic import LogisticFit, MulticlassFit
    from ddssp.model.naive_bayes import NaiveBayesFit
    from ddssp.model.path import Path, PenalisedFit
    from ddssp.model.poisson import PoissonFit
    from ddssp.model.solve import Shrinkage
    from ddssp.model.task import TaskLogisticFit

    AnyFit = TypeVar("AnyFit", bound=Fit)

DEFAULT_APPROXIMATION, DEFAULT_RADIUS = "exact-split", 6.0


class Fits:
    """What a release answers, by model; engines are loaded when first asked for."""

    schema: Schema
    marginals: PairMarginals | None
    fitted: Fitted | None
    private: bool

    @property
    def moments(self) -> Moments:
        raise NotImplementedError

    @property
    def noise(self) -> BlockNoise | None:
        raise NotImplementedError

    def linear(
        self,
        target: str,
        *,
        features: Sequence[str] | None = None,
        intercept: bool = True,
        shrinkage: Shrinkage | str | None = None,
    ) -> LinearFit:
        """Linear regression of `target` on `features` (default: all other columns).

        Without an intercept the regression goes through the origin of the original scale.
        """
        from ddssp.model.linear import linear
        from ddssp.model.task import answers, linear_fit

        if answers(self.fitted, Link.IDENTITY, target) and features is None and intercept and shrinkage is None:
            return self._marked(linear_fit(self.fitted, self.schema))
        how: dict[str, Any] = {"features": features, "intercept": intercept, "shrinkage": shrinkage, "noise": self.noise}
        return self._marked(linear(self.moments, self.schema, target, **how))

    def logistic(
        self,
        target: str,
        *,
        features: Sequence[str] | None = None,
        approximation: str = DEFAULT_APPROXIMATION,
        radius: float = DEFAULT_RADIUS,
        shrinkage: Shrinkage | str | None = None,
    ) -> LogisticFit | MulticlassFit | TaskLogisticFit:
        """Logistic regression of `target`, a column with levels, on `features` (default: all other columns).

        With more than two levels: one against the rest for each.

        Args:
            approximation, radius: see `model.logistic`; a task release, whose fit is on the true loss, has no other.
        """
        from ddssp.model.logistic import logistic
        from ddssp.model.task import answers, logistic_fit

        usual = (approximation, radius) == (DEFAULT_APPROXIMATION, DEFAULT_RADIUS) and features is None and shrinkage is None
        if answers(self.fitted, Link.LOGIT, target) and usual:
            return self._marked(logistic_fit(self.fitted, self.schema))
        how: dict[str, Any] = {"approximation": approximation, "radius": radius, "shrinkage": shrinkage, "noise": self.noise}
        return self._marked(logistic(self.moments, self.schema, target, features=features, **how))

    def poisson(
        self, target: str, *, features: Sequence[str] | None = None, shrinkage: Shrinkage | str | None = None
    ) -> PoissonFit:
        """Poisson regression of `target`, a count, on `features` (default: all other columns)."""
        from ddssp.model.poisson import poisson

        found = poisson(self.moments, self.schema, target, features=features, shrinkage=shrinkage, noise=self.noise)
        return self._marked(found)

    def naive_bayes(self, target: str, *, features: Sequence[str] | None = None, alpha: float = 1.0) -> NaiveBayesFit:
        """Naive Bayes classifier of `target`, a column with levels, on `features` (default: all other columns)."""
        from ddssp.model.naive_bayes import naive_bayes, tables

        held = self.moments if self.marginals is None else moments(self.marginals, tables(self.schema))
        return self._marked(naive_bayes(held, self.schema, target, features=features, alpha=alpha))

    def path(
        self,
        target: str,
        *,
        features: Sequence[str] | None = None,
        l1_ratio: float = 0.5,
        alphas: Sequence[float] | None = None,
    ) -> Path:
        """Elastic-net path of `target` on `features` (default: all other columns); l1_ratio = 0 is ridge, 1 the lasso."""
        from ddssp.model.path import path

        found = path(self.moments, self.schema, target, features=features, l1_ratio=l1_ratio, alphas=alphas, noise=self.noise)
        return replace(found, private=self.private)

    def ridge(self, target: str, *, features: Sequence[str] | None = None, alpha: float | None = None) -> PenalisedFit:
        """Ridge regression; `alpha` by the release's own estimate of the risk unless given."""
        from ddssp.model.path import penalties

        return self.path(target, features=features, l1_ratio=0.0, alphas=penalties(alpha)).fit()

    def elastic_net(
        self, target: str, *, features: Sequence[str] | None = None, alpha: float | None = None, l1_ratio: float = 0.5
    ) -> PenalisedFit:
        """Elastic net; `alpha` by the release's own estimate of the risk unless given."""
        from ddssp.model.path import penalties

        return self.path(target, features=features, l1_ratio=l1_ratio, alphas=penalties(alpha)).fit()

    def _marked(self, fit: AnyFit) -> AnyFit:
        """The fit, which says so if the noise was reproducible."""
        return fit if self.private else replace(fit, private=False)
