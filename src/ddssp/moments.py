"""Moments: marginals × encoding → Z'Z with named blocks (paper, proposition on Z'Z)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    """

    matrix: NDArray[np.float64]
    encoding: Encoding
    variance: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for array in (self.matrix, self.variance):
            if array is not None:
                array.setflags(write=False)

    def keep(self, columns: Iterable[str | None]) -> Moments:
        """The blocks of `columns` (None is the intercept)."""
        columns = tuple(columns)
        i = self.encoding.index(columns)
        part = None if self.variance is None else self.variance[np.ix_(i, i)]
        return Moments(matrix=self.matrix[np.ix_(i, i)], encoding=self.encoding.keep(columns), variance=part)


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
