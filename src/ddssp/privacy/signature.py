"""Signatures: who made a release, by Ed25519 over the file's bytes.

A signature lies beside its release, `R.ddssp.sig`: 64 bytes that openssl checks as well as this does. The seal inside a release
shows accidents; a signature shows forgery, to whoever has the owner's public key from elsewhere.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddssp import whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class SignatureError(ValueError):
    """A key that cannot be used, or a signature that does not match, in one sentence."""


def signature_path(release: Path) -> Path:
    """Where the signature of a release lies."""
    return release.with_name(release.name + ".sig")


def private_key(path: Path) -> Ed25519PrivateKey:
    """The owner's key, from an unencrypted PEM file (`openssl genpkey -algorithm ed25519`)."""
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = _read(path, "load_pem_private_key", password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"key {str(path)!r} must be of Ed25519; make one with `openssl genpkey -algorithm ed25519`.")
    return key


def public_key(path: Path) -> Ed25519PublicKey:
    """The owner's public key, from a PEM file (`openssl pkey -pubout`)."""
    _require_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = _read(path, "load_pem_public_key")
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"key {str(path)!r} must be a public key of Ed25519; ask the release's owner for it.")
    return key


def sign(content: bytes, release: Path, key: Ed25519PrivateKey) -> Path:
    """The file with the signature of a release's content, written whole or not at all.

    What is signed is what was made, not what lies at its place by now.
    """
    path = signature_path(release)
    whole.write(path, key.sign(content))
    return path


def require_signed(content: bytes, release: Path, key: Ed25519PublicKey) -> None:
    """Refuses the content of a release whose signature is missing, or was not made with the owner's key over these bytes."""
    from cryptography.exceptions import InvalidSignature

    path = signature_path(release)
    try:
        if path.exists() and not path.is_file():
            raise SignatureError(f"signature {str(path)!r} must be a file, not a pipe or a device.")
        with path.open("rb") as file:
            signature = file.read(65)
    except OSError:
        raise SignatureError(f"signature {str(path)!r} cannot be read; ask the release's owner for it.") from None
    try:
        key.verify(signature, content)
    except InvalidSignature:
        raise SignatureError(f"signature {str(path)!r} does not match: this is not what the key's owner signed.") from None


def _require_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise SignatureError("signatures need the package cryptography; install it with `pip install 'ddssp[sign]'`.")


def _read(path: Path, loader: str, **options: Any) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        with path.open("rb") as file:
            return getattr(serialization, loader)(file.read(2**16), **options)
    except OSError as error:
        raise SignatureError(f"key {str(path)!r} cannot be read ({error.strerror}).") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        own = loader == "load_pem_private_key"
        remedy = "make one with `openssl genpkey -algorithm ed25519`" if own else "ask the release's owner for the public one"
        raise SignatureError(f"key {str(path)!r} must be an unencrypted PEM file of Ed25519; {remedy}.") from None
