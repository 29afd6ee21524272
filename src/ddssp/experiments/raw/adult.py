"""Adult: UCI's adult.data and adult.test, 48,842 people, numbers in 32 equally wide bins.

The bins and the order of levels are those of the hd-datasets collection, which the paper took the file from; education is in
alphabetical order. A question mark is a level of its own.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pv

from ddssp.experiments.raw.coded import Coded, evenly, levelled, numbers

COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race", "sex",
    "capital-gain", "capital-loss", "hours-per-week", "native-country", "income>50K",
)  # fmt: skip

BINS = {
    "age": (16, 101, 32),
    "fnlwgt": (10_000, 1_500_001, 32),
    "education-num": (1, 17, 16),
    "capital-gain": (0, 100_001, 32),
    "capital-loss": (0, 5_001, 32),
    "hours-per-week": (1, 100, 32),
}
"""Low end, high end (open) and number of bins."""

LEVELS = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked ?",
    "education": "10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate HS-grad Masters "
    "Preschool Prof-school Some-college",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces ?",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece "
    "South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
    "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands ?",
    "income>50K": "<=50K >50K",
}

ONE_HOT = ("workclass", "education", "marital-status", "occupation", "relationship", "race", "native-country")


def load(data: str | Path, test: str | Path) -> Coded:
    """Adult from its two files."""
    table = pa.concat_tables([_read(data), _read(test)])
    codes = {c: evenly(numbers(table[c]), *BINS[c]) if c in BINS else levelled(table[c], LEVELS[c].split()) for c in COLUMNS}
    return Coded(
        name="adult",
        codes=codes,
        sizes={c: BINS[c][2] if c in BINS else len(LEVELS[c].split()) for c in COLUMNS},
        one_hot=ONE_HOT,
        targets={"linear": "education-num", "logistic": "income>50K"},
        match="from UCI's files, in an order of its own",
    )


def _read(path: str | Path) -> pa.Table:
    """Fields without spaces; adult.test opens with a line that is no record and ends every label with a full stop."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    kept = [",".join(f.strip() for f in line.rstrip(".").split(",")) for line in lines if line.count(",") == len(COLUMNS) - 1]
    kinds = {c: pa.float64() if c in BINS else pa.string() for c in COLUMNS}
    return pv.read_csv(
        pa.BufferReader("\n".join(kept).encode()),
        read_options=pv.ReadOptions(column_names=list(COLUMNS)),
        convert_options=pv.ConvertOptions(column_types=kinds),
    )
