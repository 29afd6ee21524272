"""Residual passes: against one record at a time in exact arithmetic, and no record's part depends on any other."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

import judge
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise
from ddssp.frame import DataError
from ddssp.privacy.budget import BudgetError, gaussian_rho
from ddssp.privacy.curator import LARGEST, RESIDUAL, Link, Residuals, Working
from ddssp.schema import Schema
from ddssp.secret import rows as module
from ddssp.secret.counts import Layout, counts
from ddssp.secret.rows import Rows
from ddssp.secret.table import batches
from ddssp.secret.vault import Vault

COLUMNS = {
    "x": {"kind": "numeric", "low": -1, "high": 3},
    "o": {"kind": "ordinal", "levels": 3},
    "c": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "b": {"kind": "boolean"},
}
LINEAR = Schema(columns=COLUMNS | {"y": {"kind": "ordinal", "levels": 4}})
LOGIT = Schema(columns=COLUMNS | {"y": {"kind": "boolean"}})
SCHEMAS = {Link.IDENTITY: LINEAR, Link.LOGIT: LOGIT}
EDGES = (0.01, 0.1, 0.5, 1.0)
CELLS = {"x": [-1.0, 0.3, 3.0], "o": [0, 1, 2], "c": list("abc"), "b": [False, True]}
THETAS = {
    "zero": np.zeros(7),
    "odd": np.array([0.1, -0.7, 1 / 3, 0.21, -0.4, 0.05, 0.9]),
    "far": np.array([30.0, -11.0, 7.7, 5.0, -9.0, 2.0, 40.0]),
    "tiny": np.full(7, 1e-7),
}
CLIPS = (0.003, 0.1, 0.5, 1.7)


def asked(link: Link, theta=THETAS["odd"], clip: float = 0.5, edges=EDGES, levels=None, far=None) -> Residuals:
    """`levels` are clips of the levels of column c; `far` is one of column x, and of a second constant at the end."""
    *features, target = Encoding.centred(SCHEMAS[link]).blocks
    theta, clips = np.asarray(theta), {"c": levels, "x": None if far is None else [far]}
    own = tuple(None if (c := clips.get(b.column)) is None else np.asarray(c) for b in features)
    if far is not None:
        features, theta, own = [*features, features[0]], np.r_[theta, 0.0], (*own, np.array([far]))
    working = Working(features=tuple(features), target=target, theta=theta, link=link)
    own = () if levels is None and far is None else own
    sigmas = (1e6,) * len(features)
    return Residuals(working=working, clip=clip, sigmas=sigmas, edges=edges, sigma_bins=1e3, own=own)


def rows_of(records: list[dict], link: Link, split: int | None = None) -> Rows:
    schema = SCHEMAS[link]
    table = pa.table({c: [r[c] for r in records] for c in schema.columns})
    read = (lambda: table.to_batches(max_chunksize=split)) if split else (lambda: batches(table, tuple(schema.columns)))
    return Rows(read, schema, Encoding.centred(schema), len(records))


def all_records(link: Link) -> list[dict]:
    cells = CELLS | {"y": SCHEMAS[link].columns["y"].all_levels}
    return [dict(zip(cells, values, strict=True)) for values in product(*cells.values())]


def some_records(link: Link, n: int, seed: int) -> list[dict]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 4, n)
    return [
        {
            "x": None if i % 11 == 3 else float(x[i]),
            "o": int(rng.integers(3)),
            "c": [*"abc", "undeclared"][rng.integers(4)],
            "b": bool(rng.integers(2)),
            "y": int(rng.integers(4)) if link is Link.IDENTITY else bool(rng.integers(2)),
        }
        for i in range(n)
    ]


def flat(answer) -> np.ndarray:
    gradient, bins = answer
    return np.concatenate([*gradient, bins]).astype(object)


def exact_residual(record: dict, question: Residuals) -> Fraction:
    """r in Fractions; the logistic curve at the nearest multiple of 2^-12, as stated."""
    working, schema = question.working, SCHEMAS[question.working.link]
    z = [Fraction(v, b.denominator) for b in working.features for v in judge.numerators(record, b, schema)]
    score = sum((Fraction(float(t)) * v for t, v in zip(working.theta, z, strict=True)), Fraction(0))
    y = Fraction(judge.numerators(record, working.target, schema)[0], working.target.denominator)
    if working.link is Link.IDENTITY:
        return y - score
    step = Fraction(module.SCORE_STEP)
    nearest = round(min(max(score, -20), 20) / step) * step
    return (y + 1) / 2 - Fraction(1 / (1 + math.exp(-float(nearest))))


def judged(record: dict, question: Residuals) -> tuple[list[list[int]], list[int], bool]:
    """Gradient numerators and bin of one record; and whether float64 could have rounded it to the other side."""
    r, schema = exact_residual(record, question), SCHEMAS[question.working.link]
    close = any(abs(abs(r) - Fraction(e)) < 1e-9 for e in question.edges)

    def steps(clip: float) -> int:
        nonlocal close
        scaled = min(max(r / Fraction(clip), -1), 1) * RESIDUAL
        close = close or (abs(scaled) < RESIDUAL and abs(scaled - round(scaled)) < Fraction(1, 10**7))
        return math.trunc(scaled)

    gradient = []
    for b, clips in zip(question.working.features, question.clips, strict=True):
        numerators = judge.numerators(record, b, schema)
        if clips is None or b.is_scalar:
            gradient.append([v * steps(question.clip if clips is None else float(clips[0])) for v in numerators])
        else:  # the record's own level alone, by its own clip; and how far it is from that
            own = [v == max(numerators) for v in numerators]
            s = [steps(float(c)) for c in clips]
            gradient.append(
                [*(v * here for v, here in zip(s, own, strict=True))]
                + [math.isqrt(RESIDUAL**2 - v**2) * here for v, here in zip(s, own, strict=True)]
            )
    place = sum(abs(r) > Fraction(e) for e in question.edges)
    return gradient, [int(i == place) for i in range(len(question.edges) + 1)], close


LEVELS = (0.05, 0.7, 1.9)
OWN = {"of all": {}, "levels": {"levels": LEVELS}, "number": {"far": 1.3}, "both": {"levels": LEVELS, "far": 0.02}}
clips = pytest.mark.parametrize("own", OWN.values(), ids=OWN)


@clips
@pytest.mark.parametrize("link", Link)
@pytest.mark.parametrize("theta", THETAS)
def test_one_record_is_what_exact_arithmetic_says(link, theta, own):
    question = asked(link, THETAS[theta], clip=0.7, **own)
    told = 0
    for record in some_records(link, 25, 1):
        gradient, bins, close = judged(record, question)
        if close:
            continue
        told += 1
        got, counted = rows_of([record], link).answer(question)
        assert [g.tolist() for g in got] == gradient
        assert counted.tolist() == bins
    assert told >= (20 if theta == "odd" else 0)


@clips
@pytest.mark.parametrize("link", Link)
def test_a_table_is_the_sum_of_its_records(link, own):
    question = asked(link, **own)
    records = [r for r in some_records(link, 60, 2) if not judged(r, question)[2]]
    parts = [judged(r, question) for r in records]
    got, bins = rows_of(records, link).answer(question)
    for i, g in enumerate(got):
        assert g.tolist() == np.sum([p[0][i] for p in parts], axis=0).tolist()
    assert bins.tolist() == np.sum([p[1] for p in parts], axis=0).tolist()
    assert bins.sum() == len(records)


@pytest.mark.parametrize("link", Link)
def test_sensitivity_by_brute_force_over_all_records(link):
    """The exact maximum over the whole domain never exceeds what is charged for, and some record attains it."""
    singles = [rows_of([r], link) for r in all_records(link)]
    blocks = Encoding.centred(SCHEMAS[link]).blocks[:-1]
    worst = [0] * len(blocks)
    for theta, clip in product(THETAS.values(), CLIPS):
        question = asked(link, theta, clip)
        for single in singles:
            gradient, bins = single.answer(question)
            for i, g in enumerate(gradient):
                worst[i] = max(worst[i], sum(int(v) ** 2 for v in g))
            assert sorted(bins.tolist()) == [0, 0, 0, 0, 1]
    assert worst == [b.bound * RESIDUAL**2 for b in blocks] == list(question.squared_sensitivities)


@pytest.mark.parametrize("link", Link)
def test_with_clips_by_level_one_record_moves_one_level_by_its_own_clip(link):
    """By brute force as above: its pair of sums is as long as 1 in units of the level's clip, whatever the clips are."""
    singles = [rows_of([r], link) for r in all_records(link)]
    for levels in (LEVELS, LEVELS[::-1], (1 / LARGEST, LARGEST, 1.0)):
        worst = 0
        for theta in THETAS.values():
            question = asked(link, theta, 0.01, levels=levels)
            place = [b.column for b in question.working.features].index("c")
            for single in singles:
                moved = single.answer(question)[0][place]
                assert len(moved) == 2 * len(levels)
                assert np.count_nonzero(np.abs(moved).reshape(2, -1).sum(0)) == 1
                worst = max(worst, sum(int(v) ** 2 for v in moved))
        assert worst == RESIDUAL**2 == question.squared_sensitivities[place]


