"""The notebooks in examples/ run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.ipynb"))


def test_there_are_some():
    assert {n.stem for n in NOTEBOOKS} >= {"owner_and_analyst", "how_noise_shows"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_runs(path, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("statsmodels")
    book = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in book.cells), "commit notebooks without outputs"
    client.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
