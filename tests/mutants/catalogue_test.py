"""The catalogue of planted bugs fits the code it is about: each place is there, once, and each test file exists."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from mutants import Mutant, catalogue  # noqa: E402


@pytest.mark.parametrize("mutant", catalogue(), ids=lambda m: m.name)
def test_a_mutant_can_be_planted(mutant: Mutant) -> None:
    source = ROOT / "src" / "ddssp"
    planted = mutant.applied(source)
    assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse((source / mutant.file).read_text(encoding="utf-8")))
    assert mutant.tests
    assert all((ROOT / test.partition("::")[0]).exists() for test in mutant.tests)


def test_there_are_enough_and_no_two_are_the_same() -> None:
    mutants = catalogue()
    assert len(mutants) >= 25
    assert len({m.name for m in mutants}) == len({(m.file, str(m.edits)) for m in mutants}) == len(mutants)
