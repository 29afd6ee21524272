"""The noise of Z'Z: closed forms against a slow map built from the product's own assembly, and against seeded releases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.inference.noise_covariance import BlockNoise, block_noise
from ddssp.inference.psd import assembled
from ddssp.marginal import Measurement
from ddssp.mechanism.moments import _centred, allocation, queries
from ddssp.schema import Schema

KINDS = {
    "number": {"kind": "numeric", "low": 0, "high": 1},
    "levels": {"kind": "categorical", "levels": 4},
    "flag": {"kind": "boolean"},
    "vectors": {"kind": "categorical", "levels": 3, "values": [[1, 0], [0, 0.5], [-1, 1]]},
    "ordinal": {"kind": "ordinal", "levels": 5},
    "mean": {"kind": "categorical", "levels": 3, "encoding": "one-hot"},
}
SHAPES = {
    "numbers": ["number", "ordinal"],
    "levels": ["levels", "mean"],
    "all kinds": list(KINDS),
    "one flag": ["flag"],
}


def asked(names: list[str]):
    encoding = Encoding.centred(Schema(columns={name: KINDS[name] for name in names}))
    q = queries(encoding)
    weights = np.array([10.0 if names[0] in x.clique else 1.0 for x in q])
    return encoding, q, allocation(q, weights, 0.01)


def sources(names: list[str]) -> tuple[Encoding, BlockNoise, list[np.ndarray]]:
    """σ · (what one unit of each raw number does to Z'Z), through `assembled` itself, one source at a time."""
    encoding, q, sigmas = asked(names)
    big = 1e6  # far from the clipping of histograms

    def matrix(moved: int, cell: tuple[int, int] | None) -> np.ndarray:
        out = []
        for i, (x, s) in enumerate(zip(q, sigmas, strict=True)):
            raw = np.full(x.shape, big if x.clique == () else 0.0)
            if cell is not None and i == moved:
                raw[cell] += 1.0
            raw = _centred(x.left, _centred(x.right, raw.T).T)
            out.append(Measurement(clique=x.clique, values=raw, sigma=float(s)))
        return assembled(out, encoding).matrix

    still = matrix(0, None)
    maps = [
        float(s) * (matrix(i, (a, b)) - still)
        for i, (x, s) in enumerate(zip(q, sigmas, strict=True))
        for a in range(x.shape[0])
        for b in range(x.shape[1])
    ]
    measured = [Measurement(clique=x.clique, values=np.zeros(x.shape), sigma=float(s)) for x, s in zip(q, sigmas, strict=True)]
    return encoding, block_noise(measured, encoding), maps


@pytest.mark.parametrize("shape", SHAPES)
def test_covariance_is_that_of_the_assembled_moments(shape):
    encoding, noise, maps = sources(SHAPES[shape])
    rng = np.random.default_rng(0)
    root = rng.normal(size=(encoding.size, 2))
    M = root @ root.T
    slow = sum(L @ M @ L.T for L in maps)
    assert np.allclose(noise.covariance(M), slow, rtol=1e-6, atol=1e-6 * np.abs(slow).max())


@pytest.mark.parametrize("shape", SHAPES)
def test_influence_gives_the_covariance_of_any_two_functions(shape):
    encoding, noise, maps = sources(SHAPES[shape])
    rng = np.random.default_rng(1)
    Q = [(A + A.T) / 2 for A in rng.normal(size=(2, encoding.size, encoding.size))]
    slow = sum(np.trace(Q[0] @ L) * np.trace(Q[1] @ L) for L in maps)
    assert noise.influence(Q[0]) @ noise.influence(Q[1]) == pytest.approx(slow, rel=1e-5)


@given(seed=st.integers(0, 10**6))
def test_covariance_is_positive_semidefinite_and_linear(seed):
    _, noise, _ = sources(["number", "levels", "flag"])
    rng = np.random.default_rng(seed)
    s, t = rng.normal(size=(2, noise.encoding.size))
    both = noise.covariance(np.outer(s, s) + 2 * np.outer(t, t))
    assert np.allclose(both, noise.covariance(np.outer(s, s)) + 2 * noise.covariance(np.outer(t, t)))
    assert np.linalg.eigvalsh(both).min() > -1e-9 * np.abs(both).max()


def test_draws_have_the_covariance():
    """The largest of 45 z-scores of second moments exceeds 4.5 with probability under 1e-3; noise of 0.8 σ must not pass."""
    _, noise, _ = sources(["number", "levels", "vectors"])
    rng = np.random.default_rng(2)
    t = rng.normal(size=noise.encoding.size)
    seen = np.array([noise.draw(rng) @ t for _ in range(4000)])
    assert _largest_z(seen, noise.covariance(np.outer(t, t))) < 4.5
    assert _largest_z(seen, 0.64 * noise.covariance(np.outer(t, t))) > 4.5


def test_seeded_releases_have_the_covariance():
    """As above, through the vault, the mechanism's own allocation and the assembly."""
    schema = Schema(columns={name: KINDS[name] for name in ("number", "levels", "flag")})
    rng = np.random.default_rng(3)
    data = {"number": rng.random(20_000), "levels": rng.integers(0, 4, 20_000), "flag": rng.random(20_000) < 0.4}
    made = plan(schema, epsilon=0.5, delta=1e-5, mechanism="moments", target="flag")
    truth = curate(data, made, noise=NoNoise()).moments.matrix
    t = rng.normal(size=len(truth))
    seen, C = [], np.zeros_like(truth)
    for seed in range(300):
        release = curate(data, made, noise=SeededNoise(seed))
        assert release.noise is not None
        seen.append((release.moments.matrix - truth) @ t)
        C = release.noise.covariance(np.outer(t, t))
    assert _largest_z(np.array(seen), C) < 4.5
    assert _largest_z(np.array(seen), 0.49 * C) > 4.5


def _largest_z(seen: np.ndarray, C: np.ndarray) -> float:
    """Largest standardised difference between empirical and claimed second moments."""
    i = np.flatnonzero(np.diag(C) > 1e-9 * np.diag(C).max())
    E, C = (seen.T @ seen / len(seen))[np.ix_(i, i)], C[np.ix_(i, i)]
    return float(np.abs((E - C) / np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / len(seen))).max())


