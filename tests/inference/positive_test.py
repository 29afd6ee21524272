"""What is known to be positive: against drawn normals, and within its promises wherever it is asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddssp.inference.positive import FAR, positive


@pytest.mark.parametrize("x", [-3.0, -1.0, 0.0, 0.7, 4.0])
def test_mean_and_variance_are_those_of_what_is_drawn_and_kept(x):
    drawn = np.random.default_rng(0).normal(x * 7, 7, 4_000_000)
    kept = drawn[drawn > 0]
    mean, variance = positive(np.array([x * 7]), np.array([7.0]))
    assert mean[0] == pytest.approx(kept.mean(), rel=0.02)
    assert variance[0] == pytest.approx(kept.var(), rel=0.05)


@given(value=st.floats(-1e9, 1e9), sd=st.floats(1e-6, 1e6))
def test_promises_hold_wherever_it_is_asked(value, sd):
    mean, variance = (float(v[0]) for v in positive(np.array([value]), np.array([sd])))
    assert mean > 0
    assert mean >= value
    assert 0 <= variance <= min(mean, sd) ** 2


def test_both_formulas_meet_where_they_change():
    below, above = (positive(np.array([FAR + step]), np.ones(1)) for step in (-1e-6, 1e-6))
    assert below[0] == pytest.approx(above[0], rel=0.01)
    assert below[1] == pytest.approx(above[1], rel=0.02)


def test_what_is_far_above_zero_stays_as_it_is():
    mean, variance = positive(np.array([1e3]), np.array([2.0]))
    assert mean[0] == 1e3
    assert variance[0] == pytest.approx(4.0)
