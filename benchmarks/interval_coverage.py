"""How often 95 % intervals of moments releases cover: the exact-data coefficient (privacy part), the population's (total).

    python benchmarks/interval_coverage.py                           all parts that are not kept yet, and the report
    python benchmarks/interval_coverage.py --only privacy:adult      one part: privacy, held-out, total or resampled
    python benchmarks/interval_coverage.py --report                  the report alone, from what is kept
    python benchmarks/interval_coverage.py --releases 2000 --only privacy:rand    more releases, added to those kept

Work is done in parts of 100 releases, each kept as lines of results/coverage.jsonl, and the report is made of all that are
kept; --fresh forgets them. Rows and noise have generators of their own. A release is drawn by the product's own mechanism, at
ε = 1, and its noise scaled to the other ε. Nothing here is private.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.curate import Plan, plan
from ddssp.experiments.datasets import dataset
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.frame import batches
from ddssp.marginal import Measurement
from ddssp.model.interval import Intervals
from ddssp.model.linear import design_of
from ddssp.model.scale import original_scale
from ddssp.model.solve import least_squares
from ddssp.released import Release
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, counts
from ddssp.secret.vault import Vault
from runs import RESULTS, Run, append, circumstances, runs
from runs import made as how_made

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-5
FIRST_SEED, CHUNK = 1000, 100
ENOUGH = 200
"""Printed intervals under which a share says little."""

KEPT, REPORT = RESULTS / "coverage.jsonl", RESULTS / "coverage.md"

Array = NDArray[np.float64]
Values = tuple[Measurement, ...]


@dataclass(frozen=True)
class Truth:
    """Rows whose statistics are counted once, from which any number of releases are drawn.

    bare: what the mechanism measures, without noise.
    """

    exact: Counts
    bare: Values

    @classmethod
    def of(cls, data: Any, base: Plan) -> Truth:
        exact = counts(batches(data, tuple(base.schema.columns)), base.layout)
        return cls(exact, measured(exact, base, NoNoise()))

    def releases(self, plans: Mapping[float, Plan], seed: int) -> Iterator[tuple[float, Release]]:
        """One release for each ε, all with the noise of `seed`, scaled."""
        noisy = measured(self.exact, plans[1.0], SeededNoise(seed))
        for epsilon, planned in plans.items():
            ratio = float(np.sqrt(float(plans[1.0].budget.rho / planned.budget.rho)))
            values = tuple(
                Measurement(clique=m.clique, values=b.values + ratio * (m.values - b.values), sigma=ratio * m.sigma)
                for b, m in zip(self.bare, noisy, strict=True)
            )
            yield (
                epsilon,
                Release(
                    schema=planned.schema,
                    mechanism=planned.mechanism.name,
                    budget=planned.budget,
                    rho=planned.budget.rho,
                    measurements=values,
                    target=planned.target,
                    private=False,
                ),
            )


def measured(exact: Counts, planned: Plan, noise: Any) -> Values:
    """What the mechanism measures, with this noise."""
    vault = Vault(exact, planned.budget.rho, noise)
    return tuple(planned.mechanism.run(vault, planned.schema, lambda _what, _share: None).measurements)


@dataclass
class Tally:
    """How many intervals were printed and how many of them cover, by coefficient; and sums over releases for its error.

    Intervals of one release share its noise, so releases are the clusters: with k of n printed intervals covering in a release
    and p = Σk/Σn, the variance of p is Σ(k − pn)²/(Σn)².
    """

    printed: Array
    covered: Array
    naive: Array
    releases: int = 0
    squares: float = 0.0
    crossed: float = 0.0
    sizes: float = 0.0

    @classmethod
    def of(cls, size: int) -> Tally:
        return cls(np.zeros(size), np.zeros(size), np.zeros(size))

    @classmethod
    def merged(cls, found: list[Run]) -> Tally:
        """The sum of kept parts."""
        arrays = [sum(np.array(run[name], float) for run in found) for name in ("printed", "covered", "naive")]
        return cls(*arrays, *(sum(run[name] for run in found) for name in ("releases", "squares", "crossed", "sizes")))

    def add(self, found: Intervals, truth: Array, *, privacy_only: bool) -> None:
        limits = found.limits(0.95, privacy_only=privacy_only)
        inside = found.identified & (limits[:, 0] <= truth) & (truth <= limits[:, 1])
        k, n = float(inside.sum()), float(found.identified.sum())
        self.releases += 1
        self.printed += found.identified
        self.covered += inside
        self.naive += found.identified & (np.abs(found.estimate - truth) <= 1.96 * found.sampling)
        self.squares, self.crossed, self.sizes = self.squares + k * k, self.crossed + k * n, self.sizes + n * n

    def kept(self) -> Run:
        counts = {name: getattr(self, name).astype(int).tolist() for name in ("printed", "covered", "naive")}
        return counts | {name: getattr(self, name) for name in ("releases", "squares", "crossed", "sizes")}

    def row(self, name: str, epsilon: float) -> str:
        """Shares over all printed intervals, and over those of the worst coefficient that most releases print."""
        n = self.printed.sum()
        head = f"| {name} | {epsilon:g} | {self.releases:,} | {n / (self.releases * len(self.printed)):.1%} | {n:,.0f} |"
        if not n:
            return f"{head} none | – | – |"
        p = self.covered.sum() / n
        error = np.sqrt(max(self.squares - 2 * p * self.crossed + p * p * self.sizes, 0.0)) / n
        often = self.printed >= max(self.releases / 2, 1)
        worst = f"{(self.covered[often] / self.printed[often]).min():.3f} of {often.sum()}" if often.any() else "–"
        few = " (too few to tell)" if n < ENOUGH else ""
        return f"{head} {p:.3f} ± {error:.3f}{few} | {worst} | {self.naive.sum() / n:.3f} |"


@dataclass(frozen=True)
class Design:
    """Regressions of `target` on features, by name, of a table that `rows(rng)` makes.

    population: the coefficients on the original scale of rows drawn from a linear model.
    """

    schema: Schema
    target: str
    regressions: Mapping[str, tuple[str, ...] | None]
    rows: Callable[[np.random.Generator], Any]
    population: Array | None = None

    def plans(self) -> dict[float, Plan]:
        how: dict[str, Any] = {"delta": DELTA, "mechanism": "moments", "target": self.target}
        return {epsilon: plan(self.schema, epsilon=epsilon, **how) for epsilon in EPSILONS}

    def exact(self, data: Any, features: tuple[str, ...] | None) -> Array:
        """Least squares on the rows themselves, on the original scale."""
        encoding = self.plans()[1.0].mechanism.counted(self.schema)
        chosen = features or tuple(c for c in encoding.columns if c != self.target)
        x, block = encoding.keep((None, *chosen)), encoding.block(self.target)
        Z, y = design_of(data, x, self.schema), design_of(data, encoding.keep([self.target]), self.schema)[:, 0]
        coef = block.half * (original_scale(x) @ least_squares(Z.T @ Z, Z.T @ y))
        coef[0] += block.centre
        return np.asarray(coef)

    def covered(self, seeds: range, truths: Mapping[str, Array], *, anew: bool) -> dict[tuple[str, float], Tally]:
        """For each regression and ε, whether intervals cover `truths`; rows are the same for all seeds unless `anew`."""
        plans = self.plans()
        tallies = {(name, epsilon): Tally.of(len(truths[name])) for name in self.regressions for epsilon in EPSILONS}
        held = None if anew else Truth.of(self.rows(np.random.default_rng(0)), plans[1.0])
        for seed in seeds:
            truth = held or Truth.of(self.rows(np.random.default_rng([seed, 1])), plans[1.0])
            for epsilon, release in truth.releases(plans, seed):
                for name, features in self.regressions.items():
                    fit = release.linear(self.target, features=features)
                    tallies[name, epsilon].add(fit.intervals, truths[name], privacy_only=not anew)
        return tallies


def numbers() -> Design:
    """Six correlated numbers; the prototype's design."""
    columns = {f"x{i}": {"kind": "numeric", "low": -2, "high": 2} for i in range(6)}
    slopes = np.array([0.1, 0.3, -0.2, 0.15, 0.0, 0.1, -0.05])

    def rows(rng: np.random.Generator, n: int = 20_000) -> dict[str, Array]:
        X = np.clip(rng.normal(size=(n, 6)) * 0.6 + 0.2 * rng.normal(size=(n, 1)), -2, 2)
        y = slopes[0] + X @ slopes[1:] + rng.normal(size=n) * 0.25
        return {**{f"x{i}": X[:, i] for i in range(6)}, "y": y}

    schema = Schema(name="numbers", columns=columns | {"y": {"kind": "numeric", "low": -2.5, "high": 2.5}})
    return Design(schema, "y", {"simulated, six numbers, n = 20,000": None}, rows, slopes)


