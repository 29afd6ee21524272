"""The tree step against joint tables held in full and against general solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.metrics import mutual_info_score

from ddssp.domain import Domain
from ddssp.inference.tree import TreeModel, estimate, mutual_information, nearest_simplex, nearest_tables, semidefinite
from ddssp.marginal import Measurement, PairMarginals

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5}


def chain(rng: np.random.Generator, n: float = 1000.0) -> np.ndarray:
    """A joint table a → b → c, b → d of total n."""
    pa = rng.dirichlet(np.ones(3))
    pb, pc, pd = (rng.dirichlet(np.ones(k), size=m) for m, k in ((3, 4), (4, 2), (4, 5)))
    return n * np.einsum("a,ab,bc,bd->abcd", pa, pb, pc, pd)


def marginal(joint: np.ndarray, clique: tuple[str, ...]) -> np.ndarray:
    return joint.sum(tuple(i for i, name in enumerate(SIZES) if name not in clique))


def measurements(
    joint: np.ndarray, cliques: list[tuple[str, ...]], sigma: float, rng: np.random.Generator
) -> list[Measurement]:
    return [
        Measurement(clique=c, values=(t := marginal(joint, c)) + sigma * rng.normal(size=t.shape), sigma=sigma) for c in cliques
    ]


ONE = [("a",), ("b",), ("c",), ("d",)]
TREE = [("a", "b"), ("b", "c"), ("b", "d")]


def test_a_tree_measured_without_noise_gives_every_pair_of_its_joint_table() -> None:
    rng = np.random.default_rng(0)
    joint, domain = chain(rng), Domain.of(**SIZES)
    found = estimate(domain, measurements(joint, [*ONE, *TREE], 1e-7, rng)).pair_marginals()
    for pair in domain.pairs:
        assert found[pair] == pytest.approx(marginal(joint, pair), abs=1e-3)
        assert found[pair[::-1]] == pytest.approx(marginal(joint, pair).T, abs=1e-3)


def test_a_loop_keeps_the_measured_pair_and_drops_the_weakest_edge_from_the_tree() -> None:
    rng = np.random.default_rng(1)
    joint, domain = chain(rng), Domain.of(**SIZES)
    model = estimate(domain, measurements(joint, [*ONE, *TREE, ("c", "d")], 1e-7, rng))
    assert {frozenset(edge) for edge in model.tree[1:]} == {frozenset(c) for c in TREE}
    assert model.pair_marginals()["c", "d"] == pytest.approx(marginal(joint, ("c", "d")), abs=1e-3)


def test_attributes_that_nothing_connects_are_independent() -> None:
    rng = np.random.default_rng(2)
    joint, domain = chain(rng), Domain.of(**SIZES)
    found = estimate(domain, measurements(joint, [*ONE, ("a", "b")], 1e-7, rng)).pair_marginals()
    assert found["b", "d"] == pytest.approx(np.outer(marginal(joint, ("b",)), marginal(joint, ("d",))) / 1000, abs=1e-3)


def test_a_pair_is_joined_through_what_tells_most_of_both() -> None:
    """a copies m slightly more often than i; k copies i nearly always, m less. The tree joins a to k by m."""
    domain = Domain.of(a=2, m=2, i=2, k=2)

    def copies(often: float) -> np.ndarray:
        return 500 * np.array([[often, 1 - often], [1 - often, often]])

    ways = {("a", "m"): copies(0.8), ("a", "i"): copies(0.79), ("m", "k"): copies(0.81), ("i", "k"): copies(0.999)}
    one = [Measurement(clique=(name,), values=np.array([500.0, 500.0]), sigma=1e-7) for name in domain.names]
    model = estimate(domain, [*one, *(Measurement(clique=c, values=t, sigma=1e-7) for c, t in ways.items())])
    assert frozenset(("a", "i")) not in {frozenset(edge) for edge in model.tree[1:]}
    found = model.pair_marginals()
    through = {i: ways["a", i] @ ways[i, "k"] / 500 for i in ("m", "i")}
    bits = {i: mutual_info_score(None, None, contingency=t) for i, t in through.items()}
    assert bits["i"] > 1.1 * bits["m"]
    assert found["a", "k"] == pytest.approx(through["i"], abs=1e-3)


def test_one_way_marginals_weigh_every_measurement_by_its_variance() -> None:
    """Judge: generalised least squares on the stacked measurements, for counts far from 0."""
    rng = np.random.default_rng(3)
    domain = Domain.of(a=3, b=2)
    A, pair = rng.normal(1000, 1, 3), rng.normal(500, 1, (3, 2))
    model = estimate(
        domain,
        [
            Measurement(clique=("a",), values=A, sigma=2.0),
            Measurement(clique=("b",), values=np.array([1500.0, 1500.0]), sigma=1.0),
            Measurement(clique=("a", "b"), values=pair, sigma=3.0),
        ],
    )
    expected = (A / 4 + pair.sum(1) / 18) / (1 / 4 + 1 / 18)
    n = (A.sum() / 12 + 3000 / 2 + pair.sum() / 54) / (1 / 12 + 1 / 2 + 1 / 54)
    assert model.total == pytest.approx(n)
    assert model.one["a"] == pytest.approx(expected + (n - expected.sum()) / 3)


@pytest.mark.parametrize("seed", range(3))
def test_a_warm_start_gives_the_cold_answer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint, domain = chain(rng), Domain.of(**SIZES)
    asked = [*ONE, *TREE, ("a", "b"), ("a", "d"), ("b",)]
    every = measurements(joint, asked, 20.0, rng)
    model: TreeModel | None = None
    for k in range(len(ONE), len(every) + 1):
        model = estimate(domain, every[:k], start=model)
    cold = estimate(domain, every)
    assert model is not None
    standard_error = cold.evidence.total[1] ** -0.5
    assert abs(model.total - cold.total) <= 0.1 * standard_error
    assert np.abs(model.pair_marginals().burt - cold.pair_marginals().burt).max() <= 0.2 * standard_error


@given(st.integers(0, 10**6), st.sampled_from([(1, 1), (1, 4), (2, 2), (3, 4), (6, 2)]), st.sampled_from([1.0, 30.0]))
@settings(max_examples=40, deadline=None)
def test_the_nearest_table_is_what_a_general_solver_finds(seed: int, shape: tuple[int, int], sigma: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(shape[0] * shape[1], 0.5)).reshape(shape) * 100
    Y, rows, columns = truth + sigma * rng.normal(size=shape), truth.sum(1), truth.sum(0)
    T = nearest_tables(Y[None], rows[None], columns[None])[0]
    assert (T >= 0).all()
    assert T.sum(1) == pytest.approx(rows, abs=1e-3)
    assert T.sum(0) == pytest.approx(columns, abs=1e-3)
    margins = [
        {"type": "eq", "fun": lambda t: t.reshape(shape).sum(1) - rows},
        {"type": "eq", "fun": lambda t: (t.reshape(shape).sum(0) - columns)[1:]} if shape[1] > 1 else None,
    ]
    judge = minimize(
        lambda t: ((t - Y.ravel()) ** 2).sum() / 2,
        np.outer(rows, columns).ravel() / 100,
        jac=lambda t: t - Y.ravel(),
        bounds=[(0, None)] * Y.size,
        constraints=[m for m in margins if m],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert np.linalg.norm(T - Y) <= np.linalg.norm(judge.x - Y.ravel()) + 1e-2


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(1, 1000))
def test_the_nearest_simplex_point_satisfies_the_optimality_conditions(y: list[float], total: float) -> None:
    """Non-negative, right total, and y − x is constant where x > 0 and no larger elsewhere."""
    x = nearest_simplex(np.array(y), total)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(total)
    gap = np.array(y) - x
    assert np.ptp(gap[x > 0]) <= 1e-6
    assert (gap[x == 0] <= gap[x > 0].max() + 1e-6).all()


def test_semidefinite_tables_keep_their_margins_and_stay_near() -> None:
    """Three attributes of which each is said to be the opposite of the next: no joint table has these pairs."""
    opposite, domain = np.array([[0.0, 50.0], [50.0, 0.0]]), Domain.of(a=2, b=2, c=2)
    given = PairMarginals.of(domain, dict.fromkeys(domain.pairs, opposite))
    assert np.linalg.eigvalsh(given.burt)[0] < -10
    found = semidefinite(given)
    assert np.linalg.eigvalsh(found.burt)[0] > -0.02 * found.total
    assert (found.burt >= 0).all()
    for j, k in domain.pairs:
        assert found[j, k].sum(1) == pytest.approx([50, 50])
        assert np.trace(found[j, k]) < 50  # still opposite more often than not


def test_semidefinite_leaves_consistent_tables_alone() -> None:
    rng = np.random.default_rng(5)
    joint, domain = chain(rng), Domain.of(**SIZES)
    given = PairMarginals.of(domain, {pair: marginal(joint, pair) for pair in domain.pairs})
    assert np.array_equal(semidefinite(given).burt, given.burt)


def test_mutual_information_is_scikit_learns() -> None:
    T = np.array([[[10.0, 0.0, 5.0], [2.0, 8.0, 5.0]]])
    assert mutual_information(T, T.sum(2), T.sum(1)) == [pytest.approx(mutual_info_score(None, None, contingency=T[0]))]


def test_sampled_rows_have_the_trees_pairs() -> None:
    rng = np.random.default_rng(4)
    joint, domain = chain(rng), Domain.of(**SIZES)
    model = estimate(domain, measurements(joint, [*ONE, *TREE], 5.0, rng))
    rows = model.sample(200_000, rng)
    expected = model.pair_marginals()
    codes = dict(zip(SIZES, rows.T, strict=True))
    for j, k in domain.pairs:
        table = np.histogram2d(codes[j], codes[k], bins=(range(SIZES[j] + 1), range(SIZES[k] + 1)))[0] / 200_000
        # Five standard errors of a share: one false alarm in a million per cell.
        assert np.abs(table - expected[j, k] / expected.total).max() < 5 * 0.5 / 200_000**0.5


@pytest.mark.parametrize("sizes", [{"a": 1}, {"a": 4}, {"a": 1, "b": 3}, {"a": 1, "b": 1}])
def test_small_domains(sizes: dict[str, int]) -> None:
    domain = Domain.of(**sizes)
    asked = [*((n,) for n in sizes), *domain.pairs]
    found = estimate(domain, [Measurement(clique=c, values=np.full(domain.shape(c), -3.0), sigma=1.0) for c in asked])
    tables = found.pair_marginals()
    assert tables.total == pytest.approx(1.0)
    assert (tables.burt >= 0).all()
    assert found.sample(7, np.random.default_rng(0)).shape == (7, len(sizes))
