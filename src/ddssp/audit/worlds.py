"""Two neighbouring worlds, and samplers of what an adversary sees of them: primitives, and whole releases through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ddssp.audit.bound import gaussian_claim, mixed_claim, selection_claim
from ddssp.curate import Plan, curate, plan, product_noise
from ddssp.mechanism.aim import SHARE
from ddssp.privacy.budget import rho_of
from ddssp.released import Release
from ddssp.schema import Schema

WEAK = 0.7
"""The twin's share of the noise."""

STEP = 1000
"""What one record moves the Gaussian primitive's answer by, on its lattice."""

MOMENTS = Schema(
    columns={
        "x": {"kind": "numeric", "low": -1, "high": 1},
        "y": {"kind": "boolean"},
    }
)
TABLES = Schema(columns={"a": {"kind": "boolean"}, "b": {"kind": "boolean"}})

Rows = Mapping[str, Sequence[float | str]]


class Noise(Protocol):
    @property
    def private(self) -> bool: ...
    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]: ...
    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int: ...


class Weakened:
    """The product's noise at 0.7 of the scale that was asked for: the twin that an audit must catch."""

    private = False

    def __init__(self) -> None:
        self._noise = product_noise()

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return self._noise.gaussian(values, WEAK * sigma)

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        return self._noise.noisy_max(scores, WEAK * scale)


class _Silent:
    """No noise: what the adversary, who knows the rows, computes for itself."""

    private = False

    def gaussian(self, values: NDArray[np.int64], sigma: float) -> NDArray[np.int64]:
        return values

    def noisy_max(self, scores: NDArray[np.int64], scale: float) -> int:
        return int(np.argmax(scores))


Sampler = Callable[[int, int], NDArray[np.float64]]
"""(world, runs) → the adversary's statistic in each run; large speaks for world 1."""


def gaussian(noise: Noise, epsilon: float, delta: float) -> Sampler:
    """One discrete Gaussian on a sum that one record moves by STEP."""
    sigma = STEP / math.sqrt(2 * rho_of(epsilon, delta))
    return lambda world, runs: noise.gaussian(np.full(runs, world * STEP, np.int64), sigma).astype(np.float64)


def selection(noise: Noise, epsilon: float, delta: float) -> Sampler:
    """One choice between two candidates, whose scores one record moves by STEP in opposite directions."""
    scores = np.array([[STEP, 0], [0, STEP]], np.int64)
    scale = 2 * STEP / _choice(epsilon, delta)
    return lambda world, runs: np.array([noise.noisy_max(scores[world], scale) for _ in range(runs)], np.float64)


def moments(noise: Noise, epsilon: float, delta: float) -> Sampler:
    """A whole moments release of four records, with and without a fifth that attains every bound.

    Statistic: Σ_A ⟨Δ_A, y_A⟩ / σ_A², the likelihood ratio of Gaussian noise.
    """
    made = plan(MOMENTS, epsilon=epsilon, delta=delta, mechanism="moments")
    worlds = [{"x": [0.5, -0.25, 0.0, 1.0, *extra], "y": [0, 1, 1, 0, *extra]} for extra in ([], [1.0])]
    without, with_ = (curate(rows, made, noise=_Silent()).measurements for rows in worlds)
    weights = [(b.values - a.values) / a.sigma**2 for a, b in zip(without, with_, strict=True)]

    def statistic(release: Release) -> float:
        return sum(float(np.sum(w * m.values)) for w, m in zip(weights, release.measurements, strict=True))

    return _released(worlds, made, noise, statistic)


def aim(noise: Noise, epsilon: float, delta: float, inference: str = "tree") -> Sampler:
    """A whole AIM release of four records of two columns, with and without a fifth.

    Statistic: Σ_r (y_r[cell] − count_r[cell] − ½) / σ_r² over the measured marginals r, where cell is the fifth record's: the
    likelihood ratio of the measurements, given what was selected.
    """
    made = plan(TABLES, epsilon=epsilon, delta=delta, mechanism="aim", inference=inference)
    worlds = [{"a": [0, 0, 1, 1, *extra], "b": [0, 1, 0, 0, *extra]} for extra in ([], [1])]
    count = {("a",): 2, ("b",): 1, ("a", "b"): 0}

    def statistic(release: Release) -> float:
        return sum((float(m.values.flat[-1]) - count[m.clique] - 0.5) / m.sigma**2 for m in release.measurements)

    return _released(worlds, made, noise, statistic)


def _released(worlds: Sequence[Rows], made: Plan, noise: Noise, statistic: Callable[[Release], float]) -> Sampler:
    return lambda world, runs: np.array([statistic(curate(worlds[world], made, noise=noise)) for _ in range(runs)])


def _choice(epsilon: float, delta: float) -> float:
    """The ε of a selection that costs the whole ρ of (ε, δ)."""
    return math.sqrt(8 * rho_of(epsilon, delta))


AUDITS: Mapping[str, Callable[[Noise, float, float], Sampler]] = {
    "gaussian": gaussian,
    "selection": selection,
    "moments": moments,
    "aim": aim,
}


def claim(name: str, epsilon: float, delta: float) -> float:
    """The μ that a release of (ε, δ) may have at most, by what it is made of."""
    rho = float(rho_of(epsilon, delta))
    if name == "selection":
        return selection_claim(_choice(epsilon, delta))
    return mixed_claim(rho, 1 - SHARE) if name == "aim" else gaussian_claim(rho)
