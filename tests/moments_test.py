"""Moments: exact marginals give exactly Z'Z, by two roads."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ddssp.coding import coded, design
from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise
from ddssp.marginal import PairMarginals
from ddssp.moments import moments
from ddssp.schema import Schema

SCHEMA = Schema(
    columns={
        "n": {"kind": "numeric", "low": 0, "high": 4, "bins": 4},
        "o": {"kind": "ordinal", "levels": 3},
        "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "h": {"kind": "categorical", "levels": ["p", "q"], "encoding": "one-hot"},
        "v": {"kind": "categorical", "levels": ["p", "q"], "values": [[1], [-0.5]]},
        "b": {"kind": "boolean"},
        "s": {"kind": "categorical", "levels": ["only"]},
    }
)
LEVELS = {"n": [0.5, 1.5, 2.5, 3.5], "o": [0, 1, 2], "c": list("abc"), "h": list("pq"), "v": list("pq"), "b": [False, True], "s": ["only"]}  # fmt: skip # noqa: E501
codes = st.lists(st.tuples(*(st.integers(0, len(v) - 1) for v in LEVELS.values())), min_size=0, max_size=30)


def marginals(records: list[tuple[int, ...]]) -> PairMarginals:
    domain = SCHEMA.domain()
    tables = {}
    for j, k in domain.pairs:
        a, b = domain.names.index(j), domain.names.index(k)
        table = np.zeros(domain.shape((j, k)))
        for record in records:
            table[record[a], record[b]] += 1
        tables[j, k] = table
    return PairMarginals.of(domain, tables)


def design_of(records: list[tuple[int, ...]], encoding: Encoding) -> np.ndarray:
    if not records:
        return np.zeros((0, encoding.size))
    table = pa.table({name: [LEVELS[name][r[i]] for r in records] for i, name in enumerate(LEVELS)})
    return design(coded(table, SCHEMA), encoding.blocks, SCHEMA)


@given(codes)
def test_moments_of_exact_marginals_are_z_transpose_z(records):
    for encoding in (Encoding.centred(SCHEMA, tables=True), Encoding.paper(SCHEMA)):
        Z = design_of(records, encoding)
        got = moments(marginals(records), encoding)
        assert np.allclose(got.matrix, Z.T @ Z, atol=1e-9)
        assert np.linalg.eigvalsh(got.matrix).min() > -1e-7


@given(codes.filter(len))
def test_measured_blocks_without_noise_are_z_transpose_z(records):
    table = {name: [LEVELS[name][r[i]] for r in records] for i, name in enumerate(LEVELS)}
    release = curate(table, plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments"), noise=NoNoise())
    Z = design_of(records, Encoding.centred(SCHEMA))
    assert np.allclose(release.moments.matrix, Z.T @ Z, atol=1e-9)
    assert release.moments.matrix.shape == release.moments.variance.shape
    assert (release.moments.variance >= 0).all()


def test_keep_takes_the_blocks_of_some_columns():
    got = moments(marginals([(0, 1, 2, 0, 1, 1, 0)]), Encoding.centred(SCHEMA, tables=True))
    part = got.keep([None, "c"])
    assert part.encoding.names == ("intercept", "c=a", "c=b", "c=c")
    i = got.encoding.index([None, "c"])
    assert np.array_equal(part.matrix, got.matrix[np.ix_(i, i)])


def test_arrays_are_read_only():
    got = moments(marginals([(0, 1, 2, 0, 1, 1, 0)]), Encoding.centred(SCHEMA, tables=True))
    assert not got.matrix.flags.writeable
    assert not marginals([]).burt.flags.writeable


def test_a_single_attribute_has_its_one_way_table():
    from ddssp.domain import Domain

    one = PairMarginals.of(Domain.of(a=3), {("a",): np.array([1.0, 2.0, 3.0])})
    assert (one.total, one.one_way("a").tolist()) == (6.0, [1, 2, 3])
