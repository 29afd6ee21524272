"""One stage or two: does a first look at all blocks help to divide the rest of a moments release's budget?

    python benchmarks/stages.py [--seeds 5]

A part of ρ is spent on all blocks as usual. What it found decides on the rest: block A with signal variance S_A per entry
will be shrunken to it, so with precision τ_A it is wrong by w_A n_A S_A / (1 + S_A τ_A). The sum is least at cost Σ p_A τ_A / 2
for τ_A = √(2 w_A n_A / λ p_A) − 1 / S_A, where that is more than the first look gave. Blocks without signal get nothing more:
this is also a choice of blocks, made from answers that are already paid for. Excess over least squares on the simulated designs
of designs.py, 20,000 rows, reproducible noise; results/stages.md is written.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

import runs
from ddssp.coding import coded
from ddssp.coding import design as matrix
from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import SeededNoise
from ddssp.experiments.problem import Coefficients, predictions
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement
from ddssp.mechanism import Outcome, Progress
from ddssp.mechanism.moments import SLACK, TARGET_WEIGHT, MomentsMechanism, allocation, measured, queries
from ddssp.model.solve import Shrinkage
from ddssp.privacy.curator import Curator, Query
from ddssp.schema import Schema
from designs import Design, design

Array = NDArray[np.float64]

DESIGNS = ("sparse", "dense", "collinear", "wide", "heavy-tailed")
EPSILONS = (0.1, 1.0)
FIRST = (1.0, 0.5, 0.3)
"""Shares of the budget for the first look; 1 is one stage."""

SHRINKAGES = (Shrinkage.EMPIRICAL_BAYES, Shrinkage.COLUMNS)
NEGLIGIBLE = 1e-7
"""Blocks that would get less of the second stage than this are left out of it."""


@dataclass(frozen=True, kw_only=True)
class TwoStages(MomentsMechanism):
    """A moments release whose budget beyond the first look goes where there is signal."""

    first: float

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome:
        asked = queries(self.counted(schema))
        weights = np.array([TARGET_WEIGHT if self.target in q.clique else 1.0 for q in asked])
        sigmas = allocation(asked, weights, self.first * float(curator.remaining))
        found = measured(curator, asked, sigmas)
        more = further(asked, weights, found, float(curator.remaining))
        chosen = [(q, s) for q, s in zip(asked, more, strict=True) if np.isfinite(s)]
        again = measured(curator, [q for q, _ in chosen], np.array([s for _, s in chosen])) if chosen else ()
        return Outcome(measurements=tuple(combined((*found, *again)).values()))


def further(asked: Sequence[Query], weights: Array, found: Sequence[Measurement], rho: float) -> Array:
    """σ of each query in the second stage, infinite where it is not asked again; λ by bisection."""
    n = np.array([q.left.freedom * q.right.freedom for q in asked], np.float64)
    p, noise = np.array([q.p for q in asked]), np.array([m.sigma for m in found]) ** 2
    signal = np.maximum([np.sum(m.values**2) for m in found] / n - noise, 0.05 * noise)
    low, high = -100.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        more = np.maximum(np.sqrt(2 * weights * n / (np.exp(middle) * p)) - 1 / signal - 1 / noise, 0)
        low, high = (middle, high) if p @ more / 2 > rho else (low, middle)
    more = np.maximum(np.sqrt(2 * weights * n / (np.exp(high) * p)) - 1 / signal - 1 / noise, 0)
    return np.where(p * more / 2 > NEGLIGIBLE * rho, SLACK / np.sqrt(np.maximum(more, 1e-300)), np.inf)


def excesses(d: Design, *, epsilon: float, target: str | None, first: float, seed: int) -> list[float]:
    """Mean (x'θ − x'θ_ols)² of the rows, for each way to shrink."""
    made = plan(d.schema, epsilon=epsilon, delta=1e-5, mechanism="moments", target=target)
    if first < 1:
        made = replace(made, mechanism=TwoStages(target=target, first=first))
    release = curate(d.table, made, noise=SeededNoise(seed))
    rows = coded(d.table.combine_chunks(), d.schema)
    X = matrix(rows, [b for b in Encoding.centred(d.schema) if b.column != d.target], d.schema, rows=d.table.num_rows)
    response = Encoding((Encoding.paper(d.schema).block(d.target),))
    y = predictions(Coefficients(theta=np.ones(1), encoding=response), rows)
    best = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    fits = [release.linear(d.target, shrinkage=how) for how in SHRINKAGES]
    return [float(np.mean((predictions(Coefficients(theta=f.theta, encoding=f.encoding), rows) - best) ** 2)) for f in fits]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    start, how = time.perf_counter(), runs.circumstances()
    head = [f"{s.value}, first look {f:g}" for s in SHRINKAGES for f in FIRST]
    lines = ["| design | ε | target | " + " | ".join(head) + " |", "|---|---|---|" + "---:|" * len(head)]
    logs = []
    for name, epsilon, target in product(DESIGNS, EPSILONS, (None, "y")):
        d = design(name, 0, rows=20_000)
        cells = np.array([[excesses(d, epsilon=epsilon, target=target, first=f, seed=s) for s in seeds] for f in FIRST])
        means, errors = cells.mean(1).T, (cells.std(1, ddof=1) / np.sqrt(len(seeds))).T
        logs.append(np.log(means))
        told = [f"{m:.5f} ± {e:.5f}" for m, e in zip(means.ravel(), errors.ravel(), strict=True)]
        lines.append(f"| {name} | {epsilon:g} | {'declared' if target else 'none'} | " + " | ".join(told) + " |")
        print(lines[-1], flush=True)
    ratios = np.exp(np.mean(logs, axis=0))
    lines.append("| geometric mean | | | " + " | ".join(f"{r:.5f}" for r in ratios.ravel()) + " |")
    how["seconds"] = time.perf_counter() - start
    title = f"# One stage or two\n\nExcess over least squares ± standard error, {len(seeds)} seeds, δ = 1e-5, 20,000 rows.\n"
    text = "\n".join([title, *lines, *runs.made([how])]) + "\n"
    (runs.RESULTS / "stages.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
