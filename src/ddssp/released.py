"""Release: all that leaves the building, in one file. Everything after it is post-processing and costs nothing.

A .ddssp file is a sealed archive (`archive.py`) of a manifest and arrays; the manifest holds SHA-256 of each array. What is
read is checked against what its schema implies: names, shapes, numbers, and text that goes to a terminal.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ddssp
from ddssp import archive, whole
from ddssp.archive import ReleaseError as ReleaseError
from ddssp.column import printable
from ddssp.encoding import Encoding
from ddssp.fits import Fits
from ddssp.inference.noise_covariance import BlockNoise, block_noise
from ddssp.inference.psd import assembled
from ddssp.marginal import Measurement, PairMarginals
from ddssp.mechanism import Fitted
from ddssp.moments import Moments, moments
from ddssp.privacy.budget import Budget, Neighbours
from ddssp.privacy.contribution import Contribution
from ddssp.privacy.curator import Link
from ddssp.schema import Schema

FORMAT = 1
MAX_BYTES = 2**31
LARGEST = 1e30
"""No answer and no σ is larger, no σ smaller than its inverse: fits of a file that says otherwise would overflow."""

_ARRAYS = ("measurements.npy", "burt.npy", "theta.npy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Release(Fits):
    """A private release, and what can be fitted from it.

    Args:
        schema: the owner's declaration.
        mechanism: what made it.
        budget: the request (ε, δ); `rho` what was reserved for it.
        measurements: noisy answers and their σ; in the centred encoding (moments) or as marginals (aim).
        marginals: estimated pair marginals, where the mechanism works with tables.
        fitted: the regression itself, where the mechanism made it.
        private: False if the noise was reproducible; such a release is for experiments only.
        entry: dataset, counter and row hash in the owner's ledger, if one was used.
        contribution: the column that names a person and how many of a person's records count, if people are protected.
        provenance: the software that made it, and its version.
    """

    schema: Schema
    mechanism: str
    budget: Budget
    rho: Fraction
    measurements: tuple[Measurement, ...]
    marginals: PairMarginals | None = None
    fitted: Fitted | None = None
    target: str | None = None
    private: bool = True
    entry: dict[str, Any] | None = None
    contribution: Contribution | None = None
    provenance: Mapping[str, str] = field(default_factory=lambda: {"ddssp": ddssp.__version__})

    @cached_property
    def encoding(self) -> Encoding:
        """The centred encoding of its columns; through bins where the release holds tables."""
        return Encoding.centred(self.schema, tables=self.marginals is not None)

    @cached_property
    def moments(self) -> Moments:
        """Z'Z in the centred encoding."""
        if self.marginals is not None:
            sigma = min((m.sigma for m in self.measurements), default=None)
            return replace(moments(self.marginals, self.encoding), sigma=sigma)
        try:
            return assembled(self.measurements, self.encoding)
        except KeyError:
            ready = self.fitted
            instead = "" if ready is None else f"; it answers the {ready.model} one of {ready.target!r} on all columns"
            raise ReleaseError(
                f"this {self.mechanism} release did not measure the products of all columns, which this needs{instead}."
            ) from None

    @cached_property
    def noise(self) -> BlockNoise | None:
        """The noise of the moments; None where tables were estimated, whose error is not known; fails where `moments` does."""
        if self.marginals is not None:
            return None
        _ = self.moments
        return block_noise(self.measurements, self.encoding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._members() == other._members()

    def __hash__(self) -> int:
        return hash(self._members()["manifest.json"])

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Writes the file whole or not at all; refuses to overwrite unless `force`."""
        path = Path(path)
        require_writable(path, force=force)
        whole.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        return archive.packed(self._members())

    def _members(self) -> dict[str, bytes]:
        flat = np.concatenate([m.values.ravel() for m in self.measurements]) if self.measurements else np.zeros(0)
        members = {"measurements.npy": archive.npy(flat)}
        if self.marginals is not None:
            members["burt.npy"] = archive.npy(self.marginals.burt)
        if self.fitted is not None:
            members["theta.npy"] = archive.npy(self.fitted.theta)
        manifest = self.header() | {
            "domain": {name: column.size for name, column in self.schema.resolved.items()},
            "encoding": list(self.encoding.names),
            "measurements": [
                {"clique": list(m.clique), "shape": list(m.values.shape), "sigma": m.sigma} for m in self.measurements
            ],
            "members": {name: hashlib.sha256(content).hexdigest() for name, content in members.items()},
        }
        return {"manifest.json": json.dumps(manifest, indent=1).encode()} | members

    def header(self) -> dict[str, Any]:
        """What a reader should know before using it."""
        return {
            "format": FORMAT,
            "provenance": dict(self.provenance),
            "private": self.private,
            "mechanism": self.mechanism,
            "target": self.target,
            "link": None if self.fitted is None else self.fitted.link.value,
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "rho": str(self.rho),
            "neighbours": (Neighbours.ADD_REMOVE if self.contribution is None else Neighbours.ADD_REMOVE_UNIT).value,
            "unit": self.schema.unit,
            "schema": self.schema.to_dict(),
            "ledger": self.entry,
            **({} if self.fitted is None or not self.fitted.perturbed else {"perturbed": True}),
            **({} if self.contribution is None else {"contribution": asdict(self.contribution)}),
        }


class ExistsError(ReleaseError):
    """An output that exists and may not be replaced; `option` is what its caller passes to allow that."""

    def __init__(self, path: Path, option: str = "force=True") -> None:
        super().__init__(f"output {str(path)!r} exists; choose another name or pass {option}.")
        self.path = path


def require_writable(path: Path, *, force: bool, kinds: tuple[str, ...] = ()) -> None:
    """Refuses an output that exists (unless `force`) or cannot be written, before anything is spent on it.

    Guarantees: where `kinds` are given, `force` replaces no file with another ending: rows, a schema, a ledger.
    """
    if path == Path():
        raise ReleaseError("output must name a file, got '' or '.', which is this folder; name a file in it.")
    if path.is_dir():
        raise ReleaseError(f"output {str(path)!r} is a folder; name a file in it.")
    if path.exists() and not force:
        raise ExistsError(path)
    if path.exists() and kinds and path.suffix.lower() not in kinds:
        raise ReleaseError(
            f"output {str(path)!r} exists and is no {kinds[0]} file; no other kind is ever replaced, choose another name."
        )
    if not path.parent.is_dir():
        raise ReleaseError(f"output folder {str(path.parent)!r} does not exist; create it first.")
    if not os.access(path.parent, os.W_OK):
        raise ReleaseError(f"output folder {str(path.parent)!r} is not writable; choose another.")


def load(path: str | Path) -> Release:
    """The release in a file.

    Guarantees: runs no code from the file, refuses compressed members and anything that is not exactly as it was written.
    """
    return parsed(content(path), path)


def content(path: str | Path) -> bytes:
    """The bytes of a release file; of no more than MAX_BYTES, and of no pipe or device."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ReleaseError(f"release {str(path)!r} is larger than {MAX_BYTES:,} bytes.")
        if path.is_dir():
            raise ReleaseError(f"release {str(path)!r} is a folder; name a .ddssp file in it.")
        if not path.is_file():
            raise ReleaseError(f"release {str(path)!r} must be a file, not a pipe or a device.")
        return path.read_bytes()
    except FileNotFoundError:
        raise ReleaseError(f"release {str(path)!r} does not exist; check its name and folder.") from None
    except OSError as error:
        raise ReleaseError(f"release {str(path)!r} cannot be read: {type(error).__name__}.") from None


def parsed(data: bytes, path: str | Path) -> Release:
    """The release in the bytes that were read from `path`."""
    try:
        return from_bytes(data)
    except ReleaseError as error:
        raise ReleaseError(f"release {str(path)!r} {error}") from None


def from_bytes(data: bytes) -> Release:
    """The release in the bytes of a file."""
    members = archive.unpacked(data, frozenset({archive.MANIFEST, *_ARRAYS}))
    try:
        manifest = archive.manifest(members.pop(archive.MANIFEST))
        if manifest["format"] != FORMAT:
            raise ReleaseError(f"has format {manifest['format']!r:.20}, this version reads format {FORMAT}; upgrade ddssp.")
        if {n: hashlib.sha256(c).hexdigest() for n, c in members.items()} != manifest["members"]:
            raise ReleaseError("has members that are not the ones its manifest lists.")
        return _release(manifest, {name: archive.array(content) for name, content in members.items()})
    except ReleaseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, SyntaxError, RecursionError, MemoryError):
        raise ReleaseError("is not a release that this version can read.") from None


