"""The door: data + Schema + Budget + mechanism → Release. The only way from rows to anything public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar
from warnings import warn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ddssp import __version__
from ddssp.coding import sources
from ddssp.column import Numeric
from ddssp.cost import Cost, draws
from ddssp.encoding import Encoding
from ddssp.engine import Engine
from ddssp.frame import DataError, require_unit
from ddssp.mechanism import Mechanism, Progress
from ddssp.mechanism.aim import AIM, MODEL_SIZE, Inference
from ddssp.mechanism.moments import MomentsMechanism
from ddssp.mechanism.task import TaskMechanism
from ddssp.privacy.budget import Budget, BudgetError
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.curator import Link
from ddssp.privacy.ledger import Ledger, LedgerError, Reservation
from ddssp.released import Release
from ddssp.schema import Schema, SchemaError
from ddssp.secret.counts import Counts, Layout, at_once, partials
from ddssp.secret.draft import draft
from ddssp.secret.engines import CHANGED, Fold, Source, Tell, quiet
from ddssp.secret.noise import Noise, OpenDPNoise
from ddssp.secret.people import People
from ddssp.secret.rows import Rows
from ddssp.secret.table import opened, require_rewindable
from ddssp.secret.vault import Vault

MECHANISMS = ("auto", "moments", "aim", "task")
MODELS = ("auto", "linear", "logistic")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will be released, checked before any row is read."""

    schema: Schema
    budget: Budget
    mechanism: Mechanism
    target: str | None = None
    ledger: Ledger | None = None
    dataset: str = ""
    contribution: Contribution | None = None

    @property
    def rho(self) -> Fraction:
        """What the mechanism may spend: the whole budget, less where several records of one person count."""
        return self.budget.rho if self.contribution is None else self.contribution.for_records(self.budget.rho)

    @property
    def cost(self) -> Cost:
        """Draws and memory, estimated from the schema."""
        moments, layout = isinstance(self.mechanism, MomentsMechanism), self.layout
        return Cost.of(layout.width, draws(self.mechanism.counted(self.schema)) if moments else None, at_once(layout))

    @property
    def layout(self) -> Layout:
        return Layout.of(self.schema, self.mechanism.counted(self.schema))


def plan(
    schema: Schema | str | Path,
    *,
    epsilon: float,
    delta: float,
    mechanism: str = "auto",
    target: str | None = None,
    model: str = "auto",
    inference: str = "auto",
    model_size: float = MODEL_SIZE,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    exact_only: bool = False,
) -> Plan:
    """A checked plan; touches no data and spends nothing."""
    schema = schema if isinstance(schema, Schema) else Schema.load(schema)
    if schema.to_confirm:
        raise SchemaError(
            f"schema is still TO CONFIRM in {schema.waiting()}: these settings were read from the data; "
            "check each against the codebook and delete the to_confirm lines."
        )
    for name, given, known in (("mechanism", mechanism, MECHANISMS), ("model", model, MODELS)):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {given!r}.")
    if target is not None and target not in schema.resolved:
        raise ValueError(f"target must be a column of the schema, got {target!r}; it has {', '.join(schema.resolved)}.")
    chosen = _chosen(mechanism, schema, target, model, exact_only)
    out = Plan(
        schema=schema,
        budget=Budget(epsilon=epsilon, delta=delta),
        mechanism=_with_options(chosen, schema, inference, model_size),
        target=target,
        ledger=Ledger(ledger) if isinstance(ledger, str | Path) else ledger,
        dataset=dataset or schema.name,
        contribution=Contribution.of(unit, max_rows),
    )
    out.layout.check()
    out.cost.check()
    return out


def _chosen(mechanism: str, schema: Schema, target: str | None, model: str, exact_only: bool) -> Mechanism:
    """The mechanism by name; `auto` is `task` for a declared target that one regression can explain, else `moments`.

    Columns encoded by vectors are beyond `task`, so there `auto` takes `moments`, which answers either model. Chosen by the
    schema and the request alone, never by the data.
    """
    if mechanism in ("aim", "moments") and model != "auto":
        raise ValueError(f"model is for mechanism task, got {model!r} with {mechanism}; leave it out.")
    if mechanism == "aim":
        return AIM(target=target)
    link = None if target is None else _link(schema, target, model)
    if mechanism == "auto" and model != "auto" and (target is None or not _is_scalar(schema, target)):
        raise ValueError(f"model {model} needs a declared target with numbers or two levels, got target {target!r}.")
    if mechanism == "moments" or (mechanism == "auto" and (link is None or not _plain(schema))):
        return MomentsMechanism(target=target)
    if target is None:
        raise ValueError("target must be declared for mechanism task; name the column to explain, or use mechanism moments.")
    if link is None:
        raise ValueError(
            f"target {target!r} must be a number, ordinal or boolean, and not the only column, for mechanism task; use moments."
        )
    if not _plain(schema):
        raise ValueError("mechanism task cannot encode columns by vectors; use moments.")
    return TaskMechanism(target=target, link=link, exact_only=exact_only)


