"""One regression on one dataset: exact statistics for the baselines, rows, and the scores of any coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp.coding import Coded, coded, design
from ddssp.encoding import Block, Encoding, indicator, intercept
from ddssp.experiments.datasets import Dataset
from ddssp.experiments.protocol import LINEAR, Protocol, Split, split
from ddssp.marginal import PairMarginals
from ddssp.moments import moments
from ddssp.secret.counts import Layout, counts

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Coefficients:
    """θ of an encoding's blocks; predicts a target on [−1, 1], or the log-odds of +1 against −1."""

    theta: Array
    encoding: Encoding


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """`kind` is linear or logistic; the target is y in [−1, 1], for logistic regression ±1."""

    data: Dataset
    kind: str
    protocol: Protocol
    rows: Split

    @classmethod
    def of(cls, data: Dataset, kind: str, protocol: Protocol) -> Problem:
        return cls(data=data, kind=kind, protocol=protocol, rows=split(data, kind, protocol))

    @property
    def target(self) -> str:
        return self.data.targets[self.kind]

    @cached_property
    def encoding(self) -> Encoding:
        """The features as baselines on sufficient statistics see them: level 0 dropped, with an intercept or without."""
        blocks = (b for b in Encoding.paper(self.data.schema) if b.column != self.target)
        return Encoding((intercept(), *blocks) if self.protocol.intercept else tuple(blocks))

    @cached_property
    def row_encoding(self) -> Encoding:
        """The features as baselines on rows see them: the same, but centred one-hot where there is an intercept.

        Centring makes ‖x‖ smaller, and with it the noise; it costs one redundant column a block, which a ridge does not mind.
        """
        if not self.protocol.intercept:
            return self.encoding
        return Encoding(tuple(b for b in Encoding.centred(self.data.schema) if b.column != self.target))

    @cached_property
    def marginals(self) -> PairMarginals:
        """Exact pair tables of the training rows."""
        domain = self.data.schema.domain()
        layout = Layout.of(self.data.schema, Encoding(tuple(indicator(a.name, a.size) for a in domain)))
        exact = counts(self.rows.train.combine_chunks().to_batches(), layout)
        return PairMarginals.of(domain, {c: t.astype(np.float64) for c, t in exact.pair.items()})

    def equations(self, marginals: PairMarginals) -> tuple[Array, Array]:
        """X'X and X'y of any pair tables, exact or released."""
        both = Encoding((*self.encoding.blocks, self._response))
        ZtZ = moments(marginals, both).matrix
        return np.ascontiguousarray(ZtZ[:-1, :-1]), np.ascontiguousarray(ZtZ[:-1, -1])

    @cached_property
    def exact(self) -> tuple[Array, Array]:
        """X'X and X'y of the training rows."""
        return self.equations(self.marginals)

    @cached_property
    def X(self) -> Array:
        """Rows of `row_encoding`."""
        return design(self._train, self.row_encoding.blocks, self.data.schema, rows=self.rows.train.num_rows)

    @cached_property
    def y(self) -> Array:
        return self._truth(self._train)

    @cached_property
    def least_squares(self) -> Coefficients:
        XtX, Xty = self.exact
        theta = np.asarray(np.linalg.lstsq(XtX, Xty, rcond=1e-12)[0], np.float64)
        return Coefficients(theta=theta, encoding=self.encoding)

    def scores(self, found: Coefficients) -> dict[str, float]:
        """Linear: test MSE, on rows beyond if there are any, and excess = mean (x'θ − x'θ_ols)² of the training rows.

        Logistic: test AUC and log-loss.
        """
        score = predictions(found, self._test)
        if self.kind == LINEAR:
            beyond = {"mse_beyond": self._mse(found, self._beyond)} if self.rows.beyond.num_rows else {}
            excess = float(np.mean((predictions(found, self._train) - self._fitted) ** 2))
            return {"mse": self._mse(found, self._test), "excess": excess, **beyond}
        y = self._truth(self._test)
        return {"auc": auc(score, y > 0), "logloss": float(np.mean(np.logaddexp(0, -y * score)))}

    def _mse(self, found: Coefficients, rows: Coded) -> float:
        return float(np.mean((predictions(found, rows) - self._truth(rows)) ** 2))

    def _truth(self, rows: Coded) -> Array:
        one = Coefficients(theta=np.ones(1), encoding=Encoding((self._response,)))
        return predictions(one, rows)

    @property
    def _response(self) -> Block:
        return Encoding.paper(self.data.schema).block(self.target)

    @cached_property
    def _train(self) -> Coded:
        return self._coded(self.rows.train)

    @cached_property
    def _test(self) -> Coded:
        return self._coded(self.rows.test)

    @cached_property
    def _beyond(self) -> Coded:
        return self._coded(self.rows.beyond)

    @cached_property
    def _fitted(self) -> Array:
        return predictions(self.least_squares, self._train)

    def _coded(self, rows: pa.Table) -> Coded:
        return coded(rows.combine_chunks(), self.data.schema)


def predictions(found: Coefficients, rows: Coded) -> Array:
    """x'θ of each row, by looking up A_j'θ_j of its level."""
    out = np.zeros(len(next(iter(rows.values()))))
    for block in found.encoding.blocks:
        of_level = found.theta[found.encoding.slices[block.column]] @ block.A
        out += of_level[0] if block.column is None else of_level[rows[block.column].astype(np.intp)]
    return out


def auc(score: Array, positive: NDArray[np.bool_]) -> float:
    """Chance that a positive row has a higher score than a negative one; ties count half."""
    above, below = score[positive], np.sort(score[~positive])
    beaten = (np.searchsorted(below, above, "left") + np.searchsorted(below, above, "right")) / 2
    return float(beaten.mean() / len(below))
