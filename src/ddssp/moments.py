"""Moments: marginals × encoding → Z'Z with named blocks (paper, proposition on Z'Z)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Encoding
from ddssp.marginal import PairMarginals


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """Z'Z of the encoded records.

    Args:
        matrix: "p p"; symmetric.
        encoding: what its rows stand for.
        variance: "p p", variance of each entry's noise; None where it is exact or not known.
        sigma: least σ of the measurements behind estimated tables; None where there are none.
    """

    matrix: NDArray[np.float64]
    encoding: Encoding
    variance: NDArray[np.float64] | None = None
    sigma: float | None = None

    def __post_init__(self) -> None:
        for array in (self.matrix, self.variance):
            if array is not None:
                array.setflags(write=False)

    @property
    def doubt(self) -> NDArray[np.float64] | None:
        """The variance, or what stands for it: that of tables measured one by one, each cell with σ.

        A graphical model measures the tables it knows least until the rest are as good, and what it knows within an attribute
        comes from all of them.
        """
        if self.variance is not None or self.sigma is None:
            return self.variance
        size = np.concatenate([(b.A**2).sum(axis=1) for b in self.encoding])
        own = np.repeat(np.arange(len(self.encoding.blocks)), [b.rows for b in self.encoding])
        return np.asarray(self.sigma**2 * np.outer(size, size) * (own[:, None] != own))

    def keep(self, columns: Iterable[str | None]) -> Moments:
        """The blocks of `columns` (None is the intercept)."""
        columns = tuple(columns)
        i = self.encoding.index(columns)
        part = None if self.variance is None else self.variance[np.ix_(i, i)]
        return replace(self, matrix=self.matrix[np.ix_(i, i)], encoding=self.encoding.keep(columns), variance=part)


def moments(marginals: PairMarginals, encoding: Encoding) -> Moments:
    r"""Second moments of the encoded records.

    (Z'Z)_[j,k] = A_j <mu_jk> A_k',  with <mu_jj> = diag(mu_j)

    Guarantees: linear in `marginals`, so exact marginals give exact moments; positive semidefinite if some joint table has
    these marginals. Edge cases: the intercept is an attribute of one level, its table with j is mu_j itself.
    """
    blocks = [[j.A @ _table(marginals, j.column, k.column) @ k.A.T for k in encoding] for j in encoding]
    return Moments(matrix=np.block(blocks), encoding=encoding)


def _table(marginals: PairMarginals, j: str | None, k: str | None) -> NDArray[np.float64]:
    if j is None:
        return np.array([[marginals.total]]) if k is None else marginals.one_way(k)[None]
    return marginals.one_way(j)[:, None] if k is None else marginals[j, k]