def _link(schema: Schema, target: str, model: str) -> Link | None:
    """Logistic for two levels, least squares for other numbers, None for what is neither."""
    if not _is_scalar(schema, target) or len(Encoding.centred(schema).columns) < 2:
        return None
    two = schema.resolved[target].size == 2 and not isinstance(schema.resolved[target], Numeric)
    if model == "logistic" and not two:
        raise ValueError(f"target {target!r} must have two levels for model logistic; use linear.")
    return Link.LOGIT if two and model != "linear" else Link.IDENTITY


def _is_scalar(schema: Schema, target: str) -> bool:
    encoding = Encoding.centred(schema)
    return target in encoding.columns and encoding.block(target).is_scalar


def _plain(schema: Schema) -> bool:
    return all(b.is_scalar or b.contrast != "none" for b in Encoding.centred(schema))


def _with_options(mechanism: Mechanism, schema: Schema, inference: str, model_size: float) -> Mechanism:
    if isinstance(mechanism, AIM):
        how = Inference.named(inference, schema.domain())
        if how is Inference.TREE and model_size != MODEL_SIZE:
            raise ValueError(
                f"model_size is for inference pgm, got {model_size!r} with tree, which has no such limit; leave it out."
            )
        return replace(mechanism, inference=how, model_size=model_size)
    if inference != "auto" or model_size != MODEL_SIZE:
        raise ValueError(f"inference and model_size are for mechanism aim, got them with {mechanism.name}; leave them out.")
    return mechanism


