"""The task mechanism: spends what it may, asks by released values alone, and finds the regression it was made for."""

from __future__ import annotations

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ddssp.curate import curate, plan
from ddssp.encoding import Encoding
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.mechanism import task as module
from ddssp.mechanism.state import Problem
from ddssp.mechanism.task import BEFORE_LAST, ROUNDS, TaskMechanism
from ddssp.model.fit import design_of
from ddssp.privacy.budget import BudgetError
from ddssp.privacy.curator import Link, Objective, Residuals
from ddssp.schema import Schema
from ddssp.secret import rows as passes
from ddssp.secret.counts import Layout, counts
from ddssp.secret.rows import Rows
from ddssp.secret.table import batches
from ddssp.secret.vault import Vault

COLUMNS = {
    "x": {"kind": "numeric", "low": -1, "high": 1},
    "o": {"kind": "ordinal", "levels": 5},
    "g": {"kind": "categorical", "levels": list("abcd")},
    "b": {"kind": "boolean"},
}
SCHEMAS = {
    Link.IDENTITY: Schema(columns=COLUMNS | {"y": {"kind": "numeric", "low": -1, "high": 1}}),
    Link.LOGIT: Schema(columns=COLUMNS | {"y": {"kind": "boolean"}}),
}


def table(link: Link, n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns that depend on each other, and a target that is linear (or logistic) in all of them."""
    rng = np.random.default_rng(seed)
    x, o, g = rng.uniform(-1, 1, n), rng.integers(0, 5, n), rng.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1])
    b = rng.random(n) < 0.3 + 0.3 * (x > 0)
    score = 0.5 * x - 0.1 * o + np.select([g == k for k in "abcd"], [0.2, -0.1, 0.0, 0.3]) + 0.15 * b
    y = rng.random(n) < 1 / (1 + np.exp(-2 * score)) if link is Link.LOGIT else 0.6 * score + rng.uniform(-0.2, 0.2, n)
    return {"x": x, "o": o, "g": g, "b": b, "y": y}


def vault(data, schema: Schema, rho: Fraction, noise) -> Vault:
    encoding, columns = Encoding.centred(schema), tuple(schema.columns)
    exact = counts(batches(data, columns), Layout.of(schema, encoding))
    return Vault(exact, rho, noise, Rows(lambda: batches(data, columns), schema, encoding, exact.n))


class Recorder:
    """A Curator that writes down what it is asked and what it answered."""

    def __init__(self, inner: Vault):
        self.inner, self.asked, self.answers, self.left = inner, [], [], []

    @property
    def remaining(self) -> Fraction:
        return self.inner.remaining

    def measure(self, queries, sigmas):
        return self._noted([*((q.clique, q.form.name) for q in queries), *sigmas], lambda: self.inner.measure(queries, sigmas))

    def residuals(self, asked: Residuals):
        w = asked.working
        features = tuple(b.column for b in w.features)
        question = [
            features,
            w.target.column,
            w.link,
            w.theta.tolist(),
            asked.clip,
            [None if c is None else c.tolist() for c in asked.clips],
            asked.sigmas,
            asked.edges,
            asked.sigma_bins,
        ]
        return self._noted(question, lambda: self.inner.residuals(asked))

    def minimise(self, asked: Objective):
        features = tuple(b.column for b in asked.features)
        question = [
            features,
            asked.target.column,
            asked.anchor.tolist(),
            asked.ridge.tolist(),
            asked.sigmas,
            asked.sigma_steps,
            asked.total,
        ]
        return self._noted(question, lambda: self.inner.minimise(asked))

    def _noted(self, question, answer):
        self.asked.append(question)
        self.answers.append(self._answer(answer))
        self.left.append(self.remaining)
        return self.answers[-1]

    def _answer(self, answer):
        return answer()


class Replayer(Recorder):
    """Asks its own vault, which charges, but answers what another one answered."""

    def __init__(self, inner: Vault, canned: list):
        super().__init__(inner)
        self.canned = canned

    def _answer(self, answer):
        answer()
        return self.canned[len(self.answers)]


def ran(curator, link: Link, *, exact_only: bool = False):
    return TaskMechanism(target="y", link=link, exact_only=exact_only).run(curator, SCHEMAS[link], lambda *_: None)


@pytest.fixture(params=["loud", "calm", "logistic", "perturbed"])
def link(request, monkeypatch) -> Link:
    """Least squares as where noise is loud and as where it is low; logistic regression by rounds alone or with a last draw."""
    monkeypatch.setattr(module, "CALM", np.inf if request.param == "calm" else 0.0)
    monkeypatch.setattr(module, "QUIET", np.inf if request.param == "perturbed" else 0.0)
    return Link.IDENTITY if request.param in ("loud", "calm") else Link.LOGIT


@pytest.mark.parametrize("rho", [Fraction(1, 10**9), Fraction(3, 100), Fraction(7)])
def test_charges_add_up_to_the_budget_and_never_beyond(link, rho):
    made = vault(table(link, 300), SCHEMAS[link], rho, SeededNoise(0))
    ran(made, link)
    assert 0 <= made.remaining < rho / 10**6


def test_a_vault_with_less_refuses_in_the_middle(link):
    """A mechanism that believes in a larger budget than was reserved is stopped by the vault."""

    class Boaster(Recorder):
        @property
        def remaining(self) -> Fraction:
            return self.inner.remaining + Fraction(1, 100)

    curator = Boaster(vault(table(link, 300), SCHEMAS[link], Fraction(3, 100), SeededNoise(0)))
    with pytest.raises(BudgetError, match="left of this release"):
        ran(curator, link)
    assert curator.inner.remaining >= 0
    assert len(curator.answers) > 1


def test_one_pass_a_round_and_one_to_count(link, monkeypatch):
    class Counted:
        schema = pa.table(table(link, 60)).schema
        read = 0

        def __arrow_c_stream__(self, requested_schema=None):
            Counted.read += 1
            return pa.table(table(link, 60)).__arrow_c_stream__()

    made = plan(SCHEMAS[link], epsilon=1, delta=1e-6, target="y")
    perturbed = curate(Counted(), made, noise=SeededNoise(0)).fitted.perturbed
    assert Counted.read == 2  # the coded rows were kept
    monkeypatch.setattr(passes, "CACHE_BYTES", 0)
    curate(Counted(), made, noise=SeededNoise(0))
    rounds = BEFORE_LAST if perturbed else ROUNDS[link]
    assert perturbed == (module.QUIET > 0 and link is Link.LOGIT)
    more = Counted.read - (2 + 1 + rounds)
    assert 2 <= more <= 9 if perturbed else more == 0  # Newton's steps, by the rows
    curator = Recorder(vault(table(link, 60), SCHEMAS[link], Fraction(1, 10), SeededNoise(0)))
    ran(curator, link)
    assert sum(isinstance(answer, tuple) for answer in curator.answers) == rounds


def test_questions_and_charges_follow_from_answers_alone(link):
    """Replayed on a neighbour with the first table's answers: every question and every charge is the same."""
    one = table(link, 200)
    two = {c: np.append(v, v[:1] if c != "x" else [0.987]) for c, v in one.items()}
    three = {c: v[:3] for c, v in table(link, 200, seed=5).items()}
    curator = Recorder(vault(one, SCHEMAS[link], Fraction(1, 20), SeededNoise(3)))
    first = ran(curator, link)
    for other in (two, three):
        replay = Replayer(vault(other, SCHEMAS[link], Fraction(1, 20), SeededNoise(4)), curator.answers)
        second = ran(replay, link)
        assert replay.asked == curator.asked
        assert replay.left == curator.left
        assert np.array_equal(second.fitted.theta, first.fitted.theta)
    fresh = Recorder(vault(one, SCHEMAS[link], Fraction(1, 20), SeededNoise(4)))
    ran(fresh, link)
    assert fresh.asked != curator.asked  # with other answers the questions do differ


def test_a_perturbed_objective_is_for_low_noise_and_for_those_who_allow_it():
    """Decided by n̂ and the budget: the more of either, the lower the noise."""
    data, schema = table(Link.LOGIT, 400), SCHEMAS[Link.LOGIT]

    def perturbed(epsilon: float, **options) -> bool:
        made = plan(schema, epsilon=epsilon, delta=1e-5, target="y", **options)
        return curate(data, made, noise=SeededNoise(1)).fitted.perturbed

    assert not perturbed(1)
    assert perturbed(60)
    assert not perturbed(60, exact_only=True)
    assert not plan(schema, epsilon=60, delta=1e-5, target="y", exact_only=True).mechanism.perturbed
    assert plan(schema, epsilon=1, delta=1e-5, target="y").mechanism.perturbed


@pytest.mark.parametrize("until", [1, 4, 12, 32])
@pytest.mark.parametrize("calm", [True, False])
def test_rounds_share_all_that_is_left_and_the_first_get_less_where_the_noise_is_low(calm, until):
    left, spent = 1.0, []
    for r in range(until):
        spent.append(left / module.rounds_left(r, until, calm=calm))
        left -= spent[-1]
    assert left == pytest.approx(0, abs=1e-12)
    rising = [0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375, *[1.0] * 24] if calm else [1.0] * 32
    assert spent == pytest.approx(np.array(rising[:until]) / sum(rising[:until]))


@pytest.mark.parametrize("calm", [True, False])
def test_a_release_divides_its_budget_among_rounds_by_their_shares(calm, monkeypatch):
    monkeypatch.setattr(module, "CALM", np.inf if calm else 0.0)
    monkeypatch.setattr(module, "LEARNING", 0)  # a round's products are part of its share
    curator = Recorder(vault(table(Link.IDENTITY, 300), SCHEMAS[Link.IDENTITY], Fraction(1, 10), SeededNoise(0)))
    ran(curator, Link.IDENTITY)
    left = np.array([float(x) for x in curator.left])[-1 - ROUNDS[Link.IDENTITY] :]
    judge = [1 / module.rounds_left(r, 32, calm=calm) for r in range(31)]
    assert 1 - left[1:-1] / left[:-2] == pytest.approx(judge, rel=1e-4)


def test_a_perturbed_objective_finds_its_share_of_the_budget_left(monkeypatch):
    monkeypatch.setattr(module, "QUIET", np.inf)
    curator = Recorder(vault(table(Link.LOGIT, 300), SCHEMAS[Link.LOGIT], Fraction(1, 10), SeededNoise(0)))
    ran(curator, Link.LOGIT)
    assert float(curator.left[-2]) == pytest.approx(module.LAST / 10, rel=1e-4)


def test_noise_is_low_where_there_are_many_records_or_much_budget():
    def calm(link: Link, n: int, rho: Fraction) -> bool:
        problem = Problem(encoding=Encoding.centred(SCHEMAS[link]), target="y", link=link)
        curator = vault(table(link, n), SCHEMAS[link], rho, SeededNoise(0))
        return module.first(curator, problem, float(rho) / 10, float(rho)).calm

    assert calm(Link.IDENTITY, 2000, Fraction(1, 15))  # .0084
    assert not calm(Link.IDENTITY, 2000, Fraction(1, 30))  # .0119
    assert calm(Link.IDENTITY, 4000, Fraction(1, 30))
    assert not calm(Link.LOGIT, 40_000, Fraction(1))


def test_where_the_solver_would_not_be_precise_rounds_go_on(monkeypatch):
    monkeypatch.setattr(module, "QUIET", np.inf)
    monkeypatch.setattr(module, "STEEPEST", 0.0)
    curator = Recorder(vault(table(Link.LOGIT, 300), SCHEMAS[Link.LOGIT], Fraction(1, 10), SeededNoise(0)))
    assert not ran(curator, Link.LOGIT).fitted.perturbed
    assert sum(isinstance(answer, tuple) for answer in curator.answers) == ROUNDS[Link.LOGIT]
    assert 0 <= curator.remaining < Fraction(1, 10**6)


def test_a_tiny_budget_is_not_for_a_perturbed_objective(monkeypatch):
    monkeypatch.setattr(module, "QUIET", np.inf)
    for rho, perturbed in ((Fraction(1, 10**7), False), (Fraction(1, 10**5), True)):
        made = vault(table(Link.LOGIT, 300), SCHEMAS[Link.LOGIT], rho, SeededNoise(0))
        assert ran(made, Link.LOGIT).fitted.perturbed is perturbed


def test_the_louder_the_noise_the_less_a_residual_counts():
    clips = []

    class Listening(Recorder):
        def residuals(self, asked):
            clips.append(asked.clip)
            return super().residuals(asked)

    for rho in (Fraction(1, 10**6), Fraction(1, 10), Fraction(3), Fraction(10**6)):
        ran(Listening(vault(table(Link.LOGIT, 400), SCHEMAS[Link.LOGIT], rho, SeededNoise(0))), Link.LOGIT, exact_only=True)
    each = clips[:: ROUNDS[Link.LOGIT]]
    assert clips == [c for c in each for _ in range(ROUNDS[Link.LOGIT])]
    assert each == sorted(each)
    assert each[0] == module.LEAST_CLIP < each[2] < 1
    assert each[3] > 0.99


@pytest.mark.parametrize(("epsilon", "tolerance"), [(1, 2e-3), (100, 2e-4)])
def test_without_noise_the_linear_fit_is_least_squares(epsilon, tolerance):
    data, schema = table(Link.IDENTITY, 4000), SCHEMAS[Link.IDENTITY]
    fit = curate(data, plan(schema, epsilon=epsilon, delta=1e-5, target="y"), noise=NoNoise()).linear("y")
    Z = design_of(data, fit.encoding, schema)
    best = Z @ np.linalg.lstsq(Z, data["y"], rcond=None)[0]
    assert np.std(best) > 0.2
    assert np.abs(Z @ fit.theta - best).max() < tolerance


@pytest.mark.parametrize(("epsilon", "tolerance"), [(1, 0.06), (100, 0.004)])
def test_without_noise_the_logistic_fit_is_that_of_scikit_learn(epsilon, tolerance):
    from sklearn.linear_model import LogisticRegression

    data, schema = table(Link.LOGIT, 4000), SCHEMAS[Link.LOGIT]
    fit = curate(data, plan(schema, epsilon=epsilon, delta=1e-5, target="y"), noise=NoNoise()).logistic("y")
    Z = design_of(data, fit.encoding, schema)
    judge = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(Z[:, 1:], data["y"])
    best = judge.intercept_[0] + Z[:, 1:] @ judge.coef_[0]
    assert np.std(best) > 0.7
    assert np.abs(Z @ fit.theta - best).max() < tolerance
    assert fit.classes == (False, True)
    assert np.allclose(fit.predict_proba(data)[:, 1], 1 / (1 + np.exp(-(Z @ fit.theta))))


def designs():
    """benchmarks/designs.py, which is no package."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "designs.py"
    spec = importlib.util.spec_from_file_location("designs", path)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "margin"), [("sparse", 8), ("near-deterministic", 50)])
def test_where_few_blocks_matter_it_beats_moments_by_far(name, margin):
    """Excess over least squares; in six other runs the ratio was at least 32 (sparse) and 711 (near-deterministic)."""
    drawn = designs().design(name, 0, rows=6000)
    excess = {}
    for mechanism in ("task", "moments"):
        made = plan(drawn.schema, epsilon=1, delta=1e-5, target="y", mechanism=mechanism)
        fit = curate(drawn.table, made, noise=SeededNoise(0)).linear("y")
        Z = design_of(drawn.table, fit.encoding, drawn.schema)
        y = drawn.table["y"].to_numpy() / 16 - 1
        excess[mechanism] = np.mean((Z @ (fit.theta - np.linalg.lstsq(Z, y, rcond=None)[0])) ** 2)
    assert excess["task"] < excess["moments"] / margin


def test_the_same_seed_gives_the_same_release():
    data = table(Link.LOGIT, 300)
    made = plan(SCHEMAS[Link.LOGIT], epsilon=1, delta=1e-6, target="y")
    assert curate(data, made, noise=SeededNoise(1)) == curate(data, made, noise=SeededNoise(1))
    assert curate(data, made, noise=SeededNoise(1)) != curate(data, made, noise=SeededNoise(2))


X, G, B = COLUMNS["x"], COLUMNS["g"], COLUMNS["b"]
ONE_LEVEL = {"kind": "categorical", "levels": ["only"]}
SHAPES = {
    "one scalar": ({"x": X}, {"x": np.linspace(-1, 1, 40)}),
    "one boolean": ({"b": B}, {"b": np.arange(40) % 3 == 0}),
    "one table": ({"g": G}, {"g": list("abcd") * 10}),
    "constant scalar": ({"x": X, "b": B}, {"x": [0.5] * 40, "b": [True] * 40}),
    "constant table": ({"g": G}, {"g": ["a"] * 40}),
    "one level": ({"l": ONE_LEVEL, "x": X}, {"l": ["only"] * 40, "x": np.linspace(-1, 1, 40)}),
    "columns that repeat each other": ({"x": X, "z": X}, {"x": np.linspace(-1, 1, 40), "z": np.linspace(-1, 1, 40)}),
    "all missing": ({"x": X, "g": G, "b": B}, {"x": [None] * 40, "g": [None] * 40, "b": [None] * 40}),
    "no rows": ({"x": X, "g": G}, {"x": [], "g": []}),
    "one row": ({"x": X, "g": G}, {"x": [0.1], "g": ["b"]}),
    "more levels than rows": (
        {"w": {"kind": "categorical", "levels": 60}, "x": X},
        {"w": np.arange(40), "x": np.linspace(-1, 1, 40)},
    ),
}


@pytest.mark.parametrize("link", Link)
@pytest.mark.parametrize("shape", SHAPES)
def test_odd_tables_never_raise(shape, link):
    columns, data = SHAPES[shape]
    target = {"kind": "boolean"} if link is Link.LOGIT else {"kind": "numeric", "low": 0, "high": 39}
    n = len(next(iter(data.values())))
    schema = Schema(columns=columns | {"y": target})
    y = [None] * n if shape == "all missing" else [True] * n if shape.startswith("constant") else list(range(n))
    rows = data | {"y": [v % 2 == 1 for v in y] if link is Link.LOGIT and y and y[0] is not None else y}
    for epsilon, noise in ((0.05, SeededNoise(1)), (2.0, SeededNoise(2)), (100.0, NoNoise())):
        release = curate(rows, plan(schema, epsilon=epsilon, delta=1e-6, target="y", mechanism="task"), noise=noise)
        fit = release.logistic("y") if link is Link.LOGIT else release.linear("y")
        assert np.isfinite(fit.theta).all()
        assert len(fit.theta) == 1 + sum(b.rows for b in Encoding.centred(schema) if b.column not in (None, "y"))
        assert all(np.isfinite(v) for v in fit.coef.values())


def test_the_release_carries_what_else_was_paid_for():
    release = curate(
        table(Link.IDENTITY, 500), plan(SCHEMAS[Link.IDENTITY], epsilon=5, delta=1e-6, target="y"), noise=SeededNoise(0)
    )
    found = {m.clique: m for m in release.measurements}
    assert {(), ("x",), ("o",), ("g",), ("b",), ("y",), ("x", "x"), ("o", "o"), ("y", "y")} <= set(found)
    assert found[()].values[0, 0] == pytest.approx(500, abs=6 * found[()].sigma)
    assert not any("y" in c for c in found if len(c) == 2 and c[0] != c[1])  # products with the target are never asked


@pytest.mark.parametrize("link", Link)
def test_where_noise_is_all_there_is_coefficients_stay_small(link):
    """n̂ may be negative then; a fit that followed the noise had coefficients of 10⁵."""
    data = table(link, 3)
    for seed in range(6):
        made = plan(SCHEMAS[link], epsilon=0.004, delta=1e-6, target="y")
        assert np.abs(curate(data, made, noise=SeededNoise(seed)).fitted.theta).max() < 25
