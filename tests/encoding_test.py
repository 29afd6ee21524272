"""Encoding: names, bounds by brute force, and the paper's bound on the norm."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from ddssp.coding import coded, design
from ddssp.domain import TooLargeError
from ddssp.encoding import FIXED, Encoding, indicator, intercept
from ddssp.schema import Schema, SchemaError

SCHEMA = Schema(
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100, "bins": 5},
        "band": {"kind": "numeric", "low": 0, "high": 10, "bins": [0, 1, 10], "encoding": "one-hot"},
        "grade": {"kind": "ordinal", "levels": ["low", "mid", "high"]},
        "dose": {"kind": "ordinal", "levels": ["none", "some", "lots"], "values": [0, 1, 10]},
        "plan": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "town": {"kind": "categorical", "levels": ["x", "y"], "encoding": "one-hot", "other": "else"},
        "seat": {"kind": "categorical", "levels": ["n", "e", "s"], "values": [[0, 1], [1, 0], [0, -1]]},
        "sick": {"kind": "boolean"},
        "same": {"kind": "categorical", "levels": ["only"]},
    }
)


def test_names_of_the_centred_encoding():
    assert Encoding.centred(SCHEMA).names == (
        "intercept", "age", "band=[0, 1)", "band=[1, 10]", "grade", "dose", "plan=a", "plan=b", "plan=c",
        "town=x", "town=y", "town=else", "seat=v1", "seat=v2", "sick",
    )  # fmt: skip


def test_names_of_the_papers_encoding_drop_level_0_and_the_intercept():
    assert Encoding.paper(SCHEMA).names == (
        "age", "band=[1, 10]", "grade", "dose", "plan=b", "plan=c", "town=y", "town=else", "seat=v1", "seat=v2", "sick",
    )  # fmt: skip


def test_a_column_of_one_level_gets_no_block():
    assert "same" not in Encoding.centred(SCHEMA).columns


def test_scalars_are_on_their_lattice():
    encoding = Encoding.centred(SCHEMA, tables=True)
    grade = encoding.block("grade")
    assert (grade.numerators.tolist(), grade.denominator) == ([[-2, 0, 2]], 2)
    assert (encoding.block("sick").numerators.tolist(), encoding.block("sick").denominator) == ([[-1, 1]], 1)
    dose = encoding.block("dose")
    assert dose.numerators.tolist() == [[-FIXED, round(-0.8 * FIXED), FIXED]]
    assert (dose.centre, dose.half) == (5, 5)
    age = encoding.block("age")
    assert np.allclose(age.A, [[-0.8, -0.4, 0, 0.4, 0.8]], atol=1 / FIXED)


def test_vectors_are_as_declared():
    assert Encoding.centred(SCHEMA).block("seat").A.tolist() == [[0, 1, 0], [1, 0, -1]]


@pytest.mark.parametrize("tables", [False, True])
def test_kappa_is_the_largest_squared_norm_over_all_levels(tables):
    for block in Encoding.centred(SCHEMA, tables=tables):
        if block.numerators is None:
            assert block.kappa == 1
            continue
        by_level = [float(np.sum(block.A[:, a] ** 2)) for a in range(block.A.shape[1])]
        assert block.kappa == pytest.approx(max(by_level), rel=1e-12)
        assert block.bound == max(sum(int(v) ** 2 for v in block.numerators[:, a]) for a in range(block.A.shape[1]))


def test_kappa_of_a_centred_one_hot_block_is_1_minus_1_over_m():
    assert Encoding.centred(SCHEMA).block("plan").kappa == pytest.approx(1 - 1 / 3, rel=1e-15)
    assert indicator("plan", 3).kappa == 1
    assert intercept().kappa == 1


@pytest.mark.parametrize("encoding", [Encoding.centred(SCHEMA, tables=True), Encoding.paper(SCHEMA)], ids=["centred", "paper"])
def test_norm_bound_is_the_largest_norm_over_all_records(encoding):
    """Paper's proposition on ‖x‖: brute force over the whole product domain."""
    names = [c for c in encoding.columns]
    sizes = [SCHEMA.resolved[c].size for c in names]
    blocks = [encoding.block(c) for c in names]
    constant = 1.0 if None in encoding.slices else 0.0
    squares = [[float(b.A[:, a] @ b.A[:, a]) for a in range(m)] for b, m in zip(blocks, sizes, strict=True)]
    worst = max(constant + sum(s[a] for s, a in zip(squares, record, strict=True)) for record in product(*map(range, sizes)))
    assert encoding.norm_bound == pytest.approx(worst**0.5, rel=1e-12)


