"""Clips: the next one is small where noise is dear, never above the last, never far below it; levels have their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ddssp.encoding import Encoding
from ddssp.mechanism.clip import (
    EDGES,
    FIRST_REACH,
    GUESSING,
    LEAST_WITHIN,
    REACH,
    SETTLED,
    SLOWEST,
    next_clip,
    own_clips,
    reach_of,
    spread,
    within,
)
from ddssp.schema import Schema

BINS = len(EDGES) + 1
CLIPS = st.floats(0.01, 2.0)
SHARES = st.lists(st.floats(0, 1), min_size=BINS, max_size=BINS).map(np.array)
NOISE, PRICE = st.floats(1e-6, 0.5), st.floats(1e-9, 1e3)


def histogram(r: np.ndarray) -> np.ndarray:
    return np.bincount(np.searchsorted(EDGES, np.abs(r)), minlength=BINS) / len(r)


@given(shares=SHARES, wobble=SHARES, noise=NOISE, clip=CLIPS, price=PRICE)
def test_it_never_grows_and_never_falls_too_fast(shares, wobble, noise, clip, price):
    """Also where noise has made shares negative."""
    following = next_clip(shares - wobble, noise, clip, price)
    assert SLOWEST * clip * (1 - 1e-12) <= following <= clip


@given(shares=SHARES, noise=NOISE, clip=CLIPS, one=PRICE, two=PRICE)
def test_dearer_noise_never_makes_it_larger(shares, noise, clip, one, two):
    cheap, dear = next_clip(shares, noise, clip, min(one, two)), next_clip(shares, noise, clip, max(one, two))
    assert dear <= cheap


@given(shares=SHARES, clip=CLIPS, one=NOISE, two=NOISE)
def test_a_noisier_histogram_never_lowers_the_spread(shares, clip, one, two):
    assume(one != two)
    assert spread(shares, min(one, two), clip) <= spread(shares, max(one, two), clip) * (1 + 1e-12)


def test_both_ends():
    shares = histogram(np.random.default_rng(0).normal(0, 0.1, 10_000))
    assert next_clip(shares, 1e-6, 1.0, 1e6) == SLOWEST
    assert next_clip(shares, 1e-6, 0.5, 1e-12) == 0.5


@pytest.mark.parametrize("scale", [0.02, 0.1, 0.4])
def test_the_spread_is_that_of_the_residuals(scale):
    r = np.clip(np.random.default_rng(1).normal(0, scale, 50_000), -2, 2)
    assert spread(histogram(r), 1e-9, 2.0) == pytest.approx(np.mean(r**2), rel=0.15)


def test_a_heavy_tail_keeps_the_clip_wide():
    rng = np.random.default_rng(2)
    light = histogram(rng.uniform(-0.1, 0.1, 20_000))
    heavy = histogram(np.clip(rng.standard_t(2.1, 20_000) * 0.04, -2, 2))
    assert next_clip(heavy, 1e-5, 0.5, 1e-3) > next_clip(light, 1e-5, 0.5, 1e-3)


def test_levels_and_numbers_count_as_far_as_their_coefficients_may_be_off():
    column = {"kind": "categorical", "levels": list("abc")}
    columns = {"x": {"kind": "boolean"}, "z": {"kind": "ordinal", "levels": 5}, "g": column, "h": column}
    blocks = Encoding.centred(Schema(columns=columns)).blocks[1:]
    sd = np.array([0.1, 0.025, 0.01, 0.1, 3.0, 0.01, 0.02, 0.02])
    offset = np.array([-0.9, 0.5, *[0.2] * 6])
    far, near, unknown, known = own_clips(blocks, offset, sd**2, 0.1, reach=REACH)
    assert far == pytest.approx([REACH * 0.1 * 1.9])  # in the record at the other end
    assert near is None  # within the clip in every record
    assert known is None  # every level is known to within the clip
    assert unknown == pytest.approx([0.1, REACH * 0.1, 2.0])  # never below the clip, nor beyond what a residual can be


def test_own_clips_reach_less_far_once_standard_deviations_are_no_guesses():
    reaches = [reach_of(r) for r in range(SETTLED + 5)]
    assert reaches[: GUESSING + 1] == [FIRST_REACH] * (GUESSING + 1)
    assert reaches[SETTLED:] == [REACH] * 5
    assert np.all(np.diff(reaches) <= 0)
    assert np.abs(np.diff(reaches)).max() < FIRST_REACH - REACH  # not in one step


@pytest.mark.parametrize("sd", [0.01, 0.3, 0.6])
def test_what_a_record_counts_is_the_mean_of_its_half_circle(sd):
    r = np.random.default_rng(1).normal(0, sd, 1_000_000)
    judge = np.mean(np.sqrt(np.maximum(1 - r**2, 0)))
    assert within(np.array([sd**2]), np.array([1.0]))[0] == pytest.approx(judge, rel=0.02)
    assert within(np.array([25 * sd**2]), np.array([5.0])) == pytest.approx(within(np.array([sd**2]), np.array([1.0])))


def test_a_record_counts_something_however_wide_residuals_may_be():
    assert within(np.array([1e6]), np.array([0.01]))[0] == LEAST_WITHIN