def test_level_makes_the_noise_of_one_size():
    encoding, q, _ = asked(["number", "levels", "ordinal", "mean"])
    sigmas = allocation(q, np.ones(len(q)), 0.01)
    measured = [Measurement(clique=x.clique, values=np.zeros(x.shape), sigma=float(s)) for x, s in zip(q, sigmas, strict=True)]
    noise = block_noise(measured, encoding)
    of = np.repeat(np.arange(len(encoding.blocks)), [b.rows for b in encoding])
    other = of[:, None] != of
    ratio = noise.variance[np.ix_(of, of)] / np.outer(noise.level, noise.level)
    assert np.allclose(ratio[other], 1.0)


def test_keep_is_the_noise_of_the_kept_columns():
    _, noise, _ = sources(["number", "levels", "flag"])
    kept = noise.keep(["flag", "levels"])
    assert kept.encoding.columns == ("levels", "flag")
    i = noise.encoding.index([None, "levels", "flag"])
    t = np.random.default_rng(0).normal(size=len(i))
    wide = np.zeros(noise.encoding.size)
    wide[i] = t
    assert np.allclose(kept.covariance(np.outer(t, t)), noise.covariance(np.outer(wide, wide))[np.ix_(i, i)])


def test_a_block_that_was_never_measured_is_a_key_error():
    encoding, q, sigmas = asked(["number", "flag"])
    measured = [Measurement(clique=x.clique, values=np.zeros(x.shape), sigma=float(s)) for x, s in zip(q, sigmas, strict=True)]
    with pytest.raises(KeyError):
        block_noise([m for m in measured if m.clique != ("number", "flag")], encoding)
