"""What all tests share: the paper's datasets, where they are, the command line, and one set of hypothesis settings."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one test per core is faster than one test on all of them

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def command_line(capsys, monkeypatch) -> Callable[..., Outcome]:
    """The command line in this process: a whole line, "ddssp fit r.ddssp -t y", or word by word, without `ddssp`."""
    from ddssp.cli import main

    def call(*words: object) -> Outcome:
        whole = len(words) == 1 and str(words[0]).startswith("ddssp ")
        line = shlex.split(str(words[0]), comments=True) if whole else ["ddssp", *map(str, words)]
        monkeypatch.setattr(sys, "argv", line)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        return Outcome(int(stop.value.code or 0), *capsys.readouterr())

    return call
