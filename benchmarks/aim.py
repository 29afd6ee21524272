"""AIM releases: seconds, marginal error, DD-SSP and AIM-Synth scores, against the reference's figures. Nothing here is private.

    python benchmarks/aim.py run --data DIR --append runs.jsonl [--datasets adult,fire] [--epsilons .05,.5] [--inference tree]
                                 [--model-size 200] [--seeds 5] [--first-seed 0] [--synth 50000] [--noise seeded|opendp]
                                 [--towards-target]
    python benchmarks/aim.py wide --append runs.jsonl [--epsilons 1] [--columns 100] [--levels 10] [--rows 100000]
    python benchmarks/aim.py report runs.jsonl [-o benchmarks/results/aim.md]

Exact counts of a dataset are made once; each release then has its own noise. Targets on [−1, 1], 1,000 test rows, δ = 1e-5;
scores by the paper's protocol (no intercept, level 0 dropped, plain least squares) and by the product's own fit. Seconds are
processor time, counting included: what a quiet machine takes with one thread (OMP_NUM_THREADS=1).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from aim_report import EPSILONS, text_of
from ddssp.coding import coded, design
from ddssp.curate import Plan, plan
from ddssp.encoding import Encoding
from ddssp.experiments.datasets import Dataset, dataset, names
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import batches
from ddssp.marginal import PairMarginals
from ddssp.model.linear import linear
from ddssp.model.logistic import logistic
from ddssp.model.solve import least_squares
from ddssp.moments import moments
from ddssp.released import Release
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, counts
from ddssp.secret.noise import OpenDPNoise
from ddssp.secret.vault import Vault
from ddssp.synth import synthetic

DELTA = 1e-5
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trial:
    """A dataset, counted once, and what its releases are judged by."""

    data: Dataset
    made: Plan
    exact: Counts
    counting: float

    @classmethod
    def of(cls, data: Dataset, **options: Any) -> Trial:
        made = plan(data.schema, epsilon=1.0, delta=DELTA, mechanism="aim", **options)
        start = time.process_time()
        exact = counts(batches(data.train, tuple(data.schema.columns)), made.layout)
        return cls(data, made, exact, time.process_time() - start)

    @cached_property
    def truth(self) -> PairMarginals:
        tables = {c: t.astype(np.float64) for c, t in self.exact.pair.items()}
        return PairMarginals.of(self.data.schema.domain(), tables)

    def release(self, epsilon: float, seed: int, noise: str, **options: Any) -> tuple[Release, dict[str, Any]]:
        made = plan(self.data.schema, epsilon=epsilon, delta=DELTA, mechanism="aim", **options)
        source = SeededNoise(seed) if noise == "seeded" else OpenDPNoise()
        vault = Vault(self.exact, made.budget.rho, source)
        rounds: list[str] = []
        start = time.process_time()
        found = made.mechanism.run(vault, made.schema, lambda what, _share: rounds.append(what))
        seconds = time.process_time() - start + self.counting
        release = Release(
            schema=made.schema,
            mechanism=made.mechanism.name,
            budget=made.budget,
            rho=made.budget.rho,
            measurements=found.measurements,
            marginals=found.marginals,
            private=False,
        )
        pairs = {m.clique for m in found.measurements if len(m.clique) == 2}
        return release, {"seconds": seconds, "rounds": len(rounds) - 1, "pairs": len(pairs)}

    def scores(
        self, marginals: PairMarginals, sigma: float | None = None, kind: str | None = None
    ) -> dict[str, dict[str, float]]:
        """MSE of a linear target, AUC of a logistic one, or of one `kind` alone; on the test rows.

        paper: as the reference fits, without intercept, level 0 dropped, plain least squares; product: as `Release.linear` and
        `Release.logistic` do, with an intercept, all levels, and shrinkage.
        """
        targets = {k: target for k, target in self.data.targets.items() if kind in (None, k)}
        return {"paper": self._paper(marginals, targets), "product": self._product(marginals, targets, sigma)}

    def _paper(self, marginals: PairMarginals, targets: dict[str, str]) -> dict[str, float]:
        encoding = Encoding.paper(self.data.schema)
        ZtZ, out = moments(marginals, encoding).matrix, {}
        for kind, target in targets.items():
            y = encoding.index([target])[0]
            x = np.delete(np.arange(encoding.size), y)
            rest = encoding.keep([c for c in encoding.slices if c != target])
            out[kind] = self._score(kind, target, rest, least_squares(ZtZ[np.ix_(x, x)], ZtZ[x, y]))
        return out

    def _product(self, marginals: PairMarginals, targets: dict[str, str], sigma: float | None) -> dict[str, float]:
        held = replace(moments(marginals, Encoding.centred(self.data.schema, tables=True)), sigma=sigma)
        out = {}
        for kind, target in targets.items():
            fit = (linear if kind == "linear" else logistic)(held, self.data.schema, target)
            out[kind] = self._score(kind, target, fit.encoding, fit.theta)
        return out

    def _score(self, kind: str, target: str, encoding: Encoding, theta: Array) -> float:
        codes, schema = coded(self.data.test, self.data.schema), self.data.schema
        found = design(codes, encoding.blocks, schema) @ theta
        truth = design(codes, (Encoding.paper(schema).block(target),), schema)[:, 0]
        return float(np.mean((truth - found) ** 2) if kind == "linear" else roc_auc_score(truth > 0, found))


def total_variation(found: PairMarginals, truth: PairMarginals, scale: float = 1.0) -> float:
    """Mean over pairs of half the L1 distance between scale · found and truth, as a share of truth's total."""
    starts = [s.start for s in truth.slices.values()]
    cells = np.abs(found.burt * scale - truth.burt)
    l1 = np.add.reduceat(np.add.reduceat(cells, starts, 0), starts, 1)
    return float(l1[np.triu_indices(len(starts), 1)].mean() / 2 / truth.total)


