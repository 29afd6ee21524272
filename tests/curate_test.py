"""The door: count first, reserve, then draw; structure is refused before any row is read, content never."""

from __future__ import annotations

import pytest

import ddssp
from ddssp import curate as door
from ddssp.curate import curate, plan, release
from ddssp.experiments.noise import NoNoise, SeededNoise
from ddssp.frame import DataError
from ddssp.privacy.budget import BudgetError
from ddssp.privacy.ledger import Ledger
from ddssp.schema import Schema, SchemaError
from ddssp.secret.noise import OpenDPNoise

SCHEMA = Schema(name="survey", columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
ROWS = {"x": [0.1, 0.9], "y": [True, False]}


class Untouchable(dict):
    """Data that fails the test when it is read."""

    def items(self):
        raise AssertionError("a row was read")

    __iter__ = __getitem__ = items


def spent(ledger: Ledger):
    return ledger.spent("survey")


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    out = Ledger(tmp_path / "l.db")
    out.set_budget("survey", 1.0, 1e-6)
    return out


REFUSED = {
    "unknown mechanism": ({"mechanism": "magic"}, ValueError, "mechanism must be one of"),
    "unknown target": ({"target": "z"}, ValueError, "target must be a column of the schema, got 'z'; it has x, y"),
    "epsilon": ({"epsilon": 0}, ValueError, "epsilon must be positive"),
    "delta": ({"delta": 1}, ValueError, "delta must lie strictly between 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_plan_is_refused_before_any_row_is_read(case, ledger):
    changes, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        release(Untouchable(), SCHEMA, **{"epsilon": 1.0, "delta": 1e-6, "ledger": ledger} | changes)
    assert spent(ledger) == 0


def test_a_schema_to_confirm_is_refused():
    schema = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1, "to_confirm": ["low", "high"]}})
    with pytest.raises(SchemaError, match=r"still TO CONFIRM in x.low, x.high: .* delete the to_confirm lines"):
        plan(schema, epsilon=1, delta=1e-6)


def test_a_domain_too_large_is_refused_before_any_row_is_read():
    schema = Schema(columns={"x": {"kind": "categorical", "levels": 60_000}})
    with pytest.raises(ValueError, match="more than the 268,435,456 that are held at once"):
        release(Untouchable(), schema, epsilon=1, delta=1e-6)


def test_a_budget_that_is_not_covered_is_refused_before_any_row_is_read(ledger):
    with pytest.raises(BudgetError, match="rho must fit under the ceiling of dataset 'survey', got "):
        release(Untouchable(), SCHEMA, epsilon=2.0, delta=1e-6, ledger=ledger)
    with pytest.raises(BudgetError, match="'other'"):
        release(Untouchable(), SCHEMA, epsilon=0.1, delta=1e-6, ledger=ledger, dataset="other")
    assert spent(ledger) == 0


def test_the_reservation_itself_is_asked_too(ledger, monkeypatch):
    """Between the first look and the reservation somebody else may have spent the budget."""
    monkeypatch.setattr(door, "require_covered", lambda _plan: None)
    with pytest.raises(BudgetError):
        release(ROWS, SCHEMA, epsilon=2.0, delta=1e-6, ledger=ledger)
    assert spent(ledger) == 0


def test_data_that_cannot_be_read_costs_nothing(ledger):
    with pytest.raises(DataError, match="column 'y' of the schema is absent"):
        release({"x": [1.0]}, SCHEMA, epsilon=1, delta=1e-6, ledger=ledger)
    assert spent(ledger) == 0


def test_an_unforeseen_failure_while_counting_is_named_by_type_alone_and_costs_nothing(ledger, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("secret 4711")

    monkeypatch.setattr(door, "partials", fail)
    with pytest.raises(DataError, match=r"the rows could not be counted \(RuntimeError\)") as caught:
        release(ROWS, SCHEMA, epsilon=1, delta=1e-6, ledger=ledger)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert spent(ledger) == 0


def test_count_then_reserve_then_draw(ledger, monkeypatch):
    order = []
    real_partials, real_reserve = door.partials, Ledger.reserve
    monkeypatch.setattr(door, "partials", lambda *a, **k: order.append("count") or real_partials(*a, **k))
    monkeypatch.setattr(Ledger, "reserve", lambda self, *a, **k: order.append("reserve") or real_reserve(self, *a, **k))
    monkeypatch.setattr(Ledger, "complete", lambda self, r: order.append("complete"))

    def watch(_self, values, sigma):
        if order[-1] != "draw":
            order.append("draw")
        assert spent(ledger) > 0
        return values

    monkeypatch.setattr(OpenDPNoise, "gaussian", watch)
    curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger))
    assert order == ["count", "reserve", "draw", "complete"]


def test_what_was_reserved_stays_spent_when_drawing_fails(ledger, monkeypatch):
    def fail(*_):
        raise OSError("no entropy")

    monkeypatch.setattr(OpenDPNoise, "gaussian", fail)
    with pytest.raises(OSError, match="no entropy"):
        curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger))
    assert spent(ledger) == plan(SCHEMA, epsilon=1, delta=1e-6).budget.rho


def test_a_release_carries_its_row_of_the_ledger(ledger):
    made = release(ROWS, SCHEMA, epsilon=0.5, delta=1e-6, ledger=ledger.path)
    assert set(made.entry) == {"dataset", "counter", "hash"}
    assert ledger.contains(made.entry["counter"], made.entry["hash"], made.entry["dataset"])
    assert spent(ledger) == made.rho


def test_reproducible_noise_is_marked_and_refused_by_a_ledger(ledger):
    assert not curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6), noise=SeededNoise(0)).private
    with pytest.raises(BudgetError, match="reproducible noise is not private"):
        curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger), noise=SeededNoise(0))
    assert spent(ledger) == 0


def test_a_noise_that_calls_itself_private_is_not_believed(ledger):
    class Liar(NoNoise):
        private = True

    class Weaker(OpenDPNoise):
        def gaussian(self, values, sigma):
            return values

    for noise in (Liar(), Weaker()):
        assert not curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6), noise=noise).private
        with pytest.raises(BudgetError, match="reproducible noise is not private"):
            curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, ledger=ledger), noise=noise)
    assert spent(ledger) == 0


def test_the_products_noise_has_no_switch():
    import inspect

    assert "noise" not in inspect.signature(release).parameters
    assert release(ROWS, SCHEMA, epsilon=1, delta=1e-6).private


def test_progress_is_told_and_holds_nothing_secret():
    told = []
    release(ROWS, SCHEMA, epsilon=1, delta=1e-6, progress=lambda what, share: told.append((what, share)))
    assert told[0] == ("counting", 0.0)
    assert told[-1] == ("done", 1.0)


def test_a_schema_may_be_a_path(tmp_path):
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml())
    assert ddssp.release(ROWS, str(tmp_path / "s.toml"), epsilon=1, delta=1e-6).schema == SCHEMA


def test_a_schema_of_constants_only_still_releases_n():
    schema = Schema(columns={"c": {"kind": "categorical", "levels": ["only"]}})
    exact = curate({"c": ["a", "b", "c"]}, plan(schema, epsilon=1, delta=1e-6), noise=NoNoise())
    assert [m.values.tolist() for m in exact.measurements] == [[[3.0]]]
