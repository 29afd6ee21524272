"""`ddssp demo`: the whole way on a real health survey that ships with statsmodels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ddssp.model.linear import LinearFit

TARGET = "mdvis"
EPSILON, DELTA = 1.0, 1e-6

HEADER = """\
# RAND Health Insurance Experiment, 1974-1982: 20,190 person-years of 5,912 people, up to five rows each.
# Bounds are the survey's documentation, not the data's extremes; doctor visits above 20 a year count as 20.
# The unit of privacy is a person-year: to protect whole people a release would need five times the noise.

"""

SCHEMA: dict[str, Any] = {
    "name": "rand-health-survey",
    "unit": "person-year",
    "columns": {
        "mdvis": {"kind": "numeric", "low": 0, "high": 20, "bins": 21},
        "lncoins": {"kind": "numeric", "low": 0, "high": 5, "bins": 10},
        "idp": {"kind": "boolean"},
        "lpi": {"kind": "numeric", "low": 0, "high": 8, "bins": 16},
        "fmde": {"kind": "numeric", "low": 0, "high": 9, "bins": 18},
        "physlm": {"kind": "numeric", "low": 0, "high": 1, "bins": 2},
        "disea": {"kind": "numeric", "low": 0, "high": 60, "bins": 20},
        "hlthg": {"kind": "boolean"},
        "hlthf": {"kind": "boolean"},
        "hlthp": {"kind": "boolean"},
    },
}

MEANING = {
    "lncoins": "log of the coinsurance rate",
    "idp": "individual deductible plan",
    "lpi": "log of the participation incentive",
    "fmde": "log of the maximum out-of-pocket expense",
    "physlm": "physical limitation",
    "disea": "number of chronic diseases",
    "hlthg": "good health (against excellent)",
    "hlthf": "fair health",
    "hlthp": "poor health",
    "intercept": "everything at 0",
}


def register(app: typer.Typer) -> None:
    app.command("demo", rich_help_panel="To begin with")(demo)


def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for schema, release and results.")] = Path(
        "ddssp-demo"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Release a health survey privately, fit doctor visits from the release, and compare with the exact regression."""
    import ddssp
    from ddssp.cli.show import emit_json, note, progress
    from ddssp.report.page import write

    _require_own(folder)
    survey = _survey()
    schema = ddssp.Schema(**SCHEMA)
    note("RAND health survey: 20,190 person-years; doctor visits a year (mdvis) on insurance plan and health")
    with progress() as tell:
        release = ddssp.release(survey, schema, epsilon=EPSILON, delta=DELTA, mechanism="moments", target=TARGET, progress=tell)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.toml").write_text(_declared(), encoding="utf-8")
    release.save(folder / "survey.ddssp", force=True)
    write(release, folder / "report.html", file="survey.ddssp", force=True)
    fit = ddssp.load(folder / "survey.ddssp").linear(TARGET)
    results = _results(survey, fit)
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    emit_json(results) if as_json else _tell(results, folder)


def _require_own(folder: Path) -> None:
    """Refuses a folder in which the demo would overwrite somebody's own files."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output {str(folder)!r} is a file; name a folder.")
    schema = folder / "schema.toml"
    edited = schema.exists() and schema.read_text(encoding="utf-8", errors="replace") != _declared()
    if edited or ((folder / "results.json").exists() and not (folder / "survey.ddssp").exists()):
        raise ValueError(f"output {str(folder)!r} holds files that are not the demo's; name another folder.")


def _declared() -> str:
    from ddssp.schema import Schema

    return HEADER + Schema(**SCHEMA).to_toml()


def _results(survey: Any, fit: LinearFit) -> dict[str, Any]:
    import numpy as np

    exact = _exact(survey, fit)
    y = np.clip(survey[TARGET].to_numpy(float), 0, 20)
    rmse = {name: float(np.sqrt(np.mean((y - f.predict(survey)) ** 2))) for name, f in {"private": fit, "exact": exact}.items()}
    rmse["mean only"] = float(y.std())
    return {
        "epsilon": EPSILON,
        "delta": DELTA,
        "unit": SCHEMA["unit"],
        "private": fit.coef,
        "interval": {name: ends if np.isfinite(ends).all() else None for name, ends in fit.conf_int(0.95).items()},
        "exact": exact.coef,
        "rmse": rmse,
        "verdict": _verdict(rmse),
    }


def _tell(results: dict[str, Any], folder: Path) -> None:
    from ddssp.cli.show import emit_table, number

    private, interval, exact = results["private"], results["interval"], results["exact"]
    ends = {name: f"{number(i[0])} … {number(i[1])}" if i else "not identified" for name, i in interval.items()}
    rows = [(name, MEANING[name], number(private[name]), ends[name], number(exact[name])) for name in private]
    held = sum(i is None or i[0] <= exact[name] <= i[1] for name, i in interval.items())
    title = f"Doctor visits a year, linear regression: private (ε = {EPSILON:g}, δ = {DELTA:g}) beside exact"
    emit_table(title, ("", "meaning", "private", "95 % interval", "exact"), rows, text=("meaning",))
    print(results["verdict"])
    widest = max(
        (name for name, i in interval.items() if i), key=lambda name: interval[name][1] - interval[name][0], default="none"
    )
    print(f"The exact coefficient lies within its private interval for {held} of {len(exact)}; the widest is that of {widest}.")
    print(
        "More than 20 visits a year count as 20, here and in the exact regression: bounds are declared, never read from rows."
    )
    print(f"The unit of privacy is a {results['unit']}: the survey has 5,912 people with up to five rows each.")
    print(f"Left in {folder}/: schema.toml, survey.ddssp, results.json and report.html, to be opened in a browser.")
    print(f"Next, at no further privacy cost: ddssp fit {folder}/survey.ddssp --target disea")


def _survey() -> Any:
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise ValueError("the demo needs statsmodels and pandas: pip install 'ddssp[demo]'.") from None
    return randhie.load_pandas().data


def _exact(survey: Any, fit: LinearFit) -> LinearFit:
    """The same regression on the rows themselves, without privacy."""
    from dataclasses import replace

    import numpy as np

    from ddssp.model.linear import design_of

    Z = design_of(survey, fit.encoding, fit.schema)
    y = (np.clip(survey[TARGET].to_numpy(float), 0, 20) - fit.block.centre) / fit.block.half
    return replace(fit, theta=np.linalg.lstsq(Z, y, rcond=None)[0])


def _verdict(rmse: dict[str, float]) -> str:
    """One sentence for a newcomer."""
    share = (rmse["mean only"] ** 2 - rmse["private"] ** 2) / (rmse["mean only"] ** 2 - rmse["exact"] ** 2)
    how = "practically as well as" if share > 0.9 else "nearly as well as" if share > 0.7 else "worse than"
    return (
        f"Verdict: the private regression predicts {how} the exact one: typical error {rmse['private']:.3f} visits against "
        f"{rmse['exact']:.3f} ({100 * share:.0f} % of what can be explained is explained)."
    )
