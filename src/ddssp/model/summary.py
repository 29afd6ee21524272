"""The table an analyst reads: like statsmodels', with the standard error's two parts."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ddssp.model.fit import Fit

FACTS = {
    "records": "Records (noisy)",
    "r2": "R-squared",
    "residual_variance": "Residual variance",
    "aic": "AIC",
    "bic": "BIC",
    "share": "Share of positives",
    "dispersion": "Dispersion",
    "mean": "Mean of target",
}

NOTES = (
    "coef is shrunken and predicts best; estimate is not shrunken, and the interval is around it.",
    "sampling: exact-data coefficient around the population's. privacy: estimate around the exact-data coefficient.",
)

NOT_PRIVATE = "NOT PRIVATE: reproducible noise, for experiments only"

NORMAL = (
    "coefficients are read from second moments as if features were normal. Where levels, or a mean near a declared bound,\n"
    "show that they are not and it matters, there is no interval; other skewed numbers are not noticed (docs/models.md)."
)


def summary(fit: Fit, level: float = 0.95, width: int | None = None) -> str:
    """The table of a fit as text, in parts one below the other where it is wider than `width`."""
    headings, rows = table(fit, level)
    parts = _parts((headings, *rows), width)
    wide = max(60, *(len(line) for part in parts for line in part))
    facts = [f"{FACTS.get(k, k) + ':':<22}{number(v)}" for k, v in fit.facts.items() if v is not None]
    title = "\n".join(line.center(wide).rstrip() for line in ((fit.title,) if fit.private else (fit.title, NOT_PRIVATE)))
    rule = "=" * wide
    shown = [line for head, *lines in parts for line in (head, "-" * wide, *lines, rule)]
    return "\n".join([title, rule, *facts, rule, *shown, *_within(_notes(fit), width)])


def _parts(cells: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Lines of as many columns as fit into `width`, names first, then of the columns left; at least one at a time."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    names = widths[0] if width is None else min(widths[0], max(width // 2, 12))
    taken: list[list[int]] = [[]]
    for i, wide in enumerate(widths[1:], 1):
        if width is not None and taken[-1] and names + sum(widths[k] + 2 for k in taken[-1]) + wide + 2 > width:
            taken.append([])
        taken[-1].append(i)
    return [
        ["  ".join([_short(r[0], names).ljust(names), *(r[k].rjust(widths[k]) for k in part)]) for r in cells] for part in taken
    ]


def _short(name: str, most: int) -> str:
    """A name cut in its middle: those of one column's levels begin alike."""
    head = (most - 1) // 3
    return name if len(name) <= most else f"{name[:head]}…{name[head + 1 - most :]}"


def _within(notes: Sequence[str], width: int | None) -> list[str]:
    return list(notes) if width is None else [line for note in notes for line in textwrap.wrap(note, width)]


def table(fit: Fit, level: float = 0.95) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headings and rows of the coefficient table; without intervals only names and coefficients."""
    if fit.not_covered is not None:
        return ("", "coef"), [(name, number(value)) for name, value in fit.coef.items()]
    low, high = (1 - level) / 2, (1 + level) / 2
    found, limits = fit.intervals, fit.intervals.limits(level)
    headings = ("", "coef", "estimate", "std err", "sampling", "privacy", "z", "P>|z|", f"[{low:g}", f"{high:g}]")
    rows = []
    for i, name in enumerate(found.names):
        shown = [number(fit.coef[name])]
        if found.identified[i]:
            parts = (found.estimate, found.stderr, found.sampling, found.privacy)
            shown += [*(number(v[i]) for v in parts), f"{found.z[i]:.2f}", f"{found.p[i]:.3f}", *(number(v) for v in limits[i])]
        else:
            shown += ["not normal" if name in fit.not_normal else "not identified", *[""] * 7]
        rows.append((name, *shown))
    return headings, rows


def number(value: float | None) -> str:
    """Four significant digits; whole numbers without a fraction."""
    if value is None:
        return "–"
    if abs(value) >= 1e4 and np.isfinite(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _notes(fit: Fit) -> tuple[str, ...]:
    if fit.not_covered is not None:
        return (fit.not_covered,)
    missing = int(np.sum(~fit.intervals.identified)) - len(fit.not_normal)
    hidden = (f"{missing} of {len(fit.intervals.names)} coefficients are not identified: the noise hides them.",)
    normal = (NORMAL,) if fit.model in {"logistic", "poisson"} else ()
    return NOTES + normal + (hidden if missing else ())
