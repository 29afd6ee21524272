"""Coefficient plots: each estimate with both parts of its interval; needs matplotlib, loaded when first used."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from ddssp import whole
from ddssp.model.fit import Fit
from ddssp.released import require_writable

TOTAL, PRIVACY, SAMPLING = "#000000", "#D55E00", "#56B4E9"
"""Okabe and Ito's colours, told apart by every kind of eye."""

FORMATS = (".svg", ".png", ".pdf")


def plot(fits: Sequence[Fit], path: str | Path, level: float = 0.95, *, force: bool = False) -> None:
    """None; writes one panel per fit: estimates with their total intervals, and beside them what each part alone would give.

    Coefficients of numbers are drawn over their declared range, so that one axis serves them all; the intercept is left out.
    Edge cases: coefficients without an interval say why, as the summary does; fits without intervals show points alone; a
    file that exists is refused unless `force`.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"plot must be a file ending in {', '.join(FORMATS)}, got {str(path)!r}.")
    require_writable(path, force=force)
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a plot needs matplotlib: pip install 'ddssp[report]'.") from None
    rows = [len(_shown(fit)) for fit in fits]
    with matplotlib.rc_context({"svg.hashsalt": "ddssp", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8.0, sum(1.3 + 0.24 * max(r, 2) for r in rows)), layout="constrained")
        axes = figure.subplots(len(fits), 1, squeeze=False, height_ratios=[max(r, 2) for r in rows])
        for ax, fit in zip(axes[:, 0], fits, strict=True):
            _panel(ax, fit, level)
        drawn, kind = io.BytesIO(), path.suffix.lower().removeprefix(".")
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None, dpi=150)
    whole.write(path, drawn.getvalue())


def _shown(fit: Fit) -> list[str]:
    return [name for name in fit.coef if name != "intercept" and not name.endswith(": intercept")]


def _panel(ax: Any, fit: Fit, level: float) -> None:
    names = _shown(fit)
    units = np.array([_range(fit, name) for name in names])
    at = np.arange(len(names))[::-1]
    values = np.array([fit.coef[name] for name in names]) * units
    if fit.not_covered is None:
        found = fit.intervals
        where = [found.names.index(name) for name in names]
        known = found.identified[where]
        values = np.where(known, found.estimate[where], np.nan) * units
        half = ndtri((1 + level) / 2) * units
        for part, shift, colour, width, label in (
            (found.privacy, 0.2, PRIVACY, 3.0, "privacy part"),
            (found.stderr, 0.0, TOTAL, 1.2, f"{level:.0%} interval"),
            (found.sampling, -0.2, SAMPLING, 3.0, "sampling part"),
        ):
            reach = (part[where] * half)[known]
            ax.hlines(
                at[known] + shift, values[known] - reach, values[known] + reach, colors=colour, linewidth=width, label=label
            )
        for i in np.flatnonzero(~known):
            why = "not normal" if names[i] in fit.not_normal else "not identified"
            ax.annotate(why, (0, at[i]), fontsize=7, color="0.45", va="center", ha="center")
        if known.any():
            ax.legend(fontsize=7, frameon=False, loc="best")
    ax.plot(values, at, "o", color=TOTAL, markersize=3.5)
    ax.axvline(0, color="0.6", linewidth=0.8)
    ax.set_yticks(at, names, fontsize=7)
    ax.set_ylim(-0.8, len(names) - 0.2)
    ax.set_title(fit.title, fontsize=9, loc="left")
    ax.set_xlabel("coefficient; of numbers: over their declared range", fontsize=7)
    ax.tick_params(axis="x", labelsize=7)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def _range(fit: Fit, name: str) -> float:
    """A number's declared range; 1 for a level."""
    column = name.rsplit(": ", 1)[-1]
    return 2 * fit.encoding.block(column).half if column in fit.encoding.columns else 1.0