def release(
    data: Any,
    schema: Schema | str | Path,
    *,
    epsilon: float,
    delta: float,
    mechanism: str = "auto",
    target: str | None = None,
    model: str = "auto",
    inference: str = "auto",
    model_size: float = MODEL_SIZE,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    unit: str | None = None,
    max_rows: int | None = None,
    exact_only: bool = False,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Release:
    """A private release of the table's second moments.

    Guarantees: (ε, δ)-differentially private for adding or removing one record, through ρ-zCDP; integer noise from OpenDP,
    drawn after the whole ρ has been reserved in the ledger, if one is given. Whatever the rows hold, it is released, but for
    what docs/objective.md does not exclude.

    Args:
        data: a frame (pandas, polars, Arrow, NumPy, DuckDB, Spark, a mapping of arrays), or the path or URI (s3://…) of a
            Parquet file or folder or of a CSV file.
        engine: who reads the rows, and in what portions; by default what the data is made for.
        mechanism: `moments` and `aim` answer every regression for ever; `task` answers one, the best; `auto` is `task` if a
            target is declared, else `moments`.
        target: the column that `task` explains; with `moments` its blocks get more of the budget, and every other column can
            still be a target.
        model: what `task` fits: linear, logistic, or by the target's levels.
        unit, max_rows: the column that names the person, and how many of a person's rows count; the guarantee is then for
            adding or removing a person.
        exact_only: sums of integers alone: a logistic `task` then does without its perturbed objective.
        inference, model_size: how `aim` estimates all marginals (auto, pgm or tree), and the MB its graphical model may take.

    >>> s = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
    >>> release({"x": [0.1, 0.9], "y": [False, True]}, s, epsilon=1.0, delta=1e-6).private
    True
    """
    made = plan(
        schema,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        target=target,
        model=model,
        inference=inference,
        model_size=model_size,
        ledger=ledger,
        dataset=dataset,
        unit=unit,
        max_rows=max_rows,
        exact_only=exact_only,
    )
    return curate(data, made, progress=progress, engine=engine)


def curate(
    data: Any,
    plan: Plan,
    *,
    noise: Noise | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Release:
    """Carries out a plan: count, reserve, draw, complete.

    Nothing is drawn, and nothing spent, unless all rows were counted. After the reservation everything stays spent, whatever
    happens. The noise is OpenDP's; any other is for tests and experiments, marks the release as not private and is refused by
    a ledger.
    """
    noise = noise or product_noise()
    private = type(noise) is OpenDPNoise  # asked of the type: what a noise says of itself is not enough
    if plan.ledger is not None and not private:
        raise BudgetError("a ledger records private releases only, and reproducible noise is not private.")
    require_covered(plan)
    tell = progress or (lambda _what, _share: None)
    tell("counting", 0.0)
    layout = plan.layout
    source = opened(data, engine)
    if plan.contribution is not None:
        require_unit(plan.contribution.column, source.names())
        require_rewindable(source, f"unit {plan.contribution.column!r}", "leave the unit out")
    if plan.mechanism.passes:
        require_rewindable(source, f"mechanism {plan.mechanism.name}", "use moments")
    passing = _guarded(lambda: _Passing(source, _read(plan.schema, layout), plan.contribution, partial(tell, "choosing rows")))
    fold = partial(partials, layout=layout, threads=_threads(source, engine))
    exact = _guarded(lambda: Counts.of(passing.folded(fold, partial(tell, "counting")), layout))
    reservation = _reserve(plan)
    elsewhere = passing.folded if source.engine == "spark" and plan.contribution is None else None
    rows = Rows(passing.batches, plan.schema, plan.mechanism.counted(plan.schema), exact.n, elsewhere)
    vault = Vault(exact, plan.rho, noise, rows)
    found = plan.mechanism.run(vault, plan.schema, tell)
    if plan.ledger is not None and reservation is not None:
        _complete(plan.ledger, reservation)
    tell("done", 1.0)
    return Release(
        schema=plan.schema,
        mechanism=plan.mechanism.name,
        budget=plan.budget,
        rho=plan.budget.rho,
        measurements=found.measurements,
        marginals=found.marginals,
        fitted=found.fitted,
        target=plan.target,
        private=private,
        entry=None if reservation is None else _entry(reservation),
        contribution=plan.contribution,
        provenance=_provenance(),
    )


def _complete(ledger: Ledger, reservation: Reservation) -> None:
    """None; what cannot be marked as complete is spent all the same, and a release that is paid for is not thrown away."""
    try:
        ledger.complete(reservation)
    except LedgerError as error:
        warn(f"the release is made and paid for, but the ledger could not note that it is complete: {error}", stacklevel=3)


def product_noise() -> Noise:
    """The noise of private releases; it holds no data, so audits may draw from it."""
    return OpenDPNoise()


@cache
def _provenance() -> dict[str, str]:
    return {"ddssp": __version__, "opendp": metadata.version("opendp")}


class _Passing:
    """Passes over all records, or those of each person that count; one during which the data changed fails."""

    def __init__(self, source: Source, columns: tuple[str, ...], contribution: Contribution | None, tell: Tell) -> None:
        self._source, self._columns, self._before = source, columns, source.stamp()
        self._people = None if contribution is None else People(source.batches, contribution, tell)

    def batches(self) -> Iterator[pa.RecordBatch]:
        read = self._source.batches if self._people is None else self._people.batches
        yield from read(self._columns)
        self._require_unchanged()

    def folded(self, fold: Fold, tell: Tell = quiet) -> Iterator[NDArray[np.int64]]:
        if self._people is None:
            yield from self._source.folded(self._columns, fold, tell)
        else:
            yield from fold(self._people.batches(self._columns, tell))
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        if self._source.stamp() != self._before:
            raise DataError(f"{CHANGED}.")


def _threads(source: Source, engine: Engine | None) -> int | None:
    """Threads of the kernel: all cores, but one for each of Spark's tasks."""
    asked = None if engine is None else engine.threads
    return 1 if asked is None and source.engine == "spark" else asked


def _guarded(read: Callable[[], T]) -> T:
    """read(); a failure that nobody foresaw is named by its type alone, since its message might quote a cell."""
    try:
        return read()
    except (DataError, OSError):
        raise
    except Exception as error:
        raise DataError(f"the rows could not be counted ({type(error).__name__}); nothing was drawn or spent.") from None


def require_covered(plan: Plan) -> None:
    """Refuses a plan that its ledger does not cover, before any row is read; the reservation itself asks again."""
    if plan.ledger is not None:
        plan.ledger.require_covered(plan.dataset, plan.budget.rho, plan.contribution)


def schema_changed(plan: Plan) -> bool:
    """Whether the ledger's latest release of this dataset was made under another schema."""
    if plan.ledger is None:
        return False
    known = {a.dataset: a.fingerprint for a in plan.ledger.datasets()}
    return known.get(plan.dataset, "") not in ("", plan.ledger.fingerprint(plan.schema.fingerprint))


def columns_of(data: Any, engine: Engine | None = None) -> list[str]:
    """Names of the data's columns; structure, not content."""
    return opened(data, engine).names()


def engine_of(data: Any, engine: Engine | None = None) -> str:
    """Who will read the data."""
    return opened(data, engine).engine


def drafted(data: Any) -> Schema:
    """A schema read from values, all of it TO CONFIRM; for the data's owner only."""
    return draft(data)


def _read(schema: Schema, layout: Layout) -> tuple[str, ...]:
    return sources(schema, layout.columns) or tuple(schema.columns)[:1]


def _reserve(plan: Plan) -> Reservation | None:
    if plan.ledger is None:
        return None
    return plan.ledger.reserve(
        plan.dataset,
        plan.budget.rho,
        epsilon=plan.budget.epsilon,
        delta=plan.budget.delta,
        schema_fingerprint=plan.ledger.fingerprint(plan.schema.fingerprint),
        mechanism=plan.mechanism.name,
        contribution=plan.contribution,
    )


def _entry(reservation: Reservation) -> dict[str, Any]:
    """What a release carries of its reservation: enough for the owner to find it again."""
    return {"dataset": reservation.dataset, "counter": reservation.counter, "hash": reservation.hash}
