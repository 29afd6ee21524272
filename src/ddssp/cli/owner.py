"""Commands for whoever holds the rows: release, schema, ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ddssp.curate import Plan
    from ddssp.privacy.ledger import Account

Data = Annotated[str, typer.Argument(help="Parquet or CSV file.", metavar="DATA")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")]


def register(app: typer.Typer) -> None:
    schema = typer.Typer(no_args_is_help=True, help="Draft and check schemas (owner only: both look at the data).")
    schema.command("draft")(draft)
    schema.command("check")(check)
    ledger = typer.Typer(no_args_is_help=True, help="What each dataset may spend and has spent.")
    ledger.command("budget")(budget)
    ledger.command("show")(show)
    ledger.command("verify")(verify)
    app.command("release")(release)
    app.add_typer(schema, name="schema")
    app.add_typer(ledger, name="ledger")


def release(
    data: Data,
    schema: Annotated[str, typer.Option("--schema", "-s", help="Schema file (TOML).")],
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Privacy budget ε.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="Privacy budget δ; well below one over the number of records.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Release file to write.")] = Path("release.ddssp"),
    mechanism: Annotated[str, typer.Option(help="How the budget is spent: moments, aim, auto.")] = "auto",
    target: Annotated[str | None, typer.Option(help="Column whose regressions get more of the budget.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that must cover the spend.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Name in the ledger; default: the schema's name.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be spent and measured, and stop.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a private release of DATA: one file, from which everything else follows at no further cost."""
    from ddssp import curate
    from ddssp.cli.show import emit_json, note, progress
    from ddssp.frame import require
    from ddssp.released import ReleaseError

    plan = curate.plan(schema, epsilon=epsilon, delta=delta, mechanism=mechanism, target=target, ledger=ledger, dataset=dataset)
    if output.exists() and not force:
        raise ReleaseError(f"output {str(output)!r} exists; choose another name or pass --force.")
    if not output.parent.is_dir():
        raise ReleaseError(f"output directory {str(output.parent)!r} does not exist.")
    require(tuple(plan.schema.columns), curate.columns_of(data))
    summary = {
        "mechanism": plan.mechanism.name,
        "epsilon": epsilon,
        "delta": delta,
        "rho": float(plan.budget.rho),
        "unit": plan.schema.unit,
        "dataset": plan.dataset,
        "output": str(output),
    }
    if dry_run:
        emit_json(summary | {"dry_run": True}) if json else note(_spend(plan, "would spend"))
        return
    with progress() as tell:
        made = curate.curate(data, plan, progress=tell)
    made.save(output, force=force)
    emit_json(summary) if json else note(f"{_spend(plan, 'spent')}\nwrote {output}")


def _spend(plan: Plan, verb: str) -> str:
    return (
        f"{plan.mechanism.name}: {verb} ε = {plan.budget.epsilon:g} at δ = {plan.budget.delta:g} "
        f"(ρ = {float(plan.budget.rho):.6g}); protects each {plan.schema.unit} (add or remove one)."
    )


def draft(
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Schema file to write.")] = Path("schema.toml"),
    force: Force = False,
) -> None:
    """Draft a schema from DATA. It reads values: what it proposes is marked TO CONFIRM and must not be published unread."""
    from ddssp.cli.show import note
    from ddssp.curate import drafted

    if output.exists() and not force:
        raise ValueError(f"output {str(output)!r} exists; choose another name or pass --force.")
    schema = drafted(data)
    header = (
        "# Drafted from the data, for its owner only. Every setting named in a `to_confirm` line was read from values:\n"
        "# replace it by what the codebook says, then delete the line. A release refuses the schema until all are gone.\n\n"
    )
    output.write_text(header + schema.to_toml(), encoding="utf-8")
    note(f"wrote {output}: {len(schema.columns)} columns, {len(schema.to_confirm)} settings TO CONFIRM")


def check(
    schema: Annotated[str, typer.Argument(help="Schema file (TOML).")],
    data: Annotated[str | None, typer.Argument(help="Parquet or CSV file to compare with.")] = None,
    json: Json = False,
) -> None:
    """Check a schema, and whether DATA has its columns; says nothing about values."""
    from ddssp.cli.show import emit_json, note
    from ddssp.curate import columns_of
    from ddssp.frame import require
    from ddssp.schema import Schema

    loaded = Schema.load(schema)
    if data is not None:
        require(tuple(loaded.columns), columns_of(data))
    facts = {"columns": len(loaded.columns), "derived": len(loaded.derived), "to_confirm": list(loaded.to_confirm)}
    if json:
        emit_json(facts)
    else:
        waiting = f"; TO CONFIRM: {', '.join(loaded.to_confirm)}" if loaded.to_confirm else ""
        note(f"{schema} is a valid schema of {len(loaded.columns)} columns and {len(loaded.derived)} derived ones{waiting}")


LedgerFile = Annotated[Path, typer.Argument(help="Ledger file.", metavar="LEDGER")]


def budget(
    ledger: LedgerFile,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="Ceiling ε.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="Ceiling δ.")],
    dataset: Annotated[str, typer.Option(help="The dataset's name.")] = "dataset",
) -> None:
    """Declare what a dataset may spend in all; creates the ledger."""
    from ddssp.cli.show import note
    from ddssp.privacy.ledger import Ledger

    account = Ledger(ledger).set_budget(dataset, epsilon, delta)
    granted = f"{dataset}: may spend ε = {epsilon:g} at δ = {delta:g} in all (ρ = {float(account.ceiling):.6g})"
    note(f"{granted}; left: ε = {account.epsilon_left:.4g}")


def show(ledger: LedgerFile, json: Json = False) -> None:
    """Show ceilings, spending and every reservation."""
    from ddssp.cli.show import emit_json, emit_table
    from ddssp.privacy.ledger import Ledger

    accounts = Ledger(ledger).datasets()
    if json:
        emit_json([_account(a) for a in accounts])
        return
    rows = [
        (a.dataset, f"{a.epsilon:g}", f"{a.delta:g}", f"{a.epsilon_spent:.4g}", f"{a.epsilon_left:.4g}", str(a.reservations))
        for a in accounts
    ]
    emit_table("Ledger", ("dataset", "ceiling ε", "at δ", "spent ε", "left ε", "releases"), rows)


def verify(ledger: LedgerFile, json: Json = False) -> None:
    """Check that no row of the ledger was edited, removed or added by hand."""
    from ddssp.cli.show import emit_json, note
    from ddssp.privacy.ledger import Ledger

    found = Ledger(ledger).verify()
    if json:
        emit_json({"ok": found.ok, "rows": found.rows, "broken": found.broken, "reason": found.reason})
    else:
        note(f"{found.rows} rows, intact" if found.ok else f"broken at row {found.broken}: {found.reason}")
    if not found.ok:
        raise typer.Exit(2)


def _account(account: Account) -> dict[str, object]:
    return {
        "dataset": account.dataset,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "rho_ceiling": str(account.ceiling),
        "rho_spent": str(account.spent),
        "epsilon_spent": account.epsilon_spent,
        "epsilon_left": account.epsilon_left,
        "reservations": account.reservations,
    }
