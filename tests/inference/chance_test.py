"""Chances of normal scores: against numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from ddssp.inference.chance import mean_chance, mean_curvature, score_of


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.0), (0.3, 0.5), (-1.5, 2.0), (2.0, 6.0)])
def test_means_are_integrals(mean, variance):
    if variance == 0:
        chance, curved = expit(mean), expit(mean) * (1 - expit(mean))
    else:
        density = stats.norm(mean, np.sqrt(variance)).pdf
        chance = integrate.quad(lambda s: expit(s) * density(s), -40, 40, limit=200)[0]
        curved = integrate.quad(lambda s: expit(s) * (1 - expit(s)) * density(s), -40, 40, limit=200)[0]
    assert mean_chance(np.array(mean), np.array(variance)) == pytest.approx(chance, abs=1e-4)
    assert mean_curvature(np.array(mean), np.array(variance)) == pytest.approx(curved, abs=1e-3)


def test_the_score_of_a_chance_is_its_inverse_and_stays_within_its_ends():
    for mean in (-2.0, 0.1, 3.0):
        chance = float(mean_chance(np.array(mean), np.array(1.3)))
        assert score_of(chance, 1.3, 8.0) == pytest.approx(mean, abs=1e-9)
    assert score_of(1.0, 1.3, 8.0) == pytest.approx(8.0)
    assert score_of(-0.2, 1.3, 8.0) == pytest.approx(-8.0)