def test_a_pair_of_sums_is_never_longer_than_a_step_whatever_the_residual_is():
    """Every step there is: s² + near² ≤ R², and no larger whole number would do."""
    s = np.arange(RESIDUAL + 1)
    near = np.floor(np.sqrt(RESIDUAL**2 - s.astype(np.float64) ** 2)).astype(np.int64)
    assert (s**2 + near**2 <= RESIDUAL**2).all()
    assert (s**2 + (near + 1) ** 2 > RESIDUAL**2).all()


@pytest.mark.parametrize("far", [0.003, 0.5, LARGEST])
@pytest.mark.parametrize("link", Link)
def test_with_a_clip_of_its_own_one_record_moves_a_number_by_that(link, far):
    singles = [rows_of([r], link) for r in all_records(link)]
    worst = np.zeros(2, object)
    for theta in (*THETAS.values(), LARGEST * np.ones(7)):
        question = asked(link, theta, 0.01, far=far)
        places = [i for i, c in enumerate(question.clips) if c is not None]
        for single in singles:
            moved = single.answer(question)[0]
            worst = np.maximum(worst, [int(moved[i][0]) ** 2 for i in places])
    bounds = [question.squared_sensitivities[i] for i in places]
    assert bounds == [question.working.features[i].bound * RESIDUAL**2 for i in places]
    assert (worst <= bounds).all()
    if link is Link.IDENTITY or far < 1:  # a chance is never further than 1 from what happened
        assert worst.tolist() == bounds


