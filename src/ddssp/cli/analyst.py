"""Commands for whoever has only the release: fit, info."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

ReleaseFile = Annotated[Path, typer.Argument(help="Release file (.ddssp).", metavar="RELEASE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    app.command("fit")(fit)
    app.command("info")(info)


def fit(
    release: ReleaseFile,
    target: Annotated[str, typer.Option("--target", "-t", help="Column to explain.")],
    model: Annotated[str, typer.Option("--model", "-m", help="linear.")] = "linear",
    features: Annotated[
        str | None, typer.Option("--features", "-f", help="Comma-separated columns; default: all others.")
    ] = None,
    no_intercept: Annotated[bool, typer.Option("--no-intercept", help="Leave the intercept out.")] = False,
    json: Json = False,
) -> None:
    """Fit a regression from a release; costs no privacy, as often as you like."""
    from ddssp.cli.show import emit_json, emit_table, number
    from ddssp.released import load

    if model != "linear":
        raise ValueError(f"model must be linear, got {model!r}.")
    loaded = load(release)
    chosen = None if features is None else [f.strip() for f in features.split(",") if f.strip()]
    fitted = loaded.linear(target, features=chosen, intercept=not no_intercept)
    if json:
        emit_json({"model": model, "target": target, "private": loaded.private, "coef": fitted.coef})
        return
    warning = "" if loaded.private else "NOT PRIVATE: "
    title = f"{warning}{model} regression of {target} (ε = {loaded.budget.epsilon:g}, δ = {loaded.budget.delta:g})"
    emit_table(title, ("", "coef"), [(name, number(value)) for name, value in fitted.coef.items()])


def info(release: ReleaseFile, json: Json = False) -> None:
    """Say what a release holds and what it guarantees."""
    from ddssp.cli.show import emit_json, emit_table
    from ddssp.released import load

    loaded = load(release)
    header = loaded.header()
    if json:
        emit_json(header | {"measurements": len(loaded.measurements)})
        return
    emit_table(str(release), ("", "value"), [(name, _plain(value)) for name, value in header.items()])


def _plain(value: Any) -> str:
    if isinstance(value, dict) and "columns" in value:
        return ", ".join(value["columns"])
    return "–" if value is None else str(value)
