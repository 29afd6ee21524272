"""`ddssp report`: a release as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ddssp.cli.analyst import PANEL


def register(app: typer.Typer) -> None:
    app.command("report", rich_help_panel=PANEL)(report)


def report(
    release: Annotated[Path, typer.Argument(help="Release file (.ddssp).", metavar="RELEASE")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write; - for stdout.")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a report with an explorer: one file, no network, opens from disk; costs no privacy."""
    from ddssp.cli.show import emit_json, note
    from ddssp.released import load, require_writable
    from ddssp.report.page import PAGES, page, write

    if str(output) == "-":
        if json:
            raise ValueError("output - writes the page itself to stdout; leave --json out, or name a file.")
        print(page(load(release), file=release.name), end="")
        return
    require_writable(output, force=force, kinds=PAGES)
    loaded = load(release)
    size = write(loaded, output, file=release.name, force=force)
    if json:
        emit_json({"output": str(output), "bytes": size, "private": loaded.private})
    else:
        warning = "" if loaded.private else "NOT PRIVATE: "
        note(f"{warning}wrote {output} ({size / 1e6:.1f} MB); open it in any browser")
