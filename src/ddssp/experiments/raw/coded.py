"""What all raw files become: integer codes 0 … m − 1 of every column, shuffled once, the last 1,000 rows for testing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]

TEST_ROWS = 1000
SEED = 0
"""Of the shuffle."""

OUTSIDE = -1
"""Code of a value that has no level; rows with one are left out."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """A dataset as codes, without the rows that have a value outside the domain."""

    name: str
    codes: Mapping[str, Codes]
    sizes: Mapping[str, int]
    one_hot: Sequence[str]
    targets: Mapping[str, str]
    match: str

    @property
    def table(self) -> pa.Table:
        """Complete rows, shuffled."""
        inside = np.all([c != OUTSIDE for c in self.codes.values()], axis=0)
        order = np.random.default_rng(SEED).permutation(np.flatnonzero(inside))
        return pa.table({name: c[order].astype(np.int32) for name, c in self.codes.items()})


def evenly(values: Numbers, low: float, high: float, bins: int) -> Codes:
    """The bin of each number among equally wide ones over [low, high), OUTSIDE beyond them or where it is missing."""
    place = np.floor((values - low) / (high - low) * bins)
    inside = np.isfinite(values) & (values >= low) & (values < high)
    return np.where(inside, np.where(inside, place, 0), OUTSIDE).astype(np.int64)


def shifted(values: Numbers, first: int, size: int, *, missing: int = OUTSIDE) -> Codes:
    """value − first for `size` consecutive integers; `missing` where there is none, OUTSIDE beyond them."""
    code = np.where(np.isfinite(values), values, first) - first
    code = np.where((code >= 0) & (code < size), code, OUTSIDE)
    return np.where(np.isfinite(values), code, missing).astype(np.int64)


def quantile_bins(values: Numbers, bins: int) -> Codes:
    """The bin of each number among those with equal shares of all of them; read from the data, as the paper's targets were."""
    inner = np.nanquantile(values, np.linspace(0, 1, bins + 1)[1:-1])
    return np.where(np.isnan(values), OUTSIDE, np.searchsorted(inner, values, side="left")).astype(np.int64)


def levelled(values: pa.ChunkedArray | pa.Array, levels: Sequence[str]) -> Codes:
    """Place of each text among the levels, without surrounding spaces; OUTSIDE where it is none of them."""
    words = pc.utf8_trim_whitespace(values.cast(pa.string()))
    found = pc.fill_null(pc.index_in(words, pa.array(list(levels))), OUTSIDE)
    return np.asarray(found.to_numpy(), np.int64)


def numbers(values: pa.ChunkedArray | pa.Array) -> Numbers:
    """Numbers with NaN for what is missing."""
    return np.asarray(pc.fill_null(values.cast(pa.float64()), np.nan).to_numpy(), np.float64)


def save(found: Iterable[Coded], folder: str | Path) -> None:
    """Writes datasets and MANIFEST.json, as `ddssp reproduce --data` reads them."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    about: dict[str, Any] = {}
    for d in found:
        table = d.table
        if table.num_rows <= TEST_ROWS:
            raise ValueError(f"dataset {d.name!r} must have more than {TEST_ROWS} complete rows; is this the whole file?")
        pq.write_table(table, folder / f"{d.name}.parquet")
        (folder / f"{d.name}.domain.json").write_text(json.dumps(dict(d.sizes), indent=1), encoding="utf-8")
        train = table.num_rows - TEST_ROWS
        about[d.name] = {
            "file": f"{d.name}.parquet",
            "domain_file": f"{d.name}.domain.json",
            "sha256": hashlib.sha256((folder / f"{d.name}.parquet").read_bytes()).hexdigest(),
            "columns": table.column_names,
            "targets": dict(d.targets),
            "split": {"train_rows": [0, train], "test_rows": [train, table.num_rows]},
            "match": d.match,
            "categorical_one_hot": list(d.one_hot),
        }
    (folder / "MANIFEST.json").write_text(json.dumps({"datasets": about}, indent=1), encoding="utf-8")
