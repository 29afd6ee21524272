r"""The normal equations of one regression, read out of a release's moments.

Features are R'z and the response is r'z of one record z (intercept, features, target), so with G = Z'Z

    H = R'GR,   b = R'Gr,   yy = r'Gr,   and the residual's coefficients are t = r − Rβ.

R selects the features' rows; through the origin of the original scale it also moves constants (see `scale.through_origin`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ddssp.encoding import Block, Encoding
from ddssp.inference.noise_covariance import BlockNoise
from ddssp.model.scale import original_names, original_scale, through_origin
from ddssp.model.solve import Shrinkage, empirical_bayes, floored, least_squares
from ddssp.moments import Moments

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Equations:
    """H β = b, and how to read β.

    Args:
        moments: Z'Z of intercept, features and target.
        encoding: the features' blocks (with the intercept where the release has one).
        basis: R, "p q".
        response: r, "p".
        scale: T, "k f": coefficients on the original scale of the features from those of `encoding`.
        names: what the k coefficients are called.
        noise: the noise of the moments, where it is known.
    """

    moments: Moments
    encoding: Encoding
    basis: Array
    response: Array
    scale: Array
    names: tuple[str, ...]
    noise: BlockNoise | None

    @cached_property
    def H(self) -> Array:
        return self._within(self.moments.matrix, self.basis)

    @cached_property
    def b(self) -> Array:
        return np.asarray(self.basis.T @ (self.moments.matrix @ self.response))

    @property
    def yy(self) -> float:
        return float(self.response @ self.moments.matrix @ self.response)

    @property
    def has_intercept(self) -> bool:
        """Whether the regression itself has one."""
        return self.names[:1] == ("intercept",)

    @property
    def total(self) -> float:
        """n̂, at least 1; without an intercept block the largest second moment, which |z| ≤ 1 keeps below n."""
        G, spans = self.moments.matrix, self.moments.encoding.slices
        return max(float(G[0, 0] if None in spans else np.diag(G).max()), 1.0)

    @property
    def mean(self) -> float:
        """The response's mean."""
        return float(self.moments.matrix[0] @ self.response) / self.total

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """Rows of the moments that belong to `encoding`."""
        return self.moments.encoding.index(self.encoding.slices)

    @cached_property
    def readout(self) -> Array:
        """Rows c with c'β a coefficient on the original scale, "k q"."""
        return np.asarray(self.scale @ self.basis[self.features])

    def theta(self, beta: Array) -> Array:
        """Coefficients of `encoding` that predict r'z."""
        return np.asarray(self.basis[self.features] @ beta)

    def residual(self, beta: Array) -> Array:
        """t = r − Rβ, "p"."""
        return np.asarray(self.response - self.basis @ beta)

    @cached_property
    def owner(self) -> NDArray[np.intp]:
        """The block of `encoding` that each coordinate of β belongs to, "q"."""
        block = np.repeat(np.arange(len(self.encoding.blocks)), [b.rows for b in self.encoding])
        R = np.abs(self.basis[self.features])
        if not self.has_intercept:
            R = R * np.repeat([b.column is not None for b in self.encoding], [b.rows for b in self.encoding])[:, None]
        return np.asarray(block[np.argmax(R, axis=0)])

    def solution(self, how: Shrinkage) -> Array:
        """β, shrunken as asked; empirical Bayes needs the variance of the moments' noise. For columns: `interval.solved`."""
        assert how is not Shrinkage.COLUMNS
        variance = self.moments.doubt
        if how is Shrinkage.EMPIRICAL_BAYES and variance is not None:
            squares = self.basis**2
            return empirical_bayes(self.H, self.b, self._within(variance, squares), squares.T @ (variance @ self.response**2))
        return floored(self.H, self.b, self.total) if how is Shrinkage.FLOOR else least_squares(self.H, self.b)

    def _within(self, G: Array, R: Array) -> Array:
        """R'GR; R selects rows unless the regression goes through the origin."""
        x = self.features
        return G[np.ix_(x, x)] if R.shape[1] == len(x) else np.asarray(R.T @ G @ R)

    def shrinkage(self, asked: Shrinkage | str | None, *, chance: bool = False, linear: bool = False) -> Shrinkage:
        """What was asked for; else, where the noise is known, by columns for linear models and empirical Bayes for others, and
        where it is not a public eigenvalue floor.

        Args:
            chance: whether the response is ±1 for having a level, which features explain in small part: then what is guessed of
                the noise of estimated tables will do.
        """
        if asked is None:
            held = self.moments.doubt if chance else self.moments.variance
            known = Shrinkage.COLUMNS if linear and self.noise is not None else Shrinkage.EMPIRICAL_BAYES
            return Shrinkage.FLOOR if held is None else known
        if asked not in [*Shrinkage, *(s.value for s in Shrinkage)]:
            raise ValueError(f"shrinkage must be one of {', '.join(s.value for s in Shrinkage)}, got {asked!r}.")
        if Shrinkage(asked) is Shrinkage.COLUMNS and self.noise is None:
            raise ValueError('shrinkage "columns" needs moments whose noise is known; leave it out for the default.')
        return Shrinkage(asked)


def equations(
    moments: Moments,
    target: str,
    *,
    features: Sequence[str] | None = None,
    intercept: bool = True,
    response: tuple[Array, float] = (np.ones(1), 0.0),
    noise: BlockNoise | None = None,
) -> Equations:
    """The regression of a linear function of `target`'s block on `features` (default: all other columns).

    Args:
        response: coefficients of the target's rows, and a constant.

    Edge cases: moments without an intercept block (the paper's encoding) are regressed as they are.
    """
    chosen = feature_columns(moments.encoding, target, features)
    if not chosen and not intercept:
        raise ValueError("features must name at least one column where there is no intercept.")
    has_block = None in moments.encoding.slices
    kept = moments.keep((*((None,) if has_block else ()), *chosen, target))
    encoding = kept.encoding.keep([c for c in kept.encoding.slices if c != target])
    x = kept.encoding.index(encoding.slices)
    r = np.zeros(kept.encoding.size)
    r[kept.encoding.slices[target]], constant = response
    if has_block:
        r[0] = constant
    R, T = np.eye(len(x)), original_scale(encoding)
    if has_block and not intercept:
        R, T = through_origin(encoding)
    basis = np.zeros((kept.encoding.size, R.shape[1]))
    basis[x] = R
    return Equations(
        moments=kept,
        encoding=encoding,
        basis=basis,
        response=r,
        scale=T,
        names=original_names(encoding if intercept else encoding.keep(encoding.columns)),
        noise=None if noise is None else noise.keep(kept.encoding.columns),
    )


def target_block(encoding: Encoding, target: str) -> Block:
    """The target's block."""
    if target not in encoding.columns:
        raise ValueError(f"target must be a column of the release, got {target!r}; it has {', '.join(encoding.columns)}.")
    return encoding.block(target)


def feature_columns(encoding: Encoding, target: str, features: Sequence[str] | None) -> tuple[str, ...]:
    """The features asked for, or every column but the target."""
    if features is None:
        return tuple(c for c in encoding.columns if c != target)
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise ValueError(f"features must be a list of columns, got {features!r}; write [{features!r}] for a single one.")
    for name in features:
        if name not in encoding.columns:
            raise ValueError(f"features must be columns of the release, got {name!r}; it has {', '.join(encoding.columns)}.")
        if name == target:
            raise ValueError(f"features must not hold the target {target!r}.")
    return tuple(features)
