"""The README is true: its Python runs, its schema loads, its commands and options exist and work in its order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ddssp.cli import main
from ddssp.schema import Schema

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_it_starts_with_the_two_commands():
    assert re.findall(r"^make \w+", blocks("sh")[0], re.MULTILINE) == ["make demo", "make test"]
    assert README.index("make demo") < 100
    makefile = (ROOT / "Makefile").read_text()
    for target in ("install", "demo", "test", "lint", "bench"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = blocks("python")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), scope)
    assert "intercept" in capsys.readouterr().out
    predicted = scope["fit"].predict({"age": [20, 60], "plan": ["basic", "plus"]})
    assert np.isfinite(predicted).all()
    assert predicted[1] > predicted[0] + 1  # 2,000 people at ε = 1: the old visit more often


def test_the_schema_loads(tmp_path):
    (example,) = blocks("toml")
    (tmp_path / "s.toml").write_text(example)
    schema = Schema.load(tmp_path / "s.toml")
    assert schema.unit == "person"
    assert list(schema) == ["age", "plan", "visits", "age2"]


def test_the_commands_run_in_their_order(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    people = {"age": rng.uniform(18, 90, 500), "plan": rng.choice(["basic", "plus"], 500), "visits": rng.integers(0, 20, 500)}
    pq.write_table(pa.table(people), tmp_path / "people.parquet")
    monkeypatch.chdir(tmp_path)
    commands = [line for line in blocks("sh")[1].splitlines() if line.startswith("ddssp ")]
    assert len(commands) == 6
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command, comments=True))
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, command
        if "draft" in command:
            lines = Path("schema.toml").read_text().splitlines()
            Path("schema.toml").write_text("\n".join(line for line in lines if not line.startswith("to_confirm")))
    assert "visits" in capsys.readouterr().out


def test_exit_codes_are_documented():
    for code in ("**0** ok", "**2** bad usage or input", "**3** refused by the budget"):
        assert code in README


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert link.startswith("https://") or (ROOT / link).exists(), link


def test_documents_name_files_that_exist():
    for path in (
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "sharp_edges.md",
        *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    ):
        for name in re.findall(r"`((?:tests|src|docs|benchmarks)/[\w/.]+\.\w+)`", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), (path.name, name)
