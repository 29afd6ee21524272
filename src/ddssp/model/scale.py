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


def through_origin(encoding: Encoding) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""R "p q" and T "q p" of a regression through the origin of the original scale: θ = Rβ and coef = T θ.

    A scalar enters as x/h = z + c/h, a level as its indicator ψ_a = z_a + 1/m (all levels but the first, or all of them where
    the contrast is the mean), so the constants go into the coefficient of the encoding's intercept.
    """
    unit = np.eye(encoding.size)
    constant = unit[encoding.slices[None].start]
    columns: list[NDArray[np.float64]] = []
    rows: list[NDArray[np.float64]] = []
    for b in encoding.blocks:
        own = unit[encoding.slices[b.column]]
        if b.column is None:
            continue
        if b.is_scalar:
            columns.append(own[0] + constant * (b.centre / b.half))
            rows.append(own[0] / b.half)
        elif b.contrast == "none":
            columns.extend(own)
            rows.extend(own)
        else:
            kept = own[1:] if b.contrast == "first" else own
            columns.extend(kept + constant / b.rows)
            rows.extend(kept - own[0] if b.contrast == "first" else kept)
    return np.array(columns).reshape(-1, encoding.size).T, np.array(rows).reshape(-1, encoding.size)


def _shown(block: Block) -> tuple[str, ...]:
    return block.labels[1:] if block.contrast == "first" else block.labels
