"""Runs in a file of lines: what is damaged is named."""

from __future__ import annotations

import pytest

from ddssp.experiments.records import Records


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('{"protocol": "pa\n')
    with pytest.raises(ValueError, match="must be lines of JSON, line 1 is not; remove it"):
        Records(path).read()