@clips
@pytest.mark.parametrize("link", Link)
@pytest.mark.parametrize("theta", THETAS)
def test_removing_a_record_takes_away_its_own_part_and_nothing_else(link, theta, own):
    records = some_records(link, 37, 3)
    question = asked(link, THETAS[theta], clip=0.3, **own)
    whole = flat(rows_of(records, link).answer(question))
    for i, record in enumerate(records):
        alone = flat(rows_of([record], link).answer(question))
        without = flat(rows_of(records[:i] + records[i + 1 :], link).answer(question))
        assert (whole - without == alone).all()


@clips
@pytest.mark.parametrize("link", Link)
def test_order_batches_and_company_do_not_matter(link, own, monkeypatch):
    records, more = some_records(link, 101, 4), some_records(link, 13, 5)
    question = asked(link, clip=0.2, **own)
    whole = flat(rows_of(records, link).answer(question))
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(records))
        assert (flat(rows_of([records[i] for i in order], link).answer(question)) == whole).all()
    for split in (1, 2, 7, 64, 100):
        assert (flat(rows_of(records, link, split).answer(question)) == whole).all()
    together = flat(rows_of(more + records, link).answer(question))
    assert (together - flat(rows_of(more, link).answer(question)) == whole).all()
    monkeypatch.setattr(module, "ROWS", 9)
    assert (flat(rows_of(records, link, 20).answer(question)) == whole).all()


def test_a_part_that_depends_on_the_place_would_be_noticed(monkeypatch):
    records, question = some_records(Link.IDENTITY, 101, 4), asked(Link.IDENTITY, clip=0.2)
    true = module._residual
    monkeypatch.setattr(module, "_residual", lambda *a: (r := true(*a)) + 1e-4 * (np.arange(len(r)) % 2))
    one = flat(rows_of(records, Link.IDENTITY).answer(question))
    assert (one != flat(rows_of(records[::-1], Link.IDENTITY, 7).answer(question))).any()


@pytest.mark.parametrize("link", Link)
def test_kept_rows_answer_like_rows_read_again(link, monkeypatch):
    read = []

    def counted(records):
        made = rows_of(records, link, 10)
        inner = made._read
        made._read = lambda: read.append(1) or inner()
        return made

    records = some_records(link, 45, 6)
    kept = counted(records)
    first, second = flat(kept.answer(asked(link))), flat(kept.answer(asked(link)))
    assert len(read) == 1
    monkeypatch.setattr(module, "CACHE_BYTES", 300)
    fresh = counted(records)
    assert all((flat(fresh.answer(asked(link))) == first).all() for _ in range(2))
    assert (first == second).all()
    assert len(read) == 3


