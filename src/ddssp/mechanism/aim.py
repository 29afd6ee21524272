r"""AIM: select the worst estimated marginal, measure it, estimate all again (McKenna, Mullins, Sheldon, Miklau 2022).

    T = 16 d,  σ₀² = T / (2 · 0.9 · ρ),  ε₀² = 8 · 0.1 · ρ / T;    all one-way marginals first, at σ₀
    score of r:  w_r (‖M_r(D) − M_r(p̂)‖₁ − √(2/π) σ m_r),          w_r = Σ over the workload c_r' |r ∩ r'|

The change a measurement made to its own marginal is compared with what noise alone would do, √(2/π) σ m_r; if it is smaller,
σ is halved and ε doubled. When less than two rounds' cost is left, one last round takes all of it, 0.9 to the measurement.
What is spent is read back from the Curator, and the pair marginals are released themselves: no rows are synthesised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import combinations
from numbers import Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ddssp.domain import Clique, Domain
from ddssp.encoding import Encoding, indicator, intercept
from ddssp.inference import pgm, tree
from ddssp.marginal import Measurement, PairMarginals
from ddssp.mechanism import Outcome, Progress
from ddssp.privacy.budget import BudgetError, gaussian_rho, selection_rho
from ddssp.privacy.curator import Curator, Discrepancy, Query
from ddssp.schema import Schema

ROUNDS = 16
"""Rounds per attribute that the first σ is made for."""

SHARE = 0.9
"""Part of a round's budget that goes to its measurement; the rest to the selection."""

TARGET_WEIGHT = 10.0
"""Weight of the pairs of a declared target, against 1 of any other pair."""

HEAVIEST = 1e100
"""Largest weight of a marginal: sums of weights stay finite."""

MODEL_SIZE = 200.0
"""MB that the graphical model may take at the end, as in the paper."""

SAFE = 4
"""How much larger than the bound a greedily built junction tree is taken to be at most."""

WIDE = 60
"""Attributes beyond which `auto` takes the tree step."""


class Inference(Enum):
    """How all marginals are estimated from the measured ones."""

    PGM = "pgm"
    TREE = "tree"

    @property
    def mechanism(self) -> str:
        """What a release made with it calls its mechanism."""
        return "aim" if self is Inference.PGM else "aim-tree"

    @classmethod
    def named(cls, name: str, domain: Domain) -> Inference:
        """`pgm`, `tree`, or by `auto` what suits the domain: pgm for up to WIDE attributes."""
        if name not in {"auto", "pgm", "tree"}:
            raise ValueError(f"inference must be auto, pgm or tree, got {name!r}.")
        return cls(name) if name != "auto" else cls.PGM if len(domain) <= WIDE else cls.TREE


class Model(Protocol):
    def pair_marginals(self) -> PairMarginals: ...


class Engine(Protocol):
    def estimate(self, domain: Domain, measurements: Sequence[Measurement], *, start: Any = None) -> Model:
        """The model of noisy marginals; `start` is that of all but the last of them."""
        ...