def mixed() -> Design:
    """Numbers, a boolean and a category of unequal levels."""
    columns: dict[str, Any] = {
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "hours": {"kind": "numeric", "low": 0, "high": 80},
        "smokes": {"kind": "boolean"},
        "plan": {"kind": "categorical", "levels": ["a", "b", "c", "d"]},
        "cost": {"kind": "numeric", "low": -50, "high": 150},
    }
    truth = np.array([10.0, 0.4, -0.2, 5.0, 4.0, -6.0, 2.0])

    def rows(rng: np.random.Generator, n: int = 50_000) -> dict[str, Any]:
        code = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
        age = np.clip(rng.normal(45, 15, n) + 3 * code, 0, 100)
        hours, smokes = np.clip(rng.normal(38, 10, n), 0, 80), rng.random(n) < 0.15 + 0.003 * age
        level = np.array([0.0, 4.0, -6.0, 2.0])[code]
        cost = truth[0] + truth[1] * age + truth[2] * hours + truth[3] * smokes + level + rng.normal(0, 12, n)
        return {"age": age, "hours": hours, "smokes": smokes, "plan": np.array(list("abcd"))[code], "cost": cost}

    schema = Schema(name="mixed", columns=columns)
    return Design(schema, "cost", {"simulated, numbers and levels, n = 50,000": None}, rows, truth)


