r"""The task mechanism: one declared target, one regression on its true loss, by rounds of noisy gradients.

Gaussian charges add up, so many gradients with a part of the budget each say as much about the minimiser as one with all of
it, if they are put together well (inference/belief.py); and each is taken at a better point than the last, with a smaller clip.

FIRST     n̂, and first moments of every block: means, variances, frequencies
rounds    MEASURE   products of blocks, as far as not knowing them hurts more than the gradient's own noise
          GRADIENT  Σ z clip_c(r) of all blocks and a histogram of |r|, in one pass over the rows; of a linear regression
                    what is not yet known to within c has clips of its own
          BELIEVE   θ with one prior variance per block; the next clip, or the curvature of a chance, from the histogram
last      of a logistic regression whose noise is low: a perturbed objective around θ (mechanism/objective.py)

Guarantees: all noise is integer discrete Gaussian; what is asked next depends on answers only, and the Curator refuses to pass
the total (adaptive composition of zCDP under a fixed ρ). One pass over the rows a round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Encoding
from ddssp.inference.belief import BEND, SQUARES, Belief, Loss, believed
from ddssp.inference.chance import mean_chance, mean_curvature, score_of
from ddssp.inference.correlation import UNMEASURED
from ddssp.inference.geometry import Counts, geometry
from ddssp.inference.psd import combined
from ddssp.mechanism import Fitted, Outcome, Progress
from ddssp.mechanism.clip import next_clip, spread
from ddssp.mechanism.gradient import coordinate_costs, counted, evidence, price, question
from ddssp.mechanism.moments import SLACK, measured
from ddssp.mechanism.objective import objective
from ddssp.mechanism.state import Problem, State
from ddssp.privacy.curator import STEEPEST, Curator, Form, Link, Objective, Query, Residuals, steepness
from ddssp.schema import Schema

Array = NDArray[np.float64]

FIRST = 0.10
"""Share of the budget for first moments."""

ROUNDS = {Link.IDENTITY: 32, Link.LOGIT: 24}

BEFORE_LAST, LAST, QUIET = 12, 0.5, 0.004
"""Rounds before a perturbed objective, its share of the budget, and the noise below which a logistic task takes it."""

CALM, LEAST_SHARE, RISING = 0.01, 0.5, 8
"""Below this noise the first round of a linear task gets LEAST_SHARE of what later ones get, and those after it evenly more, up
to all of it after RISING rounds. Clips fall far there, and what is left of the error is the noise of the last gradients."""

LEAST_RHO = 1e-6
"""Below it what the lattice of a perturbed objective costs would count."""

CUT, LEAST_CLIP = 1.8, 0.6
"""A logistic residual counts up to 1 − CUT √noise, and no less than LEAST_CLIP: the louder the noise, the less it must grow
with the few records that are predicted worst."""

BINS = 0.03
"""Share of a round for the residual histogram."""

PRODUCTS, LEARNING = 0.5, 6
"""Largest share of a round for products of blocks, and the rounds after the first that ask for them."""

CHANCE_MIDDLES = np.array([0.1, 0.3, 0.52, 0.82])
"""|r| of a chance in each of four bins, for the mean of r², which is the mean curvature p (1 − p)."""

CENTRE = {Link.IDENTITY: 1.0, Link.LOGIT: 8.0}
"""The score at the features' mean is no further from 0: that of a target in [−1, 1], or of a chance of 1 in 3,000."""

LEVEL = 0.1
"""Variance of the intercept after the rounds, for the last draw."""


@dataclass(frozen=True, kw_only=True)
class TaskMechanism:
    """A regression of `target` on all other columns: least squares, or logistic for two levels.

    Args:
        exact_only: rounds alone, and no perturbed objective at the end of a logistic regression.
    """

    target: str
    link: Link
    exact_only: bool = False
    name: ClassVar[str] = "task"

    @property
    def passes(self) -> int:
        return ROUNDS[self.link]

    @property
    def perturbed(self) -> bool:
        """Whether it may end with a perturbed objective; it does where its noise is low and its solver precise."""
        return self.link is Link.LOGIT and not self.exact_only

    def counted(self, schema: Schema) -> Encoding:
        return Encoding.centred(schema)

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome:
        rho = float(curator.remaining)
        problem = Problem(encoding=self.counted(schema), target=self.target, link=self.link)
        progress("first moments", 0.0)
        state = first(curator, problem, FIRST * rho, rho)
        quiet = self.perturbed and problem.noise(state.geometry.total, rho) < QUIET and rho > LEAST_RHO
        asked, rounds = None, ROUNDS[self.link]
        for r in range(rounds):
            if quiet and r == BEFORE_LAST and (asked := last(problem, state, float(curator.remaining))) is not None:
                break
            progress(f"round {r + 1} of {rounds}", FIRST + (1 - FIRST) * r / rounds)
            kept, until = (LAST * rho, BEFORE_LAST) if quiet and r < BEFORE_LAST else (0.0, rounds)
            part = (float(curator.remaining) - kept) / rounds_left(r, until, calm=state.calm)
            state = round_of(curator, problem, state, part, number=r)
        if asked is not None:
            progress("last draw", 1 - LAST)
        theta = state.theta if asked is None else curator.minimise(asked)
        fitted = Fitted(target=self.target, link=self.link, theta=theta, perturbed=asked is not None)
        return Outcome(measurements=tuple(state.known.values()), fitted=fitted)


