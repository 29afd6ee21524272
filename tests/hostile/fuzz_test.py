"""Mutated files of all four kinds: read, or refused in one sentence, and quickly. `make fuzz` runs a hundred thousand."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from mutations import KINDS, complaint, made

INPUTS = 150


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_mutated_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"input{KINDS[kind][0]}"
    for seed in range(10**7, 10**7 + INPUTS):
        path.write_bytes(made(kind, seed))
        start = time.process_time()
        assert complaint(kind, path) is None, seed
        assert time.process_time() - start < 2, seed
    assert sorted(tmp_path.iterdir()) == [path]  # nothing was unpacked anywhere


@pytest.mark.parametrize("kind", KINDS)
def test_the_seeds_themselves_are_fine(kind: str, tmp_path: Path) -> None:
    _, seeds, _, read = KINDS[kind]
    for content in seeds():
        path = tmp_path / f"seed{KINDS[kind][0]}"
        path.write_bytes(content)
        read(path)


def test_a_complaint_is_made_of_what_is_no_clear_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: Exception):
        def read(_path: Path) -> None:
            raise error

        return read

    for error in (KeyError("x"), ValueError("no type of its own"), MemoryError(), RecursionError()):
        monkeypatch.setitem(KINDS, "csv", (*KINDS["csv"][:3], fails(error)))
        assert complaint("csv", tmp_path / "x.csv")