def rand_survey() -> Design:
    from statsmodels.datasets import randhie

    from ddssp.cli.demo import SCHEMA

    data = randhie.load_pandas().data
    return Design(Schema(**SCHEMA), "mdvis", {"RAND survey, visits on 9 columns, n = 20,190": None}, lambda _rng: data)


ADULT_SIX = ("age", "education-num", "race", "sex", "capital-gain", "hours-per-week")


def adult(directory: Path) -> Design:
    held = dataset("adult", directory)
    n = f"n = {held.train.num_rows:,}"
    regressions = {f"Adult, income on 6 columns, {n}": ADULT_SIX, f"Adult, income on all 14 columns, {n}": None}
    return Design(held.schema, "income>50K", regressions, lambda _rng: held.train)


def held_out(name: str, target: str, directory: Path) -> Design:
    """A table that had no part in choosing the rule, on all its other columns."""
    held = dataset(name, directory)
    columns, n = len(held.schema.columns) - 1, held.train.num_rows
    return Design(held.schema, target, {f"{name}, {target} on all {columns} columns, n = {n:,}": None}, lambda _rng: held.train)


def resampled(design: Design) -> Design:
    """The same table as a population, of which rows are drawn with replacement."""
    import pyarrow as pa

    data = design.rows(np.random.default_rng(0))
    table = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)

    def rows(rng: np.random.Generator) -> pa.Table:
        return table.take(rng.integers(0, table.num_rows, table.num_rows))

    return replace(design, rows=rows)


HELD_OUT = {"ACSincome-LIN": "PINCP", "ACSemployment": "ESR", "ACSmobility": "MIG"}

SECTIONS = {
    "privacy": ("The exact-data coefficient: the privacy part alone", ""),
    "held-out": (
        "The same on tables that had no part in choosing the rule",
        "The shares of the rule were chosen with other releases of the tables above in view, not of these.",
    ),
    "total": ("The population's coefficient: the total, rows drawn anew from a linear model", ""),
    "resampled": (
        "The population's coefficient: the total, rows drawn with replacement from real data",
        "A straight line is only an approximation there; second moments do not show how its error varies with the features.",
    ),
}

