"""Fits that a task release holds ready: one target, all other columns, on the true loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ddssp.column import Level, Numeric
from ddssp.encoding import Encoding
from ddssp.mechanism import Fitted
from ddssp.model.fit import Fit, design_of
from ddssp.model.interval import IntervalError, Intervals, Wald
from ddssp.model.linear import LinearFit
from ddssp.model.scale import original_names, original_scale
from ddssp.privacy.curator import Link
from ddssp.schema import Schema

NOT_COVERED = (
    "no standard errors: a task release is shrunken towards the blocks that matter, by adaptive rounds, and no interval here "
    "would cover what that leaves out; a moments release has intervals."
)

NO_PRODUCTS = "a task release holds no products with the target, so no residual sum of squares; a moments release does."


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskLinearFit(LinearFit):
    """Least squares, with clipped residuals, from the task mechanism."""

    @property
    def not_covered(self) -> str:
        return NOT_COVERED

    @cached_property
    def rss(self) -> float:
        raise IntervalError(NO_PRODUCTS)

    @property
    def residual_variance(self) -> float:
        raise IntervalError(NO_PRODUCTS)

    @property
    def r2(self) -> float:
        raise IntervalError(NO_PRODUCTS)

    @property
    def log_likelihood(self) -> float | None:
        return None


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskLogisticFit(Fit):
    """Logistic regression from the task mechanism: P(y = second of `classes`) = σ(s)."""

    model: ClassVar[str] = "logistic"
    classes: tuple[Level, Level]

    @property
    def not_covered(self) -> str:
        return NOT_COVERED

    @property
    def intervals(self) -> Intervals:
        raise IntervalError(NOT_COVERED)

    def wald(self, names: Sequence[str]) -> Wald:
        raise IntervalError(NOT_COVERED)

    @property
    def coef(self) -> dict[str, float]:
        return dict(zip(original_names(self.encoding), (original_scale(self.encoding) @ self.theta).tolist(), strict=True))

    def predict_proba(self, data: Any) -> NDArray[np.float64]:
        """Probability of each class, "n 2"."""
        chance = expit(design_of(data, self.encoding, self.schema) @ self.theta)
        return np.stack([1 - chance, chance], axis=1)

    def predict(self, data: Any) -> NDArray[Any]:
        """The more probable class of each row."""
        return np.asarray(np.asarray(self.classes)[np.argmax(self.predict_proba(data), axis=1)])


def answers(fitted: Fitted | None, link: Link, target: str) -> TypeGuard[Fitted]:
    """Whether the release holds this very regression."""
    return fitted is not None and fitted.link is link and fitted.target == target


def linear_fit(fitted: Fitted, schema: Schema) -> TaskLinearFit:
    """The linear regression that the mechanism made."""
    encoding = Encoding.centred(schema)
    return TaskLinearFit(
        target=fitted.target,
        theta=fitted.theta,
        encoding=_features(encoding, fitted.target),
        block=encoding.block(fitted.target),
        schema=schema,
        shrinkage=None,
    )


def logistic_fit(fitted: Fitted, schema: Schema) -> TaskLogisticFit:
    """The logistic regression that the mechanism made."""
    column = schema.resolved[fitted.target]
    assert not isinstance(column, Numeric)
    first, second = column.all_levels
    return TaskLogisticFit(
        target=fitted.target,
        theta=fitted.theta,
        encoding=_features(Encoding.centred(schema), fitted.target),
        schema=schema,
        shrinkage=None,
        classes=(first, second),
    )


def _features(encoding: Encoding, target: str) -> Encoding:
    return encoding.keep([c for c in encoding.slices if c != target])
