"""What the page of a report knows: plain data, all of it from the release, none from anywhere else.

The other half of this contract is explorer/src/contract.ts. Moments travel as float64, little-endian, in base64, so that the
page's fit starts from the very bits that Python's starts from.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.column import AnyColumn, Numeric
from ddssp.encoding import Block
from ddssp.model.fit import UNKNOWN_NOISE
from ddssp.privacy.budget import rho_of
from ddssp.privacy.curator import Link
from ddssp.released import Release, ReleaseError
from ddssp.report.association import association
from ddssp.report.distributions import distributions, records
from ddssp.report.spending import spending
from ddssp.schema import Derived

FORMAT = 1

LARGER = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Multiples of ε at which a report says what another release would have given."""


def contract(release: Release, *, file: str = "release.ddssp") -> dict[str, Any]:
    """The page's data.

    Args:
        file: what the release is called in the code that the page offers for copying.
    """
    why = _why_no_moments(release)
    noise = release.noise if why is None else None
    return {
        "format": FORMAT,
        "about": _about(release, file),
        "columns": [_column(name, c, release.schema.derived.get(name)) for name, c in release.schema.resolved.items()],
        "blocks": [_block(b) for b in release.encoding],
        "moments": None if why else _upper(release.moments.matrix),
        "noise": None if noise is None else noise.variance.tolist(),
        "sigma": None if why else release.moments.sigma,
        "whyNoMoments": why,
        "whyNoIntervals": UNKNOWN_NOISE if noise is None else None,
        "ready": _ready(release),
        "distributions": distributions(release),
        "association": [] if why else association(release),
        "spending": spending(release),
        "preview": [{"epsilon": e, "rho": float(rho_of(e, release.budget.delta))} for e in _epsilons(release.budget.epsilon)],
    }


def _epsilons(epsilon: float) -> list[float]:
    return [epsilon * factor for factor in LARGER]


def _why_no_moments(release: Release) -> str | None:
    try:
        _ = release.moments
    except ReleaseError as error:
        return str(error)
    return None


def _about(release: Release, file: str) -> dict[str, Any]:
    header = release.header()
    count, error = records(release)
    kept = ("unit", "mechanism", "private", "epsilon", "delta", "neighbours", "target", "link", "provenance", "ledger")
    return {key: header[key] for key in kept} | {
        "name": release.schema.name,
        "rho": float(release.rho),
        "contribution": header.get("contribution"),
        "records": count,
        "recordsError": error,
        "file": file,
        "sha256": hashlib.sha256(release.to_bytes()).hexdigest(),
    }


def _column(name: str, column: AnyColumn, derived: Derived | None) -> dict[str, Any]:
    number = column if isinstance(column, Numeric) else None
    return {
        "name": name,
        "kind": column.kind,
        "labels": list(column.labels),
        "low": None if number is None else number.low,
        "high": None if number is None else number.high,
        "edges": None if number is None or number.edges is None else list(number.edges),
        "derived": None if derived is None else {"function": derived.function, "of": list(derived.of)},
    }


def _block(block: Block) -> dict[str, Any]:
    known = block.is_scalar and len(block.squares) == 1
    return {
        "column": block.column,
        "rows": block.rows,
        "labels": list(block.labels),
        "centre": block.centre,
        "half": block.half,
        "contrast": block.contrast,
        "scalar": block.is_scalar,
        "table": block.is_table,
        "share": _share(block, known),
        "known": known,
        "z": None if block.numerators is None else block.A.tolist(),
    }


def _share(block: Block, known: bool) -> float:
    """How much of the noise of n̂ enters its diagonal (inference/noise_covariance.py)."""
    if block.is_table:
        return 1 / block.rows
    if not block.is_scalar:
        return 0.0
    return block.squares[0] / block.denominator**2 if known else 0.5


def _upper(matrix: NDArray[np.float64]) -> str:
    """The upper half row by row, in base64."""
    return base64.b64encode(matrix[np.triu_indices(len(matrix))].astype("<f8").tobytes()).decode()


def _ready(release: Release) -> dict[str, Any] | None:
    """The fit that a task release holds."""
    if (made := release.fitted) is None:
        return None
    linear = made.link is Link.IDENTITY
    fit = release.linear(made.target) if linear else release.logistic(made.target)
    return {
        "model": "linear" if linear else "logistic",
        "target": made.target,
        "coefficients": fit.coef,
        "why": fit.not_covered,
    }
