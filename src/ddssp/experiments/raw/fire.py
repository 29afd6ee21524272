"""Fire: San Francisco's Fire Department Calls for Service, calls of 2016, fifteen columns with levels in order of appearance.

The paper's file comes from the NIST 2018 challenge, which coded every column in that way; the levels are therefore read from
the data. An empty field is a level of its own.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from ddssp.experiments.raw.coded import Coded, levelled

COLUMNS = (
    "ALS Unit", "Battalion", "Call Final Disposition", "Call Type", "Call Type Group", "City", "Final Priority",
    "Fire Prevention District", "Neighborhooods - Analysis Boundaries", "Original Priority", "Priority", "Station Area",
    "Supervisor District", "Unit Type", "Zipcode of Incident",
)  # fmt: skip

NUMBERS = ("Final Priority", "Original Priority", "Priority")

YEAR = "2016"


def load(calls: str | Path) -> Coded:
    """Fire from the city's CSV file of calls."""
    table = pv.read_csv(
        calls,
        convert_options=pv.ConvertOptions(
            include_columns=[*COLUMNS, "Call Date"],
            column_types=dict.fromkeys((*COLUMNS, "Call Date"), pa.string()),
            strings_can_be_null=False,
        ),
    )
    table = table.filter(pc.match_substring(table["Call Date"], YEAR))
    levels = {c: [str(w).strip() for w in pc.unique(table[c]).to_pylist()] for c in COLUMNS}
    return Coded(
        name="fire",
        codes={c: levelled(table[c], levels[c]) for c in COLUMNS},
        sizes={c: len(levels[c]) for c in COLUMNS},
        one_hot=tuple(c for c in COLUMNS if c not in NUMBERS),
        targets={"linear": "Priority"},
        match="from the city's file, levels in order of appearance, in an order of its own",
    )
