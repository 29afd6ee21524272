"""What the budget was spent on, as shares of ρ."""

from __future__ import annotations

from typing import Any

from ddssp.encoding import Block, Encoding
from ddssp.marginal import Measurement
from ddssp.privacy.curator import Form, Query
from ddssp.released import Release


def spending(release: Release) -> list[dict[str, Any]]:
    """One entry per measurement, largest share first, and one for whatever else the mechanism asked.

    A measurement with squared sensitivity p and noise σ costs p/2σ², of ρ in all; tables have p = 1. Where up to k records of a
    person count, k² times that.
    """
    rho = float(release.rho if release.contribution is None else release.contribution.for_records(release.rho))
    found = [_entry(m, _squared_sensitivity(m, release) / (2 * m.sigma**2 * rho)) for m in release.measurements]
    found.sort(key=lambda entry: -float(entry["share"]))
    rest = 1 - sum(float(entry["share"]) for entry in found)
    if rest > 1e-3:
        found.append({"label": _what_else(release), "columns": [], "share": rest, "sigma": None, "kind": "other"})
    return found


def _entry(m: Measurement, share: float) -> dict[str, Any]:
    label = " × ".join(m.clique) or "number of records"
    return {"label": label, "columns": list(m.clique), "share": share, "sigma": m.sigma, "kind": _kind(m)}


def _kind(m: Measurement) -> str:
    if not m.clique:
        return "total"
    if len(m.clique) == 1:
        return "one column"
    return "squares" if m.clique[0] == m.clique[1] else "pairs"


def _squared_sensitivity(m: Measurement, release: Release) -> float:
    if release.marginals is not None:
        return 1.0
    encoding: Encoding = release.encoding
    blocks: list[Block] = [encoding.block(None)] * (2 - len(m.clique)) + [encoding.block(name) for name in m.clique]
    left, right = blocks
    square = left.column is not None and left.column == right.column and left.is_scalar
    return Query(left=left, right=right, form=Form.SQUARE if square else Form.PRODUCT).p


def _what_else(release: Release) -> str:
    if release.fitted is not None:
        return "gradients and residual histograms of the fit"
    return "choosing which tables to measure"
