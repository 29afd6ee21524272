"""Every code block of the tutorials and how-to pages runs as it stands, in its order, and the site builds without a warning."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import ddssp
from ddssp.schema import Schema

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "howto").glob("*.md")])
SHOWN_ONLY = {"csv", "text"}
"""Blocks that show something and are not code."""

SCHEMA = """
name = "people"
unit = "person"
[columns.age]
kind = "numeric"
low = 0
high = 100
[columns.plan]
kind = "categorical"
levels = ["basic", "plus"]
[columns.visits]
kind = "numeric"
low = 0
high = 20
"""


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and content of each fenced block."""
    return re.findall(r"^```(\w*)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with what a reader of any page has: rows, a schema, a ledger and a release."""
    rng = np.random.default_rng(0)
    age, plan = rng.integers(18, 90, 2000), rng.choice(["basic", "plus"], 2000)
    visits = rng.poisson(age / 20 + (plan == "plus"))
    lines = [f"{a},{p},{v}" for a, p, v in zip(age, plan, visits, strict=True)]
    (tmp_path / "people.csv").write_text("age,plan,visits\n" + "\n".join(lines) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    ddssp.release("people.csv", "schema.toml", epsilon=1.0, delta=1e-6).save("people.ddssp")
    ddssp.Ledger("ledger.db").set_budget("people", 1.0, 1e-6)
    return tmp_path


def run_commands(content: str, command_line) -> None:
    for line in content.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        assert line.startswith("ddssp "), f"a line that no test runs: {line}"
        words = shlex.split(line, comments=True)
        if "-o" in words:
            Path(words[words.index("-o") + 1]).unlink(missing_ok=True)
        assert command_line(line).code == 0, line


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_code_runs(page, folder, monkeypatch, command_line):
    if "sklearn" in page.read_text(encoding="utf-8"):
        pytest.importorskip("sklearn")
    if page.stem == "spark":
        pytest.importorskip("duckdb")
    scope: dict[str, object] = {"__name__": page.stem}
    module = type(sys)(page.stem)  # dataclasses look for the module they are defined in
    monkeypatch.setitem(sys.modules, page.stem, module)
    for language, content in blocks(page):
        if language == "sh":
            run_commands(content, command_line)
        elif language == "python":
            exec(compile(content, str(page), "exec"), scope)
        elif language == "toml":
            Path("schema.toml").write_text(content, encoding="utf-8")
            assert Schema.load("schema.toml").to_confirm == ()
        else:
            assert language in SHOWN_ONLY, f"a block of {language or 'no language'} that no test runs"


def test_the_owners_csv_is_the_file_it_describes(folder):
    shown = dict(blocks(DOCS / "tutorials" / "owner.md"))["csv"]
    assert shown.splitlines()[0] == Path("people.csv").read_text().splitlines()[0]


def test_there_is_a_page_for_each_user_and_task():
    assert {p.stem for p in PAGES} >= {
        "owner",
        "analyst",
        "engineer",
        "researcher",
        "schema",
        "epsilon",
        "intervals",
        "pipelines",
        "spark",
        "publishing",
    }


def test_the_site_builds_strictly(tmp_path, monkeypatch):
    """Broken links, missing pages and unresolved names end the build."""
    build = pytest.importorskip(
        "mkdocs.commands.build", reason="needs mkdocs-material: pip install mkdocs-material mkdocstrings-python"
    )
    config = pytest.importorskip("mkdocs.config")
    pytest.importorskip("material")
    monkeypatch.chdir(ROOT)
    loaded = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path / "site"), strict=True)
    build.build(loaded)
    made = {p.relative_to(tmp_path / "site").as_posix() for p in (tmp_path / "site").rglob("*.html")}
    assert {
        "index.html",
        "tutorials/owner.html",
        "intervals.html",
        "decisions/001-one-currency-rho.html",
        "api/index.html",
    } <= made
    text = (tmp_path / "site" / "api" / "index.html").read_text(encoding="utf-8")
    assert "Linear regression of <code>target</code>" in text


def test_a_broken_link_ends_the_build(tmp_path):
    """The strictness is real."""
    build = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](nowhere.md)")
    (tmp_path / "mkdocs.yml").write_text("site_name: x\nstrict: true\n")
    from mkdocs.exceptions import Abort

    with pytest.raises(Abort):
        build.build(config.load_config(str(tmp_path / "mkdocs.yml"), strict=True))


def test_every_picture_is_shown():
    text = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    for picture in (DOCS / "images").iterdir():
        assert f"images/{picture.name})" in text, picture.name
