"""At most k rows of a person count, whoever else is there; a thousand rows of one move a release no more than k rows do."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import ddssp
from ddssp.curate import curate, plan
from ddssp.engine import Engine
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.frame import DataError
from ddssp.privacy.contribution import Contribution
from ddssp.schema import Schema
from ddssp.secret.people import People
from ddssp.secret.table import batches, opened

SCHEMA = Schema(
    unit="patient",
    columns={"x": {"kind": "numeric", "low": -1, "high": 1, "bins": 2}, "y": {"kind": "boolean"}, "z": {"kind": "boolean"}},
)
MECHANISMS = ("moments", "aim", "task")


def people(data, k: int, column: str = "who") -> People:
    return People(lambda columns, _tell: batches(data, columns), Contribution(column=column, rows=k))


def kept(data, k: int, columns: tuple[str, ...] = ("who", "row")) -> list[dict]:
    return pa.Table.from_batches(people(data, k).batches(columns)).to_pylist()


def table(who: list) -> dict[str, list]:
    return {"who": who, "row": list(range(len(who)))}


@given(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=30), st.integers(1, 4))
def test_of_each_person_all_rows_or_k_are_kept_in_order(who, k):
    got = kept(table(who), k)
    expected = {w: min(k, n) for w, n in Counter(who).items() if w is not None}
    assert Counter(r["who"] for r in got) == expected
    assert [r["row"] for r in got] == sorted(r["row"] for r in got)
    assert all(who[r["row"]] == r["who"] for r in got)


def test_both_passes_tell_what_share_was_read():
    source, told = opened(pa.table(table(["a", "b"] * 50)), Engine(batch_rows=10)), []
    found = People(source.batches, Contribution(column="who", rows=1), told.append)
    assert told == [i / 10 for i in range(1, 11)]
    assert sum(b.num_rows for b in found.batches(("row",), told.append)) == 2
    assert told == [i / 10 for i in range(1, 11)] * 2


def test_batches_of_any_size_give_the_same_people(tmp_path):
    who = [f"p{i % 7}" for i in range(1000)] + [None] * 10
    pq.write_table(pa.table(table(who)), tmp_path / "d.parquet", row_group_size=13)
    got = kept(tmp_path / "d.parquet", 3)
    assert Counter(r["who"] for r in got) == {f"p{i}": 3 for i in range(7)}


def test_every_row_of_a_person_is_as_likely_to_be_kept():
    """2,000 choices of 2 rows out of 5; χ² with 4 degrees of freedom, false-alarm rate 1e-7."""
    data = table(["a"] * 5 + ["b"])
    times = Counter(r["row"] for _ in range(2000) for r in kept(data, 2) if r["who"] == "a")
    expected = 2000 * 2 / 5
    # Choices without replacement vary less than independent ones, by (5 − 2)/(5 − 1).
    statistic = sum((times[i] - expected) ** 2 for i in range(5)) / (expected * (1 - 2 / 5)) * 4 / 5
    assert stats.chi2(4).sf(statistic) > 1e-7


def test_two_choices_differ():
    data = table(["a"] * 1000)
    assert {r["row"] for r in kept(data, 5)} != {r["row"] for r in kept(data, 5)}


@pytest.mark.parametrize(
    ("who", "names"),
    [
        ([1, 1, 2, None], 2),
        ([1.0, 1.0, math.nan, math.nan, -0.0, 0.0], 2),
        (["a", " a ", "", "  ", None, "b"], 2),
        ([b"\xff", b"\xff", b"\xfe"], 2),
        ([True, False, True], 2),
        (pd.Series(["x", "y", "x"], dtype="category"), 2),
        ([None, None], 0),
        ([], 0),
    ],
)
def test_who_is_the_same_person(who, names):
    """Spaces around a name do not make another person; nobody is not a person."""
    assert len(kept({"who": who, "row": list(range(len(who)))}, 1)) == names


def test_a_column_that_cannot_name_people_is_refused():
    with pytest.raises(DataError, match="must hold numbers or text"):
        kept(pa.table({"who": [[1], [2]], "row": [0, 1]}), 1)
    with pytest.raises(DataError, match="column 'who' of the schema is absent"):
        kept({"row": [0, 1]}, 1)


class Shuffled:
    """A source that gives its rows in another order each time, as a query without an order may."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self._turn = table, 0

    def __arrow_c_stream__(self, requested_schema=None):
        self._turn += 1
        order = np.random.default_rng(self._turn).permutation(len(self._table))
        return self._table.take(order).__arrow_c_stream__(requested_schema)


def test_a_source_that_changes_its_order_is_refused():
    with pytest.raises(DataError, match="the data changed while it was being read"):
        kept(Shuffled(pa.table(table([f"p{i}" for i in range(50)]))), 1)