def test_billions_of_records_do_not_wrap(monkeypatch):
    records = some_records(Link.IDENTITY, 30, 7)
    narrow = flat(rows_of(records, Link.IDENTITY).answer(asked(Link.IDENTITY)))
    monkeypatch.setattr(module, "WIDE", 1)
    gradient, bins = rows_of(records, Link.IDENTITY).answer(asked(Link.IDENTITY))
    assert (flat((gradient, bins)) == narrow).all()
    assert {g.dtype for g in gradient} == {np.dtype(object)}
    block = Encoding.centred(LINEAR).block("c")
    assert module._projected(block, np.array([2**62, 0, 0], object)).tolist() == [2**63, -(2**62), -(2**62)]


def test_no_rows():
    gradient, bins = rows_of([], Link.LOGIT).answer(asked(Link.LOGIT))
    assert all((g == 0).all() for g in gradient)
    assert bins.sum() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"theta": np.full(7, np.nan)},
        {"theta": np.full(7, np.inf)},
        {"theta": np.full(7, 2 * LARGEST)},
        {"clip": 0.0},
        {"clip": math.nan},
        {"clip": math.inf},
        {"clip": 1e-300},
        {"levels": [0.1, 0.0, 0.1]},
        {"levels": [0.1, math.nan, 0.1]},
        {"levels": [0.1, math.inf, 0.1]},
        {"levels": [0.1, 0.1]},
        {"levels": [[0.1], [0.1], [0.1]]},
        {"levels": 0.1},
        {"levels": [1, 1, 1]},
    ],
)
def test_what_could_overflow_is_no_question(changes):
    with pytest.raises(ValueError, match=r"must (be finite|lie between|be None for block|be an array)"):
        asked(Link.IDENTITY, **changes)


def test_clips_of_their_own_have_the_shape_of_their_block():
    question = asked(Link.IDENTITY)
    for wrong in (np.ones(2), 0.5, np.ones(1, int), [0.5]):
        with pytest.raises(ValueError, match=r"must be None for block 'x', or an array of one float if it is a number, of one"):
            replace(question, own=(None, wrong, None, None, None))
    with pytest.raises(ValueError, match="must be None for block 'c'"):
        replace(question, own=(None, None, None, [0.1, 0.1, 0.1], None))
    for wrong in ((None,), (None,) * 6, np.ones(5)):
        with pytest.raises(ValueError, match="must be a tuple of 5, one for each block, or empty"):
            replace(question, own=wrong)


def test_the_largest_coefficients_still_have_finite_residuals():
    for link in Link:
        for sign in (1, -1):
            theta = sign * LARGEST * np.ones(7)
            for clip in (1 / LARGEST, LARGEST):
                gradient, _ = rows_of(all_records(link), link).answer(asked(link, theta, clip))
                total = len(all_records(link))
                assert all(np.abs(g.astype(float)).max() <= total * 2**30 for g in gradient)


def test_failures_are_named_by_type_alone():
    def read():
        yield pa.record_batch({c: [None] for c in LINEAR.columns})
        raise RuntimeError("cell 4711")

    with pytest.raises(DataError) as caught:
        Rows(read, LINEAR, Encoding.centred(LINEAR), 1).answer(asked(Link.IDENTITY))
    assert str(caught.value) == (
        "the rows could not be read again (RuntimeError); nothing was released, and what was reserved stays spent."
    )
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_another_number_of_records_is_noticed():
    made = rows_of(some_records(Link.IDENTITY, 5, 8), Link.IDENTITY)
    made._records = 6
    with pytest.raises(DataError, match=r"the data changed while it was being read; .*; nothing was released"):
        made.answer(asked(Link.IDENTITY))
    assert made._cache is None


def test_rows_do_not_print():
    assert repr(rows_of([], Link.LOGIT)) == "<Rows: secret>"


# ---------------------------------------------------------------------------------------------------- behind the vault


def vault(records: list[dict], link: Link, rho: Fraction, noise=None) -> Vault:
    schema = SCHEMAS[link]
    table = pa.table({c: [r[c] for r in records] for c in schema.columns})
    exact = counts(batches(table, tuple(schema.columns)), Layout.of(schema, Encoding.centred(schema)))
    return Vault(exact, rho, noise or NoNoise(), rows_of(records, link))