def rounds_left(number: int, until: int, *, calm: bool) -> float:
    """By how much round `number` divides what is left, if the rounds end at `until`: how many like it are to come."""
    if not calm:
        return until - number
    weights = np.minimum(LEAST_SHARE + (1 - LEAST_SHARE) * np.arange(number, until) / RISING, 1)
    return float(weights.sum() / weights[0])


def first(curator: Curator, problem: Problem, rho: float, whole: float) -> State:
    """The state before any gradient: n̂, first moments and squares, all with one σ, for ρ of the `whole` budget."""
    constant, rest = problem.constant, problem.encoding.blocks[1:]
    asked = [Query(left=constant, right=b) for b in (constant, *rest)]
    asked += [Query(left=b, right=b, form=Form.SQUARE) for b in rest if b.is_scalar and len(b.squares) > 1]
    sigma = np.sqrt(sum(q.p for q in asked) / (2 * rho)) * SLACK
    known = {m.clique: m for m in measured(curator, asked, np.full(len(asked), sigma))}
    g = geometry(problem.blocks, known)
    mean = float(np.clip(known[problem.target,].values[0, 0] / g.total, -1, 1))
    square = known.get((problem.target, problem.target))
    of_target = float(np.clip((1.0 if square is None else square.values[0, 0] / g.total + 0.5) - mean**2, 0.002, 1))
    if problem.link is Link.LOGIT:
        chance = min(max((1 + mean) / 2, 0.01), 0.99)
        centre, curvature, scale = float(np.log(chance / (1 - chance))), chance * (1 - chance), 1.0
        clip = max(1 - CUT * float(np.sqrt(problem.noise(g.total, whole))), LEAST_CLIP)
    else:
        centre, clip, curvature, scale = mean, min(2.5 * float(np.sqrt(of_target)), 2.0), 1.0, of_target
    prior = scale / (max(len(problem.blocks), 1) * g.reach)
    belief = Belief(
        theta=np.zeros(len(g.offset)),
        variance=prior[g.block],
        prior=prior,
        unseen=np.zeros(len(problem.blocks)),
        spreads=np.zeros(1),
    )
    return State(
        known=known,
        counts=Counts.none(len(g.offset)),
        geometry=g,
        belief=belief,
        centre=centre,
        clip=clip,
        curvature=curvature,
        scale=scale,
        calm=problem.link is Link.IDENTITY and problem.noise(g.total, whole) < CALM,
    )


def round_of(curator: Curator, problem: Problem, state: State, rho: float, *, number: int) -> State:
    """The state after one round with budget ρ."""
    if 0 < number <= LEARNING:
        state, spent = _products(curator, problem, state, rho, number)
        rho -= spent
    asked = question(problem, state, (1 - BINS) * rho, BINS * rho)
    answer, histogram = curator.residuals(asked)
    total = state.geometry.total
    shares, noise = histogram / total, asked.sigma_bins / total
    read = _read_chances if problem.link is Link.LOGIT else _read
    state = read(problem, state, asked, answer, shares, noise, (1 - BINS) * rho)
    # The mean of the features is itself noisy, which moves the level by about a tenth of a clip.
    moved = (asked.sigmas[0] ** 2 + 0.01 * asked.clip**2 * total) / total**2
    state = replace(state, levels=(*state.levels, (answer[0][0] / total, moved)))
    state = replace(state, belief=_believed(problem, state))
    return replace(state, centre=_centre(problem, state))


def _read(
    problem: Problem, state: State, asked: Residuals, answer: Sequence[Array], shares: Array, noise: float, rho: float
) -> State:
    """The state with a gradient of residuals, and the next clip from their histogram."""
    per_clip = price(problem, state, rho, unseen=1.0) / (2 * rho * state.geometry.total)
    clip = next_clip(shares, noise, state.clip, per_clip)
    heard = evidence(problem, state, asked, answer)
    counts = counted(problem, state, asked, answer, spread(shares, noise, state.clip))
    g = geometry(problem.blocks, state.known, counts)
    return replace(state, evidence=(*state.evidence, heard), clip=clip, counts=counts, geometry=g)


def _read_chances(
    problem: Problem, state: State, asked: Residuals, answer: Sequence[Array], shares: Array, noise: float, rho: float
) -> State:
    """The state with a gradient of chances, and their curvature from the histogram of residuals."""
    heard = evidence(problem, state, asked, answer)
    squares = (*state.squares, float(shares @ CHANCE_MIDDLES**2))
    curvature = float(np.clip(np.mean(squares[-4:]), 0.03, 0.25))
    return replace(state, evidence=(*state.evidence, heard), squares=squares, curvature=curvature)


