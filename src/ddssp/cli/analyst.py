"""Commands for whoever has only the release: fit, info."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ddssp.model.fit import Fit
    from ddssp.released import Release

ReleaseFile = Annotated[Path, typer.Argument(help="Release file (.ddssp).", metavar="RELEASE")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


PANEL = "For analysts, who have the release only"


def register(app: typer.Typer) -> None:
    app.command("fit", rich_help_panel=PANEL)(fit)
    app.command("info", rich_help_panel=PANEL)(info)


MODELS = ("linear", "logistic", "poisson", "naive-bayes", "ridge", "elastic-net")
APPROXIMATION, RADIUS, L1_RATIO = "exact-split", 6.0, 0.5


def fit(
    release: ReleaseFile,
    target: Annotated[list[str], typer.Option("--target", "-t", help="Column to explain; several with commas or -t again.")],
    model: Annotated[str, typer.Option("--model", "-m", help=f"{', '.join(MODELS)}.")] = "linear",
    features: Annotated[
        str | None, typer.Option("--features", "-f", help="Comma-separated columns; default: all others.")
    ] = None,
    no_intercept: Annotated[
        bool, typer.Option("--no-intercept", help="Linear only: through the origin of the original scale.")
    ] = False,
    approximation: Annotated[str, typer.Option(help="Logistic only: exact-split, or the paper's chebyshev2.")] = APPROXIMATION,
    radius: Annotated[float, typer.Option(help="Logistic, chebyshev2: approximate on [-radius, radius].")] = RADIUS,
    alpha: Annotated[float | None, typer.Option(help="Ridge, elastic-net: the penalty; default: least estimated risk.")] = None,
    l1_ratio: Annotated[float, typer.Option(help="Elastic-net: share of the L1 penalty.")] = L1_RATIO,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Write a coefficient plot (.svg, .png or .pdf).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing plot.")] = False,
    json: Json = False,
) -> None:
    """Fit a regression from a release, with intervals; costs no privacy, as often as you like."""
    from ddssp.cli.show import columns, emit_json, note
    from ddssp.released import load

    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}.")
    if no_intercept and model != "linear":
        raise ValueError(f"--no-intercept is for linear models; a {model} model always has an intercept.")
    settings = {"approximation": approximation, "radius": radius, "alpha": alpha, "l1_ratio": l1_ratio}
    _require_used(model, settings)
    loaded = load(release)
    targets = [name for given in target for name in _names(given, loaded)]
    chosen = None if features is None else _names(features, loaded)
    for option, names in (("--target", targets), ("--features", chosen)):
        if names is not None and not names:
            raise ValueError(f"{option} must name at least one column, got none.")
    fits = [_fitted(loaded, model, name, chosen, not no_intercept, settings) for name in targets]
    about = {"mechanism": loaded.mechanism, "epsilon": loaded.budget.epsilon, "delta": loaded.budget.delta}
    found = [f.to_dict(level) | about | {"model": model} for f in fits] if json else [f.summary(level, columns()) for f in fits]
    if plot is not None:
        from ddssp.model.plot import plot as draw

        draw(fits, plot, level, force=force)
        note(f"wrote {plot}")
    if json:
        emit_json(found if len(found) > 1 else found[0])
        return
    warning = "" if loaded.private else "NOT PRIVATE: "
    print(f"{warning}{loaded.mechanism} release, ε = {loaded.budget.epsilon:g}, δ = {loaded.budget.delta:g}\n")
    print("\n\n".join(map(str, found)))


def _require_used(model: str, settings: dict[str, Any]) -> None:
    """Refuses an option that the model would not look at."""
    polynomial = model == "logistic" and settings["approximation"] != APPROXIMATION
    for option, usual, used, of in (
        ("approximation", APPROXIMATION, model == "logistic", "logistic models"),
        ("radius", RADIUS, polynomial, "logistic models with --approximation chebyshev2"),
        ("alpha", None, model in ("ridge", "elastic-net"), "ridge and elastic-net"),
        ("l1_ratio", L1_RATIO, model == "elastic-net", "elastic-net"),
    ):
        if not used and settings[option] != usual:
            name = f"--{option.replace('_', '-')}"
            raise ValueError(f"{name} is for {of}, got {settings[option]} with {model}; leave it out.")


def _names(given: str, release: Release) -> list[str]:
    """Column names separated by commas; a column whose own name holds one is taken whole."""
    return [given] if given in release.schema.resolved else [name.strip() for name in given.split(",") if name.strip()]


def _fitted(
    release: Release, model: str, target: str, features: list[str] | None, intercept: bool, settings: dict[str, Any]
) -> Fit:
    if model == "linear":
        return release.linear(target, features=features, intercept=intercept)
    if model == "logistic":
        return release.logistic(target, features=features, approximation=settings["approximation"], radius=settings["radius"])
    if model == "poisson":
        return release.poisson(target, features=features)
    if model == "naive-bayes":
        return release.naive_bayes(target, features=features)
    if model == "ridge":
        return release.ridge(target, features=features, alpha=settings["alpha"])
    return release.elastic_net(target, features=features, alpha=settings["alpha"], l1_ratio=settings["l1_ratio"])


def info(
    release: ReleaseFile,
    verify: Annotated[Path | None, typer.Option(help="The owner's public key (Ed25519, PEM); checks RELEASE.sig.")] = None,
    json: Json = False,
) -> None:
    """Say what a release holds and what it guarantees."""
    from ddssp.cli.show import emit_json, emit_table
    from ddssp.released import content, parsed

    data = content(release)
    if verify is not None:
        from ddssp.privacy.signature import public_key, require_signed

        require_signed(data, release, public_key(verify))
    loaded = parsed(data, release)
    header = loaded.header() | ({} if verify is None else {"signature": f"matches {verify}"})
    if json:
        emit_json(header | {"measurements": len(loaded.measurements)})
        return
    emit_table(str(release), ("", "value"), [(name, _plain(name, value)) for name, value in header.items()], text=("value",))


def _plain(name: str, value: Any) -> str:
    """A fact of a release in words; `--json` has it exactly."""
    if name == "perturbed":
        return "yes: its coefficients minimise a perturbed objective (docs/objective.md)"
    if name == "rho":
        return f"{float(Fraction(value)):.4g}"
    if name == "schema":
        return f"{len(value['columns'])} columns: {', '.join(value['columns'])}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {found}" for key, found in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
