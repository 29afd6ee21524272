"""`ddssp reproduce`: the paper's experiments, from one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    example = "Example: ddssp reproduce --data DIR -o results/ --quick"
    app.command("reproduce", rich_help_panel="For researchers", epilog=example)(reproduce)


def reproduce(
    data: Annotated[Path, typer.Option("--data", help="Folder with the datasets and MANIFEST.json.", envvar="DDSSP_DATA")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for runs, figures and page.")] = Path("results"),
    protocol: Annotated[str, typer.Option(help="paper: as the paper did; ours: with an intercept, 20 trials.")] = "paper",
    datasets: Annotated[str, typer.Option(help="Names, separated by commas; default: all.")] = "",
    methods: Annotated[str, typer.Option(help="Names, separated by commas; default: all but diffprivlib, auto-opendp.")] = "",
    epsilons: Annotated[str, typer.Option(help="Budgets ε, separated by commas; default: the paper's five.")] = "",
    trials: Annotated[int | None, typer.Option(help="Trials per cell; default: 5, or 20 with our protocol.", min=1)] = None,
    model_size: Annotated[float, typer.Option(help="MB that AIM's graphical model may take (the paper: 200).", min=0.01)] = 8.0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Runs at a time; default: one a core.", min=1)] = os.cpu_count()
    or 1,
    memory: Annotated[
        float | None, typer.Option(help="GB that all jobs may take; default: most that is free.", min=0.5)
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="1 trial, ε = 0.1 and 1: a few minutes.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run the paper's experiments again: every method, dataset, figure and table, and a verdict on each claim.

    Stop it whenever you like: started again, it goes on where it was.
    """
    from ddssp.cli.show import emit_json, emit_table, note, progress
    from ddssp.experiments import datasets as held
    from ddssp.experiments import methods as known
    from ddssp.experiments import report, runner
    from ddssp.experiments.protocol import EPSILONS, PROTOCOLS, QUICK_EPSILONS
    from ddssp.experiments.records import Records

    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}.")
    _require_matplotlib()
    names = held.resolved(_listed(datasets), data) or held.names(data)
    budgets = _numbers(epsilons) or (QUICK_EPSILONS if quick else EPSILONS)
    todo = runner.cells(
        PROTOCOLS[protocol],
        data,
        names=names,
        methods=known.chosen(_listed(methods)),
        epsilons=budgets,
        trials=trials or (1 if quick else PROTOCOLS[protocol].trials),
        model_size=model_size,
    )
    if not todo:
        raise ValueError(
            f"methods must fit a dataset's target, got {methods} for {', '.join(names)}; leave one of the two out."
        )
    output.mkdir(parents=True, exist_ok=True)
    records = Records(output / "runs.jsonl")
    limit = runner.memory_mb() if memory is None else 1000 * memory
    try:
        with records.alone(), progress() as tell:
            made = runner.run(todo, data, records, jobs=jobs, memory_mb=limit, tell=tell)
    except KeyboardInterrupt:
        note(f"interrupted; finished runs are in {records.path}: the same command goes on from there.")
        raise SystemExit(130) from None
    found = report.write(records, output, data, protocol)
    if json:
        verdicts = {c.statement: {"verdict": c.verdict.value, "measured": c.measured} for c in found}
        emit_json({"runs": len(todo), "made_now": made, "output": str(output), "claims": verdicts})
        return
    if found:
        rows = [(c.statement, c.verdict.value, c.measured) for c in found]
        emit_table("The paper's claims", ("claim", "verdict", "measured"), rows, text=("verdict", "measured"))
    note(f"{len(todo)} runs, {made} of them made now; NOT PRIVATE: noise is reproducible. Read {output}/results.html")


def _listed(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(float(t) for t in _listed(text))
    except ValueError:
        raise ValueError(f"epsilons must be numbers separated by commas, got {text!r}.") from None
    if not all(0 < v < float("inf") for v in values):
        raise ValueError(f"epsilons must be positive, got {text!r}.")
    return values


def _require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError("reproduce draws figures with matplotlib: pip install 'ddssp[report]'.") from None
