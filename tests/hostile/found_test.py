"""Hostile files that once crashed a reader, took its memory or wrote to a terminal, one test each."""

from __future__ import annotations

import hashlib
import io
import json
import os
import string
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from mutations import made, releases, resealed, sealed

from ddssp import archive
from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.released import ReleaseError, from_bytes
from ddssp.schema import Schema, SchemaError

MOMENTS, AIM = 0, 1


def parts(which: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(releases()[which])) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("manifest.json")), members


def joined(manifest: dict[str, Any], members: dict[str, bytes], extra: tuple[tuple[str, bytes], ...] = ()) -> bytes:
    manifest["members"] = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    return sealed([("manifest.json", json.dumps(manifest).encode()), *members.items(), *extra])


def edited(which: int = MOMENTS, **changes: Any) -> bytes:
    manifest, members = parts(which)
    return joined(manifest | changes, members)


def arrays(name: str, content: bytes, which: int = MOMENTS) -> bytes:
    manifest, members = parts(which)
    return joined(manifest, members | {name: content})


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def measured(**changes: Any) -> bytes:
    manifest, members = parts(MOMENTS)
    manifest["measurements"][0] |= changes
    return joined(manifest, members)


def with_burt(value: float) -> bytes:
    _, members = parts(AIM)
    content = bytearray(members["burt.npy"])
    import struct

    content[-8:] = struct.pack("<d", value)
    return arrays("burt.npy", bytes(content), AIM)


def overlapping() -> bytes:
    """Members that share their bytes: a small file that unpacks to a large one."""
    manifest, members = parts(MOMENTS)
    data = joined(manifest, members)
    first = data.index(b"PK\x01\x02")
    size = data.index(b"PK\x01\x02", first + 4) + 24  # file_size of the second entry in the directory
    return resealed(data[:size] + (2**30).to_bytes(4, "little") + data[size + 4 :])


ESCAPE = "\x1b]0;owned\x07"
FILES: dict[str, Callable[[], bytes]] = {
    "rho with an exponent that takes all memory": lambda: edited(rho="1e1000000000"),
    "rho below 0": lambda: edited(rho="-1/3"),
    "a shape that takes all memory": lambda: arrays("measurements.npy", header("(1000000000000,)")),
    "a shape below 0": lambda: arrays("measurements.npy", header("(-1,)")),
    "a header that is no dictionary": lambda: arrays("measurements.npy", b"\x93NUMPY\x01\x00\x05\x00__x__"),
    "a header of calls": lambda: arrays("measurements.npy", header("__import__('os').getpid()")),
    "pickled numbers": lambda: arrays("measurements.npy", header("(5,)", "'|O'") + b"cos\nsystem\n(S'id'\ntR."),
    "tables that are not finite": lambda: with_burt(float("nan")),
    "tables whose squares overflow": lambda: with_burt(1e200),
    "sigma below 0": lambda: measured(sigma=-1.0),
    "sigma that vanishes": lambda: measured(sigma=5e-324),
    "sigma that is no number": lambda: measured(sigma="nan"),
    "a clique of strangers": lambda: measured(clique=["nobody"]),
    "a clique of lists": lambda: measured(clique=[[1]]),
    "a shape of another block": lambda: measured(shape=[1]),
    "escapes in the mechanism": lambda: edited(mechanism=ESCAPE),
    "escapes in the provenance": lambda: edited(provenance={"ddssp": ESCAPE}),
    "escapes in the ledger entry": lambda: edited(ledger={"dataset": ESCAPE, "counter": 1, "hash": "00"}),
    "escapes in the schema": lambda: edited(schema={"name": ESCAPE, "columns": {"b": {"kind": "boolean"}}}),
    "a ledger entry of anything": lambda: edited(ledger=[1, 2]),
    "a target that is no column": lambda: edited(target=ESCAPE),
    "a path outside": lambda: joined(*parts(MOMENTS), extra=(("../../evil", b"x"),)),
    "the same member twice": lambda: joined(*parts(MOMENTS), extra=(("measurements.npy", b"x"),)),
    "a member that is encrypted": lambda: sealed([("manifest.json", b"{}")], flags=1),
    "members larger than the file": overlapping,
    "a manifest nested too deeply": lambda: sealed([("manifest.json", b"[" * 10**6)]),
    "a manifest of many empty lists": lambda: sealed([("manifest.json", b'{"format":[' + b"[]," * 10**6 + b"[]]}")]),
    "a manifest of one long number": lambda: sealed([("manifest.json", b'{"format":' + b"9" * 10**6 + b"}")]),
    "a thousand columns of many levels": lambda: edited(
        schema={"columns": {f"c{i}": {"kind": "ordinal", "levels": 65536} for i in range(1000)}}
    ),
    "a thousand derived columns of many levels": lambda: edited(
        schema={
            "columns": {x: {"kind": "categorical", "levels": 256} for x in "ab"},
            "derived": {f"d{i}": {"function": "interaction", "of": ["a", "b"]} for i in range(1000)},
        }
    ),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", FILES)
def test_a_forged_release_is_refused_in_one_sentence(case: str) -> None:
    with pytest.raises(ReleaseError) as refused:
        from_bytes(FILES[case]())
    assert str(refused.value).endswith(".")
    assert str(refused.value).isprintable()


def test_many_levels_do_not_take_the_memory_of_their_square() -> None:
    """16,384 levels are allowed, and their one-hot matrix as a matrix would take 2 GiB."""
    script = (
        "import resource; from ddssp.schema import Schema; from ddssp.encoding import Encoding\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "e = Encoding.centred(Schema(columns={'c': {'kind': 'categorical', 'levels': 16000}}))\n"
        "assert e.size == 16001 and e.blocks[1].numerators[3, 3] == 15999 and e.blocks[1].numerators[3, 4] == -1\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    got = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(got.stdout) < 200_000  # kB


def test_a_manifest_of_empty_lists_is_refused_before_it_is_parsed() -> None:
    """Parsed it takes 25 times its size."""
    content = b'{"format":[' + b"[]," * 10**6 + b"[]]}"
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseError, match="more parts than any release"):
            archive.manifest(content)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


def test_the_densest_manifest_of_many_columns_is_read() -> None:
    """Short names, short numbers, measurements of all pairs: as many marks a byte as a release can have."""
    names = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase][:400]
    pairs = [{"clique": list(pair), "shape": [1, 1], "sigma": 1.0} for pair in combinations(names, 2)]
    content = json.dumps({"encoding": names, "measurements": pairs}, indent=1).encode()
    assert sum(map(content.count, (b"[", b"{", b",", b":"))) > archive.SPARSE
    assert len(archive.manifest(content)["measurements"]) == len(pairs)


