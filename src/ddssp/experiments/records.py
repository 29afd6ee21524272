"""Finished runs: one JSON line each, appended and on disk before the next begins, so that a killed run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from ddssp.whole import draft, drafted

Record = dict[str, Any]

COLUMNS = {
    "protocol": pa.string(),
    "kind": pa.string(),
    "dataset": pa.string(),
    "substitute": pa.bool_(),
    "method": pa.string(),
    "epsilon": pa.float64(),
    "seed": pa.int64(),
    "model_size": pa.float64(),
    "mse": pa.float64(),
    "mse_beyond": pa.float64(),
    "excess": pa.float64(),
    "auc": pa.float64(),
    "logloss": pa.float64(),
    "seconds": pa.float64(),
    "peak_mb": pa.float64(),
    "code": pa.string(),
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: what its numbers depend on, and nothing else.

    Edge cases: ε is None without privacy, model_size is None where there is no graphical model.
    """

    protocol: str
    kind: str
    dataset: str
    method: str
    epsilon: float | None
    seed: int
    model_size: float | None

    @classmethod
    def of(cls, record: Record) -> Cell:
        return cls(**{name: record.get(name) for name in cls.__dataclass_fields__})  # type: ignore[arg-type]

    def record(self, **found: Any) -> Record:
        return asdict(self) | found | {"code": code()}


@cache
def code() -> str:
    """Eight hexadecimal digits of the package's source: runs with the same were made by the same code."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


@dataclass(frozen=True)
class Records:
    """The runs in a file of lines."""

    path: Path

    def read(self) -> list[Record]:
        """All finished runs, the latest of each cell; a last line that a kill cut short does not count."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        found = (self._run(line, number) for number, line in enumerate(lines, 1))
        return list({Cell.of(r): r for r in found if "error" not in r}.values())

    def _run(self, line: str, number: int) -> Record:
        try:
            record = dict(json.loads(line))
        except (ValueError, TypeError):
            record = {}
        if not Cell.__dataclass_fields__.keys() <= record.keys():
            raise ValueError(
                f"runs {str(self.path)!r} must be lines of JSON, one for each run, line {number} is not; remove it."
            )
        return record

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Refuses where a living process already adds runs: both would make the same ones."""
        if drafted(self.path):
            raise ValueError(
                f"output {str(self.path.parent)!r} is in use by another run; wait for it, or give another with -o."
            )
        with draft(self.path):
            yield

    def append(self, records: Iterable[Record]) -> None:
        """Adds lines, and returns when they are on disk; an unfinished line before them is cut off first."""
        with self.path.open("a+b") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            if whole != end:
                file.truncate(whole)
            file.write("".join(json.dumps(r) + "\n" for r in records).encode())
            file.flush()
            os.fsync(file.fileno())

    def drop(self, unwanted: Callable[[Record], bool]) -> None:
        """Forgets some runs; the file is replaced whole."""
        kept = [r for r in self.read() if not unwanted(r)]
        new = self.path.with_suffix(".new")
        new.unlink(missing_ok=True)
        Records(new).append(kept)
        os.replace(new, self.path)

    def tidy(self, folder: Path) -> None:
        """runs.parquet and runs.csv: one row per run, one column per number."""
        runs = sorted(self.read(), key=lambda r: json.dumps(asdict(Cell.of(r))))
        table = pa.table({c: pa.array([r.get(c) for r in runs], kind) for c, kind in COLUMNS.items()})
        pq.write_table(table, folder / "runs.parquet")
        pv.write_csv(table, folder / "runs.csv")
