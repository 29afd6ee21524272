r"""One gradient of a task: the question that a round asks of the rows, and what its answer says.

Noise is divided between blocks so that the excess loss it leaves is least: with a_j the excess loss per unit of noise in block
j, Σ a_j σ_j² is least at cost Σ c²κ_j / 2σ_j² = ρ for  σ_j² = c² √(κ_j / a_j) Σ_k √(κ_k a_k) / 2ρ. What has a clip c_i of its
own is heard with noise c_i σ_j / c, so a_j = Σ a_i (c_i / c)²: a level that is still far off makes its whole column quieter.

A gradient of features that are centred at z̄ is Σ z r − z̄ Σ r. So the constant's answer, Σ clip_c(r), brings its noise into
every other block, and a_0 = 1/w + Σ a_i z̄_i² with w the curvature in its own direction. A number whose clip is wider than c is
centred by an answer of the constant with the same clip: tails that are not symmetric would else pass for an effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block
from ddssp.inference.belief import Evidence
from ddssp.inference.geometry import Counts
from ddssp.mechanism.clip import EDGES, own_clips, within
from ddssp.mechanism.moments import SLACK
from ddssp.mechanism.state import Problem, State
from ddssp.privacy.curator import Link, Residuals, Working

Array = NDArray[np.float64]

CHANCE_EDGES = (0.2, 0.4, 0.65)
"""|r| of a chance in four bins."""

UNSEEN = {Link.IDENTITY: 0.01, Link.LOGIT: 0.1}
"""Share of the smallest noticeable effect that every block is credited with when budget is divided."""

GUESSED = 0.5
"""Share of what is added to counts for records beyond their clip that may be wrong."""

LEAST = 1e-12


def question(problem: Problem, state: State, rho: float, rho_bins: float) -> Residuals:
    """The gradient of all blocks at the current fit for ρ, and a histogram of |r| for `rho_bins`.

    Of a linear regression what is not yet known to within c has clips of its own; each number that has one brings a constant.
    """
    g, blocks = state.geometry, problem.blocks
    doubt = state.belief.variance * (problem.link is Link.IDENTITY)
    own = own_clips(blocks, g.offset, doubt, state.clip, reach=state.reach)
    numbers = _numbers(blocks, own)
    by_level = np.array([b.is_table and c is not None for b, c in zip(blocks, own, strict=True)], np.bool_)
    wide = np.concatenate([np.broadcast_to(v, b.rows) for b, v in zip(blocks, _wide(own, state.clip), strict=True)])
    costs, mean = coordinate_costs(problem, state, rho), _mean(state, by_level)
    shift, by_common = costs * mean**2, ~np.isin(g.block, numbers)
    a = np.r_[
        1 / state.weight + shift[by_common].sum(),
        g.by_block(costs * wide**2) + LEAST,
        g.by_block(shift * wide**2)[numbers] + LEAST,
    ]
    kappa = np.r_[1.0, np.where(by_level, 1.0, problem.kappa[1:]), np.ones(len(numbers))]
    variance = state.clip**2 * np.sqrt(kappa / a) * np.sum(np.sqrt(kappa * a)) / (2 * rho) * SLACK**2
    working = Working(
        features=(problem.constant, *blocks, *[problem.constant] * len(numbers)),
        target=problem.encoding.block(problem.target),
        theta=np.r_[state.theta, np.zeros(len(numbers))],
        link=problem.link,
    )
    return Residuals(
        working=working,
        clip=state.clip,
        sigmas=tuple(np.sqrt(variance).tolist()),
        edges=EDGES if problem.link is Link.IDENTITY else CHANCE_EDGES,
        sigma_bins=float(SLACK / np.sqrt(2 * rho_bins)),
        own=(None, *own, *(own[j] for j in numbers)),
    )


def evidence(problem: Problem, state: State, asked: Residuals, answer: Sequence[Array]) -> Evidence:
    """What the answer says of θ, centred at the features' mean."""
    g, blocks = state.geometry, problem.blocks
    J = len(blocks)
    own, by_level = asked.clips[1 : J + 1], np.array(asked.by_level[1 : J + 1], np.bool_)
    noise = [s**2 * v**2 for s, v in zip(asked.sigmas, _wide(asked.clips, asked.clip), strict=True)]
    centred_by = np.zeros(J, np.intp)
    numbers = _numbers(blocks, own)
    centred_by[numbers] = J + 1 + np.arange(len(numbers))
    level = np.array([values[0] for values in answer])[centred_by][g.block]
    level_noise = np.array([v[0] for v in noise])[centred_by][g.block]
    mean = _mean(state, by_level)
    sums = [_slopes(b, v, levels) for b, v, levels in zip(blocks, answer[1 : J + 1], by_level, strict=True)]
    spread_out = [np.broadcast_to(v, b.rows) for b, v in zip(blocks, noise[1 : J + 1], strict=True)]
    return Evidence(
        gradient=np.concatenate(sums) - mean * level,
        noise=np.concatenate(spread_out) + mean**2 * level_noise,
        at=state.belief.theta,
        centre=state.centre,
    )


