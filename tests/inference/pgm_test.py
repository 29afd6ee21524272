"""The graphical model against joint tables held in full, general convex solvers, and mbi."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.stats import chi2

from ddssp.domain import Attribute, Clique, Domain
from ddssp.inference.junction import junction_tree, model_size
from ddssp.inference.pgm import GraphicalModel, Sampling, estimate, loss
from ddssp.inference.propagation import calibrated, conditionals, schedule, tilted
from ddssp.marginal import Measurement

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}
ONE = tuple((name,) for name in SIZES)

GRAPHS: dict[str, tuple[Clique, ...]] = {
    "one-way": ONE,
    "one attribute": (("b",),),
    "chain": (("a", "b"), ("b", "c"), ("c", "d")),
    "star": (*ONE, ("a", "b"), ("a", "c"), ("a", "d")),
    "cycle of four": (*ONE, ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")),
    "triangle of pairs": (("a", "b"), ("b", "c"), ("a", "c")),
    "all pairs": (*ONE, *combinations(SIZES, 2)),
    "two components": (("a", "b"), ("c", "d"), ("d",)),
    "triple and pair": (("a", "b", "c"), ("c", "d"), ("b",)),
    "total and repeats": ((), ("a", "b"), ("a", "b"), ("a", "b"), ("b", "d"), ("b",), ("b",)),
}


def joint_table(seed: int, n: float = 1000.0, concentration: float = 0.3) -> np.ndarray:
    return n * np.random.default_rng(seed).dirichlet(np.full(72, concentration)).reshape(tuple(SIZES.values()))


def summed(joint: np.ndarray, clique: Clique, names: tuple[str, ...] = tuple(SIZES)) -> np.ndarray:
    """The marginal of a full joint table, in the clique's order."""
    kept = [n for n in names if n in clique]
    table = joint.sum(tuple(i for i, n in enumerate(names) if n not in clique))
    return table.transpose([kept.index(n) for n in clique])


def measured(joint: np.ndarray, cliques: tuple[Clique, ...], sigma: float, seed: int) -> list[Measurement]:
    rng = np.random.default_rng(seed)
    tables = [(c, np.asarray(summed(joint, c))) for c in cliques]
    return [Measurement(clique=c, values=t + sigma * rng.normal(size=t.shape), sigma=sigma) for c, t in tables]


def indicator(domain: Domain, clique: Clique) -> np.ndarray:
    """M_c as a 0/1 matrix over all cells of the joint table."""
    levels = np.indices(domain.shape(domain.names)).reshape(len(domain), -1)
    cell = np.zeros(levels.shape[1], int)
    for name in clique:
        cell = cell * domain.sizes[name] + levels[domain.names.index(name)]
    return (cell == np.arange(domain.size(clique))[:, None]).astype(float)


def optimum(domain: Domain, measurements: list[Measurement], total: float) -> np.ndarray:
    """A joint table of this total that minimises f: non-negative least squares, the total by its multiplier."""
    A = np.vstack([indicator(domain, m.clique) / m.sigma for m in measurements])
    b = np.concatenate([m.values.ravel() / m.sigma for m in measurements])
    weight, shift, p = 1e3 * np.abs(A).max(), 0.0, np.zeros(A.shape[1])
    for _ in range(6):
        p, _ = nnls(np.vstack([A, np.full(A.shape[1], weight)]), np.append(b, weight * (total + shift)), maxiter=10_000)
        shift += total - p.sum()
    return p


def most_entropy(domain: Domain, cliques: list[Clique], p: np.ndarray) -> np.ndarray:
    """The joint table of greatest entropy with p's marginals: iterative proportional fitting from the uniform one."""
    M = [indicator(domain, c) for c in cliques]
    q = np.full(p.size, p.sum() / p.size)
    for _ in range(20_000):
        old = q
        for m in M:
            wanted, found = m @ p, m @ q
            q = q * (np.divide(wanted, found, out=np.zeros_like(found), where=found > 0) @ m)
        if np.abs(q - old).max() < 1e-13 * p.sum():
            break
    return q