@pytest.mark.parametrize("link", Link)
def test_clips_of_their_own_cost_what_the_block_costs_and_answer_on_the_scale_of_the_gradient(link):
    drawn = []

    class Watch(NoNoise):
        def gaussian(self, values, sigma):
            drawn.append(sigma)
            return values

    records, question = some_records(link, 50, 9), asked(link, clip=0.1, levels=LEVELS, far=1.3)
    made = vault(records, link, Fraction(1), Watch())
    gradient, _ = made.residuals(question)
    place = [b.column for b in question.working.features].index("c")
    sigma, own = question.sigmas[place], np.array(LEVELS)
    charges = [
        question.clip**2 * (1 if i == place else b.kappa) / (2 * s**2)
        for i, (b, s) in enumerate(zip(question.working.features, question.sigmas, strict=True))
    ]
    assert float(1 - made.remaining) == pytest.approx(sum(charges) + 1 / (2 * question.sigma_bins**2), rel=1e-9)
    # Noise of c_l σ / c in the first sum of level l, on a lattice of steps c_l / RESIDUAL, and of σ / c in the second.
    assert drawn[place] / (RESIDUAL / own) == pytest.approx(own * sigma / question.clip)
    assert drawn[place] / RESIDUAL == pytest.approx(sigma / question.clip)
    level = np.array([np.argmax(judge.numerators(r, question.working.features[place], SCHEMAS[link])) for r in records])
    r = np.array([float(exact_residual(record, question)) for record in records])
    for k, c in enumerate(LEVELS):
        cut = np.clip(r[level == k], -c, c)
        assert gradient[place][k] == pytest.approx(cut.sum(), abs=2 * len(records) * c / RESIDUAL)
        assert gradient[place][3 + k] == pytest.approx(np.sqrt(1 - (cut / c) ** 2).sum(), abs=2 * len(records) * 0.01)
    wide = np.clip(r, -1.3, 1.3)
    z = [judge.numerators(record, question.working.features[1], SCHEMAS[link])[0] for record in records]
    assert gradient[1][0] == pytest.approx(z @ wide / question.working.features[1].denominator, abs=1e-2)
    assert gradient[-1][0] == pytest.approx(wide.sum(), abs=1e-2)
    for i in (1, len(gradient) - 1):  # noise of c_j σ / c
        block = question.working.features[i]
        assert drawn[i] / (block.denominator * RESIDUAL / 1.3) == pytest.approx(1.3 * question.sigmas[i] / question.clip)


@pytest.mark.parametrize("link", Link)
def test_the_vault_charges_first_and_answers_on_the_scale_of_the_gradient(link):
    drawn = []

    class Watch(NoNoise):
        def gaussian(self, values, sigma):
            drawn.append((values, sigma, made.remaining))
            return values

    records, question = some_records(link, 50, 9), asked(link, clip=1.0)
    made = vault(records, link, Fraction(1), Watch())
    gradient, bins = made.residuals(question)
    steps, blocks = RESIDUAL / question.clip, question.working.features
    scales = [s * b.denominator * steps for b, s in zip(blocks, question.sigmas, strict=True)]
    charges = [gaussian_rho(b.bound * RESIDUAL**2, s) for b, s in zip(blocks, scales, strict=True)]
    assert made.remaining == 1 - sum(charges) - gaussian_rho(1, question.sigma_bins)
    assert [s for _, s, _ in drawn] == [*scales, question.sigma_bins]
    assert {left for _, _, left in drawn} == {made.remaining}
    # One record moves block j by c √κ_j: the charge on the scale of the answer, and the answer itself.
    for b, s, charge in zip(blocks, question.sigmas, charges, strict=True):
        assert float(charge) == pytest.approx(question.clip**2 * b.kappa / (2 * s**2), rel=1e-9)
    r = [float(min(max(exact_residual(record, question), -1), 1)) for record in records]
    for b, g in zip(blocks, gradient, strict=True):
        z = np.array([judge.numerators(record, b, SCHEMAS[link]) for record in records]) / b.denominator
        assert np.allclose(g, z.T @ r, atol=2 * len(records) / RESIDUAL)
    assert bins.sum() == len(records)


def test_the_vault_refuses_residuals_beyond_its_reservation_before_it_reads():
    def fail():
        raise AssertionError("a row was read")

    made = vault(some_records(Link.IDENTITY, 5, 10), Link.IDENTITY, Fraction(1, 10**9))
    made._rows._read = fail
    with pytest.raises(BudgetError, match="exceeds"):
        made.residuals(asked(Link.IDENTITY))
    assert made.remaining == Fraction(1, 10**9)


def test_what_was_debited_stays_debited_when_the_rows_are_gone():
    made = vault(some_records(Link.IDENTITY, 5, 10), Link.IDENTITY, Fraction(1))
    made._rows._read = lambda: (_ for _ in ()).throw(OSError("disk: cell 4711"))
    with pytest.raises(DataError) as caught:
        made.residuals(asked(Link.IDENTITY))
    assert "4711" not in str(caught.value)
    assert made.remaining < 1
