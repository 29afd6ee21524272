"""Signatures: made by one key, checked by its public half, and by openssl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddssp.cli import app
from ddssp.privacy.signature import SignatureError, private_key, public_key, require_signed, sign, signature_path

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

SCHEMA = 'name = "s"\n[columns.x]\nkind = "numeric"\nlow = 0\nhigh = 1\n[columns.y]\nkind = "boolean"\n'


def pem(key, path: Path) -> Path:
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    path.with_suffix(".pub").write_bytes(public)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pem(ed25519.Ed25519PrivateKey.generate(), tmp_path / "owner.pem")
    pem(ed25519.Ed25519PrivateKey.generate(), tmp_path / "other.pem")
    pem(ec.generate_private_key(ec.SECP256R1()), tmp_path / "curve.pem")
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "d.csv").write_text("x,y\n0.5,1\n0.1,0\n")
    return tmp_path


def release(folder: Path, key: str = "owner.pem", *more: str):
    files = [str(folder / "d.csv"), "-s", str(folder / "s.toml"), "-o", str(folder / "r.ddssp"), "--sign", str(folder / key)]
    return CliRunner().invoke(app, ["release", *files, "-e", "1", "-d", "1e-6", *more])


def info(folder: Path, key: str = "owner.pub"):
    return CliRunner().invoke(app, ["info", str(folder / "r.ddssp"), "--verify", str(folder / key)])


def test_a_signed_release_is_verified_by_the_public_key_and_by_no_other(folder):
    assert release(folder).exit_code == 0
    assert len((folder / "r.ddssp.sig").read_bytes()) == 64
    got = info(folder)
    assert got.exit_code == 0
    assert "matches" in got.stdout
    assert "is not what the key's owner signed" in str(info(folder, "other.pub").exception)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_openssl_agrees(folder):
    release(folder)
    command = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-pubin",
        "-inkey",
        "owner.pub",
        "-rawin",
        "-in",
        "r.ddssp",
        "-sigfile",
        "r.ddssp.sig",
    ]
    got = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if "rawin" in got.stderr:
        pytest.skip("this openssl is too old for Ed25519 files")
    assert got.returncode == 0, got.stderr


def test_one_byte_changed_is_found(folder):
    release(folder)
    content = bytearray((folder / "r.ddssp").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "r.ddssp").write_bytes(content)
    with pytest.raises(SignatureError, match="does not match"):
        require_signed(bytes(content), folder / "r.ddssp", public_key(folder / "owner.pub"))


def test_a_missing_a_short_and_a_long_signature_are_refused(folder):
    release(folder)
    path, key = folder / "r.ddssp", public_key(folder / "owner.pub")
    whole = signature_path(path).read_bytes()
    for signature in (whole[:63], whole + b"\0", b"", b"x" * 10**6):
        signature_path(path).write_bytes(signature)
        with pytest.raises(SignatureError, match="does not match"):
            require_signed(path.read_bytes(), path, key)
    signature_path(path).unlink()
    with pytest.raises(SignatureError, match="cannot be read"):
        require_signed(path.read_bytes(), path, key)


@pytest.mark.parametrize("key", ["curve.pem", "owner.pub", "s.toml", "none.pem"])
def test_a_key_that_cannot_sign_costs_nothing(folder, key):
    got = release(folder, key)
    assert isinstance(got.exception, SignatureError)
    assert not (folder / "r.ddssp").exists()


def test_a_signature_is_not_overwritten_unasked(folder):
    (folder / "r.ddssp.sig").write_bytes(b"mine")
    assert "exists; choose another name" in str(release(folder).exception)
    assert release(folder, "owner.pem", "--force").exit_code == 0


def test_the_key_itself_signs_what_it_is_given(tmp_path, folder):
    sign(b"any bytes", tmp_path / "x", private_key(folder / "owner.pem"))
    require_signed(b"any bytes", tmp_path / "x", public_key(folder / "owner.pub"))


@pytest.mark.parametrize("name", ["r.ddssp", "r.ddssp.sig"])
def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(folder, name):
    release(folder)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    command = [sys.executable, "-m", "ddssp", "info", str(folder / "r.ddssp"), "--verify", str(folder / "owner.pub")]
    got = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert got.returncode == 2
    assert "must be a file, not a pipe or a device" in " ".join(got.stderr.split())


def test_what_is_verified_is_what_is_read(folder, monkeypatch):
    """The file is read once, so it cannot be another one after its signature was checked."""
    release(folder)
    reads = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: reads.append(path.name) or read(path))
    assert info(folder).exit_code == 0
    assert reads.count("r.ddssp") == 1
