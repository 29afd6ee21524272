"""Runs in a file of lines: what is damaged is named."""

from __future__ import annotations

import pytest

from ddssp.experiments.records import Cell, Records, code
from ddssp.experiments.summary import Summary


@pytest.mark.parametrize("line", ['{"protocol": "pa', "[1]", '{"protocol": "paper"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match="must be lines of JSON, one for each run, line 1 is not; remove it"):
        Records(path).read()


def test_runs_say_which_code_made_them(tmp_path):
    one = Cell(protocol="paper", kind="linear", dataset="adult", method="ssp", epsilon=1.0, seed=0, model_size=None)
    made = one.record(mse=0.1)
    before = {k: v for k, v in (made | {"seed": 1}).items() if k != "code"}
    assert Summary([made, before], "paper").versions() == [(code(), 1), ("unknown code", 1)]
