"""Stamps of files: what changes when one of them does, so that a pass during which the data changed is noticed.

Not everything that is behind a query can be known. What cannot is in docs/bigger.md; a pass over it is as good as the engine's
own reading of it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator
from glob import glob, has_magic
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa

SOURCES = {"text", "value", "table_name"}
"""Where DuckDB's syntax trees have names of tables and constants."""


def of_dataset(dataset: Any) -> Hashable:
    """Size and time of the last change of every file of an Arrow dataset, wherever it lies; None of one without files."""
    if hasattr(dataset, "children"):
        return tuple(map(of_dataset, dataset.children))
    if not getattr(dataset, "files", None):
        return None
    try:
        return tuple(sorted((i.path, i.size, i.mtime_ns) for i in dataset.filesystem.get_file_info(dataset.files)))
    except (OSError, pa.ArrowException):
        return None


def of_polars(frame: Any) -> Hashable:
    """The same of the files on this machine that a lazy polars frame scans; None where its plan cannot be written down.

    Edge cases: a plan that holds a frame in memory is not written, since it would be written with all its cells.
    """
    try:
        if "DF [" in frame.explain(optimized=False):
            return None
        frame._ldf.serialize_json(written := BytesIO())  # as the public method does, which warns that JSON may change
        plan = json.loads(written.getvalue())
    except Exception:  # a plan with Python functions, or another polars
        return None
    return of_names(name for paths in _under(plan, {"Paths", "paths"}) for name in _leaves(paths))


def of_query(sql: str) -> Hashable:
    """The same of the files on this machine that a query in DuckDB's SQL names; None if it names none."""
    import duckdb

    try:
        with duckdb.connect() as connection:
            [(written,)] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    except duckdb.Error:
        return None
    tree = json.loads(written)
    functions = (_first(node["function"]) for node in _nodes(tree, "TABLE_FUNCTION"))
    trees = [*functions, *_nodes(tree, "BASE_TABLE")]
    return of_names(name for tree in trees for part in _under(tree, SOURCES) for name in _leaves(part))


def of_names(names: Iterable[str]) -> Hashable:
    """Path, size and time of the files on this machine that paths, folders or patterns mean; None if there are none."""
    found = {path for name in names for place in _places(name) for path in _files(place)}
    return tuple(sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in found)) or None


def _places(name: str) -> list[Path]:
    where = urlparse(name) if name.startswith("file:") else None
    local = name if where is None else unquote(where.path)
    try:
        return [Path(p) for p in glob(local, recursive=True)] if has_magic(local) else [Path(local)]
    except (OSError, ValueError):
        return []


def _files(place: Path) -> list[Path]:
    try:
        return [p for p in (place.rglob("*") if place.is_dir() else [place]) if p.is_file()]
    except (OSError, ValueError):  # a text that is no path
        return []


def _first(function: dict[str, Any]) -> Any:
    """What a function of DuckDB's reads; the arguments after it are options. (`children` in versions before 2.)"""
    return (function.get("arguments") or function.get("children") or [])[:1]


def _nodes(tree: Any, kind: str) -> Iterator[dict[str, Any]]:
    """Mappings within a tree whose type is `kind`."""
    if isinstance(tree, dict):
        if tree.get("type") == kind:
            yield tree
        yield from (node for part in tree.values() for node in _nodes(part, kind))
    elif isinstance(tree, list):
        yield from (node for part in tree for node in _nodes(part, kind))


def _under(tree: Any, keys: Collection[str]) -> Iterator[Any]:
    """What a tree has under any of the keys."""
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from [part] if key in keys else _under(part, keys)
    elif isinstance(tree, list):
        yield from (found for part in tree for found in _under(part, keys))


def _leaves(tree: Any) -> Iterator[str]:
    """Texts within a tree."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict | list):
        yield from (text for part in (tree.values() if isinstance(tree, dict) else tree) for text in _leaves(part))
