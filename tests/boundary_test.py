"""The boundary between secret and public: read from the imports, and shown to be able to fail.

Only `curate.py`, `secret/` itself and `experiments/` may name `ddssp.secret`, also lazily, also through importlib; only a
`reproduce` command may name `ddssp.experiments`.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ddssp"

MAY_NAME = {
    "ddssp.secret": lambda path: path == "curate.py" or path.startswith(("secret/", "experiments/")),
    "ddssp.experiments": lambda path: path.startswith("experiments/") or path.split("/")[-1] == "reproduce.py",
}


def named_modules(tree: ast.AST, package: str) -> Iterator[str]:
    """Every module that a file names: in imports anywhere, relative ones resolved, and in strings given to importers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.replace(".", "").isidentifier():
            yield node.value


def trespasses(source: Path) -> list[str]:
    """`file names module` for every file that names what it may not."""
    found = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).as_posix()
        package = ".".join(["ddssp", *path.relative_to(source).parts[:-1]])
        for module in named_modules(ast.parse(path.read_text(encoding="utf-8")), package):
            for guarded, may in MAY_NAME.items():
                if (module == guarded or module.startswith(guarded + ".")) and not may(inside):
                    found.append(f"{inside} names {module}")
    return found


def test_nothing_on_the_public_side_names_the_secret_side():
    assert trespasses(SOURCE) == []


PLANTED = {
    "plain": "import ddssp.secret.vault",
    "from": "from ddssp.secret.counts import Counts",
    "from the package": "from ddssp import secret",
    "lazy": "def peek():\n    from ddssp.secret import vault\n    return vault",
    "typing only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ddssp.secret",
    "importlib": "import importlib\nimportlib.import_module('ddssp.secret.vault')",
    "experiments": "from ddssp.experiments.noise import NoNoise",
}


@pytest.mark.parametrize("victim", ["released.py", "model/linear.py", "cli/owner.py", "mechanism/moments.py", "__init__.py"])
@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_import_is_noticed(how, victim, tmp_path):
    copy = tmp_path / "ddssp"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / victim
    path.write_text(path.read_text(encoding="utf-8") + "\n" + PLANTED[how] + "\n", encoding="utf-8")
    assert [t for t in trespasses(copy) if t.startswith(victim)]


def test_a_planted_relative_import_is_noticed(tmp_path):
    copy = tmp_path / "ddssp"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for victim, line in (("released.py", "from .secret import vault"), ("model/linear.py", "from ..secret.vault import Vault")):
        path = copy / victim
        path.write_text(path.read_text(encoding="utf-8") + f"\n{line}\n", encoding="utf-8")
    assert [t.split()[0] for t in trespasses(copy)] == ["model/linear.py", "model/linear.py", "released.py", "released.py"]


def test_the_door_may():
    door = ast.parse((SOURCE / "curate.py").read_text(encoding="utf-8"))
    assert any(m.startswith("ddssp.secret") for m in named_modules(door, "ddssp"))


def test_an_analyst_never_loads_the_secret_side(tmp_path):
    """At run time too: loading a release and fitting it imports nothing of secret/, nor the noise library."""
    import ddssp

    schema = ddssp.Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
    ddssp.release({"x": [0.1, 0.9], "y": [0, 1]}, schema, epsilon=1, delta=1e-6).save(tmp_path / "r.ddssp")
    script = (
        "import sys, ddssp\n"
        f"fit = ddssp.load({str(tmp_path / 'r.ddssp')!r}).linear('x')\n"
        "fit.coef, fit.predict({'y': [0, 1]})\n"
        "print([m for m in sys.modules if m.startswith(('ddssp.secret', 'ddssp.curate', 'ddssp.experiments', 'opendp'))])"
    )
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "[]"
