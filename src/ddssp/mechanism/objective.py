r"""The last draw of a logistic task: a perturbed objective around what the rounds found.

    θ = argmin Σ log(1 + exp(−y z'θ)) + ½ (θ − θ₀)'Λ(θ − θ₀) + b'θ

Its curvature is that of the rows themselves, which the rounds know by noisy products and normal scores only. Noise and ridge
follow from the belief: where a coordinate has curvature d and θ₀ variance V, noise σ² adds a σ² to the loss with
a = d³V² / (d²V + σ²)², and the best ridge is σ²/dV, the weight of θ₀ against what the rows say. The budget asks for a ridge
(docs/objective.md): where that is more than the best one, it is raised where it does least harm.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block
from ddssp.mechanism.moments import SLACK
from ddssp.privacy.budget import REACH
from ddssp.privacy.curator import LARGEST_RIDGE, Objective

Array = NDArray[np.float64]

HIDING = 1e-3
"""Share of the budget that hides the solver's error."""

HALVINGS = 100
"""Of the search for the ridge's level."""


def objective(
    features: tuple[Block, ...], target: Block, *, anchor: Array, variance: Array, curvature: Array, total: float, rho: float
) -> Objective:
    """The question that costs ρ, or a little less.

    Args:
        anchor: θ₀, "P"; `variance` of θ around it, and `curvature` of the loss, both per coordinate.
    """
    kappa, block = np.array([b.kappa for b in features]), np.repeat(np.arange(len(features)), [b.rows for b in features])
    width = len(block)
    squared_mu = (2 * rho * (1 - HIDING) - 2 * width * 2.0**-40) * 140 / 141
    even = kappa.sum() / squared_mu
    harm = np.bincount(block, curvature * (curvature * variance / (curvature**2 * variance + even)) ** 2, len(kappa)) + 1e-12
    noise = np.sqrt(kappa / harm) * np.sum(np.sqrt(kappa * harm)) / squared_mu * SLACK**2
    asked = Objective(
        features=features,
        target=target,
        anchor=anchor,
        ridge=np.clip(noise[block] / (curvature * variance), 1 / LARGEST_RIDGE, LARGEST_RIDGE),
        sigmas=tuple(np.sqrt(noise).tolist()),
        sigma_steps=float(np.sqrt(82 * width / (2 * rho * HIDING)) * SLACK),
        total=total,
    )
    return _within_reach(asked, np.cbrt(curvature / variance))


def _within_reach(asked: Objective, shape: Array) -> Objective:
    """The question with no ridge below τ · shape, τ the least that the budget allows: least Σ ridge² V / d for its reach."""
    most = REACH * Fraction(math.sqrt(asked.squared_mu) * (1 - 1e-9))
    if asked.reach <= most:
        return asked
    low, high = 0.0, LARGEST_RIDGE / shape.min()
    for _ in range(HALVINGS):
        level = math.sqrt(max(low, 1e-300) * high)
        raised = _raised(asked, level * shape)
        low, high = (low, level) if raised.reach <= most else (level, high)
    return _raised(asked, high * shape)


def _raised(asked: Objective, floor: Array) -> Objective:
    return replace(asked, ridge=np.minimum(np.maximum(asked.ridge, floor), LARGEST_RIDGE))