def tables_of(rows: pa.Table, schema: Schema) -> PairMarginals:
    """Exact pair marginals of some rows."""
    made = plan(schema, epsilon=1.0, delta=DELTA, mechanism="aim")
    exact = counts(batches(rows, tuple(schema.columns)), made.layout)
    return PairMarginals.of(schema.domain(), {c: t.astype(np.float64) for c, t in exact.pair.items()})


def run(arguments: argparse.Namespace) -> None:
    chosen = arguments.datasets.split(",") if arguments.datasets else names(arguments.data)
    options = {"inference": arguments.inference, "model_size": arguments.model_size}
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    for name in chosen:
        trial = Trial.of(dataset(name, arguments.data))
        towards: dict[str | None, str | None] = {**trial.data.targets} if arguments.towards_target else {None: None}
        for epsilon, seed, kind in product(map(float, arguments.epsilons.split(",")), seeds, towards):
            release, record = trial.release(epsilon, seed, arguments.noise, target=towards[kind], **options)
            assert release.marginals is not None
            record |= {"dataset": name, "epsilon": epsilon, "seed": seed, "noise": arguments.noise, "towards": kind, **options}
            record["tv"] = total_variation(release.marginals, trial.truth)
            record["scores"] = trial.scores(release.marginals, release.moments.sigma, kind)
            if arguments.synth:
                record["synth"] = _synth(trial, release, arguments.synth, seed)
            _append(record, arguments.append)
        _append({"dataset": name, "exact": trial.scores(trial.truth)}, arguments.append)


def _synth(trial: Trial, release: Release, rows: int, seed: int) -> dict[str, Any]:
    assert release.marginals is not None
    start = time.process_time()
    table = synthetic(release, rows=rows, seed=seed)
    seconds = time.process_time() - start
    tables = tables_of(table, trial.data.schema)
    tv = total_variation(release.marginals, tables, rows / release.marginals.total)
    return {"rows": rows, "seconds": seconds, "tv": tv, "scores": trial.scores(tables)}


def wide(arguments: argparse.Namespace) -> None:
    """Generated rows: each column copies one of the ten before it half of the time, else draws its own level."""
    rng = np.random.default_rng(0)
    n, m = arguments.rows, arguments.levels
    columns = [rng.integers(0, m, n)]
    for j in range(1, arguments.columns):
        own = rng.choice(m, n, p=rng.dirichlet(np.ones(m)))
        columns.append(np.where(rng.random(n) < 0.5, columns[rng.integers(max(0, j - 10), j)], own))
    rows = pa.table({f"c{j}": column for j, column in enumerate(columns)})
    schema = Schema(columns={c: {"kind": "categorical", "levels": m} for c in rows.column_names})
    for epsilon in map(float, arguments.epsilons.split(",")):
        start = time.process_time()
        data = Dataset(name="wide", schema=schema, targets={}, train=rows, test=rows, rest=rows.slice(n), match="generated")
        trial = Trial.of(data)
        release, record = trial.release(epsilon, 0, "opendp", inference="tree")
        record["seconds"] = time.process_time() - start
        assert release.marginals is not None
        record |= {"dataset": f"{arguments.columns} × {m} levels, {n:,} rows", "epsilon": epsilon, "seed": 0, "noise": "opendp"}
        record |= {"inference": "tree", "tv": total_variation(release.marginals, trial.truth), "scores": {}}
        record["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        _append(record, arguments.append)


def _append(record: dict[str, Any], path: str) -> None:
    line = json.dumps(record)
    print(line, flush=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def report(arguments: argparse.Namespace) -> None:
    lines = [json.loads(line) for line in Path(arguments.records).read_text().splitlines()]
    text = text_of(lines)
    print(text)
    if arguments.output:
        Path(arguments.output).write_text(text + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--data", default=os.environ.get("DDSSP_DATA", "../shared/data"))
    one.add_argument("--datasets", default="")
    one.add_argument("--epsilons", default=EPSILONS)
    one.add_argument("--inference", default="pgm", choices=["pgm", "tree"])
    one.add_argument("--model-size", type=float, default=200.0)
    one.add_argument("--seeds", type=int, default=5)
    one.add_argument("--first-seed", type=int, default=0)
    one.add_argument("--synth", type=int, default=0, metavar="ROWS")
    one.add_argument("--noise", default="seeded", choices=["seeded", "opendp"])
    one.add_argument("--towards-target", action="store_true", help="declare the target: its pairs matter more")
    one.add_argument("--append", required=True)
    one.set_defaults(run=run)
    two = commands.add_parser("wide")
    two.add_argument("--epsilons", default="1")
    two.add_argument("--columns", type=int, default=100)
    two.add_argument("--levels", type=int, default=10)
    two.add_argument("--rows", type=int, default=100_000)
    two.add_argument("--append", required=True)
    two.set_defaults(run=wide)
    three = commands.add_parser("report")
    three.add_argument("records")
    three.add_argument("-o", "--output")
    three.set_defaults(run=report)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
