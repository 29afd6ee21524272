"""Hostile files: four kinds of seeds, what a forger does to them, and what reads them.

Inputs follow from a seed, so that a case found once can be made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ddssp.archive import SEAL
from ddssp.curate import Plan, columns_of, curate, drafted, plan
from ddssp.engine import Engine
from ddssp.experiments.noise import SeededNoise
from ddssp.frame import DataError
from ddssp.released import load
from ddssp.schema import Schema

SCHEMA = Schema(
    name="survey",
    columns={
        "n": {"kind": "numeric", "low": 0, "high": 10, "bins": 3, "indicator": True},
        "o": {"kind": "ordinal", "levels": [1, 2, 3]},
        "c": {"kind": "categorical", "levels": ["a", "b"], "other": "rest"},
        "b": {"kind": "boolean"},
    },
    derived={"nn": {"function": "square", "of": "n", "bins": 2}},
)
ROWS = {"n": [0.5, 7.0, None, 3.0], "o": [1, 2, 3, 2], "c": ["a", "b", "z", None], "b": [0, 1, 1, 0]}

NASTY: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e308, 5e-324, float("nan"), float("inf"), "", " ", "nan",
    "1e999999999", "1/0", "-1/3", "\0", "\x1b[2J\x1b]0;x\x07", "\u202eevil", "\ud800", "=cmd|' /C calc'!A0", "<script>",
    "../../etc/passwd", "a" * 5000, [], {}, [[]], [[[[]]]], [0] * 100, {"a": 1}, [None], ["n"], ["n", "n", "n"], [1e308, 1e308],
)  # fmt: skip
NAMES = (
    "../../evil",
    "/etc/passwd",
    "C:\\evil",
    "manifest.json",
    "measurements.npy",
    "burt.npy",
    "theta.npy",
    "a\0b",
    "é" * 300,
    "",
)


# --- seeds --------------------------------------------------------------------------------------------------------


@cache
def releases() -> tuple[bytes, ...]:
    """Files of every mechanism."""
    made = [("moments", None), ("aim", None), ("task", "n"), ("task", "b")]
    return tuple(
        curate(ROWS, plan(SCHEMA, epsilon=1, delta=1e-6, mechanism=m, target=t), noise=SeededNoise(0)).to_bytes()
        for m, t in made
    )


@cache
def schemas() -> tuple[bytes, ...]:
    vectors = 'columns.v = {kind = "categorical", levels = ["a", "b"], values = [[1.0], [0.0]]}\n'
    return SCHEMA.to_toml().encode(), b'name = "x"\nunit = "person"\n' + vectors.encode()


@cache
def csvs() -> tuple[bytes, ...]:
    return (b"n,o,c,b\n0.5,1,a,0\n7,2,b,1\n,3,zz,true\n", b'"n","o","c","b"\r\n"1","2","a\nb","0"\r\n')


@cache
def parquets() -> tuple[bytes, ...]:
    table = pa.table(ROWS)
    out = []
    for options in ({}, {"compression": "none", "use_dictionary": False}, {"compression": "zstd", "version": "1.0"}):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **options)
        out.append(buffer.getvalue())
    return tuple(out)


# --- mutations ----------------------------------------------------------------------------------------------------


def torn(data: bytes, rng: random.Random) -> bytes:
    """Bits flipped, bytes overwritten, pieces cut, repeated or inserted, the end cut off."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        if not out:
            break
        i, width = rng.randrange(len(out)), rng.choice((1, 1, 2, 4, 8, 64))
        how = rng.randrange(7)
        if how == 0:
            out[i] ^= 1 << rng.randrange(8)
        elif how == 1:
            out[i : i + width] = rng.randbytes(len(out[i : i + width]))
        elif how == 2:
            del out[i : i + width]
        elif how == 3:
            out[i:i] = out[i : i + width] * rng.choice((1, 2, 50))
        elif how == 4:
            out[i:i] = rng.choice((b"\0", b"\xff" * 8, b'"', b"\n", b",", b"[" * 300, b"9" * 400, b"\xef\xbb\xbf", b"=1+1"))
        elif how == 5:
            del out[rng.randrange(len(out)) :]
        else:
            out[i : i + width] = rng.choice((b"\xff", b"\x7f", b"\x00", b"\x80")) * width
    return bytes(out)


