"""Release files: what is loaded is what was saved, and nothing else loads."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ddssp import load
from ddssp.archive import SEAL
from ddssp.curate import curate, plan
from ddssp.experiments.noise import SeededNoise
from ddssp.marginal import Measurement, PairMarginals
from ddssp.privacy.budget import Budget
from ddssp.released import FORMAT, Release, ReleaseError, from_bytes
from ddssp.schema import Schema

SMALL = Schema(columns={"x": {"kind": "numeric", "low": 0, "high": 1}, "y": {"kind": "boolean"}})
RICH = Schema(
    name="survey",
    unit="person",
    columns={
        "x": {"kind": "numeric", "low": 0, "high": 1, "indicator": True},
        "c": {"kind": "categorical", "levels": ["ä", "b"], "other": "rest"},
        "f": {"kind": "ordinal", "levels": [0.0, 1.0]},
        "t": {"kind": "ordinal", "levels": [False, True]},
        "v": {"kind": "categorical", "levels": ["a", "b"], "values": [[1], [0]]},
    },
    derived={"xx": {"function": "square", "of": "x"}},
)
ROWS = {
    "x": [0.25, None, 0.75] * 41,
    "c": ["ä", "b", "?"] * 41,
    "f": [0, 1, 1] * 41,
    "t": [0, 1, 1] * 41,
    "v": ["a", "b", "b"] * 41,
}


def rich(seed: int = 0) -> Release:
    return curate(ROWS, plan(RICH, epsilon=0.5, delta=1e-7, mechanism="moments", target="f"), noise=SeededNoise(seed))


def small() -> Release:
    rows = {"x": [0.1, 0.9, 0.5], "y": [True, False, True]}
    return curate(rows, plan(SMALL, epsilon=1, delta=1e-6, mechanism="moments"), noise=SeededNoise(1))


def with_tables() -> Release:
    schema = Schema(columns={"a": {"kind": "ordinal", "levels": 2}, "b": {"kind": "ordinal", "levels": 3}})
    burt = PairMarginals.of(schema.domain(), {("a", "b"): np.arange(6.0).reshape(2, 3)})
    measurement = Measurement(clique=("a",), values=np.array([3.0, 12.0]), sigma=2.5)
    return Release(
        schema=schema,
        mechanism="aim",
        budget=Budget(epsilon=1, delta=1e-6),
        rho=Fraction(1, 3),
        measurements=(measurement,),
        marginals=burt,
        entry={"dataset": "d", "counter": 3, "hash": "ff"},
    )


@pytest.mark.parametrize("make", [small, rich, with_tables])
def test_what_is_loaded_is_what_was_saved(make, tmp_path):
    release = make()
    release.save(tmp_path / "r.ddssp")
    again = load(tmp_path / "r.ddssp")
    assert again == release
    assert hash(again) == hash(release)
    assert again.to_bytes() == release.to_bytes()
    assert again.schema == release.schema
    assert again.rho == release.rho
    assert again.header() == release.header()
    assert [(m.clique, m.sigma) for m in again.measurements] == [(m.clique, m.sigma) for m in release.measurements]
    assert all(np.array_equal(a.values, b.values) for a, b in zip(again.measurements, release.measurements, strict=True))
    assert np.array_equal(again.moments.matrix, release.moments.matrix)


def test_a_fit_is_the_same_from_the_file(tmp_path):
    release = rich()
    release.save(tmp_path / "r.ddssp")
    assert load(tmp_path / "r.ddssp").linear("f").coef == release.linear("f").coef


def test_releases_that_differ_are_not_equal():
    one = small()
    assert one != replace(one, target="x")
    assert one != replace(one, private=True)
    assert rich(0) != rich(1)
    assert one != "a release"


def test_one_byte_flipped_anywhere_is_refused():
    content = small().to_bytes()
    assert from_bytes(content) == small()
    for position in range(len(content)):
        for bit in (1, 0x80):
            damaged = bytearray(content)
            damaged[position] ^= bit
            with pytest.raises(ReleaseError, match="damaged or not a release"):
                from_bytes(bytes(damaged))


def test_truncation_at_every_length_is_refused():
    content = small().to_bytes()
    for length in range(len(content)):
        with pytest.raises(ReleaseError):
            from_bytes(content[:length])


@pytest.mark.parametrize("extra", [b"\0", b"\n", b"x" * 71])
def test_anything_added_is_refused(extra):
    content = small().to_bytes()
    for changed in (content + extra, extra + content):
        with pytest.raises(ReleaseError):
            from_bytes(changed)


def sealed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A file with a valid seal around any members: what a forger can make."""
    import hashlib

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = SEAL + b"0" * 64
    body = buffer.getvalue()[: -len(SEAL) - 64]
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


