"""The minimiser of a perturbed objective: against extended precision, and what the Vault makes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kstest

from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.frame import DataError
from ddssp.model.fit import design_of
from ddssp.privacy.budget import BudgetError, gaussian_rho, objective_rho
from ddssp.privacy.curator import Objective
from ddssp.schema import Schema
from ddssp.secret import minimum as module
from ddssp.secret.counts import Layout, counts
from ddssp.secret.minimum import minimiser
from ddssp.secret.rows import Rows
from ddssp.secret.vault import STANDARD, Vault

SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1},
        "o": {"kind": "ordinal", "levels": 5},
        "g": {"kind": "categorical", "levels": list("abcd")},
        "y": {"kind": "boolean"},
    }
)
BLOCKS = Encoding.centred(SCHEMA).blocks
WIDTH = sum(b.rows for b in BLOCKS[:-1])
KAPPA = np.array([b.kappa for b in BLOCKS[:-1]])


def table(n: int, seed: int = 0, strong: float = 2.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x, o, g = rng.uniform(-1, 1, n), rng.integers(0, 5, n), rng.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05])
    score = strong * (x + 0.3 * o - 0.8 + (g == "a"))
    return pa.table({"x": x, "o": o, "g": g, "y": rng.random(n) < 1 / (1 + np.exp(-score))})


def rows_of(data: pa.Table, split: int | None = None, folded=None) -> Rows:
    return Rows(lambda: data.to_batches(max_chunksize=split), SCHEMA, Encoding.centred(SCHEMA), data.num_rows, folded)


def question(total: float, mu: float = 1.0, **changes) -> Objective:
    """Of least ridge: one for all coordinates."""
    sigma = math.sqrt(KAPPA.sum()) / mu * (1 + 1e-12)
    made = dict(
        features=BLOCKS[:-1],
        target=BLOCKS[-1],
        anchor=np.zeros(WIDTH),
        ridge=np.full(WIDTH, KAPPA.sum() / (1.49 * mu)),
        sigmas=(sigma,) * (len(BLOCKS) - 1),
        sigma_steps=1e5,
        total=total,
    )
    return Objective(**(made | changes))


def derivatives(data: pa.Table, asked: Objective, b: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Of the perturbed objective at θ₀ + off, in extended precision."""
    theta = asked.anchor.astype(np.longdouble) + off
    Z = design_of(data, Encoding(asked.features), SCHEMA).astype(np.longdouble)
    y = np.where(data["y"].to_numpy(zero_copy_only=False), 1, -1).astype(np.longdouble)
    slope = -y / (1 + np.exp(y * (Z @ theta)))
    return np.asarray(Z.T @ slope + asked.ridge * off + b, np.float64)


@pytest.mark.parametrize("n", [0, 1, 40, 3000, 30_000])
@pytest.mark.parametrize("strong", [0.0, 2.0, 40.0])
def test_derivatives_vanish_up_to_the_stated_error(n, strong):
    data, rng = table(n, seed=n, strong=strong), np.random.default_rng(n)
    for scale in (0.0, 3.0, 300.0):
        asked = question(max(float(n), 1.0), anchor=rng.normal(size=WIDTH), ridge=rng.uniform(0.5, 50, WIDTH))
        b = scale * rng.normal(size=WIDTH)
        found = derivatives(data, asked, b, minimiser(rows_of(data), asked, b))
        assert (np.abs(found) <= 2 * (n + asked.scales) * module.PRECISE).all()
    assert (asked.slack == 16 * 2 * (max(n, 1) + asked.scales) * module.PRECISE).all()


def test_batches_and_slices_and_other_places_change_nothing_that_matters():
    data, b = table(20_000), np.random.default_rng(0).normal(size=WIDTH)
    asked = question(20_000.0)
    whole = minimiser(rows_of(data), asked, b)

    def elsewhere(fold):
        return [*fold(data.slice(0, 123).to_batches()), *fold(data.slice(123).to_batches(max_chunksize=1000))]

    for rows in (rows_of(data, split=7), rows_of(data, folded=elsewhere)):
        assert (np.abs(minimiser(rows, asked, b) - whole) < asked.slack / asked.ridge.min()).all()