@dataclass(frozen=True)
class Workload:
    """The marginals that a release should get right, each with its weight c.

    >>> d = Domain.of(a=2, b=3, c=2)
    >>> Workload.target(d, "b").weights
    {('a', 'b'): 1.0, ('b', 'c'): 1.0}
    """

    weights: Mapping[Clique, float]

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError("workload must name at least one marginal, got none; Workload.pairs(domain) is all pairs.")
        for clique, weight in self.weights.items():
            given: Any = weight
            positive = isinstance(given, Real) and 0 < float(given) <= HEAVIEST
            if not (positive and 1 <= len(clique) <= 2 and len({*clique}) == len(clique)):
                raise ValueError(
                    f"workload must give one or two attributes a weight over 0, up to {HEAVIEST:g}, got {clique}: {weight!r}."
                )

    @classmethod
    def pairs(cls, domain: Domain) -> Workload:
        """All pairs; of a single attribute, itself."""
        return cls(dict.fromkeys(domain.pairs or (domain.names,), 1.0))

    @classmethod
    def target(cls, domain: Domain, target: str) -> Workload:
        """The pairs of one attribute."""
        _require_attributes([target], domain)
        return cls({c: w for c, w in cls.pairs(domain).weights.items() if target in c})

    @classmethod
    def towards(cls, domain: Domain, target: str) -> Workload:
        """All pairs, those of one attribute with TARGET_WEIGHT."""
        return cls({c: TARGET_WEIGHT if target in c else w for c, w in cls.pairs(domain).weights.items()})

    def require(self, domain: Domain) -> None:
        """Refuses a workload of attributes that the domain does not have."""
        _require_attributes([name for clique in self.weights for name in clique], domain)

    def candidates(self, domain: Domain) -> Candidates:
        """The downward closure: every non-empty part r of a clique, with w_r = Σ c_r' |r ∩ r'|."""
        parts = {p for c in self.weights for size in range(1, len(c) + 1) for p in combinations(c, size)}
        by_name = dict.fromkeys(domain.names, 0.0)
        for c, w in self.weights.items():
            for name in c:
                by_name[name] += w
        cliques = tuple(sorted(parts, key=lambda r: (len(r), *map(domain.names.index, r))))
        return Candidates(
            cliques=cliques,
            weights=np.array([sum(by_name[name] for name in r) for r in cliques]),
            cells=np.array([domain.size(r) for r in cliques], np.float64),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Candidates:
    """Marginals that a round may choose from: w_r and the number of cells m_r of each."""

    cliques: tuple[Clique, ...]
    weights: NDArray[np.float64]
    cells: NDArray[np.float64]

    def keep(self, allowed: Callable[[Clique], bool]) -> Candidates:
        i = [place for place, clique in enumerate(self.cliques) if allowed(clique)]
        return Candidates(cliques=tuple(self.cliques[k] for k in i), weights=self.weights[i], cells=self.cells[i])


@dataclass(frozen=True, kw_only=True)
class AIM:
    """The paper's mechanism.

    Guarantees: spends at most what the Curator holds, and all of it but a relative 1e-6.

    Args:
        target: column whose pairs matter more.
        workload: what to get right instead of all pairs.
        model_size: limit of the graphical model in MB once the whole budget is used (pgm).
    """

    target: str | None = None
    workload: Workload | None = None
    inference: Inference = Inference.PGM
    model_size: float = MODEL_SIZE

    def __post_init__(self) -> None:
        given: Any = self.model_size
        if not (isinstance(given, Real) and float(given) > 0):
            raise ValueError(f"model_size must be a positive number of MB, got {self.model_size!r}.")

    @property
    def name(self) -> str:
        return self.inference.mechanism

    @property
    def passes(self) -> int:
        return 0

    @property
    def perturbed(self) -> bool:
        return False

    def counted(self, schema: Schema) -> Encoding:
        domain = schema.domain()
        if self.workload is not None:
            self.workload.require(domain)
        return Encoding(tuple(indicator(a.name, a.size) for a in domain))

    def run(self, curator: Curator, schema: Schema, progress: Progress) -> Outcome:
        domain, budget = schema.domain(), curator.remaining
        candidates = self._workload(domain).candidates(domain)
        sigma, epsilon = first_noise(budget, domain)
        progress("one-way marginals", 0.0)
        measurements = measured(curator, domain, [(name,) for name in domain.names], sigma)
        model = self._engine.estimate(domain, measurements)
        estimate = model.pair_marginals()
        last = False
        while not last:
            last = curator.remaining < 2 * (gaussian_rho(1, sigma) + selection_rho(epsilon))
            if last:
                sigma, epsilon = last_noise(curator.remaining)
            # SELECT
            used = 1.0 if last else 1 - float((curator.remaining - gaussian_rho(1, sigma) - selection_rho(epsilon)) / budget)
            allowed = self._affordable(candidates, domain, measurements, used)
            clique = selected(curator, allowed, estimate, sigma=sigma, epsilon=epsilon)
            # MEASURE
            progress(" × ".join(clique), 1 - float(curator.remaining / budget))
            measurements += measured(curator, domain, [clique], least_sigma(curator.remaining) if last else sigma)
            # GENERATE
            model = self._engine.estimate(domain, measurements, start=model)
            before, estimate = estimate, model.pair_marginals()
            change = np.abs(_table(estimate, clique) - _table(before, clique)).sum()
            if change <= math.sqrt(2 / math.pi) * sigma * domain.size(clique):
                sigma, epsilon = sigma / 2, epsilon * 2
        marginals = estimate if self.inference is Inference.PGM else tree.semidefinite(estimate)
        return Outcome(measurements=tuple(measurements), marginals=marginals)

    @property
    def _engine(self) -> Engine:
        return pgm if self.inference is Inference.PGM else tree

    def _affordable(
        self, candidates: Candidates, domain: Domain, measurements: Sequence[Measurement], used: float
    ) -> Candidates:
        """The candidates with which a graphical model stays within its limit times the share of the budget used.

        Edge cases: what is measured already is always allowed; the tree step has no limit.
        """
        if self.inference is Inference.TREE:
            return candidates
        held, sizes = {m.clique for m in measurements}, domain.sizes
        limit, now = self.model_size * used, pgm.model_size(domain, held)

        def fits(clique: Clique) -> bool:
            # Joining the smaller attribute to every clique would do, so most candidates need no tree of their own.
            most = now * min(sizes[name] for name in clique)
            return clique in held or SAFE * most <= limit or pgm.model_size(domain, (*held, clique)) <= limit

        return candidates.keep(fits)

    def _workload(self, domain: Domain) -> Workload:
        if self.workload is not None:
            return self.workload
        return Workload.pairs(domain) if self.target is None else Workload.towards(domain, self.target)


def _require_attributes(names: Sequence[str], domain: Domain) -> None:
    for name in names:
        if name not in domain.names:
            raise ValueError(f"workload must name columns of the schema, got {name!r}; it has {', '.join(domain.names)}.")


def first_noise(rho: Fraction, domain: Domain) -> tuple[float, float]:
    """σ₀ and ε₀: as if there were to be ROUNDS · d equal rounds."""
    each = float(rho) / (ROUNDS * len(domain))
    if not each > 0:
        raise BudgetError(f"a budget of ρ = {float(rho):.3g} is too small for {len(domain)} columns; ask for a larger epsilon.")
    return math.sqrt(1 / (2 * SHARE * each)), math.sqrt(8 * (1 - SHARE) * each)


def last_noise(remaining: Fraction) -> tuple[float, float]:
    """σ and ε of one round that takes all that remains."""
    return math.sqrt(1 / (2 * SHARE * float(remaining))), math.sqrt(8 * (1 - SHARE) * float(remaining))


def least_sigma(remaining: Fraction) -> float:
    """The σ of a marginal that costs all that remains, rounded up until the exact charge is covered."""
    sigma, step = math.sqrt(1 / (2 * float(remaining))), 1e-13
    while gaussian_rho(1, sigma) > remaining:
        sigma, step = sigma * (1 + step), 2 * step
    return sigma


def measured(curator: Curator, domain: Domain, cliques: Sequence[Clique], sigma: float) -> list[Measurement]:
    """Noisy marginals of one or two attributes each."""
    blocks = {a.name: indicator(a.name, a.size) for a in domain}
    asked = [Query(left=blocks[c[0]] if len(c) == 2 else intercept(), right=blocks[c[-1]]) for c in cliques]
    answers = curator.measure(asked, [sigma] * len(asked))
    return [
        Measurement(clique=c, values=y.reshape(domain.shape(c)), sigma=sigma) for c, y in zip(cliques, answers, strict=True)
    ]


def selected(curator: Curator, candidates: Candidates, estimate: PairMarginals, *, sigma: float, epsilon: float) -> Clique:
    """A candidate whose estimate is far off, more than noise would put it off again."""
    scores = Discrepancy(
        cliques=candidates.cliques,
        estimate=estimate,
        weights=candidates.weights,
        penalties=math.sqrt(2 / math.pi) * sigma * candidates.cells,
    )
    return candidates.cliques[curator.select(scores, epsilon)]


def _table(marginals: PairMarginals, clique: Clique) -> NDArray[np.float64]:
    return marginals.one_way(clique[0]) if len(clique) == 1 else marginals[clique[0], clique[1]]
