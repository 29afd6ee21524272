"""AIM releases: seconds, marginal error, DD-SSP and AIM-Synth scores, against the reference's figures. Nothing here is private.

    python benchmarks/aim.py run --data DIR --append runs.jsonl [--datasets adult,fire] [--epsilons .05,.5] [--inference tree]
                                 [--model-size 200] [--seeds 5] [--first-seed 0] [--synth 50000] [--noise seeded|opendp]
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
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

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

EPSILONS = "0.05,0.1,0.5,1,2"
DELTA = 1e-5
HOW = ("paper", "product")
NAMES = {"linear": "MSE", "logistic": "AUC"}
Array = NDArray[np.float64]

REFERENCE = {
    ("adult", 0.05): {"seconds": 180, "tv": 0.096, "linear": 0.0229, "logistic": 0.852},
    ("adult", 0.1): {"seconds": 208, "tv": 0.073, "linear": 0.0208, "logistic": 0.864},
    ("adult", 0.5): {"seconds": 495, "tv": 0.0316, "linear": 0.0110, "logistic": 0.884},
    ("ACSincome-LIN", 0.05): {"seconds": 75, "tv": 0.131, "linear": 0.372},
    ("ACSincome-LIN", 0.1): {"seconds": 95, "tv": 0.109, "linear": 0.333},
    ("ACSincome-LIN", 0.5): {"seconds": 224, "tv": 0.062, "linear": 0.259},
    ("ACSincome-LIN", 1.0): {"seconds": 479, "tv": 0.0426, "linear": 0.218},
    ("ACSincome-LIN", 2.0): {"seconds": 832, "tv": 0.0321, "linear": 0.217},
    ("ACSemployment", 0.05): {"seconds": 290, "tv": 0.072, "logistic": 0.802},
    ("ACSemployment", 0.1): {"seconds": 385, "tv": 0.049, "logistic": 0.813},
    ("ACSemployment", 0.5): {"seconds": 1043, "tv": 0.0197, "logistic": 0.849},
    ("ACSmobility", 0.05): {"seconds": 282, "tv": 0.111, "logistic": 0.580},
    ("ACSmobility", 0.1): {"seconds": 398, "tv": 0.077, "logistic": 0.603},
    ("fire", 0.05): {"seconds": 224, "tv": 0.133, "linear": 0.0165},
    ("fire", 0.1): {"seconds": 225, "tv": 0.085, "linear": 0.0143},
}
"""The paper's own implementation, mean of 1-4 seeds: AIM alone on one thread of a server CPU."""


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

    def scores(self, marginals: PairMarginals, sigma: float | None = None) -> dict[str, dict[str, float]]:
        """MSE of a linear target, AUC of a logistic one; on the test rows.

        paper: as the reference fits, without intercept, level 0 dropped, plain least squares; product: as `Release.linear` and
        `Release.logistic` do, with an intercept, all levels, and shrinkage.
        """
        return {"paper": self._paper(marginals), "product": self._product(marginals, sigma)}

    def _paper(self, marginals: PairMarginals) -> dict[str, float]:
        encoding = Encoding.paper(self.data.schema)
        ZtZ, out = moments(marginals, encoding).matrix, {}
        for kind, target in self.data.targets.items():
            y = encoding.index([target])[0]
            x = np.delete(np.arange(encoding.size), y)
            rest = encoding.keep([c for c in encoding.slices if c != target])
            out[kind] = self._score(kind, target, rest, least_squares(ZtZ[np.ix_(x, x)], ZtZ[x, y]))
        return out

    def _product(self, marginals: PairMarginals, sigma: float | None) -> dict[str, float]:
        held = replace(moments(marginals, Encoding.centred(self.data.schema, tables=True)), sigma=sigma)
        out = {}
        for kind, target in self.data.targets.items():
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
    for name in chosen:
        trial = Trial.of(dataset(name, arguments.data))
        for epsilon in map(float, arguments.epsilons.split(",")):
            for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
                release, record = trial.release(epsilon, seed, arguments.noise, **options)
                assert release.marginals is not None
                record |= {"dataset": name, "epsilon": epsilon, "seed": seed, "noise": arguments.noise, **options}
                record["tv"] = total_variation(release.marginals, trial.truth)
                record["scores"] = trial.scores(release.marginals, release.moments.sigma)
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
    exact = {r["dataset"]: r["exact"] for r in lines if "exact" in r}
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    keys = ("inference", "model_size", "noise", "dataset", "epsilon")
    latest = {(*(r.get(k) for k in keys), r["seed"]): r for r in lines if "exact" not in r}
    for key, r in latest.items():
        groups[key[:-1]].append(r)
    text = "\n".join([HEADER, *_releases(groups, exact), *_rows(groups)])
    print(text)
    if arguments.output:
        Path(arguments.output).write_text(text + "\n", encoding="utf-8")


