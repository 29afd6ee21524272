"""C of blocks: exact where all is known, and something that rows could have whatever was measured."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.inference.correlation import UNMEASURED, WEAKEST, Cross, correlation, definite, likely
from ddssp.inference.geometry import Geometry


def rows_of(seed: int, n: int = 4000) -> tuple[list[np.ndarray], np.ndarray]:
    """Two numbers that almost agree, and two columns of levels that both follow them; z of each block, uncentred."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(-1, 1, n)
    b = np.clip(a + rng.normal(0, 0.15, n), -1, 1)
    g = np.clip(((a + rng.normal(0, 0.2, n)) * 3 + 3).astype(int), 0, 5)
    h = np.clip(((b + rng.normal(0, 0.2, n)) * 4 + 4).astype(int), 0, 7)
    return [a[:, None], b[:, None], np.eye(6)[g] - 1 / 6, np.eye(8)[h] - 1 / 8], np.array([False, False, True, True])


def geometry_of(parts: list[np.ndarray], hot: np.ndarray) -> Geometry:
    Z = np.hstack(parts)
    sizes = np.array([p.shape[1] for p in parts])
    mean = Z.mean(0)
    share = mean + np.repeat(np.where(hot, 1 / sizes, 0.0), sizes)
    return Geometry(
        total=float(len(Z)),
        sizes=sizes,
        hot=hot,
        offset=mean,
        share=share,
        variance=Z.var(0),
        doubt=np.full(sum(sizes), 1e-6),
    )


def measured(parts: list[np.ndarray], pairs: list[tuple[int, int]], sigma: float = 1e-3, seed: int = 0) -> Cross:
    rng = np.random.default_rng(seed)
    tables = {(j, k): parts[j].T @ parts[k] for j, k in pairs}
    return {c: (t + sigma * rng.normal(size=t.shape), sigma**2) for c, t in tables.items()}


ALL = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def test_where_all_is_measured_it_is_the_correlation_of_the_rows():
    """But for directions that no row can take, which are raised to WEAKEST."""
    parts, hot = rows_of(0)
    g = geometry_of(parts, hot)
    C, V = correlation(g, measured(parts, ALL))
    assert definite(np.corrcoef(np.hstack(parts).T)) == pytest.approx(C, abs=0.03)
    assert V[~np.eye(16, dtype=bool)].max() < 1e-6


def test_what_was_not_measured_is_independent_given_what_was():
    """Levels follow the numbers alone, so their table is known in good part without having been measured."""
    parts, hot = rows_of(1)
    g = geometry_of(parts, hot)
    truth = np.corrcoef(np.hstack(parts).T)[2:8, 8:]
    C, V = correlation(g, measured(parts, [c for c in ALL if c != (2, 3)]))
    assert C[2:8, 8:] == pytest.approx(C[2:8, :2] @ np.linalg.solve(C[:2, :2], C[:2, 8:]), abs=1e-9)
    assert np.linalg.norm(C[2:8, 8:] - truth) < 0.7 * np.linalg.norm(truth)
    assert V[2:8, 8:] == pytest.approx(UNMEASURED**2 / np.sqrt(48))


@pytest.mark.parametrize("sigma", [1e-3, 30.0, 300.0, 3000.0])
@pytest.mark.parametrize("left_out", [(2, 3), (0, 1), (1, 3), None])
def test_whatever_was_measured_it_is_positive_definite(sigma, left_out):
    """Entry by entry, as measured, it is not."""
    parts, hot = rows_of(2)
    g = geometry_of(parts, hot)
    cross = measured(parts, [c for c in ALL if c != left_out], sigma)
    C, _ = correlation(g, cross)
    assert np.array_equal(C, C.T)
    assert np.linalg.eigvalsh(C)[0] > 1e-6
    if sigma == 300.0:
        raw, ends = np.corrcoef(np.hstack(parts).T), [0, 1, 2, 8, 16]
        for (j, k), (table, _) in cross.items():
            p, q = np.arange(ends[j], ends[j + 1]), np.arange(ends[k], ends[k + 1])
            scale = g.total * np.sqrt(np.outer(g.variance[p], g.variance[q]))
            raw[np.ix_(p, q)] = (table - g.total * np.outer(g.offset[p], g.offset[q])) / scale
            raw[np.ix_(q, p)] = raw[np.ix_(p, q)].T
        assert np.linalg.eigvalsh(raw)[0] < 0


