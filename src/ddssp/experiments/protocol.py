"""What is compared with what: splits, trials and scores' rows.

paper   the paper's: 1,000 test rows, at most 50,000 training rows, no intercept, level 0 dropped, 5 trials
ours    an intercept, and centred one-hot blocks for baselines on rows; 20 trials; logistic regression scored on all rows beyond
        the training ones, or on a fifth held out where there are fewer than 5,000 of them; linear regression on the paper's
        1,000 rows and beside it on all rows beyond

A trial is fresh noise on the same split; its number is the seed. δ = 1e-5 everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from ddssp.experiments.datasets import Dataset

DELTA = 1e-5
EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
QUICK_EPSILONS = (0.1, 1.0)
LINEAR, LOGISTIC = "linear", "logistic"
ENOUGH = 5_000
"""Rows beyond the training ones from which on they alone are the evaluation set."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    name: str
    intercept: bool
    trials: int


PAPER = Protocol(name="paper", intercept=False, trials=5)
OURS = Protocol(name="ours", intercept=True, trials=20)
PROTOCOLS = {p.name: p for p in (PAPER, OURS)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Rows to train on, to score on, and others to score on beside them (often none)."""

    train: pa.Table
    test: pa.Table
    beyond: pa.Table


def split(data: Dataset, kind: str, protocol: Protocol) -> Split:
    """The rows of one problem."""
    none = data.test.slice(0, 0)
    if protocol is PAPER:
        return Split(train=data.train, test=data.test, beyond=none)
    if kind == LINEAR:
        return Split(train=data.train, test=data.test, beyond=data.rest)
    if data.rest.num_rows >= ENOUGH:
        return Split(train=data.train, test=data.rest, beyond=none)
    cut = int(0.8 * data.train.num_rows)
    held_out = pa.concat_tables([data.train.slice(cut), data.test])
    return Split(train=data.train.slice(0, cut), test=held_out, beyond=none)
