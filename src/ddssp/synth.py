"""Synthetic rows of a release (AIM-Synth). Post-processing: costs no privacy, and its randomness is nobody's secret.

What matches the release:

tables (aim)   one- and two-way marginals. Rows are drawn from the release's model and then updated gradually towards the
               released pairs, which takes most of the sampling error out again.
moments        the encoded second moments, and with them the histograms of one-hot columns, the mean and variance of numbers
               and their covariances. Rows start as independent columns of greatest entropy and are updated gradually, an
               entry weighing as much as its noise allows. Nothing else is known of a number's distribution, and nothing
               else matches.

Both match as closely as rows can: noisy statistics need not be those of any table.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from ddssp.column import AnyColumn, Numeric
from ddssp.cost import memory
from ddssp.domain import Clique
from ddssp.encoding import Block
from ddssp.gradual import MomentsTarget, TableTarget, updated
from ddssp.inference import pgm, tree
from ddssp.inference.psd import combined
from ddssp.marginal import PairMarginals
from ddssp.mechanism.aim import Inference
from ddssp.moments import Moments
from ddssp.released import Release, require_writable

Array = NDArray[np.float64]
Codes = NDArray[np.int32]

GRID = 65
"""Values that a number without bins may take before it is spread over the gaps between them."""

CLOSE, ITERATIONS = 1e-4, 300
"""Tolerance and most propagations when the graphical model is found again; the updates after it see to what is left."""

CELL = 64
"""Bytes that a value takes while rows are made: its code, its place among the records of an update, the value itself."""

FORMATS = (".csv", ".parquet")


def synthetic(release: Release, *, rows: int | None = None, seed: int | None = None) -> pa.Table:
    """A table with the declared columns whose statistics are the release's.

    Edge cases: derived columns are left out, they follow from the others; a value is null where its indicator column says so.

    Args:
        rows: how many; by default as many as the release estimates the data to have.
        seed: makes the same rows again.
    """
    if seed is not None and not _is_whole(seed, 0):
        raise ValueError(f"seed must be a whole number of 0 or more, got {seed!r}.")
    if rows is not None and not _is_whole(rows, 1):
        raise ValueError(f"rows must be a whole number of at least 1, got {rows!r}.")
    n = max(1, round(float(release.moments.matrix[0, 0]))) if rows is None else int(rows)
    _require_memory(n, len(release.schema.resolved))
    rng = np.random.default_rng(seed)
    if release.marginals is not None:
        return decoded(_of_tables(release, release.marginals, n, rng), release, rng)
    return decoded(_of_moments(release, n, rng), release, rng)


def _is_whole(given: object, least: int) -> bool:
    return isinstance(given, Integral) and int(given) >= least


def _require_memory(rows: int, columns: int) -> None:
    """Refuses more rows than this machine's memory can hold."""
    have = memory()
    if have is not None and rows * columns * CELL > have:
        most = have // (columns * CELL)
        raise ValueError(f"rows must be at most {most:,}, got {rows:,}: this machine's memory holds no more; ask for fewer.")


def _of_tables(release: Release, marginals: PairMarginals, n: int, rng: np.random.Generator) -> dict[str, Codes]:
    drawn = _model(release, marginals).sample(n, rng)
    target = TableTarget(burt=marginals.burt * (n / marginals.total))
    codes = updated(drawn, [a.size for a in marginals.domain], target, rng)
    return dict(zip(marginals.domain.names, codes.T, strict=True))


def _model(release: Release, marginals: PairMarginals) -> tree.TreeModel | pgm.GraphicalModel:
    """The release's own model again.

    Of all graphical models over the measured cliques one has the released tables there: the one that made them.
    """
    if release.mechanism == Inference.TREE.mechanism:
        return tree.estimate(marginals.domain, release.measurements)
    tables = [replace(m, values=_released(marginals, m.clique)) for m in combined(release.measurements).values()]
    return pgm.estimate(marginals.domain, tables, tolerance=CLOSE, max_iterations=ITERATIONS)


def _released(marginals: PairMarginals, clique: Clique) -> Array:
    return marginals.one_way(clique[0]).copy() if len(clique) == 1 else marginals[clique[0], clique[1]].copy()


def _of_moments(release: Release, n: int, rng: np.random.Generator) -> dict[str, Codes]:
    """Codes of every column that is not derived; of a number, its place on the grid."""
    known = release.moments.keep((None, *(c for c in release.encoding.columns if c not in release.schema.derived)))
    total = max(1.0, float(known.matrix[0, 0]))
    A = [levels(b) for b in known.encoding]
    start = np.stack([rng.choice(a.shape[1], n, p=p) for a, p in zip(A, _one_way(known, A), strict=True)], axis=1)
    codes = updated(start.astype(np.int32), [a.shape[1] for a in A], _target(known, A, n / total), rng)
    out = {c: np.zeros(n, np.int32) for c in release.schema.resolved}
    return out | {b.column: codes[:, i] for i, b in enumerate(known.encoding) if b.column is not None}


