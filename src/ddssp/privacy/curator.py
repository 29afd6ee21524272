"""The Curator: all that a mechanism ever sees of the data.

A mechanism asks; the Curator charges its reservation first, draws noise inside the primitive, and answers. Nothing here
knows rows, counts or random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block
from ddssp.marginal import PairMarginals


class Form(Enum):
    PRODUCT = "sum of z_left z_right'"
    SQUARE = "sum of z² − ½ of one scalar block"


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """A sum over records on an integer lattice.

    PRODUCT: Σ_i z_[left] z_[right]', numerators over left.denominator · right.denominator; the intercept on the left gives
    first moments, on both sides the number of records; indicator blocks give a marginal.
    SQUARE: Σ_i (z² − ½) of one scalar block, numerators Σ(2a² − d²) over 2d²: centring halves what one record can move.
    """

    left: Block
    right: Block
    form: Form = Form.PRODUCT

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.rows, self.right.rows

    @property
    def clique(self) -> Clique:
        """Names of the blocks asked for, without the intercept; a square names its column twice."""
        return tuple(b.column for b in (self.left, self.right) if b.column is not None)

    @property
    def lattice(self) -> int:
        """Denominator of the answer."""
        d = self.left.denominator * self.right.denominator
        return d if self.form is Form.PRODUCT else 2 * d

    @property
    def squared_sensitivity(self) -> int:
        """Exact squared L2 distance between the numerators on neighbouring tables, at most."""
        if self.form is Form.PRODUCT:
            return self.left.bound * self.right.bound
        d = self.left.denominator
        return max((2 * a - d * d) ** 2 for a in self.left.squares)

    @property
    def p(self) -> float:
        """Squared sensitivity on the scale of the answer."""
        return self.squared_sensitivity / self.lattice**2


@dataclass(frozen=True, kw_only=True, eq=False)
class Discrepancy:
    """Scores w_r (‖M_r(D) − M_r(estimate)‖₁ − penalty_r) of candidate cliques r (one or two attributes each)."""

    cliques: tuple[Clique, ...]
    estimate: PairMarginals
    weights: NDArray[np.float64]
    penalties: NDArray[np.float64]


class Link(Enum):
    """What a linear score predicts: the target itself, or the chance that it is at its upper end."""

    IDENTITY = "identity"
    LOGIT = "logit"


@dataclass(frozen=True, kw_only=True, eq=False)
class Working:
    """A fit in the making: residuals are taken at its coefficients, which are public.

    Linear: r = y − z'θ with y in [−1, 1]. Logit: r = (y + 1)/2 − σ(z'θ).
    """

    features: tuple[Block, ...]
    target: Block
    theta: NDArray[np.float64]
    link: Link = Link.IDENTITY


@dataclass(frozen=True, kw_only=True, eq=False)
class Residuals:
    """A question about residuals, answered in one pass over the rows.

    Gradient blocks Σ_i z_[j] clip_c(r_i), one record moves block j by at most c √κ_j; and how many records have |r| in each of
    the bins that `edges` end (the last one is open), one record moves one of them by 1.

    A block may have clips of its own. A number (or the constant) has one, c_j: noise c_j σ_j / c then costs what σ_j costs with
    the clip of all. A one-hot block has a clip c_l for each of its levels, and answers two sums over the records of level l:
    Σ clip_{c_l}(r_i), and Σ √(1 − (clip_{c_l}(r_i) / c_l)²), which is their number where no residual comes near c_l. A record
    has one level, and in units of c_l it moves the two by (s, √(1 − s²)), by 1 whatever s is: so the second sum is free, and
    noise c_l σ_j / c in the first and σ_j / c in the second costs c² / 2σ_j².

    Guarantees: coefficients and clips are such that no record's residual overflows, whatever it holds: a NaN would swallow a
    whole sum.

    Args:
        own: for each block None, or clips of its own: one of a number or the constant, of a one-hot block one for each level;
            empty if no block has any.
    """

    working: Working
    clip: float
    sigmas: tuple[float, ...]
    edges: tuple[float, ...]
    sigma_bins: float
    own: tuple[NDArray[np.float64] | None, ...] = ()

    def __post_init__(self) -> None:
        if not np.all(np.abs(self.working.theta) <= LARGEST):
            raise ValueError(f"theta must be finite and at most {LARGEST:g} in size; a fit that runs away ends here.")
        blocks = self.working.features
        if not isinstance(self.own, tuple) or len(self.own) not in (0, len(blocks)):
            raise ValueError(f"own must be a tuple of {len(blocks)}, one for each block, or empty.")
        for block, own in zip(blocks, self.clips, strict=True):
            fits = isinstance(own, np.ndarray) and own.shape == (block.rows,) and own.dtype == np.float64
            if own is not None and not ((block.is_table or block.is_scalar) and fits):
                raise ValueError(
                    f"own must be None for block {block.column!r}, or an array of one float if it is a number, of one for each "
                    "level if it is one-hot."
                )
        for clips in (np.array([self.clip]), *(c for c in self.own if c is not None)):
            if not np.all((clips >= 1 / LARGEST) & (clips <= LARGEST)):
                raise ValueError(f"clips must lie between {1 / LARGEST:g} and {LARGEST:g}, got {clips}.")

    @property
    def clips(self) -> tuple[NDArray[np.float64] | None, ...]:
        """`own` of every block."""
        return self.own or (None,) * len(self.working.features)

    @property
    def by_level(self) -> tuple[bool, ...]:
        """Whether a block answers for its levels, each by its own clip, instead of for its rows."""
        return tuple(b.is_table and own is not None for b, own in zip(self.working.features, self.clips, strict=True))

    @property
    def squared_sensitivities(self) -> tuple[int, ...]:
        """Of the integers that are drawn for each block, exact."""
        blocks = zip(self.working.features, self.by_level, strict=True)
        return tuple(RESIDUAL**2 * (1 if by_level else b.bound) for b, by_level in blocks)

    @property
    def scales(self) -> tuple[float, ...]:
        """σ of each block's integers."""
        blocks = zip(self.working.features, self.by_level, self.sigmas, strict=True)
        return tuple(s * (1 if by_level else b.denominator) * (RESIDUAL / self.clip) for b, by_level, s in blocks)

    @property
    def lattices(self) -> tuple[NDArray[np.float64], ...]:
        """What each of a block's integers is a multiple of one over."""
        out = []
        for block, own, by_level in zip(self.working.features, self.clips, self.by_level, strict=True):
            clips = np.full(block.rows, self.clip) if own is None else own
            near = np.ones(block.rows) if by_level else np.zeros(0)
            out.append(RESIDUAL * np.concatenate([(1 if by_level else block.denominator) / clips, near]))
        return tuple(out)


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """A logistic fit whose objective is perturbed (docs/objective.md):

        θ = argmin Σ log(1 + exp(−y z'θ)) + ½ (θ − θ₀)'Λ(θ − θ₀) + b'θ,    b ~ N(0, σ_j²) in block j

    found up to an error of `slack` in each derivative, and told on a lattice around θ₀ whose noise hides that error.

    Args:
        anchor: θ₀, "P"; `ridge` is the diagonal of Λ, "P".
        sigmas: of b, one per block; `sigma_steps` of the answer, in steps of its lattice.
        total: records, roughly; the solver's error is proportional to it.
    """

    features: tuple[Block, ...]
    target: Block
    anchor: NDArray[np.float64]
    ridge: NDArray[np.float64]
    sigmas: tuple[float, ...]
    sigma_steps: float
    total: float

    def __post_init__(self) -> None:
        if not all(b.is_scalar or b.is_table for b in self.features):
            raise ValueError("features of a perturbed objective must be numbers or centred one-hot blocks.")
        if self.target.numerators is None or {abs(int(v)) for v in self.target.numerators.flat} != {self.target.denominator}:
            raise ValueError("the target of a perturbed objective must have the values −1 and 1.")
        if not all(0 < s < np.inf for s in self.sigmas):
            raise ValueError(f"sigmas must be positive and finite, got {self.sigmas}.")
        if not np.all((self.ridge >= 1 / LARGEST_RIDGE) & (self.ridge <= LARGEST_RIDGE)):
            raise ValueError(f"ridge must lie between {1 / LARGEST_RIDGE:g} and {LARGEST_RIDGE:g}.")
        if not len(self.anchor) == len(self.ridge) == len(self.scales):
            raise ValueError(f"anchor and ridge must have {len(self.scales)} entries each.")
        if not steepness(self.features, self.anchor) <= STEEPEST / 2:
            raise ValueError(
                f"anchor must be finite and its steepness at most {STEEPEST / 2:g}: a fit that runs away ends here."
            )
        if not 1 <= self.total <= 1e15:
            raise ValueError(f"total must lie between 1 and 1e15, got {self.total:g}.")

    @property
    def squared_mu(self) -> Fraction:
        """Largest z'Σ⁻¹z of a record, exact."""
        kappas = (Fraction(b.bound, b.denominator**2) for b in self.features)
        return sum((k / Fraction(s) ** 2 for k, s in zip(kappas, self.sigmas, strict=True)), Fraction(0))

    @property
    def reach(self) -> Fraction:
        """Largest z'Λ⁻¹z of a record, rounded up."""
        ends = np.cumsum([0, *(b.rows for b in self.features)])
        parts = (_reach(b, 1 / self.ridge[i:j]) for b, i, j in zip(self.features, ends[:-1], ends[1:], strict=True))
        return Fraction(sum(parts) * (1 + 1e-9))

    @property
    def scales(self) -> NDArray[np.float64]:
        """σ of each coordinate of b, "P"."""
        return np.repeat(self.sigmas, [b.rows for b in self.features])

    @property
    def slack(self) -> NDArray[np.float64]:
        """Largest error of each derivative at the θ that is found, "P"."""
        return np.asarray((self.total + self.scales) * ERROR_OF_A_RECORD)

    @property
    def steps(self) -> NDArray[np.float64]:
        """Steps of the answer's lattice, "P": in Λ's norm a quarter of the error over √P."""
        radius = np.sqrt(np.sum(self.slack**2 / self.ridge))
        return np.asarray(radius / (4 * np.sqrt(len(self.ridge) * self.ridge)))

    @property
    def squared_steps(self) -> int:
        """Squared distance, in steps, that two solvers' answers with the same θ may have: (2 · 4 + 1)² P, rounded up."""
        return 82 * len(self.ridge)


