"""Coefficients of the encoding ↔ coefficients on the original scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import INTERCEPT, Block, Encoding


def original_names(encoding: Encoding) -> tuple[str, ...]:
    """`intercept`, `column` or `column=level`; the reference level of a reduced column has no coefficient."""
    return tuple(
        INTERCEPT if b.column is None else f"{b.column}={label}" if label else b.column for b in encoding for label in _shown(b)
    )


def original_scale(encoding: Encoding) -> NDArray[np.float64]:
    r"""T with coef = T θ: the linear map from the encoding's coefficients to those a person reads, "q p".

    scalar z = (x − c)/h:           slope θ/h per unit of x, and −θ c/h into the intercept
    centred one-hot, first level:   θ_a − θ_0 for level a, and θ_0 − mean θ into the intercept
    centred one-hot, mean:          θ_a − mean θ for level a

    Edge cases: without an intercept block the constants have nowhere to go, so scalars keep their [−1, 1] scale and one-hot
    blocks θ_a − mean θ.
    """
    has_intercept = None in encoding.slices
    rows: list[NDArray[np.float64]] = []
    constant = np.zeros(encoding.size)
    for b in encoding:
        s = encoding.slices[b.column]
        unit = np.eye(encoding.size)[s]
        mean = np.full(b.rows, 1 / b.rows) @ unit
        if b.column is None:
            constant += unit[0]
        elif b.is_scalar:
            rows.extend(unit / b.half if has_intercept else unit)
            constant -= unit[0] * (b.centre / b.half)
        elif b.contrast == "none":
            rows.extend(unit)
        elif b.contrast == "first" and has_intercept:
            rows.extend(unit[1:] - unit[0])
            constant += unit[0] - mean
        else:
            rows.extend(unit - mean)
    return np.array([constant, *rows]) if has_intercept else np.array(rows).reshape(-1, encoding.size)


def _shown(block: Block) -> tuple[str, ...]:
    return block.labels[1:] if block.contrast == "first" else block.labels