def test_one_shot_data_is_refused():
    with pytest.raises(DataError, match="readable more than once"):
        ddssp.release(
            pa.table({"who": [1], "x": [0.0], "y": [0], "z": [0]}).to_reader(),
            SCHEMA, epsilon=1, delta=1e-6, mechanism="moments", unit="who", max_rows=1,
        )  # fmt: skip


def test_a_people_does_not_print_or_travel():
    import pickle

    made = people(table(["a"]), 1)
    assert "a" not in repr(made).removeprefix("<People: secret>")
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(made)


# --- releases -----------------------------------------------------------------------------------------------------

OTHERS = {"who": [1, 1, 2, 3, 3], "x": [0.5, -0.5, 0.0, 1.0, 0.2], "y": [0, 1, 1, 0, 1], "z": [1, 0, 0, 1, 1]}


def with_person(rows: int) -> dict[str, list]:
    """Everybody, and one person with so many rows, each of which moves every answer as far as a row can."""
    extra = {"who": [9], "x": [1.0], "y": [1], "z": [1]}
    return {name: OTHERS[name] + extra[name] * rows for name in OTHERS}


def released(data, k: int, mechanism: str = "moments", noise=None, epsilon: float = 1.0):
    made = plan(SCHEMA, epsilon=epsilon, delta=1e-6, mechanism=mechanism, target="y", unit="who", max_rows=k)
    return curate(data, made, noise=noise or NoNoise())


@pytest.mark.parametrize("k", [2, 5])
def test_a_thousand_rows_of_one_person_move_a_release_no_more_than_k_rows(k):
    without, few, many = (released(with_person(rows), k).measurements for rows in (0, k, 1000))
    assert all(np.array_equal(a.values, b.values) for a, b in zip(few, many, strict=True))
    spent = sum(
        Fraction(float(np.sum((b.values - a.values) ** 2)) / (2 * a.sigma**2)) for a, b in zip(without, many, strict=True)
    )
    whole = released(OTHERS, k).budget.rho
    assert 0.9 * whole < spent <= whole * (1 + Fraction(1, 10**9))


def test_the_same_thousand_rows_would_break_the_promise_without_the_bound():
    made = plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments", target="y")
    without, many = (curate(with_person(rows), made, noise=NoNoise()).measurements for rows in (0, 1000))
    spent = sum(float(np.sum((b.values - a.values) ** 2)) / (2 * a.sigma**2) for a, b in zip(without, many, strict=True))
    assert spent > 10**5 * float(made.budget.rho)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_mechanism_sees_k_rows_of_a_person(mechanism):
    few, many = (released(with_person(rows), 3, mechanism, SeededNoise(5), epsilon=50.0) for rows in (3, 1000))
    assert few == many


def test_the_noise_is_k_times_as_large():
    one, three = released(OTHERS, 1).measurements, released(OTHERS, 3).measurements
    assert all(b.sigma == pytest.approx(3 * a.sigma) for a, b in zip(one, three, strict=True))


def test_the_ledger_is_charged_for_the_person(tmp_path):
    ledger = ddssp.Ledger(tmp_path / "l.db")
    ledger.set_budget("dataset", 1.0, 1e-6, unit="who")
    made = ddssp.release(
        OTHERS, SCHEMA, epsilon=1.0, delta=1e-6, mechanism="moments", ledger=ledger, unit="who", max_rows=4
    )  # fmt: skip
    assert ledger.spent("dataset") == made.rho == made.budget.rho
    assert (ledger.entries()[-2].unit, ledger.entries()[-2].max_rows) == ("who", 4)


def test_the_release_says_whose_presence_is_protected(tmp_path):
    made = released(OTHERS, 3)
    made.save(tmp_path / "r.ddssp")
    again = ddssp.load(tmp_path / "r.ddssp")
    assert again == made
    assert again.contribution == Contribution(column="who", rows=3)
    assert again.header()["neighbours"] == "add or remove all records of one unit"
    assert "contribution" not in curate(OTHERS, plan(SCHEMA, epsilon=1, delta=1e-6), noise=NoNoise()).header()


@pytest.mark.parametrize("rows", [0, -1, True, 2.5, 10**9])
def test_max_rows_must_be_a_number_of_rows(rows):
    with pytest.raises(ValueError, match="max_rows must be a number from 1 to"):
        plan(SCHEMA, epsilon=1, delta=1e-6, unit="who", max_rows=rows)


def test_unit_and_max_rows_belong_together():
    with pytest.raises(ValueError, match="unit needs max_rows beside it"):
        plan(SCHEMA, epsilon=1, delta=1e-6, unit="who")
    with pytest.raises(ValueError, match="max_rows needs unit beside it"):
        plan(SCHEMA, epsilon=1, delta=1e-6, max_rows=2)