def steepness(features: Sequence[Block], theta: NDArray[np.float64]) -> float:
    """A bound on the error of a score z'θ in floating point, in units of 2⁻⁵³: Σ_j 2 (J + m_j + 3) max |θ_j|."""
    ends = np.cumsum([0, *(b.rows for b in features)])
    largest = [float(np.abs(theta[i:j]).max()) for i, j in pairwise(ends)]
    return sum(2 * (len(features) + b.rows + 3) * v for b, v in zip(features, largest, strict=True))


def _reach(block: Block, inverse: NDArray[np.float64]) -> float:
    """Largest z_[j]'Λ⁻¹z_[j]; of a centred one-hot block Σ/m² and (1 − 2/m) more for the level itself."""
    if block.is_scalar:
        return float(block.kappa * inverse[0])
    m = block.rows
    return float(inverse.sum() / m**2 + (1 - 2 / m) * inverse.max()) if m > 1 else 0.0


ERROR_OF_A_RECORD = 2.0**-33
"""What a record may add to the error of a derivative: many times more than the solver's own, since the number of records is
known by a noisy count only."""

STEEPEST = 2.0**16
"""The steepness of coefficients for which the stated precision holds; an anchor has half of it at most."""

LARGEST_RIDGE = 1e15
"""The ridge of a coordinate is no larger, and no smaller than its inverse."""

LARGEST = 1e9
"""Coefficients at which residuals are taken are no larger, and clips neither; nor are clips smaller than its inverse."""

RESIDUAL = 2**15 - 1
"""Clipped residuals are rounded towards 0 to multiples of clip / RESIDUAL, so that gradients lie on a lattice."""


class Curator(Protocol):
    @property
    def remaining(self) -> Fraction:
        """ρ of the reservation that is not yet spent."""
        ...

    def measure(self, queries: Sequence[Query], sigmas: Sequence[float]) -> list[NDArray[np.float64]]:
        """The queries' answers with discrete Gaussian noise of standard deviation σ each; costs Σ p/2σ²."""
        ...

    def select(self, candidates: Discrepancy, epsilon: float) -> int:
        """Index of a candidate with a high score, by the exponential mechanism; costs ε²/8."""
        ...

    def residuals(self, asked: Residuals) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Noisy gradient blocks and residual histogram; costs Σ_j c² κ_j / 2σ_j² + 1 / 2σ_bins², κ_j = 1 of levels."""
        ...

    def minimise(self, asked: Objective) -> NDArray[np.float64]:
        """Coefficients of a perturbed objective, "P"; costs hardly more than Σ_j κ_j / 2σ_j² (docs/objective.md)."""
        ...