def counted(problem: Problem, state: State, asked: Residuals, answer: Sequence[Array], spread: float) -> Counts:
    """Counts of levels so far, with those of one more answer.

    A level that has a clip of its own also tells Σ √(1 − (r/c_l)²): n_l, less a little for its records near the clip.

    Args:
        spread: E r² of all records.
    """
    g, counts, precision = state.geometry, np.zeros(len(state.geometry.offset)), np.zeros(len(state.geometry.offset))
    for j, block in enumerate(problem.blocks):
        own, place = asked.clips[j + 1], g.block == j
        if block.is_table and own is not None:
            share = within(spread + state.belief.variance[place], own)
            counts[place] = answer[j + 1][block.rows :] / share
            guessed = GUESSED * (1 - share) * g.share[place] * g.total
            precision[place] = 1 / ((asked.sigmas[j + 1] / asked.clip / share) ** 2 + guessed**2)
    return state.counts.plus(counts, precision)


def coordinate_costs(problem: Problem, state: State, rho: float, unseen: float | None = None) -> Array:
    """a: excess loss per unit of gradient noise in each coordinate, after shrinkage; of blocks, `Geometry.by_block` of it."""
    g, belief = state.geometry, state.belief
    d = state.weight * g.variance
    T = (belief.prior + (UNSEEN[problem.link] if unseen is None else unseen) * belief.unseen)[g.block]
    sigma2 = state.clip**2 * problem.kappa[1:].sum() / (2 * rho)
    return np.asarray((d**2 * T / (d**2 * T + sigma2)) ** 2 / d)


def price(problem: Problem, state: State, rho: float, unseen: float | None = None) -> float:
    """(Σ √(κ_j a_j))²: what the noise of a gradient leaves of excess loss, times 2ρ / c²."""
    g, costs = state.geometry, coordinate_costs(problem, state, rho, unseen)
    a = np.r_[1 / state.weight + costs @ g.share**2, g.by_block(costs) + LEAST]
    return float(np.sum(np.sqrt(problem.kappa * a)) ** 2)


def _numbers(blocks: Sequence[Block], own: Sequence[Array | None]) -> list[int]:
    """Numbers that have clips of their own."""
    return [j for j, (b, c) in enumerate(zip(blocks, own, strict=True)) if b.is_scalar and c is not None]


def _wide(own: Sequence[Array | None], clip: float) -> list[Array]:
    """How many times the clip of all each one is."""
    return [np.ones(1) if c is None else c / clip for c in own]


def _mean(state: State, by_level: NDArray[np.bool_]) -> Array:
    """Of what blocks answer with: of indicators where they answer by level, of centred z elsewhere."""
    g = state.geometry
    return np.where(by_level[g.block], g.share, g.offset)


def _slopes(block: Block, values: Array, by_level: bool) -> Array:
    if by_level:
        return values[: block.rows]
    return values if block.contrast == "none" else np.asarray(values - values.mean())
