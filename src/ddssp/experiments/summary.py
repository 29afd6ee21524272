"""From runs to means with standard errors, and differences between methods."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ddssp.experiments.protocol import LINEAR
from ddssp.experiments.records import Record

Array = NDArray[np.float64]

SCORE = {LINEAR: "mse", "logistic": "auc"}
"""The paper's scores; the smaller the better for the first, the larger for the second."""


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean over trials with its standard error."""

    value: float
    error: float
    trials: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Mean:
        v = np.array(list(values), np.float64)
        error = float(v.std(ddof=1) / np.sqrt(len(v))) if len(v) > 1 else float("nan")
        return cls(value=float(v.mean()), error=error, trials=len(v))

    def __str__(self) -> str:
        return f"{self.value:.3g}" if np.isnan(self.error) else f"{self.value:.3g} ± {self.error:.1g}"


class Summary:
    """The runs of one protocol by kind, dataset, method and ε.

    Edge cases: without privacy ε is None. Where AIM's graphical model was run with several sizes, the largest counts.
    """

    def __init__(self, runs: Iterable[Record], protocol: str) -> None:
        self._runs: dict[tuple[str, str, str, float | None], dict[int, Record]] = defaultdict(dict)
        for r in sorted(runs, key=lambda r: r["model_size"] or 0.0):
            if r["protocol"] == protocol:
                self._runs[r["kind"], r["dataset"], r["method"], r["epsilon"]][r["seed"]] = r
        self.protocol = protocol

    def datasets(self, kind: str) -> list[str]:
        return list(dict.fromkeys(d for k, d, _, _ in self._runs if k == kind))

    def methods(self, kind: str) -> list[str]:
        return list(dict.fromkeys(m for k, _, m, _ in self._runs if k == kind))

    def epsilons(self) -> list[float]:
        return sorted({e for _, _, _, e in self._runs if e is not None})

    def versions(self) -> list[tuple[str, int]]:
        """Which code made the runs, and how many; those that do not say come from before they did."""
        return Counter(r.get("code") or "unknown code" for runs in self._runs.values() for r in runs.values()).most_common()

    def trials(self) -> int:
        return max((len(r) for r in self._runs.values()), default=0)

    def is_substitute(self, dataset: str) -> bool:
        return any(r["substitute"] for (_, d, _, _), runs in self._runs.items() if d == dataset for r in runs.values())

    def label(self, dataset: str) -> str:
        """Its name, and whether it stands for another."""
        return f"{dataset} (substitute)" if self.is_substitute(dataset) else dataset

    def values(self, kind: str, dataset: str, method: str, epsilon: float | None, what: str | None = None) -> dict[int, float]:
        """Seed → score (or `what`), of those runs that have it."""
        found = self._runs.get((kind, dataset, method, epsilon), {})
        return {seed: r[what or SCORE[kind]] for seed, r in found.items() if r.get(what or SCORE[kind]) is not None}

    def mean(self, kind: str, dataset: str, method: str, epsilon: float | None, what: str | None = None) -> Mean | None:
        found = self.values(kind, dataset, method, epsilon, what)
        return Mean.of(found.values()) if found else None

    def difference(self, kind: str, dataset: str, methods: tuple[str, str], epsilon: float) -> Mean | None:
        """First minus second, seed by seed: both use the seed's noise, so what they share cancels."""
        a, b = (self.values(kind, dataset, m, epsilon) for m in methods)
        both = sorted(a.keys() & b.keys())
        return Mean.of(a[s] - b[s] for s in both) if both else None
