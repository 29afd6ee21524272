"""Taxi: TLC yellow-taxi trips (Parquet), eleven columns; amounts and distances in 32 bins, the last one open.

The paper's bins are not published: these are $2 of fare, $2.5 of total, 50 cents of tip, $1 of tolls and half a mile. Trips
with a missing or negative value, or outside the levels of the data dictionary, are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ddssp.experiments.raw.coded import OUTSIDE, Coded, Codes, Numbers, numbers, shifted

BINS = 32
WIDTHS = {
    "fareamount": ("fare_amount", 2.0),
    "tipamount": ("tip_amount", 0.5),
    "tollsamount": ("tolls_amount", 1.0),
    "totalamount": ("total_amount", 2.5),
    "tripdistance": ("trip_distance", 0.5),
}
LEVELS = {
    "DOLocationID": ("DOLocationID", 265),
    "PULocationID": ("PULocationID", 265),
    "RatecodeID": ("RatecodeID", 7),
    "VendorID": ("VendorID", 2),
    "passengercount": ("passenger_count", 6),
    "paymenttype": ("payment_type", 4),
}
"""Our name → the file's, and the width of a bin or the number of levels, from 1 on."""

ONE_HOT = ("DOLocationID", "PULocationID", "RatecodeID", "paymenttype")
UNKNOWN_RATE = 99
"""The dictionary's code of a rate that is not known; the last level."""


def load(trips: Iterable[str | Path]) -> Coded:
    """Taxi from one or more monthly files."""
    columns = [source for source, _ in (*WIDTHS.values(), *LEVELS.values())]
    table = pa.concat_tables([pq.read_table(t, columns=columns) for t in trips], promote_options="permissive")
    values = {c: numbers(table[c]) for c in columns}
    rate = values["RatecodeID"]
    values["RatecodeID"] = np.where(rate == UNKNOWN_RATE, LEVELS["RatecodeID"][1], rate)
    codes = {c: open_bins(values[source], width) for c, (source, width) in WIDTHS.items()}
    codes |= {c: shifted(values[source], 1, size) for c, (source, size) in LEVELS.items()}
    return Coded(
        name="taxi",
        codes={c: codes[c] for c in sorted(codes)},
        sizes={c: BINS if c in WIDTHS else LEVELS[c][1] for c in sorted(codes)},
        one_hot=ONE_HOT,
        targets={"linear": "totalamount"},
        match="substitute: TLC's own files with bins chosen here, the paper's are not published",
    )


def open_bins(values: Numbers, width: float) -> Codes:
    """Bins of equal width from 0 on, the last one open; OUTSIDE below 0 or where it is missing."""
    inside = np.isfinite(values) & (values >= 0)
    return np.where(inside, np.minimum(np.where(inside, values, 0) // width, BINS - 1), OUTSIDE).astype(np.int64)
