"""Mutation: privacy bugs planted one at a time in a copy of the tree, and whether the tests notice.

python benchmarks/mutants.py               all of them, and the score; exit code 1 if one survives
python benchmarks/mutants.py --only ledger    those whose name or file holds a word
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "tests" / "mutants" / "catalogue.toml"
KEPT = ROOT / "build" / "mutants.json"
"""What earlier runs found, so that the report may be made of several."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One planted bug: where, what (one place, or several), and the tests that should notice."""

    name: str
    file: str
    old: str | list[str]
    new: str | list[str]
    tests: list[str]

    @property
    def edits(self) -> list[tuple[str, str]]:
        old, new = ([x] if isinstance(x, str) else x for x in (self.old, self.new))
        return list(zip(old, new, strict=True))

    def applied(self, source: Path) -> str:
        """The file's text with the bug in it."""
        text = (source / self.file).read_text(encoding="utf-8")
        for old, new in self.edits:
            if text.count(old) != 1:
                raise ValueError(f"mutant {self.name!r}: its place must occur once in {self.file}, got {text.count(old)}.")
            text = text.replace(old, new)
        return text


def catalogue() -> list[Mutant]:
    return [Mutant(**entry) for entry in tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))["mutant"]]


def passes(copy: Path, tests: list[str]) -> tuple[bool, str]:
    """Whether the tests pass in the copy, and pytest's last line."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--hypothesis-profile=mutants",
        *tests,
    ]
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1", "DDSSP_KILLS": "12"}
    try:
        got = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return False, "did not end"
    lines = got.stdout.strip().splitlines() or got.stderr.strip().splitlines() or [""]
    return got.returncode == 0, next((line for line in reversed(lines) if line.startswith(("FAILED", "ERROR"))), lines[-1])


def tried(mutant: Mutant, copy: Path) -> tuple[bool, str]:
    """Whether the mutant is caught, and by what."""
    path = copy / "src" / "ddssp" / mutant.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(copy / "src" / "ddssp"), encoding="utf-8")
    try:
        for test in mutant.tests:
            good, said = passes(copy, [test])
            if not good:
                return True, said
        return False, "survived"
    finally:
        path.write_text(sound, encoding="utf-8")


def copied(folder: Path) -> Path:
    """A copy of what the tests need."""
    for part in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    for part in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / part, folder / part)
    return folder


def report(kept: dict[str, list[str]]) -> str:
    mutants = catalogue()
    caught = sum(kept.get(m.name, [""])[0] == "caught" for m in mutants)
    lines = [
        "# Mutants",
        "",
        f"{caught} of {len(mutants)} planted privacy bugs caught (`tests/mutants/catalogue.toml`). Made by `make mutants`.",
        "",
        "| planted bug | in | caught by |",
        "|---|---|---|",
    ]
    for mutant in mutants:
        verdict, said = kept.get(mutant.name, ["not run", ""])
        by = (
            f"`{said.removeprefix('FAILED ').removeprefix('ERROR ').split(' - ')[0]}`"
            if verdict == "caught"
            else f"**{verdict}**"
        )
        lines.append(f"| {mutant.name} | `{mutant.file}` | {by} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="")
    arguments.add_argument("-o", "--output", type=Path)
    given = arguments.parse_args()
    chosen = [m for m in catalogue() if given.only in m.name or given.only in m.file]
    kept: dict[str, list[str]] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        copy = copied(Path(name))
        good, said = passes(copy, sorted({test for m in chosen for test in m.tests}))
        if not good:
            sys.exit(f"the tests must pass before anything is planted: {said}")
        for mutant in chosen:
            start = time.perf_counter()
            found, said = tried(mutant, copy)
            kept[mutant.name] = ["caught" if found else "survived", said]
            print(f"{kept[mutant.name][0]:8} {time.perf_counter() - start:5.1f} s  {mutant.name}: {said[:100]}", flush=True)
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept), encoding="utf-8")
    caught = sum(kept[m.name][0] == "caught" for m in chosen)
    print(f"score: {caught} of {len(chosen)}")
    if given.output:
        given.output.write_text(report(kept), encoding="utf-8")
    sys.exit(caught < len(chosen))


if __name__ == "__main__":
    main()
