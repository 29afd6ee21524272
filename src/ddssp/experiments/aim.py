"""DD-SSP and AIM-Synth: the paper's two ways to a regression from one AIM release.

DD-SSP reads X'X and X'y off the released pair tables. AIM-Synth draws as many rows from the release as it was made from and
regresses on them. Both, with the same seed, use the same release, so that they differ by the sampling of rows alone.
Paper's protocol: no intercept; eigenvalues of X'X raised to a public floor; logistic regression by the degree-2 Chebyshev
polynomial for DD-SSP and by the true loss for AIM-Synth. Ours: the product's own fits, with an intercept.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache

from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.experiments.nonprivate import nonprivate
from ddssp.experiments.problem import Array, Coefficients, Problem
from ddssp.experiments.protocol import DELTA, LINEAR
from ddssp.mechanism.aim import MODEL_SIZE
from ddssp.model.calibration import chebyshev2
from ddssp.model.solve import floored
from ddssp.released import Release
from ddssp.synth import synthetic

RADIUS = 6.0
"""The paper's range of the Chebyshev polynomial."""


@lru_cache(maxsize=2)
def release_and_seconds(
    problem: Problem, epsilon: float, seed: int, inference: str, model_size: float
) -> tuple[Release, float]:
    """The release of all pair tables with the paper's workload (all pairs alike), and the processor seconds it took."""
    size = MODEL_SIZE if inference == "tree" else model_size
    made = plan(problem.data.schema, epsilon=epsilon, delta=DELTA, mechanism="aim", inference=inference, model_size=size)
    start = time.process_time()
    release = curate(problem.rows.train, made, noise=SeededNoise(seed))
    return release, time.process_time() - start


def ddssp(problem: Problem, release: Release) -> Coefficients:
    """The regression from the released tables."""
    if problem.protocol.intercept:
        fit = release.linear(problem.target) if problem.kind == LINEAR else release.logistic(problem.target)
        assert fit.theta.ndim == 1
        return Coefficients(theta=fit.theta, encoding=fit.encoding)
    assert release.marginals is not None
    XtX, Xty = problem.equations(release.marginals)
    theta = floored(XtX, Xty, release.marginals.total)
    return Coefficients(theta=theta if problem.kind == LINEAR else degree_two(theta), encoding=problem.encoding)


def degree_two(theta: Array) -> Array:
    """Least-squares coefficients → those that maximise the degree-2 likelihood, −b₁/2b₂ times as large."""
    return chebyshev2(RADIUS)(0.0, 0.0).factor * theta


def aim_synth(problem: Problem, release: Release, seed: int) -> Coefficients:
    """The regression on rows drawn from the release, as many as were released."""
    table = synthetic(release, seed=seed)
    drawn = replace(problem, rows=replace(problem.rows, train=table))
    if problem.kind == LINEAR:
        XtX, Xty = drawn.equations(drawn.marginals)
        return Coefficients(theta=floored(XtX, Xty, table.num_rows), encoding=problem.encoding)
    return nonprivate(drawn)
