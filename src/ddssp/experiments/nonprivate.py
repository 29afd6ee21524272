"""The regressions without privacy: least squares, and the true logistic regression (not its degree-2 approximation)."""

from __future__ import annotations

import numpy as np

from ddssp.experiments.objpert import minimiser
from ddssp.experiments.problem import Coefficients, Problem
from ddssp.experiments.protocol import LINEAR

RIDGE = 1e-3
"""Keeps logistic coefficients of levels that separate the classes finite."""


def nonprivate(problem: Problem) -> Coefficients:
    """The exact fit, least squares or maximum likelihood."""
    if problem.kind == LINEAR:
        return problem.least_squares
    theta = minimiser(problem.X, problem.y, ridge=RIDGE, b=np.zeros(problem.row_encoding.size))
    return Coefficients(theta=theta, encoding=problem.row_encoding)
