"""The paper's datasets, from a directory with MANIFEST.json: integer codes, domains, splits and targets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ddssp.schema import Schema

TRAIN_ROWS = 50_000
"""The paper trains on at most this many rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """One dataset: `targets` maps linear / logistic to a column; `train` and `test` as in the paper's protocol."""

    name: str
    schema: Schema
    targets: dict[str, str]
    train: pa.Table
    test: pa.Table
    rest: pa.Table
    """Rows that are in neither: train rows beyond the paper's limit."""
    match: str
    """How close it is to the paper's own data."""

    @property
    def is_substitute(self) -> bool:
        return "substitute" in self.match or self.name.endswith("-sub")


def names(directory: str | Path) -> tuple[str, ...]:
    """The datasets that have rows to train on."""
    return tuple(n for n, d in _manifest(directory).items() if "train_rows" in d["split"])


def targets(name: str, directory: str | Path) -> dict[str, str]:
    """linear / logistic → the column that the paper explains with it."""
    about = _manifest(directory)[_known(name, directory)]
    return {kind: t for kind, t in about["targets"].items() if kind in {"linear", "logistic"} and t in about["columns"]}


def resolved(asked: Iterable[str], directory: str | Path) -> tuple[str, ...]:
    """The datasets meant: by their own names, or by the paper's (ACSIncome is two; a substitute stands for what is absent)."""
    held = names(directory)
    out: list[str] = []
    for name in asked:
        meant = {name.lower(), f"{name.lower()}-lin", f"{name.lower()}-sub"}
        found = [name] if name in held else [h for h in held if h.lower() in meant]
        if not found:
            raise ValueError(f"datasets must be among {', '.join(held)}, got {name!r}.")
        out += [f for f in found if f not in out]
    return tuple(out)


def dataset(name: str, directory: str | Path) -> Dataset:
    """The dataset `name`, its checksum verified."""
    d = _manifest(directory)[_known(name, directory)]
    content = (Path(directory) / d["file"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != d["sha256"]:
        raise ValueError(f"dataset {name!r}: {d['file']} does not have the manifest's checksum; fetch it again.")
    table = pq.read_table(pa.BufferReader(content))
    (a, b), (c, e) = d["split"].get("train_rows", (0, 0)), d["split"]["test_rows"]
    end = min(b, a + TRAIN_ROWS)
    sizes = json.loads((Path(directory) / d["domain_file"]).read_text())
    return Dataset(
        name=name,
        schema=_schema(name, table.column_names, sizes, set(d["categorical_one_hot"])),
        targets=targets(name, directory),
        train=table.slice(a, end - a),
        test=table.slice(c, e - c),
        rest=table.slice(end, b - end),
        match=d["match"],
    )


def _known(name: str, directory: str | Path) -> str:
    about = _manifest(directory)
    if name not in about:
        raise ValueError(f"dataset must be one of {', '.join(about)}, got {name!r}.")
    return name


def _manifest(directory: str | Path) -> dict[str, Any]:
    path = Path(directory) / "MANIFEST.json"
    if not path.exists():
        raise ValueError(f"data directory must hold MANIFEST.json, got {str(directory)!r}.")
    try:
        return dict(json.loads(path.read_text())["datasets"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"manifest {str(path)!r} must be JSON with the key datasets; fetch it again.") from None


def _schema(name: str, columns: list[str], sizes: dict[str, int], one_hot: set[str]) -> Schema:
    """The paper's encoding: listed columns one-hot, all others numbers spread evenly over [−1, 1]."""
    kinds = {c: {"kind": "categorical" if c in one_hot else "ordinal", "levels": sizes[c]} for c in columns}
    return Schema(name=name, columns=kinds)
