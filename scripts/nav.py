"""Hooks of mkdocs: every page is in the navigation under its own title; documents outside docs/ are pages, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

FOLDERS = {"Maths and guarantees": ".", "Decisions": "decisions"}

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+)([^)#\s]+)(#[^)\s]*)?\)")


def outside() -> list[str]:
    """Documents beside docs/ that the site holds under project/: measured results, and the project's own."""
    results = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "benchmarks" / "results").glob("*.md"))
    return [*results, *(n for n in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md") if (ROOT / n).exists())]


def on_config(config: Any) -> Any:
    """The configuration with every page in its navigation."""
    docs = Path(config["docs_dir"])
    pages = {title: sorted((docs / folder).glob("*.md")) for title, folder in FOLDERS.items()}
    found: list[dict[str, Any]] = [
        {title: [{_title(p): p.relative_to(docs).as_posix()} for p in paths if p.name != "index.md"]}
        for title, paths in pages.items()
    ]
    found.append({"Results and project": [{_title(ROOT / name): f"project/{name}"} for name in outside()]})
    config["nav"] = [*config["nav"][:-1], *found, config["nav"][-1]]
    return config


def on_files(files: Any, config: Any) -> Any:
    """The files with those of `outside`; their links lead to files that the site does not have, so they become text."""
    for name in outside():
        text = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", (ROOT / name).read_text(encoding="utf-8"))
        files.append(File.generated(config, f"project/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page whose links out of docs/ lead to project/, or are text where the site has no such page."""
    depth = page.file.src_uri.count("/")

    def moved(found: re.Match[str]) -> str:
        text, up, path, anchor = found.groups()
        if up.count("../") != depth + 1:
            return found.group(0)
        return f"[{text}]({'../' * depth}project/{path}{anchor or ''})" if path in outside() else text

    return LINK.sub(moved, markdown)


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").partition(":")[0]
