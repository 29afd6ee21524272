"""The paper's claims, each with what was measured and a verdict.

A verdict counts cells (dataset × ε): HOLDS in all of them, IN PART in more than half, else DOES NOT HOLD. Scores are means
over trials; methods that share a seed's noise are compared seed by seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.stats import spearmanr

from ddssp.experiments.page import Table
from ddssp.experiments.protocol import LINEAR, LOGISTIC
from ddssp.experiments.summary import Mean, Summary

SMALL = 0.1
"""ε up to which the paper's low-ε regime goes."""

CLEAR = 0.6
"""Rank correlation of nine problems that chance exceeds in one case of twenty."""


class Verdict(Enum):
    HOLDS = "holds"
    PART = "holds in part"
    FAILS = "does not hold"
    UNKNOWN = "not measured"

    @classmethod
    def of(cls, cells: Iterable[bool]) -> Verdict:
        found = list(cells)
        if not found:
            return cls.UNKNOWN
        return cls.HOLDS if all(found) else cls.PART if sum(found) > len(found) / 2 else cls.FAILS


@dataclass(frozen=True, kw_only=True)
class Claim:
    """`why` says where a difference from the paper comes from, should there be one."""

    statement: str
    verdict: Verdict
    measured: str
    table: Table
    why: str


def claims(summary: Summary, domains: Mapping[str, float]) -> list[Claim]:
    """All of them; DD-SSP is AIM with the graphical model where that was run, else with the tree step.

    Args:
        domains: dataset → log₁₀ of how many different records there can be.
    """
    return [
        alike(summary),
        below_adassp(summary),
        above_objpert(summary),
        above_synth(summary),
        runtime(summary, domains),
    ]


def ddssp_methods(summary: Summary) -> tuple[str, str]:
    held = {*summary.methods(LINEAR), *summary.methods(LOGISTIC)}
    return ("ddssp", "aim-synth") if "ddssp" in held else ("ddssp-tree", "aim-synth-tree")


def alike(summary: Summary) -> Claim:
    """DD-SSP ≈ AIM-Synth: MSE within 10 %, AUC within .01, or closer than two standard errors of the difference."""
    ours, rows = ddssp_methods(summary)

    def same(kind: str, name: str, e: float) -> tuple[str, bool] | None:
        d, base = summary.difference(kind, name, (ours, rows), e), summary.mean(kind, name, ours, e)
        if d is None or base is None:
            return None
        near = abs(d.value) <= (0.1 * base.value if kind == LINEAR else 0.01)
        return f"{d.value:+.2g}", near or abs(d.value) <= 2 * np.nan_to_num(d.error)

    table, verdict, count = _cells(summary, (LINEAR, LOGISTIC), same, "DD-SSP − AIM-Synth")
    return Claim(
        statement="DD-SSP ≈ AIM-Synth",
        verdict=verdict,
        measured=f"alike in {count} cells (MSE within 10 %, AUC within .01, or within two standard errors)",
        table=table,
        why="On logistic regression the two do not fit the same thing: DD-SSP the degree-2 likelihood, AIM-Synth the true one, "
        "whose best AUC is higher. With the tree step the tables need not be those of any rows, so rows cannot match them all.",
    )


def below_adassp(summary: Summary) -> Claim:
    """DD-SSP's MSE is below AdaSSP's on all datasets but ACSIncome, where they are similar (within a quarter)."""
    ours = ddssp_methods(summary)[0]

    def smaller(kind: str, name: str, e: float) -> tuple[str, bool] | None:
        a, b = summary.mean(kind, name, ours, e), summary.mean(kind, name, "adassp", e)
        if a is None or b is None:
            return None
        ratio = a.value / b.value
        return f"{ratio:.2g}×", 0.8 <= ratio <= 1.25 if name.startswith("ACSincome") else ratio <= 1

    table, verdict, count = _cells(summary, (LINEAR,), smaller, "MSE of DD-SSP / AdaSSP as printed")
    return Claim(
        statement="DD-SSP ≤ AdaSSP on all datasets except ACSIncome, where they are similar",
        verdict=verdict,
        measured=f"as claimed in {count} cells (below 1; on ACSIncome within 0.8 … 1.25)",
        table=table,
        why="AdaSSP as printed is a stronger opponent than AdaSSP as in the paper's code, and Taxi is a substitute.",
    )


