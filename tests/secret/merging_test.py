"""Columns counted together: their margins are what counting each pair by itself gives."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddssp.encoding import Encoding, indicator
from ddssp.schema import Schema
from ddssp.secret import merging
from ddssp.secret.counts import Layout, counts
from ddssp.secret.kernel import Pairs, tallied
from ddssp.secret.merging import Merging

FIFTEEN = [2, 2, 3, 5, 7, 9, 12, 16, 20, 24, 32, 41, 60, 80, 100]


def counted(codes: np.ndarray, pairs: Pairs) -> np.ndarray:
    """Tables of all pairs, one increment at a time."""
    tables = np.zeros(pairs.cells, np.int64)
    for j, k, start in zip(pairs.left, pairs.right, pairs.start[:-1], strict=True):
        np.add.at(tables, start + codes[j].astype(int) * pairs.sizes[k] + codes[k], 1)
    return tables


def drawn(sizes: list[int], rows: int, seed: int = 0) -> np.ndarray:
    codes = Pairs.of(sizes).codes(rows)
    codes[:] = (np.random.default_rng(seed).random(codes.shape) ** 2 * np.array(sizes)[:, None]).astype(codes.dtype)
    return codes


@given(st.lists(st.integers(1, 300), min_size=2, max_size=9), st.integers(0, 60), st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_margins_of_groups_are_the_tables_of_pairs(sizes, rows, seed):
    m, pairs, codes = Merging.of(sizes), Pairs.of(sizes), drawn(sizes, rows, seed)
    tables, out = np.zeros(m.pairs.cells, np.int64), np.full(pairs.cells, -1, np.int64)
    tallied(m.codes(codes), m.pairs, tables)
    m.margins(tables, pairs, out)
    assert np.array_equal(out, counted(codes, pairs))


@pytest.mark.parametrize("sizes", [FIFTEEN, [1, 1, 1], [2] * 100, [256, 2, 256, 2], [70, 70], [3]], ids=str)
def test_every_column_is_in_one_group_and_groups_are_small(sizes):
    m = Merging.of(sizes)
    assert sorted(j for g in m.groups for j in g) == list(range(len(sizes)))
    assert all(len(g) == 1 or prod(sizes[j] for j in g) <= merging.LARGEST for g in m.groups)
    assert len(m.groups) >= min(2, len(sizes))
    assert m.is_plain or m.pairs.cells <= merging.CELLS


def test_fewer_increments():
    assert len(Merging.of(FIFTEEN).pairs.left) <= 45 < len(list(combinations(FIFTEEN, 2)))
    assert len(Merging.of([2] * 100).pairs.left) == 136


def test_tables_that_would_be_too_many_are_counted_pair_by_pair(monkeypatch):
    assert Merging.of([10] * 3).is_plain  # 100 combinations are too many
    assert not Merging.of([8] * 40).is_plain
    monkeypatch.setattr(merging, "CELLS", 100)
    assert Merging.of([8] * 40).is_plain


def test_counts_of_a_table_are_the_same_without_groups(monkeypatch):
    names = [f"c{j}" for j in range(len(FIFTEEN))]
    schema = Schema(columns={c: {"kind": "categorical", "levels": m} for c, m in zip(names, FIFTEEN, strict=True)})
    batch = pa.record_batch(dict(zip(names, drawn(FIFTEEN, 5000), strict=True)))

    def found():
        layout = Layout.of(schema, Encoding(tuple(indicator(c, m) for c, m in zip(names, FIFTEEN, strict=True))))
        return layout.merging, counts([batch, batch], layout, threads=2)

    merged, together = found()
    monkeypatch.setattr(merging, "LARGEST", 0)
    plain, apart = found()
    assert (plain.is_plain, merged.is_plain) == (True, False)
    for pair, table in apart.pair.items():
        assert np.array_equal(together.pair[pair], table)
    for name, levels in apart.one.items():
        assert np.array_equal(together.one[name], levels)
