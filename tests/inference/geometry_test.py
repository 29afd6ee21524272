"""Geometry: against means and variances of the rows, and possible whatever the noise."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise
from ddssp.inference.geometry import geometry
from ddssp.inference.psd import combined
from ddssp.marginal import Measurement
from ddssp.model.fit import design_of
from ddssp.schema import Schema

SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": 0, "high": 10},
        "o": {"kind": "ordinal", "levels": 4},
        "g": {"kind": "categorical", "levels": list("abc")},
        "b": {"kind": "boolean"},
    }
)
BLOCKS = Encoding.centred(SCHEMA).blocks[1:]


def rows(n: int = 400) -> dict[str, object]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.beta(2, 5, n) * 10,
        "o": rng.integers(0, 4, n),
        "g": rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]),
        "b": rng.random(n) < 0.2,
    }


def exact() -> dict:
    release = curate(rows(), plan(SCHEMA, epsilon=50, delta=1e-6, mechanism="moments"), noise=NoNoise())
    return combined(release.measurements)


def test_without_noise_it_is_the_rows_own():
    g = geometry(BLOCKS, exact())
    Z = design_of(rows(), Encoding.centred(SCHEMA), SCHEMA)[:, 1:]
    assert g.total == 400
    assert np.allclose(g.offset, Z.mean(0))
    assert np.allclose(g.variance, Z.var(0), atol=1e-9)
    assert g.sizes.tolist() == [1, 1, 3, 1]
    assert g.hot.tolist() == [False, False, True, False]
    assert g.block.tolist() == [0, 1, 2, 2, 2, 3]
    assert np.allclose(g.share[2:5], Z.mean(0)[2:5] + 1 / 3)
    assert np.allclose(g.reach, [Z[:, g.block == j].var(0).sum() for j in range(4)])
    assert np.allclose(g.typical, [400 * np.exp(np.log(Z[:, g.block == j].var(0)).mean()) for j in range(4)])


@functools.cache
def exact_once() -> dict:
    return exact()


@given(noise=st.lists(st.floats(-1e6, 1e6), min_size=40, max_size=40), sigma=st.floats(1e-3, 1e5))
def test_whatever_the_noise_it_is_possible(noise, sigma):
    drawn, known = iter(noise), {}
    for c, m in exact_once().items():
        if len(c) < 2 or c[0] == c[1]:
            error = np.array([next(drawn) for _ in range(m.values.size)]).reshape(m.values.shape)
            known[c] = Measurement(clique=c, values=m.values + error, sigma=sigma)
    g = geometry(BLOCKS, known)
    assert g.total >= max(1.0, sigma)
    assert (np.abs(g.offset) <= 1).all()
    assert ((g.variance > 0) & (g.variance <= 1)).all()
    assert g.share[2:5].sum() == pytest.approx(1)
    assert (g.share[2:5] > 0).all()
    assert (g.reach > 0).all()
    assert np.isfinite(g.typical).all()


def test_a_level_that_noise_made_negative_has_some_rows():
    """As many as a normal has above 0: half its standard deviation and a little more at two thirds of one below."""
    known = dict(exact_once())
    known["g",] = Measurement(clique=("g",), values=np.array([[100.0, 50.0, -140.0]]), sigma=10.0)
    g, drawn = geometry(BLOCKS, known), np.random.default_rng(0).normal(-140 + 400 / 3, 10, 1_000_000)
    few = drawn[drawn > 0]
    assert g.share[4] == pytest.approx(few.mean() / (few.mean() + 100 + 50 + 800 / 3), rel=0.01)
    assert g.doubt[4] == pytest.approx(few.var(), rel=0.01)
    assert g.doubt[2:4] == pytest.approx(100.0)


def test_a_variance_below_the_noise_is_raised_to_it():
    known = dict(exact_once())
    known["x", "x"] = Measurement(clique=("x", "x"), values=np.array([[-400.0]]), sigma=10.0)
    known["x",] = Measurement(clique=("x",), values=known["x",].values, sigma=10.0)
    assert geometry(BLOCKS, known).variance[0] == 2 * 10.0 / 400