def above_objpert(summary: Summary) -> Claim:
    """DD-SSP's AUC is above ObjPert's up to ε = .1, and not below it by more than .02 beyond."""
    ours = ddssp_methods(summary)[0]

    def larger(kind: str, name: str, e: float) -> tuple[str, bool] | None:
        a, b = summary.mean(kind, name, ours, e), summary.mean(kind, name, "objpert", e)
        if a is None or b is None:
            return None
        d = a.value - b.value
        return f"{d:+.3f}", d >= (0 if e <= SMALL else -0.02)

    table, verdict, count = _cells(summary, (LOGISTIC,), larger, "AUC of DD-SSP − ObjPert (Kifer et al.)")
    return Claim(
        statement="DD-SSP ≥ ObjPert at small ε, and close to it at larger ε",
        verdict=verdict,
        measured=f"as claimed in {count} cells (above for ε ≤ .1, at most .02 below beyond)",
        table=table,
        why="ObjPert minimises the true loss, whose best AUC is above that of DD-SSP's degree-2 polynomial, so with enough "
        "budget it goes past; and at ε = .05 single trials of either spread by several hundredths.",
    )


def above_synth(summary: Summary) -> Claim:
    """DD-SSP's AUC is above AIM-Synth's on Adult and ACSIncome."""
    ours, rows = ddssp_methods(summary)

    def above(kind: str, name: str, e: float) -> tuple[str, bool] | None:
        d = summary.difference(kind, name, (ours, rows), e)
        return None if d is None or name not in {"adult", "ACSincome"} else (_signed(d), d.value > 0)

    table, verdict, count = _cells(summary, (LOGISTIC,), above, "AUC of DD-SSP − AIM-Synth")
    means = {
        name: float(np.mean([d.value for d in found]))
        for name in ("adult", "ACSincome")
        if (found := [d for e in summary.epsilons() if (d := summary.difference(LOGISTIC, name, (ours, rows), e))])
    }
    on_average = ", ".join(f"{name} {value:+.4f}" for name, value in means.items())
    return Claim(
        statement="DD-SSP is slightly above AIM-Synth on Adult and ACSIncome (logistic)",
        verdict=verdict,
        measured=f"above in {count} cells; on average over ε {on_average}",
        table=table,
        why="Where budget is small the degree-2 likelihood is the more robust of the two; where it is not, the true one that "
        "AIM-Synth fits has the higher ceiling.",
    )


def runtime(summary: Summary, domains: Mapping[str, float]) -> Claim:
    """AIM's seconds grow with ε on every dataset, and from dataset to dataset with the number of possible records.

    The second is a rank correlation of at least CLEAR.
    """
    ours = ddssp_methods(summary)[0]
    means = {
        (kind, name): {e: m.value for e in summary.epsilons() if (m := summary.mean(kind, name, ours, e, "seconds"))}
        for kind in (LINEAR, LOGISTIC)
        for name in summary.datasets(kind)
    }
    means = {k: v for k, v in means.items() if len(v) > 1}
    growth = [v[max(v)] > v[min(v)] for v in means.values()]
    rank = []
    for e in summary.epsilons():
        timed = [(domains[name], v[e]) for (_, name), v in means.items() if e in v]
        if len(timed) > 2:
            rank.append(float(spearmanr(*zip(*timed, strict=True)).statistic))
    rows = [
        [
            f"{summary.label(name)} ({kind})",
            f"10^{domains[name]:.1f}",
            *(f"{v[e]:.1f}" if e in v else "" for e in summary.epsilons()),
        ]
        for (kind, name), v in sorted(means.items(), key=lambda item: domains[item[0][1]])
    ]
    correlation = f"; rank correlation with the domain {', '.join(f'{r:+.2f}' for r in rank)} over ε" if rank else ""
    return Claim(
        statement="AIM's runtime grows with ε and with the domain",
        verdict=Verdict.of([*growth, *(r >= CLEAR for r in rank)]),
        measured=f"longer at the largest ε than at the smallest on {sum(growth)} of {len(growth)} problems{correlation}",
        table=Table(["seconds of DD-SSP", "domain", *(f"ε = {e:g}" for e in summary.epsilons())], rows),
        why="A round is dearer in a larger domain, but there are fewer of them: more noise in larger tables ends AIM earlier.",
    )


Judge = Callable[[str, str, float], tuple[str, bool] | None]


def _cells(summary: Summary, kinds: Sequence[str], judge: Judge, title: str) -> tuple[Table, Verdict, str]:
    """The judge's figure for every dataset × ε (those that do not agree in brackets), the verdict, and `k of n`."""
    rows, agreed = [], []
    for kind in kinds:
        for name in summary.datasets(kind):
            found = [judge(kind, name, e) for e in summary.epsilons()]
            agreed += [f[1] for f in found if f is not None]
            if any(found):
                rows.append(
                    [f"{summary.label(name)} ({kind})", *("" if f is None else f[0] if f[1] else f"[{f[0]}]" for f in found)]
                )
    table = Table([title, *(f"ε = {e:g}" for e in summary.epsilons())], rows)
    return table, Verdict.of(agreed), f"{sum(agreed)} of {len(agreed)}"


def _signed(mean: Mean) -> str:
    return f"{mean.value:+.4f}" if np.isnan(mean.error) else f"{mean.value:+.4f} ± {mean.error:.4f}"
