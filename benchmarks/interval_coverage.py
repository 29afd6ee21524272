"""How often 95 % intervals of moments releases cover: the exact-data coefficient (privacy part), the population's (total).

    python benchmarks/interval_coverage.py [--releases 500] [--first-seed 1000] [--data DIR] [--only rand,adult] [-o FILE]

Exact statistics of a dataset are counted once; each release then only draws its noise, through the product's own mechanism.
Nothing here is private.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddssp.curate import Plan, plan
from ddssp.experiments.datasets import dataset
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import batches
from ddssp.model.interval import Intervals
from ddssp.model.linear import design_of
from ddssp.model.scale import original_scale
from ddssp.model.solve import least_squares
from ddssp.released import Release
from ddssp.schema import Schema
from ddssp.secret.counts import Counts, counts
from ddssp.secret.vault import Vault

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-5

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """Rows whose statistics are counted once, from which any number of releases are drawn."""

    exact: Counts

    @classmethod
    def of(cls, data: Any, made: Plan) -> Truth:
        return cls(counts(batches(data, tuple(made.schema.columns)), made.layout))

    def release(self, made: Plan, seed: int) -> Release:
        """One release, its noise drawn from `seed`."""
        vault = Vault(self.exact, made.budget.rho, SeededNoise(seed))
        found = made.mechanism.run(vault, made.schema, lambda _what, _share: None)
        return Release(
            schema=made.schema,
            mechanism=made.mechanism.name,
            budget=made.budget,
            rho=made.budget.rho,
            measurements=found.measurements,
            target=made.target,
            private=False,
        )


@dataclass
class Tally:
    """Per coefficient: how many intervals were printed, and how many of them cover."""

    printed: Array
    covered: Array
    naive: Array
    releases: int = 0

    @classmethod
    def of(cls, size: int) -> Tally:
        return cls(np.zeros(size), np.zeros(size), np.zeros(size))

    def add(self, found: Intervals, truth: Array, *, privacy_only: bool) -> None:
        limits = found.limits(0.95, privacy_only=privacy_only)
        self.releases += 1
        self.printed += found.identified
        self.covered += found.identified & (limits[:, 0] <= truth) & (truth <= limits[:, 1])
        self.naive += found.identified & (np.abs(found.estimate - truth) <= 1.96 * found.sampling)

    def row(self, name: str, epsilon: float) -> str:
        """Shares over all printed intervals, and over those of the worst coefficient that most releases print."""
        if not (printed := self.printed.sum()):
            return f"| {name} | {epsilon:g} | none | – | – | – |"
        often = self.printed >= self.releases / 2
        worst = f"{(self.covered[often] / self.printed[often]).min():.3f}" if often.any() else "–"
        share = printed / (self.releases * len(self.printed))
        cells = (name, f"{epsilon:g}", f"{share:.1%}", f"{self.covered.sum() / printed:.3f}", worst)
        return f"| {' | '.join(cells)} | {self.naive.sum() / printed:.3f} |"


@dataclass(frozen=True)
class Design:
    """A regression of `target` on `features` of a table that `rows(rng)` makes.

    population: the coefficients on the original scale that the total interval is about, if the rows are a sample of it.
    """

    name: str
    schema: Schema
    target: str
    features: tuple[str, ...] | None
    rows: Callable[[np.random.Generator], Any]
    population: Array | None = None

    def plan(self, epsilon: float) -> Plan:
        return plan(self.schema, epsilon=epsilon, delta=DELTA, mechanism="moments", target=self.target)

    def exact(self, data: Any) -> Array:
        """Least squares on the rows themselves, on the original scale."""
        made = self.plan(1.0)
        encoding = made.mechanism.counted(self.schema)
        chosen = self.features or tuple(c for c in encoding.columns if c != self.target)
        x, block = encoding.keep((None, *chosen)), encoding.block(self.target)
        Z, y = design_of(data, x, self.schema), design_of(data, encoding.keep([self.target]), self.schema)[:, 0]
        coef = block.half * (original_scale(x) @ least_squares(Z.T @ Z, Z.T @ y))
        coef[0] += block.centre
        return np.asarray(coef)


def privacy_part(design: Design, seeds: range) -> Iterator[str]:
    """Rows of the table: do the intervals cover the exact-data coefficient?"""
    data = design.rows(np.random.default_rng(0))
    target, held = design.exact(data), Truth.of(data, design.plan(1.0))
    for epsilon in EPSILONS:
        tally, made = Tally.of(len(target)), design.plan(epsilon)
        for seed in seeds:
            fit = held.release(made, seed).linear(design.target, features=design.features)
            tally.add(fit.intervals, target, privacy_only=True)
        yield tally.row(design.name, epsilon)


def total(design: Design, seeds: range) -> Iterator[str]:
    """Rows of the table: do the intervals cover the population's coefficient, rows drawn anew for each release?"""
    assert design.population is not None
    tallies = {epsilon: Tally.of(len(design.population)) for epsilon in EPSILONS}
    plans = {epsilon: design.plan(epsilon) for epsilon in EPSILONS}
    for seed in seeds:
        held = Truth.of(design.rows(np.random.default_rng(seed)), plans[EPSILONS[0]])
        for epsilon, tally in tallies.items():
            fit = held.release(plans[epsilon], seed).linear(design.target, features=design.features)
            tally.add(fit.intervals, design.population, privacy_only=False)
    yield from (tally.row(design.name, epsilon) for epsilon, tally in tallies.items())


