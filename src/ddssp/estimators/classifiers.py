"""Classifiers: logistic regression, naive Bayes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ddssp.column import AnyColumn, Boolean, Categorical
from ddssp.encoding import Encoding
from ddssp.estimators.base import Array, PrivacyWarning, PrivateEstimator
from ddssp.estimators.declaration import Declaration
from ddssp.model.equations import target_block
from ddssp.model.fit import Fit, design_of
from ddssp.model.logistic import indicators
from ddssp.model.naive_bayes import NaiveBayesFit
from ddssp.model.scale import original_names, original_scale
from ddssp.privacy.ledger import Ledger
from ddssp.released import Release
from ddssp.schema import Schema


class Classifier(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Predicts classes. Without a schema features are clamped to [-10, 10].

    Args:
        classes: the labels, where no schema declares them as the target's levels. Without either they are read from y, as
            scikit-learn demands: which labels occur is then outside the guarantee, and a PrivacyWarning says so. Labels that
            are not declared count as the first class.

    Attributes:
        classes_: the labels, sorted.
    """

    _numeric_target = False
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        classes: Sequence[Any] | None = None,
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
        self.classes = classes

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second class, "n"; of more than two a score of each, "n m", in the order of `classes_`."""
        data = self._frame(X)
        score = design_of(data, self.fit_.encoding, self.fit_.schema) @ self._theta.T
        return np.asarray(score[:, 0] if len(self.classes_) == 2 else score)

    def predict_proba(self, X: Any) -> Array:
        """Probability of each class, "n m", in the order of `classes_`."""
        data = self._frame(X)
        return np.asarray(self.fit_.predict_proba(data)[:, self._order])

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        score = self.decision_function(X)
        return np.asarray(self.classes_[(score > 0).astype(int) if score.ndim == 1 else np.argmax(score, axis=1)])

    def _undeclared_target(self, y: NDArray[Any]) -> AnyColumn:
        levels = _labels(y) if self.classes is None else _declared(self.classes)
        if len(levels) < 2:
            raise ValueError("classes must be two or more, got one class; declare all of them with classes=.")
        try:
            return Boolean(levels=levels) if len(levels) == 2 else Categorical(levels=levels)
        except ValueError:  # whose message would quote the labels
            whose = "labels of y" if self.classes is None else "classes"
            raise ValueError(
                f"{whose} must be printable texts, whole numbers, finite numbers or booleans; change the others."
            ) from None

    def _require(self, found: Declaration) -> None:
        if self.schema is not None and self.classes is not None:
            raise ValueError("classes must be left out where a schema declares the target: its levels are the classes.")
        _, levels = indicators(target_block(Encoding.centred(found.schema), found.target), found.schema)
        if len({isinstance(level, str) for level in levels}) > 1:
            raise ValueError(
                f"levels of target {found.target!r} must be all texts or all numbers, since predictions are an array."
            )

    def _read(self) -> None:
        self.classes_, self._order = np.unique(np.array(self.fit_.classes), return_index=True)
        self._theta = self._scores(self.fit_.theta)
        T = original_scale(self.fit_.encoding)
        self.intercept_, self.coef_ = self._theta @ T[0], self._theta @ T[1:].T
        self.coef_names_ = original_names(self.fit_.encoding)[1:]

    def _scores(self, theta: Array) -> Array:
        """Coefficients of the encoding for each class's score, in the order of `classes_`; one row for two classes, "k p"."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # scikit-learn asks for a good fit of 300 rows, which ε = 1 is there to hide
        return tags


def _declared(classes: Any) -> tuple[Any, ...]:
    """The declared labels, sorted."""
    if isinstance(classes, str) or np.ndim(classes) != 1:
        raise ValueError('classes must be a list of labels, such as ["no", "yes"], or None.')
    if len({isinstance(label, str) for label in classes}) > 1:
        raise ValueError("classes must be all texts or all numbers, got both; write numbers as texts, in y too.")
    return tuple(np.unique(np.asarray(classes)).tolist())


def _labels(y: NDArray[Any]) -> tuple[Any, ...]:
    """The labels that occur; not private."""
    if y.dtype == object and len({isinstance(label, str) for label in y}) > 1:
        raise ValueError("labels of y must be all texts or all numbers, got both; write numbers as texts.")
    check_classification_targets(y)
    warnings.warn(
        "the classes were read from y, which the guarantee does not cover; declare them with classes= or in a schema.",
        PrivacyWarning,
        stacklevel=5,
    )
    return tuple(np.unique(y).tolist())


class DPLogisticRegression(Classifier):
    """Differentially private logistic regression; of more than two classes, each against the rest.

    "auto" is the `task` mechanism for two classes, `moments` for more; `moments` has intervals, `fit_.summary()`.

    >>> X, y = np.linspace(-1, 1, 1000)[:, None], np.repeat(["no", "yes"], 500)
    >>> DPLogisticRegression(classes=["no", "yes"]).fit(X, y).predict_proba([[0.5]]).shape
    (1, 2)
    """

    _mechanisms = ("auto", "moments", "aim", "task")

    def _mechanism(self) -> str:
        return self.mechanism

    def _fitted(self, release: Release, target: str) -> Fit:
        return release.logistic(target)

    def _scores(self, theta: Array) -> Array:
        return theta[self._order] if theta.ndim == 2 else theta[None] * (-1.0) ** self._order[0]


class DPNaiveBayes(Classifier):
    """Differentially private naive Bayes: numbers normal with one variance for all classes, levels by their frequencies.

    >>> X, y = np.linspace(-1, 1, 1000)[:, None], np.repeat(["no", "yes"], 500)
    >>> DPNaiveBayes(classes=["no", "yes"]).fit(X, y).predict_proba([[0.5]]).shape
    (1, 2)
    """

    def _fitted(self, release: Release, target: str) -> NaiveBayesFit:
        return release.naive_bayes(target)

    def _scores(self, theta: Array) -> Array:
        ordered = theta[self._order]
        return ordered[1:] - ordered[0] if len(ordered) == 2 else ordered
