"""The moments mechanism: spends what it may, and spends it best."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.mechanism.moments import TARGET_WEIGHT, MomentsMechanism, allocation, queries
from ddssp.privacy.budget import gaussian_rho, rho_of
from ddssp.schema import Schema
from ddssp.secret.counts import Layout, counts
from ddssp.secret.table import batches
from ddssp.secret.vault import Vault

SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1},
        "o": {"kind": "ordinal", "levels": 3},
        "c": {"kind": "categorical", "levels": ["a", "b", "c", "d"]},
        "v": {"kind": "categorical", "levels": ["a", "b"], "values": [[1, 0], [0.5, 1]]},
        "y": {"kind": "boolean"},
    }
)
ASKED = queries(Encoding.centred(SCHEMA))


def rows(n: int, seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(-1, 1, n),
        "o": rng.integers(0, 3, n),
        "c": rng.choice(list("abcd"), n),
        "v": rng.choice(list("ab"), n),
        "y": rng.integers(0, 2, n),
    }


@given(
    epsilon=st.floats(1e-4, 50),
    delta=st.floats(1e-12, 1e-2),
    target=st.sampled_from([None, "x", "c", "y"]),
)
def test_charges_add_up_to_the_budget_and_never_beyond(epsilon, delta, target):
    rho = rho_of(epsilon, delta)
    weights = np.array([TARGET_WEIGHT if target in q.clique else 1.0 for q in ASKED])
    sigmas = allocation(ASKED, weights, float(rho))
    spent = sum(gaussian_rho(q.squared_sensitivity, float(s) * q.lattice) for q, s in zip(ASKED, sigmas, strict=True))
    assert spent <= rho
    assert spent >= rho * (1 - Fraction(1, 10**6))


@pytest.mark.parametrize("target", [None, "y"])
@pytest.mark.parametrize("rho", [Fraction(1, 10**9), Fraction(3, 100), Fraction(7)])
def test_a_run_leaves_less_than_a_millionth(rho, target):
    layout = Layout.of(SCHEMA, Encoding.centred(SCHEMA))
    vault = Vault(counts(batches(rows(50), tuple(SCHEMA.columns)), layout), rho, SeededNoise(0))
    MomentsMechanism(target=target).run(vault, SCHEMA, lambda *_: None)
    assert 0 <= vault.remaining < rho / 10**6


def test_a_small_budget_on_many_columns_is_not_refused_for_rounding():
    schema = Schema(columns={f"x{i}": {"kind": "numeric", "low": 0, "high": 1} for i in range(40)})
    data = {f"x{i}": [0.5] for i in range(40)}
    release = curate(data, plan(schema, epsilon=1e-4, delta=1e-9, mechanism="moments"), noise=SeededNoise(0))
    assert len(release.measurements) == 1 + 40 + 40 * 39 // 2 + 40


@pytest.mark.parametrize("target", [None, "y"])
def test_allocation_is_optimal(target):
    """Against a numerical optimiser that knows nothing of the closed form: least Σ w n σ² at cost Σ p/2σ² = ρ."""
    rho = 0.03
    asked = ASKED[:7]
    w = np.array([TARGET_WEIGHT if target in q.clique else 1.0 for q in asked])
    n = np.array([q.left.freedom * q.right.freedom for q in asked], float)
    p = np.array([q.p for q in asked])

    def loss(log_share):
        share = np.exp(log_share - log_share.max())
        sigma2 = p / (2 * rho * share / share.sum())
        return float(np.sum(w * n * sigma2))

    found = optimize.minimize(loss, np.zeros(len(asked)), method="BFGS", options={"gtol": 1e-9})
    ours = allocation(asked, w, rho)
    assert float(np.sum(w * n * ours**2)) == pytest.approx(found.fun, rel=1e-7)
    share = np.exp(found.x - found.x.max())
    assert np.allclose(ours**2, p / (2 * rho * share / share.sum()), rtol=1e-3)


def test_a_target_gets_less_noise():
    plain = allocation(ASKED, np.ones(len(ASKED)), 0.1)
    aimed = allocation(ASKED, np.array([TARGET_WEIGHT if "y" in q.clique else 1.0 for q in ASKED]), 0.1)
    touches = np.array(["y" in q.clique for q in ASKED])
    assert (aimed[touches] < plain[touches]).all()
    assert (aimed[~touches] > plain[~touches]).all()


def test_every_pair_is_asked_once():
    cliques = [q.clique for q in ASKED]
    assert len(set(cliques)) == len(cliques)
    names = Encoding.centred(SCHEMA).columns
    assert {c for c in cliques if len(c) == 2 and c[0] != c[1]} == {(a, b) for i, a in enumerate(names) for b in names[i + 1 :]}
    assert {c for c in cliques if len(c) == 2 and c[0] == c[1]} == {("x", "x"), ("o", "o"), ("v", "v")}
    assert () in cliques


def test_centred_blocks_add_up_to_0():
    release = curate(rows(500), plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments"), noise=SeededNoise(3))
    for m in release.measurements:
        if m.clique == ("c",):
            assert abs(m.values.sum()) < 1e-9
        if m.clique == ("o", "c"):
            assert np.allclose(m.values.sum(1), 0, atol=1e-9)


def test_the_stated_sigma_is_that_of_the_noise():
    """z-scores of repeated measurements: false alarm below 1e-7 at 40 x 1 scalar blocks; σ × 0.7 must be noticed."""
    from scipy import stats

    data = rows(200)
    made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments")
    exact = {m.clique: m for m in curate(data, made, noise=NoNoise()).measurements}
    z = []
    for seed in range(40):
        for m in curate(data, made, noise=SeededNoise(seed)).measurements:
            if m.values.size == 1:
                z.append(float((m.values - exact[m.clique].values)[0, 0]) / m.sigma)
    total = float(np.sum(np.square(z)))
    law = stats.chi2(len(z))
    assert 2 * min(law.cdf(total), law.sf(total)) > 1e-7
    assert 2 * min(law.cdf(total / 0.49), law.sf(total / 0.49)) < 1e-7
