"""The paper's two figures: scores against ε, and the polynomial that stands for the logistic likelihood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ddssp.experiments.aim import RADIUS
from ddssp.experiments.methods import METHODS
from ddssp.experiments.protocol import LINEAR, LOGISTIC
from ddssp.experiments.summary import Summary
from ddssp.model.calibration import chebyshev2

STYLES: dict[str, dict[str, Any]] = {
    "nonprivate": {"color": "black", "linestyle": ":"},
    "ddssp": {"color": "#0072b2", "marker": "o"},
    "ddssp-tree": {"color": "#0072b2", "marker": "o", "linestyle": "--", "markerfacecolor": "white"},
    "aim-synth": {"color": "#e69f00", "marker": "s"},
    "aim-synth-tree": {"color": "#e69f00", "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    "ssp-tight": {"color": "#999999", "marker": "v", "linestyle": "--"},
    "adassp": {"color": "#d55e00", "marker": "^"},
    "adassp-code": {"color": "#d55e00", "marker": "^", "linestyle": "--", "markerfacecolor": "white"},
    "objpert": {"color": "#d55e00", "marker": "D"},
    "objpert-tight": {"color": "#d55e00", "marker": "D", "linestyle": "--", "markerfacecolor": "white"},
    "dpsgd": {"color": "#cc79a7", "marker": "x"},
    "moments": {"color": "#009e73", "marker": "P"},
    "auto": {"color": "#004d38", "marker": "*", "markersize": 9},
    "diffprivlib": {"color": "#56b4e9", "marker": "h"},
}
"""Drawn methods; `task` is what `auto` takes, and `ssp` is off the scale, as is every MSE above that of guessing, 1."""


def figure(summary: Summary, folder: Path) -> None:
    """scores.svg and scores.png: MSE (log scale) in the first row, AUC in the second, with standard errors."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "ddssp"
    import matplotlib.pyplot as plt

    kinds = [k for k in (LINEAR, LOGISTIC) if summary.datasets(k)]
    columns = max(len(summary.datasets(k)) for k in kinds)
    fig, axes = plt.subplots(len(kinds), columns, figsize=(3.1 * columns, 3.3 * len(kinds) + 1.2), squeeze=False)
    handles: dict[str, Any] = {}
    for row, kind in zip(axes, kinds, strict=True):
        for ax in row:
            ax.set_visible(False)
        for ax, name in zip(row, summary.datasets(kind), strict=False):
            handles |= _panel(ax, summary, kind, name)
        row[0].set_ylabel("test MSE" if kind == LINEAR else "test AUC")
    fig.legend(handles.values(), handles.keys(), loc="lower center", ncols=max(2, columns + 1), fontsize=9, frameon=False)
    fig.tight_layout(rect=(0, 0.11 if len(kinds) == 2 else 0.2, 1, 1))
    fig.savefig(folder / "scores.svg", metadata={"Date": None})
    fig.savefig(folder / "scores.png", dpi=130)
    plt.close(fig)


def _panel(ax: Any, summary: Summary, kind: str, name: str) -> dict[str, Any]:
    handles = {}
    ax.set_visible(True)
    for method in (m for m in STYLES if m in summary.methods(kind)):
        if not METHODS[method].private:
            found = summary.mean(kind, name, method, None)
            if found is not None:
                handles[METHODS[method].label] = ax.axhline(found.value, **STYLES[method])
            continue
        means = {e: m for e in summary.epsilons() if (m := summary.mean(kind, name, method, e)) is not None and m.value <= 1}
        if means:
            handles[METHODS[method].label] = ax.errorbar(
                list(means), [m.value for m in means.values()], [np.nan_to_num(m.error) for m in means.values()],
                capsize=2, linewidth=1.2, **({"markersize": 4} | STYLES[method]),
            )  # fmt: skip
    ax.set_title(name + (" (substitute)" if summary.is_substitute(name) else ""), fontsize=10)
    ax.set_xlabel("ε")
    ax.set_xscale("log")
    ax.set_xticks(summary.epsilons(), [f"{e:g}" for e in summary.epsilons()], fontsize=8)
    ax.minorticks_off()
    if kind == LINEAR:
        ax.set_yscale("log")
    ax.grid(alpha=0.3, linewidth=0.5)
    return handles


def chebyshev_figure(folder: Path) -> None:
    """chebyshev.svg and chebyshev.png: φ(s) = −log(1 + e^−s) and its degree-2 polynomial on [−6, 6]."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "ddssp"
    import matplotlib.pyplot as plt

    s = np.linspace(-RADIUS, RADIUS, 241)
    b2 = -0.25 / chebyshev2(RADIUS)(0.0, 0.0).factor
    b0, c2 = -np.log(2), b2 * RADIUS**2 / 2
    fig, ax = plt.subplots(figsize=(5.4, 4.2))
    ax.plot(s, -np.logaddexp(0, -s), color="black", label="φ(s) = −log(1 + exp(−s))")
    ax.plot(s, b0 + s / 2 + b2 * s**2, color="#0072b2", label=f"degree 2: {b0:.3f} + 0.5 s − {-b2:.4f} s²")
    as_monomials = 2 * (b0 + c2) + RADIUS / 2 * s + c2 * s**2
    ax.plot(s, as_monomials, color="#d55e00", linestyle="--", label="its Chebyshev coefficients read as monomials")
    ax.set(xlabel="s = y x'θ", ylim=(-7.5, 1.5))
    fig.legend(fontsize=8, frameon=False, loc="upper left")
    ax.grid(alpha=0.3, linewidth=0.5)
    fig.tight_layout(rect=(0, 0, 1, 0.86))
    fig.savefig(folder / "chebyshev.svg", metadata={"Date": None})
    fig.savefig(folder / "chebyshev.png", dpi=130)
    plt.close(fig)
