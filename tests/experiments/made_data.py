"""A small folder of datasets with a manifest, made by a known model."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = {"a": 5, "b": 3, "c": 4, "y": 6, "z": 2}
ONE_HOT = ["b", "c"]


def rows(n: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, n), rng.integers(0, 3, n)
    c = np.where(rng.random(n) < 0.5, b, rng.integers(0, 4, n))
    y = np.clip(np.rint(a + (b == 1) - (c == 2) + rng.normal(0, 0.7, n)), 0, 5).astype(int)
    z = (rng.random(n) < 1 / (1 + np.exp(2.0 - a - (c == 1)))).astype(int)
    return pa.table({"a": a, "b": b, "c": c, "y": y, "z": z})


def folder(path: Path, *, train: int = 1500, test: int = 300) -> Path:
    """Datasets `small` (linear y, logistic z) and `other-sub`, a substitute (linear y)."""
    about = {}
    for seed, (name, targets) in enumerate({"small": {"linear": "y", "logistic": "z"}, "other-sub": {"linear": "y"}}.items()):
        pq.write_table(rows(train + test, seed), path / f"{name}.parquet")
        (path / f"{name}.domain.json").write_text(json.dumps(SIZES))
        about[name] = {
            "file": f"{name}.parquet",
            "domain_file": f"{name}.domain.json",
            "sha256": hashlib.sha256((path / f"{name}.parquet").read_bytes()).hexdigest(),
            "columns": list(SIZES),
            "targets": targets,
            "split": {"train_rows": [0, train], "test_rows": [train, train + test]},
            "match": "made in a test",
            "categorical_one_hot": ONE_HOT,
        }
    (path / "MANIFEST.json").write_text(json.dumps({"datasets": about}))
    return path
