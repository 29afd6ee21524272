"""The Curator: all that a mechanism ever sees of the data.

A mechanism asks; the Curator charges its reservation first, draws noise inside the primitive, and answers. Nothing here
knows rows, counts or random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
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

    Guarantees: coefficients and clip are such that no record's residual overflows, whatever it holds: a NaN would swallow a
    whole sum.
    """

    working: Working
    clip: float
    sigmas: tuple[float, ...]
    edges: tuple[float, ...]
    sigma_bins: float

    def __post_init__(self) -> None:
        if not np.all(np.abs(self.working.theta) <= LARGEST):
            raise ValueError(f"theta must be finite and at most {LARGEST:g} in size; a fit that runs away ends here.")
        if not 1 / LARGEST <= self.clip <= LARGEST:
            raise ValueError(f"clip must lie between {1 / LARGEST:g} and {LARGEST:g}, got {self.clip:g}.")


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
        """Noisy gradient blocks and residual histogram; costs Σ_j c² κ_j / 2σ_j² + 1 / 2σ_bins²."""
        ...