def test_noise_is_not_taken_for_what_weak_axes_have():
    """The difference of two numbers that almost agree says little; noise of the products must not make levels explain it."""
    parts, hot = rows_of(3)
    g = geometry_of(parts, hot)
    C, _ = correlation(g, measured(parts, [*ALL[:3], (1, 2), (1, 3)], 60.0))
    weak = np.array([1, -1]) / np.sqrt(2)
    explained = weak @ C[:2, 2:8] @ np.linalg.solve(C[2:8, 2:8], C[2:8, :2]) @ weak
    assert explained < 0.5 * weak @ C[:2, :2] @ weak


def test_levels_of_one_column_are_correlated_as_their_shares_say():
    n, share = 500.0, np.array([0.5, 0.3, 0.2])
    g = Geometry(
        total=n,
        sizes=np.array([3]),
        hot=np.array([True]),
        offset=share - 1 / 3,
        share=share,
        variance=share * (1 - share),
        doubt=np.ones(3),
    )
    C, V = correlation(g, {})
    codes = np.repeat(np.arange(3), (n * share).astype(int))
    assert np.allclose(C, definite(np.corrcoef(np.eye(3)[codes].T)))
    assert np.allclose(V, np.diag(np.diag(V)))


def test_a_measured_table_of_two_numbers_is_shrunken_by_its_own_signal():
    rng = np.random.default_rng(4)
    a = rng.uniform(-1, 1, (4000, 1))
    parts = [a, 0.5 * a + rng.uniform(-0.5, 0.5, a.shape)]
    g = geometry_of(parts, np.array([False, False]))
    truth = np.corrcoef(np.hstack(parts).T)
    sharp, V = correlation(g, measured(parts, [(0, 1)]))
    assert sharp == pytest.approx(truth, abs=1e-3)
    assert V[0, 1] < 1e-8
    sigma = 400.0
    noisy = measured(parts, [(0, 1)], sigma, seed=1)
    blurred, V = correlation(g, noisy)
    scale = g.total * np.sqrt(g.variance.prod())
    seen, noise = (noisy[0, 1][0].item() - g.total * g.offset.prod()) / scale, (sigma / scale) ** 2
    assert blurred[0, 1] == pytest.approx((1 - noise / seen**2) * seen)
    assert V[0, 1] == pytest.approx((1 - noise / seen**2) * noise)


def test_eigenvalues_are_raised():
    C = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(C).min() < 0
    assert np.linalg.eigvalsh(definite(C)).min() >= WEAKEST - 1e-12
    fine = np.array([[1.0, 0.3], [0.3, 1.0]])
    assert np.allclose(definite(fine), fine)


@pytest.mark.parametrize(("found", "sd"), [(0.985, 0.056), (0.9, 0.05), (1.05, 0.1), (0.6, 0.01)])
def test_an_uncertain_eigenvalue_is_its_mean_given_that_it_is_positive(found, sd):
    """Two numbers: 1 − ρ of their difference, drawn where the truth may be."""
    drawn = 1 - np.random.default_rng(0).normal(found, sd, 2_000_000)
    C, V = np.array([[1, found], [found, 1]]), np.array([[0, sd**2], [sd**2, 0]])
    away = np.array([1, -1]) / np.sqrt(2)
    assert away @ likely(C, V) @ away == pytest.approx(max(drawn[drawn > 0].mean(), WEAKEST), rel=0.01)


def test_what_is_known_exactly_stays_as_it_is():
    C = np.array([[1, 0.5, 0.2], [0.5, 1, 0.1], [0.2, 0.1, 1]])
    assert np.allclose(likely(C, np.zeros((3, 3))), C)
    weak = np.array([[1, 0.999], [0.999, 1]])
    assert np.allclose(likely(weak, np.zeros((2, 2))), definite(weak))
