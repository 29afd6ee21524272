"""AIM against its own recipe, written out round by round from what a Curator was asked."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ddssp.cli import app
from ddssp.curate import curate, plan
from ddssp.domain import Domain
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.frame import batches
from ddssp.inference.pgm import model_size
from ddssp.marginal import PairMarginals
from ddssp.mechanism.aim import AIM, WIDE, Inference, Workload, least_sigma
from ddssp.privacy.budget import Budget, BudgetError, gaussian_rho, selection_rho
from ddssp.privacy.curator import Discrepancy, Query
from ddssp.privacy.ledger import Ledger
from ddssp.released import load
from ddssp.schema import Schema
from ddssp.secret.counts import Layout, counts
from ddssp.secret.vault import Vault

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5}
BOTH = [Inference.TREE, Inference.PGM]


def schema(sizes: dict[str, int]) -> Schema:
    return Schema(columns={name: {"kind": "categorical", "levels": m} for name, m in sizes.items()})


def rows(sizes: dict[str, int], n: int, seed: int = 0) -> pa.Table:
    """Each column is the one before modulo its size, or noise one time in four."""
    rng = np.random.default_rng(seed)
    columns, last = {}, rng.integers(0, 60, n)
    for name, m in sizes.items():
        last = np.where(rng.random(n) < 0.25, rng.integers(0, 60, n), last)
        columns[name] = last % m
    return pa.table(columns)


def vault(table: pa.Table, made: Schema, mechanism: AIM, epsilon: float, noise: SeededNoise | NoNoise) -> Vault:
    layout = Layout.of(made, mechanism.counted(made))
    return Vault(counts(batches(table, layout.columns), layout), Budget(epsilon=epsilon, delta=1e-5).rho, noise)


@dataclass
class Recorder:
    """A Curator that writes down what it is asked."""

    inner: Vault

    def __post_init__(self) -> None:
        self.asked: list[tuple[str, object, float, Fraction]] = []

    @property
    def remaining(self) -> Fraction:
        return self.inner.remaining

    def measure(self, queries: Sequence[Query], sigmas: Sequence[float]) -> list[np.ndarray]:
        self.asked += [("measure", q.clique, s, self.remaining) for q, s in zip(queries, sigmas, strict=True)]
        return self.inner.measure(queries, sigmas)

    def select(self, candidates: Discrepancy, epsilon: float) -> int:
        self.asked.append(("select", candidates, epsilon, self.remaining))
        return self.inner.select(candidates, epsilon)


def run(mechanism: AIM, epsilon: float, sizes: dict[str, int] = SIZES, n: int = 2000, seed: int = 0) -> tuple[Recorder, object]:
    made = schema(sizes)
    recorder = Recorder(vault(rows(sizes, n), made, mechanism, epsilon, SeededNoise(seed)))
    return recorder, mechanism.run(recorder, made, lambda _what, _share: None)


def table(marginals: PairMarginals, clique: tuple[str, ...]) -> np.ndarray:
    return marginals.one_way(clique[0]) if len(clique) == 1 else marginals[clique[0], clique[1]]


@pytest.mark.parametrize("inference", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_every_round_is_the_recipes(inference: Inference, epsilon: float) -> None:
    recorder, _ = run(AIM(inference=inference), epsilon)
    rho, d = Budget(epsilon=epsilon, delta=1e-5).rho, len(SIZES)
    sigma, eps = math.sqrt(16 * d / (1.8 * float(rho))), math.sqrt(0.8 * float(rho) / (16 * d))
    first, rounds = recorder.asked[:d], recorder.asked[d:]
    assert [(q, s) for _, q, s, _ in first] == [((name,), pytest.approx(sigma)) for name in SIZES]
    selections, measurements = rounds[::2], rounds[1::2]
    assert {kind for kind, *_ in selections} == {"select"}
    assert {kind for kind, *_ in measurements} == {"measure"}
    for t, ((_, scores, asked_eps, left), (_, clique, asked_sigma, _)) in enumerate(zip(selections, measurements, strict=True)):
        is_last = t == len(selections) - 1
        assert is_last == (left < 2 * (gaussian_rho(1, sigma) + selection_rho(eps)))
        if is_last:
            sigma, eps = math.sqrt(1 / (1.8 * float(left))), math.sqrt(0.8 * float(left))
        assert asked_eps == pytest.approx(eps)
        assert asked_sigma == pytest.approx(sigma, rel=1e-6)
        cells = [math.prod(SIZES[a] for a in c) for c in scores.cliques]
        assert scores.penalties == pytest.approx(math.sqrt(2 / math.pi) * sigma * np.array(cells))
        if not is_last:
            before, after = scores.estimate, selections[t + 1][1].estimate
            change = np.abs(table(before, clique) - table(after, clique)).sum()
            if change <= math.sqrt(2 / math.pi) * sigma * math.prod(SIZES[a] for a in clique):
                sigma, eps = sigma / 2, eps * 2


@given(
    st.floats(1e-3, 50.0),
    st.dictionaries(st.sampled_from("abcde"), st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 300),
    st.sampled_from(BOTH),
)
@settings(max_examples=25, deadline=None)
def test_spends_everything_and_no_more(epsilon: float, sizes: dict[str, int], n: int, inference: Inference) -> None:
    recorder, outcome = run(AIM(inference=inference), epsilon, sizes, n)
    rho = Budget(epsilon=epsilon, delta=1e-5).rho
    assert 0 <= recorder.remaining <= rho * Fraction(1, 10**6)
    spent = sum(gaussian_rho(1, s) if kind == "measure" else selection_rho(s) for kind, _, s, _ in recorder.asked)
    assert spent == rho - recorder.remaining
    assert {m.clique for m in outcome.measurements} >= {(name,) for name in sizes}
    assert np.isfinite(outcome.marginals.burt).all()


@given(st.fractions(Fraction(1, 10**9), Fraction(100)))
def test_the_last_sigma_is_covered_and_wastes_nothing(remaining: Fraction) -> None:
    cost = gaussian_rho(1, least_sigma(remaining))
    assert remaining * (1 - Fraction(1, 10**6)) <= cost <= remaining


def test_a_budget_that_buys_nothing_is_refused() -> None:
    made = schema({"a": 2})
    empty = vault(rows({"a": 2}, 5), made, AIM(), 1.0, NoNoise())
    empty._remaining = Fraction(0)
    with pytest.raises(BudgetError, match="larger epsilon"):
        AIM(inference=Inference.TREE).run(empty, made, lambda _what, _share: None)


def test_candidates_are_the_downward_closure_with_the_papers_weights() -> None:
    domain = Domain.of(**SIZES)
    for workload in (
        Workload.pairs(domain),
        Workload.target(domain, "b"),
        Workload.towards(domain, "c"),
        Workload({("a", "b"): 2.0, ("c",): 0.5}),
    ):
        found = workload.candidates(domain)
        parts = {p for c in workload.weights for p in ({c} | {(name,) for name in c})}
        assert set(found.cliques) == parts
        for clique, weight in zip(found.cliques, found.weights, strict=True):
            assert weight == pytest.approx(sum(w * len(set(clique) & set(c)) for c, w in workload.weights.items()))


@pytest.mark.parametrize("limit", [1e-9, 0.0005, 0.002])
def test_the_graphical_model_stays_within_its_limit_of_the_budget_used(limit: float) -> None:
    sizes = {"a": 6, "b": 5, "c": 4, "d": 6, "e": 5}
    recorder, outcome = run(AIM(model_size=limit), 20.0, sizes)
    domain, rho = Domain.of(**sizes), Budget(epsilon=20.0, delta=1e-5).rho
    held = {(name,) for name in sizes}
    unlimited = model_size(domain, domain.pairs)
    assert limit < unlimited
    for (kind, clique, _, _), (_, _, _, after) in zip(
        recorder.asked, [*recorder.asked[1:], (0, 0, 0, Fraction(0))], strict=True
    ):
        if kind == "measure":
            held.add(clique)
            assert len(clique) == 1 or model_size(domain, held) <= limit * float(1 - after / rho) * (1 + 1e-9)
    assert np.linalg.eigvalsh(outcome.marginals.burt)[0] > -1e-6 * outcome.marginals.total


def test_a_target_workload_measures_no_other_pair() -> None:
    _, outcome = run(AIM(workload=Workload.target(Domain.of(**SIZES), "b"), inference=Inference.TREE), 2.0)
    pairs = {m.clique for m in outcome.measurements if len(m.clique) == 2}
    assert pairs
    assert all("b" in c for c in pairs)


def test_a_declared_target_gets_more_of_the_budget() -> None:
    sizes = {"a": 4, "b": 4, "c": 4, "d": 4, "e": 4}

    def share(target: str | None) -> float:
        spent = []
        for seed in range(5):
            _, outcome = run(AIM(target=target, inference=Inference.TREE), 1.0, sizes, seed=seed)
            each = {m.clique: 1 / m.sigma**2 for m in outcome.measurements if len(m.clique) == 2}
            spent.append(sum(w for c, w in each.items() if "e" in c) / sum(each.values()))
        return float(np.mean(spent))

    assert share("e") > share(None)


@pytest.mark.parametrize(
    "weights",
    [
        {},
        {("a", "b"): 0.0},
        {("a", "b", "c"): 1.0},
        {(): 1.0},
        {("a",): math.inf},
        {("a", "a"): 1.0},
        {("a",): 1e308},
        {("a",): "3"},
    ],
)
def test_a_workload_is_checked(weights: dict[tuple[str, ...], float]) -> None:
    with pytest.raises(ValueError, match="workload"):
        Workload(weights)


def test_a_workload_of_an_unknown_column_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.set_budget("d", 1.0, 1e-6)
    made = plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="aim", ledger=ledger, dataset="d")
    made = replace(made, mechanism=replace(made.mechanism, workload=Workload({("a", "nope"): 1.0})))
    with pytest.raises(ValueError, match="workload must name columns of the schema, got 'nope'; it has a, b, c, d"):
        curate(rows(SIZES, 100), made)
    assert ledger.spent("d") == 0
    with pytest.raises(ValueError, match="got 'nope'"):
        Workload.target(Domain.of(**SIZES), "nope")


def test_the_documented_way_to_give_a_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "aim.md"
    (code,) = re.findall(r"^    from dataclasses.*?(?=^\S)", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    sizes = {"age": 4, "sex": 2, "income": 3}
    pq.write_table(rows(sizes, 500), tmp_path / "survey.parquet")
    (tmp_path / "survey.toml").write_text(schema(sizes).to_toml())
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(textwrap.dedent(code), scope)
    measured = {m.clique for m in scope["release"].measurements if len(m.clique) == 2}
    assert measured <= {("age", "income"), ("sex", "income")}
    assert scope["release"].private


@pytest.mark.parametrize("inference", BOTH)
def test_without_noise_and_with_a_large_budget_the_marginals_are_exact(inference: Inference) -> None:
    made, data = schema(SIZES), rows(SIZES, 3000)
    release = curate(data, plan(made, epsilon=100.0, delta=0.01, mechanism="aim", inference=inference.value), noise=NoNoise())
    for j, k in Domain.of(**SIZES).pairs:
        exact = np.histogram2d(data[j], data[k], bins=(range(SIZES[j] + 1), range(SIZES[k] + 1)))[0]
        assert np.abs(release.marginals[j, k] - exact).sum() / 2 / 3000 < 0.01


def test_the_same_noise_gives_the_same_release() -> None:
    made, data = schema(SIZES), rows(SIZES, 500)
    first, again = (curate(data, plan(made, epsilon=1.0, delta=1e-5, mechanism="aim"), noise=SeededNoise(3)) for _ in range(2))
    assert first == again


def test_progress_follows_the_budget_and_names_the_pair() -> None:
    told: list[tuple[str, float]] = []
    made = schema(SIZES)
    mechanism = AIM(inference=Inference.TREE)
    mechanism.run(
        vault(rows(SIZES, 500), made, mechanism, 1.0, SeededNoise(0)), made, lambda what, share: told.append((what, share))
    )
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1
    assert any(" × " in what for what, _ in told)


def test_auto_takes_the_graphical_model_unless_the_domain_is_wide() -> None:
    narrow, wide = Domain.of(a=2, b=2), Domain.of(**{f"c{i}": 2 for i in range(WIDE + 1)})
    assert Inference.named("auto", narrow) is Inference.PGM
    assert Inference.named("auto", wide) is Inference.TREE
    assert Inference.named("tree", narrow) is Inference.TREE
    with pytest.raises(ValueError, match="inference must be auto, pgm or tree, got 'jax'"):
        Inference.named("jax", narrow)


def test_options_of_aim_are_refused_elsewhere() -> None:
    with pytest.raises(ValueError, match="mechanism aim"):
        plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="moments", inference="tree")
    with pytest.raises(ValueError, match="model_size"):
        plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="aim", model_size=0.0)
    with pytest.raises(ValueError, match="model_size must be a positive number of MB, got 'x'"):
        plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="aim", model_size="x")
    with pytest.raises(ValueError, match="model_size is for inference pgm, got 5 with tree"):
        plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="aim", inference="tree", model_size=5)
    assert plan(schema(SIZES), epsilon=1.0, delta=1e-6, mechanism="aim", inference="tree").mechanism.name == "aim-tree"


def test_the_command_passes_its_options_on(tmp_path: Path) -> None:
    pq.write_table(rows(SIZES, 500), tmp_path / "rows.parquet")
    (tmp_path / "schema.toml").write_text(schema(SIZES).to_toml())

    def mechanism(*options: str) -> str:
        out = tmp_path / "out.ddssp"
        arguments = ["release", str(tmp_path / "rows.parquet"), "-s", str(tmp_path / "schema.toml"), "-e", "1", "-d", "1e-6"]
        done = CliRunner().invoke(app, [*arguments, "-o", str(out), "--force", "--mechanism", "aim", *options])
        return load(out).mechanism if done.exit_code == 0 else str(done.exception)

    assert mechanism() == "aim"
    assert mechanism("--inference", "tree") == "aim-tree"
    assert "got 'jax'" in mechanism("--inference", "jax")
    assert "model_size" in mechanism("--model-size", "-1")
    assert "model_size is for inference pgm" in mechanism("--inference", "tree", "--model-size", "5")


def test_a_number_without_bins_is_refused_with_the_remedy() -> None:
    made = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}})
    with pytest.raises(ValueError, match="add bins"):
        plan(made, epsilon=1.0, delta=1e-6, mechanism="aim")


def test_interrupted_the_ledger_is_spent_and_no_file_is_left(tmp_path: Path) -> None:
    sizes = {f"c{i}": 10 for i in range(80)}
    pq.write_table(rows(sizes, 20_000), tmp_path / "rows.parquet")
    (tmp_path / "schema.toml").write_text(schema(sizes).to_toml())
    Ledger(tmp_path / "ledger.db").set_budget("dataset", 4.0, 1e-6)
    options = "--schema schema.toml -e 4 -d 1e-6 --mechanism aim --inference tree -o out.ddssp --ledger ledger.db"
    process = subprocess.Popen(
        [sys.executable, "-c", "from ddssp.cli import main; main()", "release", "rows.parquet", *options.split()],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    try:
        deadline = time.monotonic() + 60
        while not Ledger(tmp_path / "ledger.db").datasets()[0].reservations:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stays spent" in said
    account = Ledger(tmp_path / "ledger.db").datasets()[0]
    assert account.spent == account.ceiling
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith("ledger.db")) == ["rows.parquet", "schema.toml"]


@pytest.mark.data
@pytest.mark.parametrize(("epsilon", "limit"), [(0.05, 0.115), (0.5, 0.037)])
def test_adult_marginals_are_as_good_as_the_references(data_dir: Path, epsilon: float, limit: float) -> None:
    """One seed; the reference's mean total variation is .096 and .0316."""
    from ddssp.experiments.datasets import dataset

    adult = dataset("adult", data_dir)
    mechanism = AIM(inference=Inference.TREE)
    curator = vault(adult.train, adult.schema, mechanism, epsilon, SeededNoise(1))
    found = mechanism.run(curator, adult.schema, lambda _what, _share: None).marginals
    codes = {name: adult.train[name].to_numpy().astype(int) for name in adult.train.column_names}
    errors = []
    for j, k in adult.schema.domain().pairs:
        exact = np.bincount(codes[j] * found[j, k].shape[1] + codes[k], minlength=found[j, k].size)
        errors.append(np.abs(found[j, k].ravel() - exact).sum() / 2 / adult.train.num_rows)
    assert np.mean(errors) < limit