def brute_force(model: GraphicalModel) -> np.ndarray:
    names = model.domain.names
    theta = np.zeros(model.domain.shape(names))
    for clique, potential in model.potentials.items():
        theta = theta + potential.reshape([model.domain.sizes[n] if n in clique else 1 for n in names])
    p = np.exp(theta - theta.max())
    return model.total * p / p.sum()


@st.composite
def models(draw: st.DrawFn) -> GraphicalModel:
    """Any potentials, from tame to far beyond the range of exp, on any one- to three-way cliques."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    domain = Domain(tuple(Attribute(name=f"x{i}", size=m) for i, m in enumerate(sizes)))
    every = [c for r in (1, 2, 3) for c in combinations(domain.names, r)]
    cliques = draw(st.lists(st.sampled_from(every), max_size=8, unique=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 1000.0]))
    potentials = {c: scale * rng.normal(size=domain.shape(c)) for c in cliques}
    return GraphicalModel(domain=domain, potentials=potentials, total=draw(st.sampled_from([1.0, 5e4])))


@given(models())
def test_every_marginal_is_that_of_the_joint_table(model: GraphicalModel) -> None:
    joint, names = brute_force(model), model.domain.names
    for width in range(min(4, len(names)) + 1):
        for clique in combinations(names[::-1], width):
            assert model.marginal(clique) == pytest.approx(summed(joint, clique, names), abs=1e-9 * model.total)


@given(models())
def test_pair_marginals_are_those_of_the_joint_table_and_the_burt_matrix_is_psd(model: GraphicalModel) -> None:
    joint, names = brute_force(model), model.domain.names
    pairs = model.pair_marginals()
    for j in names:
        assert pairs.one_way(j) == pytest.approx(summed(joint, (j,), names), abs=1e-9 * model.total)
        for k in names:
            if j != k:
                assert pairs[j, k] == pytest.approx(summed(joint, (j, k), names), abs=1e-9 * model.total)
    assert pairs.total == pytest.approx(model.total)
    assert np.linalg.eigvalsh(pairs.burt).min() > -1e-9 * model.total


TREES = {
    "star": ["ab", "ac", "ad", "ae", "af", "ag", "ah"],
    "chain": ["ab", "bc", "cd", "de", "ef", "fg", "gh"],
    "two levels": ["ab", "ac", "bd", "be", "cf", "cg", "ch"],
    "wide separators": ["abc", "bcd", "bce", "cdf", "cdg", "eh"],
    "overlapping separators": ["abcd", "abe", "bcf", "cdg", "adh"],
    "three components": ["ab", "ac", "de", "df", "gh"],
}


@pytest.mark.parametrize("tree", TREES)
def test_subtrees_that_meet_far_from_each_other_have_the_joint_tables_pairs(tree: str) -> None:
    domain, rng = Domain.of(a=2, b=3, c=2, d=3, e=2, f=3, g=2, h=3), np.random.default_rng(31)
    potentials = {tuple(c): rng.normal(size=domain.shape(tuple(c))) for c in TREES[tree]}
    model = GraphicalModel(domain=domain, potentials=potentials, total=100.0)
    joint, pairs = brute_force(model), model.pair_marginals()
    for pair in domain.pairs:
        assert pairs[pair] == pytest.approx(summed(joint, pair, domain.names), abs=1e-10)


def plain_greedy(domain: Domain, cliques: Iterable[Clique]) -> int:
    """Cells left by eliminating, one by one, the attribute whose neighbourhood has the fewest cells."""
    edges = {frozenset(e) for c in cliques for e in combinations(c, 2)}
    left, found = list(domain.names), []
    while left:
        around = {n: {n, *(m for e in edges if n in e for m in e)} for n in left}
        gone = min(left, key=lambda n: domain.size(domain.clique(around[n])))
        found.append(frozenset(around[gone]))
        edges |= {frozenset(e) for e in combinations(sorted(around[gone]), 2)}
        edges = {e for e in edges if gone not in e}
        left.remove(gone)
    return sum(domain.size(domain.clique(c)) for c in set(found) if not any(c < other for other in found))


@given(st.lists(st.integers(2, 9), min_size=2, max_size=9), st.data())
def test_model_size_is_that_of_plain_greedy_elimination(sizes: list[int], data: st.DataObject) -> None:
    domain = Domain(tuple(Attribute(name=f"x{i}", size=m) for i, m in enumerate(sizes)))
    cliques = data.draw(st.lists(st.sampled_from(domain.pairs), max_size=15))
    assert model_size(domain, cliques) == plain_greedy(domain, cliques) * 8 / 2**20


@given(models())
def test_the_tree_holds_every_clique_once_connected_and_has_the_size_that_was_foretold(model: GraphicalModel) -> None:
    domain, tree = model.domain, model.tree
    for clique in model.potentials:
        assert any({domain.names[a] for a in c} >= set(clique) for c in tree.cliques)
    for a in range(len(domain)):
        tops = [
            t for t, c in enumerate(tree.cliques) if a in c and (tree.parents[t] < 0 or a not in tree.cliques[tree.parents[t]])
        ]
        assert len(tops) == 1
    assert all(parent < t for t, parent in enumerate(tree.parents))
    assert model_size(domain, model.potentials) == sum(t.size for t in model.tables) * 8 / 2**20


@pytest.mark.parametrize(
    ("cliques", "cells"),
    [
        ([], 3 + 4 + 2 + 3),
        (ONE, 3 + 4 + 2 + 3),
        (GRAPHS["chain"], 12 + 8 + 6),
        (GRAPHS["star"], 12 + 6 + 9),
        (GRAPHS["triangle of pairs"], 24 + 3),
        (GRAPHS["cycle of four"], 3 * 4 * 2 + 3 * 2 * 3),
        (GRAPHS["all pairs"], 72),
    ],
)
def test_model_size_of_named_graphs(cliques: tuple[Clique, ...], cells: int) -> None:
    assert model_size(Domain.of(**SIZES), cliques) == pytest.approx(cells * 8 / 2**20)
    assert junction_tree(Domain.of(**SIZES), cliques).cells == cells


@given(models(), st.integers(0, 2**32))
def test_a_tilt_is_the_model_with_the_sum_of_potentials(model: GraphicalModel, seed: int) -> None:
    plan = schedule(model.domain, tuple(model.potentials))
    theta = np.concatenate([np.zeros(0), *(p.ravel() for p in model.potentials.values())])
    delta = np.random.default_rng(seed).normal(size=len(theta))
    K = conditionals(plan, theta)
    found = tilted(plan, K, delta, model.total, [np.empty(k.shape) for k in K])
    assert found is not None
    assert found == pytest.approx(calibrated(plan, conditionals(plan, theta + delta), model.total)[1], abs=1e-9 * model.total)


def test_a_tilt_that_leaves_nothing_of_the_base_says_so() -> None:
    domain, cliques = Domain.of(**SIZES), GRAPHS["cycle of four"]
    plan = schedule(domain, cliques)
    K = conditionals(plan, np.zeros(plan.size))
    work = [np.empty(k.shape) for k in K]
    assert tilted(plan, K, np.full(plan.size, -30.0), 1.0, work) is None
    assert tilted(plan, K, np.full(plan.size, 200.0), 1.0, work) is None
    assert tilted(plan, K, np.full(plan.size, -1.0), 1.0, work) == pytest.approx(
        tilted(plan, K, np.zeros(plan.size), 1.0, work)
    )


@pytest.mark.parametrize("sigma", [1.0, 30.0])
@pytest.mark.parametrize("graph", GRAPHS)
def test_estimate_is_the_convex_optimum_of_greatest_entropy(graph: str, sigma: float) -> None:
    domain, cliques = Domain.of(**SIZES), GRAPHS[graph]
    given = measured(joint_table(3), cliques, sigma, seed=4)
    model = estimate(domain, given, tolerance=1e-13, max_iterations=20_000)
    p = optimum(domain, given, model.total)
    for m in given:
        assert model.marginal(m.clique).ravel() == pytest.approx(indicator(domain, m.clique) @ p, abs=1e-6 * model.total)
    q = most_entropy(domain, [c for c in set(cliques) if c], p)
    for pair in domain.pairs:
        # Proportional fitting itself is this far off where cells are empty.
        assert model.marginal(pair).ravel() == pytest.approx(indicator(domain, pair) @ q, abs=1e-5 * model.total)


@pytest.mark.parametrize("graph", ["chain", "star", "cycle of four", "all pairs", "total and repeats"])
def test_contradictory_measurements_with_negative_cells_reach_the_convex_optimum(graph: str) -> None:
    domain = Domain.of(**SIZES)
    given = measured(joint_table(5), GRAPHS[graph], 300.0, seed=6)
    assert min(m.values.min() for m in given) < -100
    model = estimate(domain, given, tolerance=1e-14, max_iterations=20_000)
    p = optimum(domain, given, model.total)
    for m in given:
        assert model.marginal(m.clique).ravel() == pytest.approx(indicator(domain, m.clique) @ p, abs=1e-5 * model.total)
    best = sum(((indicator(domain, m.clique) @ p - m.values.ravel()) ** 2).sum() / (2 * m.sigma**2) for m in given)
    assert loss(model, given) == pytest.approx(best, abs=1e-6)


def test_the_default_tolerance_leaves_less_of_f_than_a_hundredth_for_each_cell() -> None:
    domain, given = Domain.of(**SIZES), measured(joint_table(7), GRAPHS["all pairs"], 30.0, seed=8)
    rough, fine = estimate(domain, given), estimate(domain, given, tolerance=1e-13, max_iterations=20_000)
    assert loss(fine, given) <= loss(rough, given) < loss(fine, given) + 0.01 * sum(m.values.size for m in given)


def test_exact_measurements_of_a_model_give_the_model_back() -> None:
    rng, domain = np.random.default_rng(0), Domain.of(**SIZES)
    cliques = GRAPHS["cycle of four"]
    truth = GraphicalModel(domain=domain, potentials={c: rng.normal(size=domain.shape(c)) for c in cliques}, total=500.0)
    given = [Measurement(clique=c, values=truth.marginal(c), sigma=1.0) for c in cliques]
    model = estimate(domain, given, tolerance=1e-15, max_iterations=20_000)
    assert model.marginal(domain.names) == pytest.approx(truth.marginal(domain.names), rel=1e-5)


def test_nothing_measured_is_uniform_and_one_level_is_certain() -> None:
    domain = Domain.of(a=3, b=1)
    assert estimate(domain, []).marginal(("a", "b")) == pytest.approx(np.full((3, 1), 1 / 3))
    only = Domain.of(b=1)
    model = estimate(only, [Measurement(clique=("b",), values=np.array([12.0]), sigma=2.0)])
    assert model.marginal(("b",)) == pytest.approx([12.0])
    assert model.pair_marginals().burt == pytest.approx(np.array([[12.0]]))
    assert (model.sample(5, np.random.default_rng(0)) == 0).all()


def test_an_attribute_that_nothing_measures_is_uniform_and_independent() -> None:
    model = estimate(Domain.of(**SIZES), measured(joint_table(1), (("a", "b"),), 5.0, seed=2))
    assert model.marginal(("a", "d")) == pytest.approx(np.repeat(model.marginal(("a",))[:, None] / 3, 3, axis=1))


def test_the_total_is_the_best_linear_estimate_and_at_least_one() -> None:
    domain = Domain.of(a=2, b=3)
    given = [
        Measurement(clique=(), values=np.array(90.0), sigma=3.0),
        Measurement(clique=("a",), values=np.array([40.0, 60.0]), sigma=1.0),
        Measurement(clique=("a", "b"), values=np.full((2, 3), 20.0), sigma=2.0),
    ]
    weights = np.array([1 / 9, 1 / 2, 1 / 24])
    assert estimate(domain, given).total == pytest.approx(weights @ [90.0, 100.0, 120.0] / weights.sum())
    assert estimate(domain, given[:1]).marginal(("a", "b")) == pytest.approx(np.full((2, 3), 15.0))
    assert estimate(domain, [Measurement(clique=("a",), values=np.array([-4.0, 1.0]), sigma=1.0)]).total == 1.0


def test_repeats_count_as_their_weighted_mean() -> None:
    domain, joint = Domain.of(**SIZES), joint_table(9)
    (first, second), (one,) = measured(joint, (("a", "b"), ("a", "b")), 20.0, seed=1), measured(joint, (("b",),), 5.0, seed=2)
    weaker = Measurement(clique=("a", "b"), values=second.values, sigma=40.0)
    mean = Measurement(clique=("a", "b"), values=(4 * first.values + second.values) / 5, sigma=20 * np.sqrt(0.8))
    found = estimate(domain, [first, one, weaker], tolerance=1e-13).marginal(("a", "b"))
    assert found == pytest.approx(estimate(domain, [mean, one], tolerance=1e-13).marginal(("a", "b")), abs=1e-4)


def test_a_warm_start_reaches_the_same_model_though_the_structure_grows() -> None:
    domain = Domain.of(**SIZES)
    every = measured(joint_table(11), GRAPHS["all pairs"], 40.0, seed=12)
    model = None
    for k in range(4, len(every) + 1):
        model = estimate(domain, every[:k], start=model)
    warm = estimate(domain, every, start=model, tolerance=1e-13, max_iterations=20_000)
    cold = estimate(domain, every, tolerance=1e-13, max_iterations=20_000)
    assert warm.marginal(domain.names) == pytest.approx(cold.marginal(domain.names), abs=1e-4)


@settings(max_examples=8)
@given(st.permutations(range(4)), st.integers(0, 2**32))
def test_relabelling_levels_permutes_and_never_changes(order: list[int], seed: int) -> None:
    domain, given = Domain.of(**SIZES), measured(joint_table(13), GRAPHS["star"], 20.0, seed)
    moved = [
        Measurement(
            clique=m.clique, values=m.values.take(order, axis=m.clique.index("b")) if "b" in m.clique else m.values, sigma=20.0
        )
        for m in given
    ]
    plain, permuted = (estimate(domain, g, tolerance=1e-9).marginal(("b", "d")) for g in (given, moved))
    assert permuted == pytest.approx(plain[order], abs=1e-2)


SAMPLED = GraphicalModel(
    domain=Domain.of(**SIZES),
    potentials={c: np.random.default_rng(21).normal(size=Domain.of(**SIZES).shape(c)) for c in GRAPHS["cycle of four"]},
    total=1.0,
)


def counts(codes: np.ndarray, clique: Clique) -> np.ndarray:
    domain = Domain.of(**SIZES)
    cell = np.ravel_multi_index(tuple(codes[:, domain.names.index(n)] for n in clique), domain.shape(clique))
    return np.bincount(cell, minlength=domain.size(clique)).reshape(domain.shape(clique))


def chi_square(codes: np.ndarray) -> float:
    expected = len(codes) * SAMPLED.marginal(tuple(SIZES))
    return float(((counts(codes, tuple(SIZES)) - expected) ** 2 / expected).sum())


def test_independent_records_pass_a_chi_square_test_that_a_wrong_model_fails() -> None:
    """False alarm rate 1e-6; the wrong model is the same one with its pairs left out."""
    limit, rows = chi2.ppf(1 - 1e-6, 71), 20_000
    rng = np.random.default_rng(22)
    assert chi_square(SAMPLED.sample(rows, rng, method=Sampling.INDEPENDENT)) < limit
    only = {c: np.log(SAMPLED.marginal(c)) for c in ONE}
    wrong = GraphicalModel(domain=SAMPLED.domain, potentials=only, total=1.0)
    assert chi_square(wrong.sample(rows, rng, method=Sampling.INDEPENDENT)) > limit


def test_rounded_records_are_nearer_to_every_pair_than_independent_ones_and_unbiased() -> None:
    rng, rows = np.random.default_rng(23), 500
    distance = {
        method: np.mean(
            [
                np.abs(counts(codes, pair) - rows * SAMPLED.marginal(pair)).sum()
                for codes in (SAMPLED.sample(rows, rng, method=method) for _ in range(10))
                for pair in SAMPLED.domain.pairs
            ]
        )
        for method in Sampling
    }
    assert distance[Sampling.ROUNDED] < 0.5 * distance[Sampling.INDEPENDENT]
    # A cell is one of at most 3 rounds of rounding off, so 300 means of 7 rows stray by less than 5 × √(3 / 4 / 300).
    mean = np.mean([counts(SAMPLED.sample(7, rng), ("a", "d")) for _ in range(300)], axis=0)
    assert mean == pytest.approx(7 * SAMPLED.marginal(("a", "d")), abs=5 * np.sqrt(0.75 / 300) * 2)


def test_unknown_attributes_are_named() -> None:
    with pytest.raises(KeyError, match="zip"):
        SAMPLED.marginal(("a", "zip"))


@pytest.mark.slow
def test_mbi_finds_the_same_marginals() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jax, mbi = pytest.importorskip("jax"), pytest.importorskip("mbi")
        x64 = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        try:
            rng = np.random.default_rng(0)
            sizes = {"a": 4, "b": 3, "c": 5, "d": 2, "e": 6}
            domain = Domain.of(**sizes)
            joint = 20_000 * rng.dirichlet(np.ones(720)).reshape(tuple(sizes.values()))
            cliques = [*((n,) for n in sizes), ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "e"), ("a", "b", "d")]
            tables = [(c, summed(joint, c, domain.names)) for c in cliques]
            given = [Measurement(clique=c, values=t + 20 * rng.normal(size=t.shape), sigma=20.0) for c, t in tables]
            judge = mbi.estimation.MirrorDescent().estimate(
                mbi.Domain(list(sizes), list(sizes.values())),
                [mbi.LinearMeasurement(m.values.ravel(), m.clique, stddev=m.sigma) for m in given],
                iters=1000,
            )
            wanted = {p: np.asarray(judge.project(p).datavector(flatten=False)) for p in domain.pairs}
        finally:
            jax.config.update("jax_enable_x64", x64)
    model = estimate(domain, given, tolerance=1e-14, max_iterations=20_000)
    assert model.total == pytest.approx(float(judge.total))
    for pair, table in wanted.items():
        assert model.marginal(pair) == pytest.approx(table, rel=1e-6)


@pytest.mark.data
def test_adult_measured_as_aim_does_is_fitted_within_a_few_propagations(data_dir: Path) -> None:
    """15 one-way and 20 pair marginals at σ = 60, one after the other; the last model against a far longer search."""
    sizes = json.loads((data_dir / "adult.domain.json").read_text())
    rows = pq.read_table(data_dir / "adult.parquet")
    domain = Domain(tuple(Attribute(name=c, size=sizes[c]) for c in rows.column_names))
    codes = {c: rows[c].to_numpy() for c in domain.names}
    rng = np.random.default_rng(5)
    small = [p for p in domain.pairs if domain.size(p) <= 300]
    cliques = [*((n,) for n in domain.names), *(small[i] for i in rng.choice(len(small), 20, replace=False))]
    given: list[Measurement] = []
    model = None
    for clique in cliques:
        cell = np.ravel_multi_index(tuple(codes[n] for n in clique), domain.shape(clique))
        exact = np.bincount(cell, minlength=domain.size(clique)).reshape(domain.shape(clique))
        if len(clique) == 2 and model_size(domain, [m.clique for m in given] + [clique]) > 2.0:
            continue
        given.append(Measurement(clique=clique, values=exact + 60 * rng.normal(size=exact.shape), sigma=60.0))
        model = estimate(domain, given, start=model, max_iterations=60 if len(clique) == 2 else 1000)
    assert model is not None
    cells = sum(m.values.size for m in given)
    best = estimate(domain, given, start=model, tolerance=1e-5)
    assert loss(best, given) <= loss(model, given) < loss(best, given) + 0.05 * cells
    burt = model.pair_marginals().burt
    assert np.linalg.eigvalsh(burt).min() > -1e-9 * model.total