def levels(block: Block) -> Array:
    """A_j of a block, "p m"; a number without bins gets a grid of values."""
    return np.linspace(-1.0, 1.0, GRID)[None] if block.numerators is None else block.A


def _target(known: Moments, A: list[Array], scale: float) -> MomentsTarget:
    ends = np.cumsum([0, *(a.shape[1] for a in A)])
    variance = np.ones_like(known.matrix) if known.variance is None else known.variance
    weights = 1 / np.maximum(variance, variance.max() * 1e-9)
    return MomentsTarget(
        encode=block_diag(*A),
        rows=dict(zip(ends[:-1].tolist(), known.encoding.slices.values(), strict=True)),
        matrix=known.matrix * scale,
        weights=weights,
    )


def _one_way(known: Moments, A: list[Array]) -> list[Array]:
    """For each block the distribution over its levels of greatest entropy with the released mean (and square) of z."""
    total = max(1.0, float(known.matrix[0, 0]))
    out = []
    for block, a in zip(known.encoding, A, strict=True):
        s = known.encoding.slices[block.column]
        features, wanted = a, known.matrix[0, s] / total
        if block.is_scalar:
            features, wanted = np.vstack([a, a**2]), np.append(wanted, np.diag(known.matrix)[s] / total)
        out.append(greatest_entropy(features, wanted))
    return out


def greatest_entropy(features: Array, wanted: Array) -> Array:
    r"""p ∝ exp(λ'f) with E f = `wanted`, as nearly as there is one.

    λ minimises log Σ exp(λ'f) − λ'w + 10⁻⁴|λ|²/2; the last term keeps it finite where w is not the mean of any distribution.

    Args:
        features: "q m", wanted: "q".
    """

    def dual(weights: Array) -> tuple[float, Array]:
        p = softmax(weights @ features)
        value = logsumexp(weights @ features) - weights @ wanted + 5e-5 * weights @ weights
        return float(value), features @ p - wanted + 1e-4 * weights

    found = minimize(dual, np.zeros(len(features)), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.asarray(softmax(found.x @ features))


def decoded(codes: Mapping[str, Codes], release: Release, rng: np.random.Generator) -> pa.Table:
    """Codes → the schema's original values; a bin becomes a value inside it."""
    schema = release.schema
    blocks = {b.column: b for b in release.encoding}
    out = {}
    for name, column in schema.columns.items():
        on_grid = name in blocks and blocks[name].numerators is None
        values = _numbers(codes[name], column, on_grid, rng) if isinstance(column, Numeric) else _levels(codes[name], column)
        gone = codes[f"{name}:missing"] == 1 if f"{name}:missing" in codes else None
        out[name] = pa.array(values, mask=gone) if isinstance(values, np.ndarray) else values
    return pa.table(out)


def _numbers(codes: Codes, column: Numeric, on_grid: bool, rng: np.random.Generator) -> Array:
    """Anywhere in the bin, or within half a step of the grid point."""
    u = rng.random(len(codes))
    if on_grid:
        values = column.low + (codes + u - 0.5) * ((column.high - column.low) / (GRID - 1))
        return np.clip(values, column.low, column.high)
    edges = np.array(column.edges)
    low, high = edges[codes], edges[codes + 1]
    return np.asarray(np.clip(low + u * (high - low), low, np.nextafter(high, low)))


def _levels(codes: Codes, column: AnyColumn) -> pa.Array:
    """Levels by their own type where all have one, else as text."""
    values = () if isinstance(column, Numeric) else column.all_levels
    kinds = {type(v) for v in values}
    if kinds <= {int, float} and len(kinds) == 2:
        values = tuple(float(v) for v in values)
    elif len(kinds) > 1:
        values = tuple(str(v) for v in values)
    return pa.array(list(values)).take(pa.array(codes))


def require_format(path: Path, *, force: bool) -> None:
    """Refuses an output that is neither CSV nor Parquet, exists or cannot be written, before any row is drawn."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"output must end in {' or '.join(FORMATS)}, got {path.name!r}.")
    require_writable(path, force=force)


def write(table: pa.Table, path: str | Path, *, force: bool = False) -> None:
    """Writes CSV or Parquet by the file's ending, whole or not at all."""
    path = Path(path)
    require_format(path, force=force)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".ddssp-", suffix=path.suffix)
    os.close(handle)
    try:
        _write(table, temporary, path.suffix.lower())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _write(table: pa.Table, path: str, ending: str) -> None:
    if ending == ".csv":
        import pyarrow.csv as pv

        pv.write_csv(table, path)
    else:
        import pyarrow.parquet as pq

        pq.write_table(table, path)
