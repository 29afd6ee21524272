"""`ddssp doctor`: what is installed here, and what that allows."""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from importlib import metadata
from shutil import which
from typing import Annotated, Any

import typer

CORE = ("numpy", "scipy", "pyarrow", "opendp", "pydantic", "typer", "rich")

EXTRAS = {
    "speed": ("numba", "faster counting"),
    "duckdb": ("duckdb", "DuckDB relations and SQL sources"),
    "polars": ("polars", "polars frames"),
    "spark": ("pyspark", "Spark frames and clusters"),
    "sklearn": ("scikit-learn", "DPLinearRegression and the other estimators"),
    "report": ("matplotlib", "fit --plot"),
    "demo": ("statsmodels", "ddssp demo"),
    "sign": ("cryptography", "release --sign, info --verify"),
}

ENGINES = {
    "arrow": "frames in memory, Parquet, CSV, s3://…; --batch-rows, --threads",
    "duckdb": "relations, databases, queries: --sql",
    "spark": "Spark frames; Parquet on a cluster: --master",
}


def register(app: typer.Typer) -> None:
    app.command("doctor", rich_help_panel="To begin with")(doctor)


def doctor(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what is installed: environment, extras, engines; exit code 2 if something that every command needs is missing."""
    from ddssp.cli.show import emit_json, emit_table

    found = diagnosis()
    if json:
        emit_json(found)
    else:
        rows = [(name, str(value), "") for name, value in found["environment"].items()]
        rows += [(name, version or "MISSING", "needed by every command") for name, version in found["core"].items()]
        rows += [
            (f"[{name}]", e["version"] or "–", e["for"] if e["version"] else e["remedy"]) for name, e in found["extras"].items()
        ]
        rows += [(f"engine {name}", "yes" if e["ready"] else "–", e["note"]) for name, e in found["engines"].items()]
        emit_table("ddssp doctor", ("", "found", "what for"), rows, text=("found", "what for"))
        print("All is well." if found["ok"] else "Something is missing: reinstall with pip install --force-reinstall ddssp.")
    if not found["ok"]:
        raise typer.Exit(2)


def diagnosis() -> dict[str, Any]:
    """Versions of what is installed, read without importing any of it."""
    import ddssp

    core = {name: _version(name) for name in CORE}
    extras = {
        name: {"package": package, "version": _version(package), "for": purpose, "remedy": f"pip install 'ddssp[{name}]'"}
        for name, (package, purpose) in EXTRAS.items()
    }
    return {
        "ok": all(core.values()),
        "environment": {
            "ddssp": ddssp.__version__,
            "Python": platform.python_version(),
            "platform": platform.platform(terse=True),
            "SQLite (ledger)": sqlite3.sqlite_version,
            "encoding": sys.stdout.encoding or "unknown",
        },
        "core": core,
        "extras": extras,
        "engines": _engines(),
    }


def _engines() -> dict[str, dict[str, object]]:
    """What `release --engine` may name: whether it is ready here, what it reads and its own options, or the remedy."""
    java = which("java") is not None or bool(os.environ.get("JAVA_HOME"))
    spark = None if java else "install Java 17 or set JAVA_HOME"
    missing = {
        "arrow": None if _version("pyarrow") else "pip install pyarrow",
        "duckdb": None if _version("duckdb") else "pip install 'ddssp[duckdb]'",
        "spark": spark if _version("pyspark") else "pip install 'ddssp[spark]'",
    }
    return {name: {"ready": missing[name] is None, "note": missing[name] or note} for name, note in ENGINES.items()}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