def members() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(small().to_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def manifest(**changes) -> dict[str, bytes]:
    files = members()
    return files | {"manifest.json": json.dumps(json.loads(files["manifest.json"]) | changes).encode()}


def test_the_forgers_tool_works():
    assert from_bytes(sealed(members())) == small()
    assert sum(m.values.size for m in small().measurements) == 5  # n, x, y, xy, x²: as many as the forged arrays below


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=array.dtype == object)
    return buffer.getvalue()


def swapped(content: bytes) -> dict[str, bytes]:
    """Another member in place of the measurements, with the checksum it needs."""
    import hashlib

    files = members()
    listed = json.loads(files["manifest.json"])
    listed["members"]["measurements.npy"] = hashlib.sha256(content).hexdigest()
    return files | {"manifest.json": json.dumps(listed).encode(), "measurements.npy": content}


FORGED = {
    "another format": (lambda: manifest(format=FORMAT + 1), "has format 2, this version reads format 1; upgrade ddssp"),
    "unlisted member": (lambda: members() | {"extra.npy": b""}, "members that no release has"),
    "missing member": (lambda: {"manifest.json": members()["manifest.json"]}, "not the ones its manifest lists"),
    "member edited": (lambda: members() | {"measurements.npy": b"x"}, "not the ones its manifest lists"),
    "no manifest": (lambda: {"a": b""}, "members that no release has"),
    "manifest not JSON": (lambda: members() | {"manifest.json": b"{"}, "is not a release that this version can read"),
    "manifest a list": (lambda: members() | {"manifest.json": b"[]"}, "a manifest that is no object"),
    "schema invalid": (lambda: manifest(schema={"columns": {}}), "is not a release that this version can read"),
    "schema a bomb": (
        lambda: manifest(schema={"columns": {"x": {"kind": "ordinal", "levels": 10**15}}}),
        "is not a release that this version can read",
    ),
    "epsilon below 0": (lambda: manifest(epsilon=-1), "is not a release that this version can read"),
    "rho no number": (lambda: manifest(rho="1/0"), "is not a release that this version can read"),
    "another encoding": (lambda: manifest(encoding=["intercept"]), "an encoding that does not follow from its schema"),
    "too short": (lambda: swapped(npy(np.zeros(2))), "measurements of another length"),
    "a pickle": (lambda: swapped(npy(np.array([{"a": 1}], object))), "numbers of a type that no release has"),
    "other numbers": (lambda: swapped(npy(np.zeros(5, np.int32))), "numbers of a type that no release has"),
    "not finite": (lambda: swapped(npy(np.full(5, np.nan))), "numbers that are not finite"),
    "no array": (lambda: swapped(b"no array"), "numbers in a form that no release has"),
}


@pytest.mark.parametrize("case", FORGED)
def test_forged_releases_are_refused(case):
    make, message = FORGED[case]
    with pytest.raises(ReleaseError, match=message):
        from_bytes(sealed(make()))


def test_compressed_members_are_refused():
    with pytest.raises(ReleaseError, match="compressed members, which no release has"):
        from_bytes(sealed(members(), zipfile.ZIP_DEFLATED))


def test_members_are_stored_as_they_are_and_hold_no_pickle():
    with zipfile.ZipFile(io.BytesIO(rich().to_bytes())) as archive:
        assert archive.namelist() == ["manifest.json", "measurements.npy"]
        assert {i.compress_type for i in archive.infolist()} == {zipfile.ZIP_STORED}
        np.load(io.BytesIO(archive.read("measurements.npy")), allow_pickle=False)


