r"""Naive Bayes from the (feature, target) blocks alone.

    log P(class | x) = log prior + Σ_j log P(x_j | class) + constant

A column with levels gives P(level | class) = (n_class P + α)/(n_class + α m), read off its block with the target. A number
gives a normal distribution with its class's mean and one variance for all classes: the moments hold Σv ψ_class but not
Σv² ψ_class. Both are linear in z, so the posterior is a softmax of θ z.

Noise: what separates the classes in a column is shrunken towards nothing by the share of it that the noise alone would make,
1 − E‖noise‖²/‖difference‖² (James and Stein), at least 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.column import Level
from ddssp.encoding import Block, Encoding, intercept
from ddssp.model.equations import feature_columns, target_block
from ddssp.model.fit import Fit, design_of
from ddssp.model.interval import Intervals
from ddssp.model.logistic import indicators
from ddssp.model.scale import original_names, original_scale
from ddssp.moments import Moments
from ddssp.schema import Schema

Array = NDArray[np.float64]

SMALLEST_VARIANCE = 1e-4
"""Of a number on [−1, 1] within a class."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NaiveBayesFit(Fit):
    """A fitted naive Bayes classifier; `theta` is "m p": one row of log-probability coefficients per class."""

    model: ClassVar[str] = "naive-bayes"
    classes: tuple[Level, ...]
    priors: Array
    records: float

    @property
    def title(self) -> str:
        return f"Naive Bayes classifier of {self.target}"

    @property
    def coef(self) -> dict[str, float]:
        """Log-odds per unit of each feature: of the second class against the first, or `level: name` against the first."""
        names, T = original_names(self.encoding), original_scale(self.encoding)
        rows = {c: T @ (self.theta[i] - self.theta[0]) for i, c in enumerate(self.classes) if i}
        if len(rows) == 1:
            return dict(zip(names, next(iter(rows.values())).tolist(), strict=True))
        return {f"{c}: {n}": float(v) for c, row in rows.items() for n, v in zip(names, row, strict=True)}

    @property
    def not_covered(self) -> str:
        return "no standard errors: naive Bayes takes features for independent, so its log-odds estimate nothing in the data."

    @property
    def intervals(self) -> Intervals:
        self._require_intervals()
        raise AssertionError

    @property
    def facts(self) -> dict[str, float | None]:
        shares = {f"share of {c}": float(p) for c, p in zip(self.classes, self.priors, strict=True)}
        return {"records": self.records, **shares}

    def predict_proba(self, data: Any) -> Array:
        """Probability of each class, "n m"."""
        s = design_of(data, self.encoding, self.schema) @ self.theta.T
        odds = np.exp(s - s.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    def predict(self, data: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        return np.asarray(np.asarray(self.classes)[np.argmax(self.predict_proba(data), axis=1)])


def naive_bayes(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    alpha: float = 1.0,
) -> NaiveBayesFit:
    """The naive Bayes classifier of `target`, a column with levels, on `features` (default: all other columns).

    Args:
        alpha: records added to every level of every class.
    """
    if not (alpha >= 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha must be 0 or more and finite, got {alpha}; 1 is a usual choice.")
    block = target_block(moments.encoding, target)
    if None not in moments.encoding.slices:
        raise ValueError("naive Bayes needs an intercept: the classes' shares are not among these moments.")
    responses, classes = indicators(block, schema)
    chosen = feature_columns(moments.encoding, target, features)
    kept = moments.keep((None, *chosen, target))
    psi = np.array([_membership(kept, target, r) for r in responses])
    counts = np.maximum(psi @ kept.matrix[:, 0], 1.0)
    encoding = kept.encoding.keep((None, *chosen))
    theta = np.zeros((len(classes), encoding.size))
    theta[:, 0] = np.log(counts / counts.sum())
    for b in encoding.blocks[1:]:
        own, constant = _log_likelihood(kept, b, psi, counts, _spread(kept, b, target, psi, counts), alpha)
        theta[:, encoding.slices[b.column]] = own
        theta[:, 0] += constant
    return NaiveBayesFit(
        target=target,
        theta=theta,
        encoding=encoding,
        schema=schema,
        shrinkage=None,
        classes=classes,
        priors=counts / counts.sum(),
        records=float(kept.matrix[0, 0]),
    )


def tables(schema: Schema) -> Encoding:
    """Every column by its levels or bins, one-hot: what a release that holds tables can say of each."""
    blocks = [intercept()]
    for name, column in schema.resolved.items():
        m = column.size or 1
        if m > 1:
            numerators = m * np.eye(m, dtype=np.int64) - 1
            blocks.append(Block(column=name, numerators=numerators, denominator=m, labels=column.labels, contrast="mean"))
    return Encoding(tuple(blocks))


def levels_of(block: Block) -> tuple[Array, Array] | None:
    """ψ = constant + B z for a block that tells its levels apart, "m" and "m p"; None for a number."""
    if block.is_table:
        return np.full(block.rows, 1 / block.rows), np.eye(block.rows)
    if block.is_scalar and len(block.squares) == 1:
        return np.array([0.5, 0.5]), np.array([[-0.5], [0.5]]) * np.sign(block.A[0, -1])
    return None


def _membership(kept: Moments, target: str, response: tuple[Array, float]) -> Array:
    """ψ_class = (1 + response)/2 as a linear function of z, "p"."""
    out = np.zeros(kept.encoding.size)
    out[kept.encoding.slices[target]] = response[0] / 2
    out[0] += (1 + response[1]) / 2
    return out


def _spread(kept: Moments, block: Block, target: str, psi: Array, counts: Array) -> float:
    """E‖noise‖² of the class means of one block, Σ_class σ² |ψ_class|² rows / n_class²; 0 where the noise is not known."""
    if kept.variance is None:
        return 0.0
    s, t = kept.encoding.slices[block.column], kept.encoding.slices[target]
    return float(np.sum(kept.variance[s, t] @ (psi[:, t].T ** 2 / counts**2)))


def _log_likelihood(kept: Moments, block: Block, psi: Array, counts: Array, noise: float, alpha: float) -> tuple[Array, Array]:
    """log P(x_j | class) up to what all classes share: coefficients of z_[j], "m p", and constants, "m"."""
    s = kept.encoding.slices[block.column]
    total = max(float(kept.matrix[0, 0]), 1.0)
    overall, means = kept.matrix[0, s] / total, (psi @ kept.matrix[:, s]) / counts[:, None]
    apart = float(np.sum((means - overall) ** 2))
    means = overall + max(1 - noise / apart, 0.0) * (means - overall) if apart > 0 else means
    found = levels_of(block)
    if found is None:
        second = np.diag(kept.matrix[s, s]) / total
        variance = np.maximum(second - (counts / counts.sum()) @ means**2, SMALLEST_VARIANCE)
        return means / variance, -np.sum(means**2 / (2 * variance), axis=1)
    constant, B = found
    chances = np.maximum(constant + means @ B.T, 0.0)
    chances = (counts[:, None] * chances / chances.sum(axis=1, keepdims=True) + alpha) / (counts[:, None] + alpha * B.shape[0])
    logs = np.log(np.maximum(chances, np.finfo(float).tiny))
    return logs @ B, logs @ constant
