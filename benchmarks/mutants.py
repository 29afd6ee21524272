"""Mutation: privacy bugs planted one at a time in a copy of the tree, and whether the tests notice.

python benchmarks/mutants.py               all of them, and the score; exit code 1 if one survives
python benchmarks/mutants.py --only ledger    those whose name or file holds a word

What is found is kept as lines of results/mutants.jsonl, and the report is made of the newest line of each mutant. A line of a
mutant that has changed since does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from runs import RESULTS, ROOT, Run, append, circumstances, made, runs

CATALOGUE = ROOT / "tests" / "mutants" / "catalogue.toml"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One planted bug: where, what (one place, or several), and the tests that should notice."""

    name: str
    file: str
    old: str | list[str]
    new: str | list[str]
    tests: list[str]

    @property
    def planted(self) -> str:
        """A digest of what is planted where: the same for as long as a finding is about this mutant."""
        return hashlib.sha256(repr((self.file, self.edits)).encode()).hexdigest()[:16]

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


def newest(found: list[Run]) -> dict[str, Run]:
    """The newest finding about each mutant of the catalogue as it is."""
    planted = {m.name: m.planted for m in catalogue()}
    return {run["name"]: run for run in found if planted.get(run["name"]) == run["planted"]}


def report(kept: dict[str, Run]) -> str:
    mutants = catalogue()
    caught = sum(kept.get(m.name, {}).get("verdict") == "caught" for m in mutants)
    lines = [
        "# Mutants",
        "",
        f"{caught} of {len(mutants)} planted privacy bugs caught (`tests/mutants/catalogue.toml`). Made by `make mutants` from",
        "the lines of `mutants.jsonl`.",
        "",
        "| planted bug | in | caught by |",
        "|---|---|---|",
    ]
    for mutant in mutants:
        verdict, said = (kept.get(mutant.name, {"verdict": "not run", "said": ""})[name] for name in ("verdict", "said"))
        by = (
            f"`{said.removeprefix('FAILED ').removeprefix('ERROR ').split(' - ')[0]}`"
            if verdict == "caught"
            else f"**{verdict}**"
        )
        lines.append(f"| {mutant.name} | `{mutant.file}` | {by} |")
    return "\n".join([*lines, *made(kept.values())]) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="")
    arguments.add_argument("-o", "--output", type=Path, default=RESULTS / "mutants.md")
    given = arguments.parse_args()
    chosen = [m for m in catalogue() if given.only in m.name or given.only in m.file]
    store, how, caught = given.output.with_suffix(".jsonl"), circumstances(), 0
    with tempfile.TemporaryDirectory() as name:
        copy = copied(Path(name))
        for test in sorted({test for m in chosen for test in m.tests}):
            good, said = passes(copy, [test])
            if not good:
                sys.exit(f"the tests must pass before anything is planted: {said}")
        for mutant in chosen:
            start = time.perf_counter()
            found, said = tried(mutant, copy)
            caught += found
            run = {"name": mutant.name, "planted": mutant.planted, "verdict": "caught" if found else "survived", "said": said}
            append(store, run | {"seconds": round(time.perf_counter() - start, 1)} | how)
            print(f"{run['verdict']:8} {time.perf_counter() - start:5.1f} s  {mutant.name}: {said[:100]}", flush=True)
            given.output.write_text(report(newest(runs(store))), encoding="utf-8")
    print(f"score: {caught} of {len(chosen)}")
    sys.exit(caught < len(chosen))


if __name__ == "__main__":
    main()