def test_curvature_is_looked_at_a_few_times_only(monkeypatch):
    data, asked, b = table(20_000), question(20_000.0), np.zeros(WIDTH)
    passes = []
    own = Rows.total
    monkeypatch.setattr(Rows, "total", lambda self, summing: passes.append(summing.curved) or own(self, summing))
    minimiser(rows_of(data), asked, b)
    assert sum(passes) < len(passes) <= 9


def test_rows_in_any_order_settle():
    """Every other row alike: a curvature of some rows would have missed the others."""
    data = table(20_000)
    alike = pa.table({"x": np.zeros(20_000), "o": np.zeros(20_000, int), "g": ["a"] * 20_000, "y": data["y"]})
    mixed = pa.concat_tables([data, alike]).take(np.arange(40_000).reshape(2, -1).T.ravel())
    asked = question(40_000.0, mu=0.2)
    for order in (mixed, mixed.slice(1), pa.concat_tables([alike, data])):
        assert np.isfinite(minimiser(rows_of(order), asked, np.zeros(WIDTH))).all()


def test_sums_stay_within_64_bits(monkeypatch):
    """A vector of sums that has seen MOST records is told, and a new one begun."""
    data, asked = table(1000), question(1000.0)
    summing = module.Slopes(asked=asked, theta=np.zeros(WIDTH), curved=True)
    chunks = [*rows_of(data, split=100)._chunks()]
    (whole,) = summing(iter(chunks))
    monkeypatch.setattr(module, "MOST", 350)
    parts = [*summing(iter(chunks))]
    assert [int(p[0]) for p in parts] == [300, 300, 300, 100]
    assert np.array_equal(sum(parts), whole)
    assert 2**30 * module.COARSE < 2**62  # sums of MOST = 2^30 records
    assert 2**30 * module.FINE / module.COARSE < 2**62
    assert 2**30 * module.CURVATURE < 2**62


def test_scores_too_large_for_the_stated_precision_end_without_an_answer(monkeypatch):
    monkeypatch.setattr(module, "STEEPEST", 1.0)
    with pytest.raises(DataError, match="did not settle; nothing was released, and what was reserved stays spent"):
        minimiser(rows_of(table(50)), question(50.0), np.zeros(WIDTH))


def test_a_far_anchor_is_left_in_small_steps():
    data = table(500)
    asked = question(500.0, anchor=np.full(WIDTH, 100.0) * np.arange(WIDTH))
    found = minimiser(rows_of(data), asked, np.zeros(WIDTH))
    assert (np.abs(derivatives(data, asked, np.zeros(WIDTH), found)) <= asked.slack).all()


def test_a_step_out_of_a_flat_place_is_shortened():
    """Where every chance is 1 the curvature is the ridge alone, and Newton's step would leave all precision behind."""
    data, anchor = table(30_000), np.zeros(WIDTH)
    anchor[0] = 60.0
    asked = question(30_000.0, anchor=anchor, ridge=np.full(WIDTH, 0.5))
    found = minimiser(rows_of(data), asked, np.zeros(WIDTH))
    assert (np.abs(derivatives(data, asked, np.zeros(WIDTH), found)) <= asked.slack).all()


def test_far_more_records_than_the_question_says_end_without_an_answer():
    data = table(200)
    minimiser(rows_of(data), question(200 / 15), np.zeros(WIDTH))
    with pytest.raises(DataError, match="far more records than were counted; nothing was released"):
        minimiser(rows_of(data), question(200 / 17), np.zeros(WIDTH))


def test_a_fit_that_does_not_settle_ends(monkeypatch):
    monkeypatch.setattr(module, "PASSES", 2)
    with pytest.raises(DataError, match="did not settle"):
        minimiser(rows_of(table(500)), question(500.0), np.zeros(WIDTH))


# --- the Vault ------------------------------------------------------------------------------------------------------


def vault(data: pa.Table, rho: Fraction, noise) -> Vault:
    exact = counts(data.to_batches(), Layout.of(SCHEMA, Encoding.centred(SCHEMA)))
    return Vault(exact, rho, noise, rows_of(data))


