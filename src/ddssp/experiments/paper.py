"""What the paper reports, and what its own implementation reached when it was run again: the figures to compare with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperDataset:
    """A row of the paper's dataset table."""

    name: str
    rows: int | None
    attributes: int

    def __str__(self) -> str:
        return f"{self.name}: {f'{self.rows:,}' if self.rows else 'not told'}, {self.attributes}"


DATASETS = {
    "adult": PaperDataset(name="Adult", rows=48_842, attributes=15),
    "ACSincome-LIN": PaperDataset(name="ACSIncome", rows=195_665, attributes=9),
    "ACSincome": PaperDataset(name="ACSIncome", rows=195_665, attributes=9),
    "fire": PaperDataset(name="Fire", rows=305_119, attributes=15),
    "taxi-sub": PaperDataset(name="Taxi", rows=1_048_575, attributes=11),
    "ACSemployment": PaperDataset(name="ACSEmployment", rows=378_817, attributes=17),
    "ACSmobility": PaperDataset(name="ACSMobility", rows=None, attributes=21),
    "ACSPublicCoverage-sub": PaperDataset(name="ACSPublicCoverage", rows=138_550, attributes=19),
}

SWEEP_SECONDS = {
    ("linear", "fire", "ddssp"): 29 * 3600.0,
    ("linear", "ACSincome-LIN", "ddssp"): 50 * 60.0,
    ("logistic", "ACSPublicCoverage-sub", "ddssp"): 43 * 3600.0,
    ("logistic", "ACSincome", "ddssp"): 10 * 3600.0,
    ("linear", "fire", "adassp"): 5.0,
    ("linear", "ACSincome-LIN", "adassp"): 1.0,
    ("logistic", "ACSPublicCoverage-sub", "objpert"): 2.0,
    ("logistic", "ACSincome", "objpert"): 2.0,
}
"""One trial at each of five ε on the paper's cluster (Xeon Gold 6240), approximately."""

ADULT_SECONDS = {0.05: 8 * 60.0, 2.0: 18 * 3600.0}
"""AIM on Adult at the smallest and the largest ε, approximately."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A score that the systems to compare with reached when measured again, rounded to `step`; `trials`: least and most."""

    value: float
    step: float
    trials: tuple[int, int]


def _sweep(values: str, trials: tuple[int, int]) -> dict[float, Measured]:
    pairs = zip((0.05, 0.1, 0.5, 1.0, 2.0), values.split(), strict=True)
    return {e: Measured(value=float(v), step=10.0 ** (1 - len(v)), trials=trials) for e, v in pairs if v != "-"}


MEASURED: dict[tuple[str, str, str, str], dict[float, Measured]] = {
    ("paper", "linear", "adult", "ddssp"): _sweep(".0229 .0208 .0110 - -", (1, 4)),
    ("paper", "logistic", "adult", "ddssp"): _sweep(".852 .864 .884 - -", (1, 4)),
    ("paper", "linear", "ACSincome-LIN", "ddssp"): _sweep(".372 .333 .259 .218 .217", (1, 4)),
    ("paper", "logistic", "ACSemployment", "ddssp"): _sweep(".802 .813 .849 - -", (1, 4)),
    ("paper", "logistic", "ACSmobility", "ddssp"): _sweep(".580 .603 - - -", (1, 4)),
    ("paper", "linear", "fire", "ddssp"): _sweep(".0165 .0143 - - -", (1, 4)),
    ("paper", "linear", "adult", "adassp"): _sweep(".107 .092 .061 .050 .039", (5, 10)),
    ("paper", "linear", "ACSincome-LIN", "adassp"): _sweep(".316 .287 .230 .218 .211", (5, 10)),
    ("ours", "linear", "fire", "adassp"): _sweep(".191 .101 .0216 .0135 .0098", (5, 10)),
    ("ours", "linear", "taxi-sub", "adassp"): _sweep(".160 .101 .0360 .0220 .0132", (5, 10)),
    ("ours", "logistic", "adult", "objpert"): _sweep(".759 - - - -", (5, 5)),
    ("ours", "logistic", "ACSincome", "objpert"): _sweep(".781 - - - -", (5, 5)),
    ("ours", "logistic", "ACSemployment", "objpert"): _sweep(".748 - - - -", (5, 5)),
    ("ours", "logistic", "ACSmobility", "objpert"): _sweep(".549 - - - -", (5, 5)),
    ("ours", "logistic", "ACSPublicCoverage-sub", "objpert"): _sweep(".714 - - - -", (5, 5)),
}
"""Protocol, kind, dataset, method → ε → score."""