HEADER = """# AIM releases

`python benchmarks/aim.py run …` and `report`; ± is one standard error of the mean over seeds. CPU s: processor time of one
thread, counting included, median and largest. TV: total variation between released and exact tables, mean over all pairs.
Paper's protocol: no intercept, level 0 dropped, plain least squares, as the reference fits; product's fit: `Release.linear`
and `Release.logistic`, with an intercept and shrinkage. ref.: the paper's implementation, mean of 1 to 4 seeds, so its own
error is that of as few of ours."""

Groups = dict[tuple[Any, ...], list[dict[str, Any]]]


def _releases(groups: Groups, exact: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    out: list[str] = []
    title: tuple[Any, ...] = ()
    for key in sorted(groups, key=lambda k: (str(k[0]), -(k[1] or 0), k[2], k[3], k[4])):
        inference, size, noise, name, epsilon = key
        if key[:3] != title:
            title = key[:3]
            limit = f", model size {size:g} MB" if inference == "pgm" else ""
            out += ["", f"## {inference}{limit}, {noise} noise", ""]
            out += ["| dataset | ε | seeds | CPU s | faster | rounds | pairs | TV | ref. | ratio |"]
            out[-1] += " score | ref. | paper's protocol | product's fit |"
            out += ["|---" * 14 + "|"]
        runs, ref = groups[key], REFERENCE.get((name, epsilon), {})
        seconds = np.array([r["seconds"] for r in runs])
        tv = float(np.mean([r["tv"] for r in runs]))
        cells = [
            name,
            f"{epsilon:g}",
            str(len(runs)),
            f"{np.median(seconds):.2f} (max {seconds.max():.2f})",
            f"{ref['seconds'] / np.median(seconds):.0f}×" if ref else "",
            f"{np.mean([r['rounds'] for r in runs]):.0f}",
            f"{np.mean([r['pairs'] for r in runs]):.0f}",
            _mean([r["tv"] for r in runs]),
            f"{ref['tv']:g}" if ref else "",
            f"{tv / ref['tv']:.2f}" if ref else "",
        ]
        for i, kind in enumerate(runs[0]["scores"].get("paper", {"": 0.0})):
            scores = [_mean([r["scores"][how][kind] for r in runs if r["scores"]]) for how in HOW]
            first = cells if i == 0 else [""] * len(cells)
            out.append("| " + " | ".join([*first, NAMES.get(kind, ""), f"{ref.get(kind, '')}", *scores]) + " |")
    return [*out, "", *_exact(exact)]


def _exact(exact: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    """What the exact marginals give: no release can be expected to do better."""
    out = ["## The exact marginals", "", "| dataset | score | paper's protocol | product's fit |", "|---|---|---|---|"]
    for name, scores in sorted(exact.items()):
        for kind in scores["paper"]:
            out.append("| " + " | ".join([name, NAMES[kind], *(f"{scores[how][kind]:.4g}" for how in HOW)]) + " |")
    return out


def _rows(groups: Groups) -> list[str]:
    out = ["", "## DD-SSP and AIM-Synth, both by the paper's protocol", ""]
    out += ["| dataset | ε | inference | seeds | rows | CPU s | TV rows–release | score | DD-SSP | AIM-Synth | ratio |"]
    out += ["|---" * 11 + "|"]
    for (inference, _, _, name, epsilon), runs in sorted(groups.items(), key=lambda g: (g[0][3], g[0][4], g[0][0])):
        runs = [r for r in runs if "synth" in r]
        for kind in runs[0]["scores"]["paper"] if runs else ():
            cells = [name, f"{epsilon:g}", inference, str(len(runs)), f"{runs[0]['synth']['rows']:,}"]
            cells += [f"{np.median([r['synth']['seconds'] for r in runs]):.1f}", _mean([r["synth"]["tv"] for r in runs])]
            ours = [r["scores"]["paper"][kind] for r in runs]
            rows = [r["synth"]["scores"]["paper"][kind] for r in runs]
            cells += [NAMES[kind], _mean(ours), _mean(rows), f"{np.mean(rows) / np.mean(ours):.3f}"]
            out.append("| " + " | ".join(cells) + " |")
    return out


def _mean(values: list[float]) -> str:
    """Mean and its standard error."""
    if not values:
        return ""
    error = f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{error}"


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
