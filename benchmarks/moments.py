"""Accuracy and speed of the moments mechanism, beside AdaSSP.

    python benchmarks/moments.py [--data DIR] [--seeds 10]

DIR holds the paper's datasets (default: DDSSP_DATA, or ../shared/data). Test MSE of a linear regression of the paper's target
on all other columns, target on [−1, 1], 1,000 test rows, δ = 1e-5, the target declared; mean ± standard error over seeds, with
the seeded twin of the product's noise. AdaSSP's figures are those of an implementation of the paper's appendix (equal thirds of
the budget, same rows, mean of 5 to 10 seeds), as recorded beside the datasets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from ddssp.curate import curate, plan
from ddssp.experiments.datasets import Dataset, dataset
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.model.solve import Shrinkage

EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
DELTA = 1e-5
ADASSP = {"adult": (0.107, 0.092, 0.061, 0.050, 0.039), "ACSincome-LIN": (0.316, 0.287, 0.230, 0.218, 0.211)}


def held_out_mse(data: Dataset, epsilon: float, noise: SeededNoise | NoNoise, shrinkage: Shrinkage | None = None) -> float:
    """Mean squared error on the test rows, target on [−1, 1]."""
    target = data.targets["linear"]
    half = ((data.schema.columns[target].size or 2) - 1) / 2
    made = plan(data.schema, epsilon=epsilon, delta=DELTA, mechanism="moments", target=target)
    fit = curate(data.train, made, noise=noise).linear(target, shrinkage=shrinkage)
    y = data.test.column(target).to_numpy() / half - 1
    return float(np.mean((fit.predict(data.test) / half - 1 - y) ** 2))


def accuracy(name: str, folder: Path, seeds: int) -> None:
    data = dataset(name, folder)
    exact = held_out_mse(data, 1.0, NoNoise(), Shrinkage.NONE)
    print(f"\n{name}: {data.train.num_rows:,} rows, target {data.targets['linear']}, not private {exact:.4f}, {seeds} seeds")
    print(f"{'ε':>6} {'moments':>9} {'± s.e.':>9} {'worst':>9} {'AdaSSP':>9} {'ratio':>7}")
    for epsilon, reference in zip(EPSILONS, ADASSP[name], strict=True):
        errors = [held_out_mse(data, epsilon, SeededNoise(seed)) for seed in range(seeds)]
        mean, error = np.mean(errors), np.std(errors, ddof=1) / np.sqrt(seeds)
        print(f"{epsilon:>6g} {mean:>9.4f} {error:>9.4f} {max(errors):>9.4f} {reference:>9.3f} {reference / mean:>6.1f}x")


def best(times: int, run: Callable[[], object]) -> float:
    """Seconds of wall time, the best of several."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def speed(folder: Path) -> None:
    data = dataset("adult", folder)
    target = data.targets["linear"]
    made = plan(data.schema, epsilon=1.0, delta=DELTA, mechanism="moments", target=target)
    print("\nAdult at ε = 1, wall seconds, best of 5")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "adult.parquet"
        pq.write_table(data.train, path)
        release = curate(path, made)
        file = Path(scratch) / "r.ddssp"
        release.save(file)
        (Path(scratch) / "schema.toml").write_text(data.schema.to_toml(), encoding="utf-8")
        ddssp = str(Path(sys.executable).with_name("ddssp"))
        command = [
            ddssp,
            "release",
            str(path),
            "-s",
            f"{scratch}/schema.toml",
            "-e",
            "1",
            "-d",
            "1e-5",
            "-o",
            str(file),
            "--force",
        ]
        rows = {
            "release from Parquet, after import": lambda: curate(path, made),
            "fit from the release": lambda: fitted(file, target),
            "`ddssp release`, the whole process": lambda: subprocess.run(command, check=True, capture_output=True),
            "`ddssp --help`, the whole process": lambda: subprocess.run([ddssp, "--help"], check=True, capture_output=True),
        }
        for what, run in rows.items():
            print(f"{best(5, run):>7.3f}  {what}")


def fitted(file: Path, target: str) -> object:
    from ddssp import load

    return load(file).linear(target).coef


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.environ.get("DDSSP_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if not (options.data / "MANIFEST.json").exists():
        raise SystemExit(f"no datasets in {options.data}: give --data DIR, a folder with MANIFEST.json")
    for name in ADASSP:
        accuracy(name, options.data, options.seeds)
    speed(options.data)


if __name__ == "__main__":
    main()
