"""What all estimators share: from X, y and their declaration to a release."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from ddssp import frame
from ddssp.column import AnyColumn
from ddssp.curate import curate, plan
from ddssp.estimators.declaration import Declaration, declared, public
from ddssp.privacy.ledger import Ledger
from ddssp.released import Release
from ddssp.reproducible import SeededNoise
from ddssp.schema import Schema

Array = NDArray[np.float64]


class PrivacyWarning(UserWarning):
    """Something was read from the rows that the guarantee does not cover."""


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose `fit` is one release.

    Guarantees: after the structure of X and y has been checked, rows reach the release through `curate` alone, with its
    guarantee; what is refused for its declaration is refused before anything is spent. Outside the guarantee are the checks
    that scikit-learn demands without a schema (NaN, too few rows, labels of a classifier): docs/sklearn.md.

    Args:
        epsilon, delta: the budget of one fit.
        schema: declares features and target (a Schema or the path of one); None stands for fixed public bounds.
        target: the target's column in the schema; by default the only one that X does not have, or, for an X without names,
            the last one. Without a schema it only names the target, "y" by default.
        mechanism: as in `ddssp.release`; "auto" is the best one for the model.
        ledger, dataset: the ledger (or its path) that every fit is charged to, and under which name; clones share it.
        random_state: for tests only: noise that can be reproduced, so the model is not private and a ledger refuses it.

    Attributes:
        release_: the Release; everything else is read off it.
        fit_: the fitted model with its `summary()` and intervals.
        coef_, intercept_: on the original scale; `coef_names_` says which is which, by column or by `column=level`.
        private_: False for reproducible noise.
    """

    _mechanisms: ClassVar[tuple[str, ...]] = ("auto", "moments", "aim")
    _numeric_target: ClassVar[bool]
    fit_: Any

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: Schema | str | Path | None = None,
        target: str | None = None,
        mechanism: str = "auto",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.target = target
        self.mechanism = mechanism
        self.ledger = ledger
        self.dataset = dataset
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """This estimator, fitted by one release of X and y; BudgetError if the ledger does not cover it."""
        _require_schema(self.schema)
        if self.mechanism not in self._mechanisms:
            raise ValueError(f"mechanism must be one of {', '.join(self._mechanisms)} for this model, got {self.mechanism!r}.")
        X, y = self._numbers(X, y) if self.schema is None else self._structure(X, y)
        found = self._declaration(X, y)
        self._require(found)
        planned = plan(
            found.schema,
            epsilon=self.epsilon,
            delta=self.delta,
            mechanism=self._mechanism(),
            model=self._model(found.column),
            target=found.target,
            ledger=self.ledger,
            dataset=self.dataset,
        )
        table = _table(X, found.features).append_column(found.target, _table(y[:, None], (found.target,)).column(0))
        self.release_ = curate(table, planned, noise=self._noise())
        self.private_ = self.release_.private
        self.fit_ = self._fitted(self.release_, found.target)
        self._features = found.features
        self._read()
        return self

    def _undeclared_target(self, y: NDArray[Any]) -> AnyColumn:
        """The target's column where no schema declares it."""
        raise NotImplementedError

    def _require(self, found: Declaration) -> None:
        """Refuses what the model cannot be fitted to."""
        raise NotImplementedError

    def _mechanism(self) -> str:
        return "moments" if self.mechanism == "auto" else self.mechanism

    def _model(self, target: AnyColumn) -> str:
        return "auto"

    def _fitted(self, release: Release, target: str) -> Any:
        """The model in the release."""
        raise NotImplementedError

    def _read(self) -> None:
        """Sets what scikit-learn expects of a fitted model."""
        raise NotImplementedError

    def _noise(self) -> SeededNoise | None:
        if self.random_state is None:
            return None
        return SeededNoise(int(check_random_state(self.random_state).randint(2**31 - 1)))

    def _declaration(self, X: Any, y: NDArray[Any]) -> Declaration:
        if self.schema is None:
            names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
            return public(names, self.target, self._undeclared_target(y))
        schema = self.schema if isinstance(self.schema, Schema) else Schema.load(self.schema)
        return declared(schema, frame.names(X) if hasattr(X, "columns") else None, self.n_features_in_, self.target)

    def _structure(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """X and y as they are, with only their structure looked at."""
        if np.ndim(X) == 1 and not hasattr(X, "columns"):
            raise ValueError("X must have two dimensions, rows and columns, got one; Reshape your data.")
        if hasattr(X, "columns"):
            _require_names(X)
        validate_data(self, X, y, skip_check_array=True)
        check_consistent_length(X, y)
        return X, column_or_1d(y, warn=True)

    def _numbers(self, X: Any, y: Any = "no_validation", *, reset: bool = True) -> Any:
        """What scikit-learn makes of X and y; where a cell is no number its own message would quote the cell."""
        how = {"y_numeric": self._numeric_target} if reset else {}
        if reset and hasattr(X, "columns"):
            _require_names(X)
        try:
            return validate_data(self, X, y, reset=reset, dtype=np.float64, **how)
        except ValueError as error:
            if "convert" not in str(error):
                raise ValueError(_without_cells(str(error))) from None
            raise ValueError("X and y must hold numbers where there is no schema; declare other columns in one.") from None

    def _frame(self, X: Any) -> pa.Table:
        """X as the fitted model reads it."""
        check_is_fitted(self)
        if self.schema is None:
            return _table(self._numbers(X, reset=False), self._features)
        validate_data(self, X, skip_check_array=True, reset=False)
        return _table(X, self._features)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        said = str(super().__repr__(N_CHAR_MAX))
        return said if self.random_state is None else f"{said}  # NOT PRIVATE: reproducible noise"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = self.schema is not None
        return tags


def _require_schema(given: Any) -> None:
    if not isinstance(given, Schema | str | Path | None):
        got = type(given).__name__
        raise ValueError(f"schema must be a Schema, the path of one or None, got a {got}; ddssp.Schema(columns=...) makes one.")


def _require_names(X: Any) -> None:
    """Refuses a frame that has no columns, or two of one name."""
    names = [str(name) for name in X.columns]
    if not names:
        raise ValueError("X must have at least one column, got 0 feature(s).")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"X must have columns of different names, got {twice[0]!r} more than once; rename or drop one.")


def _without_cells(message: str) -> str:
    """A message of scikit-learn's without the array that it quotes."""
    return "\n".join(line for line in message.splitlines() if line[:1].isalpha() and not line.startswith("array="))


def _table(X: Any, names: tuple[str, ...]) -> pa.Table:
    """The columns `names` of a frame, or of an array that has just these."""
    if not hasattr(X, "columns"):
        try:
            values = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        except ValueError as error:
            raise ValueError(_without_cells(str(error))) from None
        X = {name: values[:, i] for i, name in enumerate(names)}
    return pa.Table.from_batches(list(frame.batches(X, names)))
