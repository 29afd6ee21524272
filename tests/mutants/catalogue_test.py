"""The catalogue of planted bugs fits the code it is about: each place is there, once, and each test file exists."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = tomllib.loads((ROOT / "tests" / "mutants" / "catalogue.toml").read_text(encoding="utf-8"))["mutant"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m["name"])
def test_a_mutant_can_be_planted(mutant):
    text = (ROOT / "src" / "ddssp" / mutant["file"]).read_text(encoding="utf-8")
    assert text.count(mutant["old"]) == 1
    planted = text.replace(mutant["old"], mutant["new"])
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(text))
    assert mutant["tests"]
    assert all((ROOT / test).exists() for test in mutant["tests"])


def test_there_are_enough_and_no_two_are_the_same():
    assert len(MUTANTS) >= 25
    assert len({m["name"] for m in MUTANTS}) == len({(m["file"], m["old"], m["new"]) for m in MUTANTS}) == len(MUTANTS)
