"""The command line: owner commands (release, schema, ledger) and analyst commands (fit, info, synth).

stdout is data, stderr is progress. Exit codes: 0 ok, 2 bad usage or input, 3 refused by the budget.
"""

from __future__ import annotations

import io
import sys

import typer

from ddssp.cli import analyst, audit, demo, owner, reproduce, synth

app = typer.Typer(
    name="ddssp",
    help="Differentially private regression on tabular data: release once, regress for ever.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 2 bad usage or input, 3 refused by the budget.",
)


def _version(asked: bool) -> None:
    if asked:
        import ddssp

        print(f"ddssp {ddssp.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


demo.register(app)
owner.register(app)
audit.register(app)
analyst.register(app)
synth.register(app)
reproduce.register(app)


def main() -> None:
    """Runs the command line; every expected failure is one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε must not turn a spent budget into an error
    try:
        app()
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != 130:  # typer's own for Ctrl-C
            raise
        _fail("interrupted; what the ledger has reserved stays spent, and no file was written.", 130)
    except Exception as error:
        from ddssp.privacy.budget import BudgetError

        if isinstance(error, BudgetError):
            _fail(str(error), 3)
        if isinstance(error, ValueError | OSError):
            _fail(str(error), 2)
        raise


def _fail(sentence: str, code: int) -> None:
    print(f"error: {sentence}", file=sys.stderr)
    raise SystemExit(code)
