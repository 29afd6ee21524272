"""What a user would pick instead: diffprivlib's regressions, in an environment of their own (`make peers`).

Both are ε-DP with Laplace-like noise (δ = 0) and get the same declared bounds: features and target in [−1, 1], rows of norm
at most ‖X‖. diffprivlib draws by itself: the seed is its random_state, not the Noise protocol.
"""

from __future__ import annotations

import warnings

import numpy as np

from ddssp.experiments.problem import Coefficients, Problem
from ddssp.experiments.protocol import LINEAR


def diffprivlib(problem: Problem, *, epsilon: float, seed: int) -> Coefficients:
    """The fit of diffprivlib's LinearRegression or LogisticRegression, without an intercept of its own."""
    try:
        from diffprivlib.models import LinearRegression, LogisticRegression
    except ImportError:
        raise ValueError("method diffprivlib needs an environment of its own; run `make peers`.") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if problem.kind == LINEAR:
            model = LinearRegression(
                epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), fit_intercept=False, random_state=seed
            )
        else:
            model = LogisticRegression(
                epsilon=epsilon, data_norm=problem.row_encoding.norm_bound, fit_intercept=False, random_state=seed, max_iter=500
            )
        model.fit(problem.X, problem.y)
    return Coefficients(theta=np.asarray(model.coef_, np.float64).ravel(), encoding=problem.row_encoding)
