"""The audit command: does the noise on this machine keep its promise?"""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "For the data's owner, who has the rows"


def register(app: typer.Typer) -> None:
    app.command("audit", rich_help_panel=PANEL)(audit)


def audit(
    only: Annotated[str, typer.Option(help="Comma-separated: gaussian, selection, moments, aim.")] = "gaussian,selection",
    runs: Annotated[int, typer.Option(min=100, help="Releases of either of two neighbouring tables.")] = 20_000,
    epsilon: Annotated[float, typer.Option("--epsilon", "-e", help="The ε that is claimed.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", "-d", help="The δ that is claimed.")] = 1e-5,
    alarm: Annotated[float, typer.Option(min=1e-9, max=0.5, help="Rate of false alarms of each audit.")] = 1e-3,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Attack releases of made-up rows with this machine's noise, and with 0.7 of it; exit code 2 if a claim is broken."""
    from ddssp.audit.bound import finding
    from ddssp.audit.worlds import AUDITS, Weakened, claim
    from ddssp.cli.show import emit_json, emit_table, note, number
    from ddssp.curate import product_noise
    from ddssp.privacy.budget import Budget

    Budget(epsilon=epsilon, delta=delta)
    names = [name.strip() for name in only.split(",")]
    if strange := [name for name in names if name not in AUDITS]:
        raise ValueError(f"only must name audits among {', '.join(AUDITS)}, got {strange[0]!r}.")
    found = []
    for name in names:
        pilot = runs // 10
        own, weak = (
            finding(
                name, sample(0, runs + pilot), sample(1, runs + pilot), claim(name, epsilon, delta), pilot=pilot, alarm=alarm
            )
            for sample in (AUDITS[name](noise, epsilon, delta) for noise in (product_noise(), Weakened()))
        )
        found.append((own, weak))
    if json:
        emit_json(
            [
                {
                    "audit": o.name,
                    "runs": o.runs,
                    "claim": o.claim,
                    "bound": o.bound,
                    "kept": not o.caught,
                    "twin_caught": w.caught,
                }
                for o, w in found
            ]
        )
    else:
        rows = [
            (
                o.name,
                str(o.runs),
                number(o.claim),
                number(o.bound),
                "BROKEN" if o.caught else "kept",
                "yes" if w.caught else "no",
            )
            for o, w in found
        ]
        emit_table(
            f"Audit at ε = {epsilon:g}, δ = {delta:g}",
            ("", "runs", "claimed μ", "μ at least", "claim", "twin caught"),
            rows,
            text=("claim", "twin caught"),
        )
        note("μ measures loss (Gaussian differential privacy): what ε and δ allow, and what the attack has shown to be lost")
        if unnoticed := ", ".join(own.name for own, twin in found if not twin.caught):
            note(f"the twin with 0.7 of the noise went unnoticed in {unnoticed}, so `kept` says little there: try more --runs")
    if any(own.caught for own, _ in found):
        raise typer.Exit(2)
