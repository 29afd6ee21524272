"""Regressors: linear, ridge, Poisson."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from ddssp.column import AnyColumn, Numeric
from ddssp.encoding import Encoding
from ddssp.estimators.base import Array, PrivateEstimator
from ddssp.estimators.declaration import COUNT, TARGET, Declaration
from ddssp.model.linear import LinearFit, scalar_target
from ddssp.model.path import PenalisedFit
from ddssp.model.poisson import HiddenMeanError, PoissonFit
from ddssp.model.scale import original_names
from ddssp.privacy.ledger import Ledger
from ddssp.released import Release
from ddssp.schema import Schema


class Regressor(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Predicts numbers. Without a schema features are clamped to [-10, 10] and the target to [-100, 100]."""

    _numeric_target = True

    def predict(self, X: Any) -> Array:
        """The target's expected value for each row."""
        data = self._frame(X)
        return np.asarray(self.fit_.predict(data))

    def _undeclared_target(self, y: NDArray[Any]) -> AnyColumn:
        return TARGET

    def _require(self, found: Declaration) -> None:
        scalar_target(Encoding.centred(found.schema), found.target)

    def _read(self) -> None:
        coef = dict(self.fit_.coef)
        self.intercept_ = coef.pop("intercept")
        self.coef_ = np.array([*coef.values()])
        self.coef_names_ = tuple(coef)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # scikit-learn asks for a good fit of 200 rows, which ε = 1 is there to hide
        return tags


class DPLinearRegression(Regressor):
    """Differentially private linear regression.

    "auto" is the `task` mechanism, the most accurate one; "moments" has intervals, `fit_.summary()`.

    >>> X, y = np.linspace(-1, 1, 1000)[:, None], np.linspace(-50, 50, 1000)
    >>> DPLinearRegression(epsilon=1.0, delta=1e-6).fit(X, y).predict([[0.5]]).shape
    (1,)
    """

    _mechanisms = ("auto", "moments", "aim", "task")

    def _mechanism(self) -> str:
        return self.mechanism

    def _model(self, target: AnyColumn) -> str:
        """Least squares also for a target of two levels, which `task` would take for classes."""
        return "auto" if self.mechanism in ("moments", "aim") or isinstance(target, Numeric) else "linear"

    def _fitted(self, release: Release, target: str) -> LinearFit:
        return release.linear(target)


class DPRidge(Regressor):
    """Differentially private ridge regression.

    Args:
        alpha: penalty per record on squared coefficients, of features and target scaled to [-1, 1] by their declared bounds;
            None takes the one with the least risk by the release's own estimate, at no further cost.

    >>> X, y = np.linspace(-1, 1, 1000)[:, None], np.linspace(-50, 50, 1000)
    >>> DPRidge(alpha=0.01).fit(X, y).coef_.shape
    (1,)
    """

    def __init__(
        self,
        *,
        alpha: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | str | Path | None = None,
        target: str | None = None,
        mechanism: str = "auto",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            schema=schema,
            target=target,
            mechanism=mechanism,
            ledger=ledger,
            dataset=dataset,
            random_state=random_state,
        )
        self.alpha = alpha

    def _require(self, found: Declaration) -> None:
        super()._require(found)
        given: Any = self.alpha
        if given is not None and not (isinstance(given, Real) and 0 <= float(given) < np.inf):
            raise ValueError(f"alpha must be None, or a number of 0 or more and finite, got {self.alpha!r}.")

    def _fitted(self, release: Release, target: str) -> PenalisedFit:
        return release.ridge(target, alpha=self.alpha)


class DPPoissonRegressor(Regressor):
    """Differentially private Poisson regression of a count, from 0 to 100 unless a schema declares it; `score` is D².

    >>> X, y = np.linspace(-1, 1, 1000)[:, None], np.arange(1000) // 100
    >>> DPPoissonRegressor().fit(X, y).coef_.shape
    (1,)
    """

    def predict(self, X: Any) -> Array:
        """The expected count of each row, within the declared bounds and above 0."""
        return np.maximum(super().predict(X), np.finfo(float).tiny)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the Poisson deviance that is explained, D²."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def _undeclared_target(self, y: NDArray[Any]) -> AnyColumn:
        return COUNT

    def _require(self, found: Declaration) -> None:
        super()._require(found)
        block = Encoding.centred(found.schema).block(found.target)
        if block.centre < block.half * (1 - 1e-9):
            raise ValueError(f"target {found.target!r} is declared to go below 0; a Poisson target must be a count.")

    def _fitted(self, release: Release, target: str) -> PoissonFit | Constant:
        try:
            return release.poisson(target)
        except HiddenMeanError:
            warnings.warn("the noise hides the mean count, so the fit is a constant near 0.", stacklevel=3)
            return constant(release, target)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(frozen=True, kw_only=True)
class Constant:
    """A Poisson model in which no feature matters."""

    names: tuple[str, ...]
    mean: float

    @property
    def coef(self) -> dict[str, float]:
        return dict.fromkeys(self.names, 0.0) | {"intercept": float(np.log(self.mean))}

    def predict(self, data: pa.Table) -> Array:
        return np.full(data.num_rows, self.mean)


def constant(release: Release, target: str) -> Constant:
    """Half a count among all records: what a release says whose noise hides the mean."""
    kept = release.encoding.keep([c for c in release.encoding.slices if c != target])
    return Constant(names=original_names(kept), mean=0.5 / max(float(release.moments.matrix[0, 0]), 1.0))
