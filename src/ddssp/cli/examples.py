"""What each command looks like in use; `--help` ends with it."""

from __future__ import annotations

import typer

EXAMPLES = {
    "demo": "ddssp demo",
    "doctor": "ddssp doctor --json",
    "release": "ddssp release people.csv --schema schema.toml --epsilon 1 --delta 1e-6 -o people.ddssp",
    "draft": "ddssp schema draft people.csv -o schema.toml",
    "check": "ddssp schema check schema.toml people.csv",
    "budget": "ddssp ledger budget ledger.db --epsilon 1 --delta 1e-6 --dataset people",
    "show": "ddssp ledger show ledger.db",
    "verify": "ddssp ledger verify ledger.db",
    "fit": "ddssp fit people.ddssp --target visits --features age,plan",
    "audit": "ddssp audit --only gaussian",
    "info": "ddssp info people.ddssp",
    "synth": "ddssp synth people.ddssp --rows 1000 -o rows.csv",
    "report": "ddssp report people.ddssp -o people.html",
}


def illustrate(app: typer.Typer) -> None:
    """Ends the help of every command of `app`, and of its groups, with its example."""
    for command in app.registered_commands:
        if command.name in EXAMPLES:
            command.epilog = f"Example: {EXAMPLES[command.name]}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            illustrate(group.typer_instance)