def _release(manifest: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Release:
    schema = Schema.from_dict(manifest["schema"])
    marginals = None
    if "burt.npy" in arrays:
        if not (np.abs(arrays["burt.npy"]) <= LARGEST).all():
            raise ReleaseError("has tables that no release has.")
        marginals = PairMarginals(domain=schema.domain(), burt=arrays["burt.npy"])
    release = Release(
        schema=schema,
        mechanism=_text(manifest["mechanism"]),
        budget=Budget(epsilon=manifest["epsilon"], delta=manifest["delta"]),
        rho=_rho(manifest["rho"]),
        measurements=_measurements(manifest["measurements"], arrays["measurements.npy"]),
        marginals=marginals,
        fitted=_fitted(manifest, arrays),
        target=manifest["target"],
        private=manifest["private"] is True,
        entry=_entry(manifest["ledger"]),
        contribution=_contribution(manifest.get("contribution")),
        provenance={_text(k): _text(v) for k, v in manifest["provenance"].items()},
    )
    if list(release.encoding.names) != manifest["encoding"]:
        raise ReleaseError("has an encoding that does not follow from its schema; upgrade ddssp.")
    if release.target is not None and release.target not in schema.resolved:
        raise ReleaseError("has a target that is no column of its schema.")
    if not all(_suits(m, release) for m in release.measurements):
        raise ReleaseError("has measurements that do not fit its schema.")
    if release.fitted is not None and not _fits(release.fitted, release):
        raise ReleaseError("has coefficients that do not fit its encoding.")
    return release


def _measurements(listed: list[dict[str, Any]], flat: NDArray[np.float64]) -> tuple[Measurement, ...]:
    shapes = [archive.sizes(m["shape"]) for m in listed]
    ends = list(accumulate((math.prod(shape) for shape in shapes), initial=0))
    if flat.ndim != 1 or len(flat) != ends[-1]:
        raise ReleaseError("has measurements of another length than its manifest lists.")
    if not (np.abs(flat) <= LARGEST).all() or not all(1 / LARGEST <= float(m["sigma"]) <= LARGEST for m in listed):
        raise ReleaseError("has measurements that no release has.")
    return tuple(
        Measurement(clique=tuple(m["clique"]), values=flat[a:b].reshape(shape), sigma=float(m["sigma"]))
        for m, shape, (a, b) in zip(listed, shapes, pairwise(ends), strict=True)
    )


def _suits(measurement: Measurement, release: Release) -> bool:
    """Whether a measurement is of columns that the release has, in the shape that they imply."""
    clique, shape = measurement.clique, measurement.values.shape
    if len(clique) > 2 or not all(isinstance(name, str) for name in clique):
        return False
    if release.marginals is not None:
        sizes = release.marginals.domain.sizes
        return all(name in sizes for name in clique) and shape == tuple(sizes[name] for name in clique)
    rows = {column: s.stop - s.start for column, s in release.encoding.slices.items()}
    padded = (None,) * (2 - len(clique)) + clique
    return all(name in rows for name in clique) and shape == tuple(rows[name] for name in padded)


def _text(value: Any) -> str:
    """A short text that a terminal can take."""
    if not (isinstance(value, str) and len(value) <= 200 and printable(value)):
        raise ReleaseError("has texts that no release has.")
    return value


def _rho(value: Any) -> Fraction:
    if not (isinstance(value, str) and re.fullmatch(r"[0-9]{1,60}(/[0-9]{1,60})?", value)):
        raise ReleaseError("has a rho that is no fraction.")
    return Fraction(value)


def _entry(entry: Any) -> dict[str, Any] | None:
    if entry is None:
        return None
    dataset, counter, row = entry["dataset"], entry["counter"], entry["hash"]
    if set(entry) != {"dataset", "counter", "hash"} or type(counter) is not int or not 0 < counter < 2**63:
        raise ReleaseError("has a ledger entry that no ledger gives.")
    return {"dataset": _text(dataset), "counter": counter, "hash": _text(row)}


def _contribution(given: Any) -> Contribution | None:
    return None if given is None else Contribution(column=_text(given["column"]), rows=given["rows"])


def _fits(fitted: Fitted, release: Release) -> bool:
    """Whether the coefficients are finite, one for each row of the other blocks, and their link suits the target."""
    block = release.encoding.block(fitted.target)
    two = block.numerators is not None and block.numerators.shape[1] == 2
    rows = release.encoding.size - block.rows
    suits = block.is_scalar and (two or fitted.link is Link.IDENTITY)
    return suits and fitted.theta.shape == (rows,) and bool((np.abs(fitted.theta) <= LARGEST).all())


def _fitted(manifest: dict[str, Any], arrays: dict[str, NDArray[np.float64]]) -> Fitted | None:
    if "theta.npy" not in arrays:
        return None
    perturbed = manifest.get("perturbed") is True
    return Fitted(target=str(manifest["target"]), link=Link(manifest["link"]), theta=arrays["theta.npy"], perturbed=perturbed)