def numbers() -> Design:
    """Six correlated numbers; the prototype's design."""
    columns = {f"x{i}": {"kind": "numeric", "low": -2, "high": 2} for i in range(6)}
    slopes = np.array([0.1, 0.3, -0.2, 0.15, 0.0, 0.1, -0.05])

    def rows(rng: np.random.Generator, n: int = 20_000) -> dict[str, Array]:
        X = np.clip(rng.normal(size=(n, 6)) * 0.6 + 0.2 * rng.normal(size=(n, 1)), -2, 2)
        y = slopes[0] + X @ slopes[1:] + rng.normal(size=n) * 0.25
        return {**{f"x{i}": X[:, i] for i in range(6)}, "y": y}

    schema = Schema(name="numbers", columns=columns | {"y": {"kind": "numeric", "low": -2.5, "high": 2.5}})
    return Design("simulated, six numbers, n = 20,000", schema, "y", None, rows, slopes)


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
    return Design("simulated, numbers and levels, n = 50,000", schema, "cost", None, rows, truth)


def rand_survey() -> Design:
    from statsmodels.datasets import randhie

    from ddssp.cli.demo import SCHEMA

    data = randhie.load_pandas().data
    return Design("RAND survey, visits on 9 columns, n = 20,190", Schema(**SCHEMA), "mdvis", None, lambda _rng: data)


ADULT_SIX = ("age", "education-num", "race", "sex", "capital-gain", "hours-per-week")


def adult(directory: Path, features: tuple[str, ...] | None) -> Design:
    held = dataset("adult", directory)
    what = "all 14 columns" if features is None else f"{len(features)} columns"
    name = f"Adult, income on {what}, n = {held.train.num_rows:,}"
    return Design(name, held.schema, "income>50K", features, lambda _rng: held.train)


def resampled(design: Design) -> Design:
    """The same table as a population, of which rows are drawn with replacement."""
    import pyarrow as pa

    data = design.rows(np.random.default_rng(0))
    table = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)

    def rows(rng: np.random.Generator) -> pa.Table:
        return table.take(rng.integers(0, table.num_rows, table.num_rows))

    return Design(design.name, design.schema, design.target, design.features, rows, design.exact(table))


HEADER = """# Coverage of 95 % intervals

`python benchmarks/interval_coverage.py`: {releases} moments releases per cell, seeds from {first} on, δ = {delta:g};
{seconds:.0f} s.
Printed: coefficients that are identified, of all there are; coverage is over printed ones, and for the worst coefficient that
at least half of the releases print. The naive interval has the same centre and takes the released moments for exact (sampling
error only). What each interval is about: docs/intervals.md.
"""

COLUMNS = "\n| design | ε | printed | coverage | worst coefficient | naive |\n|---|---|---|---|---|---|"


def report(designs: Sequence[Design], seeds: range) -> str:
    start = time.perf_counter()
    sections = [f"\n## The exact-data coefficient: the privacy part alone\n{COLUMNS}"]
    for design in designs:
        sections += privacy_part(design, seeds)
    sections.append(f"\n## The population's coefficient: the total, rows drawn anew from a linear model\n{COLUMNS}")
    for design in designs:
        if design.population is not None:
            sections += total(design, seeds)
    sections.append(
        "\n## The population's coefficient: the total, rows drawn with replacement from real data\n\nA straight line is only "
        f"an approximation there, and second moments do not show how its error varies with the features.\n{COLUMNS}"
    )
    for design in designs:
        if design.population is None:
            sections += total(resampled(design), seeds)
    header = HEADER.format(releases=len(seeds), first=seeds[0], delta=DELTA, seconds=time.perf_counter() - start)
    return header + "\n".join(sections) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=500)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DDSSP_DATA", "../shared/data")))
    parser.add_argument("--only", default="simulated,rand,adult")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    wanted = set(options.only.split(","))
    designs: list[Design] = []
    if "simulated" in wanted:
        designs += [numbers(), mixed()]
    if "rand" in wanted:
        designs.append(rand_survey())
    if "adult" in wanted:
        designs += [adult(options.data, ADULT_SIX), adult(options.data, None)]
    text = report(designs, range(options.first_seed, options.first_seed + options.releases))
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
