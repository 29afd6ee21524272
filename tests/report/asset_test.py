"""The committed script and style are what explorer/ builds."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXPLORER = ROOT / "explorer"
BUILT = ROOT / "src" / "ddssp" / "report"


def sources_hash() -> str:
    """As explorer/build.mjs computes it: folder by folder, names in order."""
    digest = hashlib.sha256()

    def files(folder: Path):
        for path in sorted(folder.iterdir(), key=lambda p: p.name):
            yield from files(path) if path.is_dir() else [path]

    for path in [*files(EXPLORER / "src"), EXPLORER / "kernel" / "kernel.ts", EXPLORER / "package.json"]:
        digest.update(path.relative_to(EXPLORER).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["explorer.js", "explorer.css"])
def test_it_was_built_from_these_sources(name):
    first = (BUILT / name).read_text(encoding="utf-8").splitlines()[0]
    assert sources_hash() in first, f"{name} is stale: run `make explorer`"


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The compiler's word on the types and a fresh build, side by side: neither needs the other."""
    node = shutil.which("node")
    if node is None or not (EXPLORER / "node_modules" / "esbuild").exists():
        pytest.skip("needs Node and explorer/node_modules: `npm ci` in explorer/, or `make explorer`")
    folder = tmp_path_factory.mktemp("built")
    commands = {"types": ["node_modules/typescript/bin/tsc", "--noEmit"], "build": ["build.mjs", str(folder)]}
    running = {
        name: subprocess.Popen([node, *command], cwd=EXPLORER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name, command in commands.items()
    }
    return folder, {name: (process.communicate()[0], process.returncode) for name, process in running.items()}


def test_a_rebuild_gives_the_same_bytes(checked):
    folder, said = checked
    assert said["build"][1] == 0, said["build"][0][-2000:]
    for name in ("explorer.js", "explorer.css"):
        assert (folder / name).read_bytes() == (BUILT / name).read_bytes(), f"{name}: run `make explorer`"


def test_its_types_are_right(checked):
    assert checked[1]["types"] == ("", 0)


def test_licences_of_what_it_holds_are_in_it():
    script = (BUILT / "explorer.js").read_text(encoding="utf-8")
    for name in ("@observablehq/plot", "d3-array", "d3-scale"):
        assert name in script
    assert "Mike Bostock" in script
    assert "Permission to use, copy, modify" in script