def last(problem: Problem, state: State, rho: float) -> Objective | None:
    """A perturbed objective around what the rounds found, for ρ; None where its solver would not be precise enough."""
    g, features = state.geometry, (problem.constant, *problem.blocks)
    if steepness(features, state.theta) > STEEPEST / 2:
        return None
    return objective(
        features,
        problem.encoding.block(problem.target),
        anchor=state.theta,
        variance=np.r_[LEVEL, np.maximum(state.belief.variance, 1e-12)],
        curvature=state.weight * np.r_[1.0, np.maximum(g.variance, 1e-9)],
        total=g.total,
        rho=rho,
    )


def _centre(problem: Problem, state: State) -> float:
    """The score at the features' mean: what each gradient's intercept says, the less the further θ_t is from θ."""
    steps, noise = np.array(state.levels).T
    way = np.array([state.belief.theta - e.at for e in state.evidence])
    weights = 1 / (noise + (BEND * state.curvature) ** 2 * (way**2 @ state.geometry.variance))
    end = CENTRE[problem.link]
    centres = np.array([e.centre for e in state.evidence])
    if problem.link is Link.IDENTITY:
        return float(np.clip((centres + steps) @ weights / weights.sum(), -end, end))
    chances = mean_chance(centres, state.belief.spreads[:-1]) + steps
    return score_of(float(chances @ weights / weights.sum()), float(state.belief.spreads[-1]), end)


def _believed(problem: Problem, state: State) -> Belief:
    columns = [b.column or "" for b in problem.blocks]
    place = {c: i for i, c in enumerate(columns)}
    cross = {
        (place[c[0]], place[c[1]]): (m.values, m.sigma**2)
        for c, m in state.known.items()
        if len(c) == 2 and c[0] != c[1] and c[0] in place and c[1] in place
    }
    return believed(state.geometry, cross, state.evidence, state.belief, scale=state.scale, loss=_loss(problem, state))


def _loss(problem: Problem, state: State) -> Loss:
    if problem.link is Link.IDENTITY:
        return SQUARES
    return Loss(curvature=state.curvature, centre=state.centre, stretch=mean_curvature)


def _products(curator: Curator, problem: Problem, state: State, rho: float, number: int) -> tuple[State, float]:
    """Products of blocks and frequencies, by Neyman allocation against the gradient to come; and what they cost.

    A unit of noise in Σ z_j z_k' costs a_j E|δ_k|² + a_k E|δ_j|², δ the way still to go; one in block j's own frequencies
    Σ a δ², in each round to come where clips fall and gradients become less noisy while frequencies do not. What would be too
    noisy to tell a correlation of 2 UNMEASURED is not asked.
    """
    g = state.geometry
    pairs = [(j, k) for j in range(len(g.sizes)) for k in range(j, len(g.sizes)) if j != k or g.hot[j]]
    if not pairs:
        return state, 0.0
    j, k = np.array(pairs).T
    same = j == k
    costs = coordinate_costs(problem, state, rho)
    far = state.belief.variance + state.belief.theta**2 * (number == 1)
    a, way, kappa = g.by_block(costs), g.by_block(far), problem.kappa[1:]
    p = kappa[j] * np.where(same, 1.0, kappa[k])
    lasting = ROUNDS[problem.link] - number if problem.link is Link.IDENTITY else 1
    worth = state.curvature**2 * np.where(same, lasting * g.by_block(costs * far)[j], a[j] * way[k] + a[k] * way[j])
    limit = np.where(same, 1e3 * state.known[()].sigma ** 2, 4 * UNMEASURED**2 * g.typical[j] * g.typical[k])
    rival = state.clip * np.sqrt(price(problem, state, rho))
    variance, chosen = _affordable(p, worth, limit, rival, rho)
    if not len(chosen):
        return state, 0.0
    blocks = problem.blocks
    asked = [Query(left=problem.constant if same[i] else blocks[j[i]], right=blocks[k[i]]) for i in chosen]
    found = measured(curator, asked, np.sqrt(variance[chosen]))
    known = combined((*state.known.values(), *found))
    state = replace(state, known=known, geometry=geometry(blocks, known, state.counts))
    return replace(state, belief=_believed(problem, state)), float(np.sum(p[chosen] / (2 * variance[chosen])))


def _affordable(p: Array, worth: Array, limit: Array, rival: float, rho: float) -> tuple[Array, NDArray[np.intp]]:
    """Noise variances of what is worth asking, and which that is: the rest would be noisier than its limit."""
    variance = np.full(len(p), np.inf)
    for _ in range(len(p)):
        total = np.sum(np.sqrt(p * worth))
        if total <= 0:
            return variance, np.zeros(0, np.intp)
        spend = rho * min(PRODUCTS, total / (total + rival))
        variance = np.sqrt(p / np.maximum(worth, 1e-300)) * total / (2 * spend) * SLACK**2
        if (variance < limit)[worth > 0].all():
            break
        worth = worth * (variance < limit)
    return variance, np.flatnonzero(worth > 0)
