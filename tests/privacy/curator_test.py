"""Every query's claimed sensitivity is the exact maximum over all records of a small domain."""

from __future__ import annotations

from itertools import product

import pytest

import judge
from ddssp.encoding import FIXED, Encoding, indicator, intercept
from ddssp.mechanism.moments import queries
from ddssp.privacy.curator import Form, Query
from ddssp.schema import Schema

COLUMNS = {
    "age": {"kind": "numeric", "low": 0, "high": 1},
    "binned": {"kind": "numeric", "low": 0, "high": 1, "bins": 3, "encoding": "one-hot"},
    "two": {"kind": "ordinal", "levels": 2},
    "three": {"kind": "ordinal", "levels": 3},
    "four": {"kind": "ordinal", "levels": 4, "values": [0, 1, 1, 7]},
    "plan": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "wide": {"kind": "categorical", "levels": ["a", "b", "c", "d"], "encoding": "one-hot"},
    "seat": {"kind": "categorical", "levels": ["n", "e", "s"], "values": [[0, 1], [0.5, 0.5], [-1, 0.25]]},
    "sick": {"kind": "boolean"},
}
SCHEMA = Schema(columns=COLUMNS)
# every value of a discrete column; of a number the ends, the middle and what lies between
CELLS = {
    name: [k / 8 for k in range(9)] if spec["kind"] == "numeric" else list(SCHEMA.columns[name].all_levels)
    for name, spec in COLUMNS.items()
}
MOMENTS = queries(Encoding.centred(SCHEMA))
TABLES = (
    Query(left=intercept(), right=indicator("plan", 3)),
    Query(left=indicator("plan", 3), right=indicator("wide", 4)),
)


def name_of(query: Query) -> str:
    return f"{'x'.join(query.clique) or 'n'}-{query.form.name}"


def contributions(query: Query) -> list[list[list[int]]]:
    columns = sorted(set(query.clique))
    return [
        judge.contribution(dict(zip(columns, cells, strict=True)), query, SCHEMA)
        for cells in product(*(CELLS[c] for c in columns))
    ]


@pytest.mark.parametrize("query", [*MOMENTS, *TABLES], ids=name_of)
def test_squared_sensitivity_is_the_exact_maximum_over_all_records(query):
    assert max(judge.squared_norm(c) for c in contributions(query)) == query.squared_sensitivity


def test_all_kinds_of_queries_were_judged():
    forms = {(q.form, q.left.is_scalar, q.right.is_scalar) for q in MOMENTS}
    assert (Form.SQUARE, True, True) in forms
    assert (Form.PRODUCT, False, False) in forms
    assert (Form.PRODUCT, True, False) in forms
    assert any(q.clique == () for q in MOMENTS)
    assert any(q.clique == ("seat", "seat") for q in MOMENTS)


def test_one_record_attains_every_bound_at_once_so_the_cost_is_exact():
    """The domain is a product: some record is at its worst in all blocks, and the charges simply add up."""
    schema = Schema(columns={k: v for k, v in COLUMNS.items() if k not in {"seat", "four"}})
    asked = queries(Encoding.centred(schema))
    worst = {"age": 1.0, "binned": 0.0, "two": 1, "three": 2, "plan": "a", "wide": "d", "sick": True}
    for query in asked:
        assert judge.squared_norm(judge.contribution(worst, query, schema)) == query.squared_sensitivity, query.clique


def test_centring_a_square_halves_what_one_record_can_move():
    square = next(q for q in MOMENTS if q.clique == ("age", "age"))
    assert square.p == 0.25
    assert square.lattice == 2 * FIXED**2


def test_p_is_the_product_of_the_kappas():
    by_clique = {q.clique: q for q in MOMENTS if q.form is Form.PRODUCT}
    assert by_clique["plan", "wide"].p == pytest.approx((1 - 1 / 3) * (1 - 1 / 4), rel=1e-14)
    assert by_clique["age", "plan"].p == pytest.approx(1 - 1 / 3, rel=1e-14)
    assert by_clique[()].p == 1


def test_shapes_and_names():
    by_clique = {(q.clique, q.form): q for q in MOMENTS}
    assert by_clique[("plan", "wide"), Form.PRODUCT].shape == (3, 4)
    assert by_clique[("wide",), Form.PRODUCT].shape == (1, 4)
    assert by_clique[(), Form.PRODUCT].shape == (1, 1)


def test_what_is_known_is_not_measured():
    squares = {q.clique[0] for q in MOMENTS if q.form is Form.SQUARE}
    assert squares == {"age", "three", "four"}  # z² = 1 for two levels; one-hot diagonals follow from first moments