SCHEMAS = {
    "a setting that is a keyword of Python's": b"self = 1\n[columns.a]\nkind = 'boolean'\n",
    "nested too deeply": b"x = " + b"[" * 100_000,
    "keys of many parts": b"a" + b".a" * 200_000 + b" = 1\n",
    "quoted keys of many parts": b'"a b"' + b' . "a.\\"b"' * 200_000 + b" = 1\n",
    "a table of many parts": b"[a" + b".'='" * 200_000 + b"]\n",
    "a long name": b"a" * 8_000_000 + b" = 1\n",
    "a number of many digits": b"x = " + b"9" * 1_000_000 + b"\n",
    "too many levels together": b"".join(b"[columns.c%d]\nkind='ordinal'\nlevels=65536\n" % i for i in range(2000)),
    "an escape in a name": b'[columns."\\u001b[2J"]\nkind = "boolean"\n',
    "no columns but a table": b"[columns]\n",
    "columns that are no table": b"columns = 1\n",
}


@pytest.mark.parametrize("case", SCHEMAS)
def test_a_hostile_schema_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_bytes(SCHEMAS[case])
    with pytest.raises(SchemaError) as refused:
        Schema.load(tmp_path / "s.toml")
    assert str(refused.value).isprintable()


def test_a_schema_file_that_is_the_data_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "s.toml").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(SchemaError, match="is it the data"):
        Schema.load(tmp_path / "s.toml")


def test_names_from_a_file_reach_the_terminal_escaped(tmp_path: Path) -> None:
    """A header that holds an escape sequence is told to the owner, not to the terminal."""
    from typer.testing import CliRunner

    from ddssp.cli import app

    (tmp_path / "d.csv").write_bytes(b"a,\x1b]0;owned\x07\n1,2\n")
    got = CliRunner().invoke(app, ["schema", "draft", str(tmp_path / "d.csv"), "-o", str(tmp_path / "s.toml")])
    said = got.output + str(got.exception or "")
    assert "\x1b" not in said
    assert "\x07" not in said


def test_a_release_without_all_products_says_so_also_when_its_noise_is_asked_for() -> None:
    schema = Schema(columns={name: {"kind": "boolean"} for name in "xyz"})
    rows = {"x": [0, 1, 1], "y": [0, 1, 0], "z": [1, 1, 0]}
    ready = curate(rows, plan(schema, epsilon=1, delta=1e-6, mechanism="task", target="y"), noise=SeededNoise(1))
    for ask in (lambda: ready.noise, lambda: ready.moments, lambda: ready.linear("x")):
        with pytest.raises(ReleaseError, match="did not measure the products of all columns"):
            ask()


@pytest.mark.parametrize("seed", [8049, 11401, 18903, 20617])
def test_a_parquet_file_whose_columns_contradict_themselves_does_not_end_the_process(seed: int, tmp_path: Path) -> None:
    """Arrow ends the process where the statistics of a column chunk are asked for; so they are not."""
    (tmp_path / "input.parquet").write_bytes(made("parquet", seed))
    script = (
        "from pathlib import Path\nfrom mutations import complaint\nassert complaint('parquet', Path('input.parquet')) is None"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=False, timeout=60)
    assert done.returncode == 0
