"""Measurement and PairMarginals: noisy answers, and the tables of all pairs as one Burt matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique, Domain


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A noisy table or block, each entry with independent noise of standard deviation sigma."""

    clique: Clique
    values: NDArray[np.float64]
    sigma: float

    def __post_init__(self) -> None:
        self.values.setflags(write=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class PairMarginals:
    """All one- and two-way marginals.

    The Burt matrix has the table <mu_jk> in block (j, k) and diag(mu_j) on its diagonal.

    >>> t = PairMarginals.of(Domain.of(a=2, b=2), {("a", "b"): np.array([[1.0, 2.0], [3.0, 4.0]])})
    >>> t.one_way("a").tolist(), t["b", "a"].tolist(), t.total
    ([3.0, 7.0], [[1.0, 3.0], [2.0, 4.0]], 10.0)
    """

    domain: Domain
    burt: NDArray[np.float64]

    def __post_init__(self) -> None:
        m = sum(a.size for a in self.domain)
        if self.burt.shape != (m, m):
            raise ValueError(f"burt must be {m} × {m} for this domain, got {self.burt.shape}.")
        self.burt.setflags(write=False)

    @classmethod
    def of(cls, domain: Domain, tables: Mapping[Clique, NDArray[np.float64]]) -> PairMarginals:
        """From the table of every pair (a single attribute: its one-way table)."""
        if len(domain) == 1:
            return cls(domain=domain, burt=np.diag(np.asarray(tables[domain.names], np.float64)))
        first = {j: next(np.asarray(t).sum(1 - c.index(j)) for c, t in tables.items() if j in c) for j in domain.names}
        both = dict(tables) | {(k, j): np.asarray(t).T for (j, k), t in ((c, t) for c, t in tables.items() if len(c) == 2)}
        blocks = [[np.diag(first[j]) if j == k else both[j, k] for k in domain.names] for j in domain.names]
        return cls(domain=domain, burt=np.block(blocks).astype(np.float64))

    @cached_property
    def slices(self) -> dict[str, slice]:
        ends = np.cumsum([0, *(a.size for a in self.domain)])
        return {n: slice(int(a), int(b)) for n, a, b in zip(self.domain.names, ends[:-1], ends[1:], strict=True)}

    def __getitem__(self, pair: tuple[str, str]) -> NDArray[np.float64]:
        """<mu_jk>, "m_j m_k"."""
        return self.burt[self.slices[pair[0]], self.slices[pair[1]]]

    def one_way(self, name: str) -> NDArray[np.float64]:
        return np.diag(self[name, name])

    @property
    def total(self) -> float:
        return float(self.one_way(self.domain.names[0]).sum())
