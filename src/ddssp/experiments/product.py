"""This project's own mechanisms, as they ship: always with an intercept, whatever the protocol says of the baselines.

moments   second moments of the encoded columns; answers every regression, the declared target best
task      one regression of the declared target on its true loss, by rounds of noisy gradients
auto      what `ddssp release --target` takes by default
"""

from __future__ import annotations

from ddssp.curate import curate, plan
from ddssp.experiments.problem import Coefficients, Problem
from ddssp.experiments.protocol import DELTA, LINEAR
from ddssp.secret.noise import Noise


def product(problem: Problem, mechanism: str, *, epsilon: float, noise: Noise) -> Coefficients:
    """The fit of a release of the training rows by one of our mechanisms."""
    made = plan(problem.data.schema, epsilon=epsilon, delta=DELTA, mechanism=mechanism, target=problem.target)
    release = curate(problem.rows.train, made, noise=noise)
    fit = release.linear(problem.target) if problem.kind == LINEAR else release.logistic(problem.target)
    return Coefficients(theta=fit.theta, encoding=fit.encoding)
