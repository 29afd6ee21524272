"""The American Community Survey problems from a census PUMS person file (psam_p06.csv is California's), by folktables' filters.

Codes follow the census's own numbers, beginning at 0; where a question was not asked (a child's military service) and the
paper keeps the row, that is level 0. Incomes are cut at the file's own quantiles: 20 for the linear target, 10 or 5 elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv as pv
from numpy.typing import NDArray

from ddssp.experiments.raw.coded import Coded, Codes, Numbers, numbers, quantile_bins, shifted

Values = Mapping[str, Numbers]

OLDEST = 94
"""Ages above are this age."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """Consecutive codes from `first` on; `asked` is False where a missing answer is level 0, in front of them."""

    first: int
    size: int
    asked: bool = True

    def codes(self, values: Numbers) -> Codes:
        if self.asked:
            return shifted(values, self.first, self.size)
        answered = shifted(values, self.first, self.size - 1)
        return np.where(np.isfinite(values), np.where(answered >= 0, answered + 1, answered), 0)


ONE_TWO = Level(first=1, size=2)
EVERYWHERE = {
    "COW": Level(first=1, size=8), "SCHL": Level(first=1, size=24), "MAR": Level(first=1, size=5),
    "RELP": Level(first=0, size=18),
    "WKHP": Level(first=1, size=99), "SEX": ONE_TWO, "RAC1P": Level(first=1, size=9), "DIS": ONE_TWO,
    "ESP": Level(first=1, size=9, asked=False), "CIT": Level(first=1, size=5), "MIG": Level(first=1, size=3),
    "MIL": Level(first=1, size=5, asked=False), "ANC": Level(first=1, size=4), "NATIVITY": ONE_TWO, "DEAR": ONE_TWO,
    "DEYE": ONE_TWO, "DREM": ONE_TWO, "GCL": Level(first=1, size=3, asked=False), "FER": Level(first=1, size=3, asked=False),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A prediction problem.

    Args:
        keep: folktables' filter.
        levels: where a column's levels differ from EVERYWHERE.
        derived: columns that are computed, with their sizes.
    """

    name: str
    columns: str
    one_hot: str
    targets: Mapping[str, str]
    keep: Callable[[Values], NDArray[np.bool_]]
    levels: Mapping[str, Level]
    derived: Mapping[str, tuple[int, Callable[[Values], Codes]]]


def _adults_with_income(v: Values) -> NDArray[np.bool_]:
    return (v["AGEP"] > 16) & (v["PINCP"] > 100) & (v["WKHP"] > 0) & (v["PWGTP"] >= 1)


def _equals_one(column: str) -> tuple[int, Callable[[Values], Codes]]:
    return 2, lambda v: (v[column] == 1).astype(np.int64)


def _quantiles(column: str, bins: int) -> tuple[int, Callable[[Values], Codes]]:
    return bins, lambda v: quantile_bins(v[column], bins)


AGE = (OLDEST + 1, lambda v: np.minimum(v["AGEP"], OLDEST).astype(np.int64))
INCOME = "AGEP COW SCHL MAR RELP WKHP SEX RAC1P PINCP"
SHARED = "DIS ESP CIT MIG MIL ANC NATIVITY DEAR DEYE DREM"

PROBLEMS = {
    p.name: p
    for p in (
        Problem(
            name="ACSincome-LIN",
            columns=INCOME,
            one_hot="COW MAR RELP RAC1P",
            targets={"linear": "PINCP"},
            keep=_adults_with_income,
            levels={},
            derived={"AGEP": AGE, "PINCP": _quantiles("PINCP", 20)},
        ),
        Problem(
            name="ACSincome",
            columns=INCOME,
            one_hot="COW MAR RELP RAC1P",
            targets={"logistic": "PINCP"},
            keep=_adults_with_income,
            levels={},
            derived={"AGEP": AGE, "PINCP": (2, lambda v: (v["PINCP"] > 50_000).astype(np.int64))},
        ),
        Problem(
            name="ACSemployment",
            columns=f"AGEP SCHL MAR RELP {SHARED} SEX RAC1P ESR",
            one_hot="MAR RELP CIT MIL ANC RAC1P",
            targets={"logistic": "ESR"},
            keep=lambda v: np.ones(len(v["AGEP"]), bool),
            levels={"SCHL": Level(first=1, size=25, asked=False)},
            derived={"AGEP": AGE, "ESR": _equals_one("ESR")},
        ),
        Problem(
            name="ACSmobility",
            columns="AGEP SCHL MAR SEX DIS CIT MIL ANC NATIVITY RELP DEAR DEYE DREM RAC1P GCL COW ESR WKHP JWMNP PINCP MIG",
            one_hot="MAR CIT MIL ANC RELP RAC1P GCL COW ESR",
            targets={"logistic": "MIG"},
            keep=lambda v: (v["AGEP"] > 18) & (v["AGEP"] < 35),
            levels={
                "AGEP": Level(first=19, size=16),
                "MIL": Level(first=1, size=4),
                "RELP": Level(first=0, size=2),
                "COW": Level(first=1, size=10, asked=False),
                "ESR": Level(first=1, size=6),
                "WKHP": Level(first=1, size=100, asked=False),
                "JWMNP": Level(first=1, size=100, asked=False),
            },
            derived={"PINCP": _quantiles("PINCP", 10), "MIG": _equals_one("MIG")},
        ),
        Problem(
            name="ACSPublicCoverage",
            columns=f"AGEP SCHL MAR SEX {SHARED} PINCP ESR FER RAC1P PUBCOV",
            one_hot="MAR ESP CIT MIG MIL ANC ESR FER RAC1P",
            targets={"logistic": "PUBCOV"},
            keep=lambda v: (v["AGEP"] < 65) & (v["PINCP"] <= 30_000),
            levels={"AGEP": Level(first=15, size=50), "ESR": Level(first=1, size=7, asked=False)},
            derived={"PINCP": _quantiles("PINCP", 5), "PUBCOV": _equals_one("PUBCOV")},
        ),
    )
}


def load(name: str, persons: str | Path) -> Coded:
    """The problem `name` from a PUMS person file; rows with an answer outside its levels are left out."""
    if name not in PROBLEMS:
        raise ValueError(f"name must be one of {', '.join(PROBLEMS)}, got {name!r}.")
    p = PROBLEMS[name]
    columns = p.columns.split()
    values = _read(persons, {*columns, "AGEP", "PINCP", "WKHP", "PWGTP"})
    kept = {c: v[p.keep(values)] for c, v in values.items()}
    levels = EVERYWHERE | dict(p.levels)
    return Coded(
        name=name,
        codes={c: p.derived[c][1](kept) if c in p.derived else levels[c].codes(kept[c]) for c in columns},
        sizes={c: p.derived[c][0] if c in p.derived else levels[c].size for c in columns},
        one_hot=p.one_hot.split(),
        targets=p.targets,
        match="from the census's person file, in an order of its own",
    )


def _read(path: str | Path, columns: set[str]) -> dict[str, Numbers]:
    options = pv.ConvertOptions(include_columns=sorted(columns))
    table = pv.read_csv(path, convert_options=options)
    return {c: numbers(table[c]) for c in table.column_names}
