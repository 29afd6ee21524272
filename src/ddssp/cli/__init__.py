"""The command line: owner commands (release, schema, ledger) and analyst commands (fit, info, synth).

stdout is data, stderr is progress.
Exit codes: 0 ok, 2 bad usage or input, 3 refused by the budget, 1 a failure that nobody foresaw, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any, NoReturn, TextIO

import typer

from ddssp.cli import analyst, audit, demo, doctor, examples, ledger, owner, report, reproduce, synth

app = typer.Typer(
    name="ddssp",
    help="Differentially private regression on tabular data: release once, regress for ever.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 2 bad usage or input, 3 refused by the budget, 1 a failure that nobody foresaw, 130 interrupted.",
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
doctor.register(app)
owner.register(app)
ledger.register(app)
audit.register(app)
analyst.register(app)
synth.register(app)
report.register(app)
reproduce.register(app)
examples.illustrate(app)


def main() -> None:
    """Runs the command line; every expected failure is one sentence on stderr and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε must not turn a spent budget into an error
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        _explain(error)
    if code == 130:  # typer's own for Ctrl-C
        _fail("interrupted; what the ledger has reserved stays spent, and no file was written.", 130)
    raise SystemExit(code or 0)


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """None; a warning as a sentence, without the line of the source that it is from."""
    from ddssp.cli.show import note

    note(f"warning: {message}")


def _explain(error: Exception) -> NoReturn:
    """Ends the program with one sentence.

    A failure that nobody foresaw is told by its type alone: its message, or a line of a traceback, might quote a cell.
    """
    from ddssp.privacy.budget import BudgetError

    if isinstance(error, BudgetError):
        _fail(str(error), 3)
    if isinstance(error, ValueError):
        _fail(_refusal(error), 2)
    if isinstance(error, OSError):
        _fail(_system(error), 2)
    if type(error).__name__ == "NoArgsIsHelpError":  # making it has already printed the help
        raise SystemExit(2)
    if hasattr(error, "format_message"):  # bad usage, in the words of the command-line library
        _fail(_usage(error), 2)
    _fail(f"a failure that nobody foresaw ({type(error).__name__}); what the ledger has reserved stays spent.", 1)


def _refusal(error: ValueError) -> str:
    """Its sentence, with an option of the command line where Python has an argument."""
    from ddssp.released import ExistsError

    return str(ExistsError(error.path, "--force") if isinstance(error, ExistsError) else error)


def _system(error: OSError) -> str:
    """What the system refused, without its number: `'x.html': no space left on device.`"""
    if error.strerror is None or error.filename is None:
        return str(error)
    return f"{str(error.filename)!r}: {error.strerror[:1].lower()}{error.strerror[1:]}."


def _usage(error: Any) -> str:
    sentence = str(error.format_message()).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    where = "" if context is None else f"; see `{context.command_path} --help`"
    return f"{sentence[:1].lower()}{sentence[1:]}{where}."


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    raise SystemExit(code)
