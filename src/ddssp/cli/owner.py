"""Commands for whoever holds the rows: release, schema."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from ddssp.curate import Plan
    from ddssp.released import Release

Data = Annotated[str, typer.Argument(help="Parquet or CSV file.", metavar="DATA")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]


PANEL = "For the data's owner, who has the rows"
MAY, DID = " (it may end with a perturbed objective)", " with a perturbed objective"


def register(app: typer.Typer) -> None:
    schema = typer.Typer(no_args_is_help=True, help="Draft and check schemas (owner only: both look at the data).")
    schema.command("draft")(draft)
    schema.command("check")(check)
    app.command("release", rich_help_panel=PANEL)(release)
    app.add_typer(schema, name="schema", rich_help_panel=PANEL)


def release(
    data: Data,
    schema: Annotated[str, typer.Option("--schema", "-s", help="Schema file (TOML).")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy budget ε.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="Privacy budget δ; well below one over the number of records.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write.")] = Path("release.ddssp"),
    mechanism: Annotated[str, typer.Option(help="How the budget is spent: moments, aim, task, auto.")] = "auto",
    target: Annotated[str | None, typer.Option(help="Column to explain; auto then spends all on it.")] = None,
    model: Annotated[str, typer.Option(help="What task fits: linear, logistic, or by the target: auto.")] = "auto",
    inference: Annotated[str, typer.Option(help="How aim estimates all marginals: pgm, tree, auto.")] = "auto",
    model_size: Annotated[float, typer.Option(help="MB that aim's graphical model may take.")] = 200.0,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that must cover the spend.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Name in the ledger; default: the schema's name.")] = None,
    unit: Annotated[str | None, typer.Option(help="Column that names the person; protects people, not rows.")] = None,
    max_rows: Annotated[int | None, typer.Option(help="How many rows of each person count, with --unit.")] = None,
    exact_only: Annotated[bool, typer.Option("--exact-only", help="Sums of integers alone: no perturbed objective.")] = False,
    sign: Annotated[Path | None, typer.Option(help="Private key (Ed25519, PEM); writes OUTPUT.sig beside the release.")] = None,
    engine: Annotated[str, typer.Option(help="Who reads the rows: arrow, duckdb, spark, auto.")] = "auto",
    master: Annotated[str | None, typer.Option(help="Where Spark runs: local[*], spark://host:port.")] = None,
    sql: Annotated[str | None, typer.Option(help="DuckDB query that gives the rows; DATA is its table `data`.")] = None,
    batch_rows: Annotated[int, typer.Option(help="Rows in memory at once.")] = 2**18,
    threads: Annotated[int | None, typer.Option(help="Threads that count; default: all cores.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be spent and measured, and stop.")] = False,
    report: Annotated[Path | None, typer.Option(help="With --dry-run: HTML file on what accuracy to expect.")] = None,
    records: Annotated[int | None, typer.Option(help="With --report: about how many rows there are, as you state it.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a private release of DATA: one file, from which everything else follows at no further cost."""
    from ddssp import curate
    from ddssp.cli.show import emit_json, note, progress
    from ddssp.engine import Engine
    from ddssp.frame import require, require_unit

    reading = Engine(kind=engine, master=master, sql=sql, batch_rows=batch_rows, threads=threads)
    plan = curate.plan(
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
    if dataset is not None and ledger is None:
        raise ValueError(f"dataset is a name in a ledger, got {dataset!r} without one; add --ledger, or leave --dataset out.")
    beside = {} if ledger is None else {f"ledger's {end}": f"{ledger}{end}" for end in ("-wal", "-shm", "-journal")}
    _require_output(output, ".ddssp", force, data=data, schema=schema, ledger=ledger, **beside)
    key = None if sign is None else _signing_key(sign, output, force)
    _no_core_dumps()
    require(tuple(plan.schema.columns), present := curate.columns_of(data, reading))
    if unit is not None:
        require_unit(unit, present)
    curate.require_covered(plan)
    left = _left(plan)
    summary = _summary(plan, left, engine=curate.engine_of(data, reading), ledger=ledger, output=output, dry_run=dry_run)
    if summary["schema_changed"]:
        note(
            f"warning: the ledger's last release of {plan.dataset!r} was made under another schema; other data needs --dataset"
            " and a ceiling of its own, the same data belongs here"
        )
    if report is not None or records is not None:
        _preview(plan, report, records, dry_run, force)
    made = None
    if not dry_run:
        with progress() as tell:
            made = curate.curate(data, plan, progress=tell, engine=reading)
        _save(made, output, key, force)
        summary["perturbed"] = made.fitted is not None and made.fitted.perturbed
    emit_json(summary) if json else note(_told(plan, left, summary, made))


def _summary(
    plan: Plan, left: float | None, *, engine: str, ledger: Path | None, output: Path, dry_run: bool
) -> dict[str, Any]:
    """What is spent on what, as --json prints it."""
    from ddssp.curate import schema_changed

    return {
        "mechanism": plan.mechanism.name,
        "perturbed": None if plan.mechanism.perturbed else False,
        "epsilon": plan.budget.epsilon,
        "delta": plan.budget.delta,
        "rho": float(plan.budget.rho),
        "unit": plan.schema.unit,
        "max_rows": None if plan.contribution is None else plan.contribution.rows,
        "columns": len(plan.schema.resolved),
        "target": plan.target,
        "engine": engine,
        "draws": plan.cost.draws,
        "memory": plan.cost.bytes,
        "ledger": None if ledger is None else {"file": str(ledger), "dataset": plan.dataset, "epsilon_left": left},
        "schema_changed": schema_changed(plan),
        "output": str(output),
        "dry_run": dry_run,
    }


def _told(plan: Plan, left: float | None, summary: dict[str, Any], made: Release | None) -> str:
    """The same in words, and what to do next."""
    engine, output = summary["engine"], summary["output"]
    if made is None:
        return (
            f"would spend {_spend(plan, MAY * plan.mechanism.perturbed)}\n{_rest(plan, left, 'would leave')}\n"
            f"would take {plan.cost}, read by {engine}\nnothing was counted, drawn or spent"
        )
    fitted = made.fitted
    request = "--target COLUMN" if fitted is None else f"--target {quote(fitted.target)} --model {fitted.model}"
    return (
        f"spent {_spend(plan, DID * summary['perturbed'])}; read by {engine}\n{_rest(plan, left, 'left:')}\n"
        f"wrote {output}; next: ddssp fit {output} {request}"
    )


def _save(made: Release, output: Path, key: Ed25519PrivateKey | None, force: bool) -> None:
    """None; the release is written, and its signature beside it where there is a key; what is paid for is not lost."""
    from ddssp.released import ExistsError

    try:
        made.save(output, force=force)
    except (ValueError, OSError) as error:
        kept = _kept(made, output)
        where = "it could be written nowhere" if kept is None else f"it is in {str(kept)!r}"
        why = f"output {str(output)!r} exists by now" if isinstance(error, ExistsError) else str(error).rstrip(".")
        raise ValueError(f"{why}; the release is made and its budget stays spent, {where}.") from error
    if key is not None:
        from ddssp.privacy.signature import sign

        sign(made.to_bytes(), output, key)


def _kept(made: Release, output: Path) -> Path | None:
    """A new file with the release: beside its place, in this folder, among temporary files; None where none can be written."""
    for folder, number in product((output.parent, Path.cwd(), Path(tempfile.gettempdir())), range(2, 100)):
        path = folder / f"{output.stem}-{number}.ddssp"
        with suppress(ValueError, OSError):
            made.save(path)
            return path
    return None


def _preview(plan: Plan, report: Path | None, records: int | None, dry_run: bool, force: bool) -> None:
    """Writes the page on what accuracy to expect, from the plan and the stated number of records alone."""
    from ddssp.cli.show import note
    from ddssp.released import require_writable
    from ddssp.report.expectation import expectation
    from ddssp.report.page import PAGES, expectation_page, put

    if report is None or records is None or not dry_run:
        raise ValueError("--report needs --dry-run and --records beside it: it says what to expect of about so many rows.")
    require_writable(report, force=force, kinds=PAGES)
    budget, name = plan.budget, plan.mechanism.name
    found = expectation(
        plan.schema,
        records=records,
        epsilon=budget.epsilon,
        delta=budget.delta,
        target=plan.target,
        mechanism=name,
        contribution=plan.contribution,
    )
    put(report, expectation_page(found).encode())
    note(f"wrote {report}: expected accuracy at several ε, from the schema and the stated number of records")


def _signing_key(path: Path, output: Path, force: bool) -> Ed25519PrivateKey:
    """The key, looked at before anything is spent; and its signature can be written."""
    from ddssp.privacy.signature import private_key, signature_path
    from ddssp.released import require_writable

    require_writable(signature_path(output), force=force)
    return private_key(path)


def _no_core_dumps() -> None:
    """None; should this process crash, its memory, which holds rows, is not written to disk."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _require_output(output: Path, suffix: str, force: bool, **inputs: str | Path | None) -> None:
    """Refuses an output that would replace an input, that cannot be written, or, with `force`, that is another kind of file."""
    from ddssp.released import require_writable

    for name, path in inputs.items():
        if path is not None and _is_within(output, Path(path)):
            raise ValueError(f"output {str(output)!r} would replace the {name} that it is made from; choose another name.")
    require_writable(output, force=force, kinds=(suffix,))


def _is_within(output: Path, given: Path) -> bool:
    """Whether a file is `given`, by whatever name, or lies in that folder."""
    if output.exists() and given.exists() and output.samefile(given):
        return True
    return output.resolve() == given.resolve() or (given.is_dir() and given.resolve() in output.resolve().parents)


def _spend(plan: Plan, how: str) -> str:
    return (
        f"ε = {plan.budget.epsilon:g} at δ = {plan.budget.delta:g} (ρ = {float(plan.budget.rho):.6g}) "
        f"on {plan.mechanism.name}{how}; protects each {plan.schema.unit} ({_neighbours(plan)})"
    )


def _left(plan: Plan) -> float | None:
    """The ε that the ledger will leave after the release, at the ceiling's δ; None without a ledger."""
    if plan.ledger is None:
        return None
    account = next(a for a in plan.ledger.datasets() if a.dataset == plan.dataset)
    return replace(account, spent=account.spent + plan.budget.rho).epsilon_left


def _rest(plan: Plan, left: float | None, verb: str) -> str:
    return "no ledger keeps count" if left is None else f"{verb} ε = {left:.4g} for dataset {plan.dataset!r} in the ledger"


def _neighbours(plan: Plan) -> str:
    from ddssp.privacy.budget import Neighbours

    bound = plan.contribution
    if bound is None:
        return Neighbours.ADD_REMOVE.value
    return f"all rows with one {bound.column!r}, of which at most {bound.rows} count"


def draft(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Schema file to write.")] = Path("schema.toml"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Draft a schema from DATA, for its owner only: whatever it read from values is marked TO CONFIRM."""
    from ddssp.cli.show import emit_json, note
    from ddssp.curate import columns_of, drafted
    from ddssp.whole import write

    _require_output(output, ".toml", force, data=data)
    schema = drafted(data)
    header = (
        "# Drafted from the data, for its owner only. Every setting named in a `to_confirm` line was read from values:\n"
        "# replace it by what the codebook says, then delete the line. A release refuses the schema until all are gone.\n"
        "# Cells that are no declared level count as `other`, or, where a column has none, as its first level.\n"
        "# `unit` is whose presence the release protects: what one row is about.\n\n"
    )
    write(output, (header + schema.to_toml()).encode(), mode=0o600)  # it shows what values there are
    left_out = [c for c in columns_of(data) if c not in schema.columns]
    facts = {"columns": len(schema.columns), "to_confirm": list(schema.to_confirm), "left_out": left_out, "output": str(output)}
    if json:
        emit_json(facts)
        return
    note(f"wrote {output}: {len(schema.columns)} columns, {len(schema.to_confirm)} settings TO CONFIRM; for the owner only")
    if left_out:
        note(f"left out, being neither numbers nor text: {', '.join(left_out)}")
    note(f"next: confirm each against the codebook, delete its to_confirm line, then: ddssp schema check {output}")


def check(
    schema: Annotated[str, typer.Argument(help="Schema file (TOML).")],
    data: Annotated[str | None, typer.Argument(help="Parquet or CSV file to compare with.")] = None,
    json: Json = False,
) -> None:
    """Check a schema, and whether DATA has its columns, for its owner only; says nothing about values."""
    from ddssp.cli.show import emit_json, note
    from ddssp.curate import columns_of
    from ddssp.frame import require
    from ddssp.schema import Schema

    loaded = Schema.load(schema)
    if data is not None:
        require(tuple(loaded.columns), columns_of(data))
    facts = {
        "columns": len(loaded.columns),
        "derived": len(loaded.derived),
        "to_confirm": list(loaded.to_confirm),
        "for": "the owner only",
    }
    if json:
        emit_json(facts)
    else:
        waiting = f"; still TO CONFIRM: {loaded.waiting()}" if loaded.to_confirm else ""
        derived = f" and {len(loaded.derived)} derived ones" if loaded.derived else ""
        note(f"{schema} is a valid schema of {len(loaded.columns)} columns{derived}{waiting}; for the owner only")
