"""The ledger's commands: budget, show, verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddssp.cli.owner import PANEL, Json

if TYPE_CHECKING:
    from ddssp.privacy.ledger import Account, Ledger


def register(app: typer.Typer) -> None:
    ledger = typer.Typer(no_args_is_help=True, help="The file that adds up what each dataset has spent, up to a ceiling.")
    ledger.command("budget")(budget)
    ledger.command("show")(show)
    ledger.command("verify")(verify)
    app.add_typer(ledger, name="ledger", rich_help_panel=PANEL)


LedgerFile = Annotated[Path, typer.Argument(help="Ledger file.", metavar="LEDGER")]


def budget(
    ledger: LedgerFile,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="ε that all releases together may cost.")],
    delta: Annotated[float, typer.Option("--delta", "-d", help="δ that all releases together may cost.")],
    dataset: Annotated[str, typer.Option(help="The dataset's name; a release's default is its schema's name.")] = "dataset",
    unit: Annotated[
        str | None, typer.Option(help="Column that names the person; '' for rows. Left out: as declared before, or else rows.")
    ] = None,
    json: Json = False,
) -> None:
    """Declare what a dataset may spend in all, for one row or, with --unit, for all rows of one person; creates the ledger."""
    from ddssp.cli.show import emit_json, note
    from ddssp.privacy.ledger import Ledger

    account = Ledger(ledger).set_budget(dataset, epsilon, delta, unit)
    if json:
        emit_json(_account(account))
        return
    granted = f"{dataset}: may spend ε = {epsilon:g} at δ = {delta:g} in all (ρ = {float(account.ceiling):.6g})"
    note(f"{granted}, for {account.protects}; left: ε = {account.epsilon_left:.4g}")


def show(ledger: LedgerFile, json: Json = False) -> None:
    """Show ceilings, spending and every reservation; `left ε` is what the next release at that δ may ask for."""
    from ddssp.cli.show import emit_json, emit_table, note
    from ddssp.privacy.ledger import Ledger

    accounts, history = Ledger(ledger).datasets(), _history(Ledger(ledger))
    if json:
        emit_json([_account(a) | {"history": [h for h in history if h["dataset"] == a.dataset]} for a in accounts])
        return
    rows = [
        (
            *(a.dataset, f"{a.epsilon:g}", f"{a.delta:g}", f"{a.epsilon_spent:.4g}", f"{a.epsilon_left:.4g}"),
            *(str(a.reservations), a.protects),
        )
        for a in accounts
    ]
    emit_table("Ledger", ("dataset", "ceiling ε", "at δ", "spent ε", "left ε", "releases", "for"), rows, text=("for",))
    if history:
        words = ("mechanism", "for", "reserved", "completed", "schema")
        emit_table("Reservations", ("dataset", "number", "ε", "at δ", *words), map(_cells, history), text=words)
    if any(h["schema_changed"] for h in history):
        note("changed: under another schema than the release before; is it still the same data?")


def _cells(h: dict[str, Any]) -> tuple[str, ...]:
    asked = (h["dataset"], str(h["counter"]), f"{h['epsilon']:g}", f"{h['delta']:g}")
    unit = f"one {h['unit_column']!r}, k = {h['max_rows']}" if h["max_rows"] else h["unit"]
    schema = f"{h['schema'][:8]}{', changed' if h['schema_changed'] else ''}"
    return (*asked, h["mechanism"], unit, h["reserved"][:16].replace("T", " "), h["completed"], schema)


def _history(ledger: Ledger) -> list[dict[str, Any]]:
    """Every reservation; one that was never completed stays spent."""
    from ddssp.privacy.books import protected
    from ddssp.privacy.ledger import Kind

    entries = ledger.entries()
    done = {(e.dataset, e.counter) for e in entries if e.kind is Kind.COMPLETE}
    schemas = {(e.dataset, e.counter): e.fingerprint for e in entries if e.kind is Kind.RESERVE}
    return [
        {
            "dataset": e.dataset,
            "counter": e.counter,
            "epsilon": e.epsilon,
            "delta": e.delta,
            "rho": str(e.rho),
            "mechanism": e.mechanism,
            "unit": protected(e.unit),
            "unit_column": e.unit or None,
            "max_rows": e.max_rows or None,
            "reserved": e.created,
            "completed": "yes" if (e.dataset, e.counter) in done else "no, and spent",
            "schema": e.fingerprint,
            "schema_changed": schemas.get((e.dataset, e.counter - 1), e.fingerprint) != e.fingerprint,
        }
        for e in entries
        if e.kind is Kind.RESERVE
    ]


def verify(
    ledger: LedgerFile,
    release: Annotated[Path | None, typer.Option(help="A release whose entry the ledger must hold.")] = None,
    json: Json = False,
) -> None:
    """Check that no row of the ledger was edited, removed or added by hand; by its newest release, that it is no old copy."""
    from ddssp.cli.show import emit_json, note
    from ddssp.privacy.ledger import Ledger

    found = Ledger(ledger).verify()
    held = None if release is None or not found.ok else _holds(Ledger(ledger), release)
    if json:
        emit_json({"ok": found.ok, "rows": found.rows, "broken": found.broken, "reason": found.reason, "holds_release": held})
    else:
        where = "" if found.broken is None else f" at row {found.broken}"
        note(f"{found.rows} rows, intact" if found.ok else f"broken{where}: {found.reason}")
        if held is not None:
            note(
                f"holds the entry of {release}"
                if held
                else f"does not hold the entry of {release}: another ledger, or an old copy"
            )
    if not found.ok or held is False:
        raise typer.Exit(2)


def _holds(ledger: Ledger, release: Path) -> bool:
    from ddssp.released import load

    entry = load(release).entry
    if entry is None:
        raise ValueError(f"release {str(release)!r} was made without a ledger, so no ledger holds it.")
    return ledger.contains(entry["counter"], entry["hash"], entry["dataset"])


def _account(account: Account) -> dict[str, object]:
    return {
        "dataset": account.dataset,
        "epsilon": account.epsilon,
        "delta": account.delta,
        "unit": account.protects,
        "unit_column": account.unit or None,
        "rho_ceiling": str(account.ceiling),
        "rho_spent": str(account.spent),
        "epsilon_spent": account.epsilon_spent,
        "epsilon_left": account.epsilon_left,
        "reservations": account.reservations,
    }
