"""Noise: OpenDP's own privacy map is our charge, and the scale is what it should be.

Statistical tests draw once from the system's randomness. Each states its false-alarm rate and has a twin with σ × 0.7 that the
same test must reject: a test that cannot fail proves nothing.
"""

from __future__ import annotations

import math
import multiprocessing

import numpy as np
import pytest
from scipy import stats

from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.privacy.budget import gaussian_rho, selection_rho
from ddssp.secret.noise import OpenDPNoise, _gaussian, _noisy_max

DRAWS = 20_000
ALARM = 1e-7
"""False-alarm rate of each statistical test below."""


@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.3, 50.0, 12345.678, 1e9, 5e11])
@pytest.mark.parametrize("distance", [1.0, 2.5, 1000.0])
def test_opendps_own_map_is_our_charge_for_a_gaussian(sigma, distance):
    theirs = _gaussian(sigma).map(distance)
    ours = float(gaussian_rho(int(distance**2 * 4), 2 * sigma))
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("sensitivity", [1, 17, 1025])
def test_opendps_own_map_is_our_charge_for_a_selection(epsilon, sensitivity):
    theirs = _noisy_max(2 * sensitivity / epsilon).map(sensitivity)
    assert float(selection_rho(epsilon)) == pytest.approx(theirs, rel=1e-12)


def scale_p_value(noise, sigma: float) -> float:
    """Two-sided p-value of Σ(draw/σ)² under χ² with DRAWS degrees of freedom (a discrete Gaussian's variance is σ² up to
    e^(−2π²σ²) already at σ = 2)."""
    drawn = noise.gaussian(np.zeros(DRAWS, np.int64), sigma).astype(float)
    one_sided = stats.chi2(DRAWS).cdf(float(np.sum((drawn / sigma) ** 2)))
    return 2 * min(one_sided, 1 - one_sided)


class TooLittle:
    """The product's noise at 0.7 of the scale asked for."""

    def gaussian(self, values, sigma):
        return OpenDPNoise().gaussian(values, 0.7 * sigma)

    def noisy_max(self, scores, scale):
        return OpenDPNoise().noisy_max(scores, 0.7 * scale)


@pytest.mark.parametrize("sigma", [2.0, 40.0, 1e6])
def test_gaussian_noise_has_the_stated_scale(sigma):
    assert scale_p_value(OpenDPNoise(), sigma) > ALARM
    assert scale_p_value(TooLittle(), sigma) < ALARM


def test_the_seeded_twin_has_the_stated_scale():
    assert scale_p_value(SeededNoise(7), 40.0) > ALARM


def test_gaussian_noise_has_mean_0_and_no_memory():
    drawn = OpenDPNoise().gaussian(np.zeros(DRAWS, np.int64), 10.0) / 10.0
    limit = stats.norm.isf(ALARM / 2)
    assert abs(drawn.mean()) * math.sqrt(DRAWS) < limit
    assert abs(np.mean(drawn[1:] * drawn[:-1])) * math.sqrt(DRAWS - 1) < limit


def test_noise_is_discrete_and_on_the_integers():
    small = OpenDPNoise().gaussian(np.zeros(4000, np.int64), 0.5)
    assert small.dtype == np.int64
    share = np.mean(small == 0)  # P(0) = 1/Σ exp(−2k²) = 0.7866
    assert abs(share - 0.78657) < stats.norm.isf(ALARM / 2) * math.sqrt(0.78657 * 0.21343 / 4000)


def tail_p_value(noise, epsilon: float = 1.0, gap: int = 3) -> float:
    """p-value of how often the lesser of two scores wins: 1/(1 + e^{gap/scale}) for the exponential mechanism."""
    scale, tries = 2 / epsilon, 4000
    wins = sum(noise.noisy_max(np.array([0, gap], np.int64), scale) == 0 for _ in range(tries))
    return float(stats.binomtest(wins, tries, 1 / (1 + math.exp(gap / scale))).pvalue)


def test_selection_noise_has_the_stated_scale():
    assert tail_p_value(OpenDPNoise()) > ALARM
    assert tail_p_value(TooLittle()) < ALARM


def test_the_seeded_selection_has_the_stated_scale():
    assert tail_p_value(SeededNoise(3)) > ALARM


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**40, 2**62, -(2**62)])
def test_values_beyond_32_bits_survive(value):
    drawn = OpenDPNoise().gaussian(np.array([value], np.int64), 5.0)
    assert abs(int(drawn[0]) - value) < 100  # 20 σ
    assert OpenDPNoise().noisy_max(np.array([0, abs(value)], np.int64), 1.0) == 1


def test_two_draws_differ():
    zeros = np.zeros(100, np.int64)
    assert not np.array_equal(OpenDPNoise().gaussian(zeros, 1e6), OpenDPNoise().gaussian(zeros, 1e6))


def _send_a_draw(sender) -> None:
    sender.send_bytes(OpenDPNoise().gaussian(np.zeros(20, np.int64), 1e6).tobytes())


def test_forked_processes_draw_differently():
    """A generator whose state is copied by fork would give two releases the same noise: their difference would have none."""
    OpenDPNoise().gaussian(np.zeros(20, np.int64), 1e6)
    fork, drawn = multiprocessing.get_context("fork"), []
    for _ in range(2):
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=_send_a_draw, args=(sender,))
        process.start()
        drawn.append(receiver.recv_bytes())
        process.join()
    assert drawn[0] != drawn[1]


def test_only_opendps_noise_calls_itself_private():
    assert OpenDPNoise().private
    assert not SeededNoise(0).private
    assert not NoNoise().private


def test_seeded_noise_is_reproducible_and_no_noise_is_none():
    zeros = np.zeros(5, np.int64)
    assert np.array_equal(SeededNoise(1).gaussian(zeros, 9.0), SeededNoise(1).gaussian(zeros, 9.0))
    assert not np.array_equal(SeededNoise(1).gaussian(zeros, 9.0), SeededNoise(2).gaussian(zeros, 9.0))
    assert NoNoise().gaussian(zeros, 9.0).tolist() == [0] * 5
    assert NoNoise().noisy_max(np.array([1, 3, 2]), 5.0) == 1
