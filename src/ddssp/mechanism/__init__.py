"""Strategies: how a budget is spent. Each sees only a Curator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ddssp.encoding import Encoding
from ddssp.marginal import Measurement, PairMarginals
from ddssp.privacy.curator import Curator
from ddssp.schema import Schema

Progress = Callable[[str, float], None]
"""Called with what is being done (public) and the share of the work that is done."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a mechanism found, all of it paid for."""

    measurements: tuple[Measurement, ...]
    marginals: PairMarginals | None = None


class Mechanism(Protocol):
    @property
    def name(self) -> str: ...

    def counted(self, schema: Schema) -> Encoding:
        """The blocks whose statistics the mechanism will ask for; only these are counted."""
        ...

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome: ...
