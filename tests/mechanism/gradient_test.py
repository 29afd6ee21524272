"""A round's question and what its answer says: against rows without noise, and against the noise that answers have."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise
from ddssp.inference.geometry import Counts, geometry
from ddssp.mechanism import gradient as module
from ddssp.mechanism import task
from ddssp.mechanism.clip import FIRST_REACH, LEAST_WITHIN, REACH, SETTLED
from ddssp.mechanism.gradient import coordinate_costs, counted, evidence, question
from ddssp.mechanism.state import Problem, State
from ddssp.model.fit import design_of
from ddssp.privacy.curator import Link, Residuals
from ddssp.schema import Schema
from ddssp.secret.counts import Layout, counts
from ddssp.secret.rows import Rows
from ddssp.secret.table import batches
from ddssp.secret.vault import Vault

SCHEMA = Schema(
    columns={
        "x": {"kind": "ordinal", "levels": 11},
        "g": {"kind": "categorical", "levels": list("abcd")},
        "h": {"kind": "categorical", "levels": list("uvw")},
        "y": {"kind": "numeric", "low": -1, "high": 1},
    }
)
ENCODING = Encoding.centred(SCHEMA)
PROBLEM = Problem(encoding=ENCODING, target="y", link=Link.IDENTITY)


def rows(n: int = 3000, slope: float = 0.05) -> dict[str, np.ndarray]:
    """A number that is low in most rows, and a target with a long tail to one side."""
    rng = np.random.default_rng(0)
    x, g = np.minimum(rng.geometric(0.6, n) - 1, 10), rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.09, 0.01])
    y = np.clip(slope * x - 0.5 + 0.1 * rng.exponential(1, n) + 0.3 * (g == "d"), -1, 1)
    return {"x": x, "g": g, "h": rng.choice(list("uvw"), n), "y": y}


def vault(slope: float = 0.05) -> Vault:
    data, columns = rows(slope=slope), tuple(SCHEMA.columns)
    exact = counts(batches(data, columns), Layout.of(SCHEMA, ENCODING))
    return Vault(exact, Fraction(10**6), NoNoise(), Rows(lambda: batches(data, columns), SCHEMA, ENCODING, exact.n))


def started(clip: float, sd: dict[str, float | list[float]]) -> State:
    """A state with exact first moments, and coefficients that are known to within `sd`."""
    state = task.first(vault(), PROBLEM, 1e4, 1e5)
    parts = [np.broadcast_to(sd[b.column], b.rows) for b in PROBLEM.blocks]
    return replace(state, clip=clip, belief=replace(state.belief, variance=np.concatenate(parts) ** 2))


UNSURE = {"x": 0.4, "g": [0.01, 0.02, 0.1, 0.5], "h": 0.001}


def test_what_is_not_known_to_within_the_clip_has_a_clip_of_its_own_and_numbers_bring_a_constant():
    state = started(0.1, UNSURE)
    asked = question(PROBLEM, state, 1.0, 0.1)
    assert [b.column for b in asked.working.features] == [None, "x", "g", "h", None]
    assert [c is not None for c in asked.clips] == [False, True, True, False, True]
    assert asked.clips[4] is asked.clips[1]
    assert asked.working.theta.tolist() == [*state.theta, 0.0]
    charges = [asked.clip**2 * k / (2 * s**2) for k, s in zip([1, 1, 1, 2 / 3, 1], asked.sigmas, strict=True)]
    assert sum(charges) == pytest.approx(1 / task.SLACK**2)


def test_own_clips_are_wider_in_the_first_rounds_where_the_noise_is_low():
    first = replace(started(0.01, UNSURE), calm=True)
    curator, asked = vault(), question(PROBLEM, first, 1.0, 0.1)
    heard = evidence(PROBLEM, first, asked, curator.residuals(asked)[0])
    later = question(PROBLEM, replace(first, evidence=(heard,) * SETTLED), 1.0, 0.1)
    free = slice(1, 3)  # neither at the clip of all nor at the end
    assert asked.clips[2][free] == pytest.approx(FIRST_REACH * np.array([0.02, 0.1]))
    assert later.clips[2][free] == pytest.approx(REACH * np.array([0.02, 0.1]))
    between = question(PROBLEM, replace(first, evidence=(heard,) * (SETTLED - 1)), 1.0, 0.1)
    assert between.clips[2][free] == pytest.approx(2.25 * np.array([0.02, 0.1]))
    loud = question(PROBLEM, replace(first, calm=False), 1.0, 0.1)
    assert loud.clips[2][free] == pytest.approx(REACH * np.array([0.02, 0.1]))


def test_a_gradient_of_chances_has_one_clip():
    binary = Schema(columns={k: c for k, c in SCHEMA.columns.items() if k != "y"} | {"y": {"kind": "boolean"}})
    problem = Problem(encoding=Encoding.centred(binary), target="y", link=Link.LOGIT)
    data = rows() | {"y": rows()["y"] > -0.3}
    exact = counts(batches(data, tuple(binary.columns)), Layout.of(binary, problem.encoding))
    state = task.first(Vault(exact, Fraction(10**6), NoNoise(), None), problem, 1e4, 1e5)
    assert question(problem, state, 1.0, 0.1).clips == (None,) * 4


def test_no_other_division_of_the_budget_leaves_less():
    """Σ a_j σ_j² at the same cost, a_j as the docstring says, wider clips with their louder noise; against other divisions."""
    state = started(0.1, UNSURE)
    asked = question(PROBLEM, state, 1.0, 0.1)
    g, costs = state.geometry, coordinate_costs(PROBLEM, state, 1.0)
    x, levels = g.block == 0, g.block == 1
    mean = np.where(levels, g.share, g.offset)
    louder = (asked.clips[1] / asked.clip) ** 2, (asked.clips[2] / asked.clip) ** 2
    assert (louder[0] > 1).all()
    assert (louder[1] > 1).any()
    a = np.array(
        [
            1 / state.weight + costs[~x] @ mean[~x] ** 2,
            costs[x] @ louder[0],
            costs[levels] @ louder[1],
            costs[g.block == 2].sum(),
            costs[x] @ (louder[0] * mean[x] ** 2),
        ]
    )
    kappa, best = np.array([1, 1, 1, 2 / 3, 1]), np.square(asked.sigmas)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = best * np.exp(rng.normal(0, 0.2, 5))
        other *= np.sum(kappa / other) / np.sum(kappa / best)
        assert a @ best <= a @ other * (1 + 1e-9)


@pytest.mark.parametrize("sd", [UNSURE, {"x": 1e-3, "g": 1e-3, "h": 1e-3}], ids=["own clips", "one clip"])
def test_without_noise_it_is_the_gradient_of_the_rows(sd):
    state = started(0.1, sd)
    asked = question(PROBLEM, state, 1.0, 0.1)
    heard = evidence(PROBLEM, state, asked, vault().residuals(asked)[0])
    Z = design_of(rows(), ENCODING, SCHEMA)
    Z, y = Z[:, : 1 + len(state.geometry.offset)], design_of(rows(), ENCODING, SCHEMA)[:, -1]
    r = y - Z @ state.theta
    Z = Z[:, 1:]
    judge = (Z - Z.mean(0)).T @ np.clip(r, -0.1, 0.1)
    if sd is UNSURE:
        wide = float(asked.clips[1][0])
        judge[0] = (Z[:, 0] - Z[:, 0].mean()) @ np.clip(r, -wide, wide)
        level = np.clip(r, -0.1, 0.1).sum()
        here = design_levels(rows()["g"])
        judge[1:5] = [np.clip(r[k], -c, c).sum() - k.mean() * level for k, c in zip(here, asked.clips[2], strict=True)]
    assert np.allclose(heard.gradient, judge, atol=0.05 * len(y) / 2**15 + 1e-6 * len(y))
    assert heard.at is state.belief.theta


def design_levels(column: np.ndarray) -> list[np.ndarray]:
    return [column == k for k in "abcd"]


def test_centred_by_the_clip_of_all_a_wide_number_would_have_an_effect_where_there_is_none():
    """Why a number brings a constant: residuals have one long tail, and nothing to do with x."""
    state = started(0.1, UNSURE)
    asked = question(PROBLEM, state, 1.0, 0.1)
    answer = list(vault(slope=0.0).residuals(asked)[0])
    right = evidence(PROBLEM, state, asked, answer).gradient[0]
    answer[4] = answer[0]
    wrong = evidence(PROBLEM, state, asked, answer).gradient[0]
    assert abs(right) < 10
    assert abs(wrong) > 10 * abs(right)


def test_the_belief_is_told_the_noise_that_answers_have():
    """Many answers of noise alone: of a wide number, of levels with clips of their own, and of a block without."""
    state = started(0.1, UNSURE)
    asked = question(PROBLEM, state, 1.0, 0.1)
    rng = np.random.default_rng(0)

    def noise() -> list[np.ndarray]:
        unit = [s / asked.clip for s in asked.sigmas]
        own = [np.full(b.rows, 0.1) if c is None else c for b, c in zip(asked.working.features, asked.clips, strict=True)]
        both = [np.r_[c, np.ones(4)] if b.column == "g" else c for b, c in zip(asked.working.features, own, strict=True)]
        return [rng.normal(0, s, len(c)) * c for s, c in zip(unit, both, strict=True)]

    drawn = [evidence(PROBLEM, state, asked, noise()) for _ in range(20_000)]
    found, told = np.var([e.gradient for e in drawn], axis=0), drawn[0].noise
    assert np.allclose(found[:5], told[:5], rtol=0.06)
    assert (found <= told * 1.06).all()  # a block whose mean is taken off has a little less


def test_levels_with_clips_of_their_own_tell_how_many_they_are():
    """Without noise, with residuals well within the clips; and a block without such clips tells nothing."""
    state = started(0.1, {"x": 1e-3, "g": [1.0, 1.0, 1.0, 1.0], "h": 1e-3})
    state = replace(state, belief=replace(state.belief, variance=state.belief.variance * 0))
    asked = replace(question(PROBLEM, state, 1.0, 0.1), own=(None, None, np.full(4, 100.0), None))
    found = counted(PROBLEM, state, asked, vault().residuals(asked)[0], 1e-6)
    n = np.array([k.sum() for k in design_levels(rows()["g"])])
    assert found.precision[1:5] == pytest.approx(np.full(4, (asked.clip / asked.sigmas[2]) ** 2), rel=1e-3)
    assert found.weighted[1:5] / found.precision[1:5] == pytest.approx(n, rel=1e-3)
    assert not found.precision[[0, 5, 6, 7]].any()
    assert not found.weighted[[0, 5, 6, 7]].any()


def test_records_beyond_their_clip_are_made_up_for_and_the_guess_is_not_trusted():
    state = started(0.1, UNSURE)
    asked = question(PROBLEM, state, 1e5, 0.1)
    narrow, wide = (counted(PROBLEM, state, asked, vault().residuals(asked)[0], v) for v in (1e-6, 10.0))
    levels = slice(1, 5)
    assert (wide.precision[levels] < narrow.precision[levels]).all()
    assert wide.weighted[1] / wide.precision[1] == pytest.approx(
        np.asarray(vault().residuals(asked)[0][2][4]) / LEAST_WITHIN, rel=1e-9
    )


def test_counts_are_averaged_with_the_histogram_by_inverse_variance():
    release = curate(rows(), plan(SCHEMA, epsilon=50, delta=1e-6, mechanism="moments"), noise=NoNoise())
    known = {m.clique: m for m in release.measurements}
    sigma, n = known["g",].sigma, np.array([k.sum() for k in design_levels(rows()["g"])])
    told = Counts.none(8).plus(np.r_[0.0, n + 300, 0, 0, 0], np.r_[0.0, np.full(4, 1 / sigma**2), 0, 0, 0])
    alone, both = geometry(PROBLEM.blocks, known), geometry(PROBLEM.blocks, known, told)
    assert alone.share[1:5] == pytest.approx(n / n.sum(), abs=1e-6)
    assert both.share[1:5] == pytest.approx((n + 150) / (n + 150).sum(), abs=1e-6)
    assert both.doubt[1:5] == pytest.approx(alone.doubt[1:5] / 2, rel=1e-3)
    assert both.share[5:].tolist() == alone.share[5:].tolist()


def test_the_module_asks_nothing_by_itself():
    """It makes questions and reads answers; only the task holds a Curator."""
    assert not any("Curator" in str(f.__annotations__) for f in (question, evidence, counted))
    assert Residuals is module.Residuals
