"""What the task mechanism regresses on what, and what it knows between rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique
from ddssp.encoding import Block, Encoding
from ddssp.inference.belief import Belief, Evidence
from ddssp.inference.geometry import Counts, Geometry
from ddssp.marginal import Measurement
from ddssp.mechanism.clip import REACH, reach_of
from ddssp.privacy.curator import Link

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """What is regressed on what."""

    encoding: Encoding
    target: str
    link: Link

    @property
    def constant(self) -> Block:
        return self.encoding.blocks[0]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return tuple(b for b in self.encoding if b.column not in (None, self.target))

    @property
    def kappa(self) -> Array:
        """κ of the intercept and of every block."""
        return np.array([1.0, *(b.kappa for b in self.blocks)])

    def noise(self, total: float, rho: float) -> float:
        """Of one gradient with all of ρ, over all its coordinates, per record."""
        width = 1 + sum(b.rows for b in self.blocks)
        return float(np.sqrt(self.kappa.sum() * width / (2 * rho)) / total)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """What is known between rounds, all of it public.

    Args:
        known: measurements so far, one per clique; `counts` are those that came with gradients.
        levels: mean residual of each round with its noise variance; `centre` is the score at the features' mean.
        scale: variance of the target on the scale of the score.
        calm: whether the noise of least squares is so low that its clips fall as far as the residuals let them.
        squares: measured mean of r², one per round, where the curvature follows from it.
    """

    known: dict[Clique, Measurement]
    counts: Counts
    geometry: Geometry
    belief: Belief
    centre: float
    clip: float
    curvature: float
    scale: float
    calm: bool
    evidence: tuple[Evidence, ...] = ()
    levels: tuple[tuple[float, float], ...] = ()
    squares: tuple[float, ...] = ()

    @property
    def reach(self) -> float:
        """Standard deviations that own clips are wide in the next round."""
        return reach_of(len(self.evidence)) if self.calm else REACH

    @property
    def theta(self) -> Array:
        """Coefficients of the encoding, the intercept first."""
        return np.asarray(np.r_[self.centre - self.geometry.offset @ self.belief.theta, self.belief.theta])

    @property
    def weight(self) -> float:
        """Curvature of the loss in the intercept's direction."""
        return self.geometry.total * self.curvature