def test_the_manifest_says_what_was_promised():
    listed = json.loads(members()["manifest.json"])
    assert listed["format"] == 1
    assert listed["domain"] == {"x": None, "y": 2}
    assert listed["encoding"] == ["intercept", "x", "y"]
    assert set(listed["provenance"]) == {"ddssp", "opendp"}
    assert listed["neighbours"] == "add or remove one record"
    assert all(m["sigma"] > 0 for m in listed["measurements"])
    assert listed["private"] is False


def test_nothing_exact_is_in_the_file():
    """n = 123 records and seed 987654321 must not be found in any member, in text or in numbers."""
    release = curate(
        ROWS, plan(RICH, epsilon=0.5, delta=1e-7, mechanism="moments", target="f"), noise=SeededNoise(987654321)
    )  # fmt: skip
    content = release.to_bytes()
    assert len(ROWS["x"]) == 123
    text = json.dumps(json.loads(zipfile.ZipFile(io.BytesIO(content)).read("manifest.json")))
    assert "seed" not in text
    assert "123" not in text.replace(release.schema.fingerprint, "")
    for number in (123.0, 123, 987654321):
        for kind in (np.float64, np.int64, np.int32, np.float32):
            assert np.array([number], kind).tobytes() not in content
    assert b"987654321" not in content
    n = next(m for m in release.measurements if m.clique == ())
    assert n.values[0, 0] != 123


def test_two_private_releases_of_the_same_rows_differ():
    import ddssp

    rows = {"x": [0.1, 0.9, 0.5], "y": [True, False, True]}
    one, two = (ddssp.release(rows, SMALL, epsilon=1, delta=1e-6) for _ in range(2))
    assert one.private
    assert one != two


# ---------------------------------------------------------------------------------------------------- files


def test_an_existing_file_is_not_overwritten_without_force(tmp_path):
    path = tmp_path / "r.ddssp"
    path.write_text("mine")
    with pytest.raises(ReleaseError, match=r"exists; choose another name or pass force=True\.$"):
        small().save(path)
    assert path.read_text() == "mine"
    small().save(path, force=True)
    assert load(path) == small()


def test_a_failing_write_leaves_neither_a_new_file_nor_a_damaged_old_one(tmp_path, monkeypatch):
    path = tmp_path / "r.ddssp"
    small().save(path)
    before = path.read_bytes()

    def full(_descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        rich().save(path, force=True)
    with pytest.raises(OSError, match="no space"):
        rich().save(tmp_path / "new.ddssp")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.ddssp"]


def test_the_file_appears_whole(tmp_path, monkeypatch):
    """Whoever looks at the path sees nothing, or all of it: the file is renamed into place."""
    seen = []
    real = os.replace

    def watch(source, target):
        seen.append((os.path.exists(target), os.path.getsize(source)))
        real(source, target)

    monkeypatch.setattr(os, "replace", watch)
    small().save(tmp_path / "r.ddssp")
    assert seen == [(False, len(small().to_bytes()))]


def test_a_release_is_readable_by_others(tmp_path):
    small().save(tmp_path / "r.ddssp")
    assert stat.S_IMODE((tmp_path / "r.ddssp").stat().st_mode) == 0o644


def test_no_folder_no_file(tmp_path):
    with pytest.raises(ReleaseError, match=r"output folder .* does not exist; create it first"):
        small().save(tmp_path / "none" / "r.ddssp")
    with pytest.raises(ReleaseError, match="is a folder; name a file in it"):
        small().save(tmp_path, force=True)
    with pytest.raises(ReleaseError, match="output must name a file, got ''"):
        small().save("")


def test_loading_what_is_not_there(tmp_path):
    with pytest.raises(ReleaseError, match=r"release '.*none.ddssp' does not exist; check its name and folder"):
        load(tmp_path / "none.ddssp")
    with pytest.raises(ReleaseError, match=r"is a folder; name a \.ddssp file"):
        load(tmp_path)
    (tmp_path / "empty.ddssp").write_bytes(b"")
    with pytest.raises(ReleaseError, match=r"release '.*empty.ddssp' is not a ddssp release; name a \.ddssp file, or fetch"):
        load(tmp_path / "empty.ddssp")
