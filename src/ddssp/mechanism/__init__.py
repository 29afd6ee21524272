"""Strategies: how a budget is spent. Each sees only a Curator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Encoding
from ddssp.marginal import Measurement, PairMarginals
from ddssp.privacy.curator import Curator, Link
from ddssp.schema import Schema

Progress = Callable[[str, float], None]
"""Called with what is being done (public) and the share of the work that is done."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """A regression that the mechanism itself made: coefficients of the centred encoding without the target, intercept first.

    `perturbed` says that they are the minimiser of a perturbed objective, found in floating point (docs/objective.md).
    """

    target: str
    link: Link
    theta: NDArray[np.float64]
    perturbed: bool = False

    @property
    def model(self) -> str:
        return "linear" if self.link is Link.IDENTITY else "logistic"


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a mechanism found, all of it paid for."""

    measurements: tuple[Measurement, ...]
    marginals: PairMarginals | None = None
    fitted: Fitted | None = None


class Mechanism(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def passes(self) -> int:
        """How often the rows are read again after they were counted, roughly."""
        ...

    @property
    def perturbed(self) -> bool:
        """Whether it may minimise a perturbed objective, the one draw whose proof rests on floating point as well."""
        ...

    def counted(self, schema: Schema) -> Encoding:
        """The blocks whose statistics the mechanism will ask for; only these are counted."""
        ...

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome: ...
