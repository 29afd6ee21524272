"""The boundary between secret and public: read from the source, and shown to be able to fail.

Only `curate.py`, `secret/` itself and `experiments/` may name `ddssp.secret`; only those who carry out a release may name the
door, `ddssp.curate`; only the `reproduce` command may name `ddssp.experiments`. By whatever way: an import, a lazy one, an
attribute, a name that another module has imported, a text given to an importer.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ddssp"

MAY_NAME = {
    "ddssp.secret": ("curate.py", "secret/", "experiments/"),
    "ddssp.curate": ("__init__.py", "cli/owner.py", "cli/audit.py", "audit/worlds.py", "estimators/base.py", "experiments/"),
    "ddssp.experiments": ("cli/reproduce.py", "experiments/"),
}
IMPORTERS = {"import_module", "__import__", "exec", "eval", "run_module", "modules"}
MAY_IMPORT_BY_TEXT = ("__init__.py",)


def may(path: str, allowed: tuple[str, ...]) -> bool:
    """Whether a file is one of `allowed`, or lies in one of its folders."""
    return any(path.startswith(a) if a.endswith("/") else path == a for a in allowed)


class Names:
    """What a file names."""

    def __init__(self, path: str, text: str) -> None:
        self.nodes = list(ast.walk(ast.parse(text)))
        self.package = ".".join(["ddssp", *path.split("/")[:-1]])
        self.origin = dict(self._imported())
        """Local name → the module or the module's member that it stands for."""

    def _imported(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
                yield from ((n, n) for alias in node.names if not alias.asname and (n := alias.name.partition(".")[0]))
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(node.module or "", node.level)
                yield from ((alias.asname or alias.name, f"{base}.{alias.name}") for alias in node.names)

    def _absolute(self, module: str, level: int) -> str:
        above = self.package.split(".")
        return ".".join([*above[: len(above) - level + 1], *([module] if module else [])]) if level else module

    def all(self) -> Iterator[str]:
        """Dotted names of modules and their members: imported, reached by attributes, or spelled in texts."""
        yield from self.origin.values()
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and (dotted := _dotted(node)):
                root, _, rest = dotted.partition(".")
                yield f"{self.origin.get(root, root)}.{rest}"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._spelled(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                yield from (f"ddssp.{a.value}" for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))

    def _spelled(self, text: str) -> Iterator[str]:
        bare = text.lstrip(".")
        if bare.replace(".", "").isidentifier():
            yield bare
            if bare != text:
                yield from {f"ddssp.{bare}", self._absolute(bare, len(text) - len(bare))}

    def importers(self) -> Iterator[str]:
        """Ways to import by a text, which nobody can follow."""
        for node in self.nodes:
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if isinstance(node, ast.alias):
                name = node.name
            if name in IMPORTERS and not (name == "modules" and getattr(getattr(node, "value", None), "id", "") != "sys"):
                yield name


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{root}.{node.attr}" if (root := _dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def resolved(name: str, files: dict[str, Names]) -> str:
    """Where a name comes from, if another module has imported it; the package's own public names are followed no further."""
    for _ in range(9):
        module, _, member = name.rpartition(".")
        if module == "ddssp" or module not in files or member not in files[module].origin:
            return name
        name = files[module].origin[member]
    return name


SOURCES = {p.relative_to(SOURCE).as_posix(): p.read_text(encoding="utf-8") for p in sorted(SOURCE.rglob("*.py"))}
names_of = cache(Names)


def trespasses(sources: dict[str, str]) -> list[str]:
    """`file names module` for every file that names what it may not; `sources` is path → text."""
    module = {path: f"ddssp.{path.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__") for path in sources}
    files = {module[path]: names_of(path, text) for path, text in sources.items()}
    found = set()
    for path in sources:
        names = files[module[path]]
        for name in {resolved(n, files) for n in names.all()}:
            for guarded, allowed in MAY_NAME.items():
                if (name == guarded or name.startswith(guarded + ".")) and not may(path, allowed):
                    found.add(f"{path} names {name}")
        if not may(path, MAY_IMPORT_BY_TEXT):
            found |= {f"{path} names importer {name}" for name in names.importers()}
    return sorted(found)


def test_nothing_on_the_public_side_names_the_secret_side():
    assert trespasses(SOURCES) == []


PLANTED = {
    "plain": "import ddssp.secret.vault",
    "from": "from ddssp.secret.counts import Counts",
    "from the package": "from ddssp import secret",
    "lazy": "def peek():\n    from ddssp.secret import vault\n    return vault",
    "typing only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import ddssp.secret",
    "attribute": "import ddssp\nddssp.secret.vault.Vault",
    "attribute by another name": "import ddssp as d\nd.secret",
    "getattr": "import ddssp\ngetattr(ddssp, 'secret')",
    "experiments": "from ddssp.experiments.noise import NoNoise",
}
ON_THE_PUBLIC_SIDE = {
    "the door's own imports": "from ddssp.curate import Vault, counts",
    "the door": "from ddssp import curate",
    "what another has imported": "from ddssp.estimators.base import curate",
    "an attribute of another": "from ddssp.audit import worlds\nworlds.curate",
    "importlib": "import importlib\nimportlib.import_module('ddssp.secret.vault')",
    "importlib, relative": "from importlib import import_module\nimport_module('.secret.vault', 'ddssp')",
    "importlib, put together": "import importlib\nname = 'sec'\nimportlib.import_module(f'ddssp.{name}ret')",
    "the built-in": "__import__('ddssp.' + 'secret')",
    "loaded modules": "import sys\nsys.modules['ddssp.' + 'secret']",
}


def planted(victim: str, line: str) -> list[str]:
    """What is noticed in a file that got one more line."""
    spoiled = SOURCES | {victim: f"{SOURCES.get(victim, '')}\n{line}\n"}
    return [t for t in trespasses(spoiled) if t.startswith(victim)]


@pytest.mark.parametrize("how", PLANTED)
@pytest.mark.parametrize("victim", ["model/linear.py", "cli/owner.py", "__init__.py"])
def test_a_planted_import_is_noticed(how, victim):
    assert planted(victim, PLANTED[how])


@pytest.mark.parametrize("how", ON_THE_PUBLIC_SIDE)
@pytest.mark.parametrize("victim", ["released.py", "mechanism/moments.py"])
def test_a_side_door_is_noticed(how, victim):
    assert planted(victim, ON_THE_PUBLIC_SIDE[how])


def test_a_planted_relative_import_is_noticed():
    assert planted("released.py", "from .secret import vault")
    assert planted("model/linear.py", "from ..secret.vault import Vault")


def test_a_file_may_not_by_its_name_alone():
    assert planted("model/reproduce.py", "from ddssp.experiments.noise import NoNoise")
    assert planted("model/curate.py", "from ddssp.secret.vault import Vault")


def test_the_door_may():
    assert any(name.startswith("ddssp.secret") for name in names_of("curate.py", SOURCES["curate.py"]).all())


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