def twisted(value: Any, rng: random.Random) -> Any:
    """A value somewhere inside replaced, removed, added or repeated."""
    if rng.random() < 0.15 or not isinstance(value, dict | list) or not value:
        return rng.choice(NASTY)
    if isinstance(value, dict):
        key, out = rng.choice(list(value)), dict(value)
        how = rng.randrange(8)
        if how == 0:
            del out[key]
        elif how == 1:
            out[str(rng.choice(NASTY))[:300]] = out.pop(key)
        else:
            out[key] = twisted(out[key], rng)
        return out
    i, items = rng.randrange(len(value)), list(value)
    how = rng.randrange(6)
    if how == 0:
        del items[i]
    elif how == 1:
        items.insert(i, items[i])
    else:
        items[i] = twisted(items[i], rng)
    return items


def sealed(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED, flags: int = 0) -> bytes:
    """A file with a valid seal around any members: what a forger can make."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = compression
            archive.writestr(info, content)
        for info in archive.infolist():
            info.flag_bits |= flags
        archive.comment = SEAL + b"0" * 64
    return resealed(buffer.getvalue())


def resealed(data: bytes) -> bytes:
    body = data[: -len(SEAL) - 64]
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


def forged_release(data: bytes, rng: random.Random) -> bytes:
    """A release with a manifest, arrays or members twisted, and checksums that are right again."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    how = rng.randrange(8)
    if how <= 3:
        for _ in range(rng.choice((1, 1, 2, 5))):
            manifest = twisted(manifest, rng)
    elif how == 4 and members:
        name = rng.choice(list(members))
        members[name] = torn(members[name], rng)
    elif how == 5:
        name = rng.choice(list(members))
        members[name] = _nasty_array(rng)
    if isinstance(manifest, dict) and rng.random() < 0.9:
        manifest["members"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    listed = [("manifest.json", json.dumps(manifest).encode()), *members.items()]
    if how == 6:
        listed.insert(rng.randrange(len(listed)), (rng.choice(NAMES).replace("\0", ""), rng.randbytes(20)))
    compression = rng.choice((zipfile.ZIP_STORED,) * 6 + (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)) if how == 7 else 0
    out = sealed(listed, compression, flags=rng.choice((0, 0, 1, 0x40)) if how == 7 else 0)
    return resealed(torn(out, rng)) if rng.random() < 0.15 else out


def _nasty_array(rng: random.Random) -> bytes:
    shape = rng.choice(("(5,)", "(1000000000000,)", "(-1,)", "()", "(0,)", "(2,2)", "(99999999999999999999,)", "(1,)*9", "'x'"))
    descr = rng.choice(("'<f8'", "'|O'", "'<f4'", "'>f8'", "'<U9'", "[('a','<f8')]", "1"))
    header = f"{{'descr': {descr}, 'fortran_order': {rng.choice(('False', 'True', '1'))}, 'shape': {shape}, }}".encode()
    content = rng.choice((np.zeros(5), np.full(5, np.nan), np.full(5, 1e308), np.zeros(0))).tobytes()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def forged_schema(data: bytes, rng: random.Random) -> bytes:
    """A schema with settings twisted: lines exchanged, nasty values, deep nesting, many columns."""
    lines = data.decode().splitlines()
    for _ in range(rng.choice((1, 1, 2, 4))):
        i, how = rng.randrange(len(lines)), rng.randrange(6)
        value = json.dumps(rng.choice(NASTY)).replace("NaN", "nan").replace("Infinity", "inf").replace("null", '""')
        if how == 0:
            lines[i] = rng.choice(lines)
        elif how == 1:
            lines.insert(i, f"{rng.choice(('self', 'name', 'levels', 'bins', 'values', 'low', 'other', 'kind'))} = {value}")
        elif how == 2 and "=" in lines[i]:
            lines[i] = lines[i].split("=")[0] + "= " + value
        elif how == 3:
            depth = rng.choice((3, 300, 20000))
            lines.append(f"x = {'[' * depth}{']' * depth}")
        elif how == 4:
            levels = rng.choice((2, 2, 2, 2, 2, 65536))
            lines += [f"[columns.z{k}]\nkind = 'ordinal'\nlevels = {levels}" for k in range(rng.choice((2, 50)))]
        else:
            lines.append("a" + ".a" * rng.choice((2, 2000, 50000)) + " = 1")
    return "\n".join(lines).encode()


def forged_csv(data: bytes, rng: random.Random) -> bytes:
    """A table with nasty cells, headers and lines."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 2, 8))):
        i = rng.randrange(len(lines))
        cells = lines[i].split(b",")
        cell = str(rng.choice(NASTY)).encode("utf-8", "surrogatepass")
        cells[rng.randrange(len(cells))] = rng.choice((cell, b'"' + cell.replace(b'"', b'""') + b'"', b"\xff\xfe" + cell))
        lines[i] = b",".join(cells)
    if rng.random() < 0.002:
        lines.append(b"9" * 10_000_000 + b",1,a,0")
    return b"\n".join(lines)


TYPES = (
    pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.decimal128(38, 10), pa.date32(),
    pa.timestamp("ns"), pa.time64("us"), pa.duration("s"), pa.string(), pa.large_string(), pa.binary(), pa.binary(3),
    pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8()), pa.dictionary(pa.int8(), pa.string()),
)  # fmt: skip


def forged_parquet(data: bytes, rng: random.Random) -> bytes:
    """A file of odd types and names, or a good one whose pages, not its footer, are torn."""
    if rng.random() < 0.5:
        footer = int.from_bytes(data[-8:-4], "little") + 8
        return (
            data[:4]
            + torn(data[4:-footer], rng)[: len(data) - footer - 4].ljust(len(data) - footer - 4, b"\0")
            + data[-footer:]
        )
    names = ["n", "o", "c", "b"] + [
        str(rng.choice(NASTY)).encode("utf-8", "replace").decode() for _ in range(rng.choice((0, 1, 30)))
    ]
    rows = rng.choice((0, 1, 5))
    kinds = [rng.choice(TYPES) for _ in names]
    if rng.random() < 0.2:
        names[rng.randrange(len(names))] = "n"
    arrays = [_cells(kind, rows, rng) for kind in kinds]
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, names=names), buffer)
    return buffer.getvalue()


def _cells(kind: pa.DataType, rows: int, rng: random.Random) -> pa.Array:
    """Any cells of a type, by Arrow's own cast from text or numbers; nulls where there is none."""
    if pa.types.is_map(kind):  # Arrow ends the process where it is given a map with a null in it
        return pa.array([[("a", 1)]] * rows, kind)
    for values in ([rng.choice((None, *NASTY)) for _ in range(rows)], ["1"] * rows, [b"abc"] * rows, [1] * rows, [[1]] * rows):
        try:
            return pa.array(values, kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError, AttributeError):
            continue
    return pa.array([None] * rows, kind)


# --- readers ------------------------------------------------------------------------------------------------------


def read_release(path: Path) -> None:
    """All that an analyst does with a file."""
    release = load(path)
    json.dumps(release.header())
    if release.encoding.size <= 200:
        for name, column in release.schema.resolved.items():
            _refused_or(lambda name=name: release.linear(name).summary())
            if column.size == 2:
                _refused_or(lambda name=name: release.logistic(name).summary())


def _refused_or(fit: Callable[[], object]) -> None:
    """fit(); a release that cannot answer says so in a ValueError."""
    with np.errstate(all="ignore"):
        try:
            fit()
        except np.linalg.LinAlgError as error:
            raise ArithmeticError(str(error)) from error
        except ValueError as error:
            if not str(error).endswith("."):
                raise AssertionError(str(error)) from error


def read_schema(path: Path) -> None:
    schema = Schema.load(path)
    schema.to_toml()
    plan(schema, epsilon=1, delta=1e-6, mechanism="moments")


QUERIED = 8
"""One in so many files is also read through DuckDB, which takes several times as long."""


def read_data(path: Path) -> None:
    """All that an owner does with a file."""
    if crc32(path.read_bytes()) % QUERIED == 0:
        with suppress(DataError):
            curate(path, _planned(), noise=SeededNoise(0), engine=Engine(sql="SELECT * FROM data"))
    columns_of(path)
    drafted(path)
    curate(path, _planned(), noise=SeededNoise(0))


@cache
def _planned() -> Plan:
    return plan(Schema(columns=SCHEMA.columns), epsilon=1, delta=1e-6, mechanism="moments")


KINDS: dict[str, tuple[str, Callable[[], tuple[bytes, ...]], tuple[Callable[..., bytes], ...], Callable[[Path], None]]] = {
    "release": (".ddssp", releases, (torn, forged_release, forged_release, forged_release), read_release),
    "schema": (".toml", schemas, (torn, forged_schema), read_schema),
    "csv": (".csv", csvs, (torn, forged_csv), read_data),
    "parquet": (".parquet", parquets, (torn, forged_parquet, forged_parquet), read_data),
}


def made(kind: str, seed: int) -> bytes:
    """The input of a kind with a number."""
    rng = random.Random(f"{kind} {seed}")
    _, seeds, mutations, _ = KINDS[kind]
    return rng.choice(mutations)(rng.choice(seeds()), rng)


def complaint(kind: str, path: Path) -> str | None:
    """None if the file was read or refused in one clear sentence; else what happened instead."""
    try:
        KINDS[kind][3](path)
    except ValueError as error:
        if type(error) is ValueError or not str(error).strip() or "\n" in str(error) or "\x1b" in str(error):
            return f"{type(error).__name__}: {str(error)[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None
