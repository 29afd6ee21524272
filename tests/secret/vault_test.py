"""The Vault: charges first, refuses what is not covered, and never shows what it holds."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import judge
from ddssp.domain import Domain
from ddssp.encoding import FIXED, Encoding, indicator, intercept
from ddssp.experiments.noise import NoNoise
from ddssp.marginal import PairMarginals
from ddssp.mechanism.moments import queries
from ddssp.privacy.budget import BudgetError, gaussian_rho, selection_rho
from ddssp.privacy.curator import Discrepancy, Query
from ddssp.schema import Schema
from ddssp.secret.counts import Layout, counts
from ddssp.secret.table import batches
from ddssp.secret.vault import LARGEST_ESTIMATE, SAFE, SCORE_GRID, WEIGHT_GRID, WIDE, Vault

SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "d": {"kind": "categorical", "levels": ["p", "q"]},
    }
)
ROWS = {"x": [-1.0, 0.5, 1.0, 0.25], "c": ["a", "b", "b", "c"], "d": ["p", "q", "q", "q"]}
ASKED = queries(Encoding.centred(SCHEMA))


class Recorder(NoNoise):
    """No noise, but remembers every draw and what was left when it was made."""

    def __init__(self):
        self.drawn, self.vault = [], None

    def gaussian(self, values, sigma):
        self.drawn.append(("gaussian", values.copy(), sigma, self.vault and self.vault.remaining))
        return values

    def noisy_max(self, scores, scale):
        self.drawn.append(("max", scores.copy(), scale, self.vault and self.vault.remaining))
        return int(np.argmax(scores))


def vault(rho=Fraction(1), rows=ROWS, noise=None, blocks=None) -> Vault:
    blocks = Encoding.centred(SCHEMA).blocks if blocks is None else blocks
    c = counts(batches(rows, tuple(SCHEMA.columns)), Layout.of(SCHEMA, blocks))
    made = Vault(c, rho, noise or NoNoise())
    if isinstance(noise, Recorder):
        noise.vault = made
    return made


def tables() -> tuple:
    return (intercept(), indicator("c", 3), indicator("d", 2))


def candidates(estimate: np.ndarray, weights=(1.0, 1.0, 2.0), penalties=(0.0, 0.0, 0.0)) -> Discrepancy:
    domain = Domain.of(c=3, d=2)
    marginals = PairMarginals.of(domain, {("c", "d"): estimate.astype(float)})
    return Discrepancy(
        cliques=(("c",), ("d",), ("c", "d")), estimate=marginals, weights=np.array(weights), penalties=np.array(penalties)
    )


def test_answers_are_the_judges():
    rows = judge.records(ROWS)
    for query, got in zip(ASKED, vault(Fraction(10**6)).measure(ASKED, [1.0] * len(ASKED)), strict=True):
        assert np.array_equal(got, np.array(judge.answer(rows, query, SCHEMA)) / query.lattice)


def test_marginals_are_counts():
    asked = [Query(left=intercept(), right=indicator("c", 3)), Query(left=indicator("c", 3), right=indicator("d", 2))]
    one, pair = vault(Fraction(10), blocks=tables()).measure(asked, [1.0, 1.0])
    assert one.tolist() == [[1, 2, 1]]
    assert pair.tolist() == [[1, 0], [0, 2], [0, 1]]
    turned = vault(Fraction(10), blocks=tables()).measure([Query(left=indicator("d", 2), right=indicator("c", 3))], [1.0])[0]
    assert turned.tolist() == pair.T.tolist()


def test_measure_charges_the_exact_sum_before_it_draws():
    noise = Recorder()
    v = vault(Fraction(1), noise=noise)
    sigmas = [10.0 + i for i in range(len(ASKED))]
    v.measure(ASKED, sigmas)
    charge = sum(gaussian_rho(q.squared_sensitivity, s * q.lattice) for q, s in zip(ASKED, sigmas, strict=True))
    assert v.remaining == 1 - charge
    assert len(noise.drawn) == len(ASKED)
    assert {left for _, _, _, left in noise.drawn} == {1 - charge}  # all of it was gone before the first draw
    assert [s for _, _, s, _ in noise.drawn] == [s * q.lattice for q, s in zip(ASKED, sigmas, strict=True)]


def test_measure_refuses_beyond_the_reservation_and_draws_nothing():
    noise = Recorder()
    exact = sum(gaussian_rho(q.squared_sensitivity, 5.0 * q.lattice) for q in ASKED)
    v = vault(exact - Fraction(1, 10**30), noise=noise)
    with pytest.raises(BudgetError, match=r"exceeds the ρ = .* left of this release"):
        v.measure(ASKED, [5.0] * len(ASKED))
    assert noise.drawn == []
    assert v.remaining == exact - Fraction(1, 10**30)
    v = vault(exact, noise=noise)
    v.measure(ASKED, [5.0] * len(ASKED))
    assert v.remaining == 0
    with pytest.raises(BudgetError):
        v.measure(ASKED[:1], [1e6])


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_a_sigma_that_is_no_scale_draws_nothing_and_costs_nothing(sigma):
    noise = Recorder()
    v = vault(noise=noise)
    with pytest.raises(ValueError, match="sigma must be positive and finite"):
        v.measure(ASKED[:2], [1e9, sigma])
    assert (noise.drawn, v.remaining) == ([], 1)


def test_one_sigma_per_query():
    noise = Recorder()
    with pytest.raises(ValueError, match="zip"):
        vault(noise=noise).measure(ASKED, [1.0])
    assert noise.drawn == []


def test_select_charges_before_it_draws_and_refuses_what_is_not_covered():
    noise = Recorder()
    v = vault(Fraction(1, 100), noise=noise, blocks=tables())
    chosen = v.select(candidates(np.zeros((3, 2))), 0.2)
    assert chosen == 2
    assert v.remaining == Fraction(1, 100) - selection_rho(0.2)
    assert noise.drawn[0][3] == v.remaining
    with pytest.raises(BudgetError):
        v.select(candidates(np.zeros((3, 2))), 1.0)
    assert len(noise.drawn) == 1


@pytest.mark.parametrize(
    "weights", [(np.inf, 1, 1), (np.nan, 1, 1), (1, -1, 1), (1, -1e9, 1), (0, 0, 0)], ids=["inf", "nan", "-1", "-1e9", "all 0"]
)
def test_weights_that_would_move_scores_beyond_the_sensitivity_draw_nothing_and_cost_nothing(weights):
    noise = Recorder()
    v = vault(noise=noise, blocks=tables())
    with pytest.raises(ValueError, match="weights of a selection must be at least 0, finite and not all 0"):
        v.select(candidates(np.zeros((3, 2)), weights), 0.2)
    assert (noise.drawn, v.remaining) == ([], 1)


@pytest.mark.parametrize("size", [5e-324, 1e-308, 1e308])
def test_weights_of_any_size_stay_within_the_sensitivity(size):
    noise = Recorder()
    vault(noise=noise, blocks=tables()).select(candidates(np.zeros((3, 2)), (size, size, 0)), 1.0)
    exact = np.array([[1, 0], [0, 2], [0, 1]])
    expected = [WEIGHT_GRID * SCORE_GRID * n for n in (exact.sum(), exact.sum(), 0)]
    assert noise.drawn[0][1].tolist() == expected


def test_scores_are_weighted_distances_less_penalties():
    noise = Recorder()
    estimate = np.array([[1, 1], [1, 1], [0, 0]])
    vault(noise=noise, blocks=tables()).select(candidates(estimate, (1, 1.5, 2), (0.5, 0, 0.25)), 1.0)
    exact = np.array([[1, 0], [0, 2], [0, 1]])
    l1 = [
        np.abs(exact.sum(1) - estimate.sum(1)).sum(),
        np.abs(exact.sum(0) - estimate.sum(0)).sum(),
        np.abs(exact - estimate).sum(),
    ]
    expected = np.array([0.5, 0.75, 1]) * WEIGHT_GRID * (np.array(l1) - [0.5, 0, 0.25]) * SCORE_GRID
    assert noise.drawn[0][1].tolist() == expected.tolist()


def test_sensitivity_of_a_selection_by_brute_force_over_all_neighbours():
    """Scores on the grid move by no more than the sensitivity behind the scale, whichever record is added."""
    estimate = np.array([[0.3, 1.7], [1.1, 0.2], [0.4, 0.9]])
    weights, epsilon = (1.0, 0.7, 2.3), 0.5
    scores = []
    for extra in (None, *product("abc", "pq")):
        rows = {k: list(v) for k, v in ROWS.items()}
        if extra:
            rows["x"], rows["c"], rows["d"] = rows["x"] + [0.0], rows["c"] + [extra[0]], rows["d"] + [extra[1]]
        noise = Recorder()
        vault(rows=rows, noise=noise, blocks=tables()).select(candidates(estimate, weights), epsilon)
        scores.append(noise.drawn[0][1])
        scale = noise.drawn[0][2]
    moved = max(np.abs(s - scores[0]).max() for s in scores[1:])
    assert moved <= scale * epsilon / 2
    assert moved == round(scale * epsilon / 2) == WEIGHT_GRID * SCORE_GRID  # and the bound is attained


@pytest.mark.parametrize(("records", "cell"), [(10**6, 1e5 / 7.3), (10**12 + 39, 1e11 / 7.3), (2**40 + 2, 0.7)])
def test_scores_of_very_many_records_are_exact(records, cell):
    """Floats round the sums of a table otherwise from one record to the next (the last case); these are integers to the end."""
    scores = []
    for n in (records, records + 1):
        noise, v = Recorder(), vault(blocks=tables())
        v._noise, v._counts = noise, replace(v._counts, n=n, one={"c": np.array([n - 2, 1, 1]), "d": np.array([n, 0])})
        v._counts.pair["c", "d"][:] = [[n - 2, 0], [1, 0], [1, 0]]
        v.select(candidates(np.full((3, 2), cell), (1, 0.9, 0.3)), 0.5)
        scores.append([int(s) for s in noise.drawn[0][1]])
    moved = [abs(b - a) for a, b in zip(*scores, strict=True)]
    assert moved == [SCORE_GRID * round(w * WEIGHT_GRID) for w in (1, 0.9, 0.3)]


@pytest.mark.parametrize("cell", [2.0 * LARGEST_ESTIMATE, np.inf, np.nan])
def test_an_estimate_that_would_outgrow_the_grid_is_refused(cell):
    noise = Recorder()
    with pytest.raises(ValueError, match="estimated marginal must be finite"):
        vault(noise=noise, blocks=tables()).select(candidates(np.full((3, 2), cell)), 1.0)
    assert noise.drawn == []


@pytest.mark.parametrize("epsilon", [0.03, 0.12, 0.3, 0.5])
def test_the_scale_of_a_selection_is_never_below_what_is_charged(epsilon):
    noise = Recorder()
    vault(noise=noise, blocks=tables()).select(candidates(np.zeros((3, 2))), epsilon)
    assert Fraction(noise.drawn[0][2]) * Fraction(epsilon) >= 2 * WEIGHT_GRID * SCORE_GRID


def test_sensitivity_of_a_measurement_by_brute_force_over_all_neighbours():
    """What the noise is added to moves by exactly the claimed bound for the worst added record, and never by more."""
    records = [dict(zip(SCHEMA.columns, cells, strict=True)) for cells in product([-1.0, -0.3, 0.0, 1.0], "abc", "pq")]
    base = Recorder()
    vault(Fraction(10**6), noise=base).measure(ASKED, [1.0] * len(ASKED))
    worst = [0] * len(ASKED)
    for record in records:
        rows = {k: [*v, record[k]] for k, v in ROWS.items()}
        noise = Recorder()
        vault(Fraction(10**6), rows=rows, noise=noise).measure(ASKED, [1.0] * len(ASKED))
        for i, (one, two) in enumerate(zip(base.drawn, noise.drawn, strict=True)):
            worst[i] = max(worst[i], sum(int(d) ** 2 for d in one[1] - two[1]))
    assert worst == [q.squared_sensitivity for q in ASKED]


def test_answers_beyond_62_bits_are_clipped_and_never_wrap():
    noise = Recorder()
    v = vault(Fraction(10**6), noise=noise)
    v._counts.n = 2**40
    v._counts.gram[0, 0] = FIXED**2 * 2**40
    asked = [q for q in ASKED if q.clique == ("x", "x")]
    v.measure(asked, [1.0])
    assert noise.drawn[0][1].tolist() == [SAFE]
    v._counts.gram[0, 0] = 0
    v.measure(asked, [1.0])
    assert noise.drawn[1][1].tolist() == [-SAFE]


def test_products_over_billions_of_records_are_exact():
    noise = Recorder()
    v = vault(Fraction(10**6), noise=noise)
    v._counts.n = WIDE * 4
    v._counts.cross["c"][:] = FIXED * 2**47
    v.measure([q for q in ASKED if q.clique == ("x", "c")], [1.0])
    assert noise.drawn[0][1].tolist() == [0, 0, 0]  # (3 e_a − 1) · const: in 64 bits 3 · 2^62 would have wrapped
    v._counts.cross["c"][0, 0] = 0
    v.measure([q for q in ASKED if q.clique == ("x", "c")], [1.0])
    assert noise.drawn[1][1].tolist() == [-SAFE, FIXED * 2**47, FIXED * 2**47]


def test_a_vault_does_not_print_pickle_or_copy():
    v = vault()
    assert repr(v) == str(v) == f"{v}" == "<Vault: secret>"
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="holds secret data"):
            leave(v)
    with pytest.raises(TypeError):
        json.dumps(v)
    assert not hasattr(v, "counts")