def test_papers_norm_bound_is_scalars_plus_number_of_one_hot_columns():
    schema = Schema(columns={k: v for k, v in SCHEMA.to_dict()["columns"].items() if k in {"grade", "sick", "plan", "town"}})
    assert Encoding.paper(schema).norm_bound ** 2 == pytest.approx(2 + 2)


def test_design_has_one_row_per_record_and_obeys_the_bound():
    rng = np.random.default_rng(0)
    rows = {
        "age": rng.uniform(-50, 150, 300),
        "band": rng.uniform(-1, 11, 300),
        "grade": rng.choice(["low", "mid", "high", "?"], 300),
        "dose": rng.choice(["none", "some", "lots"], 300),
        "plan": rng.choice(["a", "b", "c"], 300),
        "town": rng.choice(["x", "y", "z"], 300),
        "seat": rng.choice(["n", "e", "s"], 300),
        "sick": rng.integers(0, 2, 300),
        "same": rng.choice(["only", "not"], 300),
    }
    for encoding in (Encoding.centred(SCHEMA), Encoding.paper(SCHEMA)):
        Z = design(coded(pa.table(rows), SCHEMA), encoding.blocks, SCHEMA)
        assert Z.shape == (300, encoding.size) == (300, len(encoding.names))
        assert np.sqrt((Z**2).sum(1)).max() <= encoding.norm_bound * (1 + 1e-12)


def test_relabelling_levels_permutes_and_never_changes():
    levels = ["a", "b", "c"]
    cells = ["a", "c", "b", "b"]
    one = Schema(columns={"x": {"kind": "categorical", "levels": levels}})
    two = Schema(columns={"x": {"kind": "categorical", "levels": levels[::-1]}})
    Z1, Z2 = (design(coded(pa.table({"x": cells}), s), Encoding.centred(s).blocks, s) for s in (one, two))
    assert np.array_equal(Z1[:, [0, 3, 2, 1]], Z2)


def test_evenly_spaced_numbers_keep_their_scale_and_others_their_rank():
    even = Encoding.centred(Schema(columns={"x": {"kind": "ordinal", "levels": [10, 20, 30]}})).block("x")
    assert (even.centre, even.half) == (20, 10)
    down = Encoding.centred(Schema(columns={"x": {"kind": "ordinal", "levels": [3, 2, 1]}})).block("x")
    assert (down.centre, down.half) == (2, -1)
    rank = Encoding.centred(Schema(columns={"x": {"kind": "ordinal", "levels": [1, 2, 4]}})).block("x")
    assert (rank.centre, rank.half) == (1, 1)


def test_continuous_columns_have_no_table():
    block = Encoding.centred(SCHEMA).block("age")
    with pytest.raises(SchemaError, match="column 'age' has no bins, so no table"):
        _ = block.A


def test_keep_and_index_follow_the_encodings_order():
    encoding = Encoding.centred(SCHEMA)
    assert encoding.keep(["sick", None]).names == ("intercept", "sick")
    assert encoding.index(["plan"]).tolist() == [6, 7, 8]
    assert encoding.index([]).tolist() == []
    with pytest.raises(KeyError):
        encoding.block("nobody")


def test_an_encoding_too_large_is_refused_before_it_is_built():
    with pytest.raises(TooLargeError):
        Encoding.centred(Schema(columns={"x": {"kind": "categorical", "levels": 2**16}}))
    scalar = Encoding.centred(Schema(columns={"x": {"kind": "ordinal", "levels": 2**16}}))
    assert scalar.size == 2


def test_sums_are_the_product_with_the_numerators():
    columns = {
        "a": {"kind": "categorical", "levels": 5},
        "b": {"kind": "categorical", "levels": ["x", "y", "z"], "encoding": "reduced"},
        "o": {"kind": "ordinal", "levels": 4},
        "v": {"kind": "categorical", "levels": ["p", "q"], "values": [[1, 0.5], [0, 1]]},
    }
    schema = Schema(columns=columns)
    rng = np.random.default_rng(0)
    blocks = [*Encoding.centred(schema).blocks[1:], *Encoding.paper(schema).blocks, indicator("a", 5), indicator("one", 1)]
    for block in blocks:
        for width in ((), (7,)):
            counts = rng.integers(0, 10**9, (block.numerators.shape[1], *width))
            expected = block.numerators.astype(object) @ counts.astype(object)
            assert np.array_equal(block.sums(counts), expected)
            assert np.array_equal(block.sums(counts.astype(object) * 2**40), expected * 2**40)
        assert block.bound == max(sum(int(v) ** 2 for v in column) for column in block.numerators.T)
