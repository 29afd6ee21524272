"""AdaSSP and ObjPert score as they did when they were measured independently, on the paper's data: within two standard errors.

Those figures are means of 5 to 10 (AdaSSP) and 2 to 5 (ObjPert) seeds, rounded to their last digit; a single seed of theirs is
taken to spread as ours do. ObjPert's, on the paper's 1,000 test rows, agree with an intercept and centred one-hot blocks;
whether it had them is not told. Without (the paper's protocol) it scores lower by .003 to .03.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddssp.experiments import paper
from ddssp.experiments.datasets import dataset
from ddssp.experiments.methods import METHODS, Trial
from ddssp.experiments.problem import Problem
from ddssp.experiments.protocol import OURS, PAPER
from ddssp.experiments.report import deviation
from ddssp.experiments.summary import Mean

OBJPERT = {
    "adult": {0.05: 0.783, 0.1: 0.832, 0.5: 0.877, 1.0: 0.884, 2.0: 0.896},
    "ACSemployment": {0.05: 0.778, 0.1: 0.811, 0.5: 0.864, 1.0: 0.871, 2.0: 0.874},
}


def mean(problem, method, epsilon, trials, score):
    fits = (METHODS[method].fit(problem, Trial(epsilon=epsilon, seed=s, model_size=8.0))[0] for s in range(trials))
    return Mean.of(problem.scores(f)[score] for f in fits)


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "ACSincome-LIN"])
def test_adassp(name, data_dir):
    problem = Problem.of(dataset(name, data_dir), "linear", PAPER)
    for epsilon, known in paper.MEASURED["paper", "linear", name, "adassp"].items():
        assert abs(deviation(mean(problem, "adassp", epsilon, 10, "mse"), known)) <= 2, epsilon


@pytest.mark.data
@pytest.mark.parametrize("name", OBJPERT)
def test_objpert(name, data_dir):
    data = dataset(name, data_dir)
    ours = Problem.of(data, "logistic", OURS)
    problem = replace(ours, rows=Problem.of(data, "logistic", PAPER).rows)
    for epsilon, value in OBJPERT[name].items():
        known = paper.Measured(value=value, step=0.001, trials=(2, 5))
        assert abs(deviation(mean(problem, "objpert", epsilon, 5, "auc"), known)) <= 2, epsilon
