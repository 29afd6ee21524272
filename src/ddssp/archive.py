"""The container of a release: named members in one sealed file, read with suspicion.

An uncompressed zip of `manifest.json` and `.npy` members without pickles; the archive's comment holds SHA-256 of all bytes
before it, so a file cut short or edited by one byte does not open. The seal is against accidents: whoever edits a file can seal
it again, so nothing that follows trusts what it says. Against forgery there are signatures.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import math
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEAL = b"sha256:"
MANIFEST = "manifest.json"
MAX_MANIFEST = 2**26
"""Bytes of the largest manifest that is read."""

SPARSE, DENSE = 2**19, 8
"""A manifest has at most SPARSE marks of structure, or one in DENSE bytes: a measurement, of which each pair of columns has
one, has 11 in a hundred or more bytes. Each mark may cost its reader a hundred bytes of memory."""

MAX_CELLS = 2**30
"""Cells of the largest array that is read; counting holds a quarter of that at once."""

_ZIP = b"PK\x03\x04"
_NPY = b"\x93NUMPY\x01\x00"


class ReleaseError(ValueError):
    """A release file that cannot be used, in one sentence."""


def packed(members: Mapping[str, bytes]) -> bytes:
    """The members in one sealed file; the same members give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        archive.comment = SEAL + b"0" * 64
    body = buffer.getvalue()[: -len(SEAL) - 64]
    return body + SEAL + hashlib.sha256(body).hexdigest().encode()


def unpacked(data: bytes, allowed: frozenset[str]) -> dict[str, bytes]:
    """The members of a sealed file.

    Guarantees: takes no more memory than the file does; members have the allowed names, each once; nothing is written
    anywhere, so names that point elsewhere point nowhere.
    """
    body, seal = data[: -len(SEAL) - 64], data[-len(SEAL) - 64 :]
    if not (data.startswith(_ZIP) or seal.startswith(SEAL)):
        raise ReleaseError("is not a ddssp release; name a .ddssp file, or fetch it again from its owner.")
    if seal != SEAL + hashlib.sha256(body).hexdigest().encode():
        raise ReleaseError("is damaged or not a release: its checksum does not match; fetch it again from its owner.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check(archive.infolist(), len(data), allowed)
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError, RuntimeError, OverflowError, struct.error) as error:
        if isinstance(error, ReleaseError):
            raise
        raise ReleaseError("is not a release that this version can read.") from None


def _check(entries: list[zipfile.ZipInfo], size: int, allowed: frozenset[str]) -> None:
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ReleaseError("has compressed members, which no release has.")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names) or not set(names) <= allowed or MANIFEST not in names:
        raise ReleaseError("has members that no release has, or the same twice.")
    if sum(entry.file_size for entry in entries) > size:
        raise ReleaseError("has members larger than itself.")


def manifest(content: bytes) -> dict[str, Any]:
    """The manifest's content; an object, of no more than MAX_MANIFEST bytes.

    Guarantees: marks of structure are counted before anything is parsed, so that parsing takes no more memory than for a
    release with as many bytes, within a small factor.
    """
    if len(content) > MAX_MANIFEST:
        raise ReleaseError(f"has a manifest of more than {MAX_MANIFEST:,} bytes.")
    if sum(content.count(mark) for mark in (b"[", b"{", b",", b":")) > max(SPARSE, len(content) // DENSE):
        raise ReleaseError("has a manifest of more parts than any release of its size has.")
    out = json.loads(content)
    if not isinstance(out, dict):
        raise ReleaseError("has a manifest that is no object.")
    return out


def npy(array: NDArray[np.float64]) -> bytes:
    """An array as a `.npy` file of float64."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array, np.float64), allow_pickle=False)
    return buffer.getvalue()


def array(content: bytes) -> NDArray[np.float64]:
    """The array in a `.npy` file of finite float64.

    Guarantees: the shape is compared with the bytes that are there before anything is allocated for it.
    """
    if content[:8] != _NPY or len(content) < 10:
        raise ReleaseError("has numbers in a form that no release has.")
    end = 10 + struct.unpack("<H", content[8:10])[0]
    header = ast.literal_eval(content[10:end].decode("latin1"))
    if set(header) != {"descr", "fortran_order", "shape"} or header["descr"] != "<f8" or header["fortran_order"] is not False:
        raise ReleaseError("has numbers of a type that no release has.")
    shape = sizes(header["shape"])
    if len(content) - end != 8 * math.prod(shape):
        raise ReleaseError("has arrays of another size than they say.")
    out = np.frombuffer(content, "<f8", offset=end).reshape(shape).astype(np.float64)
    if not np.isfinite(out).all():
        raise ReleaseError("has numbers that are not finite.")
    return out


def sizes(shape: Any) -> tuple[int, ...]:
    """A shape of at most two axes and MAX_CELLS cells; an empty axis does not make a long one any shorter."""
    if not isinstance(shape, list | tuple) or len(shape) > 2 or not all(type(m) is int and m >= 0 for m in shape):
        raise ReleaseError("has shapes that no release has.")
    if math.prod(max(m, 1) for m in shape) > MAX_CELLS:
        raise ReleaseError(f"has a shape of more than {MAX_CELLS:,} cells, which no release has.")
    return tuple(shape)
