"""What all tests share: the paper's datasets, where they are, and one set of hypothesis settings."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one test per core is faster than one test on all of them

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parent.parent

settings.register_profile(
    "ddssp", deadline=None, max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("mutants", settings.get_profile("ddssp"), phases=(Phase.explicit, Phase.generate))
settings.load_profile("ddssp")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with MANIFEST.json: DDSSP_DATA, or ../shared/data beside the project."""
    folder = Path(os.environ.get("DDSSP_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "MANIFEST.json").exists():
        pytest.skip("needs the paper's datasets: set DDSSP_DATA to the folder with MANIFEST.json")
    return folder
