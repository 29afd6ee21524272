"""The leaderboard: every method on every dataset by our protocol, with excess errors, worst seeds and geometric means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ddssp.experiments.figures import figure
from ddssp.experiments.methods import METHODS
from ddssp.experiments.page import Heading, Paragraph, Part, Table, markdown
from ddssp.experiments.protocol import DELTA, LINEAR, LOGISTIC, OURS
from ddssp.experiments.records import Records
from ddssp.experiments.summary import Mean, Summary

SECOND = {LINEAR: "excess", LOGISTIC: "logloss"}
"""What is told beside the score."""


def write(records: Records, path: Path) -> None:
    """The table as Markdown, and the figure scores.svg beside it."""
    summary = Summary(records.read(), OURS.name)
    path.write_text(markdown([*_head(), *_tables(summary), *_geometric(summary)]), encoding="utf-8")
    figure(summary, path.parent)


def _head() -> list[Part]:
    return [
        Heading("Accuracy", 1),
        Paragraph(
            f"`python benchmarks/accuracy.py`; δ = {DELTA:g}, ρ accounting, reproducible noise, seeds from 0, intercept on. "
            "Linear: MSE on the paper's 1,000 test rows; excess = (θ − θ_ols)'(X'X/n)(θ − θ_ols) on the training rows. "
            "Logistic: AUC and log-loss on all rows beyond the training ones, or on a fifth held out."
        ),
    ]


def _tables(summary: Summary) -> list[Part]:
    parts: list[Part] = []
    for kind, score in ((LINEAR, "MSE"), (LOGISTIC, "AUC")):
        rows = []
        for name in summary.datasets(kind):
            for method in (m for m in METHODS if m in summary.methods(kind)):
                budgets = summary.epsilons() if METHODS[method].private else [None]
                found = [_cell(summary, kind, name, method, e) for e in budgets]
                if any(found):
                    rows.append([summary.label(name), method, *found, *[""] * (len(summary.epsilons()) - len(found))])
        parts.append(Heading(f"{kind}: {score} ± standard error ({SECOND[kind]}; worst seed's; seeds)"))
        parts.append(Table(["dataset", "method", *(f"ε = {e:g}" for e in summary.epsilons())], rows))
    return parts


def _cell(summary: Summary, kind: str, name: str, method: str, epsilon: float | None) -> str:
    found = summary.values(kind, name, method, epsilon)
    if not found:
        return ""
    mean, second = Mean.of(found.values()), list(summary.values(kind, name, method, epsilon, SECOND[kind]).values())
    error = 0.0 if np.isnan(mean.error) else mean.error
    return f"{mean.value:.5f} ± {error:.5f} ({np.mean(second):.2g}; {max(second):.2g}; {mean.trials})"


def _geometric(summary: Summary) -> list[Part]:
    """Geometric means over those cells that all methods of the row have."""
    rows = []
    for method in (m for m in METHODS if m in summary.methods(LINEAR) and METHODS[m].private):
        means = excesses(summary, method)
        if means:
            worst = max(_worst(summary, method))
            rows.append([method, f"{geometric_mean(means):.3g}", str(len(means)), f"{worst:.1f}×"])
    head = ["method", "geometric mean of the excess", "cells", "worst seed / mean of its cell, at most"]
    return [Heading("Linear, all datasets and ε"), Table(head, rows)]


def excesses(summary: Summary, method: str) -> list[float]:
    """Mean excess of every cell that was run."""
    found = [summary.mean(LINEAR, d, method, e, "excess") for d in summary.datasets(LINEAR) for e in summary.epsilons()]
    return [m.value for m in found if m is not None]


def _worst(summary: Summary, method: str) -> list[float]:
    cells = (summary.values(LINEAR, d, method, e, "excess") for d in summary.datasets(LINEAR) for e in summary.epsilons())
    return [max(c.values()) / max(float(np.mean(list(c.values()))), 1e-300) for c in cells if c]


def geometric_mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-12)))))