def charge(asked: Objective) -> Fraction:
    return objective_rho(asked.squared_mu, asked.reach, WIDTH) + gaussian_rho(asked.squared_steps, asked.sigma_steps)


def test_without_noise_it_is_scikit_learns_ridge():
    from sklearn.linear_model import LogisticRegression

    data, asked = table(5000), question(5000.0)
    asked = replace(asked, ridge=np.full(WIDTH, 4.0), sigmas=(1e-3,) * 4)
    found = vault(data, Fraction(10**9), NoNoise()).minimise(asked)
    Z = design_of(data, Encoding(asked.features), SCHEMA)
    judge = LogisticRegression(C=1 / 4.0, fit_intercept=False, tol=1e-12, max_iter=10_000).fit(Z, data["y"].to_numpy(False))
    assert np.abs(found - judge.coef_[0]).max() < 1e-5
    assert np.abs(found).max() > 1


def test_it_charges_first_and_exactly():
    asked = question(300.0, mu=0.3)
    made = vault(table(300), Fraction(1), SeededNoise(0))
    made.minimise(asked)
    assert made.remaining == 1 - charge(asked)
    assert float(charge(asked)) == pytest.approx(0.3**2 / 2 * 141 / 140, rel=1e-3)
    poor = vault(table(300), charge(asked) - Fraction(1, 10**12), SeededNoise(0))
    with pytest.raises(BudgetError, match="left of this release"):
        poor.minimise(asked)
    assert poor.remaining == charge(asked) - Fraction(1, 10**12)


def test_a_ridge_out_of_reach_costs_nothing_and_answers_nothing():
    made = vault(table(300), Fraction(1), SeededNoise(0))
    with pytest.raises(ValueError, match="must keep sup"):
        made.minimise(question(300.0, ridge=np.full(WIDTH, 0.5)))
    assert made.remaining == 1


def test_the_answer_lies_on_its_lattice_with_noise_in_b_and_at_the_end():
    asked = question(300.0)
    drawn = []

    class Listening(SeededNoise):
        def gaussian(self, values, sigma):
            drawn.append((values.copy(), sigma))
            return super().gaussian(values, sigma)

    found = vault(table(300), Fraction(10), Listening(4)).minimise(asked)
    assert np.allclose(found / asked.steps, np.rint(found / asked.steps), atol=1e-3)
    (zeros, standard), (places, sigma) = drawn
    assert not zeros.any()
    assert len(zeros) == WIDTH
    assert standard == STANDARD
    assert sigma == asked.sigma_steps
    b = SeededNoise(4).gaussian(zeros, STANDARD) / STANDARD * np.repeat(asked.sigmas, [b.rows for b in asked.features])
    exact = minimiser(rows_of(table(300)), asked, b)
    assert np.abs(places * asked.steps - exact).max() <= asked.steps.max()


def test_a_vault_without_rows_has_nothing_to_fit_to():
    exact = counts(table(9).to_batches(), Layout.of(SCHEMA, Encoding.centred(SCHEMA)))
    with pytest.raises(TypeError, match="no rows"):
        Vault(exact, Fraction(1), NoNoise()).minimise(question(9.0))


def test_answers_have_the_density_that_the_proof_speaks_of():
    """An intercept alone: b = Σ y a − λθ is standard normal in units of σ, whatever the rows."""
    data, mu = table(60), 0.5
    ridge = np.full(1, 1 / (1.49 * mu))
    asked = question(60.0, features=BLOCKS[:1], anchor=np.zeros(1), ridge=ridge, sigmas=(1 / mu,), sigma_steps=50.0)
    made = vault(data, Fraction(1000), SeededNoise(5))
    theta = np.array([made.minimise(asked)[0] for _ in range(1000)])
    plus = int(np.sum(data["y"].to_numpy(False)))
    b = plus / (1 + np.exp(theta)) - (60 - plus) / (1 + np.exp(-theta)) - asked.ridge * theta
    assert kstest(b * mu, "norm").pvalue > 1e-3
    assert kstest(1.25 * b * mu, "norm").pvalue < 1e-3  # a quarter more would be noticed
