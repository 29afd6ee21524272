"""The report of AIM releases says where a reference or a bar is missed and which cells are absent, by its records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "benchmarks"))
from aim_report import BARS, EPSILONS, REFERENCE, text_of  # noqa: E402

REF = REFERENCE["adult", 0.5]


def record(seed: int, tv: float, paper: float, product: float, inference: str = "pgm", **more: Any) -> dict[str, Any]:
    scores = {"paper": {"logistic": paper}, "product": {"logistic": product}}
    cell = {"dataset": "adult", "epsilon": 0.5, "seed": seed, "noise": "seeded", "inference": inference, "model_size": 200.0}
    return cell | {"seconds": 1.0, "rounds": 3, "pairs": 2, "tv": tv, "scores": scores} | more


def part(text: str, start: str, end: str) -> str:
    return text.split(start)[1].split(end)[0]


def report(*records: dict[str, Any]) -> str:
    exact = {"dataset": "adult", "exact": {how: {"logistic": 0.9} for how in ("paper", "product")}}
    return text_of([*records, exact])


@pytest.mark.parametrize(("errors", "missed"), [(1.9, False), (2.1, True), (-5.0, False)])
def test_a_reference_is_missed_beyond_two_standard_errors(errors: float, missed: bool) -> None:
    """Two values around a mean, 2s apart, have a standard error of s; AUC is worse when smaller, TV when larger."""
    s = 0.001
    tv, auc = REF["tv"] + errors * s, REF["logistic"] - errors * s
    text = report(*(record(i, tv + d * s, auc + d * s, 1.0) for i, d in enumerate((-1, 1))))
    line = f"({errors:.1f})"
    assert (line in part(text, "\nTV:", "Score by the paper's")) == missed
    assert (line in part(text, "Score by the paper's protocol:", "Score by the product's")) == missed
    assert "- none" in part(text, "Score by the product's fit:", "Bars")


def test_bars_are_for_the_tree_step() -> None:
    bar, s = BARS["adult", 0.5], 0.001
    for over, verdict in ((0.1, "missed by 0.1"), (-1.4, "met by 1.4")):
        pair = [(i, bar + (over + d) * s, 0.9, 0.9) for i, d in enumerate((-1, 1))]
        assert verdict in report(*(record(*p, "tree") for p in pair))
        assert verdict not in report(*(record(*p, "pgm") for p in pair))


def test_absent_cells_follow_from_the_records() -> None:
    text = report(record(0, 0.03, 0.9, 0.9)).split("## Cells that were not run")[1]
    lines = text.strip().splitlines()
    others = ", ".join(f"adult at ε = {float(e):g}" for e in EPSILONS.split(",") if float(e) != 0.5)
    assert lines[0] == f"- pgm, no release: {others}"
    assert lines[1] == "- pgm, one seed, so no standard error: adult at ε = 0.5"
    assert lines[2].count("adult") == len(EPSILONS.split(","))
    assert lines[4] == "- AIM-Synth at ε = 1, no rows: adult"
    synth = {"rows": 10, "seconds": 1.0, "tv": 0.1, "scores": {"paper": {"logistic": 0.9}}}
    assert "AIM-Synth at ε = 1, no rows: none" in report(record(0, 0.03, 0.9, 0.9, epsilon=1.0, synth=synth))


def test_releases_towards_a_target_have_a_table_of_their_own() -> None:
    text = report(*(record(i, 1.0, 0.5 + d, 1.0, towards=t) for t in (None, "logistic") for i, d in enumerate((0.0, 0.01))))
    missed = part(text, "\nTV:", "Score by the paper's")
    assert "pgm 200 MB, adult" in missed
    assert "declared target" not in missed  # the reference's total variation is that of all pairs
    assert "pgm 200 MB, declared target, adult, ε = 0.5: AUC" in text
    assert text.count("| adult | 0.5 | 2 |") == 2
