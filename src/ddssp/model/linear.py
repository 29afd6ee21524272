"""Linear regression of any column on any others, from moments alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp import frame
from ddssp.coding import coded, design, sources
from ddssp.encoding import Block, Encoding
from ddssp.model.scale import original_names, original_scale
from ddssp.model.solve import Shrinkage, empirical_bayes, floored, least_squares
from ddssp.moments import Moments
from ddssp.schema import Schema


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearFit:
    """A fitted linear regression.

    Args:
        theta: coefficients of the encoding, for a target on [−1, 1].
        encoding: the features' blocks.
        block: the target's block.
    """

    target: str
    theta: NDArray[np.float64]
    encoding: Encoding
    block: Block
    schema: Schema
    shrinkage: Shrinkage

    @property
    def coef(self) -> dict[str, float]:
        """Coefficients on the original scale, named `column` or `column=level`."""
        values = self.block.half * (original_scale(self.encoding) @ self.theta)
        out = dict(zip(original_names(self.encoding), values.tolist(), strict=True))
        if None in self.encoding.slices:
            out["intercept"] += self.block.centre
        return out

    def predict(self, data: Any) -> NDArray[np.float64]:
        """The target's expected value for each row of a frame, on the original scale."""
        z = design_of(data, self.encoding, self.schema)
        return np.asarray(self.block.centre + self.block.half * (z @ self.theta))


def design_of(data: Any, encoding: Encoding, schema: Schema) -> NDArray[np.float64]:
    """Z of a raw frame, through the schema."""
    columns = sources(schema, encoding.columns)
    table = pa.Table.from_batches(list(frame.batches(data, columns)))
    return design(coded(table, schema, encoding.columns), encoding.blocks, schema)


def linear(
    moments: Moments,
    schema: Schema,
    target: str,
    *,
    features: Sequence[str] | None = None,
    intercept: bool = True,
    shrinkage: Shrinkage | None = None,
) -> LinearFit:
    """The regression of `target` on `features` (default: all other columns).

    Edge cases: `shrinkage` defaults to empirical Bayes where the noise is known, to a public eigenvalue floor where it is not.
    """
    block = scalar_target(moments.encoding, target)
    chosen = feature_columns(moments.encoding, target, features)
    kept = moments.keep((*((None,) if intercept else ()), *chosen, target))
    y = kept.encoding.index([target])[0]
    x = np.array([i for i in range(kept.encoding.size) if i != y], np.intp)
    H, b = kept.matrix[np.ix_(x, x)], kept.matrix[x, y]
    how = shrinkage or (Shrinkage.FLOOR if kept.variance is None else Shrinkage.EMPIRICAL_BAYES)
    if how is Shrinkage.EMPIRICAL_BAYES and kept.variance is not None:
        theta = empirical_bayes(H, b, kept.variance[np.ix_(x, x)], kept.variance[x, y])
    elif how is Shrinkage.FLOOR:
        theta = floored(H, b, float(moments.matrix[0, 0]))
    else:
        theta = least_squares(H, b)
    features_only = kept.encoding.keep([c for c in kept.encoding.slices if c != target])
    return LinearFit(target=target, theta=theta, encoding=features_only, block=block, schema=schema, shrinkage=how)


def scalar_target(encoding: Encoding, target: str) -> Block:
    """The target's block, which must be a number."""
    if target not in encoding.columns:
        raise ValueError(f"target must be a column of the release, got {target!r}; it has {', '.join(encoding.columns)}.")
    block = encoding.block(target)
    if not block.is_scalar:
        raise ValueError(f"target {target!r} is categorical; a linear target must be numeric, ordinal or boolean.")
    return block


def feature_columns(encoding: Encoding, target: str, features: Sequence[str] | None) -> tuple[str, ...]:
    """The features asked for, or every column but the target."""
    if features is None:
        return tuple(c for c in encoding.columns if c != target)
    for name in features:
        if name not in encoding.columns:
            raise ValueError(f"features must be columns of the release, got {name!r}; it has {', '.join(encoding.columns)}.")
        if name == target:
            raise ValueError(f"features must not hold the target {target!r}.")
    return tuple(features)
