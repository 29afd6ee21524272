"""The leaderboard: every mechanism and baseline on every dataset, at δ = 1e-5 with ρ accounting and reproducible noise.

    python benchmarks/accuracy.py --data ../shared/data [--seeds 20] [--jobs 2] [--datasets adult …] [--methods task …]
    python benchmarks/accuracy.py --table

Linear: the paper's split, intercept on, test MSE on the 1,000 test rows and excess = (θ − θ_ols)'(X'X/n)(θ − θ_ols) on the
training rows. Logistic: AUC and log-loss on rows beyond the training ones, or on a fifth held out where there are none. Every
finished run is one line of results/accuracy.jsonl, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

RESULTS = Path(__file__).parent / "results"
RUNS = RESULTS / "accuracy.jsonl"
DELTA = 1e-5
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
LINEAR = ("adult", "ACSincome-LIN", "fire", "taxi-sub")
LOGISTIC = ("adult", "ACSincome", "ACSemployment", "ACSmobility", "ACSPublicCoverage-sub")
METHODS = {
    "linear": ("adassp", "ssp-tight", "ddssp-tree", "moments", "auto"),
    "logistic": ("objpert", "ddssp-tree", "moments", "auto"),
}
EVALUATION_ROWS = 40_000


class Problem:
    """A dataset counted once: exact statistics, rows for the task mechanism, design matrices for baselines and scores."""

    def __init__(self, kind: str, name: str, data: str) -> None:
        from ddssp.coding import coded, design
        from ddssp.encoding import Block, Encoding
        from ddssp.experiments import datasets
        from ddssp.secret.counts import Layout, counts
        from ddssp.secret.rows import Rows

        found = datasets.dataset(name, data)
        self.kind, self.schema, self.target = kind, found.schema, found.targets[kind]
        train, test = found.train, found.test
        if kind == "logistic" and found.rest.num_rows >= 5_000:
            test = found.rest.slice(0, EVALUATION_ROWS)
        elif kind == "logistic":
            cut = int(0.8 * train.num_rows)
            train, test = train.slice(0, cut), pa.concat_tables([train.slice(cut), test])
        self.train, self.test = train.combine_chunks(), test
        self.encoding = Encoding.centred(self.schema)
        batches = self.train.to_batches()
        self.counts = counts(batches, Layout.of(self.schema, self.encoding))
        self.tables: Any = None
        self.rows = Rows(lambda: batches, self.schema, self.encoding)
        # Baselines see the same columns with level 0 dropped and an intercept; predictions are comparable.
        paper = Encoding.paper(self.schema)
        one = Block(column=None, numerators=np.ones((1, 1), np.int64), denominator=1)
        self.reduced = Encoding((one, *(b for b in paper if b.column != self.target)))
        self.bound = self.reduced.norm_bound
        self.X = design(coded(self.train, self.schema), self.reduced.blocks, self.schema)
        self.y = design(coded(self.train, self.schema), (self.encoding.block(self.target),), self.schema)[:, 0]
        self.Xtest = design(coded(self.test, self.schema), self.reduced.blocks, self.schema)
        self.ytest = design(coded(self.test, self.schema), (self.encoding.block(self.target),), self.schema)[:, 0]
        self.XtX, self.Xty = self.X.T @ self.X, self.X.T @ self.y
        if kind == "linear":
            self.ols = np.linalg.lstsq(self.XtX, self.Xty, rcond=1e-12)[0]
            self.fitted = self.X @ self.ols

    def score(self, on_train: np.ndarray | None, on_test: np.ndarray) -> dict[str, float]:
        """Scores of predictions on the [−1, 1] scale (linear) or of logits."""
        if self.kind == "linear":
            assert on_train is not None
            return {"mse": float(np.mean((on_test - self.ytest) ** 2)), "excess": float(np.mean((on_train - self.fitted) ** 2))}
        from scipy.stats import rankdata

        ranks, positive = rankdata(on_test), self.ytest > 0
        k = positive.sum()
        auc = (ranks[positive].sum() - k * (k + 1) / 2) / (k * (~positive).sum())
        return {"auc": float(auc), "logloss": float(np.mean(np.logaddexp(0, -self.ytest * on_test)))}


@lru_cache(maxsize=1)
def problem(kind: str, name: str, data: str) -> Problem:
    return Problem(kind, name, data)


def baseline(p: Problem, method: str, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    from ddssp.experiments.adassp import adassp
    from ddssp.experiments.objpert import objpert
    from ddssp.experiments.ssp import ssp_tight
    from ddssp.privacy.budget import rho_of

    if method == "adassp":
        return adassp(p.XtX, p.Xty, bound=p.bound, epsilon=epsilon, delta=DELTA, rng=rng)
    if method == "ssp-tight":
        return ssp_tight(p.XtX, p.Xty, bound=p.bound, rho=float(rho_of(epsilon, DELTA)), rng=rng)
    return objpert(p.X, p.y, bound=p.bound, epsilon=epsilon, delta=DELTA, rng=rng)


def released(p: Problem, method: str, epsilon: float, seed: int) -> Any:
    """The fit of one of our own mechanisms, through a vault over the counts already made."""
    from ddssp.curate import plan
    from ddssp.experiments.noise import SeededNoise
    from ddssp.released import Release
    from ddssp.secret.counts import Layout, counts
    from ddssp.secret.vault import Vault

    mechanism = {"ddssp-tree": "aim"}.get(method, method)
    options = {"inference": "tree"} if mechanism == "aim" else {}
    made = plan(p.schema, epsilon=epsilon, delta=DELTA, mechanism=mechanism, target=p.target, **options)
    exact = p.counts
    if mechanism == "aim":
        p.tables = p.tables or counts(p.train.to_batches(), Layout.of(p.schema, made.mechanism.counted(p.schema)))
        exact = p.tables
    found = made.mechanism.run(Vault(exact, made.budget.rho, SeededNoise(seed), p.rows), p.schema, lambda _what, _share: None)
    release = Release(
        schema=p.schema, mechanism=made.mechanism.name, budget=made.budget, rho=made.budget.rho, private=False,
        measurements=found.measurements, marginals=found.marginals, fitted=found.fitted, target=p.target,
    )  # fmt: skip
    return release.linear(p.target) if p.kind == "linear" else release.logistic(p.target)


def run(kind: str, name: str, method: str, epsilon: float, seed: int, data: str) -> dict[str, Any]:
    """One cell, one seed."""
    from ddssp.model.fit import design_of

    p = problem(kind, name, data)
    start = time.perf_counter()
    if method in {"adassp", "ssp-tight", "objpert"}:
        theta = baseline(p, method, epsilon, np.random.default_rng([seed, 5]))
        seconds = time.perf_counter() - start
        scores = p.score(p.X @ theta if kind == "linear" else None, p.Xtest @ theta)
    else:
        fit = released(p, method, epsilon, seed)
        seconds = time.perf_counter() - start
        on_train = design_of(p.train, fit.encoding, p.schema) @ fit.theta if kind == "linear" else None
        scores = p.score(on_train, design_of(p.test, fit.encoding, p.schema) @ fit.theta)
    return {"kind": kind, "dataset": name, "method": method, "epsilon": epsilon, "seed": seed, "seconds": seconds, **scores}


def done() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RUNS.read_text().splitlines()] if RUNS.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--datasets", nargs="*")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--kinds", nargs="*", default=["linear", "logistic"])
    parser.add_argument("--table", action="store_true", help="only write results/accuracy.md from the finished runs")
    args = parser.parse_args()
    if not args.table:
        finished = {(r["kind"], r["dataset"], r["method"], r["epsilon"], r["seed"]) for r in done()}
        cells = [
            (kind, name, method, epsilon, seed)
            for kind in args.kinds
            for name in (LINEAR if kind == "linear" else LOGISTIC)
            for method in METHODS[kind]
            for epsilon in EPSILONS
            for seed in range(args.seeds)
            if (not args.datasets or name in args.datasets) and (not args.methods or method in args.methods)
        ]
        todo = [c for c in cells if c not in finished]
        with ProcessPoolExecutor(args.jobs) as pool, RUNS.open("a") as out:
            futures = [pool.submit(run, *c, args.data) for c in todo]
            for i, future in enumerate(as_completed(futures), 1):
                out.write(json.dumps(future.result()) + "\n")
                out.flush()
                print(f"\r{i}/{len(todo)}", end="", flush=True)
    (RESULTS / "accuracy.md").write_text(table(done()))


def table(runs: list[dict[str, Any]]) -> str:
    """Mean ± standard error of each cell, and geometric means of the excess."""
    cells: dict[tuple[str, str, str, float], list[dict[str, Any]]] = defaultdict(list)
    for r in runs:
        cells[r["kind"], r["dataset"], r["method"], r["epsilon"]].append(r)
    lines = [
        "# Accuracy",
        "",
        "`python benchmarks/accuracy.py`; δ = 1e-5, ρ accounting, reproducible noise, seeds 0 … n − 1, 2 cores.",
        "",
    ]
    for kind, score, second, names in (("linear", "mse", "excess", LINEAR), ("logistic", "auc", "logloss", LOGISTIC)):
        lines += [f"## {kind}: {score} ± standard error ({second}; worst seed's; seeds)", ""]
        lines += [
            "| dataset | method | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
            "|---|---|" + "---|" * len(EPSILONS),
        ]
        for name in names:
            for method in METHODS[kind]:
                row = [_cell(cells.get((kind, name, method, e), []), score, second) for e in EPSILONS]
                if any(row):
                    lines.append(f"| {name} | {method} | " + " | ".join(row) + " |")
        lines.append("")
        if kind == "linear":
            lines += ["Geometric mean of the excess over all datasets and ε:", ""]
            for method in METHODS[kind]:
                means = [
                    np.mean([r["excess"] for r in cells[kind, n, method, e]])
                    for n in names
                    for e in EPSILONS
                    if cells[kind, n, method, e]
                ]
                if means:
                    lines.append(f"- {method}: {np.exp(np.mean(np.log(np.maximum(means, 1e-12)))):.6f} ({len(means)} cells)")
            lines.append("")
    return "\n".join(lines)


def _cell(runs: list[dict[str, Any]], score: str, second: str) -> str:
    if not runs:
        return ""
    v, w = np.array([r[score] for r in runs]), np.array([r[second] for r in runs])
    return f"{v.mean():.5f} ± {v.std() / np.sqrt(len(v)):.5f} ({w.mean():.2g}; {w.max():.2g}; {len(v)})"


if __name__ == "__main__":
    main()