HEADER = f"""# Coverage of 95 % intervals

Made by `python benchmarks/interval_coverage.py` from the lines of `coverage.jsonl`: moments releases, δ = {DELTA:g}. Printed:
coefficients that are identified, of all there are. Coverage is over printed intervals, and its error is that of a mean over
releases, since the intervals of one release share its noise. The worst coefficient is that of the given number which at least
half of the releases print; of 30 exact intervals in 500 releases each, the least covers about 0.93. The naive interval has the
same centre and takes the released moments for exact (sampling error only). What each interval is about, and when a coefficient
is identified: docs/intervals.md."""

COLUMNS = """
| design | ε | releases | printed | intervals | coverage ± its error | worst coefficient | naive |
|---|---|---|---|---|---|---|---|"""


def parts(data: Path) -> dict[str, Callable[[], Design]]:
    """The work, by section and table."""
    tables = {"numbers": numbers, "mixed": mixed, "rand": rand_survey, "adult": partial(adult, data)}
    out = {f"privacy:{name}": make for name, make in tables.items()}
    out |= {f"held-out:{name}": partial(held_out, name, target, data) for name, target in HELD_OUT.items()}
    out |= {f"total:{name}": tables[name] for name in ("numbers", "mixed")}
    return out | {f"resampled:{name}": tables[name] for name in ("rand", "adult")}


def run_part(part: str, make: Callable[[], Design], releases: int) -> None:
    """None; every chunk of seeds of this part that is not kept yet is now."""
    done = {run["seed"] for run in runs(KEPT) if run["part"] == part}
    starts = [s for s in range(FIRST_SEED, FIRST_SEED + releases, CHUNK) if s not in done]
    if not starts:
        return
    design, section = make(), part.split(":")[0]
    data = design.rows(np.random.default_rng(0))
    truths = {name: design.exact(data, features) for name, features in design.regressions.items()}
    if section == "total":
        truths = dict.fromkeys(design.regressions, design.population)
    for start in starts:
        how, began = circumstances(), time.perf_counter()
        drawn = resampled(design) if section == "resampled" else design
        found = drawn.covered(range(start, start + CHUNK), truths, anew=section not in {"privacy", "held-out"})
        seconds = (time.perf_counter() - began) / len(found)
        for (name, epsilon), tally in found.items():
            cell = {"part": part, "seed": start, "design": name, "epsilon": epsilon, "seconds": round(seconds, 2)}
            append(KEPT, cell | tally.kept() | how)
        print(f"{part}, seeds from {start}: {seconds * len(found):.0f} s", flush=True)


def report() -> str:
    """The tables, of all that is kept."""
    kept = list({(run["part"], run["seed"], run["design"], run["epsilon"]): run for run in runs(KEPT)}.values())
    cells: dict[tuple[str, str, float], list[Run]] = {}
    for run in kept:
        cells.setdefault((run["part"].split(":")[0], run["design"], run["epsilon"]), []).append(run)
    lines = [HEADER]
    for section, (title, remark) in SECTIONS.items():
        lines += ["", f"## {title}", *(["", remark] if remark else []), COLUMNS]
        lines += [Tally.merged(found).row(name, e) for (s, name, e), found in cells.items() if s == section]
    return "\n".join([*lines, "", "## How it was made", *how_made(kept)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DDSSP_DATA", "../shared/data")))
    parser.add_argument("--only", default="", help="parts, separated by commas")
    parser.add_argument("--report", action="store_true", help="make the report only")
    parser.add_argument("--fresh", action="store_true", help="forget what is kept")
    options = parser.parse_args()
    if options.fresh:
        KEPT.unlink(missing_ok=True)
    for part, make in {} if options.report else parts(options.data).items():
        if not options.only or part in options.only.split(","):
            run_part(part, make, options.releases)
    REPORT.write_text(report(), encoding="utf-8")


if __name__ == "__main__":
    main()
