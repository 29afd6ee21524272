"""`ddssp synth`: synthetic rows from a release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddssp.cli.analyst import PANEL


def register(app: typer.Typer) -> None:
    app.command("synth", rich_help_panel=PANEL)(synth)


def synth(
    release: Annotated[Path, typer.Argument(help="Release file (.ddssp).", metavar="RELEASE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write: .csv or .parquet.")],
    rows: Annotated[int | None, typer.Option("--rows", "-n", help="How many; default: as many as were released.")] = None,
    seed: Annotated[int | None, typer.Option(help="Makes the same rows again.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write synthetic rows that match a release; costs no privacy, as often as you like."""
    from ddssp.cli.show import emit_json, note
    from ddssp.released import load
    from ddssp.synth import require_format, synthetic, write

    require_format(output, force=force)
    loaded = load(release)
    table = synthetic(loaded, rows=rows, seed=seed)
    write(table, output, force=force)
    if json:
        emit_json({"rows": table.num_rows, "columns": table.column_names, "private": loaded.private, "output": str(output)})
    else:
        warning = "" if loaded.private else "NOT PRIVATE: "
        note(f"{warning}wrote {output}: {table.num_rows} synthetic rows of {table.num_columns} columns")
