"""Costs: draws exactly as the mechanism asks, memory refused before any row is read."""

from __future__ import annotations

import pytest

from ddssp import cost
from ddssp.cost import Cost, draws
from ddssp.curate import plan, release
from ddssp.domain import TooLargeError
from ddssp.encoding import Encoding
from ddssp.mechanism.moments import queries
from ddssp.schema import Schema
from ddssp.secret import kernel

SCHEMA = Schema(
    columns={
        "age": {"kind": "numeric", "low": 0, "high": 100},
        "grade": {"kind": "ordinal", "levels": 4},
        "plan": {"kind": "categorical", "levels": 7},
        "seat": {"kind": "categorical", "levels": ["n", "e"], "values": [[0.5, 1], [-1, 0]]},
        "sick": {"kind": "boolean"},
    }
)


def test_draws_are_the_cells_of_the_queries():
    encoding = Encoding.centred(SCHEMA)
    asked = sum(q.shape[0] * q.shape[1] for q in queries(encoding))
    assert draws(encoding) == asked
    assert plan(SCHEMA, epsilon=1, delta=1e-6, mechanism="moments").cost.draws == draws(encoding)
    assert Cost.of(10, None).draws is None


def test_a_release_too_large_for_this_machine_is_refused_before_any_row_is_read(monkeypatch):
    monkeypatch.setattr(cost, "memory", lambda: 2**28)
    big = Schema(columns={c: {"kind": "categorical", "levels": 2000} for c in "ab"})
    with pytest.raises(TooLargeError, match=r"needs about 0\.\d GB of memory and this machine has 0\.2; give the widest"):
        release({"a": object(), "b": object()}, big, epsilon=1, delta=1e-6, mechanism="moments")


def test_numbers_of_the_rows_at_hand_are_part_of_the_estimate(monkeypatch):
    """500 numeric columns: 32,768 rows of them for each of two threads, in 16 bytes each; level tables need none."""
    monkeypatch.setattr(kernel, "cores", lambda: 2)
    numeric = Schema(columns={f"x{i}": {"kind": "numeric", "low": 0, "high": 1} for i in range(500)})
    levels = Schema(columns={f"x{i}": {"kind": "categorical", "levels": 3} for i in range(500)})
    first, second = (plan(s, epsilon=1, delta=1e-6, mechanism="moments").cost.bytes - cost.START for s in (numeric, levels))
    assert first == pytest.approx(2 * 500 * 2**15 * 16, rel=0.05)
    assert second < 100 * 2**20


def test_what_is_told():
    assert str(Cost(draws=12_380_000, bytes=2**30)) == "12,380,000 draws of noise (4 min), 1.0 GB of memory"
    assert str(Cost(draws=None, bytes=2**29)) == "0.5 GB of memory"
