"""The methods by name: what each is, which regressions it does, and how it is called.

A method takes a problem and a trial and returns coefficients; its own file says how it works and what noise it draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ddssp.experiments.adassp import AS_IN_CODE, AS_PRINTED, Shares, adassp
from ddssp.experiments.aim import aim_synth, ddssp, release_and_seconds
from ddssp.experiments.dpsgd import dpsgd
from ddssp.experiments.noise import SeededNoise
from ddssp.experiments.nonprivate import nonprivate
from ddssp.experiments.objpert import objpert, objpert_tight
from ddssp.experiments.peers import diffprivlib
from ddssp.experiments.problem import Array, Coefficients, Problem
from ddssp.experiments.product import product
from ddssp.experiments.protocol import DELTA, LINEAR, LOGISTIC
from ddssp.experiments.ssp import ssp, ssp_tight
from ddssp.privacy.budget import rho_of
from ddssp.secret.noise import OpenDPNoise


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run: ε (ignored without privacy), the seed of its noise, and the MB of AIM's graphical model."""

    epsilon: float
    seed: int
    model_size: float

    @property
    def noise(self) -> SeededNoise:
        return SeededNoise(self.seed)


Fit = Callable[[Problem, Trial], tuple[Coefficients, float]]
"""Coefficients, and the processor seconds they took: those of a busy machine are hardly more."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method.

    Args:
        family: names the release that methods share with the same seed.
        graphical: whether the size of AIM's graphical model matters.
        cost: seconds it takes, roughly, for the time left.
    """

    name: str
    label: str
    fit: Fit
    kinds: tuple[str, ...] = (LINEAR, LOGISTIC)
    private: bool = True
    family: str = ""
    graphical: bool = False
    cost: float = 1.0


def _timed(fit: Callable[[Problem, Trial], Coefficients]) -> Fit:
    def run(p: Problem, t: Trial) -> tuple[Coefficients, float]:
        start = time.process_time()
        found = fit(p, t)
        return found, time.process_time() - start

    return run


def _statistics(fit: Callable[[Array, Array, float, Trial], Array]) -> Fit:
    """Of X'X, X'y and ‖X‖; making the first two counts as part of the method."""

    def run(p: Problem, t: Trial) -> Coefficients:
        XtX, Xty = p.equations(p.marginals)
        return Coefficients(theta=fit(XtX, Xty, p.encoding.norm_bound, t), encoding=p.encoding)

    return _timed(run)


def _rows(fit: Callable[[Problem, float, Trial], Array]) -> Fit:
    """Of the rows X, y and ‖X‖."""
    return _timed(lambda p, t: Coefficients(theta=fit(p, p.row_encoding.norm_bound, t), encoding=p.row_encoding))


def _adassp(shares: Shares) -> Fit:
    return _statistics(
        lambda A, b, bound, t: adassp(A, b, bound=bound, epsilon=t.epsilon, delta=DELTA, noise=t.noise, shares=shares)
    )


def _aim(inference: str, *, synthetic: bool) -> Fit:
    def run(p: Problem, t: Trial) -> tuple[Coefficients, float]:
        release, seconds = release_and_seconds(p, t.epsilon, t.seed, inference, t.model_size)
        start = time.process_time()
        found = aim_synth(p, release, t.seed) if synthetic else ddssp(p, release)
        return found, seconds + time.process_time() - start

    return run


def _product(mechanism: str) -> Fit:
    return _timed(lambda p, t: product(p, mechanism, epsilon=t.epsilon, noise=t.noise))


METHODS = {
    m.name: m
    for m in (
        Method(name="nonprivate", cost=3, label="not private", fit=_timed(lambda p, _t: nonprivate(p)), private=False),
        Method(
            name="ddssp", cost=10, label="DD-SSP (AIM pgm)", fit=_aim("pgm", synthetic=False), family="aim-pgm", graphical=True
        ),
        Method(name="ddssp-tree", cost=5, label="DD-SSP (AIM tree)", fit=_aim("tree", synthetic=False), family="aim-tree"),
        Method(
            name="aim-synth", cost=8, label="AIM-Synth (pgm)", fit=_aim("pgm", synthetic=True), family="aim-pgm", graphical=True
        ),
        Method(name="aim-synth-tree", cost=8, label="AIM-Synth (tree)", fit=_aim("tree", synthetic=True), family="aim-tree"),
        Method(
            name="ssp",
            cost=0.1,
            label="SSP, plain composition",
            kinds=(LINEAR,),
            fit=_statistics(lambda A, b, bound, t: ssp(A, b, bound=bound, epsilon=t.epsilon, delta=DELTA, noise=t.noise)),
        ),
        Method(
            name="ssp-tight",
            cost=0.1,
            label="SSP, tight",
            kinds=(LINEAR,),
            fit=_statistics(
                lambda A, b, bound, t: ssp_tight(A, b, bound=bound, rho=float(rho_of(t.epsilon, DELTA)), noise=t.noise)
            ),
        ),
        Method(name="adassp", cost=0.1, label="AdaSSP as printed", kinds=(LINEAR,), fit=_adassp(AS_PRINTED)),
        Method(name="adassp-code", cost=0.1, label="AdaSSP as in the paper's code", kinds=(LINEAR,), fit=_adassp(AS_IN_CODE)),
        Method(
            name="objpert",
            cost=2,
            label="ObjPert (Kifer et al.)",
            kinds=(LOGISTIC,),
            fit=_rows(lambda p, bound, t: objpert(p.X, p.y, bound=bound, epsilon=t.epsilon, delta=DELTA, noise=t.noise)),
        ),
        Method(
            name="objpert-tight",
            cost=2,
            label="ObjPert, tight",
            kinds=(LOGISTIC,),
            fit=_rows(lambda p, bound, t: objpert_tight(p.X, p.y, bound=bound, epsilon=t.epsilon, delta=DELTA, noise=t.noise)),
        ),
        Method(
            name="dpsgd",
            cost=3,
            label="DP-SGD, untuned",
            fit=_rows(
                lambda p, bound, t: dpsgd(p.X, p.y, kind=p.kind, bound=bound, epsilon=t.epsilon, delta=DELTA, noise=t.noise)
            ),
        ),
        Method(name="moments", cost=1, label="moments (ours)", fit=_product("moments")),
        Method(name="task", cost=8, label="task (ours)", fit=_product("task")),
        Method(name="auto", cost=8, label="auto (ours)", fit=_product("auto")),
        Method(
            name="auto-opendp",
            cost=8,
            label="auto (ours), OpenDP's noise",
            fit=_timed(lambda p, t: product(p, "auto", epsilon=t.epsilon, noise=OpenDPNoise())),
        ),
        Method(
            name="diffprivlib",
            cost=20,
            label="diffprivlib",
            fit=_timed(lambda p, t: diffprivlib(p, epsilon=t.epsilon, seed=t.seed)),
        ),
    )
}
PEERS = ("diffprivlib",)
"""Methods that need an environment of their own."""

CHECKS = ("auto-opendp",)
"""Methods that only show that another gives the same with the product's noise; they cannot be repeated."""


def chosen(names: list[str] | None) -> tuple[Method, ...]:
    """The methods by name; where none is named, all that run in this environment and can be repeated."""
    if not names:
        return tuple(m for m in METHODS.values() if m.name not in PEERS + CHECKS)
    unknown = [n for n in names if n not in METHODS]
    if unknown:
        raise ValueError(f"methods must be among {', '.join(METHODS)}, got {unknown[0]!r}.")
    return tuple(METHODS[n] for n in names)
