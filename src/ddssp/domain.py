"""Attribute, Domain, Clique: the discretised view of a schema."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

Clique = tuple[str, ...]
"""Attribute names in domain order; () is the total, (j,) a one-way and (j, k) a pair marginal."""

MAX_CELLS = 2**28
"""Pair counts take 8 bytes each; beyond 2 GiB a schema is refused before any row is read."""


class TooLargeError(ValueError):
    """A domain whose pair counts would not fit in memory."""


def require_fit(sizes: Mapping[str, int]) -> None:
    """Refuses columns of these sizes if all their pair counts together would not fit in memory."""
    total = sum(sizes.values())
    if total**2 > MAX_CELLS:
        widest = sorted(sizes.items(), key=lambda item: -item[1])[:3]
        raise TooLargeError(
            f"schema has {total:,} levels in all and so {total**2:,} pair counts, more than the {MAX_CELLS:,} that are held at "
            f"once; give fewer levels to the widest columns: {', '.join(f'{name} ({m:,})' for name, m in widest)}."
        )


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One discretised column: codes 0 … size − 1."""

    name: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"size of attribute {self.name!r} must be at least 1, got {self.size}.")


@dataclass(frozen=True)
class Domain:
    """An ordered product of attributes.

    >>> d = Domain.of(a=2, b=3)
    >>> d.size(("a", "b")), d.pairs
    (6, (('a', 'b'),))
    """

    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        names = self.names
        if twice := {n for n, times in Counter(names).items() if times > 1}:
            raise ValueError(f"attributes must have distinct names, got {sorted(twice)} twice.")

    @classmethod
    def of(cls, **sizes: int) -> Domain:
        return cls(tuple(Attribute(name=n, size=m) for n, m in sizes.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @property
    def sizes(self) -> dict[str, int]:
        return {a.name: a.size for a in self.attributes}

    @property
    def pairs(self) -> tuple[Clique, ...]:
        return tuple(combinations(self.names, 2))

    def shape(self, clique: Clique) -> tuple[int, ...]:
        sizes = self.sizes
        return tuple(sizes[a] for a in clique)

    def size(self, clique: Clique) -> int:
        """Number of cells of the clique's table; 1 for the empty clique."""
        return math.prod(self.shape(clique))

    def clique(self, names: Iterable[str]) -> Clique:
        """The attributes `names` as a clique: distinct, in domain order."""
        wanted = set(names)
        if unknown := wanted - set(self.names):
            raise KeyError(f"unknown attributes {sorted(unknown)}; the domain has {list(self.names)}.")
        return tuple(n for n in self.names if n in wanted)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)
