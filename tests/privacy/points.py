"""Fault points for a child process: everything a release does to the ledger, the noise and the file system, and a kill at one.

The product has no hooks: the driver wraps what the product calls (SQLite statements, the noise, the calls of `os` that change
files) in its own process, and dies by SIGKILL before or after the call whose turn it is.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ddssp.curate import curate, plan
from ddssp.privacy.ledger import Ledger
from ddssp.privacy.signature import sign
from ddssp.schema import Schema
from ddssp.secret.noise import OpenDPNoise

SCHEMA = Schema(
    name="survey",
    columns={"x": {"kind": "numeric", "low": 0, "high": 1, "bins": 3}, "y": {"kind": "boolean"}, "z": {"kind": "boolean"}},
)
ROWS = {"x": [0.1, 0.9, 0.5, 0.4], "y": [1, 0, 1, 1], "z": [0, 0, 1, 1]}
WRITES = (
    "INSERT",
    "BEGIN IMMEDIATE",
    "COMMIT",
    "ALTER",
    "CREATE",
    "PRAGMA journal_mode",
    "PRAGMA wal_checkpoint",
    "PRAGMA user_version =",
)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
"""The owner's, of these tests."""


class Faults:
    """Counts the points that a process passes and kills it at one of them; tells what it has done through `say`."""

    def __init__(self, kill_at: int | None, say: Callable[[str], None]) -> None:
        self.passed, self._kill_at, self._say = 0, kill_at, say

    def point(self, _name: str) -> None:
        self.passed += 1
        if self.passed == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, name: str, call: Callable[..., Any], done: str = "") -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.point(f"before {name}")
            out = call(*args, **kwargs)
            if done:
                self._say(done)
            self.point(f"after {name}")
            return out

        return wrapped


def install(faults: Faults) -> None:
    """None; every ledger write, draw and file operation of this process passes two points from now on."""

    class Connection(sqlite3.Connection):
        def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:  # type: ignore[override]
            run = super().execute
            if not statement.startswith(WRITES):
                return run(statement, *arguments)
            return faults.around(statement[:15], run)(statement, *arguments)  # type: ignore[no-any-return]

        def executescript(self, script: str) -> sqlite3.Cursor:  # type: ignore[override]
            return faults.around("script", super().executescript)(script)  # type: ignore[no-any-return]

    sqlite3.connect = partial(sqlite3.connect, factory=Connection)  # type: ignore[assignment]
    for name in ("gaussian", "noisy_max"):
        setattr(OpenDPNoise, name, faults.around(name, getattr(OpenDPNoise, name), done="drew"))
    for name in ("fsync", "replace", "chmod", "link", "unlink"):
        setattr(os, name, faults.around(name, getattr(os, name)))
    write = Path.open

    def opened(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = write(path, mode, *args, **kwargs)
        if "w" not in mode:
            return file
        return _Torn(file, faults)

    Path.open = opened  # type: ignore[method-assign, assignment]


class _Torn:
    """A file whose content arrives in two halves, with a point between them."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults

    def __enter__(self) -> _Torn:
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def write(self, content: bytes) -> None:
        half = len(content) // 2
        self._file.write(content[:half])
        self._file.flush()
        self._faults.point("between two writes")
        self._file.write(content[half:])

    def flush(self) -> None:
        self._file.flush()

    def fileno(self) -> int:
        return int(self._file.fileno())


def make_release(folder: Path, name: str, mechanism: str, epsilon: float) -> None:
    """None; one release of ROWS into `folder`, paid from its ledger, made when there is none, and its signature."""
    ledger = Ledger(folder / "ledger.db")
    if not ledger.path.exists():
        ledger.set_budget("survey", 1.0, 1e-6)
    made = plan(SCHEMA, epsilon=epsilon, delta=1e-6, mechanism=mechanism, target="y", ledger=ledger)
    release, path = curate(ROWS, made), folder / f"{name}.ddssp"
    release.save(path)
    sign(release.to_bytes(), path, KEY)
