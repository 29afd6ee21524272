"""Measured blocks → moments: what repeats is averaged, what is implied follows, with its variance."""

from __future__ import annotations

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.inference.psd import assembled, combined
from ddssp.marginal import Measurement
from ddssp.schema import Schema

SCHEMA = Schema(
    columns={
        "x": {"kind": "numeric", "low": 0, "high": 1},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "v": {"kind": "categorical", "levels": ["a", "b"], "values": [[1, 0.2], [-0.5, 1]]},
        "b": {"kind": "boolean"},
    }
)
ROWS = {"x": [0.1, 0.9, 0.4] * 50, "c": ["a", "b", "c"] * 50, "v": ["a", "b", "b"] * 50, "b": [True, False, False] * 50}
PLAN = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments")


def test_repeated_measurements_are_averaged_by_inverse_variance():
    one = Measurement(clique=("a",), values=np.array([[1.0]]), sigma=1.0)
    two = Measurement(clique=("a",), values=np.array([[4.0]]), sigma=2.0)
    got = combined([one, two])[("a",)]
    assert got.values[0, 0] == pytest.approx((1 * 1 + 4 * 0.25) / 1.25)
    assert got.sigma == pytest.approx(1.25**-0.5)
    assert combined([two, one])[("a",)].values[0, 0] == pytest.approx(got.values[0, 0])


def test_moments_are_symmetric_and_diagonals_follow():
    release = curate(ROWS, PLAN, noise=SeededNoise(1))
    m = release.moments
    assert np.allclose(m.matrix, m.matrix.T, atol=1e-9)
    assert np.allclose(m.variance, m.variance.T, rtol=1e-12)
    n = m.matrix[0, 0]
    b = m.encoding.slices["b"]
    assert m.matrix[b, b][0, 0] == n  # z² = 1
    c = m.encoding.slices["c"]
    assert np.allclose(m.matrix[c, c].sum(0), 0, atol=1e-9)
    assert np.linalg.eigvalsh(m.matrix[c, c]).min() > -1e-9


def test_stated_variances_cover_what_noise_does():
    """Over 200 seeds the spread of every entry but the clipped histogram's is the stated one (χ², 1 in 10^4 per entry)."""
    exact = curate(ROWS, PLAN, noise=NoNoise()).moments
    drawn = np.array([curate(ROWS, PLAN, noise=SeededNoise(s)).moments.matrix for s in range(200)])
    ratio = np.mean((drawn - exact.matrix) ** 2, axis=0) / exact.variance
    keep = np.ones_like(ratio, bool)
    for name in ("c",):
        s = exact.encoding.slices[name]
        keep[s, :] = keep[:, s] = False  # projected to what is known, so below the stated variance
    assert ratio[keep].min() > 0.65
    assert ratio[keep].max() < 1.45
    assert ratio[~keep].max() < 1.45


def test_assembling_needs_every_pair():
    release = curate(ROWS, PLAN, noise=NoNoise())
    with pytest.raises(KeyError):
        assembled(release.measurements[:-5], release.encoding)
