"""One-way distributions of a release, each share with the error that its noise gives it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement
from ddssp.model.naive_bayes import levels_of
from ddssp.released import Release

Known = dict[Clique, Measurement]


def records(release: Release) -> tuple[float | None, float | None]:
    """n̂ and its standard error; no error where n̂ follows from estimated tables, nothing where nothing tells n."""
    if release.marginals is not None:
        return release.marginals.total, None
    if (total := combined(release.measurements).get(())) is None:
        return None, None
    return float(total.values.ravel()[0]), total.sigma


def distributions(release: Release) -> list[dict[str, Any]]:
    """One entry per column that varies.

    Levels and bins as shares; a number's shape is not in a release of moments, so its mean and standard deviation stand for it.
    Edge cases: negative noisy counts are shown as 0, keeping their error; a column of one level is left out.
    """
    if release.marginals is not None:
        return [_table(release, name) for name, column in release.schema.resolved.items() if column.size != 1]
    known = combined(release.measurements)
    total = known.get(())
    if total is None:
        return []
    n = max(float(total.values.ravel()[0]), total.sigma, 1.0)
    labels = {name: column.labels for name, column in release.schema.resolved.items()}
    varying = [(b, b.column) for b in release.encoding if b.column is not None and (b.column,) in known]
    return [_measured(b, labels[name], known, n, total.sigma) for b, name in varying]


def _measured(block: Block, labels: tuple[str, ...], known: Known, n: float, sigma_n: float) -> dict[str, Any]:
    first = known[block.column or "",]
    found = levels_of(block)
    if found is not None:
        constant, B = found
        raw = constant + (B @ first.values.ravel()) / n
        error = np.hypot(np.linalg.norm(B, axis=1) * first.sigma, (raw - constant) * sigma_n) / n
        return _entry(block.column, _bars(labels, raw, error))
    if not block.is_scalar:
        return _entry(block.column)
    mean = float(np.clip(first.values.ravel()[0] / n, -1, 1))
    mean_error = float(np.hypot(first.sigma, mean * sigma_n) / n)
    out = _entry(block.column) | {"mean": block.centre + block.half * mean, "meanError": block.half * mean_error}
    if (square := known.get((block.column or "", block.column or ""))) is None:
        return out
    spread = float(np.sqrt(max(square.values.ravel()[0] / n + 0.5 - mean**2, 0.0)))
    doubt = float(np.hypot(square.sigma / n, 2 * abs(mean) * mean_error))  # of the variance
    error = min(doubt / (2 * spread) if spread > 0 else np.inf, np.sqrt(doubt))
    return out | {"spread": block.half * spread, "spreadError": block.half * float(error)}


def _table(release: Release, name: str) -> dict[str, Any]:
    assert release.marginals is not None
    column = release.schema.resolved[name]
    counts = release.marginals.one_way(name)
    n = max(release.marginals.total, 1.0)
    measured = combined(release.measurements).get((name,))
    error = None if measured is None else np.full(len(counts), measured.sigma / n)
    bars = [
        {"label": label, "share": float(c / n), "error": None if error is None else float(error[i])}
        for i, (label, c) in enumerate(zip(column.labels, counts, strict=True))
    ]
    out = _entry(name, bars)
    block = next((b for b in release.encoding if b.column == name), None)
    if block is None or not block.is_scalar or len(block.squares) == 1:
        return out
    v = block.A[0]
    mean = float(v @ counts) / n
    spread = float(np.sqrt(max(float(v**2 @ counts) / n - mean**2, 0.0)))
    return out | {"mean": block.centre + block.half * mean, "spread": block.half * spread}


def _bars(labels: tuple[str, ...], shares: NDArray[np.float64], errors: NDArray[np.float64]) -> list[dict[str, Any]]:
    return [
        {"label": label, "share": max(float(share), 0.0), "error": float(error)}
        for label, share, error in zip(labels, shares, errors, strict=True)
    ]


def _entry(column: str | None, bars: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"column": column, "bars": bars, "mean": None, "meanError": None, "spread": None, "spreadError": None}
